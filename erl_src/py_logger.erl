%% @doc Passes Python's log records to `logger'.
%%
%% Takes `{py_log, Level, Text, Metadata, Exception | none}' from native code: a record of Python's
%% `logging', an uncaught exception of a thread, or one that Python had to ignore. Native code
%% counts the records that wait here and drops those above the limit; this process logs how many.
%% When it dies, the next one continues; the records in its mailbox are lost.
%%
%% This must be an Erlang process, because handlers of `logger' run in the process that logs, and
%% Python threads are not processes. A handler that calls Python does so in this process; that is
%% how Python knows not to send back what that call logs.
%%
%% Settings in the application environment: `logging' (true), `logging_queue' (10000) records at
%% most that wait. `docs/logging.md' has the rest.
-module(py_logger).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, level/1, format_report/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% Dropped records are logged at most this often.
-define(TELL_DROPPED_MS, 1000).

-record(state, {
    %% Since they were last logged.
    dropped = 0 :: non_neg_integer(),
    timer :: undefined | reference()
}).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Converts a Python level to an Erlang level.
-spec level(integer()) -> logger:level().
level(Level) when Level >= 50 -> critical;
level(Level) when Level >= 40 -> error;
level(Level) when Level >= 30 -> warning;
level(Level) when Level >= 25 -> notice;
level(Level) when Level >= 20 -> info;
level(_) -> debug.

%% @doc The text of a record with an exception: its message and the traceback.
-spec format_report(logger:report()) -> {io:format(), [term()]}.
format_report(#{message := Message, exception := Exception}) ->
    {"~ts~n~ts", [Message, string:trim(py_error:format(Exception), trailing)]}.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    %% So that terminate/2 runs when the application stops.
    _ = process_flag(trap_exit, true),
    case py_settings:value(logging) of
        true ->
            ok = let_through(),
            ok = py_nif:logging_started(py_settings:value(logging_queue));
        false ->
            ok = py_nif:logging_stopped()
    end,
    {ok, #state{}}.

%% OTP's default handler is configured to drop every event that has a domain, unless that is its
%% own. A handler that is configured differently is left alone.
let_through() ->
    case logger:get_handler_config(default) of
        {ok, #{filter_default := stop}} ->
            Filter = {fun logger_filters:domain/2, {log, sub, [python]}},
            %% The filter is already there if this process was restarted.
            _ = logger:add_handler_filter(default, ?MODULE, Filter),
            ok;
        _ ->
            ok
    end.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_logger: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_logger: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({py_log, _, _, _, _} = Record, State) ->
    ok = log(Record),
    {noreply, note_dropped(py_nif:logging_done(), State)};
handle_info({timeout, Timer, tell_dropped}, #state{timer = Timer} = State) ->
    {noreply, tell_dropped(State)};
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_logger: unknown message ~p", [Message]),
    {noreply, State}.

%% Records that arrived before the application stopped are still logged.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, State) ->
    ok = py_nif:logging_stopped(),
    ok = log_rest(),
    #state{} = tell_dropped(note_dropped(py_nif:logging_done(), State)),
    ok.

log_rest() ->
    receive
        {py_log, _, _, _, _} = Record ->
            ok = log(Record),
            log_rest()
    after 0 -> ok
    end.

log({py_log, Level, Text, Given, Exception}) ->
    #{file := File} = Given,
    Metadata = Given#{domain => [python], file := unicode:characters_to_list(File)},
    case Exception of
        none ->
            logger:log(level(Level), Text, Metadata);
        #{} ->
            Report = #{message => Text, exception => Exception},
            logger:log(level(Level), Report, Metadata#{report_cb => fun ?MODULE:format_report/1})
    end.

note_dropped(0, State) ->
    State;
note_dropped(Count, #state{dropped = Before, timer = undefined} = State) ->
    Timer = erlang:start_timer(?TELL_DROPPED_MS, self(), tell_dropped),
    State#state{dropped = Before + Count, timer = Timer};
note_dropped(Count, #state{dropped = Before} = State) ->
    State#state{dropped = Before + Count}.

tell_dropped(#state{dropped = 0} = State) ->
    State#state{timer = undefined};
tell_dropped(#state{dropped = Count}) ->
    ?LOG_WARNING(
        "~b log records of Python were dropped: too many were waiting for logger's handlers",
        [Count],
        #{domain => [python]}
    ),
    #state{}.
