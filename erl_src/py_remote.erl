%% @private
%% @doc Requests to a loop in another operating system process: a peer, or another node. Called by
%% `py', `py_stream' and `py_event_loop' when the native library knows no loop of the process.
%%
%% The process that stands for such a loop, its *proxy* (`py_peer'), registers itself here with the
%% agent that runs the requests there (`py_peer_agent'). A request is one message from the caller to
%% the agent, and its reply is one message to the caller:
%%
%% ```
%% caller: {py_request, Token, Caller, GroupLeader, Call, Number} -> agent
%% agent:  {py_reply, Token, Result}                              -> caller
%% '''
%%
%% `Token' is a monitor of the proxy and, at the same time, an alias of the caller. So the death of
%% the peer takes the place of the reply, and after a timeout no late reply can arrive: it is sent
%% to an alias that has ended.
%%
%% A peer of this node records which requests have begun, by their numbers in its *ledger*, memory
%% that it shares with this node. When it has died, a request that had not begun is *refused*: a pool
%% runs it elsewhere.
%%
%% A stream goes through the proxy in both directions, because it must not end before its last
%% item has arrived, and signals are ordered only between two processes.
%%
%% A loop of another node is used by its pid, without a proxy: the agent is then the relay of that
%% node (`py_relay'), which is monitored in the proxy's place and gets `{Loop, Call}' for the call.
-module(py_remote).

-export([create_table/0, register/4, unregister/0, is_proxy/1, proxies/0, load/1]).
-export([request_once/3, cast/2, submit/2, await/3, yield/3, cancel/2]).
-export([stream/4, demand/2, cancel_stream/1, is_stream/1]).
%% For py_peer_agent and py_peer_guard.
-export([stream_lost/3, send/2]).
%% For py_relay and py_relay_stream.
-export([down/2, lost/1]).
%% For py_questions and py_actor.
-export([node_of/1, loop_there/1]).
-export([info/1]).

-export_type([request/0, stream/0]).

-record(py_remote, {
    agent :: agent(),
    %% What is monitored, and its loop, if the agent is a relay.
    monitored :: pid() | {module(), node()},
    loop :: undefined | pid(),
    guard :: undefined | pid(),
    %% Whether large data need not go through the connection.
    shares = false :: boolean(),
    ledger :: py_nif:ledger() | none,
    number :: non_neg_integer(),
    %% Counts the requests to a loop in a group, see `py_groups'.
    load :: undefined | atomics:atomics_ref(),
    %% 1 when the reply has been taken, or the request was abandoned. Only of a task.
    taken :: undefined | atomics:atomics_ref()
}).

-type agent() :: pid() | {module(), node()}.

-record(py_remote_stream, {proxy :: pid(), id :: reference()}).

-opaque request() :: #py_remote{}.
-opaque stream() :: #py_remote_stream{}.

%% {Proxy, Agent, Guard, Ledger, Shares}, read by callers.
-define(TABLE, ?MODULE).

%% @doc The calling process owns the table: the top supervisor.
-spec create_table() -> ok.
create_table() ->
    ?TABLE = ets:new(?TABLE, [named_table, public, {read_concurrency, true}]),
    ok.

%% @doc The calling process is the proxy of a loop whose requests this agent runs.
-spec register(pid(), pid() | undefined, py_nif:ledger() | none, Shares :: boolean()) -> ok.
register(Agent, Guard, Ledger, Shares) ->
    %% Of proxies that were killed.
    Dead = [Proxy || {Proxy, _, _, _, _} <- ets:tab2list(?TABLE), not is_process_alive(Proxy)],
    _ = [ets:delete(?TABLE, Proxy) || Proxy <- Dead],
    true = ets:insert(?TABLE, {self(), Agent, Guard, Ledger, Shares}),
    ok.

%% @doc The calling process is such a proxy no longer.
-spec unregister() -> ok.
unregister() ->
    true = ets:delete(?TABLE, self()),
    ok.

%% @doc Whether this process stands for a loop that lives elsewhere.
-spec is_proxy(py_nif:request_target()) -> boolean().
is_proxy(Target) ->
    case find(Target) of
        {ok, _} -> true;
        {error, loop_down} -> false
    end.

find(Loop) when is_pid(Loop), node(Loop) =/= node() ->
    Relay = py_relay:on(node(Loop)),
    Load = py_groups:counter(Loop),
    {ok, #py_remote{agent = Relay, monitored = Relay, loop = Loop, ledger = none, number = 0, load = Load}};
find(Proxy) ->
    try ets:lookup(?TABLE, Proxy) of
        [{Proxy, Agent, Guard, Ledger, Shares}] ->
            {ok, #py_remote{
                agent = Agent, monitored = Proxy, guard = Guard, shares = Shares, ledger = Ledger,
                number = 0
            }};
        [] ->
            {error, loop_down}
    catch
        %% The application is not running.
        error:badarg -> {error, loop_down}
    end.

%% @doc The node of the loop with this name, if it is one that lives elsewhere. Otherwise the name is
%% that of a node.
-spec node_of(atom()) -> node().
node_of(Name) ->
    case whereis(Name) of
        Pid when is_pid(Pid) ->
            case find(Pid) of
                {ok, #py_remote{agent = Agent}} -> node(Agent);
                {error, loop_down} -> Name
            end;
        _ ->
            Name
    end.

%% @doc The process that owns the loop in its own node.
-spec loop_there(pid()) -> {ok, pid()} | {error, py:reason()}.
loop_there(Loop) when node(Loop) =/= node() ->
    {ok, Loop};
loop_there(Loop) ->
    case find(Loop) of
        {ok, #py_remote{agent = Agent}} ->
            try
                {ok, gen_server:call(Agent, loop, 5000)}
            catch
                exit:{timeout, _} -> {error, timeout};
                exit:_ -> {error, loop_down}
            end;
        %% A local loop.
        {error, loop_down} ->
            {ok, Loop}
    end.

-spec proxies() -> [pid()].
proxies() ->
    [Proxy || {Proxy, _, _, _, _} <- ets:tab2list(?TABLE), is_process_alive(Proxy)].

%% @doc How many requests a loop has. `unknown': it is on another node.
-spec load(pid()) -> {ok, non_neg_integer() | unknown} | {error, loop_down}.
load(Proxy) ->
    case find(Proxy) of
        {ok, #py_remote{ledger = none}} -> {ok, unknown};
        {ok, #py_remote{ledger = Ledger}} -> {ok, py_nif:ledger_load(Ledger)};
        {error, Reason} -> {error, Reason}
    end.

%% Calls

%% @doc As `py:request_once/3'.
-spec request_once(pid(), py_nif:call(), timeout()) -> py:result() | {refused, py:reason()}.
request_once(Proxy, Call, Timeout) ->
    case begin_request(Proxy, Call) of
        {ok, Token, Request} -> wait(Token, Request, Timeout);
        {error, Reason} -> {refused, Reason}
    end.

%% References to Python objects are resources of the node whose Python has the objects.
begin_request(_Proxy, {with, #{return := ref}, _}) ->
    {error, {no_reference, remote}};
begin_request(_Proxy, {with, #{namespace := _}, _}) ->
    {error, {no_reference, remote}};
begin_request(Proxy, Call) ->
    case find(Proxy, Call) of
        {ok, #py_remote{monitored = Monitored} = Request} ->
            %% The receive below and the caller's skip what is in the mailbox already.
            Token = monitor(process, Monitored, [{alias, reply_demonitor}]),
            %% What is sent may run. A peer that has ended before is sent nothing, so that the
            %% request can go to another one.
            receive
                {'DOWN', Token, process, _, noconnection} -> {error, lost(noconnection)};
                {'DOWN', Token, process, _, _} -> {error, loop_down}
            after 0 ->
                Number = next(Request),
                ok = count(1, Request),
                ok = deliver(Request, {py_request, Token, self(), py_trace:origin(), sent(Call, Request), Number}),
                {ok, Token, Request#py_remote{number = Number}}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

sent(Call, #py_remote{loop = undefined}) -> Call;
sent(Call, #py_remote{loop = Loop}) -> {Loop, Call}.

next(#py_remote{ledger = none}) -> 0;
next(#py_remote{ledger = Ledger}) -> py_nif:ledger_next(Ledger).

%% The peer replies, or its proxy ends.
wait(Token, Request, Timeout) ->
    receive
        {py_reply, Token, Result} ->
            ok = count(-1, Request),
            replied(Result);
        {'DOWN', Token, process, _, Reason} ->
            ok = count(-1, Request),
            down(Reason, Request)
    after Timeout ->
        ok = count(-1, Request),
        abandon(Token, Request)
    end.

count(_, #py_remote{load = undefined}) -> ok;
count(N, #py_remote{load = Load}) -> atomics:add(Load, 1, N).

%% The agent has found a name that is not UTF-8, or an improper list.
replied({refused, badarg}) -> error(badarg);
replied(Result) -> Result.

abandon(Token, #py_remote{agent = Agent, guard = Guard}) ->
    true = demonitor(Token, [flush]),
    receive
        %% It has just arrived.
        {py_reply, Token, Result} -> replied(Result)
    after 0 ->
        ok = send(Agent, {py_give_up, Token}),
        _ = [Guard ! {py_gave_up, Token} || is_pid(Guard)],
        {error, timeout}
    end.

%% @private
%% @doc What the end of the process that is monitored means for a request.
-spec down(term(), request()) -> {error | refused, py:reason()}.
down({shutdown, {peer_down, _} = Reason}, Request) ->
    down(Reason, Request);
%% The proxy exits with this reason after its peer has ended, so nothing begins any more.
down({peer_down, _} = Reason, #py_remote{ledger = Ledger, number = Number}) ->
    case Ledger =:= none orelse py_nif:ledger_has_begun(Ledger, Number) of
        true -> {error, Reason};
        false -> {refused, Reason}
    end;
%% Of a relay: the application does not run there.
down(noproc, #py_remote{loop = Loop}) when is_pid(Loop) ->
    {refused, loop_down};
down(Reason, #py_remote{loop = Loop}) when is_pid(Loop) ->
    {error, lost(Reason)};
down(_, _) ->
    {error, loop_down}.

%% @private
%% @doc What the end of a relay, or of a process below it, means for what it ran.
-spec lost(term()) -> py:reason().
lost(noconnection) -> {peer_down, noconnection};
lost(_) -> loop_down.

%% Where the loop is that can run this call. An object of which a method is called is in this node.
find(Proxy, {with, Options, Call}) when is_map(Options) ->
    find(Proxy, Call);
find(_Proxy, {_, Object, _, _, _}) when is_reference(Object) ->
    _ = py_nif:object_type(Object),
    {error, {no_reference, remote}};
find(Proxy, Call) ->
    ok = well_formed(Call),
    find(Proxy).

%% What can be seen at once raises here, as for a local loop; the agent checks the rest.
well_formed({_, Module, Function, Args, Kwargs}) when
    (is_atom(Module) orelse is_binary(Module) orelse is_list(Module)),
    (is_atom(Function) orelse is_binary(Function) orelse is_list(Function)),
    is_list(Args),
    is_map(Kwargs)
->
    ok;
well_formed({_, Code, Variables}) when is_binary(Code), is_map(Variables) ->
    ok;
well_formed(_) ->
    error(badarg).

%% Large data goes by way of the proxy, see `py_peer_memory'.
deliver(#py_remote{agent = Agent, shares = false}, Message) ->
    send(Agent, Message);
deliver(#py_remote{monitored = Proxy, agent = Agent}, Message) ->
    case py_peer_memory:take_out(Message) of
        none ->
            send(Agent, Message);
        Parcel ->
            Proxy ! {py_parcel, Parcel},
            ok
    end.

%% A peer that does not read, because it was stopped or is overloaded, must not make its callers wait
%% beyond their timeouts: then a process of its own waits in the send.
%% @private
-spec send(agent(), term()) -> ok.
send(Agent, Message) ->
    case erlang:send(Agent, Message, [nosuspend, noconnect]) of
        nosuspend ->
            _ = spawn(fun() -> erlang:send(Agent, Message, [noconnect]) end),
            ok;
        %% `noconnect': the proxy is about to notice.
        _ ->
            ok
    end.

-spec cast(pid(), py_nif:call()) -> ok | {error, py:reason()}.
cast(Proxy, Call) ->
    case find(Proxy, Call) of
        {ok, Request} -> deliver(Request, {py_cast, py_trace:origin(), sent(Call, Request)});
        {error, Reason} -> {error, Reason}
    end.

%% Tasks

-spec submit(pid(), py_nif:call()) -> {ok, reference(), request()} | {error, py:reason()}.
submit(Proxy, Call) ->
    case begin_request(Proxy, Call) of
        {ok, Token, Request} ->
            {ok, Token, Request#py_remote{taken = atomics:new(1, [])}};
        {error, Reason} ->
            {error, Reason}
    end.

-spec await(reference(), request(), timeout()) -> py:result().
await(Token, #py_remote{taken = Taken} = Request, Timeout) ->
    case atomics:exchange(Taken, 1, 1) of
        0 -> accepted(wait(Token, Request, Timeout));
        1 -> {error, noproc}
    end.

-spec yield(reference(), request(), timeout()) -> {value, py:result()} | timeout.
yield(Token, #py_remote{taken = Taken} = Request, Timeout) ->
    case atomics:get(Taken, 1) of
        1 ->
            {value, {error, noproc}};
        0 ->
            receive
                {py_reply, Token, Result} ->
                    ok = count(-1, Request),
                    taken(Taken, replied(Result));
                {'DOWN', Token, process, _, Reason} ->
                    ok = count(-1, Request),
                    taken(Taken, down(Reason, Request))
            after Timeout -> timeout
            end
    end.

taken(Taken, Result) ->
    ok = atomics:put(Taken, 1, 1),
    {value, accepted(Result)}.

accepted({refused, Reason}) -> {error, Reason};
accepted(Result) -> Result.

-spec cancel(reference(), request()) -> ok.
cancel(Token, #py_remote{agent = Agent}) ->
    send(Agent, {py_cancel, Token}).

%% Streams

%% @doc As `py_nif:stream_submit/4'.
-spec stream(pid(), py_nif:call(), pid(), non_neg_integer()) ->
    {ok, stream()} | {error, py:reason()}.
stream(Proxy, Call, To, Demand) ->
    %% What the native function checks before it looks for the loop.
    is_pid(To) andalso node(To) =:= node() andalso is_integer(Demand) andalso Demand >= 0 andalso
        Demand < 1 bsl 64 orelse error(badarg),
    case is_process_alive(To) andalso find(Proxy, Call) of
        false ->
            {error, noproc};
        {ok, #py_remote{loop = Loop}} when is_pid(Loop) ->
            Id = make_ref(),
            Make = fun(Near) -> #py_remote_stream{proxy = Near, id = Id} end,
            py_relay_stream:start(Make, node(Loop), Loop, Call, To, Demand);
        {ok, _} ->
            Stream = #py_remote_stream{proxy = Proxy, id = make_ref()},
            case ask(Proxy, {stream, Stream, Stream#py_remote_stream.id, To, py_trace:origin(), Call, Demand}) of
                ok -> {ok, Stream};
                {error, badarg} -> error(badarg);
                {error, Reason} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-spec demand(stream(), pos_integer()) -> ok.
demand(#py_remote_stream{proxy = Proxy, id = Id}, Count) when
    is_integer(Count), Count > 0, Count < 1 bsl 64
->
    Proxy ! {py_demand, Id, Count},
    ok;
demand(_, _) ->
    error(badarg).

%% @doc `taken': the caller is the consumer, and no message arrives any more. `ok': another process
%% is, and gets `{error, cancelled}'.
-spec cancel_stream(stream()) -> taken | ok.
cancel_stream(#py_remote_stream{proxy = Proxy, id = Id}) ->
    case ask(Proxy, {cancel_stream, Id, self()}) of
        %% The peer has ended, and with it the stream.
        {error, _} -> taken;
        Answer -> Answer
    end.

%% @doc For the consumer, whose proxy has died.
-spec stream_lost(pid(), reference(), pid()) -> ok.
stream_lost(Proxy, Id, Consumer) ->
    Stream = #py_remote_stream{proxy = Proxy, id = Id},
    Consumer ! {py_stream, Stream, {error, loop_down}},
    ok.

-spec is_stream(term()) -> boolean().
is_stream(#py_remote_stream{}) -> true;
is_stream(_) -> false.

%% @doc As `py_event_loop:info/1'.
-spec info(pid()) -> {ok, map()} | {error, py:reason()}.
info(Loop) when node(Loop) =/= node() ->
    try
        erpc:call(node(Loop), py_event_loop, info, [Loop], 5000)
    of
        {ok, Info} -> {ok, maps:merge(#{node => node(Loop)}, Info)};
        {error, Reason} -> {error, Reason}
    catch
        error:{erpc, timeout} -> {error, timeout};
        error:{erpc, noconnection} -> {error, {peer_down, noconnection}};
        _:_ -> {error, loop_down}
    end;
info(Proxy) ->
    case find(Proxy) of
        {ok, _} -> ask(Proxy, info);
        {error, Reason} -> {error, Reason}
    end.

%% A peer that hangs is killed by its proxy or replies late.
ask(Proxy, Question) ->
    try
        gen_server:call(Proxy, Question, 5000)
    catch
        exit:{timeout, _} -> {error, timeout};
        exit:{{peer_down, _} = Reason, _} -> {error, Reason};
        exit:_ -> {error, loop_down}
    end.
