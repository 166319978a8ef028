%% @doc Sets the limits of the threads that run requests, and logs functions whose caller has gone.
%%
%% Takes these messages, all from native code:
%%
%% <ul>
%% <li>`{call_abandoned, Id, Name}': the caller of a function that runs timed out, cancelled or
%%     died. Python functions cannot be stopped from outside.</li>
%% <li>`{call_ended, Id, Name, Milliseconds}': that function has ended now.</li>
%% <li>`{left_ended, Id, Name, Milliseconds}': the same for the import of a function's module, and for
%%     a plain generator that was closed or has finished the item it was making. Logged only if it
%%     took long.</li>
%% <li>`{threads_taken, Threads, Waiting, [{Name, Caller, Milliseconds, Thread}]}': for a second, all
%%     call threads have run these calls, or a call has waited for a thread. Not sent again before a
%%     thread is free and no call waits.</li>
%% <li>`{py_stacks, Token, Result}': the stacks requested for that report.</li>
%% <li>`{cast_failed, Name, Exception}': a cast raised.</li>
%% <li>`{late_failure, Name, Exception}': a cancelled coroutine raised another exception.</li>
%% </ul>
%%
%% Settings in the application environment: `call_threads' (64) threads at most, `call_queue'
%% (100000) waiting calls at most, `call_nesting' (1000) threads that wait for Erlang at most
%% (`erlang.call': they do not count as call threads), `loop_threads' (8) threads before loops
%% share them, `call_warning' (5000): log a function that still runs
%% this many milliseconds after its caller has gone.
-module(py_calls).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, info/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    warn_after :: non_neg_integer(),
    %% Running functions whose caller has gone.
    abandoned = #{} :: #{pos_integer() => reference()},
    %% Reports whose stacks have been requested.
    reports = #{} :: #{integer() => report()}
}).

-type report() :: {
    Threads :: non_neg_integer(),
    Waiting :: non_neg_integer(),
    [{Name :: binary(), Caller :: pid() | undefined, Milliseconds :: non_neg_integer(), integer()}]
}.

%% How long to wait for the GIL before stacks are read without it.
-define(STACKS_MS, 250).
%% The calls shown in a report, and the frames of each.
-define(CALLS, 16).
-define(FRAMES, 6).

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
    Setting = fun py_settings:value/1,
    ok = py_nif:calls_started(
        self(), Setting(call_threads), Setting(call_queue), Setting(call_nesting)
    ),
    ok = py_nif:python_loop_threads(Setting(loop_threads)),
    ok = py_nif:value_limits(
        Setting(max_integer_bytes), Setting(max_value_parts), Setting(max_new_atoms)
    ),
    {ok, #state{warn_after = Setting(call_warning)}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_calls: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_calls: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({call_abandoned, Id, Name}, #state{abandoned = Abandoned} = State) ->
    Timer = erlang:start_timer(State#state.warn_after, self(), {still_running, Id, Name}),
    {noreply, State#state{abandoned = Abandoned#{Id => Timer}}};
handle_info({timeout, _, {still_running, Id, Name}}, #state{abandoned = Abandoned} = State) ->
    case Abandoned of
        #{Id := _} ->
            ?LOG_WARNING("Python function ~ts is still running ~p ms after its caller timed out, cancelled or died", [
                Name, State#state.warn_after
            ]);
        #{} ->
            ok
    end,
    {noreply, State};
handle_info({call_ended, Id, Name, Milliseconds}, State) ->
    log_end(Name, Milliseconds),
    {noreply, forget(Id, State)};
handle_info({left_ended, Id, Name, Milliseconds}, State) ->
    %% Logged only if it was logged before that it takes long.
    _ = [log_end(Name, Milliseconds) || Milliseconds >= State#state.warn_after],
    {noreply, forget(Id, State)};
handle_info({threads_taken, Threads, Waiting, Calls}, #state{reports = Reports} = State) ->
    Report = {Threads, Waiting, Calls},
    Token = erlang:unique_integer(),
    case py_nif:watchdog_stacks(Token, ?STACKS_MS) of
        ok ->
            {noreply, State#state{reports = Reports#{Token => Report}}};
        {error, Reason} ->
            log_taken(Report, {error, Reason}),
            {noreply, State}
    end;
handle_info({py_stacks, Token, Result}, #state{reports = Reports} = State) ->
    case maps:take(Token, Reports) of
        {Report, Rest} ->
            log_taken(Report, Result),
            {noreply, State#state{reports = Rest}};
        error ->
            %% This process was restarted.
            {noreply, State}
    end;
handle_info({cast_failed, Name, Exception}, State) ->
    ?LOG_ERROR("A cast to Python function ~ts failed:~n~ts", [Name, py_error:format(Exception)]),
    {noreply, State};
handle_info({late_failure, Name, Exception}, State) ->
    Text = py_error:format(Exception),
    ?LOG_ERROR("Python function ~ts failed after its caller timed out, cancelled or died:~n~ts", [Name, Text]),
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_calls: unknown message ~p", [Message]),
    {noreply, State}.

log_end(Name, Milliseconds) ->
    ?LOG_WARNING("Python function ~ts ended ~p ms after its caller timed out, cancelled or died", [
        Name, Milliseconds
    ]).

%% The calls that have run longest are shown.
log_taken({Threads, Waiting, Calls}, Result) ->
    Oldest = lists:reverse(lists:keysort(3, Calls)),
    {Shown, Others} = lists:split(min(?CALLS, length(Oldest)), Oldest),
    More = [io_lib:format("... and ~b more calls~n", [length(Others)]) || Others =/= []],
    ?LOG_WARNING(
        "No call thread has been free for a second. Threads: ~b (see call_threads); waiting calls: ~b."
        " The threads run:~n~ts~ts",
        [Threads, Waiting, taken_calls(Shown, Result), More],
        #{threads => Threads, waiting => Waiting, functions => [Name || {Name, _, _, _} <- Calls]}
    ).

taken_calls(Calls, {ok, Dump}) ->
    Stacks = maps:from_list(py_stack_dump:threads(Dump)),
    [
        [taken_call(Call), [[Line, $\n] || Line <- lists:sublist(maps:get(Thread, Stacks, []), ?FRAMES)]]
     || {_, _, _, Thread} = Call <- Calls
    ];
taken_calls(Calls, {error, Reason}) ->
    [lists:map(fun taken_call/1, Calls), io_lib:format("Their stacks cannot be read: ~ts~n", [Reason])].

taken_call({Name, Caller, Milliseconds, _}) ->
    For = [io_lib:format(" for ~p", [Caller]) || is_pid(Caller)],
    io_lib:format("~ts~s, ~b ms so far~n", [Name, For, Milliseconds]).

forget(Id, #state{abandoned = Abandoned} = State) ->
    case maps:take(Id, Abandoned) of
        {Timer, Rest} ->
            _ = erlang:cancel_timer(Timer, [{async, true}, {info, false}]),
            State#state{abandoned = Rest};
        error ->
            %% Abandoned before this process was restarted.
            State
    end.
