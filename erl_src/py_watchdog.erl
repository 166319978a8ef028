%% @doc Sees loops that are stuck, says where, and does what it is told to do about it.
%%
%% A loop notes the beginning of every turn of callbacks. This process looks at those notes when the
%% oldest of them can be too old; a loop that sleeps is not woken for it. While all of them sleep
%% it does, too, and the first that does not sets a timer of the kernel that wakes it, unless all is
%% quiet again by then. A turn that takes longer is logged as a warning, with the Python stack of the
%% loop's thread, and again each time it has taken twice as long. What happens then is the policy's
%% business:
%%
%% <ul>
%% <li>`report': nothing more.</li>
%% <li>`interrupt': `erlang_loop.watchdog.LoopStuckError' is raised in the callback, as soon as it
%% runs Python code. A call into C, such as `time.sleep', is let finish.</li>
%% <li>`restart': the loop's process ends with `{loop_stuck, Milliseconds}', and its supervisor
%% starts another loop. Who waits for an answer gets `{error, loop_down}' at once. The thread is
%% left to finish what it does. A loop that Python started has no process and is
%% interrupted.</li>
%% </ul>
%%
%% Takes `look' from its own timer; after a look that was the last for want of loops to look at,
%% `{select, _, undefined, ready_input}' from the VM when the kernel's timer has fired, or, where
%% there is no descriptor for that, `loop_awake' from the thread of the first loop that is up; and
%% `{py_stacks, Token, Result}' from a thread that was asked for stacks, one for each
%% `watchdog_stacks/2'.
-module(py_watchdog).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([policy/0]).

-type policy() :: report | interrupt | restart.

-record(stuck, {
    owner :: pid() | undefined,
    thread :: integer(),
    turn :: integer(),
    ms :: non_neg_integer(),
    %% The next report is due when it has lasted so long.
    next :: non_neg_integer()
}).

-record(state, {
    threshold :: pos_integer() | infinity,
    policy :: policy(),
    %% By the loop's id.
    stuck = #{} :: #{pos_integer() => #stuck{}},
    %% Stacks that were asked for, and for which loops.
    asked = #{} :: #{integer() => [pos_integer()]},
    prepared = false :: boolean(),
    %% Of the next look; none while all loops sleep.
    timer :: reference() | undefined
}).

%% How long a thread is asked to give Python away before its stack is read all the same.
-define(PATIENCE_MS, 250).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, #state{}} | {stop, {bad_setting, atom(), term()}}.
init([]) ->
    Threshold = application:get_env(erlang_loop, stuck_after, 1000),
    Policy = application:get_env(erlang_loop, stuck_policy, report),
    State = #state{threshold = Threshold, policy = Policy},
    case {valid_threshold(Threshold), lists:member(Policy, [report, interrupt, restart])} of
        {true, true} -> {ok, looked_first(State)};
        {false, _} -> {stop, {bad_setting, stuck_after, Threshold}};
        {_, false} -> {stop, {bad_setting, stuck_policy, Policy}}
    end.

valid_threshold(Threshold) ->
    Threshold =:= infinity orelse (is_integer(Threshold) andalso Threshold > 0).

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
    {reply, {error, unknown_call}, #state{}}.
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
handle_info({select, _, undefined, ready_input}, #state{timer = undefined} = State) ->
    {noreply, looked(State)};
handle_info({select, _, undefined, ready_input}, State) ->
    %% It fired while we were about to look on.
    {noreply, State};
handle_info(loop_awake, #state{threshold = Threshold} = State) ->
    {noreply, look_in(Threshold, prepared(State))};
handle_info({py_stacks, Token, Result}, #state{asked = Asked} = State) ->
    case maps:take(Token, Asked) of
        {Ids, Rest} ->
            Known = maps:with(Ids, State#state.stuck),
            maps:foreach(fun(Id, Stuck) -> report(Id, Stuck, Result, State) end, Known),
            {noreply, State#state{asked = Rest}};
        error ->
            {noreply, State}
    end;
handle_info(Message, State) ->
    ?LOG_WARNING("py_watchdog: unknown message ~p", [Message]),
    {noreply, State}.

%% A look, and the timer for the next.
looked(State) ->
    case look(prepared(State)) of
        {Next, #state{stuck = Stuck, threshold = Threshold} = Looked} when map_size(Stuck) > 0 ->
            %% Its end is to be noticed, too. (`sleep' is more than any number.)
            look_in(max(1, min(Next, Threshold div 2)), Looked);
        {sleep, Looked} ->
            Looked;
        {Next, Looked} ->
            look_in(Next, Looked)
    end.

%% As soon as Python is up. A thread does it; nobody waits for that.
prepared(#state{prepared = false} = State) ->
    State#state{prepared = py_nif:watchdog_prepare() =:= ok};
prepared(State) ->
    State.

look(#state{threshold = Threshold, stuck = Before} = State) ->
    {Next, Stuck} = py_nif:watchdog_look(Threshold),
    Seen = maps:from_list([
        {Id, seen(Threshold, {Owner, Thread, Turn, Ms}, maps:get(Id, Before, none))}
     || {Id, Owner, Thread, Turn, Ms} <- Stuck
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
    {Next, asked(Due, State#state{stuck = maps:map(fun reported/2, Seen)})}.

seen(_, {Owner, Thread, Turn, Ms}, #stuck{turn = Turn, next = Next}) ->
    #stuck{owner = Owner, thread = Thread, turn = Turn, ms = Ms, next = Next};
seen(Threshold, {Owner, Thread, Turn, Ms}, _) ->
    #stuck{owner = Owner, thread = Thread, turn = Turn, ms = Ms, next = Threshold}.

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
            Known = maps:with(Ids, State#state.stuck),
            maps:foreach(fun(Id, Stuck) -> report(Id, Stuck, {error, Reason}, State) end, Known),
            State
    end.

report(Id, #stuck{owner = Owner, thread = Thread, ms = Ms} = Stuck, Result, State) ->
    Policy = policy(Owner, State#state.policy),
    ?LOG_WARNING(
        "~ts has been in one turn for ~b ms (~s)~n~ts",
        [name(Id, Owner), Ms, Policy, py_stack_dump:text(Thread, Result)],
        #{loop => Id, owner => Owner, stuck_ms => Ms}
    ),
    act(Policy, Id, Stuck).

act(report, _Id, _Stuck) ->
    ok;
act(restart, _Id, #stuck{owner = Owner, ms = Ms}) when is_pid(Owner) ->
    exit(Owner, {loop_stuck, Ms});
act(_, Id, #stuck{turn = Turn}) ->
    case py_nif:watchdog_interrupt(Id, Turn) of
        ok -> ok;
        {error, Reason} -> ?LOG_WARNING("loop ~b cannot be interrupted: ~p", [Id, Reason])
    end.

over(Id, #stuck{owner = Owner, ms = Ms}) ->
    ?LOG_NOTICE(
        "~ts goes on, after more than ~b ms in one turn", [name(Id, Owner), Ms],
        #{loop => Id, owner => Owner}
    ).

%% A loop can have a policy of its own. Its process is not stuck, whatever its thread does.
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
