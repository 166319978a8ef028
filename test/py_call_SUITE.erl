%% @doc Does a call return its result, whatever is called and whatever goes wrong? Does a timeout
%% stop the work?
-module(py_call_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_function_is_called/1,
    names_are_atoms_binaries_or_strings/1,
    the_same_function_by_other_names/1,
    a_method_is_called_by_its_dotted_name/1,
    keyword_arguments/1,
    arguments_of_all_kinds_in_any_number/1,
    a_coroutine_is_awaited/1,
    any_awaitable_is_awaited/1,
    a_plain_function_never_runs_on_a_loop/1,
    context_variables_are_the_calls_own/1,
    a_function_that_becomes_a_coroutine_function/1,
    eval_and_exec_share_a_module/1,
    an_expression_may_be_a_coroutine/1,
    a_missing_module_or_function/1,
    a_wrong_number_of_arguments/1,
    an_exception/1,
    an_unconvertible_result/1,
    an_unconvertible_argument/1,
    a_syntax_error/1,
    system_exit_ends_neither_thread_nor_loop/1,
    wrong_types_raise/1,
    a_timeout_cancels_the_coroutine/1,
    a_timeout_of_a_function_that_blocks_in_c/1,
    a_function_that_still_runs_is_reported/1,
    a_timeout_leaves_no_message_behind/1,
    a_reply_that_races_its_timeout/1,
    the_callers_death_cancels_the_coroutine/1,
    a_queued_call_of_a_dead_caller_never_runs/1,
    a_blocked_function_blocks_no_other_caller/1,
    a_computing_function_blocks_no_other_caller/1,
    threads_have_a_limit/1,
    idle_threads_end/1,
    threads_end_though_calls_go_on/1,
    a_full_queue_is_overload/1,
    a_cast_runs_and_its_failure_is_logged/1,
    a_cast_outlives_its_caller/1,
    the_mailbox_is_not_searched/1,
    many_callers_at_once/1,
    without_the_application/1
]).
%% Called in another node.
-export([overload/0, too_many_blocked/0, still_running/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    ok = called:settle(),
    receive
        Stray -> {fail, {stray_message, Stray}}
    after 0 -> leak_check:end_case(Config)
    end.

%% What can be called

a_function_is_called(_Config) ->
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])),
    ?assertEqual({ok, 4.0}, py:call(math, sqrt, [16])).

%% Functions are remembered by name, as atom or as text: none may be taken for another.
the_same_function_by_other_names(_Config) ->
    Kinds = fun(Name) -> [Name, atom_to_binary(Name), atom_to_list(Name)] end,
    lists:foreach(
        fun({Module, Function, Argument, Answer}) ->
            _ = [
                ?assertEqual({ok, Answer}, py:call(M, F, [Argument]))
             || M <- Kinds(Module), F <- Kinds(Function), _ <- [first, again]
            ]
        end,
        [
            {posixpath, basename, <<"a/b\\c">>, <<"b\\c">>},
            {ntpath, basename, <<"a/b\\c">>, <<"c">>},
            {ntpath, normcase, <<"A">>, <<"a">>},
            {posixpath, normcase, <<"A">>, <<"A">>}
        ]
    ),
    ?assertError(badarg, py:call(<<255>>, basename, [<<"a">>])),
    ?assertError(badarg, py:call(<<255>>, basename, [<<"a">>])).

names_are_atoms_binaries_or_strings(_Config) ->
    ?assertEqual({ok, 3}, py:call(<<"called">>, "add", [1, 2])),
    ?assertMatch({ok, <<_/binary>>}, py:call("os.path", <<"basename">>, [<<"a/b">>])),
    ?assertEqual({ok, <<"b">>}, py:call('os.path', basename, [<<"a/b">>])).

a_method_is_called_by_its_dotted_name(_Config) ->
    ?assertEqual({ok, <<"hello you">>}, py:call(called, "Greeter.greet", [<<"you">>])),
    _ = [
        ?assertEqual({ok, <<"later you">>}, py:call(called, "Greeter.greet_later", [<<"you">>]))
     || _ <- [1, 2, 3]
    ].

