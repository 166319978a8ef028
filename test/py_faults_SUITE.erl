%% @doc Does a node survive faults? docs/faults.md has the whole list with its tests; here are those
%% that belong to no other suite: deaths at random under load, a hundred restarts,
%% the end of the node in the middle of work.
-module(py_faults_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2,
    calls_after_the_top_supervisor_was_killed/1,
    calls_before_the_application_starts/1
]).
-export([killed_top_supervisor/0, start_trapping/2]).
-export([
    deaths_at_random_under_load/1,
    the_application_restarts_100_times/1,
    init_stop_with_busy_loops/1,
    a_storm_of_cancels/1,
    a_callback_that_never_returns/1,
    blocked_code_occupies_no_dirty_scheduler/1,
    loops_that_end_leave_others_alone/1,
    a_hundred_killed_loops_leave_nothing/1,
    ten_thousand_callers_at_once/1,
    fifty_thousand_processes_with_a_sleeping_task_each/1,
    every_fault_has_its_test/1
]).

suite() -> [{timetrap, {minutes, 5}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(Case, Config) when Case =:= every_fault_has_its_test ->
    Config;
init_per_testcase(_Case, Config) ->
    ok = called:start(),
    leak_check:begin_case(Config).

end_per_testcase(Case, _Config) when Case =:= every_fault_has_its_test ->
    ok;
end_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    ok = called:start(),
    ok = called:settle(),
    leak_check:end_case(Config).

%% Callers submit requests all the time; now and then one of the processes below dies. A reply is
%% right, or the error that says what died; no caller waits forever, and nothing is left.
deaths_at_random_under_load(_Config) ->
    Seed = erlang:system_time(microsecond),
    ct:pal("seed ~p", [Seed]),
    _ = rand:seed(exsss, Seed),
    Victims = [
        py_event_router, py_signals, py_interpreter, py_calls, py_default_loop, py_event_loop_sup,
        py_event_worker_sup, py_watchdog
    ],
    Self = self(),
    Callers = [spawn_link(fun() -> call_until_told(Self, N, #{}) end) || N <- lists:seq(1, 20)],
    Deaths = [
        begin
            %% Long enough for some work between two deaths, and all of them few enough for the
            %% supervisor, which ends at 30 in ten seconds.
            timer:sleep(rand:uniform(120)),
            Victim = lists:nth(rand:uniform(length(Victims)), Victims),
            case whereis(Victim) of
                undefined -> none;
                Pid -> exit(Pid, kill), Victim
            end
        end
     || _ <- lists:seq(1, 25)
    ],
    _ = [Caller ! stop || Caller <- Callers],
    Counts = [
        receive
            {Caller, Count} -> Count
        after 30_000 -> error({hangs, Caller, process_info(Caller, current_stacktrace)})
        end
     || Caller <- Callers
    ],
    Sum = lists:foldl(
        fun(Count, Sum) -> maps:merge_with(fun(_, A, B) -> A + B end, Count, Sum) end, #{}, Counts
    ),
    ct:pal("~p deaths, ~p", [length([D || D <- Deaths, D =/= none]), Sum]),
    ?assert(maps:get(answered, Sum) > 100),
    ?assertEqual([], maps:keys(Sum) -- [answered, loop_down, not_started]),
    eventually:is({ok, 3}, fun() -> py:call(called, add_later, [1, 2]) end).

call_until_told(Parent, Number, Count) ->
    receive
        stop -> Parent ! {self(), Count}
    after 0 ->
        Function = lists:nth(1 + Number rem 2, [add, add_later]),
        Outcome =
            case py:call(called, Function, [Number, 1], #{}, 60_000) of
                {ok, Sum} when Sum =:= Number + 1 -> answered;
                {error, Reason} when is_atom(Reason) -> Reason
            end,
        call_until_told(Parent, Number, maps:update_with(Outcome, fun(N) -> N + 1 end, 1, Count))
    end.

the_application_restarts_100_times(_Config) ->
    lists:foreach(
        fun(Round) ->
            ok = application:stop(erlang_loop),
            {ok, _} = application:ensure_all_started(erlang_loop),
            ?assertEqual({ok, Round + 1}, py:call(called, add_later, [Round, 1]))
        end,
        lists:seq(1, 100)
    ).

%% The node ends, and quickly, whatever Python does: one loop computes, one sleeps in C, one waits.
%% No event shows that all have begun, because the last one keeps the GIL: wait for a moment.
init_stop_with_busy_loops(_Config) ->
    Code =
        "{ok, _} = application:ensure_all_started(erlang_loop),"
        "ok = py:exec(<<\"import sys; sys.path.insert(0, '" ++ project:file("test/support/python") ++
            "')\">>),"
            "Start = fun(F, A) -> {ok, L} = py_event_loop:start_link(#{}),"
            "  {ok, _} = py_event_loop:submit(L, called, F, A) end,"
            "Start(spin_forever, []), Start(sleep_on_the_loop, [3600]),"
            "Start(wait_forever, [<<\"x\">>]), Start(count_in_c, [1 bsl 60]),"
            "receive after 300 -> init:stop() end.",
    {Status, Printed} = other_node:run(Code),
    ?assertEqual({0, []}, {Status, [L || L <- string:split(Printed, "\n", all), crash(L)]}).

crash(Line) ->
    lists:any(fun(T) -> string:find(Line, T) =/= nomatch end, ["crash", "Segmentation", "panicked"]).

%% Requests that are cancelled before, while and after they run, by their callers and by others.
a_storm_of_cancels(_Config) ->
    Tasks = [
        begin
            {ok, Task} = py:submit(called, add_later, [N, 1]),
            _ = N rem 3 =:= 0 andalso py:cancel(Task),
            _ = N rem 5 =:= 0 andalso spawn(fun() -> py:cancel(Task) end),
            {N, Task}
        end
     || N <- lists:seq(1, 3000)
    ],
    _ = [py:cancel(Task) || {N, Task} <- Tasks, N rem 2 =:= 0],
    Answers = [{N, py:await(Task, 60_000)} || {N, Task} <- Tasks],
    Wrong = [A || {N, Got} = A <- Answers, Got =/= {ok, N + 1}, Got =/= {error, cancelled}],
    ?assertEqual([], Wrong),
    ?assert(lists:member({1, {ok, 2}}, Answers)).

%% It cannot be ended, but no caller waits for it, and other loops continue.
a_callback_that_never_returns(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{thread => own}),
    _ = process_flag(trap_exit, true),
    {ok, Task} = py_event_loop:submit(Loop, called, spin_until_interrupted, []),
    ok = called:has_noted(<<"spins">>),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2], #{}, 60_000)),
    ?assertEqual({error, timeout}, py_event_loop:stop(Loop, 100)),
    ?assertEqual({error, loop_down}, py:await(Task)),
    {ok, _} = py:call(called, end_spinning, [], #{}, 60_000).

%% More functions and loops block than the node has dirty schedulers: another NIF gets one.
blocked_code_occupies_no_dirty_scheduler(_Config) ->
    {ok, _} = py:call(called, hold, []),
    Count = erlang:system_info(dirty_cpu_schedulers) + erlang:system_info(dirty_io_schedulers),
    Tasks = [element(2, {ok, _} = py:submit(called, block, [])) || _ <- lists:seq(1, Count + 5)],
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
    eventually:is({ok, Count + 6}, fun() -> py:eval("__import__('called')._blocked") end),
    {_, _} = crypto:generate_key(rsa, {1024, 65537}),
    ?assertEqual({ok, Count + 6}, py:eval("__import__('called')._blocked")),
    {ok, _} = py:call(called, release, []),
    _ = [?assertEqual({ok, <<"released">>}, py:await(Each)) || Each <- [Task | Tasks]],
    {ok, []} = py_event_loop:stop(Loop).

%% Sleeping tasks of two loops, of the default one and of a loop of Python's: other loops are
%% stopped, killed, closed and collected meanwhile.
loops_that_end_leave_others_alone(_Config) ->
    Sleep = [0.5, <<"slept">>],
    Loops = [element(2, {ok, _} = py_event_loop:start_link(#{})) || _ <- [1, 2]],
    Tasks =
        [element(2, {ok, _} = py_event_loop:submit(L, asyncio, sleep, Sleep)) || L <- Loops] ++
            [element(2, {ok, _} = py:submit(asyncio, sleep, Sleep)) || _ <- [1, 2]],
    {ok, Run} = py:submit(called, run_a_loop, [0.5]),
    _ = process_flag(trap_exit, true),
    _ = [
        begin
            {ok, Other} = py_event_loop:start_link(#{}),
            {ok, 3} = py_event_loop:run(Other, called, add_later, [1, 2]),
            {ok, <<"slept">>} = py:call(called, run_a_loop, [0]),
            _ = N rem 2 =:= 0 andalso mortal:kill(Other),
            _ = N rem 2 =:= 1 andalso py_event_loop:stop(Other),
            receive
                {'EXIT', Other, _} -> ok
            end
        end
     || N <- lists:seq(1, 20)
    ],
    _ = [?assertEqual({ok, <<"slept">>}, py:await(Task, 60_000)) || Task <- [Run | Tasks]],
    _ = [{ok, []} = py_event_loop:stop(Loop) || Loop <- Loops],
    ok.

%% Neither threads nor fds, with a task in each: end_per_testcase/2 counts.
a_hundred_killed_loops_leave_nothing(_Config) ->
    _ = process_flag(trap_exit, true),
    _ = [
        begin
            {ok, Loop} = py_event_loop:start_link(#{thread => own}),
            {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
            called:has_noted(<<"x started">>),
            ok = mortal:kill(Loop),
            ?assertEqual({error, loop_down}, py:await(Task))
        end
     || _ <- lists:seq(1, 100)
    ],
    ok.

ten_thousand_callers_at_once(_Config) ->
    all_answered(10_000, fun(N) -> {ok, N} = py:call(called, add, [N, 0], #{}, 120_000) end).

fifty_thousand_processes_with_a_sleeping_task_each(_Config) ->
    all_answered(50_000, fun(N) -> {ok, N} = py:call(asyncio, sleep, [0.5, N], #{}, 240_000) end).

all_answered(Count, Ask) ->
    Callers = [spawn_monitor(fun() -> Ask(N) end) || N <- lists:seq(1, Count)],
    _ = [
        receive
            {'DOWN', Monitor, _, _, Reason} -> ?assertEqual(normal, Reason)
        end
     || {_, Monitor} <- Callers
    ],
    ok.

%% The page names suites and cases that are there.
every_fault_has_its_test(_Config) ->
    ?assert(named_tests:check("docs/faults.md") > 80).

%% Python is still up then: neither plain functions nor coroutines are called.
calls_after_the_top_supervisor_was_killed(_Config) ->
    called:in_node([], killed_top_supervisor, ?MODULE).

calls_before_the_application_starts(_Config) ->
    Node = other_node:start([]),
    Refused = [
        {py, call, [math, sqrt, [4]]},
        {py, eval, ["1"]},
        {py, exec, ["1"]},
        {py, submit, [math, sqrt, [4]]},
        {py, cast, [math, sqrt, [4]]},
        {py, stream, [builtins, range, [3]]},
        {py_interpreter, run, [<<"os">>, <<"getcwd">>, []]},
        {py_event_loop, get_loop, []}
    ],
    _ = [
        ?assertEqual({Call, {error, not_started}}, {Call, other_node:call(Node, M, F, Args)})
     || {M, F, Args} = Call <- Refused
    ],
    %% The exit signals of processes that do not start end a process that traps none.
    Starts = [
        {py_event_loop, [#{}]},
        {py_event_loop, [#{init => "x = 1"}]},
        {py_event_loop_pool, [#{name => p}]},
        {py_actor, [math, sqrt, [4]]}
    ],
    _ = [
        ?assertEqual(
            {Start, {error, not_started}},
            {Start, other_node:call(Node, ?MODULE, start_trapping, [M, Args])}
        )
     || {M, Args} = Start <- Starts
    ],
    ok = other_node:stop(Node).

start_trapping(Module, Args) ->
    _ = process_flag(trap_exit, true),
    apply(Module, start_link, Args).

killed_top_supervisor() ->
    {ok, 3} = py:call(operator, add, [1, 2]),
    {ok, none} = py:call(asyncio, sleep, [0]),
    ok = mortal:kill(whereis(erlang_loop_sup)),
    eventually:is({error, not_started}, fun py_event_loop:get_loop/0),
    ?assertEqual({error, not_started}, py:call(operator, add, [1, 2])),
    ?assertEqual({error, not_started}, py:call(asyncio, sleep, [0])),
    ?assertEqual({error, not_started}, py:eval("1 + 1")),
    ?assertEqual({error, not_started}, py:stream(builtins, range, [3])),
    eventually:is(false, fun() ->
        lists:keymember(erlang_loop, 1, application:which_applications())
    end),
    {ok, _} = application:ensure_all_started(erlang_loop),
    ?assertEqual({ok, 3}, py:call(operator, add, [1, 2])),
    ?assertEqual({ok, none}, py:call(asyncio, sleep, [0])),
    ok.
