%% @doc Does a pool over several nodes place work as it says, and does it survive nodes that come, go
%% and split? The rows of the table "When a node goes" in docs/clusters.md.
-module(py_cluster_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    all_loops_are_used_from_a_node_without_any/1,
    tasks_and_streams_of_another_node/1,
    what_is_printed_reaches_the_caller/1,
    the_idle_loops_get_the_work/1,
    local_loops_come_first/1,
    equal_keys_go_to_the_same_loop/1,
    peers_in_a_group/1,
    batches_over_a_group/1,
    a_node_that_is_killed/1,
    a_caller_whose_node_is_killed/1,
    a_node_that_splits_off_and_comes_back/1,
    a_node_joins_under_load/1,
    the_relay/1,
    the_process_of_groups/1,
    the_scope_of_a_group/1,
    a_pool_over_a_group/1,
    a_pool_waits_for_the_first_loop/1,
    another_environment/1,
    nodes_that_cannot_be_used/1,
    another_version/1,
    invalid_options/1
]).
%% For py_supervision_SUITE.
-export([deaths/0]).
%% In the nodes.
-export([pids/2, sleeps/3, tasks/0, streams/0, prints/0, busy/1, old_report/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE, [busy, old_report]).

%% Nodes `a' and `b' have a loop each in the group `work'; `c' has none. All have the pool.
init_per_suite(Config) ->
    [A, B, C] = Members = cluster:start([{a, []}, {b, []}, {c, []}]),
    _ = [start_loop(Member) || Member <- [A, B]],
    _ = [start_pool(Member) || Member <- Members],
    _ = [await_loops(Member, 2) || Member <- Members],
    [{a, A}, {b, B}, {c, C} | Config].

end_per_suite(Config) ->
    cluster:stop([proplists:get_value(Name, Config) || Name <- [a, b, c]]).

init_per_testcase(_Case, Config) -> Config.

end_per_testcase(_Case, _Config) -> ok.

node_of(Name, Config) -> proplists:get_value(Name, Config).

start_loop(Member) ->
    start_loop(Member, #{}).

start_loop(Member, Options) ->
    cluster:call(Member, cluster, keep, [{py_event_loop, maps:merge(#{name => worker, group => work}, Options)}]).

start_pool(Member) ->
    cluster:call(Member, cluster, keep, [{py_event_loop_pool, #{name => everywhere, place => {group, work}}}]).

loops(Member) ->
    {ok, Loops} = cluster:call(Member, py_event_loop_pool, info, [everywhere]),
    Loops.

await_loops(Member, Count) ->
    eventually:is(Count, fun() -> length([1 || #{reachable := true} <- loops(Member)]) end, 30_000).

run(Member, Module, Function, Args) ->
    cluster:call(Member, py_event_loop_pool, run, [everywhere, Module, Function, Args]).

os_pid({_, _} = Member) ->
    list_to_integer(cluster:call(Member, os, getpid, [])).

%% Placement

all_loops_are_used_from_a_node_without_any(Config) ->
    Used = cluster:call(node_of(c, Config), ?MODULE, pids, [#{}, 100]),
    ?assertEqual(lists:sort([os_pid(node_of(N, Config)) || N <- [a, b]]), lists:usort(Used)).

%% The operating system process that each call runs in.
pids(Options, Count) ->
    [
        Pid
     || _ <- lists:seq(1, Count),
        {ok, Pid} <- [py_event_loop_pool:call(everywhere, os, getpid, [], #{}, Options)]
    ].

tasks_and_streams_of_another_node(Config) ->
    ok = cluster:call(node_of(c, Config), ?MODULE, tasks, []),
    ok = cluster:call(node_of(c, Config), ?MODULE, streams, []).

tasks() ->
    {ok, Task} = py_event_loop_pool:submit(everywhere, asyncio, sleep, [60]),
    ?assertEqual(timeout, py:yield(Task, 10)),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    ?assertEqual({error, noproc}, py:await(Task)),
    {error, #{type := <<"builtins.ValueError">>}} = py_event_loop_pool:call(everywhere, math, sqrt, [-1]),
    ?assertEqual({error, timeout}, py_event_loop_pool:call(everywhere, asyncio, sleep, [60], #{}, 20)),
    ok = py_event_loop_pool:cast(everywhere, math, sqrt, [4]),
    ?assertError(badarg, py_event_loop_pool:call(everywhere, math, sqrt, 4)),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    ok.

%% Of a loop that this node knows by its pid only.
streams() ->
    {ok, [#{pid := Loop} | _]} = py_event_loop_pool:info(everywhere),
    ?assertNotEqual(node(), node(Loop)),
    Sum = fun(Item, Acc) -> Item + Acc end,
    ?assertEqual({ok, 499_500}, py:fold(Sum, 0, builtins, range, [1000], #{}, #{loop => Loop})),
    {ok, Stream} = py_event_loop_pool:stream(everywhere, builtins, range, [3], #{}, #{demand => 10}),
    ?assertEqual({[0, 1, 2], done}, streams:rest_of(Stream)),
    {ok, Open} = py_event_loop:stream(Loop, streamed, waits, [<<"x">>], #{}, #{demand => 10}),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end),
    ok = py:cancel(Open),
    eventually:is({ok, 0}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    ok.

what_is_printed_reaches_the_caller(Config) ->
    ok = cluster:call(node_of(c, Config), ?MODULE, prints, []).

prints() ->
    Leader = fake_leader:start(),
    {ok, none} = fake_leader:as_leader(Leader, fun() ->
        py_event_loop_pool:run(everywhere, builtins, print, [<<"written over there">>])
    end),
    ok = fake_leader:has(Leader, <<"written over there\n">>),
    fake_leader:stop(Leader).

%% The loop of `a' has work of callers on `a', which `c' sees in its reports.
the_idle_loops_get_the_work(Config) ->
    [A, B, C] = [node_of(N, Config) || N <- [a, b, c]],
    Busy = cluster:call(A, ?MODULE, busy, [20]),
    {_, NodeOfA} = A,
    eventually:is(true, fun() ->
        lists:any(fun(#{node := N, unanswered := U}) -> N =:= NodeOfA andalso U >= 20 end, loops(C))
    end),
    ?assertEqual([os_pid(B)], lists:usort(cluster:call(C, ?MODULE, pids, [#{}, 15]))),
    true = cluster:call(A, erlang, exit, [Busy, kill]),
    eventually:is(0, fun() -> lists:sum([U || #{unanswered := U} <- loops(C)]) end).

busy(Count) ->
    Self = self(),
    Pid = spawn(fun() ->
        _ = [{ok, _} = py_event_loop:submit(worker, asyncio, sleep, [60]) || _ <- lists:seq(1, Count)],
        Self ! started,
        receive
            stop -> ok
        end
    end),
    receive
        started -> Pid
    end.

local_loops_come_first(Config) ->
    A = node_of(a, Config),
    Options = #{name => near, place => {group, work}, locality => prefer},
    Pool = cluster:call(A, cluster, keep, [{py_event_loop_pool, Options}]),
    Pids = [cluster:call(A, py_event_loop_pool, call, [near, os, getpid, []]) || _ <- lists:seq(1, 10)],
    ?assertEqual([{ok, os_pid(A)}], lists:usort(Pids)),
    Busy = cluster:call(A, ?MODULE, busy, [20]),
    ?assertEqual(
        {ok, os_pid(node_of(b, Config))}, cluster:call(A, py_event_loop_pool, call, [near, os, getpid, []])
    ),
    true = cluster:call(A, erlang, exit, [Busy, kill]),
    true = is_pid(Pool),
    ok = cluster:call(A, py_event_loop_pool, stop, [near]).

equal_keys_go_to_the_same_loop(Config) ->
    Of = fun(Node, Key) -> lists:usort(cluster:call(node_of(Node, Config), ?MODULE, pids, [#{affinity => Key}, 3])) end,
    Places = [{Key, Of(c, Key)} || Key <- lists:seq(1, 20)],
    ?assertEqual([1], lists:usort([length(Pids) || {_, Pids} <- Places])),
    ?assertEqual(2, length(lists:usort([Pids || {_, Pids} <- Places]))),
    %% All nodes agree.
    ?assertEqual(Places, [{Key, Of(a, Key)} || Key <- lists:seq(1, 20)]).

%% The peer of another node; its crash is reported with the signal.
peers_in_a_group(Config) ->
    [A, C] = [node_of(N, Config) || N <- [a, c]],
    Options = #{name => crashing, size => 1, spare => 1, place => peer, group => crashes},
    _ = cluster:call(A, cluster, keep, [{py_event_loop_pool, Options}]),
    _ = cluster:call(C, cluster, keep, [{py_event_loop_pool, #{name => far_crashes, place => {group, crashes}}}]),
    Call = fun(M, F, Args) -> cluster:call(C, py_event_loop_pool, call, [far_crashes, M, F, Args, #{}, 30_000]) end,
    {ok, First} = Call(os, getpid, []),
    ?assertEqual({error, {peer_down, {signal, sigsegv}}}, Call(ctypes, string_at, [0])),
    %% It waits for the next peer: the spare is only for callers of that pool.
    {ok, Second} = Call(os, getpid, []),
    ?assertNotEqual(First, Second),
    ?assertEqual({ok, 2.0}, Call(math, sqrt, [4])),
    ok = cluster:call(A, py_event_loop_pool, stop, [crashing]),
    ok = cluster:call(C, py_event_loop_pool, stop, [far_crashes]).

batches_over_a_group(Config) ->
    C = node_of(c, Config),
    Options = #{name => sums, call => {builtins, sorted}, pool => everywhere},
    _ = cluster:call(C, cluster, keep, [{py_batch, Options}]),
    ?assertEqual({ok, 7}, cluster:call(C, py_batch, call, [sums, 7])),
    ok = cluster:call(C, py_batch, stop, [sums]).

%% Nodes that go and come

a_node_that_is_killed(Config) ->
    C = node_of(c, Config),
    [D] = join(Config, d),
    _ = start_loop(D),
    await_loops(C, 3),
    Calls = cluster:spawn_call(C, ?MODULE, sleeps, [everywhere, 30, 2]),
    {_, NodeOfD} = D,
    eventually:is(true, fun() -> has_tasks(D) end),
    ok = cluster:kill(D),
    Results = cluster:result(Calls),
    ?assertEqual(30, length(Results)),
    Lost = [R || R <- Results, R =:= {error, {peer_down, noconnection}}],
    ?assert(length(Lost) > 0),
    ?assertEqual(30 - length(Lost), length([N || {ok, N} <- Results])),
    await_loops(C, 2),
    ?assertEqual([], [x || #{node := N} <- loops(C), N =:= NodeOfD]),
    ?assertEqual({ok, 2.0}, run(C, math, sqrt, [4])).

join(Config, Name) ->
    [Member] = cluster:start([{Name, []}]),
    {_, Node} = node_of(c, Config),
    pong = cluster:call(Member, net_adm, ping, [Node]),
    [Member].

has_tasks(Member) ->
    {ok, Tasks} = cluster:call(Member, py_event_loop, tasks, [worker]),
    Tasks =/= [].

%% This number of calls at a time, each of which sleeps that long.
sleeps(Pool, Count, Seconds) ->
    Call = fun(N) -> exit(py_event_loop_pool:call(Pool, asyncio, sleep, [Seconds, N], #{}, 60_000)) end,
    Callers = [spawn_monitor(fun() -> Call(N) end) || N <- lists:seq(1, Count)],
    [
        receive
            {'DOWN', Monitor, process, Pid, Result} -> Result
        end
     || {Pid, Monitor} <- Callers
    ].

a_caller_whose_node_is_killed(Config) ->
    [D] = join(Config, d),
    _ = start_pool(D),
    await_loops(D, 2),
    Calls = cluster:spawn_call(D, ?MODULE, sleeps, [everywhere, 20, 60]),
    eventually:is(true, fun() -> has_tasks(node_of(a, Config)) andalso has_tasks(node_of(b, Config)) end),
    ok = cluster:kill(D),
    {no_result, _} = cluster:result(Calls),
    eventually:is(false, fun() -> has_tasks(node_of(a, Config)) orelse has_tasks(node_of(b, Config)) end).

a_node_that_splits_off_and_comes_back(Config) ->
    [A, B, C] = [node_of(N, Config) || N <- [a, b, c]],
    Calls = cluster:spawn_call(C, ?MODULE, sleeps, [everywhere, 20, 1]),
    eventually:is(true, fun() -> has_tasks(A) andalso has_tasks(B) end),
    ok = cluster:cut(A, B),
    ok = cluster:cut(C, B),
    Results = cluster:result(Calls),
    ?assertEqual([], [R || R <- Results, element(1, R) =/= ok, R =/= {error, {peer_down, noconnection}}]),
    ?assert(lists:member({error, {peer_down, noconnection}}, Results)),
    %% What ran there for lost callers is cancelled; both sides go on.
    eventually:is(false, fun() -> has_tasks(B) end),
    await_loops(C, 1),
    ?assertEqual({ok, os_pid(A)}, run(C, os, getpid, [])),
    ?assertEqual({ok, os_pid(B)}, run(B, os, getpid, [])),
    ok = cluster:heal(A, B),
    ok = cluster:heal(C, B),
    _ = [await_loops(Member, 2) || Member <- [A, B, C]],
    ?assertEqual(2, length(lists:usort(cluster:call(C, ?MODULE, pids, [#{}, 100])))).

a_node_joins_under_load(Config) ->
    C = node_of(c, Config),
    Calls = [cluster:spawn_call(C, ?MODULE, sleeps, [everywhere, 50, 0.5]) || _ <- lists:seq(1, 2)],
    [D] = join(Config, d),
    _ = start_loop(D),
    await_loops(C, 3),
    Results = lists:append(lists:map(fun cluster:result/1, Calls)),
    ?assertEqual([ok], lists:usort([element(1, R) || R <- Results])),
    ?assert(lists:member(os_pid(D), cluster:call(C, ?MODULE, pids, [#{}, 100]))),
    cluster:stop([D]),
    await_loops(C, 2).

%% Rows of the table in docs/supervision.md.
deaths() ->
    [the_relay, the_process_of_groups, the_scope_of_a_group, a_pool_over_a_group].

the_relay(Config) ->
    [A, B, C] = [node_of(N, Config) || N <- [a, b, c]],
    Calls = cluster:spawn_call(C, ?MODULE, sleeps, [everywhere, 10, 1]),
    eventually:is(true, fun() -> has_tasks(A) andalso has_tasks(B) end),
    restarts(B, py_relay),
    Results = cluster:result(Calls),
    ?assertEqual([], [R || R <- Results, element(1, R) =/= ok, R =/= {error, loop_down}]),
    ?assert(lists:member({error, loop_down}, Results)),
    eventually:is(false, fun() -> has_tasks(B) end),
    is_complete(C).

the_process_of_groups(Config) ->
    [B, C] = [node_of(N, Config) || N <- [b, c]],
    Calls = cluster:spawn_call(C, ?MODULE, sleeps, [everywhere, 10, 0.5]),
    eventually:is(true, fun() -> has_tasks(B) end),
    _ = [restarts(Member, py_groups) || Member <- [B, C]],
    ?assertEqual([ok], lists:usort([element(1, R) || R <- cluster:result(Calls)])),
    is_complete(C).

the_scope_of_a_group(Config) ->
    [B, C] = [node_of(N, Config) || N <- [b, c]],
    _ = [restarts(Member, work) || Member <- [B, C]],
    is_complete(C).

a_pool_over_a_group(Config) ->
    C = node_of(c, Config),
    true = cluster:call(C, erlang, exit, [cluster:call(C, erlang, whereis, [everywhere]), kill]),
    eventually:is(undefined, fun() -> cluster:call(C, erlang, whereis, [everywhere]) end),
    ?assertEqual({ok, 2.0}, run(C, math, sqrt, [4])),
    _ = start_pool(C),
    is_complete(C).

restarts(Member, Name) ->
    Old = cluster:call(Member, erlang, whereis, [Name]),
    true = cluster:call(Member, erlang, exit, [Old, kill]),
    eventually:is(true, fun() ->
        New = cluster:call(Member, erlang, whereis, [Name]),
        is_pid(New) andalso New =/= Old
    end).

is_complete(Member) ->
    eventually:is(2, fun() -> length(lists:usort(cluster:call(Member, ?MODULE, pids, [#{}, 50]))) end).

a_pool_waits_for_the_first_loop(Config) ->
    [A, C] = [node_of(N, Config) || N <- [a, c]],
    _ = cluster:call(C, cluster, keep, [{py_event_loop_pool, #{name => waits, place => {group, later}}}]),
    ?assertEqual({ok, []}, cluster:call(C, py_event_loop_pool, info, [waits])),
    ?assertEqual({error, unavailable}, cluster:call(C, py_event_loop_pool, submit, [waits, math, sqrt, [4]])),
    ?assertEqual({error, unavailable}, cluster:call(C, py_event_loop_pool, call, [waits, math, sqrt, [4], #{}, 1])),
    Call = cluster:spawn_call(C, py_event_loop_pool, call, [waits, math, sqrt, [4], #{}, 60_000]),
    Loop = start_loop(A, #{name => late, group => later}),
    ?assertEqual({ok, 2.0}, cluster:result(Call)),
    {ok, []} = cluster:call(A, py_event_loop, stop, [Loop]),
    eventually:is({ok, []}, fun() -> cluster:call(C, py_event_loop_pool, info, [waits]) end),
    ok = cluster:call(C, py_event_loop_pool, stop, [waits]).

%% Bad input

%% A node with a list of packages uses no loops of nodes that have others.
another_environment(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "requirements.txt"),
    ok = file:write_file(File, "greeting==1.0\n"),
    [D] = cluster:start([{d, [{requirements, File}]}]),
    {_, NodeOfA} = node_of(a, Config),
    pong = cluster:call(D, net_adm, ping, [NodeOfA]),
    _ = start_pool(D),
    eventually:is(true, fun() ->
        case cluster:call(D, py_event_loop_pool, submit, [everywhere, math, sqrt, [4]]) of
            {error, {unavailable, Text}} -> binary:match(Text, <<"environment">>) =/= nomatch;
            {error, unavailable} -> false
        end
    end),
    {error, {other_environment, #{NodeOfA := none, wanted := Wanted}}} =
        cluster:call(D, py_event_loop, start_link, [#{place => NodeOfA}]),
    ?assert(is_binary(Wanted)),
    cluster:stop([D]).

nodes_that_cannot_be_used(Config) ->
    A = node_of(a, Config),
    Start = fun(Node) -> cluster:call(A, py_event_loop, start_link, [#{place => Node}]) end,
    ?assertEqual({error, {peer_down, noconnection}}, Start('nowhere@127.0.0.1')),
    {_, NoCode} = Without = cluster:start_bare(without, []),
    ?assertEqual({error, {no_erlang_loop, NoCode}}, Start(NoCode)),
    {_, NotStarted} = Stopped = cluster:start_bare(stopped, lists:append([["-pa", D] || D <- project:ebin_dirs()])),
    ?assertEqual({error, {no_erlang_loop, NotStarted}}, Start(NotStarted)),
    {_, Stranger} = Other = cluster:start_bare(stranger, ["-setcookie", "another"]),
    ?assertEqual({error, {peer_down, noconnection}}, Start(Stranger)),
    cluster:stop([Without, Stopped, Other]).

%% Of an older one, as its process would report.
another_version(Config) ->
    C = node_of(c, Config),
    _ = cluster:call(C, cluster, keep, [{py_event_loop_pool, #{name => alone, place => {group, old}}}]),
    ok = cluster:call(C, ?MODULE, old_report, [old]),
    {error, {unavailable, Text}} = cluster:call(C, py_event_loop_pool, submit, [alone, math, sqrt, [4]]),
    ?assertMatch({match, _}, re:run(Text, "another version")),
    ok = cluster:call(C, py_event_loop_pool, stop, [alone]).

old_report(Scope) ->
    py_groups ! {py_group_report, Scope, {0, 'old@host', none}, [{self(), old, 0}]},
    _ = sys:get_state(py_groups),
    ok.

invalid_options(_Config) ->
    Bad = fun(Module, Options) -> ?assertError({bad_option, _, _}, Module:start_link(Options)) end,
    Bad(py_event_loop, #{group => 1}),
    Bad(py_event_loop, #{place => {group, work}}),
    Pool = #{name => bad, place => {group, work}},
    _ = [
        Bad(py_event_loop_pool, maps:merge(Pool, Wrong))
     || Wrong <- [#{place => {group, "work"}}, #{locality => far}, #{size => 2}, #{init => <<"x">>}]
    ],
    Bad(py_event_loop_pool, #{name => bad, locality => prefer}).