keyword_arguments(_Config) ->
    ?assertEqual({ok, 22}, py:call(called, add, [1], #{times => 2})),
    ?assertEqual({ok, 6}, py:call(called, add, [1], #{times => 2, <<"b">> => 2})),
    ?assertEqual({ok, 6}, py:call(called, add, [1], #{times => 2, b => 2}, 1000)),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1], #{b => 2})),
    %% One of them was dropped.
    Twice = #{b => 2, <<"b">> => 3},
    called:is_error("TypeError", "two keywords are named 'b'", py:call(called, add, [1], Twice)),
    called:is_error("TypeError", "two keywords are named 'b'", py:eval(<<"b">>, Twice)).

%% Few numbers and atoms go another way than other arguments, and more than a few.
arguments_of_all_kinds_in_any_number(_Config) ->
    Kinds = [
        {0, 0},
        {-1, -1},
        {1 bsl 63 - 1, 1 bsl 63 - 1},
        {-(1 bsl 63), -(1 bsl 63)},
        {1 bsl 63, 1 bsl 63},
        {2.5, 2.5},
        {an_atom, an_atom},
        {true, true},
        {none, none},
        {<<"text">>, <<"text">>},
        {[1, [2]], [1, [2]]},
        {{1, a}, {1, a}}
    ],
    Check = fun(Sent, Got) ->
        ?assertEqual({ok, list_to_tuple(Got)}, py:call(called, arguments, Sent)),
        ?assertEqual(
            {ok, list_to_tuple(Got)}, py:call(called, arguments, Sent, #{last => false})
        ),
        ?assertEqual({ok, list_to_tuple(Got)}, py:call(called, arguments_later, Sent))
    end,
    _ = [Check([Sent], [Got]) || {Sent, Got} <- Kinds],
    _ = [Check([A, B], [C, D]) || {A, C} <- Kinds, {B, D} <- Kinds],
    _ = [
        Check([element(1, Kind) || Kind <- Few], [element(2, Kind) || Kind <- Few])
     || N <- lists:seq(0, length(Kinds)), Few <- [lists:sublist(Kinds, N)]
    ],
    ?assertError(badarg, py:call(called, arguments, [1 | 2])).

a_coroutine_is_awaited(_Config) ->
    _ = [?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])) || _ <- [1, 2, 3]].

any_awaitable_is_awaited(_Config) ->
    ?assertEqual({ok, <<"awaited">>}, py:call(called, make_awaitable, [])).

a_plain_function_never_runs_on_a_loop(_Config) ->
    {ok, Loop} = py:call(called, loop_thread, []),
    {ok, Loop} = py:call(called, loop_thread, []),
    {ok, Thread} = py:call(called, thread_name, []),
    ?assertNotEqual(Loop, Thread),
    ?assertEqual({ok, false}, py:call(called, has_running_loop, [])).

%% Previously they stayed with the thread, and the next call of any process found them.
context_variables_are_the_calls_own(_Config) ->
    Swap = fun(N) -> py:call(called, swap_variable, [N]) end,
    ?assertEqual([{ok, 0} || _ <- lists:seq(1, 5)], [Swap(N) || N <- lists:seq(1, 5)]),
    %% Two streams in turns on the same thread, one item at a time.
    Streams = [
        {N, element(2, {ok, _} = py:stream(called, iterate_in_context, [N, 3]))}
     || N <- [1, 2]
    ],
    Items = [
        begin
            ok = py:demand(Stream, 1),
            receive
                {py_stream, Stream, {data, Item}} -> {N, Item}
            end
        end
     || _ <- lists:seq(1, 3), {N, Stream} <- Streams
    ],
    ?assertEqual(lists:append(lists:duplicate(3, [{1, 1}, {2, 2}])), Items),
    ?assertEqual({ok, 0}, Swap(1)),
    [
        begin
            ok = py:demand(Stream, 1),
            receive
                {py_stream, Stream, done} -> ok
            end
        end
     || {_, Stream} <- Streams
    ].

a_function_that_becomes_a_coroutine_function(_Config) ->
    ?assertEqual({ok, <<"plain">>}, py:call(called, changing, [])),
    Becomes = fun(Make, Kind) ->
        {ok, _} = py:call(called, Make, []),
        _ = [?assertEqual({ok, Kind}, py:call(called, changing, [])) || _ <- [1, 2, 3]]
    end,
    %% Twice: what the first call found out must not replace the check.
    _ = [
        begin
            Becomes(make_changing_async, <<"coroutine">>),
            Becomes(make_changing_plain, <<"plain">>)
        end
     || _ <- [1, 2]
    ],
    ok.

eval_and_exec_share_a_module(_Config) ->
    ?assertEqual(ok, py:exec(<<"def double(x):\n    return 2 * x\n\nsize = 21">>)),
    ?assertEqual({ok, 42}, py:eval(<<"double(size)">>)),
    ?assertEqual({ok, 8}, py:eval("double(other)", #{other => 4})),
    ?assertEqual({ok, 42}, py:call(erlang_loop_shell, double, [21])),
    ?assertMatch({error, #{type := _}}, py:eval(<<"other">>)).

an_expression_may_be_a_coroutine(_Config) ->
    ok = py:exec(<<"import asyncio">>),
    ?assertEqual({ok, 7}, py:eval(<<"asyncio.sleep(0.001, 7)">>)).

%% What can go wrong

a_missing_module_or_function(_Config) ->
    _ = [
        begin
            called:is_error("ModuleNotFoundError", "no_such", py:call(no_such, f, [])),
            called:is_error("AttributeError", "no_such", py:call(called, no_such, [])),
            called:is_error("AttributeError", "no_such", py:call(called, "Greeter.no_such", []))
        end
     || _ <- [1, 2]
    ].

a_wrong_number_of_arguments(_Config) ->
    called:is_error("TypeError", "add", py:call(called, add, [])),
    called:is_error("TypeError", "add", py:call(called, add, [1, 2, 3])),
    _ = [called:is_error("TypeError", "add_later", py:call(called, add_later, [])) || _ <- [1, 2]].

an_exception(_Config) ->
    called:is_error("ValueError", "on purpose", py:call(called, fail, [<<"on purpose">>])),
    _ = [
        called:is_error("ValueError", "later", py:call(called, fail_later, [<<"later">>]))
     || _ <- [1, 2]
    ].

an_unconvertible_result(_Config) ->
    %% A lock has no meaning in Erlang. Converters that answer a handle for it are right too.
    case py:call(called, unconvertible, []) of
        {error, #{type := _}} -> ok;
        {ok, Handle} -> ?assertNot(is_atom(Handle))
    end.

an_unconvertible_argument(_Config) ->
    ?assertMatch({error, #{type := _}}, py:call(called, fail, [[1 | 2]])),
    ?assertMatch({error, #{type := _}}, py:call(called, add_later, [[1 | 2]])).

a_syntax_error(_Config) ->
    called:is_error("SyntaxError", "", py:eval(<<"1 +">>)),
    called:is_error("SyntaxError", "", py:exec(<<"def">>)).

system_exit_ends_neither_thread_nor_loop(_Config) ->
    Default = whereis(py_default_loop),
    called:is_error("SystemExit", "3", py:call(called, leave, [3])),
    called:is_error("KeyboardInterrupt", "", py:call(called, interrupt, [])),
    _ = [
        begin
            called:is_error("SystemExit", "4", py:call(called, leave_later, [4])),
            called:is_error("KeyboardInterrupt", "", py:call(called, interrupt_later, [])),
            ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2]))
        end
     || _ <- [1, 2]
    ],
    ?assertEqual(Default, whereis(py_default_loop)).

wrong_types_raise(_Config) ->
    ?assertError(badarg, py:call(1, f, [])),
    ?assertError(badarg, py:call(m, {f}, [])),
    ?assertError(badarg, py:call(m, f, not_a_list)),
    ?assertError(badarg, py:call(m, f, [improper | list])),
    ?assertError(badarg, py:call(m, f, [], [])),
    ?assertError(badarg, py:call(<<255>>, f, [])),
    ?assertError(badarg, py:call([-1], f, [])),
    ?assertError(badarg, py:eval(<<"1">>, not_a_map)),
    %% These were called, and no process received the result.
    _ = [
        ?assertError(badarg, py:call(called, sleep, [0.05], #{}, Timeout))
     || Timeout <- [-1, 1.5, soon, 1 bsl 32]
    ],
    ?assertEqual({error, timeout}, py:call(called, sleep, [0.1], #{}, 20)),
    receive
        {py_reply, _, _} = Stray -> ct:fail(Stray)
    after 200 -> ok
    end.

%% Callers that no longer wait

a_timeout_cancels_the_coroutine(_Config) ->
    _ = [
        begin
            Name = integer_to_binary(N),
            ?assertEqual({error, timeout}, py:call(called, wait_forever, [Name], #{}, 50)),
            called:has_noted(<<Name/binary, " cancelled">>)
        end
     || N <- [1, 2]
    ].

a_timeout_of_a_function_that_blocks_in_c(_Config) ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    ?assertEqual({error, timeout}, py:call(called, block, [], #{}, 20)),
    %% It waits in C, which cannot be interrupted.
    ?assertMatch(#{abandoned := 1}, py_calls:info()),
    {ok, _} = py:call(called, release, []),
    eventually:is(0, fun() -> maps:get(abandoned, py_calls:info()) end),
    %% That was soon enough.
    ?assertEqual([], log_watch:texts()),
    ok = log_watch:stop().

a_function_that_still_runs_is_reported(_Config) ->
    called:in_node([{call_warning, 20}], still_running, ?MODULE).

still_running() ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    ?assertEqual({error, timeout}, py:call(called, block, [], #{}, 20)),
    called:is_logged("called.block is still running 20 ms after"),
    called:is_logged("in block"),
    {ok, _} = py:call(called, release, []),
    called:is_logged("called.block ended"),
    log_watch:stop().

a_timeout_leaves_no_message_behind(_Config) ->
    {ok, _} = py:call(called, hold, []),
    ?assertEqual({error, timeout}, py:call(called, block, [], #{}, 10)),
    ?assertEqual({error, timeout}, py:call(asyncio, sleep, [3600], #{}, 10)),
    {ok, _} = py:call(called, release, []),
    %% Time for what must not come.
    timer:sleep(200),
    ?assertEqual({messages, []}, process_info(self(), messages)).

a_reply_that_races_its_timeout(_Config) ->
    Answers = [
        {py:call(called, sleep, [0.001], #{}, 1), py:call(asyncio, sleep, [0.001], #{}, 1)}
     || _ <- lists:seq(1, 300)
    ],
    _ = [
        ?assert(lists:member(Answer, [{error, timeout}, {ok, <<"slept">>}]))
     || {Answer, _} <- Answers
    ],
    {ok, _} = py:call(called, take_events, []),
    %% Time for what must not come.
    timer:sleep(50),
    ?assertEqual({messages, []}, process_info(self(), messages)).

the_callers_death_cancels_the_coroutine(_Config) ->
    Pid = spawn(fun() -> py:call(called, wait_forever, [<<"x">>], #{}, infinity) end),
    called:has_noted(<<"x started">>),
    mortal:kill(Pid),
    called:has_noted(<<"x cancelled">>).

a_queued_call_of_a_dead_caller_never_runs(_Config) ->
    {ok, _} = py:call(called, hold, []),
    {Blocked, _} = spawn_monitor(fun() -> py:call(called, block, [], #{}, infinity) end),
    Pids = [
        spawn(fun() -> py:call(called, note, [<<"ran">>], #{}, infinity) end)
     || _ <- lists:seq(1, 10)
    ],
    _ = [mortal:kill(Pid) || Pid <- Pids],
    {ok, _} = py:call(called, release, []),
    receive
        {'DOWN', _, _, Blocked, _} -> ok
    end,
    %% Some may have been taken before their caller died; nothing hangs and nothing is left.
    ?assertMatch({ok, _}, py:call(called, take_events, [])).

%% Threads

a_blocked_function_blocks_no_other_caller(_Config) ->
    {ok, _} = py:call(called, hold, []),
    Tasks = blocked(5),
    _ = [?assertEqual({ok, 3}, py:call(called, add, [1, 2], #{}, 20_000)) || _ <- lists:seq(1, 5)],
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2], #{}, 20_000)),
    {ok, _} = py:call(called, release, []),
    _ = [?assertEqual({ok, <<"released">>}, py:await(Task)) || Task <- Tasks].

blocked(Count) ->
    [element(2, {ok, _} = py:submit(called, block, [])) || _ <- lists:seq(1, Count)].

a_computing_function_blocks_no_other_caller(_Config) ->
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py:submit(called, compute_until_released, []),
    ok = called:is_blocked(),
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2], #{}, 60_000)),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2], #{}, 60_000)),
    ?assertEqual(timeout, py:yield(Task)),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task, 60_000)).

threads_have_a_limit(_Config) ->
    called:in_node([{call_threads, 3}], too_many_blocked, ?MODULE).

too_many_blocked() ->
    {ok, _} = py:call(called, hold, []),
    Tasks = blocked(3),
    eventually:is(3, fun() -> maps:get(threads, py_calls:info()) end),
    ?assertEqual({error, timeout}, py:call(called, add, [1, 2], #{}, 100)),
    %% Coroutines have a thread of their own, if their function is known.
    {ok, Loop} = py_event_loop:start_link(#{init => <<"import called; called.release()">>}),
    _ = [?assertEqual({ok, <<"released">>}, py:await(Task)) || Task <- Tasks],
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])),
    {ok, []} = py_event_loop:stop(Loop),
    ok.

idle_threads_end(_Config) ->
    ok = many_threads(),
    eventually:is(1, fun() -> maps:get(threads, py_calls:info()) end).

many_threads() ->
    {ok, _} = py:call(called, hold, []),
    Tasks = blocked(6),
    eventually:is(true, fun() -> maps:get(threads, py_calls:info()) >= 6 end),
    {ok, _} = py:call(called, release, []),
    _ = [?assertEqual({ok, <<"released">>}, py:await(Task)) || Task <- Tasks],
    ok.

threads_end_though_calls_go_on(_Config) ->
    ok = many_threads(),
    Callers = [spawn_link(fun call_on/0) || _ <- lists:seq(1, 100)],
    %% One is enough; there may be a second, for a call that took long on a busy machine.
    eventually:is(true, fun() -> maps:get(threads, py_calls:info()) =< 2 end),
    _ = [
        begin
            unlink(Caller),
            exit(Caller, kill)
        end
     || Caller <- Callers
    ],
    ok.

call_on() ->
    {ok, 3} = py:call(called, add, [1, 2]),
    call_on().

a_full_queue_is_overload(_Config) ->
    called:in_node([{call_threads, 1}, {call_queue, 10}], overload, ?MODULE).

overload() ->
    {ok, _} = py:call(called, hold, []),
    {ok, First} = py:submit(called, block, []),
    eventually:is(0, fun() -> maps:get(queued, py_calls:info()) end),
    Answers = [py:submit(called, add, [1, 2]) || _ <- lists:seq(1, 15)],
    {Tasks, Refused} = lists:partition(fun(Answer) -> element(1, Answer) =:= ok end, Answers),
    ?assertEqual(10, length(Tasks)),
    ?assertEqual([{error, overload}], lists:usort(Refused)),
    ?assertEqual({error, overload}, py:call(called, add, [1, 2])),
    ?assertEqual({error, overload}, py:cast(called, add, [1, 2])),
    ?assertEqual({error, overload}, py:stream(builtins, range, [1, 2])),
    ?assertEqual({error, overload}, py:eval(<<"1">>)),
    {ok, Loop} = py_event_loop:start_link(#{init => <<"import called; called.release()">>}),
    ?assertEqual({ok, <<"released">>}, py:await(First)),
    _ = [?assertEqual({ok, 3}, py:await(Task)) || {ok, Task} <- Tasks],
    {ok, []} = py_event_loop:stop(Loop),
    ok.

%% Casts

a_cast_runs_and_its_failure_is_logged(_Config) ->
    ok = log_watch:start(),
    ?assertEqual(ok, py:cast(called, note, [<<"cast">>])),
    called:has_noted(<<"cast">>),
    ok = py:cast(called, fail, [<<"plain cast">>]),
    called:is_logged("plain cast"),
    ok = py:cast(called, fail_later, [<<"later cast">>]),
    called:is_logged("later cast"),
    ok = log_watch:stop().

a_cast_outlives_its_caller(_Config) ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok = py:cast(called, sleep, [0.05]),
                                            ok = py:cast(called, note, [<<"after">>]) end),
    receive
        {'DOWN', Monitor, _, Pid, normal} -> ok
    end,
    called:has_noted(<<"after">>).

%% Many

the_mailbox_is_not_searched(_Config) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        _ = [self() ! N || N <- lists:seq(1, 200_000)],
        {reductions, Before} = process_info(self(), reductions),
        _ = [{ok, 3} = py:call(called, add, [1, 2]) || _ <- lists:seq(1, 100)],
        {reductions, After} = process_info(self(), reductions),
        Self ! {took, After - Before}
    end),
    receive
        %% To pass over a message is a reduction: a hundred searches would take 20,000,000.
        {took, Reductions} -> ?assert(Reductions < 2_000_000, Reductions)
    end,
    receive
        {'DOWN', Monitor, _, Pid, _} -> ok
    end.

many_callers_at_once(_Config) ->
    Callers = [
        spawn_monitor(fun() ->
            _ = [
                begin
                    {ok, N} = py:call(called, add, [N, 0]),
                    {ok, N} = py:call(called, add_later, [N, 0])
                end
             || N <- lists:seq(1, 20)
            ]
        end)
     || _ <- lists:seq(1, 200)
    ],
    _ = [
        receive
            {'DOWN', Monitor, _, Pid, Reason} -> ?assertEqual(normal, Reason)
        end
     || {Pid, Monitor} <- Callers
    ].

without_the_application(_Config) ->
    ok = application:stop(erlang_loop),
    try
        eventually:is({error, not_started}, fun() -> py:call(called, add, [1, 2]) end)
    after
        {ok, _} = application:ensure_all_started(erlang_loop)
    end,
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])).
