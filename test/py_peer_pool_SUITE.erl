%% @doc Does a pool of peers survive crashes, and peers that hang? Is no request run twice? More rows
%% of the table "When a peer dies" in docs/peers.md.
-module(py_peer_pool_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    all_peers_are_used_and_the_idle_ones_first/1,
    a_spare_loop_takes_over/1,
    what_has_not_begun_runs_on_another_peer/1,
    a_caller_waits_for_the_next_peer/1,
    a_crash_loop_ends_in_unavailable/1,
    a_stopped_peer_is_killed_after_a_timeout/1,
    c_code_that_never_returns/1,
    a_blocked_loop/1,
    a_timeout_alone_does_not_kill/1,
    a_stopped_peer_does_not_outlive_its_proxy/1,
    limits_of_cpu_time_files_and_memory/1,
    a_peer_retires_after_its_work/1,
    a_limit_of_requests_loses_nothing/1,
    a_limit_of_the_lifetime/1,
    a_lost_connection/1,
    casts_run/1
]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> peers:begin_suite(Config).
end_per_suite(_Config) -> peers:end_suite().

init_per_testcase(_Case, Config) ->
    _ = process_flag(trap_exit, true),
    peers:begin_case(Config).
end_per_testcase(_Case, Config) -> peers:end_case(Config).

