%% @doc Does a plain function stop when its caller times out, cancels or dies? Only that function, and
%% does the thread run the next call?
-module(py_interrupt_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_timeout_stops_a_function/1,
    cancellation_stops_a_function/1,
    the_callers_death_stops_a_function/1,
    a_caller_that_dies_at_once/1,
    code_is_stopped/1,
    nothing_is_logged_of_functions_that_end/1,
    a_protected_block_ends_first/1,
    protection_without_an_interrupt/1,
    a_wait_for_erlang_ends/1,
    a_wait_for_a_message_ends/1,
    a_call_into_c_returns_first/1,
    an_interrupt_that_is_refused_comes_again/1,
    an_interrupt_interrupts_what_an_interrupt_began/1,
    an_interrupt_goes_through_erlang_to_the_innermost_call/1,
    an_interrupt_of_the_inner_call_does_not_end_the_outer_one/1,
    a_protected_block_behind_an_interrupt/1,
    a_loop_of_a_function_is_left/1,
    an_interrupt_in_a_finalizer_is_not_lost/1,
    the_conversion_of_the_result_is_stopped/1,
    an_import_in_a_function_is_stopped/1,
    a_plain_generator_is_stopped/1,
    the_end_of_a_generator_is_stopped_later/1,
    an_interrupt_never_hits_the_next_call/1,
    the_thread_serves_the_next_call_soon/1
]).
%% Called in another node.
-export([refused/0, in_finally/0, refused_end/0, next_calls/0, next_call_soon/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    Started = called:begin_suite(Config),
    {ok, _} = py:call(interrupted, release, []),
    Started.

end_per_suite(_Config) -> called:stop().

init_per_testcase(_Case, Config) -> called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    eventually:is(0, fun() -> maps:get(abandoned, py_calls:info()) end),
    called:end_case(Config).

%% What stops it

a_timeout_stops_a_function(_Config) ->
    ?assertEqual({error, timeout}, py:call(interrupted, spin, [], #{}, 50)),
    called:has_noted(<<"spin ended by Interrupted">>),
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])).

cancellation_stops_a_function(_Config) ->
    {ok, Task} = py:submit(interrupted, spin, [<<"task">>]),
    called:has_noted(<<"task begins">>),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    called:has_noted(<<"task ended by Interrupted">>).

the_callers_death_stops_a_function(_Config) ->
    Caller = spawn(fun() -> py:call(interrupted, spin, [<<"call">>], #{}, infinity) end),
    called:has_noted(<<"call begins">>),
    exit(Caller, kill),
    called:has_noted(<<"call ended by Interrupted">>).

%% Before it asks for a monitor, which it does after 2 ms.
a_caller_that_dies_at_once(_Config) ->
    Self = self(),
    _ = [
        begin
            Caller = spawn(fun() -> py:call(interrupted, spin, [<<"call">>], #{}, infinity) end),
            %% Some die before the call is submitted, some after it has begun.
            _ = [erlang:yield() || _ <- lists:seq(1, N)],
            exit(Caller, kill),
            eventually:is(true, fun() -> is_idle(Self) end)
        end
     || N <- lists:seq(1, 40)
    ].

is_idle(_) ->
    #{threads := Threads, idle := Idle, queued := Queued, abandoned := Abandoned} = py_calls:info(),
    {Threads, 0, 0} =:= {Idle, Queued, Abandoned}.

code_is_stopped(_Config) ->
    ?assertEqual({error, timeout}, py:exec("import interrupted\ninterrupted.spin('exec')", 50)),
    called:has_noted(<<"exec ended by Interrupted">>),
    ?assertEqual({error, timeout}, py:eval("[0 for _ in iter(int, 1)]", #{}, 50)),
    eventually:is(0, fun() -> maps:get(abandoned, py_calls:info()) end).

nothing_is_logged_of_functions_that_end(_Config) ->
    ok = log_watch:start(),
    ?assertEqual({error, timeout}, py:call(interrupted, spin, [], #{}, 20)),
    called:has_noted(<<"spin ended by Interrupted">>),
    eventually:is(0, fun() -> maps:get(abandoned, py_calls:info()) end),
    {ok, _} = py:call(called, add, [1, 2]),
    ?assertEqual([], log_watch:texts()),
    log_watch:stop().

%% What delays it

a_protected_block_ends_first(_Config) ->
    {ok, _} = py:call(interrupted, hold, []),
    {ok, Task} = py:submit(interrupted, protected, [self(), <<"x">>]),
    receive
        protected -> ok
    end,
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    {ok, _} = py:call(interrupted, release, []),
    called:has_noted(<<"x: inner outer interrupted">>).

protection_without_an_interrupt(_Config) ->
    ?assertEqual({ok, <<"done">>}, py:call(interrupted, misuse, [])),
    ?assertEqual(
        {ok, <<"done">>},
        py:eval("interrupted.protected_function()", #{})
    ).

a_wait_for_erlang_ends(_Config) ->
    Before = processes_in_sleep(),
    {ok, Task} = py:submit(interrupted, wait_for_erlang, [<<"x">>]),
    eventually:is(1, fun() -> length(processes_in_sleep() -- Before) end),
    ok = py:cancel(Task),
    called:has_noted(<<"x ended by Interrupted">>),
    eventually:is([], fun() -> processes_in_sleep() -- Before end),
    ?assertEqual({error, cancelled}, py:await(Task)).

processes_in_sleep() ->
    [Pid || Pid <- processes(), {current_function, {timer, sleep, 1}} <- [process_info(Pid, current_function)]].

a_wait_for_a_message_ends(_Config) ->
    ?assertEqual({error, timeout}, py:call(interrupted, receive_nothing, [<<"x">>], #{}, 50)),
    called:has_noted(<<"x ended by Interrupted">>).

a_call_into_c_returns_first(_Config) ->
    ?assertEqual({error, timeout}, py:call(interrupted, sleep_then_note, [0.2, <<"x">>], #{}, 20)),
    called:has_noted(<<"x ended by Interrupted">>),
    ?assertEqual({ok, []}, py:call(called, take_events, [])).

an_interrupt_that_is_refused_comes_again(_Config) ->
    called:in_node([{call_warning, 20}], refused, ?MODULE).

refused() ->
    ok = log_watch:start(),
    {ok, _} = py:call(interrupted, release, []),
    ?assertEqual({error, timeout}, py:call(interrupted, refuse, [3, <<"x">>], #{}, 20)),
    called:has_noted(<<"x ended">>),
    called:is_logged("interrupted.refuse is still running 20 ms after"),
    called:is_logged("interrupted.refuse is still running 40 ms after"),
    called:is_logged("in refuse"),
    called:is_logged("interrupted.refuse ended"),
    log_watch:stop().

a_protected_block_behind_an_interrupt(_Config) ->
    {ok, Task} = py:submit(interrupted, protect_in_finally, [<<"x">>]),
    called:has_noted(<<"x begins">>),
    ok = py:cancel(Task),
    called:has_noted(<<"x cleaned up">>).

%% As after Ctrl-C: the other tasks are cancelled, the loop is closed, and all code behind it runs.
a_loop_of_a_function_is_left(_Config) ->
    {ok, _} = py:call(interrupted, release, []),
    _ = [
        begin
            {ok, Task} = py:submit(interrupted, run_loop, [What, <<"x">>]),
            called:has_noted(<<"x begins">>),
            ok = py:cancel(Task),
            Notes = [<<"x closed">>, <<"x ended by Interrupted">>, <<"x other cancelled">>],
            ?assertEqual(Notes, lists:sort(await_notes(3))),
            eventually:is(true, fun() -> is_idle(self()) end)
        end
     || What <- [<<"sleep">>, <<"compute">>, <<"compute_elsewhere">>, <<"callbacks">>]
    ],
    {ok, Protected} = py:submit(interrupted, run_protected_loop, [<<"x">>]),
    called:has_noted(<<"x begins">>),
    ok = py:cancel(Protected),
    ?assertEqual([<<"x finished">>, <<"x ended by Interrupted">>], await_notes(2)),
    ?assertEqual({ok, 3}, py:call(interrupted, run_add, [1, 2])).

%% One within another

an_interrupt_interrupts_what_an_interrupt_began(_Config) ->
    called:in_node([{call_warning, 20}, {call_threads, 1}], in_finally, ?MODULE).

in_finally() ->
    ok = log_watch:start(),
    {ok, _} = py:call(interrupted, release, []),
    ?assertEqual({error, timeout}, py:call(interrupted, spin_in_finally, [3, <<"x">>], #{}, 100)),
    %% An interrupt for each block. The only thread is free after the last one.
    Begun = [<<"x 3 begins">>, <<"x 2 begins">>, <<"x 1 begins">>],
    ?assertEqual(Begun ++ [<<"x ended by 3">>], await_notes(4)),
    called:is_logged("interrupted.spin_in_finally ended"),
    %% None is left for the next call.
    ?assertEqual({ok, <<"undisturbed">>}, py:call(interrupted, interrupts_elsewhere, [])),
    log_watch:stop().

an_interrupt_goes_through_erlang_to_the_innermost_call(_Config) ->
    _ = [
        begin
            {ok, Task} = py:submit(interrupted, nest, [Depth, <<"x">>, none]),
            called:has_noted(<<"x begins">>),
            ok = py:cancel(Task),
            ?assertEqual({error, cancelled}, py:await(Task)),
            Names = [<<"x ended by Interrupted">> | [level(N) || N <- lists:seq(1, Depth)]],
            ?assertEqual(lists:sort(Names), lists:sort(await_notes(Depth + 1))),
            eventually:is(true, fun() -> is_idle(self()) end)
        end
     || Depth <- [1, 2, 5]
    ],
    ?assertEqual({ok, <<"undisturbed">>}, py:call(interrupted, interrupts_elsewhere, [])).

level(N) -> <<"level ", (integer_to_binary(N))/binary, " ended by Interrupted">>.

%% The inner call has a timeout of its own, which the outer one sees as the result of erlang.call.
an_interrupt_of_the_inner_call_does_not_end_the_outer_one(_Config) ->
    _ = [
        begin
            ?assertEqual({ok, {error, timeout}}, py:call(interrupted, nest, [1, <<"x">>, 200])),
            Notes = [<<"level 1 ended by NoneType">>, <<"x begins">>, <<"x ended by Interrupted">>],
            ?assertEqual(Notes, lists:sort(await_notes(3)))
        end
     || _ <- lists:seq(1, 3)
    ].

%% So many, in their order.
await_notes(Count) -> await_notes(Count, []).

await_notes(Count, Notes) when length(Notes) >= Count -> Notes;
await_notes(Count, Notes) ->
    %% Asking again at once would take the GIL from those who note.
    timer:sleep(1),
    {ok, More} = py:call(called, take_events, []),
    await_notes(Count, Notes ++ More).

%% Where it arrives

an_interrupt_in_a_finalizer_is_not_lost(_Config) ->
    ?assertEqual({error, timeout}, py:call(interrupted, spin_in_finalizers, [<<"x">>], #{}, 50)),
    called:has_noted(<<"x ended by Interrupted">>).

the_conversion_of_the_result_is_stopped(_Config) ->
    ?assertEqual({error, timeout}, py:call(interrupted, fail_and_spin, [], #{}, 50)),
    called:has_noted(<<"text ended by Interrupted">>).

an_import_in_a_function_is_stopped(_Config) ->
    _ = [
        begin
            ?assertEqual({error, timeout}, py:call(interrupted, import_and_spin, [Name], #{}, 50)),
            called:has_noted(<<Name/binary, " ended by Interrupted">>),
            ?assertEqual({ok, false}, py:call(interrupted, has_spinning_module, []))
        end
     || Name <- [<<"first">>, <<"second">>]
    ].

a_plain_generator_is_stopped(_Config) ->
    {ok, Stream} = py:stream(interrupted, count_and_spin, [<<"x">>], #{}, #{demand => 5}),
    ?assertEqual([0], streams:await_items(Stream, 1)),
    called:has_noted(<<"x begins">>),
    ok = py:cancel(Stream),
    called:has_noted(<<"x closed">>),
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% Its finally-block runs, but not forever.
the_end_of_a_generator_is_stopped_later(_Config) ->
    called:in_node([{call_warning, 100}], refused_end, ?MODULE).

refused_end() ->
    ok = log_watch:start(),
    {ok, Stream} = py:stream(interrupted, close_and_spin, [<<"x">>], #{}, #{demand => 1}),
    [0] = streams:await_items(Stream, 1),
    ok = py:cancel(Stream),
    called:has_noted(<<"x ended by Interrupted">>),
    called:is_logged("interrupted.close_and_spin is still running 100 ms after"),
    log_watch:stop().

%% All calls on one thread: what is meant for one that has just ended would hit the next.
an_interrupt_never_hits_the_next_call(_Config) ->
    called:in_node([{call_threads, 1}], next_calls, ?MODULE).

next_calls() ->
    {ok, _} = py:call(interrupted, release, []),
    Ends = [
        begin
            %% About when the timeout is: 1 ms.
            Seconds = 0.0005 + 0.00001 * (N rem 100),
            Ended = py:call(interrupted, spin_for, [Seconds], #{}, 1),
            ?assertEqual({ok, <<"undisturbed">>}, py:call(interrupted, interrupts_elsewhere, [])),
            Ended
        end
     || N <- lists:seq(1, 1500)
    ],
    _ = [?assert(lists:member(End, [{ok, <<"done">>}, {error, timeout}]), End) || End <- Ends],
    ?assertEqual({messages, []}, process_info(self(), messages)),
    eventually:is(0, fun() -> maps:get(abandoned, py_calls:info()) end).

the_thread_serves_the_next_call_soon(_Config) ->
    called:in_node([{call_threads, 1}], next_call_soon, ?MODULE).

%% There is no other thread: the next call returns only if the one before has been stopped.
next_call_soon() ->
    {ok, _} = py:call(interrupted, release, []),
    _ = [
        begin
            ?assertEqual({error, timeout}, py:call(interrupted, spin, [], #{}, 5)),
            ?assertEqual({ok, 3}, py:call(called, add, [1, 2], #{}, 60_000))
        end
     || _ <- lists:seq(1, 50)
    ],
    ok.
