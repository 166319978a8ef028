%% @doc What happens when plain functions hang? Can coroutines still be called, does the log say so,
%% and does a node in which they hang stay quiet?
-module(py_hanging_calls_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([
    a_coroutine_function_not_called_before/1,
    a_module_not_imported_before/1,
    a_plain_function_not_called_before_waits/1,
    code_is_evaluated/1,
    calls_that_hang_are_reported_once/1,
    calls_that_end_are_not_reported/1,
    a_node_with_hanging_calls_is_not_woken/1,
    a_cancelled_call_whose_function_is_being_found/1,
    an_import_that_hangs_is_reported/1
]).
%% Called in another node.
-export([
    first_coroutine/0,
    first_import/0,
    first_plain/0,
    code/0,
    reported/0,
    not_reported/0,
    not_woken/0,
    cancelled_in_time/0,
    hanging_import/0
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

%% Finding out what a function is

a_coroutine_function_not_called_before(_Config) ->
    called:in_node([{call_threads, 2}], first_coroutine, ?MODULE).

first_coroutine() ->
    Tasks = all_hang(2),
    {ok, _} = py:call(asyncio, sleep, [0], #{}, 60_000),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])),
    {ok, Stream} = py:stream(streamed, count, [2], #{}, #{demand => 3}),
    ?assertEqual([0, 1], streams:await_items(Stream, 2)),
    end_all(Tasks).

a_module_not_imported_before(_Config) ->
    called:in_node([{call_threads, 2}], first_import, ?MODULE).

first_import() ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    Tasks = all_hang(2),
    {ok, Actor} = py_event_loop:run(Loop, acting, own_pid_later, [], #{}, 60_000),
    ?assert(is_pid(Actor)),
    end_all(Tasks).

%% It waits for a thread: what it is has been found out, and it is not run beside the others.
a_plain_function_not_called_before_waits(_Config) ->
    called:in_node([{call_threads, 2}], first_plain, ?MODULE).

first_plain() ->
    Tasks = all_hang(2),
    {ok, Task} = py:submit(called, add, [1, 2]),
    %% Behind it, so that it has been looked at by then.
    {ok, _} = py:call(asyncio, sleep, [0], #{}, 60_000),
    ?assertEqual(timeout, py:yield(Task, 50)),
    ?assertEqual(ok, end_all(Tasks)),
    ?assertEqual({ok, 3}, py:await(Task)).

code_is_evaluated(_Config) ->
    called:in_node([{call_threads, 2}], code, ?MODULE).

code() ->
    Tasks = all_hang(2),
    ?assertEqual({ok, 2}, py:eval("1 + 1", #{}, 60_000)),
    ?assertEqual(ok, py:exec("import called; called.release()", 60_000)),
    _ = [?assertEqual({ok, <<"released">>}, py:await(Task, 60_000)) || Task <- Tasks],
    %% The reserve threads end.
    eventually:is(1, fun() -> maps:get(threads, py_calls:info()) end).

%% What is logged

calls_that_hang_are_reported_once(_Config) ->
    called:in_node([{call_threads, 2}], reported, ?MODULE).

reported() ->
    ok = log_watch:start(),
    Tasks = all_hang(2),
    called:is_logged("No call thread has been free for a second"),
    [Report] = reports(),
    _ = [
        ?assertNotEqual(nomatch, string:find(Report, Text), {Text, Report})
     || Text <- ["called.block", pid_to_list(self()), "ms so far", "called.py", "in block"]
    ],
    {ok, Waiting} = py:submit(called, arguments, [1]),
    %% Time for what must not come.
    ?assertEqual(timeout, py:yield(Waiting, 1500)),
    ?assertMatch([_], reports()),
    ok = end_all(Tasks),
    {ok, _} = py:await(Waiting),
    eventually:is(true, fun() -> maps:get(idle, py_calls:info()) > 0 end),
    ok = log_watch:forget(),
    Again = all_hang(2),
    called:is_logged("No call thread has been free for a second"),
    ok = end_all(Again),
    log_watch:stop().

%% All threads are taken all the time, but never by the same calls for long.
calls_that_end_are_not_reported(_Config) ->
    called:in_node([{call_threads, 2}], not_reported, ?MODULE).

not_reported() ->
    ok = log_watch:start(),
    Until = erlang:monotonic_time(millisecond) + 2500,
    Callers = [spawn_monitor(fun() -> call_until(Until) end) || _ <- [1, 2, 3, 4]],
    _ = [receive {'DOWN', Monitor, _, _, Reason} -> normal = Reason end || {_, Monitor} <- Callers],
    ?assertEqual([], reports()),
    log_watch:stop().

call_until(Until) ->
    {ok, _} = py:call(called, sleep, [0.02], #{}, 60_000),
    case erlang:monotonic_time(millisecond) < Until of
        true -> call_until(Until);
        false -> ok
    end.

a_node_with_hanging_calls_is_not_woken(_Config) ->
    called:in_node([{call_threads, 2}], not_woken, ?MODULE).

not_woken() ->
    ok = log_watch:start(),
    Tasks = all_hang(2),
    {ok, Waiting} = py:submit(called, arguments, [1]),
    called:is_logged("No call thread has been free for a second"),
    Before = sleeps_of_watchers(),
    %% Time for what must not come.
    ?assertEqual(timeout, py:yield(Waiting, 1000)),
    ?assertEqual(Before, sleeps_of_watchers()),
    ok = end_all(Tasks),
    {ok, _} = py:await(Waiting),
    log_watch:stop().

%% How often each of the threads that watch calls has gone to sleep.
sleeps_of_watchers() ->
    Names = filelib:wildcard("/proc/self/task/*/comm"),
    Watchers = [Name || Name <- Names, {ok, <<"python-call-wat", _/binary>>} <- [file:read_file(Name)]],
    ?assertNotEqual([], Watchers),
    [sleeps(filename:dirname(Name)) || Name <- Watchers].

sleeps(Thread) ->
    {ok, Status} = file:read_file(filename:join(Thread, "status")),
    {match, [Count]} = re:run(Status, "\nvoluntary_ctxt_switches:\\s+(\\d+)", [{capture, [1], list}]),
    list_to_integer(Count).

%% While its module is imported, no abandoned function runs yet.
a_cancelled_call_whose_function_is_being_found(_Config) ->
    called:in_node([], cancelled_in_time, ?MODULE).

cancelled_in_time() ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py:submit(slow_to_import, sleep_long, []),
    ok = called:is_blocked(),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    {ok, _} = py:call(called, release, []),
    %% The import is over, and the call above has been logged.
    {ok, _} = py:call(slow_to_import, nothing, []),
    eventually:is(0, fun() -> given_up() end),
    ?assertEqual([], log_watch:texts()),
    log_watch:stop().

an_import_that_hangs_is_reported(_Config) ->
    called:in_node([{call_warning, 20}], hanging_import, ?MODULE).

hanging_import() ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    ?assertEqual({error, timeout}, py:call(slow_to_import, sleep_long, [], #{}, 20)),
    called:is_logged("slow_to_import.sleep_long"),
    called:is_logged("20 ms after"),
    {ok, _} = py:call(called, release, []),
    called:is_logged("slow_to_import.sleep_long ended"),
    log_watch:stop().

%% The pieces

%% As many calls that hang as there are threads.
all_hang(Count) ->
    {ok, _} = py:call(called, hold, []),
    Tasks = [element(2, {ok, _} = py:submit(called, block, [])) || _ <- lists:seq(1, Count)],
    eventually:is(
        {Count, 0, 0},
        fun() ->
            #{threads := Threads, idle := Idle, queued := Queued} = py_calls:info(),
            {Threads, Idle, Queued}
        end
    ),
    Tasks.

end_all(Tasks) ->
    ok = py:exec("import called; called.release()", 60_000),
    _ = [?assertEqual({ok, <<"released">>}, py:await(Task, 60_000)) || Task <- Tasks],
    ok.

reports() ->
    [Text || Text <- log_watch:texts(), string:find(Text, "No call thread") =/= nomatch].

%% Functions that py_calls counts as abandoned.
given_up() ->
    map_size(element(3, sys:get_state(py_calls))).
