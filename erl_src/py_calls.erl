%% @doc Looks after the threads that requests run on: sets their limits, and logs what nobody
%% waits for.
%%
%% Takes these messages, all from native code:
%%
%% <ul>
%% <li>`{call_given_up, Id, Name}': the caller of a function that runs timed out, cancelled or
%%     died. Python functions cannot be stopped from outside.</li>
%% <li>`{call_ended, Id, Name, Milliseconds}': that function has ended now.</li>
%% <li>`{stream_ended, Id, Name, Milliseconds}': the same, of a plain generator that was closed or
%%     is through with the item it was at.</li>
%% <li>`{cast_failed, Name, Exception}': a cast raised.</li>
%% <li>`{late_failure, Name, Exception}': what was cancelled raised something else.</li>
%% </ul>
%%
%% Settings in the application environment: `call_threads' (64) threads at most, `call_queue'
%% (100000) waiting calls at most, `call_nesting' (1000) threads that wait for Erlang at most
%% (`erlang.call': they do not count as call threads), `loop_threads' (8) threads before loops
%% share them, `call_warning' (5000): log a function that still runs for
%% nobody after so many milliseconds.
-module(py_calls).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, info/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    warn_after :: non_neg_integer(),
    %% Functions that run for nobody.
    given_up = #{} :: #{pos_integer() => reference()}
}).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc The threads there are, how many of them have nothing to do, the calls that wait and those
%% that have ended so far.
-spec info() -> #{threads | idle | queued | ended => non_neg_integer()}.
info() ->
    py_nif:calls_info().

-spec init([]) -> {ok, #state{}}.
init([]) ->
    Setting = fun(Key, Default) -> application:get_env(erlang_loop, Key, Default) end,
    ok = py_nif:calls_started(
        self(),
        Setting(call_threads, 64),
        Setting(call_queue, 100_000),
        Setting(call_nesting, 1000)
    ),
    ok = py_nif:python_loop_threads(Setting(loop_threads, 8)),
    ok = py_nif:value_limits(
        Setting(max_integer_bytes, 1 bsl 20),
        Setting(max_value_parts, 30_000_000),
        Setting(max_new_atoms, 100_000)
    ),
    {ok, #state{warn_after = Setting(call_warning, 5000)}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_calls: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_calls: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({call_given_up, Id, Name}, #state{given_up = GivenUp} = State) ->
    Timer = erlang:start_timer(State#state.warn_after, self(), {still_running, Id, Name}),
    {noreply, State#state{given_up = GivenUp#{Id => Timer}}};
handle_info({timeout, _, {still_running, Id, Name}}, #state{given_up = GivenUp} = State) ->
    case GivenUp of
        #{Id := _} ->
            ?LOG_WARNING("Python's ~ts still runs ~p ms after its caller gave it up", [
                Name, State#state.warn_after
            ]);
        #{} ->
            ok
    end,
    {noreply, State};
handle_info({call_ended, Id, Name, Milliseconds}, State) ->
    log_end(Name, Milliseconds),
    {noreply, forget(Id, State)};
handle_info({stream_ended, Id, Name, Milliseconds}, State) ->
    %% Closing one is nothing to write about, unless somebody read above that it takes long.
    _ = [log_end(Name, Milliseconds) || Milliseconds >= State#state.warn_after],
    {noreply, forget(Id, State)};
handle_info({cast_failed, Name, Exception}, State) ->
    ?LOG_ERROR("A cast to Python's ~ts failed:~n~ts", [Name, py_error:format(Exception)]),
    {noreply, State};
handle_info({late_failure, Name, Exception}, State) ->
    Text = py_error:format(Exception),
    ?LOG_ERROR("Python's ~ts failed after its caller gave it up:~n~ts", [Name, Text]),
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_calls: unknown message ~p", [Message]),
    {noreply, State}.

log_end(Name, Milliseconds) ->
    ?LOG_WARNING("Python's ~ts ended ~p ms after its caller gave it up", [Name, Milliseconds]).

forget(Id, #state{given_up = GivenUp} = State) ->
    case maps:take(Id, GivenUp) of
        {Timer, Rest} ->
            _ = erlang:cancel_timer(Timer, [{async, true}, {info, false}]),
            State#state{given_up = Rest};
        error ->
            %% Given up before this process was restarted.
            State
    end.
