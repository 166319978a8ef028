%% @doc Supervises the workers of isolated loops that Python created.
%%
%% simple_one_for_one with temporary children: a worker cannot be restarted without its loop, and
%% the loop ends with it. The Python thread that runs the loop gets an error and decides.
-module(py_event_worker_sup).

-behaviour(supervisor).

-export([start_link/0, start_worker/1]).
-export([init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Starts a worker for `LoopRef'.
-spec start_worker(py_nif:loop_ref()) -> {ok, pid()} | {error, term()}.
start_worker(LoopRef) ->
    case supervisor:start_child(?MODULE, [LoopRef, LoopRef]) of
        {ok, Pid} when is_pid(Pid) -> {ok, Pid};
        {error, Reason} -> {error, Reason}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Flags = #{strategy => simple_one_for_one},
    {ok,
        {Flags, [
            #{
                id => py_event_worker,
                start => {py_event_worker, start_link, []},
                restart => temporary
            }
        ]}}.
