%% @private
%% @doc Group leaders of callers that are processes of another node. What Python prints is sent to
%% group leaders by native threads, which reach processes of their own node only: for each leader of
%% another node there is a process here that passes on what it gets. For `py_peer_agent' and
%% `py_relay', which trap exits and pass them to {@link ended/2}.
-module(py_leaders).

-export([new/0, here/2, ended/2]).

-export_type([leaders/0]).

-opaque leaders() :: #{Leader :: pid() => Here :: pid()}.

-spec new() -> leaders().
new() -> #{}.

%% @doc The leader itself, or the process that stands for it, linked to the calling process.
-spec here(pid(), leaders()) -> {pid(), leaders()}.
here(Leader, Leaders) when node(Leader) =:= node() ->
    {Leader, Leaders};
here(Leader, Leaders) ->
    case Leaders of
        #{Leader := Here} ->
            {Here, Leaders};
        #{} ->
            Here = spawn_link(fun() -> pass_on(Leader, monitor(process, Leader)) end),
            {Here, Leaders#{Leader => Here}}
    end.

%% @doc Without this process, which has ended.
-spec ended(pid(), leaders()) -> leaders().
ended(Pid, Leaders) ->
    maps:filter(fun(_, Here) -> Here =/= Pid end, Leaders).

%% The replies go to the process that has asked. The leader may die at any time.
pass_on(Leader, Monitor) ->
    receive
        {'DOWN', Monitor, process, _, _} ->
            ok;
        Request ->
            Leader ! Request,
            pass_on(Leader, Monitor)
    end.
