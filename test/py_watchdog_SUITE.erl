%% @doc Is a stuck loop detected, and is the place reported?
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
    a_loop_wakes_the_watchdog_at_most_once_per_check/1,
    a_resting_loop_does_not_hide_a_stuck_one/1,
    loops_that_share_a_thread_wake_the_watchdog_once/1,
    a_disabled_watchdog_gets_no_messages/1,
    a_watchdog_that_is_restarted_sees_what_is_stuck/1,
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
    disabled/0,
    watchdog_restarted/0,
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
a_loop_wakes_the_watchdog_at_most_once_per_check(_Config) -> there(heartbeat).
a_resting_loop_does_not_hide_a_stuck_one(_Config) -> there(two_loops).
a_watchdog_that_is_restarted_sees_what_is_stuck(_Config) -> there(watchdog_restarted).

loops_that_share_a_thread_wake_the_watchdog_once(_Config) ->
    called:in_node([{stuck_after, 200}, {loop_threads, 1}], shared_thread, ?MODULE).

a_disabled_watchdog_gets_no_messages(_Config) ->
    called:in_node([{stuck_after, infinity}], disabled, ?MODULE).

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

%% The report comes while the call runs: no other thread could have run Python, nor stopped its threads
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
        py_event_loop:run(Loop, called, spin_forever, [], #{}, 60_000),
    ?assertEqual(<<"erlang_loop.watchdog.LoopStuckError">>, Type),
    ?assertMatch(#{function := <<"spin_forever">>}, lists:last(Frames)),
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

%% Only the watchdog could make it turn. The sleep is for several checks to happen.
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

%% The watchdog does nothing while all loops rest: its checks would cost reductions. It reports a
%% loop that gets stuck after that, and sleeps again.
idle() ->
    Loop = started(#{}),
    eventually:is(true, fun is_watchdog_asleep/0),
    {ok, <<"slept">>} = py_event_loop:run(Loop, called, sleep_on_the_loop, [1.0]),
    _ = reported("in sleep_on_the_loop"),
    eventually:is(true, fun is_watchdog_asleep/0),
    ok.

%% A check takes some 200 reductions, and there would be two of them in this time.
is_watchdog_asleep() ->
    Before = process_info(whereis(py_watchdog), reductions),
    timer:sleep(500),
    Before =:= process_info(whereis(py_watchdog), reductions).

%% The messages that the watchdog receives while `Act' runs.
received_while(Act) ->
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

%% However often a loop wakes, the watchdog receives one message from it, and then checks after
%% 200 ms, before it can be sent another.
heartbeat() ->
    Loop = started(#{thread => own}),
    woken_rarely([Loop]).

%% They rest and wake on one thread. (One thread is for all of them, but a second may help.)
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
    woken_rarely([One, Other]).

woken_rarely(Loops) ->
    eventually:is(true, fun is_watchdog_asleep/0),
    Began = erlang:monotonic_time(millisecond),
    Received = received_while(fun() ->
        _ = [{ok, 3} = py_event_loop:run(Loop, called, add_later, [1, 2]) || _ <- lists:seq(1, 100), Loop <- Loops],
        eventually:is(true, fun is_watchdog_asleep/0)
    end),
    Lasted = erlang:monotonic_time(millisecond) - Began,
    Woken = [Message || loop_awake = Message <- Received],
    %% After the message a check follows, and only after that another message.
    ?assertEqual([], [Message || Message <- Received, Message =/= look] -- Woken),
    ?assert(length(Woken) >= 1),
    ?assert(length(Woken) =< 1 + Lasted div 200),
    ok.

disabled() ->
    Loop = started(#{thread => own}),
    Received = received_while(fun() -> beat(Loop), beat(Loop) end),
    ?assertEqual([], Received),
    ok.

beat(Loop) ->
    {ok, none} = py_event_loop:run(Loop, asyncio, sleep, [0.3]).

%% One loop wakes the watchdog and rests again; it still checks the other, which gets stuck meanwhile.
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
