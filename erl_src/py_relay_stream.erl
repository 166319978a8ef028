%% @private
%% @doc A stream from a loop of another node. The *near* process, on the consumer's node, stands for
%% the stream; the *far* one, below `py_relay' on the loop's node, is the consumer of a stream there
%% and sends what it gets. All items go from one to the other, so the end comes after the last item.
%%
%% The near one takes:
%%
%% <ul>
%% <li>from the far one: `{py_stream_started, Far, ok | {error, Reason}}' first, then
%%     `{py_stream_event, Event}';</li>
%% <li>from `py_remote', as `py_peer' does: `{py_demand, Id, Count}', and the calls
%%     `{cancel_stream, Id, Caller}' and `{started, Id}'.</li>
%% </ul>
-module(py_relay_stream).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start/6, far/4]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    stream :: undefined | py_remote:stream(),
    consumer :: pid(),
    consumer_monitor :: reference(),
    far :: undefined | pid(),
    far_monitor :: reference(),
    starting :: undefined | gen_server:from()
}).

%% @doc Starts a stream. `Make' makes it of the process that stands for it.
-spec start(fun((pid()) -> py_remote:stream()), node(), pid(), py_nif:call(), pid(), non_neg_integer()) ->
    {ok, py_remote:stream()} | {error, py:reason()}.
start(Make, Node, Loop, Call, To, Demand) ->
    {ok, Near} = gen_server:start(?MODULE, {Make, To, Node}, []),
    %% infinity: the far node replies, or the connection to it is lost.
    try gen_server:call(Near, {start, py_trace:origin(), Loop, Call, Demand}, infinity) of
        ok -> {ok, Make(Near)};
        {error, badarg} -> error(badarg);
        {error, Reason} -> {error, Reason}
    catch
        %% The consumer has died.
        exit:_ -> {ok, Make(Near)}
    end.

-spec init({fun((pid()) -> py_remote:stream()), pid(), node()}) -> {ok, #state{}}.
init({Make, To, Node}) ->
    {ok, #state{
        stream = Make(self()),
        consumer = To,
        consumer_monitor = monitor(process, To),
        far_monitor = monitor(process, py_relay:on(Node))
    }}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}} | {stop, normal, term(), #state{}}.
handle_call({start, Origin, Loop, Call, Demand}, From, State) ->
    py_relay:on(node(Loop)) ! {py_stream, self(), Origin, {Loop, Call}, Demand},
    {noreply, State#state{starting = From}};
handle_call({cancel_stream, _Id, Caller}, _From, #state{consumer = Caller} = State) ->
    {stop, normal, taken, cancelled(State)};
handle_call({cancel_stream, _Id, _Caller}, _From, State) ->
    _ = to_consumer({error, cancelled}, State),
    {stop, normal, ok, cancelled(State)};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_relay_stream: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_relay_stream: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({py_stream_started, Far, ok}, #state{far_monitor = Relay, starting = From} = State) ->
    true = demonitor(Relay, [flush]),
    gen_server:reply(From, ok),
    {noreply, State#state{far = Far, far_monitor = monitor(process, Far), starting = undefined}};
handle_info({py_stream_started, _, Refused}, #state{starting = From} = State) ->
    gen_server:reply(From, Refused),
    {stop, normal, State};
handle_info({py_stream_event, {data, _} = Event}, State) ->
    {noreply, to_consumer(Event, State)};
handle_info({py_stream_event, Event}, State) ->
    {stop, normal, to_consumer(Event, State)};
handle_info({py_demand, _Id, Count}, #state{far = Far} = State) ->
    Far ! {py_demand, Count},
    {noreply, State};
handle_info({'DOWN', Monitor, process, _, _}, #state{consumer_monitor = Monitor} = State) ->
    {stop, normal, cancelled(State)};
handle_info({'DOWN', Monitor, process, _, Reason}, #state{far_monitor = Monitor} = State) ->
    {stop, normal, lost(py_remote:lost(Reason), State)};
handle_info(Message, State) ->
    ?LOG_WARNING("py_relay_stream: unknown message ~p", [Message]),
    {noreply, State}.

to_consumer(Event, #state{consumer = Consumer, stream = Stream} = State) ->
    Consumer ! {py_stream, Stream, Event},
    State.

cancelled(#state{far = Far} = State) when is_pid(Far) ->
    Far ! py_cancel,
    State;
%% It notices that this process has ended.
cancelled(State) ->
    State.

lost(Reason, #state{starting = undefined} = State) ->
    to_consumer({error, Reason}, State);
lost(Reason, #state{starting = From} = State) ->
    gen_server:reply(From, {error, Reason}),
    State.

%% On the loop's node

%% @doc Starts the stream and passes on what comes, until it ends.
-spec far(pid(), pid(), py_nif:call(), non_neg_integer()) -> ok.
far(Near, Loop, Call, Demand) ->
    Monitor = monitor(process, Near),
    try py_stream:start(Loop, Call, #{to => self(), demand => Demand}) of
        {ok, Stream} ->
            Near ! {py_stream_started, self(), ok},
            pass_on(Near, Monitor, Stream);
        {error, Reason} ->
            Near ! {py_stream_started, self(), {error, Reason}},
            ok
    catch
        error:badarg ->
            Near ! {py_stream_started, self(), {error, badarg}},
            ok
    end.

pass_on(Near, Monitor, Stream) ->
    receive
        {py_stream, Stream, {data, _} = Event} ->
            Near ! {py_stream_event, Event},
            pass_on(Near, Monitor, Stream);
        {py_stream, Stream, Event} ->
            Near ! {py_stream_event, Event},
            ok;
        {py_demand, Count} ->
            ok = py_stream:demand(Stream, Count),
            pass_on(Near, Monitor, Stream);
        py_cancel ->
            py_stream:cancel(Stream);
        {'DOWN', Monitor, process, _, _} ->
            py_stream:cancel(Stream)
    end.
