%% @doc The process of a loop that Erlang started. It owns the loop, and its pid or name identifies
%% the loop. When it ends, so does the loop, and waiting callers get `{error, loop_down}' at once.
%% When the loop ends, so does the process.
%%
%% Takes the messages of {@link py_keeper}, and from the loop's thread, in this order:
%%
%% <ul>
%% <li>`{py_loop, Token, ready}': the init code has run, the loop takes requests.</li>
%% <li>`{py_loop, Token, {failed, Exception}}': the init code or the loop itself failed.</li>
%% <li>`{py_loop, Token, {ended, {ok, Left}}}': the loop has ended; `Left' lists the tasks that
%%     did not end.</li>
%% </ul>
-module(py_event_loop_server).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, stop/2, stuck_policy/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).

-record(state, {
    name :: atom(),
    loop :: py_nif:loop_ref(),
    token :: integer(),
    stuck_policy :: py_watchdog:policy() | default,
    group :: py_groups:scope() | undefined,
    timers = py_keeper:new() :: py_keeper:timers(),
    %% Callers of stop/2.
    stopping = [] :: [gen_server:from()],
    %% Milliseconds that tasks have to end.
    patience :: non_neg_integer(),
    %% Whether the loop's thread has sent its last message.
    ended = false :: boolean()
}).

%% What a loop needs in addition to the patience with its tasks: the finalizers of generators have
%% at least a tenth of a second. Less than what the child spec adds.
-define(GRACE, 500).
%% The last part of that, in which the thread is checked for progress.
-define(LOOK, 250).
%% Events of the flight recorder in the log.
-define(EVENTS, 8).

