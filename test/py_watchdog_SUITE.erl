%% @doc Is a loop that is stuck seen, and told where?
%%
%% Each case has a node of its own, in which 200 ms are long.
-module(py_watchdog_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([
    a_callback_that_sleeps_is_reported/1,
    a_call_into_c_that_holds_the_gil_is_reported_while_it_runs/1,
    a_loop_that_python_started_is_reported/1,
    a_long_turn_is_reported_again_and_its_end_too/1,
    a_loop_is_interrupted_and_goes_on/1,
    only_the_callback_that_is_stuck_is_interrupted/1,
    a_callback_is_interrupted_after_its_call_into_c/1,
    short_callbacks_of_a_long_turn_are_not_interrupted/1,
    a_loop_is_restarted/1,
    a_loop_that_sleeps_is_left_asleep/1,
    an_idle_node_is_left_asleep/1,
    a_heartbeat_does_not_wake_the_watchdog/1,
    one_that_sleeps_leaves_the_timer_to_one_that_is_stuck/1,
    loops_that_share_a_thread_clear_the_timer/1,
    without_a_descriptor_the_watchdog_is_called/1,
    a_watchdog_that_is_restarted_sees_what_is_stuck/1,
    restarted_watchdogs_share_one_timer/1,
    lag_is_in_the_info/1,
    wrong_settings_are_refused/1
]).
%% Called in the other node.
-export([
    sleeps/0,
    holds_the_gil/0,
    of_python/0,
    again/0,
    interrupted/0,
    innocent/0,
    after_c/0,
    short_callbacks/0,
    restarted/0,
    left_asleep/0,
    idle/0,
    heartbeat/0,
    two_loops/0,
    shared_thread/0,
    no_descriptor/0,
    watchdog_restarted/0,
    one_timer/0,
    lag/0
]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

a_callback_that_sleeps_is_reported(_Config) -> there(sleeps).
a_call_into_c_that_holds_the_gil_is_reported_while_it_runs(_Config) -> there(holds_the_gil).
a_loop_that_python_started_is_reported(_Config) -> there(of_python).
a_long_turn_is_reported_again_and_its_end_too(_Config) -> there(again).
a_loop_is_interrupted_and_goes_on(_Config) -> there(interrupted).
only_the_callback_that_is_stuck_is_interrupted(_Config) -> there(innocent).
a_callback_is_interrupted_after_its_call_into_c(_Config) -> there(after_c).
short_callbacks_of_a_long_turn_are_not_interrupted(_Config) -> there(short_callbacks).
a_loop_is_restarted(_Config) -> there(restarted).
a_loop_that_sleeps_is_left_asleep(_Config) -> there(left_asleep).
an_idle_node_is_left_asleep(_Config) -> there(idle).
a_heartbeat_does_not_wake_the_watchdog(_Config) -> there(heartbeat).
one_that_sleeps_leaves_the_timer_to_one_that_is_stuck(_Config) -> there(two_loops).
a_watchdog_that_is_restarted_sees_what_is_stuck(_Config) -> there(watchdog_restarted).
restarted_watchdogs_share_one_timer(_Config) -> there(one_timer).

loops_that_share_a_thread_clear_the_timer(_Config) ->
    called:in_node([{stuck_after, 200}, {loop_threads, 1}], shared_thread, ?MODULE).

%% With `infinity' no timer is made.
without_a_descriptor_the_watchdog_is_called(_Config) ->
    called:in_node([{stuck_after, infinity}], no_descriptor, ?MODULE).

lag_is_in_the_info(_Config) -> there(lag).

there(Function) ->
    called:in_node([{stuck_after, 200}], Function, ?MODULE).

wrong_settings_are_refused(_Config) ->
    lists:foreach(
        fun({Key, Value}) ->
            Node = other_node:start([{Key, Value}]),
            ?assertMatch(
                {error, {erlang_loop, _}},
                other_node:call(Node, application, ensure_all_started, [erlang_loop])
            ),
            ok = other_node:stop(Node)
        end,
        [{stuck_after, 0}, {stuck_after, often}, {stuck_policy, panic}]
    ),
    ?assertError({bad_option, _, _}, py_event_loop:start_link(#{stuck_policy => panic})).

%% In the other node

sleeps() ->
    Loop = started(#{name => sleepy}),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
    Report = reported("block_loop"),
    has(Report, "(sleepy, "),
    has(Report, "ms (report)"),
    has(Report, "called.py"),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    ok.

%% The report comes while the call runs: nobody else could have had Python, nor stopped its threads
%% where there is no GIL.
holds_the_gil() ->
    Loop = started(#{}),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_in_c, [Read]),
    Report = reported("wait_in_c"),
    ?assertEqual(timeout, py:yield(Task)),
    has(Report, "called.py"),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assertEqual({ok, 1}, py:await(Task, 60_000)),
    ok.

of_python() ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py:submit(called, run_a_loop_that_blocks, []),
    has(reported("block_loop"), "of a Python thread"),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    ok.

again() ->
    Loop = started(#{}),
    ok = logger:update_handler_config(log_watch, level, notice),
    ok = logger:set_primary_config(level, notice),
    {ok, _} = py:call(called, hold, []),
    Began = erlang:monotonic_time(millisecond),
    {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
    Reports = fun() -> length(texts("in block_loop")) end,
    eventually:is(true, fun() -> Reports() >= 2 end),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    eventually:is(true, fun() -> [] =/= texts("goes on, after more than") end),
    %% At 200, 400, 800 ms or later: each when it has lasted twice as long as at the one before.
    Lasted = erlang:monotonic_time(millisecond) - Began,
    ?assert(200 bsl (Reports() - 1) =< Lasted),
    ok.

interrupted() ->
    Loop = started(#{stuck_policy => interrupt}),
    {error, #{type := Type, traceback := Frames}} =
        py_event_loop:run(Loop, called, spin_for_ever, [], #{}, 60_000),
    ?assertEqual(<<"erlang_loop.watchdog.LoopStuckError">>, Type),
    ?assertMatch(#{function := <<"spin_for_ever">>}, lists:last(Frames)),
    %% The loop itself has lost nothing.
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    ?assert(is_process_alive(Loop)),
    ok.

%% The call into C has no Python code after it: nothing is raised, in other callbacks neither.
innocent() ->
    Loop = started(#{stuck_policy => interrupt}),
    [
        ?assertEqual({ok, []}, py_event_loop:run(Loop, called, block_beside_others, [0.7, Debug], #{}, 60_000))
     || Debug <- [false, true, false]
    ],
    ok.

after_c() ->
    Loop = started(#{stuck_policy => interrupt}),
    {error, #{type := Type, traceback := Frames}} =
        py_event_loop:run(Loop, called, block_then_compute, [0.7], #{}, 60_000),
    ?assertEqual(<<"erlang_loop.watchdog.LoopStuckError">>, Type),
    ?assertMatch(#{function := <<"block_then_compute">>}, lists:last(Frames)),
    ok.

%% The turn is reported.
short_callbacks() ->
    Loop = started(#{stuck_policy => interrupt}),
    ?assertEqual({ok, []}, py_event_loop:run(Loop, called, many_short_callbacks, [1.0])),
    _ = reported("(interrupt)"),
    ok.

restarted() ->
    _ = process_flag(trap_exit, true),
    Loop = started(#{stuck_policy => restart, name => restless}),
    {ok, Task} = py_event_loop:submit(Loop, called, sleep_on_the_loop, [2.0]),
    receive
        {'EXIT', Loop, {loop_stuck, Milliseconds}} -> ?assert(Milliseconds >= 200)
    end,
    ?assertEqual({error, loop_down}, py:await(Task)),
    {ok, Next} = py_event_loop:start_link(#{name => restless}),
    ?assertEqual({ok, 3}, py_event_loop:run(Next, called, add_later, [1, 2])),
    ok.

%% Nothing but the watchdog could make it turn. The sleep is for several looks to happen.
left_asleep() ->
    Loop = started(#{}),
    {ok, 3} = py_event_loop:run(Loop, called, add_later, [1, 2]),
    eventually:is(true, fun() ->
        Turns = turns(Loop),
        timer:sleep(100),
        Turns =:= turns(Loop)
    end),
    Turns = turns(Loop),
    timer:sleep(1000),
    ?assertEqual(Turns, turns(Loop)),
    ?assertEqual([], texts("in one turn")),
    ok.

%% The watchdog does nothing at all while no loop does: its looks would cost reductions. It is
%% there when a loop gets stuck after that, and goes back to sleep.
idle() ->
    Loop = started(#{}),
    eventually:is(true, fun is_watchdog_asleep/0),
    {ok, <<"slept">>} = py_event_loop:run(Loop, called, sleep_on_the_loop, [1.0]),
    _ = reported("in sleep_on_the_loop"),
    eventually:is(true, fun is_watchdog_asleep/0),
    %% Loops that get up shortly and often do not wake it each time: a timer that has woken it was
    %% set after its last look.
    Began = erlang:monotonic_time(millisecond),
    Received = told_while(fun() ->
        _ = [{ok, 3} = py_event_loop:run(Loop, called, add_later, [1, 2]) || _ <- lists:seq(1, 100)],
        eventually:is(true, fun is_watchdog_asleep/0)
    end),
    Lasted = erlang:monotonic_time(millisecond) - Began,
    Woken = [Message || {select, _, undefined, ready_input} = Message <- Received],
    ?assertEqual([], [Message || Message <- Received, Message =/= look] -- Woken),
    ?assert(length(Woken) =< 1 + Lasted div 200),
    ok.

%% A look takes 200 reductions or so, and there would be five of them in this time.
is_watchdog_asleep() ->
    Before = process_info(whereis(py_watchdog), reductions),
    timer:sleep(500),
    Before =:= process_info(whereis(py_watchdog), reductions).

%% What the watchdog gets meanwhile.
told_while(Act) ->
    Watchdog = whereis(py_watchdog),
    1 = erlang:trace(Watchdog, true, ['receive', {tracer, self()}]),
    _ = Act(),
    1 = erlang:trace(Watchdog, false, ['receive']),
    Delivered = erlang:trace_delivered(Watchdog),
    receive
        {trace_delivered, Watchdog, Delivered} -> received(Watchdog)
    end.

received(Process) ->
    receive
        {trace, Process, 'receive', Message} -> [Message | received(Process)]
    after 0 -> []
    end.

%% A turn now and then, with sleeps between that are longer than 200 ms: not a message. (Again if
%% there was one: a turn may take 200 ms on a machine that is busy.)
heartbeat() ->
    Loop = started(#{thread => own}),
    left_alone([Loop]).

left_alone(Loops) ->
    eventually:is(
        [],
        fun() -> told_while(fun() -> beat(Loops), beat(Loops), beat(Loops) end) end,
        40_000
    ),
    ok.

beat(Loops) ->
    _ = [{ok, none} = py_event_loop:run(Loop, asyncio, sleep, [0.3]) || Loop <- Loops],
    ok.

%% They get up and sleep as one. (One thread is for all of them, but a second may help.)
shared_thread() ->
    Threads = lists:map(
        fun(_) ->
            {ok, Loop} = py_event_loop:start_link(#{thread => shared}),
            {ok, Thread} = py_event_loop:run(Loop, called, loop_thread, []),
            {Thread, Loop}
        end,
        lists:seq(1, 10)
    ),
    [{One, Other} | _] = [
        {One, Other}
     || {Thread, One} <- Threads, {Same, Other} <- Threads, Thread =:= Same, One < Other
    ],
    left_alone([One, Other]).

%% One has set the timer, another gets stuck, and the first must not clear it when it sleeps.
two_loops() ->
    One = started(#{thread => own}),
    {ok, Other} = py_event_loop:start_link(#{thread => own, name => other}),
    {ok, 3} = py_event_loop:run(Other, called, add_later, [1, 2]),
    eventually:is(true, fun is_watchdog_asleep/0),
    {ok, _} = py:call(called, hold, []),
    {ok, Short} = py_event_loop:submit(One, called, block_loop, []),
    called:is_blocked(),
    {ok, Long} = py_event_loop:submit(Other, called, sleep_on_the_loop, [2.0]),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Short)),
    has(reported("in sleep_on_the_loop"), "(other, "),
    ?assertEqual({ok, <<"slept">>}, py:await(Long)),
    ok.

%% The watchdog that comes has no timer and cannot make one: the loop that is up calls it.
no_descriptor() ->
    Loop = started(#{thread => own}),
    ok = supervisor:terminate_child(erlang_loop_sup, py_watchdog),
    ok = application:set_env(erlang_loop, stuck_after, 200),
    {ok, Limits} = py:eval(<<"__import__('resource').getrlimit(7)">>),
    %% Later there is no fd to load code with.
    {module, eventually} = code:ensure_loaded(eventually),
    ok = beat([Loop]),
    ok = limited_to({3, element(2, Limits)}),
    {ok, _} = supervisor:restart_child(erlang_loop_sup, py_watchdog),
    %% Not the first time, if a loop was still up when the watchdog came.
    eventually:is(true, fun() -> lists:member(loop_awake, told_while(fun() -> beat([Loop]) end)) end),
    ok = limited_to(Limits),
    {ok, <<"slept">>} = py_event_loop:run(Loop, called, sleep_on_the_loop, [1.0]),
    _ = reported("in sleep_on_the_loop"),
    %% From the next sleep on it has one.
    left_alone([Loop]).

%% 7: RLIMIT_NOFILE.
limited_to(Limits) ->
    {ok, _} = py:call(resource, setrlimit, [7, Limits]),
    ok.

watchdog_restarted() ->
    Loop = started(#{}),
    eventually:is(true, fun is_watchdog_asleep/0),
    Watchdog = whereis(py_watchdog),
    true = exit(Watchdog, kill),
    eventually:is(true, fun() -> not lists:member(whereis(py_watchdog), [undefined, Watchdog]) end),
    {ok, Task} = py_event_loop:submit(Loop, called, sleep_on_the_loop, [1.0]),
    _ = reported("in sleep_on_the_loop"),
    ?assertEqual({ok, <<"slept">>}, py:await(Task)),
    ok.

%% A loop may make one of its own meanwhile.
one_timer() ->
    Loop = started(#{}),
    Before = timers(),
    _ = [watchdog_again() || _ <- lists:seq(1, 20)],
    ?assert(timers() < Before + 10),
    {ok, <<"slept">>} = py_event_loop:run(Loop, called, sleep_on_the_loop, [1.0]),
    _ = reported("in sleep_on_the_loop"),
    ok.

watchdog_again() ->
    ok = supervisor:terminate_child(erlang_loop_sup, py_watchdog),
    {ok, _} = supervisor:restart_child(erlang_loop_sup, py_watchdog).

timers() ->
    Fds = filelib:wildcard("/proc/self/fd/*"),
    length([timer || Fd <- Fds, file:read_link(Fd) =:= {ok, "anon_inode:[timerfd]"}]).

turns(Loop) ->
    {ok, #{lag := #{turns := Turns}}} = py_event_loop:info(Loop),
    Turns.

lag() ->
    Loop = started(#{}),
    {ok, <<"slept">>} = py_event_loop:run(Loop, called, sleep_on_the_loop, [0.1]),
    {ok, 3} = py_event_loop:run(Loop, called, add_later, [1, 2]),
    {ok, #{lag := #{turns := Turns, longest_us := Longest, histogram := Histogram}}} =
        py_event_loop:info(Loop),
    ?assert(Longest >= 100_000),
    ?assertEqual(Turns, lists:sum([Count || {_, Count} <- Histogram])),
    ?assertMatch([{1, _}, {2, _}, {4, _} | _], Histogram),
    ?assertMatch({infinity, 0}, lists:last(Histogram)),
    Long = lists:sum([Count || {UpTo, Count} <- Histogram, UpTo > 65_536]),
    ?assertEqual(1, Long),
    ok.

started(Options) ->
    ok = log_watch:start(),
    {ok, Loop} = py_event_loop:start_link(Options),
    {ok, 3} = py_event_loop:run(Loop, called, add_later, [1, 2]),
    Loop.

%% The report that has this in it, as soon as there is one.
reported(Text) ->
    eventually:is(true, fun() -> texts(Text) =/= [] end, 60_000),
    hd(texts(Text)).

texts(Text) ->
    [Line || Line <- log_watch:texts(), string:find(Line, Text) =/= nomatch].

has(Report, Text) ->
    ?assertNotEqual(nomatch, string:find(Report, Text), Report).
