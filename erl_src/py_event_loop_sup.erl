%% @doc The default loop, for coroutines of `py:call'.
%%
%% one_for_one, and empty until somebody needs it. The loop is permanent: one that ends is
%% replaced by a fresh one, its init code run again. Its own limit of restarts: a loop whose init
%% code fails must not take routers and workers with it.
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

%% @doc Returns when there is a default loop. Python is up.
-spec ensure_default() -> ok | {error, term()}.
ensure_default() ->
    Init = application:get_env(erlang_loop, default_loop_init, <<>>),
    Chosen = application:get_env(erlang_loop, default_loop_options, #{}),
    Options = Chosen#{name => py_default_loop, init => Init, default => true},
    Spec = py_event_loop:child_spec(Options),
    try supervisor:start_child(?MODULE, Spec) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok;
        {error, already_present} -> {error, loop_down};
        {error, Reason} -> {error, Reason}
    catch
        %% It is not there, or was killed or shut down meanwhile.
        exit:{_, {gen_server, call, _}} -> {error, not_started}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, {#{strategy => one_for_one, intensity => 10, period => 10}, []}}.
