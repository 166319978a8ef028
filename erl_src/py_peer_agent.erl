%% @private
%% @doc Runs the requests to a loop that lives on this node and belongs to a process of another one,
%% the *proxy* (`py_peer'). There is one agent for each such loop, and it owns the loop.
%%
%% From callers on the proxy's node, see `py_remote':
%%
%% <ul>
%% <li>`{py_request, Token, Caller, GroupLeader, Call, Number}': runs it; its number is that in the
%%     ledger (`requests/ledger.rs'). `{py_reply, Token, Result}' is sent
%%     to `Token'; `{refused, Reason}' in place of the result: it was not begun.</li>
%% <li>`{py_cast, GroupLeader, Call}': the same without a reply.</li>
%% <li>`{py_cancel, Token}', `{py_give_up, Token}': with a reply, and without.</li>
%% <li>`{py_large, _, _, Message}': one of these with large data, see `py_peer_memory'. In the other
%%     direction such a message goes to the proxy, which forwards it.</li>
%% </ul>
%%
%% From the proxy:
%%
%% <ul>
%% <li>`{py_stream, Id, From, Consumer, GroupLeader, Call, Demand}': starts a stream;
%%     `{py_stream_started, Id, From, ok | {error, Reason}}' is the reply, and
%%     `{py_stream_event, Id, Event}' are its items and its end.</li>
%% <li>`{py_demand, Id, Count}', `{py_cancel_stream, Id}'.</li>
%% <li>`{py_ask, From, Proxy, About}': information about the loop, with that, for `From'.</li>
%% <li>`py_stop': ends the loop in order; `{py_stopped, self(), Left}' is the reply.</li>
%% <li>`{py_loop_failed, self(), Reason}', from here: the loop has ended by itself.</li>
%% <li>`{py_retire, self()}', from here: a limit of requests or of the lifetime is reached. The proxy
%%     takes the loop out of service and replies `py_drain'. `{py_drained, self()}' is sent when
%%     all that has arrived has ended; requests that arrive later are refused.</li>
%% <li>`py_memory_accepted': large data may go to the proxy as shared memory.</li>
%% <li>`py_halt': ends the node in order, if it was started for this loop.</li>
%% </ul>
%%
%% From the guard: `{py_check, Id, Token, Guard}', after the caller of that request has timed out.
%% `{py_well, Id}' is the reply as soon as the loop has run a turn and no function runs whose caller
%% has gone.
%%
%% From here: `py_forget', after large data.
%%
%% The native library sends this process the replies, `{py_reply, Token, Result}', and the events of
%% streams, `{py_stream, Stream, Event}'.
%%
%% When a caller dies its requests are abandoned. Nearly all requests are shorter than a message to
%% the caller's node and back, so only a caller whose request is some time old is monitored.
-module(py_peer_agent).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start/1, identity/0, origin_ended/2]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([config/0]).

-type config() :: #{
    proxy := pid(),
    options := py_event_loop:options(),
    %% Whether the node was started for this loop, and ends with it.
    owns_node := boolean(),
    %% Where the ledger is, if there is one.
    ledger => binary() | none,
    %% On another node: what must be the same there.
    wanted => identity(),
    memory => py_peer_memory:address() | none,
    limits => py_peer_options:limits()
}.

-type identity() :: #{version := string(), environment := none | binary()}.

-record(request, {
    native :: py_nif:request(),
    caller :: pid(),
    monitor :: undefined | reference()
}).

-record(stream, {
    native :: py_nif:request(),
    consumer :: pid(),
    monitor :: reference()
}).

-record(state, {
    proxy :: pid(),
    proxy_monitor :: reference(),
    owns_node :: boolean(),
    options :: py_event_loop:options(),
    loop :: undefined | pid(),
    ledger :: py_nif:ledger() | none,
    memory :: py_nif:memory_link() | none,
    shares = false :: boolean(),
    stopping = false :: boolean(),
    limits :: py_peer_options:limits(),
    %% How many requests, casts and streams have arrived.
    arrived = 0 :: non_neg_integer(),
    %% The number that had arrived at the check before.
    service = open :: open | {draining, non_neg_integer()} | drained,
    requests = #{} :: #{Token :: reference() => #request{}},
    %% Requests whose callers are not monitored: those of this tick and of the one before.
    new = [] :: [reference()],
    older = [] :: [reference()],
    timer :: undefined | reference(),
    streams = #{} :: #{Id :: reference() => #stream{}},
    stream_ids = #{} :: #{py_nif:request() => Id :: reference()},
    %% Monitors of callers and consumers.
    monitors = #{} :: #{reference() => {request | stream, reference()}},
    leaders = py_leaders:new() :: py_leaders:leaders()
}).

%% Milliseconds after which the caller of a request is monitored; at most twice that.
-define(TICK, 20).
%% Milliseconds between checks whether all has ended, and for messages that are in transit to arrive.
-define(DRAIN, 50).

-spec start(config()) -> {ok, pid()} | {error, term()}.
start(#{wanted := Wanted} = Config) ->
    case {lists:keymember(erlang_loop, 1, application:which_applications()), differs(Wanted, identity())} of
        {false, _} -> {error, {no_erlang_loop, node()}};
        {true, no} -> start(maps:remove(wanted, Config));
        {true, Difference} -> {error, Difference}
    end;
start(Config) ->
    case gen_server:start(?MODULE, Config, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc What two nodes must have in common: `erlang_loop', and the packages of Python, if they come from
%% a list (`py_env').
-spec identity() -> identity().
identity() ->
    _ = application:load(erlang_loop),
    {ok, Version} = application:get_key(erlang_loop, vsn),
    case py_env:identity() of
        {ok, Environment} -> #{version => Version, environment => Environment};
        %% Starting Python there returns the error.
        {error, _} -> #{version => Version, environment => none}
    end.

differs(#{version := Wanted}, #{version := Version}) when Wanted =/= Version ->
    {other_version, #{node() => Version, wanted => Wanted}};
differs(#{environment := Wanted}, #{environment := Environment}) when
    Wanted =/= none, Wanted =/= Environment
->
    {other_environment, #{node() => Environment, wanted => Wanted}};
differs(_, _) ->
    no.

%% @doc The consumers of streams are notified, before the node ends.
-spec origin_ended(pid(), timeout()) -> ok.
origin_ended(Agent, Timeout) ->
    try
        gen_server:call(Agent, origin_ended, Timeout)
    catch
        exit:_ -> ok
    end.

-spec init(config()) -> {ok, #state{}, {continue, start}}.
init(#{proxy := Proxy, options := Options, owns_node := OwnsNode} = Config) ->
    %% For the loop's end and that of the processes below `leaders'.
    _ = process_flag(trap_exit, true),
    Proxy ! {py_peer_connected, self()},
    %% A stopped process does not notice the end of its input.
    _ = [ok = py_nif:end_with_parent() || OwnsNode],
    State = #state{
        proxy = Proxy,
        proxy_monitor = monitor(process, Proxy),
        owns_node = OwnsNode,
        options = Options,
        ledger = open_ledger(maps:get(ledger, Config, none)),
        memory = connect_memory(maps:get(memory, Config, none)),
        limits = maps:map(fun jittered/2, maps:with([requests, lifetime], maps:get(limits, Config, #{})))
    },
    {ok, State, {continue, start}}.

%% Peers that were started together do not reach their limits together.
jittered(_Limit, Most) ->
    Most + 1 - rand:uniform(Most div 10 + 1).

open_ledger(none) ->
    none;
open_ledger(Path) ->
    case py_nif:ledger_open(Path) of
        {ok, Ledger} ->
            Ledger;
        {error, Reason} ->
            ?LOG_WARNING("A peer cannot open the ledger of its requests, ~ts: ~p", [Path, Reason]),
            none
    end.

connect_memory(none) ->
    none;
connect_memory(Address) ->
    case py_peer_memory:connect(Address) of
        {ok, Link} ->
            Link;
        {error, Reason} ->
            ?LOG_WARNING("A peer cannot share memory with its node: ~p", [Reason]),
            none
    end.

%% The init code may take any time.
-spec handle_continue(start, #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_continue(start, #state{proxy = Proxy, options = Options} = State) ->
    case py_event_loop:start_link(Options) of
        {ok, Loop} ->
            %% The first request creates the loop's thread and Python objects, which a spare must
            %% have by then. If it fails, so do those that follow, with the reason.
            _ = py:request(Loop, {call, <<"asyncio">>, <<"sleep">>, [0], #{}}, infinity),
            Proxy ! {py_peer_up, self(), {ok, State#state.ledger =/= none}},
            _ = [erlang:start_timer(1000 * S, self(), lifetime) || #{lifetime := S} <- [State#state.limits]],
            {noreply, State#state{loop = Loop}};
        {error, Reason} ->
            Proxy ! {py_peer_up, self(), {error, Reason}},
            {stop, normal, State}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok | pid() | {error, unknown_call}, #state{}}.
handle_call(loop, _From, #state{loop = Loop} = State) ->
    {reply, Loop, State};
handle_call(origin_ended, _From, State) ->
    {reply, ok, end_streams(State)};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_peer_agent: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_peer_agent: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({py_request, Token, Caller, Leader, Call, Number}, State) ->
    {noreply, request(Token, Caller, Leader, Call, Number, arrived(State))};
handle_info({py_cast, Leader, Call}, State) ->
    {noreply, cast(Leader, Call, arrived(State))};
handle_info({py_reply, Token, _} = Reply, State) ->
    {noreply, reply(Token, Reply, State)};
handle_info({py_large, _, _, _} = Large, #state{memory = Link} = State) ->
    ok = forget(),
    case py_peer_memory:put_back(Link, Large) of
        {ok, Message} -> handle_info(Message, State);
        {error, Reason, Message} -> {noreply, refuse_large(Message, Reason, State)}
    end;
handle_info(py_forget, State) ->
    true = garbage_collect(),
    {noreply, State};
handle_info(py_memory_accepted, #state{memory = Link} = State) ->
    {noreply, State#state{shares = Link =/= none}};
handle_info({py_give_up, Token}, #state{requests = Requests} = State) ->
    case Requests of
        #{Token := #request{native = Native}} ->
            _ = py_nif:request_abandon(Native),
            {noreply, forget_request(Token, State)};
        #{} ->
            {noreply, State}
    end;
handle_info({py_check, Id, Token, Guard}, #state{loop = Loop} = State) ->
    _ = spawn(fun() -> check(Loop, Guard, Id) end),
    handle_info({py_give_up, Token}, State);
handle_info({py_cancel, Token}, #state{requests = Requests} = State) ->
    _ = [py_nif:request_cancel(R#request.native) || {ok, R} <- [maps:find(Token, Requests)]],
    {noreply, State};
handle_info({timeout, Timer, tick}, #state{timer = Timer} = State) ->
    {noreply, tick(State#state{timer = undefined})};
handle_info({py_stream, Native, Event}, #state{stream_ids = Ids} = State) ->
    case Ids of
        #{Native := Id} -> {noreply, stream_event(Id, Event, State)};
        %% It was cancelled.
        #{} -> {noreply, State}
    end;
handle_info({py_stream, Id, From, Consumer, Leader, Call, Demand}, State) ->
    {noreply, start_stream(Id, From, Consumer, Leader, Call, Demand, arrived(State))};
handle_info({py_demand, Id, Count}, #state{streams = Streams} = State) ->
    _ = [py_nif:stream_demand(S#stream.native, Count) || {ok, S} <- [maps:find(Id, Streams)]],
    {noreply, State};
handle_info({py_cancel_stream, Id}, State) ->
    {noreply, cancel_stream(Id, State)};
handle_info({py_ask, From, Proxy, About}, #state{loop = Loop, memory = Link} = State) ->
    Both =
        case About of
            #{large_data := There} ->
                About#{large_data := There#{from_peer => py_peer_memory:counts(Link)}};
            #{} ->
                About
        end,
    gen_server:reply(From, info(Loop, Both#{pid => Proxy})),
    {noreply, State};
handle_info({timeout, _, lifetime}, #state{proxy = Proxy} = State) ->
    Proxy ! {py_retire, self()},
    {noreply, State};
handle_info(py_drain, #state{service = open} = State) ->
    {noreply, drain(State)};
handle_info(py_drain, State) ->
    {noreply, State};
handle_info({timeout, _, drain}, #state{service = {draining, Before}, arrived = Before} = State) ->
    case is_idle(State) of
        true ->
            State#state.proxy ! {py_drained, self()},
            {noreply, State#state{service = drained}};
        false ->
            {noreply, drain(State)}
    end;
handle_info({timeout, _, drain}, State) ->
    {noreply, drain(State)};
handle_info(py_halt, State) ->
    {stop, normal, State};
handle_info(py_stop, #state{loop = Loop, proxy = Proxy} = State) ->
    %% The replies of what ends meanwhile go through this process.
    Agent = self(),
    _ = spawn_link(fun() -> stop_loop(Loop, Proxy, Agent) end),
    {noreply, State#state{stopping = true}};
handle_info({'DOWN', Monitor, process, _, _}, #state{proxy_monitor = Monitor} = State) ->
    {stop, shutdown, end_streams(State)};
handle_info({'DOWN', Monitor, process, _, _}, #state{monitors = Monitors} = State) ->
    case Monitors of
        #{Monitor := {request, Token}} -> handle_info({py_give_up, Token}, State);
        #{Monitor := {stream, Id}} -> {noreply, cancel_stream(Id, State)};
        #{} -> {noreply, State}
    end;
handle_info({'EXIT', Loop, normal}, #state{loop = Loop, proxy = Proxy} = State) ->
    %% py_stop has ended it and sends what is left, or it has ended by itself.
    Ended = replies_of_its_end(State),
    _ = [Proxy ! {py_stopped, self(), []} || not State#state.stopping],
    {noreply, Ended};
handle_info({'EXIT', Loop, Reason}, #state{loop = Loop, proxy = Proxy} = State) ->
    %% The native library has sent the replies of its requests before.
    Ended = replies_of_its_end(State),
    Proxy ! {py_loop_failed, self(), Reason},
    {noreply, Ended};
handle_info({'EXIT', Pid, _}, #state{leaders = Leaders} = State) ->
    {noreply, State#state{leaders = py_leaders:ended(Pid, Leaders)}};
handle_info(Message, State) ->
    ?LOG_WARNING("py_peer_agent: unknown message ~p", [Message]),
    {noreply, State}.

%% The loop is linked and ends, too; in its own node everything does.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{owns_node = true}) ->
    init:stop();
terminate(_Reason, #state{owns_node = false}) ->
    ok.

%% The end of its service

arrived(#state{arrived = Before, limits = #{requests := Limit}, proxy = Proxy} = State) ->
    _ = [Proxy ! {py_retire, self()} || Before + 1 =:= Limit],
    State#state{arrived = Before + 1};
arrived(#state{arrived = Before} = State) ->
    State#state{arrived = Before + 1}.

drain(#state{arrived = Arrived} = State) ->
    _ = erlang:start_timer(?DRAIN, self(), drain),
    State#state{service = {draining, Arrived}}.

%% Casts are known to the loop only.
is_idle(#state{requests = Requests, streams = Streams, loop = Loop}) ->
    map_size(Requests) =:= 0 andalso map_size(Streams) =:= 0 andalso
        case py_nif:python_loop_of(Loop) of
            {ok, _Queued, Unanswered} -> Unanswered =:= 0;
            {error, loop_down} -> true
        end.

%% Requests

request(Token, _Caller, _Leader, _Call, _Number, #state{service = drained} = State) ->
    refuse(Token, loop_down, State);
request(Token, Caller, Leader, Call, Number, #state{requests = Requests} = State) ->
    {Here, State1} = leader(Leader, State),
    try submit(Token, Call, Here, Number, State1) of
        {ok, Native} ->
            Request = #request{native = Native, caller = Caller},
            arm(State1#state{
                requests = Requests#{Token => Request}, new = [Token | State1#state.new]
            });
        {error, Reason} ->
            refuse(Token, Reason, State1)
    catch
        error:badarg -> refuse(Token, badarg, State1)
    end.

cast(Leader, Call, #state{loop = Loop} = State) ->
    {Here, State1} = leader(Leader, State),
    try py_nif:request_submit(undefined, Loop, Call, Here) of
        {ok, _} -> State1;
        {error, Reason} -> cast_refused(Call, Reason, State1)
    catch
        error:badarg -> cast_refused(Call, badarg, State1)
    end.

cast_refused({_, Module, Function, _, _}, Reason, State) ->
    ?LOG_ERROR("A cast to Python function ~ts.~ts was refused: ~p", [Module, Function, Reason]),
    State.

submit(Token, Call, Leader, _Number, #state{ledger = none, loop = Loop}) ->
    py_nif:request_submit_unmonitored(Token, Loop, Call, Leader);
submit(Token, Call, Leader, Number, #state{ledger = Ledger, loop = Loop}) ->
    py_nif:request_submit_recorded(Token, Loop, Call, Leader, Ledger, Number).

refuse(Token, Reason, State) ->
    _ = send(Token, {py_reply, Token, {refused, Reason}}),
    ended(State).

ended(#state{ledger = none} = State) ->
    State;
ended(#state{ledger = Ledger} = State) ->
    ok = py_nif:ledger_ended(Ledger),
    State.

reply(Token, Reply, #state{requests = Requests} = State) when is_map_key(Token, Requests) ->
    ok = deliver(Token, Reply, State),
    forget_request(Token, State);
reply(_Token, _Reply, State) ->
    State.

%% Large data goes by way of the proxy: so it is freed there if the caller has ended.
deliver(Alias, Reply, #state{shares = false}) ->
    _ = send(Alias, Reply),
    ok;
deliver(Alias, Reply, #state{proxy = Proxy, memory = Link}) ->
    case py_peer_memory:take_out(Reply) of
        none ->
            _ = send(Alias, Reply),
            ok;
        {Mark, Marked, Shares} ->
            Parcel = {Mark, {py_forward, Alias, Marked}, Shares},
            Proxy ! py_peer_memory:sent(Link, Parcel),
            forget()
    end.

%% The callers have sent more than this process can map.
refuse_large({py_request, Token, _, _, _, _}, Reason, State) ->
    _ = send(Token, {py_reply, Token, {error, Reason}}),
    ended(State);
refuse_large({py_cast, _, Call}, Reason, State) ->
    cast_refused(Call, Reason, State);
refuse_large({py_stream, Id, From, _, _, _, _}, Reason, #state{proxy = Proxy} = State) ->
    Proxy ! {py_stream_started, Id, From, {error, Reason}},
    State.

%% Large data is freed when no process refers to it.
forget() ->
    self() ! py_forget,
    ok.

%% To an alias; its process may have ended.
send(Alias, Message) ->
    erlang:send(Alias, Message, [noconnect]).

forget_request(Token, #state{requests = Requests} = State) ->
    {#request{monitor = Monitor}, Rest} = maps:take(Token, Requests),
    ended(demonitored(Monitor, State#state{requests = Rest})).

%% The loop may be blocked forever, and the functions may never return.
check(Loop, Guard, Id) ->
    _ = py:request(Loop, {inline, <<"time">>, <<"monotonic">>, [], #{}}, infinity),
    ok = py_calls:await_abandoned(),
    Guard ! {py_well, Id}.

demonitored(undefined, State) ->
    State;
demonitored(Monitor, #state{monitors = Monitors} = State) ->
    true = demonitor(Monitor, [flush]),
    State#state{monitors = maps:remove(Monitor, Monitors)}.

arm(#state{timer = undefined, new = [_ | _]} = State) ->
    State#state{timer = erlang:start_timer(?TICK, self(), tick)};
arm(#state{timer = undefined, older = [_ | _]} = State) ->
    State#state{timer = erlang:start_timer(?TICK, self(), tick)};
arm(State) ->
    State.

tick(#state{new = New, older = Older} = State) ->
    arm(lists:foldl(fun monitor_caller/2, State#state{new = [], older = New}, Older)).

monitor_caller(Token, #state{requests = Requests, monitors = Monitors} = State) ->
    case Requests of
        #{Token := #request{caller = Caller} = Request} ->
            Monitor = monitor(process, Caller),
            State#state{
                requests = Requests#{Token := Request#request{monitor = Monitor}},
                monitors = Monitors#{Monitor => {request, Token}}
            };
        #{} ->
            State
    end.

%% Streams

start_stream(Id, From, _Consumer, _Leader, _Call, _Demand, #state{service = drained, proxy = Proxy} = State) ->
    Proxy ! {py_stream_started, Id, From, {error, loop_down}},
    State;
start_stream(Id, From, Consumer, Leader, Call, Demand, #state{loop = Loop, proxy = Proxy} = State) ->
    {Here, State1} = leader(Leader, State),
    Started =
        try
            py_nif:stream_submit(Loop, Call, self(), Demand, Here)
        catch
            error:badarg -> {error, badarg}
        end,
    case Started of
        {ok, Native} ->
            Proxy ! {py_stream_started, Id, From, ok},
            Monitor = monitor(process, Consumer),
            #state{streams = Streams, stream_ids = Ids, monitors = Monitors} = State1,
            Stream = #stream{native = Native, consumer = Consumer, monitor = Monitor},
            State1#state{
                streams = Streams#{Id => Stream},
                stream_ids = Ids#{Native => Id},
                monitors = Monitors#{Monitor => {stream, Id}}
            };
        {error, Reason} ->
            Proxy ! {py_stream_started, Id, From, {error, Reason}},
            State1
    end.

stream_event(Id, Event, #state{proxy = Proxy} = State) ->
    ok = to_proxy(Proxy, {py_stream_event, Id, Event}, State),
    case Event of
        {data, _} -> State;
        _ -> forget_stream(Id, State)
    end.

to_proxy(Proxy, Message, #state{shares = false}) ->
    Proxy ! Message,
    ok;
to_proxy(Proxy, Message, #state{memory = Link}) ->
    case py_peer_memory:take_out(Message) of
        none ->
            Proxy ! Message,
            ok;
        Parcel ->
            Proxy ! py_peer_memory:sent(Link, Parcel),
            forget()
    end.

forget_stream(Id, #state{streams = Streams, stream_ids = Ids} = State) ->
    {#stream{native = Native, monitor = Monitor}, Rest} = maps:take(Id, Streams),
    demonitored(Monitor, State#state{streams = Rest, stream_ids = maps:remove(Native, Ids)}).

cancel_stream(Id, #state{streams = Streams} = State) ->
    case Streams of
        #{Id := #stream{native = Native}} ->
            _ = py_nif:stream_cancel(Native),
            forget_stream(Id, State);
        #{} ->
            State
    end.

%% The proxy has died, without a message to the consumers.
end_streams(#state{streams = Streams, proxy = Proxy} = State) ->
    maps:foreach(
        fun(Id, #stream{consumer = Consumer}) ->
            py_remote:stream_lost(Proxy, Id, Consumer)
        end,
        Streams
    ),
    lists:foldl(fun cancel_stream/2, State, maps:keys(Streams)).

info(Loop, About) ->
    case py_event_loop:info(Loop) of
        {ok, Info} -> {ok, maps:merge(Info, About)};
        {error, Reason} -> {error, Reason}
    end.

%% The end

stop_loop(Loop, Proxy, Agent) ->
    Left =
        try py_event_loop_server:stop(Loop, infinity) of
            {ok, Tasks} -> Tasks
        catch
            %% It has ended.
            exit:_ -> []
        end,
    Proxy ! {py_stopped, Agent, Left}.

%% Replies that are in the mailbox already.
replies_of_its_end(State) ->
    receive
        {py_reply, Token, _} = Reply -> replies_of_its_end(reply(Token, Reply, State));
        {py_stream, Native, Event} ->
            case State#state.stream_ids of
                #{Native := Id} -> replies_of_its_end(stream_event(Id, Event, State));
                #{} -> replies_of_its_end(State)
            end
    after 0 -> State
    end.

%% Output

%% With the trace of the caller.
leader({Leader, Trace}, State) ->
    {Here, State1} = leader(Leader, State),
    {{Here, Trace}, State1};
leader(Leader, #state{leaders = Leaders} = State) ->
    {Here, Known} = py_leaders:here(Leader, Leaders),
    {Here, State#state{leaders = Known}}.
