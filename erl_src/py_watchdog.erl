%% @doc Detects stuck loops, logs where they are stuck, and applies the policy.
%%
%% A loop records the beginning of every turn. This process checks these records when the oldest of
%% them may be too old; sleeping loops are not woken for it. When no loop is in a turn, this process
%% sets no timer; the next loop that begins a turn sends it a message. A turn that takes too long is
%% logged as a warning, with the Python stack of the loop's thread, and again each time it has taken
%% twice as long. The policy decides what else happens:
%%
%% <ul>
%% <li>`report': nothing more.</li>
%% <li>`interrupt': `erlang_loop.watchdog.LoopStuckError' is raised in the callback, as soon as it
%% runs Python code: a call into C, such as `time.sleep', finishes first. A callback that ends
%% before that is not interrupted, and neither is the next one.</li>
%% <li>`restart': the loop's process ends with `{loop_stuck, Milliseconds}', and its supervisor
%% starts another loop. Waiting callers get `{error, loop_down}' at once. The thread is left to
%% finish its callback. A loop that Python started has no process and is interrupted.</li>
%% </ul>
%%
%% Takes these messages:
%%
%% <ul>
%% <li>the call `stuck', from {@link stuck/0}, and `{interrupt, Id}', from {@link interrupt/1}.</li>
%% <li>`look', from its own timer: check all loops.</li>
%% <li>`loop_awake', from the thread of the first loop that begins a turn while this process has no
%% timer: check all loops when that turn may be too long.</li>
%% <li>`{py_stacks, Token, Result}', one for each `watchdog_stacks/2': the stacks.</li>
%% </ul>
-module(py_watchdog).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, stuck/0, interrupt/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([policy/0]).

-type policy() :: report | interrupt | restart.

-record(stuck, {
    owner :: pid() | undefined,
    thread :: integer(),
    turn :: integer(),
    ms :: non_neg_integer(),
    %% The current callback, 0 for none, and for how long it has been observed.
    callback :: non_neg_integer(),
    callback_ms :: non_neg_integer(),
    %% The turn was reported, and its callbacks are to be interrupted.
    interrupts = false :: boolean(),
    %% The callback that was interrupted last.
    interrupted = 0 :: non_neg_integer(),
    %% The next report is due when the turn has lasted this long.
    next :: non_neg_integer(),
    %% As the last report had it.
    stack = [] :: [binary()]
}).

-record(state, {
    threshold :: pos_integer() | infinity,
    policy :: policy(),
    %% By the loop's id.
    stuck = #{} :: #{pos_integer() => #stuck{}},
    %% Requested stacks, and for which loops.
    asked = #{} :: #{integer() => [pos_integer()]},
    prepared = false :: boolean(),
    %% For the next check; none while all loops rest.
    timer :: reference() | undefined
}).

