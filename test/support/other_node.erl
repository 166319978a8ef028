%% @doc Nodes of their own, for what can be done only once in a node or ends it.
-module(other_node).

-export([start/1, start/2, start_with_fds/2, call/4, stop/1, run/1, run/2]).

%% @doc A node with the application loaded and `Env' as its settings.
-spec start([{atom(), term()}]) -> pid().
start(Env) ->
    start(Env, []).

%% @doc As start/1, with further arguments for `erl'.
-spec start([{atom(), term()}], [string()]) -> pid().
start(Env, Args) ->
    configured(#{connection => standard_io, args => paths() ++ Args}, Env).

%% @doc As start/1, with this many fds, or as many as the system allows.
-spec start_with_fds(pos_integer(), [{atom(), term()}]) -> pid().
start_with_fds(Count, Env) ->
    Script = io_lib:format(
        "ulimit -n ~b 2>/dev/null || ulimit -n $(ulimit -Hn); exec erl \"$@\"", [Count]
    ),
    Shell = {os:find_executable("sh"), ["-c", lists:flatten(Script), "erl"]},
    configured(#{connection => standard_io, exec => Shell, args => paths()}, Env).

configured(Options, Env) ->
    %% Longer than peer's 15 s: the machine may be busy.
    {ok, Node, _} = peer:start_link(Options#{wait_boot => 60_000}),
    ok = call(Node, application, load, [erlang_loop]),
    _ = [ok = call(Node, application, set_env, [erlang_loop, Key, Value]) || {Key, Value} <- Env],
    Node.

-spec call(pid(), module(), atom(), [term()]) -> term().
call(Node, Module, Function, Args) ->
    peer:call(Node, Module, Function, Args, 60_000).

-spec stop(pid()) -> ok.
stop(Node) ->
    peer:stop(Node).

%% @doc Runs `Code' in a node that ends by itself and returns its exit status and all it printed.
-spec run(string()) -> {non_neg_integer(), string()}.
run(Code) ->
    run(Code, []).

-spec run(string(), [string()]) -> {non_neg_integer(), string()}.
run(Code, Args) ->
    Port = open_port({spawn_executable, os:find_executable("erl")}, [
        {args, ["-noinput" | paths()] ++ Args ++ ["-eval", Code]},
        {env, [{"ERL_CRASH_DUMP_SECONDS", "0"}]},
        exit_status,
        stderr_to_stdout
    ]),
    collect(Port, []).

paths() ->
    lists:append([["-pa", Dir] || Dir <- project:ebin_dirs()]).

%% It prints, then ends; a node that does neither for a minute hangs.
collect(Port, Printed) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Printed, Data]);
        {Port, {exit_status, Status}} -> {Status, lists:flatten(Printed)}
    after 60_000 ->
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        _ = os:cmd("kill -KILL " ++ integer_to_list(Pid)),
        error({hangs, lists:flatten(Printed)})
    end.
