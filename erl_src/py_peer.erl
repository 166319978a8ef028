%% @doc A loop in another operating system process, as the process of this node that stands for it:
%% its *proxy*. The proxy's pid or name identifies the loop, as that of a local one does: link to
%% it, supervise it, name it. When the peer ends, so does its proxy, with the reason
%% `{peer_down, Why}'; when the proxy ends, so does the peer.
%%
%% Requests do not go through this process, see `py_remote'; streams do. Takes these messages:
%%
%% <ul>
%% <li>from the agent in the peer, `py_peer_agent': `{py_peer_up, Agent, {ok, HasLedger} | {error, Reason}}' first,
%%     then `{py_stream_started, Id, From, Result}', `{py_stream_event, Id, Event}', and at the end
%%     `{py_stopped, Agent, Left}' or `{py_loop_failed, Agent, Reason}', and at limits of the
%%     service `{py_retire, Agent}' and `{py_drained, Agent}';</li>
%% <li>from the port of the operating system process: lines of output and its exit status;</li>
%% <li>from callers: `{py_demand, Id, Count}', and what they send with large data, `{py_parcel, Parcel}';</li>
%% <li>from the agent, with large data, see `py_peer_memory': `{py_large, _, _, Message}', where the
%%     message is an event of a stream, or `{py_forward, Alias, Reply}';</li>
%% <li>from its guard, `py_peer_guard', which then kills the process: `{py_killed, Why}';</li>
%% <li>`py_forget', from here: it has handled large data;</li>
%% <li>`{py_peer_log, Event}': what the peer's `logger' logs.</li>
%% </ul>
-module(py_peer).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, shutdown/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(state, {
    name :: atom(),
    %% `undefined': the loop is on another node, which is not ours to start and stop.
    process :: undefined | py_peer_node:opened(),
    node :: node(),
    agent :: undefined | pid(),
    agent_monitor :: undefined | reference(),
    guard :: undefined | pid(),
    %% Which requests have begun; only for a process of ours.
    ledger = none :: py_nif:ledger() | none,
    %% Where large data crosses.
    memory = none :: py_nif:memory_link() | none,
    %% Why the guard kills the process.
    killed = no :: no | {yes, py_peer_guard:reason()},
    %% Streams, with their consumers.
    streams = #{} :: #{Id :: reference() => {py_remote:stream(), pid()}},
    %% Milliseconds that tasks have to end.
    patience :: non_neg_integer(),
    stopping = [] :: [gen_server:from()],
    %% Whether the loop has ended in order.
    ended = false :: boolean()
}).

%% Once the connection is lost, how long the exit status may take, which says why.
-define(STATUS_MS, 1000).
%% What a loop needs in addition to its patience, and what a node needs to end Python and itself.
-define(GRACE, 500).
-define(HALT_MS, 6000).

