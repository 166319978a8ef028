%% @doc Sets the limits of the threads that run requests, and logs functions whose caller has gone.
%%
%% Takes these messages, all from native code:
%%
%% <ul>
%% <li>`{call_abandoned, Id, Name}': the caller of a function that runs timed out, cancelled or
%%     died, and the function was interrupted. The same for the import of its module, which
%%     continues, and for a plain generator that is being closed.</li>
%% <li>`{call_ended, Id, Name, Milliseconds}': that function has ended now. Logged if it was logged
%%     before that it still runs.</li>
%% <li>`calls_begun': calls were submitted whose callers are not monitored. Callers request that
%%     themselves when they have waited for 2 ms; this is for those that die before.</li>
%% <li>`{threads_taken, Threads, Waiting, [{Name, Caller, Milliseconds, Thread}]}': for a second, all
%%     call threads have run these calls, or a call has waited for a thread. Not sent again before a
%%     thread is free and no call waits.</li>
%% <li>`{py_stacks, Token, Result}': the stacks requested for that report, or for a function that
%%     still runs.</li>
%% <li>`{cast_failed, Name, Exception}': a cast raised.</li>
%% <li>`{late_failure, Name, Exception}': a cancelled coroutine raised another exception.</li>
%% </ul>
%%
%% Settings in the application environment: `call_threads' (64) threads at most, `call_queue'
%% (100000) waiting calls at most, `call_nesting' (1000) threads that wait for Erlang at most
%% (`erlang.call': they do not count as call threads), `loop_threads' (8) threads before loops
%% share them, `call_warning' (5000): log a function that still runs
%% this many milliseconds after its caller has gone, with its stack, and interrupt it again; and
%% so on, each time after twice as long.
-module(py_calls).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, info/0, await_abandoned/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(abandoned, {
    name :: binary(),
    timer :: reference(),
    %% When it is logged next, in milliseconds after its caller has gone.
    due :: non_neg_integer(),
    is_logged = false :: boolean()
}).

-record(state, {
    warn_after :: non_neg_integer(),
    %% Running functions whose caller has gone.
    abandoned = #{} :: #{pos_integer() => #abandoned{}},
    %% Processes that wait for the end of such functions.
    waiting = [] :: [{gen_server:from(), [pos_integer(), ...]}],
    %% Reports whose stacks have been requested.
    reports = #{} :: #{integer() => report() | {still_running, Id :: pos_integer(), Thread :: integer()}}
}).

-type report() :: {
    Threads :: non_neg_integer(),
    Waiting :: non_neg_integer(),
    [{Name :: binary(), Caller :: pid() | undefined, Milliseconds :: non_neg_integer(), integer()}]
}.

%% How often, in milliseconds, and how many times the callers of running calls are checked.
-define(CHECK_MS, 20).
-define(CHECKS, 2).
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

%% @doc The threads there are, how many of them have nothing to do, the calls that wait, those
%% that have ended so far, and those that run although their callers have gone.
-spec info() -> #{threads | idle | queued | ended | abandoned => non_neg_integer()}.
info() ->
    py_nif:calls_info().

%% @doc Returns when the functions have ended that now run although their callers have gone.
-spec await_abandoned() -> ok.
await_abandoned() ->
    %% There is no limit to the time that they take.
    gen_server:call(?MODULE, await_abandoned, infinity).

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
    ok = py_nif:value_none(Setting(none)),
    {ok, #state{warn_after = Setting(call_warning)}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok | {error, unknown_call}, #state{}} | {noreply, #state{}}.
handle_call(await_abandoned, From, #state{abandoned = Abandoned, waiting = Waiting} = State) ->
    case maps:keys(Abandoned) of
        [] -> {reply, ok, State};
        Ids -> {noreply, State#state{waiting = [{From, Ids} | Waiting]}}
    end;
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_calls: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_calls: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({call_abandoned, Id, Name}, #state{warn_after = After} = State) ->
    {noreply, watch(Id, #abandoned{name = Name, timer = still_running(Id, After), due = After}, State)};
handle_info({timeout, _, {still_running, Id}}, #state{abandoned = Abandoned} = State) ->
    case Abandoned of
        #{Id := Call} -> {noreply, still_runs(Id, Call, State)};
        #{} -> {noreply, State}
    end;
handle_info({call_ended, Id, _Name, Milliseconds}, #state{abandoned = Abandoned} = State) ->
    case maps:take(Id, Abandoned) of
        {#abandoned{timer = Timer} = Call, Rest} ->
            _ = erlang:cancel_timer(Timer, [{async, true}, {info, false}]),
            _ = [log_end(Call, Milliseconds) || Call#abandoned.is_logged],
            {noreply, ended(Id, State#state{abandoned = Rest})};
        error ->
            %% Abandoned before this process was restarted.
            {noreply, State}
    end;
handle_info(calls_begun, State) ->
    _ = check_callers(?CHECKS),
    {noreply, State};
handle_info({timeout, _, {check_callers, Left}}, State) ->
    %% The last check may miss a call that is being taken from the queue, so there are two.
    ok = py_nif:calls_monitor(Left =:= ?CHECKS),
    _ = [check_callers(Left - 1) || Left > 1],
    {noreply, State};
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
        {{still_running, Id, Thread}, Rest} ->
            {noreply, interrupt(Id, stack(Thread, Result), State#state{reports = Rest})};
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

ended(Id, #state{waiting = Waiting} = State) ->
    Left = [{From, lists:delete(Id, Ids)} || {From, Ids} <- Waiting],
    {Done, Still} = lists:partition(fun({_, Ids}) -> Ids =:= [] end, Left),
    lists:foreach(fun({From, []}) -> gen_server:reply(From, ok) end, Done),
    State#state{waiting = Still}.

check_callers(Left) ->
    erlang:start_timer(?CHECK_MS, self(), {check_callers, Left}).

still_running(Id, After) ->
    erlang:start_timer(After, self(), {still_running, Id}).

watch(Id, Call, #state{abandoned = Abandoned} = State) ->
    State#state{abandoned = Abandoned#{Id => Call}}.

%% It is logged with its stack, and then interrupted again.
still_runs(Id, Call, #state{reports = Reports} = State) ->
    Token = erlang:unique_integer(),
    case py_nif:calls_thread(Id) of
        none ->
            %% Between two threads: a generator that waits for its turn.
            watch(Id, Call#abandoned{timer = still_running(Id, Call#abandoned.due)}, State);
        Thread ->
            case py_nif:watchdog_stacks(Token, ?STACKS_MS) of
                ok -> State#state{reports = Reports#{Token => {still_running, Id, Thread}}};
                {error, _} -> interrupt(Id, [], State)
            end
    end.

interrupt(Id, Stack, #state{abandoned = Abandoned} = State) ->
    case Abandoned of
        #{Id := #abandoned{name = Name, due = Due} = Call} ->
            ?LOG_WARNING(
                "Python function ~ts is still running ~b ms after its caller timed out, cancelled or died~n~ts",
                [Name, Due, Stack]
            ),
            ok = py_nif:calls_interrupt(Id),
            %% After 5, 10, 20 seconds and so on.
            Next = Call#abandoned{timer = still_running(Id, Due), due = 2 * Due, is_logged = true},
            watch(Id, Next, State);
        #{} ->
            %% It has ended while its stack was being read.
            State
    end.

log_end(#abandoned{name = Name}, Milliseconds) ->
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
    [[taken_call(Call), frames(Thread, Stacks)] || {_, _, _, Thread} = Call <- Calls];
taken_calls(Calls, {error, Reason}) ->
    [lists:map(fun taken_call/1, Calls), io_lib:format("Their stacks cannot be read: ~ts~n", [Reason])].

taken_call({Name, Caller, Milliseconds, _}) ->
    For = [io_lib:format(" for ~p", [Caller]) || is_pid(Caller)],
    io_lib:format("~ts~s, ~b ms so far~n", [Name, For, Milliseconds]).

stack(Thread, {ok, Dump}) ->
    frames(Thread, maps:from_list(py_stack_dump:threads(Dump)));
stack(_Thread, {error, Reason}) ->
    io_lib:format("Its stack cannot be read: ~ts~n", [Reason]).

frames(Thread, Stacks) ->
    [[Line, $\n] || Line <- lists:sublist(maps:get(Thread, Stacks, []), ?FRAMES)].
