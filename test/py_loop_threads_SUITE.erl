%% @doc Which thread does a loop run on, and do loops that share a thread affect each other?
-module(py_loop_threads_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_loop_without_requests_has_no_thread/1,
    a_loop_without_requests_ends/1,
    few_loops_have_a_thread_each/1,
    many_loops_share_threads/1,
    an_own_thread_is_not_shared/1,
    a_caller_dies_while_loops_share_a_thread/1,
    a_stuck_thread_gets_no_more_loops/1,
    a_busy_thread_gets_no_more_loops/1,
    a_loop_on_a_shared_thread_looks_as_on_its_own/1,
    other_loops_run_during_a_turn/1,
    generators_are_finalized_by_their_own_loop/1,
    context_variables_are_the_loops_own/1,
    every_request_finds_context_variables_as_init_code_left_them/1,
    timers_of_many_loops/1,
    fds_of_many_loops/1,
    an_fd_wakes_a_sleeping_loop/1,
    a_writer_that_stays_is_reported_repeatedly/1,
    an_fd_is_reported_while_requests_wake_the_loop/1,
    epoll_sets_that_cannot_be_nested_deeper/1,
    a_loop_that_ends_slowly_blocks_no_other/1,
    loops_that_end_at_once_wait_for_their_turn/1,
    init_code_of_another_loop_on_the_thread_fails/1,
    a_killed_loop_does_not_affect_others_on_its_thread/1,
    loops_come_and_go/1,
    options_are_checked/1,
    waiting_can_be_chosen/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    ok = called:start(),
    ok = py:exec(<<"import loop_probe">>),
    Config.

end_per_suite(_Config) ->
    called:stop().

init_per_testcase(_Case, Config) ->
    ok = py_nif:python_loop_threads(8),
    called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    {ok, _} = py:call(loop_probe, forget, []),
    called:end_case(Config).

%% Who gets which thread

a_loop_without_requests_has_no_thread(_Config) ->
    Before = resources(),
    Loops = start(200, #{}),
    ?assertEqual(Before, resources()),
    ?assertEqual(200, length([L || L <- Loops, {undefined, Pid} <- py_event_loop:which_loops(), L =:= Pid])),
    %% It still exists.
    ?assertMatch({ok, #{queued := 0}}, py_event_loop:info(hd(Loops))),
    ?assertEqual({ok, []}, py_event_loop:tasks(hd(Loops))),
    stop(Loops).

resources() ->
    {leak_check:threads(), length(leak_check:fds())}.

a_loop_without_requests_ends(_Config) ->
    [Stopped, Killed, Shut] = start(3, #{}),
    ?assertEqual({ok, []}, py_event_loop:stop(Stopped)),
    ?assertEqual({error, noproc}, py_event_loop:stop(Stopped)),
    unlink(Killed),
    mortal:kill(Killed),
    ?assertEqual({error, loop_down}, py_event_loop:run(Killed, called, add_later, [1, 2])),
    unlink(Shut),
    exit(Shut, shutdown),
    eventually:is(false, fun() -> is_process_alive(Shut) end),
    ?assertEqual({error, loop_down}, py_event_loop:run(Shut, called, add_later, [1, 2])).

few_loops_have_a_thread_each(_Config) ->
    Loops = start(8, #{}),
    Threads = threads(Loops),
    ?assertEqual(8, length(lists:usort(Threads))),
    stop(Loops).

many_loops_share_threads(_Config) ->
    ok = py_nif:python_loop_threads(2),
    Loops = start(60, #{}),
    Threads = threads(Loops),
    %% Two, unless one was busy when another loop came.
    Different = length(lists:usort(Threads)),
    ?assert(Different >= 2 andalso Different =< 8, Different),
    ?assertEqual(60, lists:sum(py_nif:python_loop_runners())),
    %% For life.
    ?assertEqual(Threads, threads(Loops)),
    stop(Loops),
    eventually:is([], fun() -> py_nif:python_loop_runners() end).

a_caller_dies_while_loops_share_a_thread(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Loops = share_a_thread(2),
    _ = [ok = called:dies_at_once(Loop) || Loop <- Loops, _ <- lists:seq(1, 5)],
    stop(Loops).

an_own_thread_is_not_shared(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Own = start(3, #{thread => own}),
    Shared = share_a_thread(3),
    OwnThreads = lists:usort(threads(Own)),
    ?assertEqual(3, length(OwnThreads)),
    ?assertEqual([], [T || T <- threads(Shared), lists:member(T, OwnThreads)]),
    stop(Own ++ Shared).

a_stuck_thread_gets_no_more_loops(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [Stuck, Neighbour] = share_a_thread(2),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py_event_loop:submit(Stuck, called, block_loop, []),
    %% From here on the other loop waits, too, as documented.
    eventually:is(true, fun() ->
        [Probe] = start(1, #{}),
        Answer = py_event_loop:run(Probe, called, add_later, [1, 2], #{}, 200),
        unlink(Probe),
        exit(Probe, kill),
        Answer =:= {ok, 3}
    end),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    ?assertEqual({ok, 3}, py_event_loop:run(Neighbour, called, add_later, [1, 2])),
    stop([Stuck, Neighbour]).

a_busy_thread_gets_no_more_loops(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [Busy] = start(1, #{}),
    {ok, Thread} = py_event_loop:run(Busy, called, loop_thread, []),
    {ok, Task} = py_event_loop:submit(Busy, loop_probe, be_busy, []),
    eventually:is(true, fun() ->
        [Probe] = start(1, #{}),
        {ok, Its} = py_event_loop:run(Probe, called, loop_thread, []),
        stop([Probe]),
        Its =/= Thread
    end),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    stop([Busy]).

%% What is seen there

a_loop_on_a_shared_thread_looks_as_on_its_own(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Shared = share_a_thread(3),
    [Own] = start(1, #{thread => own}),
    _ = [
        begin
            {ok, Seen} = py_event_loop:run(Loop, loop_probe, surroundings, []),
            ?assertEqual([], [What || {What, false} <- maps:to_list(Seen)])
        end
     || _ <- lists:seq(1, 3), Loop <- [Own | Shared]
    ],
    stop([Own | Shared]).

other_loops_run_during_a_turn(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [One, Two] = share_a_thread(2),
    {ok, none} = py_event_loop:run(One, loop_probe, remember, [<<"one">>]),
    ?assertEqual({ok, true}, py_event_loop:run(Two, loop_probe, is_running_elsewhere, [<<"one">>])),
    _ = [
        ?assertEqual({ok, true}, py_event_loop:run(Two, loop_probe, call_there, [<<"one">>]))
     || _ <- lists:seq(1, 100)
    ],
    stop([One, Two]).

generators_are_finalized_by_their_own_loop(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [One, Two] = share_a_thread(2),
    {ok, none} = py_event_loop:run(One, loop_probe, remember, [<<"one">>]),
    {ok, none} = py_event_loop:run(One, loop_probe, start_generator, [<<"one">>]),
    {ok, none} = py_event_loop:run(Two, loop_probe, drop_generators, []),
    called:has_noted(<<"one: True">>),
    stop([One, Two]).

context_variables_are_the_loops_own(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Neighbours = share_a_thread(2),
    Set = fun(Value) ->
        [Loop] = start(1, #{init => ["import loop_probe; loop_probe.variable.set('", Value, "')"]}),
        Loop
    end,
    [One, Two] = [Set("one"), Set("two")],
    Read = fun(Loop) -> py_event_loop:run(Loop, loop_probe, read_variable, []) end,
    ?assertEqual({ok, <<"one">>}, Read(One)),
    ?assertEqual({ok, <<"two">>}, Read(Two)),
    ?assertEqual({ok, <<"one">>}, Read(One)),
    ?assertEqual({ok, <<"unset">>}, Read(hd(Neighbours))),
    stop([One, Two | Neighbours]).

every_request_finds_context_variables_as_init_code_left_them(_Config) ->
    [Loop] = start(1, #{init => "import loop_probe; loop_probe.variable.set('init')"}),
    Set = fun(Value) -> py_event_loop:run(Loop, loop_probe, set_variable, [Value]) end,
    %% Of one caller, and of more callers than a loop remembers.
    _ = [?assertEqual({ok, <<"init">>}, Set(N)) || N <- lists:seq(1, 5)],
    Ask = fun(N) -> spawn_monitor(fun() -> exit({answer, Set(N)}) end) end,
    _ = [
        receive
            {'DOWN', Monitor, process, Pid, Answer} ->
                ?assertEqual({answer, {ok, <<"init">>}}, Answer)
        end
     || {Pid, Monitor} <- lists:map(Ask, lists:seq(1, 1500))
    ],
    ?assertEqual({ok, <<"init">>}, py_event_loop:run(Loop, loop_probe, read_variable, [])),
    stop([Loop]).

timers_of_many_loops(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Loops = share_a_thread(2) ++ start(48, #{}),
    Tasks = [
        {N, element(2, {ok, _} = py_event_loop:submit(Loop, asyncio, sleep, [N rem 7 / 50, N]))}
     || {N, Loop} <- lists:enumerate(Loops)
    ],
    _ = [?assertEqual({ok, N}, py:await(Task, 10_000)) || {N, Task} <- Tasks],
    stop(Loops).

fds_of_many_loops(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Loops = share_a_thread(2) ++ start(18, #{}),
    Tasks = [element(2, {ok, _} = py_event_loop:submit(L, loop_probe, echo, [50])) || L <- Loops],
    _ = [?assertEqual({ok, 50}, py:await(Task, 30_000)) || Task <- Tasks],
    stop(Loops).

an_fd_wakes_a_sleeping_loop(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [One, Two] = share_a_thread(2),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    _ = [
        begin
            {ok, Task} = py_event_loop:submit(Loop, loop_probe, wait_for_byte, [Read]),
            %% Long enough for the thread to be parked: then the VM's poller has to wake it.
            timer:sleep(30),
            ?assertEqual(timeout, py:yield(Task)),
            ok = py_nif:write_test_fd(Write, <<"x">>),
            ?assertEqual({ok, <<"x">>}, py:await(Task))
        end
     || _ <- lists:seq(1, 5), Loop <- [One, Two]
    ],
    ok = py_nif:close_test_fd(Read),
    ok = py_nif:close_test_fd(Write),
    stop([One, Two]).

%% A request that wakes a parked loop runs before the fds are polled: the VM reports those, or the
%% next wait does, however many requests arrive.
a_writer_that_stays_is_reported_repeatedly(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [One, Two] = share_a_thread(2),
    ?assertEqual({ok, none}, py_event_loop:run(One, loop_probe, write_times, [5], #{}, 30000)),
    stop([One, Two]).

an_fd_is_reported_while_requests_wake_the_loop(_Config) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    _ = [
        begin
            [Loop] = start(1, #{waiting => Waiting}),
            {Asker, Monitor} = spawn_monitor(fun() -> ask_on_and_on(Loop) end),
            _ = [
                begin
                    {ok, Task} = py_event_loop:submit(Loop, loop_probe, wait_for_byte, [Read]),
                    ok = py_nif:write_test_fd(Write, <<"x">>),
                    ?assertEqual({ok, <<"x">>}, py:await(Task))
                end
             || _ <- lists:seq(1, 300)
            ],
            exit(Asker, kill),
            receive
                {'DOWN', Monitor, _, _, Why} -> ?assertEqual(killed, Why)
            end,
            stop([Loop])
        end
     || Waiting <- [beam, #{}]
    ],
    ok = py_nif:close_test_fd(Read),
    ok = py_nif:close_test_fd(Write).

ask_on_and_on(Loop) ->
    {ok, none} = py_event_loop:run(Loop, asyncio, sleep, [0]),
    ask_on_and_on(Loop).

%% The kernel allows chains of five epoll sets: that of a loop and four of a program. No other set,
%% the thread's or the VM's, can watch such a loop; and if the VM watches the loop already, the
%% program's fourth set is refused.
epoll_sets_that_cannot_be_nested_deeper(_Config) ->
    ok = py_nif:python_loop_threads(1),
    hear_nested(share_a_thread(2)),
    hear_nested(start(1, #{})),
    hear_nested(start(1, #{waiting => beam})).

hear_nested([Loop | _] = Loops) ->
    case py_event_loop:run(Loop, loop_probe, watch_nested, [4]) of
        {ok, none} -> hear_without_spinning(Loop);
        {error, #{type := <<"builtins.OSError">>, message := <<"[Errno 40]", _/binary>>}} -> ok
    end,
    stop(Loops).

hear_without_spinning(Loop) ->
    Before = cpu_seconds(),
    timer:sleep(1000),
    ?assert(cpu_seconds() - Before < 0.4),
    ?assertEqual({ok, none}, py_event_loop:run(Loop, loop_probe, hear_nested, [], #{}, 5000)).

%% Of the whole node.
cpu_seconds() ->
    {ok, Seconds} = py:call(time, process_time, []),
    Seconds.

%% Their ends

a_loop_that_ends_slowly_blocks_no_other(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [Slow, Neighbour] = share_a_thread(2, #{patience => 1500}),
    {ok, _} = py_event_loop:submit(Slow, called, refuse_to_end, []),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Slow, called, count_tasks, []) end),
    Self = self(),
    _ = spawn_link(fun() -> Self ! {stopped, py_event_loop:stop(Slow)} end),
    called:has_noted(<<"refused">>),
    _ = [
        ?assertEqual({ok, 3}, py_event_loop:run(Neighbour, called, add_later, [1, 2]))
     || _ <- lists:seq(1, 10)
    ],
    receive
        {stopped, {ok, Left}} -> ?assertMatch([#{name := <<"called.refuse_to_end">>}], Left)
    end,
    receive
        {py_reply, _, {error, loop_down}} -> ok
    end,
    stop([Neighbour]).

%% Together they take longer than one loop may take to end, but their thread makes progress.
loops_that_end_at_once_wait_for_their_turn(_Config) ->
    ok = py_nif:python_loop_threads(1),
    Loops = share_a_thread(200, #{patience => 0}),
    Tasks = [
        element(2, {ok, _} = py_event_loop:submit(Loop, loop_probe, end_after_a_sleep, [0.01]))
     || Loop <- Loops
    ],
    eventually:is({ok, 200}, fun() -> py:call(loop_probe, sleeping, []) end),
    ok = log_watch:start(),
    Monitors = [
        begin
            unlink(Loop),
            exit(Loop, shutdown),
            monitor(process, Loop)
        end
     || Loop <- Loops
    ],
    _ = [receive {'DOWN', Monitor, _, _, Reason} -> ?assertEqual(shutdown, Reason) end || Monitor <- Monitors],
    %% No caller waits for what is still to end, and it ends.
    _ = [?assertMatch({error, _}, py:await(Task)) || Task <- Tasks],
    eventually:is({ok, 0}, fun() -> py:call(loop_probe, sleeping, []) end),
    eventually:is([], fun() -> py_nif:python_loop_runners() end),
    Left = [Text || Text <- log_watch:texts(), string:find(Text, "left behind") =/= nomatch],
    ok = log_watch:stop(),
    ?assertEqual([], Left).

init_code_of_another_loop_on_the_thread_fails(_Config) ->
    _ = process_flag(trap_exit, true),
    ok = py_nif:python_loop_threads(1),
    Neighbours = share_a_thread(2),
    {error, {init_failed, #{message := <<"on purpose">>}}} =
        py_event_loop:start_link(#{init => <<"raise ValueError('on purpose')">>}),
    {error, {init_failed, _}} = py_event_loop:start_link(#{init => <<"raise SystemExit(3)">>}),
    _ = [?assertEqual({ok, 3}, py_event_loop:run(L, called, add_later, [1, 2])) || L <- Neighbours],
    stop(Neighbours),
    flush_exits().

a_killed_loop_does_not_affect_others_on_its_thread(_Config) ->
    ok = py_nif:python_loop_threads(1),
    [Killed | Neighbours] = share_a_thread(3),
    {ok, Task} = py_event_loop:submit(Killed, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    unlink(Killed),
    mortal:kill(Killed),
    ?assertEqual({error, loop_down}, py:await(Task)),
    called:has_noted(<<"x cancelled">>),
    _ = [?assertEqual({ok, 3}, py_event_loop:run(L, called, add_later, [1, 2])) || L <- Neighbours],
    stop(Neighbours).

%% Eight processes start, use and end loops, in and out of order, on two threads.
loops_come_and_go(_Config) ->
    ok = py_nif:python_loop_threads(2),
    Rounds = fun() ->
        lists:foreach(
            fun(N) ->
                {ok, Loop} = py_event_loop:start_link(#{}),
                unlink(Loop),
                {ok, N} = py_event_loop:run(Loop, asyncio, sleep, [0.001, N], #{}, 30_000),
                {ok, _} = py_event_loop:submit(Loop, called, add_later, [1, 2]),
                case N rem 3 of
                    0 -> mortal:kill(Loop);
                    1 -> {ok, []} = py_event_loop:stop(Loop);
                    2 -> exit(Loop, shutdown)
                end
            end,
            lists:seq(1, 30)
        )
    end,
    Workers = [spawn_monitor(Rounds) || _ <- lists:seq(1, 8)],
    _ = [
        receive
            {'DOWN', Monitor, _, Pid, Why} -> ?assertEqual(normal, Why)
        end
     || {Pid, Monitor} <- Workers
    ],
    eventually:is([], fun() -> py_nif:python_loop_runners() end).

%% Options

options_are_checked(_Config) ->
    Bad = fun(Options, What) ->
        ?assertError({bad_option, What, [_ | _]}, py_event_loop:start_link(Options))
    end,
    Bad(#{no_such => 1}, {no_such, 1}),
    Bad([], []),
    Bad(#{name => <<"text">>}, {name, <<"text">>}),
    Bad(#{name => undefined}, {name, undefined}),
    Bad(#{init => 17}, {init, 17}),
    Bad(#{init => <<255>>}, {init, <<255>>}),
    Bad(#{isolated => false}, {isolated, false}),
    Bad(#{thread => mine}, {thread, mine}),
    Bad(#{max_queue => 0}, {max_queue, 0}),
    Bad(#{patience => infinity}, {patience, infinity}),
    Bad(#{waiting => none}, {waiting, none}),
    Bad(#{waiting => #{spin => -1}}, {waiting, #{spin => -1}}),
    Bad(#{waiting => #{warm => 1.5}}, {waiting, #{warm => 1.5}}),
    Bad(#{waiting => #{park => 1}}, {waiting, #{park => 1}}),
    Bad(#{thread => shared, waiting => beam}, {thread, shared}).

waiting_can_be_chosen(_Config) ->
    _ = [
        begin
            [Loop] = start(1, #{isolated => true, waiting => Waiting}),
            _ = [
                ?assertEqual({ok, N}, py_event_loop:run(Loop, asyncio, sleep, [0.002, N]))
             || N <- lists:seq(1, 5)
            ],
            {ok, Counters} = py_event_loop:run(Loop, loop_probe, counters, []),
            ?assertEqual(Waiting =:= beam, maps:get(<<"polls">>, Counters) =:= 0),
            stop([Loop])
        end
     || Waiting <- [beam, #{spin => 0}, #{warm => 20}, #{spin => 50, warm => 1}, #{}]
    ].

%% The pieces

start(Count, Options) ->
    [element(2, {ok, _} = py_event_loop:start_link(Options)) || _ <- lists:seq(1, Count)].

%% This many loops on the same thread. A thread that is busy for a moment gets none, so it
%% may take more than one attempt.
share_a_thread(Count) ->
    share_a_thread(Count, #{}).

share_a_thread(Count, Options) ->
    Loops = start(Count, Options),
    case lists:usort(threads(Loops)) of
        [_] ->
            Loops;
        _ ->
            stop(Loops),
            eventually:is([], fun() -> py_nif:python_loop_runners() end),
            share_a_thread(Count, Options)
    end.

threads(Loops) ->
    [element(2, {ok, _} = py_event_loop:run(Loop, called, loop_thread, [])) || Loop <- Loops].

stop(Loops) ->
    _ = [?assertEqual({ok, []}, py_event_loop:stop(Loop)) || Loop <- Loops],
    ok.

flush_exits() ->
    receive
        {'EXIT', _, _} -> flush_exits()
    after 0 -> ok
    end.
