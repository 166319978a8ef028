%% @doc What does a cut link cost a pool over three nodes? `make cluster': each node is in a network
%% namespace of its own, and the link of one is down for ten seconds (`SPLIT_SECONDS') under load.
%% Without the rights for that, or without `ip', the nodes are on the loopback interface and two of them
%% refuse the third one.
%%
%% Nothing may be run twice, only requests to the node that is cut off may fail, and afterwards each
%% node has to have its share of the load again.
-module(py_split_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([a_link_is_cut_and_healed/1]).
%% In the nodes.
-export([load/3]).

-define(CALLERS, 30).
-define(NAMES, [a, b, c]).

suite() -> [{timetrap, {minutes, 5}}].

all() -> [a_link_is_cut_and_healed].

init_per_suite(Config) ->
    Network = network(),
    Members = cluster:start([{Name, [{place, place(Network, N)}]} || {N, Name} <- numbered()]),
    _ = [
        cluster:call(Member, cluster, keep, [{py_event_loop, #{name => worker, group => work}}])
     || Member <- Members
    ],
    _ = [
        cluster:call(Member, cluster, keep, [{py_event_loop_pool, #{name => everywhere, place => {group, work}}}])
     || Member <- Members
    ],
    _ = [await_loops(Member, 3) || Member <- Members],
    [{network, Network}, {members, Members} | Config].

end_per_suite(Config) ->
    cluster:stop(proplists:get_value(members, Config)),
    _ = [remove_namespaces() || proplists:get_value(network, Config) =:= namespaces],
    ok.

numbered() -> lists:zip(lists:seq(1, 3), ?NAMES).

await_loops(Member, Count) ->
    eventually:is(
        Count,
        fun() ->
            {ok, Loops} = cluster:call(Member, py_event_loop_pool, info, [everywhere]),
            length([1 || #{reachable := true} <- Loops])
        end,
        60_000
    ).

%% Callers on all nodes; each request writes its number into a file before it sleeps.
a_link_is_cut_and_healed(Config) ->
    [A, B, C] = Members = proplists:get_value(members, Config),
    Network = proplists:get_value(network, Config),
    Seconds = list_to_integer(os:getenv("SPLIT_SECONDS", "1")),
    Folder = proplists:get_value(priv_dir, Config),
    Load = fun(Phase, For) ->
        [
            cluster:spawn_call(Member, ?MODULE, load, [filename:join(Folder, Phase), Name, For])
         || {Member, Name} <- lists:zip(Members, ?NAMES)
        ]
    end,
    During = Load("during", Seconds * 1000 + 2000),
    %% Some load first.
    ok = timer:sleep(500),
    ok = cut(Network, [A, B, C]),
    %% Its length is what is tested.
    ok = timer:sleep(Seconds * 1000),
    ok = heal(Network, [A, B, C]),
    Results = lists:append(lists:map(fun cluster:result/1, During)),
    _ = [await_loops(Member, 3) || Member <- Members],
    After = lists:append([cluster:result(Call) || Call <- Load("after", 3000)]),
    Pids = lists:map(fun os_pid/1, Members),
    Shares = [length([1 || {_, {ok, Of}} <- After, Of =:= Pid]) || Pid <- Pids],
    Failed = [{N, R} || {N, R} <- Results ++ After, element(1, R) =/= ok],
    Runs = lists:append([runs(filename:join(Folder, Phase)) || Phase <- ["during", "after"]]),
    Twice = Runs -- lists:usort(Runs),
    Lines = [
        ["cut for ", integer_to_list(Seconds), " s (", atom_to_list(Network), "): "],
        io_lib:format("~b requests, ~b failed, run twice: ~b; afterwards by node: ~w~n", [
            length(Results) + length(After), length(Failed), length(Twice), Shares
        ])
    ],
    _ = [io:format(To, "~n~ts", [Lines]) || To <- [group_leader(), user]],
    ?assertEqual([], Twice),
    ?assertEqual([], [F || {_, R} = F <- Failed, R =/= {error, {peer_down, noconnection}}]),
    ?assertEqual([], [F || {_, {error, _}} = F <- After]),
    %% What returned a result has run.
    ?assertEqual([], [N || {N, {ok, _}} <- Results ++ After] -- Runs),
    Even = lists:sum(Shares) / 3,
    ?assertEqual([], [S || S <- Shares, abs(S - Even) > 0.2 * Even], Shares).

%% In a node: callers that make requests for some time. A request is given the file and its number.
load(Folder, Name, For) ->
    ok = filelib:ensure_dir(filename:join(Folder, "x")),
    File = list_to_binary(filename:join(Folder, atom_to_list(Name))),
    Until = erlang:monotonic_time(millisecond) + For,
    Callers = [
        spawn_monitor(fun() -> exit({results, requests(File, Name, Caller, 1, Until)}) end)
     || Caller <- lists:seq(1, ?CALLERS)
    ],
    lists:append([
        receive
            {'DOWN', Monitor, process, Pid, {results, Results}} -> Results
        end
     || {Pid, Monitor} <- Callers
    ]).

requests(File, Name, Caller, N, Until) ->
    case erlang:monotonic_time(millisecond) < Until of
        false ->
            [];
        true ->
            Id = iolist_to_binary(io_lib:format("~s-~b-~b-~b", [Name, Until, Caller, N])),
            Result = py_event_loop_pool:call(everywhere, called, note_run, [File, Id], #{}, 120_000),
            [{Id, Result} | requests(File, Name, Caller, N + 1, Until)]
    end.

os_pid(Member) -> list_to_integer(cluster:call(Member, os, getpid, [])).

runs(Folder) ->
    lists:append([
        binary:split(Text, <<"\n">>, [global, trim_all])
     || File <- filelib:wildcard(filename:join(Folder, "*")), {ok, Text} <- [file:read_file(File)]
    ]).

%% The network

network() ->
    case os:getenv("SPLIT_SECONDS") =/= false andalso make_namespaces() of
        true -> namespaces;
        false -> loopback
    end.

place(loopback, _) -> here;
place(namespaces, N) -> {namespace, namespace(N), address(N)}.

namespace(N) -> "erlang_loop_" ++ integer_to_list(N).
address(N) -> "10.99.28." ++ integer_to_list(N).

%% A bridge with a link to each node.
make_namespaces() ->
    _ = remove_namespaces(),
    Links = lists:append([
        [
            ["ip netns add ", namespace(N)],
            ["ip link add el28_", Number, " type veth peer name eth0 netns ", namespace(N)],
            ["ip link set el28_", Number, " master el28 up"],
            ["ip -n ", namespace(N), " addr add ", address(N), "/24 dev eth0"],
            ["ip -n ", namespace(N), " link set eth0 up"],
            ["ip -n ", namespace(N), " link set lo up"]
        ]
     || N <- lists:seq(1, 3), Number <- [integer_to_list(N)]
    ]),
    lists:all(fun works/1, ["ip link add el28 type bridge", "ip link set el28 up" | Links]).

works(Command) ->
    string:trim(os:cmd(lists:flatten([Command, " >/dev/null 2>&1; echo $?"]))) =:= "0".

%% With the port mappers (epmd) that their nodes have started.
remove_namespaces() ->
    _ = [works(["kill $(ip netns pids ", namespace(N), ")"]) || N <- lists:seq(1, 3)],
    _ = [works(["ip netns delete ", namespace(N)]) || N <- lists:seq(1, 3)],
    works("ip link delete el28").

cut(namespaces, _) ->
    true = works("ip link set el28_2 down"),
    ok;
cut(loopback, [A, B, C]) ->
    ok = cluster:cut(A, B),
    ok = cluster:cut(C, B).

heal(namespaces, _) ->
    true = works("ip link set el28_2 up"),
    ok;
heal(loopback, [A, B, C]) ->
    ok = cluster:heal(A, B),
    ok = cluster:heal(C, B).