start(Options) ->
    {ok, Pid} = py_event_loop_pool:start_link(peers:options(Options#{name => peer_pool})),
    true = unlink(Pid),
    Pid.

stop() ->
    ok = py_event_loop_pool:stop(peer_pool).

run(Module, Function, Args) ->
    run(Module, Function, Args, 30_000).

run(Module, Function, Args, Timeout) ->
    py_event_loop_pool:run(peer_pool, Module, Function, Args, #{}, Timeout).

signal(Signal, Loop) ->
    "" = os:cmd(["kill -", Signal, " ", integer_to_list(peers:os_pid(Loop))]),
    ok.

all_peers_are_used_and_the_idle_ones_first(_Config) ->
    _ = start(#{size => 2}),
    Used = [Pid || _ <- lists:seq(1, 4), {ok, Pid} <- [run(os, getpid, [])]],
    ?assertEqual(2, length(lists:usort(Used))),
    {ok, [#{name := peer_pool_1, spare := false, os_pid := _}, #{node := _}]} = py_event_loop_pool:info(peer_pool),
    {ok, Task} = py_event_loop:submit(peer_pool_1, called, wait_forever, [<<"busy">>]),
    {ok, #{os_pid := Idle}} = py_event_loop:info(peer_pool_2),
    ?assertEqual([{ok, Idle}], lists:usort([run(os, getpid, []) || _ <- lists:seq(1, 6)])),
    ok = py:cancel(Task),
    {error, cancelled} = py:await(Task),
    stop().

%% While the supervisor, which is suspended, replaces nothing.
a_spare_loop_takes_over(_Config) ->
    Pool = start(#{size => 1, spare => 1}),
    {ok, [#{os_pid := First}, #{os_pid := Spare, spare := true}]} = py_event_loop_pool:info(peer_pool),
    ?assertEqual([{ok, First}], lists:usort([run(os, getpid, []) || _ <- lists:seq(1, 4)])),
    ok = sys:suspend(Pool),
    ?assertEqual({error, {peer_down, {signal, sigsegv}}}, run(ctypes, string_at, [0])),
    ?assertEqual({ok, Spare}, run(os, getpid, [])),
    {ok, Task} = py_event_loop_pool:submit(peer_pool, os, getpid, []),
    ?assertEqual({ok, Spare}, py:await(Task)),
    ok = sys:resume(Pool),
    eventually:is(true, fun() -> {ok, Spare} =/= run(os, getpid, []) end, 30_000),
    stop().

%% A stopped peer begins nothing.
what_has_not_begun_runs_on_another_peer(_Config) ->
    _ = start(#{size => 2}),
    Begun = spawn_caller(fun() ->
        py_event_loop:run(peer_pool_1, called, wait_forever, [<<"begun">>], #{}, infinity)
    end),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(peer_pool_1, called, count_tasks, []) end),
    {ok, #{os_pid := OsPid, pid := Stopped}} = py_event_loop:info(peer_pool_1),
    ok = signal("STOP", peer_pool_1),
    Callers = [spawn_caller(fun() -> run(called, note, [integer_to_binary(N)]) end) || N <- lists:seq(1, 20)],
    %% The one that runs, and some of these.
    eventually:is(true, fun() -> {ok, Load} = py_remote:load(Stopped), Load > 5 end),
    "" = os:cmd(["kill -KILL ", integer_to_list(OsPid)]),
    ?assertEqual({error, {peer_down, {signal, sigkill}}}, result(Begun)),
    ?assertEqual([{ok, none}], lists:usort(lists:map(fun result/1, Callers))),
    {ok, Noted} = py_event_loop:run(peer_pool_2, called, take_events, []),
    ?assertEqual(lists:sort([integer_to_binary(N) || N <- lists:seq(1, 20)]), lists:sort(Noted)),
    stop().

a_caller_waits_for_the_next_peer(_Config) ->
    _ = start(#{size => 1}),
    {error, {peer_down, {exit, 3}}} = run(os, '_exit', [3]),
    ?assertEqual({error, unavailable}, py_event_loop_pool:submit(peer_pool, math, sqrt, [4])),
    ?assertEqual({error, unavailable}, run(math, sqrt, [4], 1)),
    ?assertEqual({ok, 2.0}, run(math, sqrt, [4])),
    stop().

a_crash_loop_ends_in_unavailable(_Config) ->
    Pool = start(#{size => 1, spare => 1, intensity => 1}),
    Monitor = monitor(process, Pool),
    Crash = fun() -> run(os, '_exit', [3]) end,
    ?assertEqual([{error, {peer_down, {exit, 3}}}], lists:usort([Crash(), Crash()])),
    receive
        {'DOWN', Monitor, process, Pool, Reason} -> ?assertEqual(shutdown, Reason)
    end,
    ?assertEqual({error, unavailable}, run(math, sqrt, [4])),
    ?assertEqual({error, noproc}, py_event_loop_pool:stop(peer_pool)).

a_stopped_peer_is_killed_after_a_timeout(_Config) ->
    Loop = peers:start(#{place => {peer, #{kill_after => 200}}}),
    Other = spawn_caller(fun() ->
        py_event_loop:run(Loop, called, wait_forever, [<<"x">>], #{}, infinity)
    end),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    ok = signal("STOP", Loop),
    ?assertEqual({error, timeout}, py_event_loop:run(Loop, math, sqrt, [4], #{}, 20)),
    ?assertEqual({peer_down, hung}, peers:ended(Loop)),
    ?assertEqual({error, {peer_down, hung}}, result(Other)).

%% With the GIL, and without.
c_code_that_never_returns(_Config) ->
    hangs(called, hold_the_gil),
    hangs(called, sleep_long).

hangs(Module, Function) ->
    Loop = peers:start(#{place => {peer, #{kill_after => 200}}}),
    Monitor = monitor(process, Loop),
    %% A call that times out before it begins blocks nothing.
    eventually:is(false, fun() ->
        {error, _} = py_event_loop:run(Loop, Module, Function, [], #{}, 50),
        is_process_alive(Loop)
    end),
    receive
        {'DOWN', Monitor, process, Loop, Reason} -> ?assertEqual({peer_down, hung}, Reason)
    end.

a_blocked_loop(_Config) ->
    hangs(called, block_the_loop).

%% The second check comes after the first: so that has found nothing.
a_timeout_alone_does_not_kill(_Config) ->
    Loop = peers:start(#{place => {peer, #{kill_after => 5000}}}),
    Timeout = fun() -> py_event_loop:run(Loop, called, wait_forever, [<<"x">>], #{}, 20) end,
    ?assertEqual([{error, timeout}], lists:usort([Timeout() || _ <- lists:seq(1, 5)])),
    Guard = guard(Loop),
    %% The last fields are `check' and `next'.
    eventually:is([undefined, undefined], fun() ->
        lists:nthtail(7, tuple_to_list(sys:get_state(Guard)))
    end),
    ?assertEqual({ok, 2.0}, py_event_loop:run(Loop, math, sqrt, [4])),
    peers:stop(Loop),
    eventually:is(false, fun() -> is_process_alive(Guard) end).

guard(Loop) ->
    [{Loop, _Agent, Guard, _Ledger, _Shares}] = ets:lookup(py_remote, Loop),
    Guard.

a_stopped_peer_does_not_outlive_its_proxy(_Config) ->
    Loop = peers:start(#{}),
    OsPid = peers:os_pid(Loop),
    ok = signal("STOP", Loop),
    ok = mortal:kill(Loop),
    eventually:is(false, fun() -> peers:is_running(OsPid) end).

limits_of_cpu_time_files_and_memory(_Config) ->
    Down = fun(Limits, Code) ->
        Loop = peers:start(#{place => {peer, #{limits => Limits}}}),
        Monitor = monitor(process, Loop),
        Result = py:eval(Code, #{}, #{loop => Loop, timeout => 60_000}),
        receive
            {'DOWN', Monitor, process, Loop, {peer_down, Why}} ->
                ?assertEqual({error, {peer_down, Why}}, Result),
                Why
        end
    end,
    ?assertEqual({signal, sigxcpu}, Down(#{cpu => 4}, "sum(i for i in range(10**12))")),
    ?assertEqual({limit, max_rss}, Down(#{max_rss => 200_000_000}, "[b'x' * 300_000_000, __import__('time').sleep(60)]")),
    Loop = peers:start(#{place => {peer, #{limits => #{files => 100}}}}),
    {error, #{type := <<"builtins.OSError">>}} =
        py:eval("[open('/dev/null') for _ in range(200)]", #{}, #{loop => Loop}),
    peers:stop(Loop),
    lists:foreach(
        fun(Limits) ->
            ?assertError({bad_option, _, _}, py_event_loop:start_link(#{place => {peer, #{limits => Limits}}}))
        end,
        [[], #{cpu => 0}, #{files => 3}, #{max_rss => lots}, #{wishes => 3}]
    ).

%% A limit below 10 is exact.
a_peer_retires_after_its_work(Config) ->
    _ = start(#{size => 1, spare => 1, place => {peer, #{limits => #{requests => 5}}}}),
    Folder = proplists:get_value(priv_dir, Config),
    Files = [list_to_binary(filename:join(Folder, Name)) || Name <- ["gate", "later", "done"]],
    [Gate, Later, Done] = Files,
    Loop = whereis(peer_pool_1),
    Monitor = monitor(process, Loop),
    {ok, First} = run(os, getpid, []),
    {ok, Task} = py_event_loop_pool:submit(peer_pool, peer_works, wait_for, [Gate]),
    ok = py_event_loop_pool:cast(peer_pool, peer_works, touch_after, [Later, Done]),
    {ok, Stream} = py_event_loop_pool:stream(peer_pool, builtins, range, [2], #{}, #{demand => 1}),
    receive
        {py_stream, Stream, {data, 0}} -> ok
    end,
    ?assertEqual({ok, First}, run(os, getpid, [])),
    eventually:is(true, fun() -> {ok, First} =/= run(os, getpid, []) end),
    ?assertEqual(Loop, whereis(peer_pool_1)),
    ok = file:write_file(Gate, <<>>),
    ?assertEqual({ok, First}, py:await(Task, 30_000)),
    ?assertEqual(Loop, whereis(peer_pool_1)),
    ok = py:demand(Stream, 2),
    receive
        {py_stream, Stream, done} -> ok
    end,
    %% Longer than it takes to end if nothing ran.
    ok = timer:sleep(300),
    ?assertEqual(Loop, whereis(peer_pool_1)),
    ok = file:write_file(Later, <<>>),
    receive
        {'DOWN', Monitor, process, Loop, Reason} ->
            ?assertEqual({shutdown, {peer_down, retired}}, Reason)
    end,
    ?assert(filelib:is_file(Done)),
    stop().

a_limit_of_requests_loses_nothing(Config) ->
    Limits = #{requests => 60},
    _ = start(#{size => 2, spare => 1, intensity => 100, place => {peer, #{limits => Limits}}}),
    Monitors = [monitor(process, Name) || Name <- [peer_pool_1, peer_pool_2]],
    File = list_to_binary(filename:join(proplists:get_value(priv_dir, Config), "runs")),
    Call = fun(N) ->
        Function = lists:nth(N rem 2 + 1, [count_run, count_run_later]),
        run(called, Function, [File, N, false])
    end,
    Callers = [
        {Numbers, spawn_caller(fun() -> lists:map(Call, Numbers) end)}
     || First <- lists:seq(1, 10), Numbers <- [lists:seq(First, 200, 10)]
    ],
    [?assertEqual([{ok, N} || N <- Numbers], result(Caller)) || {Numbers, Caller} <- Callers],
    [
        receive
            {'DOWN', Monitor, process, _, Reason} ->
                ?assertEqual({shutdown, {peer_down, retired}}, Reason)
        end
     || Monitor <- Monitors
    ],
    {ok, Runs} = file:read_file(File),
    ?assertEqual(200, length(string:lexemes(Runs, "\n"))),
    stop().

a_limit_of_the_lifetime(_Config) ->
    Loop = peers:start(#{place => {peer, #{limits => #{lifetime => 1}}}}),
    ?assertEqual({shutdown, {peer_down, retired}}, peers:ended(Loop)).

a_lost_connection(_Config) ->
    Host = peers:start(#{}),
    {ok, #{node := Node}} = py_event_loop:info(Host),
    There = peers:start(#{place => Node}),
    {ok, Task} = py_event_loop:submit(There, called, wait_forever, [<<"x">>]),
    Monitors = [monitor(process, There), monitor(process, Host)],
    true = erlang:disconnect_node(Node),
    ?assertEqual({error, {peer_down, noconnection}}, py:await(Task)),
    %% The host is a peer of this node, which ends.
    [{peer_down, noconnection}, {peer_down, _}] = [
        receive
            {'DOWN', Monitor, process, _, Reason} -> Reason
        end
     || Monitor <- Monitors
    ].

casts_run(_Config) ->
    Loop = peers:start(#{}),
    ok = py:cast(called, note, [<<"cast">>], #{}, #{loop => Loop}),
    eventually:is({ok, [<<"cast">>]}, fun() ->
        py:eval("__import__('called').events", #{}, #{loop => Loop})
    end),
    %% Which is logged.
    ok = py:cast(called, <<255>>, [], #{}, #{loop => Loop}),
    ?assertEqual({ok, 2.0}, py_event_loop:run(Loop, math, sqrt, [4])),
    peers:stop(Loop).

spawn_caller(Call) ->
    spawn_monitor(fun() -> exit({result, Call()}) end).

result({Pid, Monitor}) ->
    receive
        {'DOWN', Monitor, process, Pid, {result, Result}} -> Result
    end.