-spec start_link(py_event_loop_options:checked()) -> {ok, pid()} | {error, term()}.
start_link(#{name := undefined} = Options) ->
    started(gen_server:start_link(?MODULE, Options, [{timeout, infinity}]));
start_link(#{name := Name} = Options) ->
    started(gen_server:start_link({local, Name}, ?MODULE, Options, [{timeout, infinity}])).

started({ok, Pid}) -> {ok, Pid};
started({error, Reason}) -> {error, Reason};
started(ignore) -> {error, ignore}.

%% @doc Ends the loop in order.
-spec stop(pid() | atom(), timeout()) -> {ok, [term()]}.
stop(Loop, Timeout) ->
    gen_server:call(Loop, stop, Timeout).

%% @doc What the watchdog does when this loop is stuck.
-spec stuck_policy(pid()) -> py_watchdog:policy() | default.
stuck_policy(Loop) ->
    gen_server:call(Loop, stuck_policy, 1000).

-spec init(py_event_loop_options:checked()) -> {ok, #state{}} | {stop, term()}.
init(#{name := Name, native := Options} = Checked) ->
    #{default := IsDefault, stuck_policy := Policy, group := Group} = Checked,
    %% So that terminate/2 runs when the supervisor stops us.
    _ = process_flag(trap_exit, true),
    ok = py_observed:label({py_event_loop, Name}),
    Token = erlang:unique_integer(),
    State = fun(Loop) ->
        #state{
            name = Name,
            loop = Loop,
            token = Token,
            stuck_policy = Policy,
            group = Group,
            patience = maps:get(patience, Options)
        }
    end,
    case start(Token, Options) of
        {ok, ready, Loop} -> started_as(IsDefault, State(Loop));
        {ok, starting, Loop} -> wait_ready(State(Loop), IsDefault);
        {error, Reason} -> {stop, Reason}
    end.

start(Token, Options) ->
    case py_nif:python_loop_start(Token, Options) of
        {error, not_started} ->
            case py_interpreter:ensure_started() of
                ok -> py_nif:python_loop_start(Token, Options);
                {error, Reason} -> {error, Reason}
            end;
        Answer ->
            Answer
    end.

started_as(IsDefault, #state{name = Name, group = Group} = State) ->
    ok =
        case IsDefault of
            true -> py_nif:python_loop_set_default(State#state.loop);
            false -> ok
        end,
    Times = #{system_time => erlang:system_time()},
    ok = py_telemetry:execute([erlang_loop, loop, start], Times, #{loop => self(), name => Name}),
    _ = [ok = py_groups:join(Group, self(), Name) || Group =/= undefined],
    {ok, State}.

%% The init code may take any time, and may use the loop, which then needs its keeper.
wait_ready(#state{token = Token, timers = Timers} = State, IsDefault) ->
    receive
        {py_loop, Token, ready} ->
            started_as(IsDefault, State);
        {py_loop, Token, {failed, Exception}} ->
            {stop, {init_failed, Exception}};
        {'EXIT', _Parent, Reason} ->
            {stop, Reason};
        {Tag, _} = Message when Tag =:= arm; Tag =:= timer_due ->
            wait_ready(State#state{timers = py_keeper:handle(Message, Timers)}, IsDefault);
        {Tag, _, _} = Message when Tag =:= loop_timer; Tag =:= loop_closed ->
            wait_ready(State#state{timers = py_keeper:handle(Message, Timers)}, IsDefault);
        {select, _, _, ready_input} = Message ->
            wait_ready(State#state{timers = py_keeper:handle(Message, Timers)}, IsDefault)
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}}
    | {stop, normal, {ok, []}, #state{}}
    | {reply, py_watchdog:policy() | default | {error, unknown_call}, #state{}}.
handle_call(stop, From, #state{stopping = Stopping} = State) ->
    case py_nif:python_loop_stop(State#state.loop) of
        ok -> {noreply, State#state{stopping = [From | Stopping]}};
        %% The thread's last message has been sent.
        {error, closed} -> {noreply, State#state{stopping = [From | Stopping]}};
        %% It has never had a request.
        ended -> {stop, normal, {ok, []}, State#state{ended = true}}
    end;
handle_call(stuck_policy, _From, State) ->
    {reply, State#state.stuck_policy, State};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("~p: unknown call ~p from ~p", [State#state.name, Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("~p: unknown cast ~p", [State#state.name, Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({py_loop, Token, {ended, {ok, Left}}}, #state{token = Token} = State) ->
    {stop, normal, has_ended(Left, State)};
handle_info({py_loop, Token, {failed, Exception}}, #state{token = Token} = State) ->
    {stop, {loop_failed, Exception}, State#state{ended = true}};
%% The thread's last message follows.
handle_info({loop_closed, _, _} = Message, #state{timers = Timers} = State) ->
    {noreply, State#state{timers = py_keeper:handle(Message, Timers)}};
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, #state{timers = Timers} = State) ->
    case py_keeper:is_message(Message) of
        true ->
            {noreply, State#state{timers = py_keeper:handle(Message, Timers)}};
        false ->
            ?LOG_WARNING("~p: unknown message ~p", [State#state.name, Message]),
            {noreply, State}
    end.

has_ended(Left, #state{stopping = Stopping} = State) ->
    _ = [report(Left, State) || Left =/= []],
    lists:foreach(fun(From) -> gen_server:reply(From, {ok, Left}) end, Stopping),
    State#state{stopping = [], ended = true}.

report(Left, #state{name = Name, patience = Patience}) ->
    ?LOG_WARNING("~p (~p): ~b tasks did not end within ~b ms of being cancelled: ~p", [
        Name, self(), length(Left), Patience, Left
    ]).

%% A supervisor that shuts us down gives us time to end in order. Otherwise the loop notices our end
%% by its monitor and ends; waiting callers get their error at once.
-spec terminate(term(), #state{}) -> ok.
terminate(Reason, #state{name = Name} = State) ->
    ok = end_loop(Reason, State),
    Times = #{system_time => erlang:system_time()},
    py_telemetry:execute([erlang_loop, loop, stop], Times, #{loop => self(), name => Name, reason => Reason}).

%% The state, and the loop with its tasks, which `observer' and crash reports show.
-spec format_status(gen_server:format_status()) -> gen_server:format_status().
format_status(#{state := #state{name = Name, patience = Patience}} = Status) ->
    Shown = (py_observed:loop(self(), Status))#{name => Name, patience => Patience},
    Status#{state => Shown};
format_status(Status) ->
    Status.

end_loop(Reason, #state{ended = false} = State) when
    Reason =:= shutdown; Reason =:= normal; element(1, Reason) =:= shutdown
->
    case py_nif:python_loop_stop(State#state.loop) of
        %% It has never had a request.
        ended ->
            ok;
        %% `closed': the thread's last message has been sent.
        _ ->
            Patience = State#state.patience + ?GRACE - ?LOOK,
            wait_ended(erlang:start_timer(Patience, self(), look), State)
    end;
end_loop(_Reason, _State) ->
    ok.

wait_ended(Timer, #state{token = Token, timers = Timers} = State) ->
    receive
        {py_loop, Token, {ended, {ok, Left}}} ->
            _ = has_ended(Left, State),
            ok;
        {py_loop, Token, {failed, Exception}} ->
            ?LOG_ERROR("~p (~p) failed while shutting down: ~p", [
                State#state.name, self(), Exception
            ]);
        {timeout, Timer, look} ->
            Steps = py_nif:python_loop_steps(State#state.loop),
            wait_ended(erlang:start_timer(?LOOK, self(), {give_up, Steps}), State);
        {timeout, Timer, {give_up, Steps}} ->
            left_behind(py_nif:python_loop_steps(State#state.loop), Steps, State);
        Message ->
            %% A loop that waits for its finalizers needs its keeper. Other callers notice our end
            %% by their monitors.
            case py_keeper:is_message(Message) of
                true -> wait_ended(Timer, State#state{timers = py_keeper:handle(Message, Timers)});
                false -> wait_ended(Timer, State)
            end
    end.

left_behind(Steps, Steps, State) ->
    ?LOG_WARNING("~p (~p) is left behind: its thread does not return from Python code", [
        State#state.name, self()
    ]);
%% Many loops that share a thread end at once, and this one is waiting for its turn. It notices
%% that this process has ended.
left_behind(_, _, State) ->
    ?LOG_INFO("~p (~p) will end later: its thread is ending other loops first", [
        State#state.name, self()
    ]).
