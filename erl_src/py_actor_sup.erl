%% @doc Supervises the processes of Python tasks and threads that have a pid. They are temporary: a
%% process represents a running coroutine or thread, which a supervisor cannot start again. Start an
%% actor that is to be restarted with `py_actor:start_link/3,4' below your own supervisor.
-module(py_actor_sup).

-behaviour(supervisor).

-export([start_link/0, start_actor/1]).
-export([init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec start_actor(py_actor:beginning()) -> {ok, pid()} | {error, term()}.
start_actor(Beginning) ->
    case supervisor:start_child(?MODULE, [Beginning]) of
        {ok, Pid} when is_pid(Pid) -> {ok, Pid};
        {error, Reason} -> {error, Reason}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok,
        {#{strategy => simple_one_for_one}, [
            #{id => py_actor, start => {py_actor, begin_link, []}, restart => temporary}
        ]}}.