-spec start_link(py_event_loop:options()) -> {ok, pid()} | {error, term()}.
start_link(#{place := Place} = Options) ->
    Where = py_peer_options:check(Place),
    #{name := Name} = Checked = py_event_loop_options:check(maps:remove(place, Options)),
    %% This process joins the group, not the loop there.
    Arguments = {Where, maps:without([place, group], Options), Checked},
    case Name of
        undefined -> started(gen_server:start_link(?MODULE, Arguments, [{timeout, infinity}]));
        _ -> started(gen_server:start_link({local, Name}, ?MODULE, Arguments, [{timeout, infinity}]))
    end.

started({ok, Pid}) -> {ok, Pid};
started({error, Reason}) -> {error, Reason};
started(ignore) -> {error, ignore}.

%% @doc Milliseconds for a supervisor: what the peer takes to end in order.
-spec shutdown(Patience :: non_neg_integer()) -> pos_integer().
shutdown(Patience) ->
    Patience + ?GRACE + ?HALT_MS + 1000.

%% Start

-spec init({py_peer_options:checked(), py_event_loop:options(), py_event_loop_options:checked()}) ->
    {ok, #state{}} | {stop, term()}.
init({Where, Options, #{name := Name, group := Group, native := #{patience := Patience}}}) ->
    %% So that terminate/2 runs when the supervisor stops us.
    _ = process_flag(trap_exit, true),
    ok = py_observed:label({py_peer, Name}),
    State = #state{name = Name, patience = Patience, node = node()},
    case start(Where, Options, State) of
        {ok, Up} ->
            #state{agent = Agent, guard = Guard, ledger = Ledger, memory = Memory} = Up,
            _ = [Guard ! {py_watch, Agent} || is_pid(Guard)],
            ok = py_remote:register(Agent, Guard, Ledger, Memory =/= none),
            ok = happened(start, Up, #{}),
            _ = [ok = py_groups:join(Group, self(), Name) || Group =/= undefined],
            {ok, Up};
        {error, Reason} ->
            {stop, Reason}
    end.

start({node, Node}, Options, State) ->
    %% A name there would be one of that node.
    Config = #{
        proxy => self(),
        options => maps:remove(name, Options),
        owns_node => false,
        wanted => py_peer_agent:identity()
    },
    try erpc:call(Node, py_peer_agent, start, [Config]) of
        {ok, Agent} ->
            Monitor = monitor(process, Agent),
            wait_up(infinity, State#state{node = Node, agent = Agent, agent_monitor = Monitor});
        {error, Reason} ->
            {error, Reason}
    catch
        error:{erpc, noconnection} -> {error, {peer_down, noconnection}};
        error:{exception, undef, [{py_peer_agent, _, _, _} | _]} -> {error, {no_erlang_loop, Node}};
        _:Reason -> {error, Reason}
    end;
start({peer, Peer}, Options, State) ->
    {Ledger, Path} = ledger(),
    {Listener, Address} = memory(),
    Agent = #{
        proxy => self(), options => Options, owns_node => true, ledger => Path, memory => Address,
        limits => maps:get(limits, Peer)
    },
    case py_peer_node:ensure_distributed() of
        ok ->
            case py_peer_node:open(State#state.name, Peer, Agent) of
                {ok, #{node := Node, os_pid := OsPid} = Opened} ->
                    Guard = py_peer_guard:start(self(), OsPid, Peer),
                    Timer = start_timer(maps:get(start_timeout, Peer)),
                    Starting = State#state{
                        node = Node, process = Opened, guard = Guard, ledger = Ledger
                    },
                    case wait_up(Timer, Starting) of
                        {ok, Up} -> {ok, accept_memory(Listener, Address, Up)};
                        {error, Reason} -> {error, Reason}
                    end;
                {error, Reason} ->
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% And where the peer finds it. Without one, all requests count as begun.
ledger() ->
    case py_nif:ledger_create() of
        {ok, Ledger, Fd} ->
            {Ledger, iolist_to_binary(["/proc/", os:getpid(), "/fd/", integer_to_list(Fd)])};
        {error, Reason} ->
            ?LOG_WARNING("A peer has no ledger of its requests: ~p", [Reason]),
            {none, none}
    end.

%% Without it, large data goes through the connection.
memory() ->
    case py_peer_memory:listen() of
        {ok, Listener, Address} ->
            {Listener, Address};
        {error, Reason} ->
            ?LOG_WARNING("A peer cannot share memory with this node: ~p", [Reason]),
            {none, none}
    end.

accept_memory(none, none, State) ->
    State;
accept_memory(Listener, Address, #state{agent = Agent} = State) ->
    case py_peer_memory:accept(Listener, Address) of
        {ok, Link} ->
            Agent ! py_memory_accepted,
            State#state{memory = Link};
        {error, Reason} ->
            ?LOG_WARNING("A peer cannot share memory with this node: ~p", [Reason]),
            State
    end.

start_timer(infinity) -> infinity;
start_timer(Timeout) -> erlang:start_timer(Timeout, self(), start_timeout).

%% The peer boots, connects and runs the loop's init code, which may take any time; until it is
%% connected the timer runs.
wait_up(Timer, #state{process = Process, agent_monitor = Monitor} = State) ->
    Port = port(Process),
    receive
        {py_peer_connected, Agent} ->
            ok = connected(Timer, Process),
            wait_up(infinity, State#state{agent = Agent, agent_monitor = monitor(process, Agent)});
        {py_peer_up, Agent, {ok, true}} when Agent =:= State#state.agent ->
            {ok, State};
        {py_peer_up, Agent, {ok, false}} when Agent =:= State#state.agent ->
            {ok, State#state{ledger = none}};
        {py_peer_up, Agent, {error, Reason}} when Agent =:= State#state.agent ->
            {error, failed(Reason, State)};
        {Port, {exit_status, Status}} ->
            {error, {peer_down, why(Status, State)}};
        {py_killed, Why} ->
            wait_up(Timer, State#state{killed = {yes, Why}});
        {Port, {data, Line}} ->
            ok = printed(Line, State),
            wait_up(Timer, State);
        {py_peer_log, Event} ->
            ok = py_peer_log:pass_on(Event, State#state.name),
            wait_up(Timer, State);
        {'DOWN', Monitor, process, _, Reason} ->
            {error, {peer_down, why_down(Reason, State)}};
        {timeout, Timer, start_timeout} ->
            {error, failed({peer_down, start_timeout}, State)};
        {'EXIT', _Parent, Reason} ->
            {error, failed(Reason, State)}
    end.

port(undefined) -> undefined;
port(#{port := Port}) -> Port.

connected(infinity, undefined) ->
    ok;
connected(Timer, #{listener := Listener}) ->
    _ = is_reference(Timer) andalso erlang:cancel_timer(Timer),
    py_peer_link:stop(Listener).

%% The reason, after the operating system process has ended.
failed(Reason, #state{process = undefined}) ->
    Reason;
failed(Reason, #state{process = #{os_pid := OsPid}} = State) ->
    _ = close(OsPid, 0, State),
    Reason.

%% Questions

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}}.
handle_call({stream, Stream, Id, Consumer, Leader, Call, Demand}, From, State) ->
    #state{streams = Streams} = State,
    ok = to_agent({py_stream, Id, From, Consumer, Leader, Call, Demand}, State),
    {noreply, State#state{streams = Streams#{Id => {Stream, Consumer}}}};
handle_call({cancel_stream, Id, Caller}, _From, #state{agent = Agent, streams = Streams} = State) ->
    case Streams of
        #{Id := {Stream, Consumer}} ->
            Agent ! {py_cancel_stream, Id},
            Rest = State#state{streams = maps:remove(Id, Streams)},
            case Consumer of
                Caller ->
                    {reply, taken, Rest};
                _ ->
                    Consumer ! {py_stream, Stream, {error, cancelled}},
                    {reply, ok, Rest}
            end;
        #{} ->
            {reply, taken, State}
    end;
handle_call(info, From, #state{agent = Agent} = State) ->
    Agent ! {py_ask, From, self(), about(State)},
    {noreply, State};
handle_call(stop, From, #state{agent = Agent, stopping = Stopping} = State) ->
    _ = [Agent ! py_stop || Stopping =:= []],
    {noreply, State#state{stopping = [From | Stopping]}};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("~p: unknown call ~p from ~p", [State#state.name, Call, From]),
    {reply, {error, unknown_call}, State}.

about(#state{process = undefined, node = Node}) ->
    #{node => Node};
about(#state{process = #{os_pid := OsPid}, node = Node, memory = Memory}) ->
    #{node => Node, os_pid => OsPid, large_data => #{to_peer => py_peer_memory:counts(Memory)}}.

to_agent(Message, #state{agent = Agent, memory = none}) ->
    Agent ! Message,
    ok;
to_agent(Message, #state{agent = Agent, memory = Link}) ->
    Sent =
        case py_peer_memory:take_out(Message) of
            none -> Message;
            Parcel -> py_peer_memory:sent(Link, Parcel)
        end,
    Agent ! Sent,
    forget().

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("~p: unknown cast ~p", [State#state.name, Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({py_stream_event, Id, Event}, State) ->
    {noreply, stream_event(Id, Event, State)};
handle_info({py_stream_started, _Id, From, ok}, State) ->
    gen_server:reply(From, ok),
    {noreply, State};
handle_info({py_stream_started, Id, From, Refused}, #state{streams = Streams} = State) ->
    gen_server:reply(From, Refused),
    {noreply, State#state{streams = maps:remove(Id, Streams)}};
handle_info({py_demand, Id, Count}, #state{agent = Agent, streams = Streams} = State) ->
    _ = [Agent ! {py_demand, Id, Count} || is_map_key(Id, Streams)],
    {noreply, State};
handle_info({py_parcel, Parcel}, #state{agent = Agent, memory = Link} = State) ->
    ok = py_remote:send(Agent, py_peer_memory:sent(Link, Parcel)),
    ok = forget(),
    {noreply, State};
handle_info({py_large, _, _, _} = Large, State) ->
    ok = forget(),
    {noreply, large(Large, State)};
handle_info(py_forget, State) ->
    true = garbage_collect(),
    {noreply, State};
handle_info({py_killed, Why}, State) ->
    {noreply, State#state{killed = {yes, Why}}};
handle_info({py_peer_log, Event}, State) ->
    ok = py_peer_log:pass_on(Event, State#state.name),
    {noreply, State};
handle_info({py_stopped, Agent, Left}, #state{agent = Agent, stopping = Stopping} = State) ->
    Ended = stop_process(State#state{ended = true}),
    lists:foreach(fun(From) -> gen_server:reply(From, {ok, Left}) end, Stopping),
    {stop, normal, Ended};
handle_info({py_loop_failed, Agent, Reason}, #state{agent = Agent} = State) ->
    {stop, {peer_down, {loop, Reason}}, stop_process(State)};
%% Callers find the loop no longer, and a spare stands in; what has been sent still runs.
handle_info({py_retire, Agent}, #state{agent = Agent} = State) ->
    ok = py_remote:unregister(),
    Agent ! py_drain,
    {noreply, State};
handle_info({py_drained, Agent}, #state{agent = Agent} = State) ->
    {stop, {shutdown, {peer_down, retired}}, State};
handle_info({Port, {data, Line}}, #state{process = #{port := Port}} = State) ->
    ok = printed(Line, State),
    {noreply, State};
handle_info({Port, {exit_status, Status}}, #state{process = #{port := Port}} = State) ->
    {stop, {peer_down, why(Status, State)}, State#state{process = undefined}};
handle_info({'DOWN', Monitor, process, _, Reason}, #state{agent_monitor = Monitor} = State) ->
    {stop, {peer_down, why_down(Reason, State)}, State#state{process = undefined}};
%% Of the port; its exit status comes before.
handle_info({'EXIT', Port, _}, State) when is_port(Port) ->
    {noreply, State};
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, State) ->
    ?LOG_WARNING("~p: unknown message ~p", [State#state.name, Message]),
    {noreply, State}.

%% Large data is freed when no process refers to it.
forget() ->
    self() ! py_forget,
    ok.

large({py_large, _, _, _} = Large, #state{agent = Agent, memory = Link} = State) ->
    case py_peer_memory:put_back(Link, Large) of
        {ok, {py_forward, Alias, Reply}} ->
            Alias ! Reply,
            State;
        {ok, {py_stream_event, Id, Event}} ->
            stream_event(Id, Event, State);
        %% The peer has ended, which is about to be noticed.
        {error, {large_data, econnreset}, _} ->
            State;
        {error, Reason, {py_forward, Alias, _}} ->
            Alias ! {py_reply, Alias, {error, Reason}},
            State;
        {error, Reason, {py_stream_event, Id, _}} ->
            Agent ! {py_cancel_stream, Id},
            stream_event(Id, {error, Reason}, State)
    end.

why(_Status, #state{killed = {yes, Why}}) -> Why;
why(Status, _State) -> py_peer_node:reason(Status).

stream_event(Id, Event, #state{streams = Streams} = State) ->
    case Streams of
        #{Id := {Stream, Consumer}} ->
            Consumer ! {py_stream, Stream, Event},
            case Event of
                {data, _} -> State;
                _ -> State#state{streams = maps:remove(Id, Streams)}
            end;
        %% It was cancelled.
        #{} ->
            State
    end.

printed({_, Line}, #state{name = Name, node = Node}) ->
    ?LOG_NOTICE("~ts: ~ts", [shown(Name, Node), Line], #{domain => [python], peer => Name}).

shown(undefined, Node) -> atom_to_binary(Node);
shown(Name, _) -> atom_to_binary(Name).

%% The end

%% The end of the connection or of the agent precedes the exit status.
why_down(Reason, #state{process = undefined}) ->
    Reason;
why_down(noconnection, #state{process = #{os_pid := OsPid}} = State) ->
    close(OsPid, ?STATUS_MS, State);
why_down(Reason, #state{process = #{os_pid := OsPid}} = State) ->
    _ = close(OsPid, ?HALT_MS, State),
    Reason.

%% Waits for the exit status. `Patience': how long before the process is killed.
close(OsPid, Patience, #state{process = #{port := Port}} = State) ->
    receive
        {Port, {exit_status, Status}} ->
            why(Status, State);
        {py_killed, Why} ->
            close(OsPid, Patience, State#state{killed = {yes, Why}});
        {Port, {data, Line}} ->
            ok = printed(Line, State),
            close(OsPid, Patience, State)
    after Patience ->
        ok = py_peer_node:kill(OsPid),
        close(OsPid, infinity, State)
    end.

%% The agent ends the node, which ends Python in order.
stop_process(#state{process = undefined, agent = Agent} = State) ->
    Agent ! py_halt,
    State;
stop_process(#state{process = #{os_pid := OsPid}, agent = Agent} = State) ->
    Agent ! py_halt,
    _ = close(OsPid, ?HALT_MS, State),
    State#state{process = undefined}.

-spec terminate(term(), #state{}) -> ok.
terminate(Reason, State) ->
    ok = py_remote:unregister(),
    Ended = last_messages(State),
    ok = end_process(Reason, Ended),
    ok = happened(stop, State, #{reason => Reason}),
    _ = last_messages(Ended#state{streams = #{}}),
    _ = [py_nif:memory_close(Link) || #state{memory = Link} <- [State], Link =/= none],
    ok.

%% Replies that have arrived before the peer's end are passed on. Parcels have not reached the peer;
%% a crash report would keep the messages, and with them the memory.
last_messages(State) ->
    receive
        {py_large, _, _, _} = Large -> last_messages(large(Large, State));
        {py_parcel, _} -> last_messages(State)
    after 0 -> State
    end.

happened(What, #state{name = Name, node = Node}, Metadata) ->
    Peer = Metadata#{loop => self(), name => Name, node => Node},
    py_telemetry:execute([erlang_loop, peer, What], #{system_time => erlang:system_time()}, Peer).

end_process(Reason, #state{agent = Agent, ended = false} = State) when
    Reason =:= shutdown; Reason =:= normal; element(1, Reason) =:= shutdown
->
    Agent ! py_stop,
    State1 = wait_stopped(erlang:start_timer(State#state.patience + ?GRACE, self(), patience), State),
    ok = end_streams(loop_down, State1),
    _ = stop_process(State1),
    ok;
end_process(Reason, State) ->
    ok = end_streams(failure(Reason), State),
    case State#state.process of
        undefined ->
            ok;
        #{os_pid := OsPid} ->
            py_peer_node:kill(OsPid)
    end.

failure({peer_down, _} = Reason) -> Reason;
failure(_) -> loop_down.

wait_stopped(Timer, #state{agent = Agent, agent_monitor = Monitor} = State) ->
    receive
        {py_stopped, Agent, []} ->
            State;
        {py_stopped, Agent, Left} ->
            ?LOG_WARNING("~p: ~b tasks did not end within ~b ms of being cancelled: ~p", [
                State#state.name, length(Left), State#state.patience, Left
            ]),
            State;
        {py_stream_event, Id, Event} ->
            wait_stopped(Timer, stream_event(Id, Event, State));
        {py_large, _, _, _} = Large ->
            wait_stopped(Timer, large(Large, State));
        {py_peer_log, Event} ->
            ok = py_peer_log:pass_on(Event, State#state.name),
            wait_stopped(Timer, State);
        {'DOWN', Monitor, process, _, _} ->
            State;
        {timeout, Timer, patience} ->
            ?LOG_WARNING("~p is left behind: it did not end within its patience", [State#state.name]),
            State
    end.

end_streams(Reason, #state{streams = Streams}) ->
    maps:foreach(
        fun(_, {Stream, Consumer}) -> Consumer ! {py_stream, Stream, {error, Reason}} end, Streams
    ).
