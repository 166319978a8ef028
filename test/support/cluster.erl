%% @doc Nodes that are connected with each other, each with a Python of its own, for suites.
-module(cluster).

-export([start/1, start_bare/2, stop/1, kill/1, call/4, spawn_call/4, result/1, cut/2, heal/2]).
%% In the nodes.
-export([keep/1, group_pool/1]).

-export_type([member/0]).

-type member() :: {Control :: pid(), node()}.

%% @doc Nodes with the application running. The setting `place' is for this module.
-spec start([{Name :: atom(), Settings :: [{atom(), term()}]}]) -> [member()].
start(Wanted) ->
    Members = [
        start_at(proplists:get_value(place, Settings, here), Name, paths())
     || {Name, Settings} <- Wanted
    ],
    _ = [
        configure(Member, proplists:delete(place, Settings))
     || {Member, {_, Settings}} <- lists:zip(Members, Wanted)
    ],
    [{_, First} | _] = Members,
    _ = [pong = call(Member, net_adm, ping, [First]) || Member <- Members],
    Members.

configure(Member, Settings) ->
    ok = call(Member, application, load, [erlang_loop]),
    Path = {python_path, [project:file("test/support/python")]},
    _ = [ok = call(Member, application, set_env, [erlang_loop, Key, Value]) || {Key, Value} <- [Path | Settings]],
    {ok, _} = call(Member, application, ensure_all_started, [erlang_loop]),
    ok.

%% @doc A node with these arguments and without the application.
-spec start_bare(atom(), [string()]) -> member().
start_bare(Name, Args) ->
    start_at(here, Name, Args).

%% `{namespace, Name, Address}': in this network namespace.
start_at(Place, Name, Args) ->
    Full = lists:concat([Name, "_", os:getpid(), "_", erlang:unique_integer([positive])]),
    {Host, Exec} =
        case Place of
            here ->
                {"127.0.0.1", #{}};
            {namespace, Space, Address} ->
                {Address, #{exec => {os:find_executable("ip"), ["netns", "exec", Space, os:find_executable("erl")]}}}
        end,
    {ok, Control, Node} = peer:start(Exec#{
        name => list_to_atom(Full),
        host => Host,
        longnames => true,
        connection => standard_io,
        wait_boot => 60_000,
        args => ["-setcookie", "erlang_loop_tests" | Args]
    }),
    {Control, Node}.

paths() ->
    lists:append([["-pa", Dir] || Dir <- project:ebin_dirs()]).

-spec stop([member()]) -> ok.
stop(Members) ->
    lists:foreach(fun({Control, _}) -> catch peer:stop(Control) end, Members).

-spec kill(member()) -> ok.
kill({Control, _} = Member) ->
    Pid = call(Member, os, getpid, []),
    Monitor = monitor(process, Control),
    _ = os:cmd("kill -KILL " ++ Pid),
    receive
        {'DOWN', Monitor, process, Control, _} -> ok
    end.

-spec call(member(), module(), atom(), [term()]) -> term().
call({Control, _}, Module, Function, Args) ->
    peer:call(Control, Module, Function, Args, 60_000).

%% @doc A call that goes on meanwhile; `result/1' waits for it.
-spec spawn_call(member(), module(), atom(), [term()]) -> {pid(), reference()}.
spawn_call(Member, Module, Function, Args) ->
    spawn_monitor(fun() -> exit({result, call(Member, Module, Function, Args)}) end).

-spec result({pid(), reference()}) -> term().
result({Pid, Monitor}) ->
    receive
        {'DOWN', Monitor, process, Pid, {result, Result}} -> Result;
        {'DOWN', Monitor, process, Pid, Reason} -> {no_result, Reason}
    after 60_000 -> error(no_result)
    end.

%% @doc The two nodes lose their connection, and none comes about until {@link heal/2}.
-spec cut(member(), member()) -> ok.
cut({_, One} = First, {_, Two} = Second) ->
    true = call(First, erlang, set_cookie, [Two, cut]),
    true = call(Second, erlang, set_cookie, [One, cut_too]),
    _ = call(First, erlang, disconnect_node, [Two]),
    ok.

-spec heal(member(), member()) -> ok.
heal({_, One} = First, {_, Two} = Second) ->
    true = call(First, erlang, set_cookie, [Two, erlang_loop_tests]),
    true = call(Second, erlang, set_cookie, [One, erlang_loop_tests]),
    ok.

%% @doc Starts a loop or a pool and keeps it after the call that has started it.
-spec keep({module(), map()}) -> pid().
keep({Module, Options}) ->
    {ok, Pid} = Module:start_link(Options),
    true = unlink(Pid),
    Pid.

%% @doc A pool over a group, in its node.
-spec group_pool(map()) -> pid().
group_pool(Options) ->
    keep({py_event_loop_pool, Options}).
