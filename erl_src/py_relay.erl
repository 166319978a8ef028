%% @private
%% @doc Runs the requests of processes on other nodes to loops of this node. Each runs in a process of
%% its own, which makes the request as any local process does, so that it works for local loops and
%% for peers of this node alike.
%%
%% From `py_remote' on other nodes (`Origin' is the group leader of the caller, and its trace if it has
%% one):
%%
%% <ul>
%% <li>`{py_request, Token, Caller, Origin, {Loop, Call}, _}': runs it, and sends
%%     `{py_reply, Token, Result}' to `Token', an alias of the caller. `{refused, Reason}' in place of
%%     the result: it was not begun.</li>
%% <li>`{py_cast, Origin, {Loop, Call}}': the same without a reply.</li>
%% <li>`{py_cancel, Token}', `{py_give_up, Token}': with a reply, and without.</li>
%% <li>`{py_stream, Near, Origin, {Loop, Call}, Demand}': starts a stream for `Near', see
%%     `py_relay_stream'.</li>
%% </ul>
%%
%% Callers monitor this process: its end, or the loss of the connection, takes the place of the reply.
%% Then the processes below it end, and what they run is cancelled.
-module(py_relay).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, on/1, leader/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    requests = #{} :: #{Token :: reference() => pid()},
    tokens = #{} :: #{pid() => Token :: reference()},
    leaders = py_leaders:new() :: py_leaders:leaders()
}).

%% Milliseconds after which the caller of a request is monitored. Nearly all are shorter.
-define(TICK, 20).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc The relay of a node.
-spec on(node()) -> {module(), node()}.
on(Node) -> {?MODULE, Node}.

%% @doc A process of this node that stands for a group leader of another one.
-spec leader(pid()) -> pid().
leader(Leader) ->
    gen_server:call(?MODULE, {leader, Leader}, infinity).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({leader, Leader}, _From, #state{leaders = Leaders} = State) ->
    {Here, Known} = py_leaders:here(Leader, Leaders),
    {reply, Here, State#state{leaders = Known}};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_relay: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_relay: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({py_request, Token, Caller, Origin, {Loop, Call}, _}, State) ->
    {Pid, State1} = start(Origin, fun() -> run(Token, Caller, Loop, Call) end, State),
    #state{requests = Requests, tokens = Tokens} = State1,
    {noreply, State1#state{requests = Requests#{Token => Pid}, tokens = Tokens#{Pid => Token}}};
handle_info({py_cast, Origin, {Loop, Call}}, State) ->
    {_, State1} = start(Origin, fun() -> cast(Loop, Call) end, State),
    {noreply, State1};
handle_info({py_stream, Near, Origin, {Loop, Call}, Demand}, State) ->
    {_, State1} = start(Origin, fun() -> py_relay_stream:far(Near, Loop, Call, Demand) end, State),
    {noreply, State1};
handle_info({py_cancel, Token}, #state{requests = Requests} = State) ->
    _ = [Pid ! py_cancel || {ok, Pid} <- [maps:find(Token, Requests)]],
    {noreply, State};
handle_info({py_give_up, Token}, #state{requests = Requests} = State) ->
    %% What it runs is cancelled, as after the death of any caller.
    _ = [exit(Pid, kill) || {ok, Pid} <- [maps:find(Token, Requests)]],
    {noreply, State};
handle_info({'EXIT', Pid, _}, #state{tokens = Tokens} = State) when is_map_key(Pid, Tokens) ->
    {Token, Rest} = maps:take(Pid, Tokens),
    {noreply, State#state{requests = maps:remove(Token, State#state.requests), tokens = Rest}};
handle_info({'EXIT', Pid, _}, #state{leaders = Leaders} = State) ->
    {noreply, State#state{leaders = py_leaders:ended(Pid, Leaders)}};
handle_info(Message, State) ->
    ?LOG_WARNING("py_relay: unknown message ~p", [Message]),
    {noreply, State}.

start({Leader, Trace}, Run, State) ->
    start(Leader, fun() -> py_trace:with(Trace, Run) end, State);
start(Leader, Run, #state{leaders = Leaders} = State) ->
    {Here, Known} = py_leaders:here(Leader, Leaders),
    Pid = spawn_link(fun() ->
        true = group_leader(Here, self()),
        Run()
    end),
    {Pid, State#state{leaders = Known}}.

%% In processes of their own

run(Token, Caller, Loop, Call) ->
    try begin_request(Loop, Call) of
        {ok, Own, Request} -> wait(Token, Caller, none, Own, Request, ?TICK);
        {error, Reason} -> reply(Token, {refused, Reason})
    catch
        error:badarg -> reply(Token, {refused, badarg})
    end.

begin_request(Loop, Call) ->
    Own = make_ref(),
    case py_nif:request_submit(Own, Loop, Call) of
        {ok, Native} ->
            {ok, Own, Native};
        {error, Reason} ->
            case py_remote:is_proxy(Loop) of
                true -> py_remote:submit(Loop, Call);
                false -> {error, Reason}
            end
    end.

%% The reply is that of a local loop or of a peer. When this process ends, the request is abandoned.
wait(Token, Caller, Monitor, Own, Request, Timeout) ->
    receive
        {py_reply, Own, Result} ->
            reply(Token, Result);
        {'DOWN', Own, process, _, Reason} ->
            reply(Token, py_remote:down(Reason, Request));
        {'DOWN', Monitor, process, _, _} ->
            ok;
        py_cancel ->
            ok = cancel(Own, Request),
            wait(Token, Caller, Monitor, Own, Request, Timeout)
    after Timeout ->
        wait(Token, Caller, monitor(process, Caller), Own, Request, infinity)
    end.

cancel(_Own, Request) when is_reference(Request) -> py_nif:request_cancel(Request);
cancel(Own, Request) -> py_remote:cancel(Own, Request).

%% To an alias; its process may have ended.
reply(Token, Result) ->
    _ = erlang:send(Token, {py_reply, Token, Result}, [noconnect]),
    ok.

cast(Loop, Call) ->
    try begin_cast(Loop, Call) of
        {error, Reason} -> cast_refused(Call, Reason);
        _ -> ok
    catch
        error:badarg -> cast_refused(Call, badarg)
    end.

begin_cast(Loop, Call) ->
    case py_remote:is_proxy(Loop) of
        true -> py_remote:cast(Loop, Call);
        false -> py_nif:request_submit(undefined, Loop, Call)
    end.

cast_refused({_, Module, Function, _, _}, Reason) ->
    ?LOG_ERROR("A cast to Python function ~ts.~ts was refused: ~p", [Module, Function, Reason]).
