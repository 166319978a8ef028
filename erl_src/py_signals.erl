%% @doc Makes the VM handle the signals that loops want, and restores them afterwards.
%%
%% Takes `{signals_changed, Request | undefined}', from Python threads that add or remove a signal
%% handler (they wait for the reply to `Request') and from loops that close. The NIF library stores
%% which signals are wanted and what each did before. This process has no state of its own, so it
%% can be restarted at any time.
-module(py_signals).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, stateless}.
init([]) ->
    %% So that terminate/2 runs when the application stops.
    _ = process_flag(trap_exit, true),
    ok = py_nif:signals_started(),
    %% A predecessor may have died after it recorded a signal and before it called os:set_signal/2.
    {_, Taken} = py_nif:signals_wanted(),
    lists:foreach(fun(Signal) -> ok = os:set_signal(Signal, handle) end, Taken),
    _ = settle(),
    {ok, stateless}.

-spec handle_call(term(), gen_server:from(), stateless) ->
    {reply, {error, unknown_call}, stateless}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_signals: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), stateless) -> {noreply, stateless}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_signals: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), stateless) -> {noreply, stateless}.
handle_info({signals_changed, undefined}, State) ->
    _ = settle(),
    {noreply, State};
handle_info({signals_changed, Request}, State) ->
    ok = py_nif:signals_settled(Request, settle()),
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_signals: unknown message ~p", [Message]),
    {noreply, State}.

%% Loops outlive the application; their signals do not.
-spec terminate(term(), stateless) -> ok.
terminate(_Reason, _State) ->
    ok = py_nif:signals_stopped(),
    {_, Taken} = py_nif:signals_wanted(),
    give_back(Taken),
    py_signal_handler:leave().

%% Returns the signals that this VM does not let others handle.
settle() ->
    {Wanted, Taken} = py_nif:signals_wanted(),
    %% Our handler is installed before the first signal is taken and removed after the last one is
    %% restored, so that OTP's handler (which stops the node on SIGTERM) never gets a signal that a
    %% loop wants.
    Wanted =:= [] orelse py_signal_handler:enter(),
    give_back(Taken -- Wanted),
    Refused = [Signal || Signal <- Wanted -- Taken, not take(Signal)],
    Wanted -- Refused =:= [] andalso py_signal_handler:leave(),
    Refused.

take(Signal) ->
    ok = py_nif:signal_take(Signal),
    try
        os:set_signal(Signal, handle),
        true
    catch
        error:badarg ->
            _ = py_nif:signal_give_back(Signal),
            false
    end.

give_back(Signals) ->
    lists:foreach(fun(Signal) -> ok = os:set_signal(Signal, before(Signal)) end, Signals).

%% Under `bin/erlang-loop' the signal was handled by Python, not by the VM: asyncio resets such a
%% signal to its default, and so do we.
before(Signal) ->
    case {py_nif:signal_give_back(Signal), application:get_env(erlang_loop, runs_command)} of
        {handle, {ok, true}} -> default;
        {Before, _} -> Before
    end.
