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
-module(py_remote).

-export([create_table/0, register/3, unregister/0, is_proxy/1, proxies/0, load/1]).
-export([request_once/3, cast/2, submit/2, await/3, yield/3, cancel/2]).
-export([stream/4, demand/2, cancel_stream/1, is_stream/1]).
%% For py_peer_agent and py_peer_guard.
-export([stream_lost/3, send/2]).
-export([info/1]).

-export_type([request/0, stream/0]).

-record(py_remote, {
    agent :: pid(),
    guard :: undefined | pid(),
    ledger :: py_nif:ledger() | none,
    number :: non_neg_integer(),
    %% 1 when the reply has been taken, or the request was abandoned. Only of a task.
    taken :: undefined | atomics:atomics_ref()
}).

-record(py_remote_stream, {proxy :: pid(), id :: reference()}).

-opaque request() :: #py_remote{}.
-opaque stream() :: #py_remote_stream{}.

%% {Proxy, Agent, Guard, Ledger}, read by callers.
-define(TABLE, ?MODULE).

%% @doc The calling process owns the table: the top supervisor.
-spec create_table() -> ok.
create_table() ->
    ?TABLE = ets:new(?TABLE, [named_table, public, {read_concurrency, true}]),
    ok.

%% @doc The calling process is the proxy of a loop whose requests this agent runs.
-spec register(pid(), pid() | undefined, py_nif:ledger() | none) -> ok.
register(Agent, Guard, Ledger) ->
    %% Of proxies that were killed.
    Dead = [Proxy || {Proxy, _, _, _} <- ets:tab2list(?TABLE), not is_process_alive(Proxy)],
    _ = [ets:delete(?TABLE, Proxy) || Proxy <- Dead],
    true = ets:insert(?TABLE, {self(), Agent, Guard, Ledger}),
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

find(Proxy) ->
    try ets:lookup(?TABLE, Proxy) of
        [{Proxy, Agent, Guard, Ledger}] ->
            {ok, #py_remote{agent = Agent, guard = Guard, ledger = Ledger, number = 0}};
        [] ->
            {error, loop_down}
    catch
        %% The application is not running.
        error:badarg -> {error, loop_down}
    end.

-spec proxies() -> [pid()].
proxies() ->
    [Proxy || {Proxy, _, _, _} <- ets:tab2list(?TABLE), is_process_alive(Proxy)].

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
    ok = well_formed(Call),
    case find(Proxy) of
        {ok, #py_remote{agent = Agent} = Request} ->
            %% The receive below and the caller's skip what is in the mailbox already.
            Token = monitor(process, Proxy, [{alias, reply_demonitor}]),
            %% What is sent may run. A peer that has ended before is sent nothing, so that the
            %% request can go to another one.
            receive
                {'DOWN', Token, process, _, _} -> {error, loop_down}
            after 0 ->
                Number = next(Request),
                ok = send(Agent, {py_request, Token, self(), py_trace:origin(), Call, Number}),
                {ok, Token, Request#py_remote{number = Number}}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

next(#py_remote{ledger = none}) -> 0;
next(#py_remote{ledger = Ledger}) -> py_nif:ledger_next(Ledger).

%% The peer replies, or its proxy ends.
wait(Token, Request, Timeout) ->
    receive
        {py_reply, Token, Result} -> replied(Result);
        {'DOWN', Token, process, _, Reason} -> down(Reason, Request)
    after Timeout -> abandon(Token, Request)
    end.

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

down({shutdown, {peer_down, _} = Reason}, Request) ->
    down(Reason, Request);
%% The proxy exits with this reason after its peer has ended, so nothing begins any more.
down({peer_down, _} = Reason, #py_remote{ledger = Ledger, number = Number}) ->
    case Ledger =:= none orelse py_nif:ledger_has_begun(Ledger, Number) of
        true -> {error, Reason};
        false -> {refused, Reason}
    end;
down(_, _) ->
    {error, loop_down}.

%% What can be seen at once raises here, as for a local loop; the agent checks the rest.
well_formed({with, Options, Call}) ->
    is_map(Options) orelse error(badarg),
    well_formed(Call);
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

%% A peer that does not read, because it was stopped or is overloaded, must not make its callers wait
%% beyond their timeouts: then a process of its own waits in the send.
%% @private
-spec send(pid(), term()) -> ok.
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
    ok = well_formed(Call),
    case find(Proxy) of
        {ok, #py_remote{agent = Agent}} -> send(Agent, {py_cast, py_trace:origin(), Call});
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
                {py_reply, Token, Result} -> taken(Taken, replied(Result));
                {'DOWN', Token, process, _, Reason} -> taken(Taken, down(Reason, Request))
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
    is_pid(To) andalso node(To) =:= node() andalso is_integer(Demand) andalso Demand >= 0 orelse
        error(badarg),
    ok = well_formed(Call),
    case find(Proxy) of
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
demand(#py_remote_stream{proxy = Proxy, id = Id}, Count) when is_integer(Count), Count > 0 ->
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