%% How long to wait for the GIL before the stacks are read without it.
-define(PATIENCE_MS, 250).
%% Events of the flight recorder in a report.
-define(EVENTS, 8).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc The loops that are in one turn for longer than `stuck_after', by their numbers, each with the
%% lines of its stack, as the last report had them: the most recent call first.
-spec stuck() -> #{pos_integer() => [binary()]}.
stuck() ->
    gen_server:call(?MODULE, stuck).

%% @doc Raises `LoopStuckError' in the callback that the loop runs now, as the policy `interrupt'
%% does. `idle': it runs none.
-spec interrupt(pos_integer()) -> ok | {error, idle | closed | not_started | term()}.
interrupt(Id) ->
    gen_server:call(?MODULE, {interrupt, Id}).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    State = #state{
        threshold = py_settings:value(stuck_after), policy = py_settings:value(stuck_policy)
    },
    {ok, looked_first(State)}.

%% Never, if nothing is ever too long.
looked_first(#state{threshold = infinity} = State) ->
    State;
looked_first(State) ->
    looked(State).

look_in(Milliseconds, #state{timer = undefined} = State) ->
    State#state{timer = erlang:send_after(Milliseconds, self(), look)};
look_in(_, State) ->
    State.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, #{pos_integer() => [binary()]} | ok | {error, term()}, #state{}}.
handle_call(stuck, _From, #state{stuck = Stuck} = State) ->
    {reply, maps:map(fun(_, #stuck{stack = Stack}) -> Stack end, Stuck), State};
handle_call({interrupt, Id}, _From, State) ->
    {_, Running} = py_nif:watchdog_look(0),
    case lists:keyfind(Id, 1, Running) of
        {_, _, _, _, _, Callback, _} when Callback =/= 0 ->
            {reply, py_nif:watchdog_interrupt(Id, Callback), looked_after(State)};
        _ ->
            {reply, {error, idle}, looked_after(State)}
    end;
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_watchdog: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_watchdog: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(look, State) ->
    {noreply, looked(State#state{timer = undefined})};
handle_info(loop_awake, #state{threshold = Threshold} = State) ->
    {noreply, look_in(Threshold, prepared(State))};
handle_info({py_stacks, Token, Result}, #state{asked = Asked} = State) ->
    case maps:take(Token, Asked) of
        {Ids, Rest} ->
            {noreply, reports(Ids, Result, State#state{asked = Rest})};
        error ->
            {noreply, State}
    end;
handle_info(Message, State) ->
    ?LOG_WARNING("py_watchdog: unknown message ~p", [Message]),
    {noreply, State}.

%% A check outside the order may have found that no loop is awake.
looked_after(#state{threshold = infinity} = State) -> State;
looked_after(#state{threshold = Threshold} = State) -> look_in(Threshold, State).

%% Checks all loops and sets the timer for the next check.
looked(State) ->
    case look(prepared(State)) of
        {Next, #state{stuck = Stuck, threshold = Threshold} = Looked} when map_size(Stuck) > 0 ->
            %% The end of a stuck turn must be noticed, too. (`sleep' is greater than any number.)
            look_in(max(1, min(Next, Threshold div 2)), Looked);
        {sleep, Looked} ->
            Looked;
        {Next, #state{threshold = Threshold} = Looked} ->
            look_in(max(1, min(Next, Threshold div 2)), Looked)
    end.

%% Done as soon as Python is running, by a thread, without waiting for it.
prepared(#state{prepared = false} = State) ->
    State#state{prepared = py_nif:watchdog_prepare() =:= ok};
prepared(State) ->
    State.

look(#state{threshold = Threshold, stuck = Before} = State) ->
    {Next, Stuck} = py_nif:watchdog_look(Threshold),
    Seen = maps:from_list([
        {Id, seen(Threshold, Row, maps:get(Id, Before, none))}
     || {Id, _, _, _, _, _, _} = Row <- Stuck
    ]),
    maps:foreach(
        fun(Id, Was) ->
            case Seen of
                #{Id := #stuck{turn = Turn}} when Turn =:= Was#stuck.turn -> ok;
                _ -> over(Id, Was)
            end
        end,
        Before
    ),
    Due = [Id || {Id, #stuck{ms = Ms, next = Limit}} <- maps:to_list(Seen), Ms >= Limit],
    Known = maps:map(fun(Id, One) -> interrupted(Id, reported(Id, One), State) end, Seen),
    {Next, asked(Due, State#state{stuck = Known})}.

seen(_, {_, Owner, Thread, Turn, Ms, Callback, CallbackMs}, #stuck{turn = Turn} = Before) ->
    Before#stuck{
        owner = Owner, thread = Thread, ms = Ms, callback = Callback, callback_ms = CallbackMs
    };
seen(Threshold, {_, Owner, Thread, Turn, Ms, Callback, CallbackMs}, _) ->
    #stuck{
        owner = Owner,
        thread = Thread,
        turn = Turn,
        ms = Ms,
        callback = Callback,
        callback_ms = CallbackMs,
        next = Threshold
    }.

reported(_Id, #stuck{ms = Ms, next = Next} = Stuck) when Ms >= Next ->
    Stuck#stuck{next = 2 * Ms};
reported(_Id, Stuck) ->
    Stuck.

asked([], State) ->
    State;
asked(Ids, #state{asked = Asked} = State) ->
    Token = erlang:unique_integer(),
    case py_nif:watchdog_stacks(Token, ?PATIENCE_MS) of
        ok ->
            State#state{asked = Asked#{Token => Ids}};
        {error, Reason} ->
            reports(Ids, {error, Reason}, State)
    end.

reports(Ids, Result, #state{stuck = Stuck} = State) ->
    Reported = maps:map(
        fun(Id, One) -> report(Id, One, Result, State) end, maps:with(Ids, Stuck)
    ),
    State#state{stuck = maps:merge(Stuck, Reported)}.

report(Id, #stuck{owner = Owner, thread = Thread, ms = Ms} = Stuck, Result, State) ->
    Policy = policy(Owner, State#state.policy),
    ?LOG_WARNING(
        "~ts has been in one turn for ~b ms (~s)~n~ts~ts",
        [name(Id, Owner), Ms, Policy, py_stack_dump:text(Thread, Result), py_recorder:lines(Id, ?EVENTS)],
        #{loop => Id, owner => Owner, stuck_ms => Ms}
    ),
    Stack = py_stack_dump:stack(Thread, Result),
    ok = py_telemetry:execute([erlang_loop, loop, stuck], lasted(Ms), #{
        id => Id, loop => Owner, policy => Policy, stack => py_stack_dump:frames(Stack)
    }),
    act(Policy, Id, Stuck#stuck{stack = Stack}, State).

lasted(Ms) ->
    #{duration => erlang:convert_time_unit(Ms, millisecond, native)}.

act(report, _Id, Stuck, _State) ->
    Stuck;
act(restart, _Id, #stuck{owner = Owner, ms = Ms} = Stuck, _State) when is_pid(Owner) ->
    true = exit(Owner, {loop_stuck, Ms}),
    Stuck;
act(_, Id, Stuck, State) ->
    interrupted(Id, Stuck#stuck{interrupts = true}, State).

%% Each callback is interrupted once: the first exception may still be propagating. A callback that
%% merely runs in a long turn is not interrupted: it must have been observed for part of that time.
interrupted(
    Id,
    #stuck{interrupts = true, callback = Callback, callback_ms = Ms, interrupted = Last} = Stuck,
    #state{threshold = Threshold}
) when Callback =/= 0, Callback =/= Last, 4 * Ms >= Threshold ->
    case py_nif:watchdog_interrupt(Id, Callback) of
        ok -> ok;
        {error, Reason} -> ?LOG_WARNING("loop ~b cannot be interrupted: ~p", [Id, Reason])
    end,
    Stuck#stuck{interrupted = Callback};
interrupted(_Id, Stuck, _State) ->
    Stuck.

over(Id, #stuck{owner = Owner, ms = Ms}) ->
    ?LOG_NOTICE(
        "~ts goes on, after more than ~b ms in one turn", [name(Id, Owner), Ms],
        #{loop => Id, owner => Owner}
    ),
    py_telemetry:execute([erlang_loop, loop, resume], lasted(Ms), #{id => Id, loop => Owner}).

%% A loop can have its own policy. Its process is not stuck, whatever its thread does.
policy(undefined, Default) ->
    Default;
policy(Owner, Default) ->
    try py_event_loop_server:stuck_policy(Owner) of
        default -> Default;
        Policy -> Policy
    catch
        exit:_ -> Default
    end.

name(Id, undefined) ->
    io_lib:format("loop ~b of a Python thread", [Id]);
name(Id, Owner) ->
    case process_info(Owner, registered_name) of
        {registered_name, Name} -> io_lib:format("loop ~b (~p, ~p)", [Id, Name, Owner]);
        _ -> io_lib:format("loop ~b (~p)", [Id, Owner])
    end.
