%% @doc The default loop, for coroutines of `py:call'.
%%
%% one_for_one, and empty until the loop is needed. The loop is permanent: if it ends, it is
%% replaced by a fresh one, which runs its init code. This supervisor has its own restart limit, so
%% that a loop whose init code fails does not take down routers and workers.
-module(py_event_loop_sup).

-behaviour(supervisor).

-export([start_link/0, ensure_default/0]).
-export([init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Returns when the default loop exists. Python must be running.
-spec ensure_default() -> ok | {error, term()}.
ensure_default() ->
    case {py_settings:find(default_loop_init), py_settings:find(default_loop_options)} of
        {{ok, Init}, {ok, Chosen}} ->
            ensure(Chosen#{name => py_default_loop, init => Init, default => true});
        {{error, Sentence}, _} ->
            {error, Sentence};
        {_, {error, Sentence}} ->
            {error, Sentence}
    end.

ensure(Options) ->
    Spec = py_event_loop:child_spec(Options),
    try supervisor:start_child(?MODULE, Spec) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok;
        {error, already_present} -> {error, loop_down};
        %% The supervisor's own shape: what the loop said, and what it was to start.
        {error, {Reason, Child}} when element(1, Child) =:= child -> {error, Reason};
        {error, Reason} -> {error, Reason}
    catch
        %% The supervisor is not running, or was killed or shut down meanwhile.
        exit:{_, {gen_server, call, _}} -> {error, not_started}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, {#{strategy => one_for_one, intensity => 10, period => 10}, []}}.
