%% @private
%% @doc Ends the operating system process of a peer that hangs, or that outlives its proxy. There is
%% one for each peer, beside the proxy, which may be blocked in sending to a peer that does not read.
%%
%% Takes these messages:
%%
%% <ul>
%% <li>from the proxy, `py_peer': `{py_watch, Agent}', once the loop is up;</li>
%% <li>from callers, see `py_remote': `{py_gave_up, Token}' after a timeout;</li>
%% <li>from the agent: `{py_well, Id}', the reply to `{py_check, Id, Token, self()}'.</li>
%% </ul>
%%
%% After a timeout the peer has `kill_after' milliseconds to show that it does not hang: its VM, its
%% loop and the functions whose callers have gone, see `py_peer_agent'. One check is made at a time,
%% so a peer that begins to hang is killed after twice as long at most.
-module(py_peer_guard).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    proxy :: pid(),
    os_pid :: pos_integer(),
    %% When the operating system process was started: others may get its number.
    born :: undefined | binary(),
    kill_after :: timeout(),
    agent :: undefined | pid(),
    %% The timer of the check that is being made.
    check :: undefined | reference(),
    %% A timeout since that check has begun.
    next :: undefined | reference()
}).

%% Milliseconds that the peer may take to end after its proxy.
-define(END_MS, 2000).

%% @doc Not linked: it outlives the proxy, which is the calling process.
-spec start(pid(), pos_integer(), timeout()) -> pid().
start(Proxy, OsPid, KillAfter) ->
    {ok, Pid} = gen_server:start(?MODULE, {Proxy, OsPid, KillAfter}, []),
    Pid.

-spec init({pid(), pos_integer(), timeout()}) -> {ok, #state{}}.
init({Proxy, OsPid, KillAfter}) ->
    _ = monitor(process, Proxy),
    {ok, #state{proxy = Proxy, os_pid = OsPid, born = born(OsPid), kill_after = KillAfter}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_peer_guard: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_peer_guard: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({py_watch, Agent}, State) ->
    {noreply, State#state{agent = Agent}};
handle_info({py_gave_up, _}, #state{kill_after = infinity} = State) ->
    {noreply, State};
handle_info({py_gave_up, Token}, #state{check = undefined} = State) ->
    {noreply, check(Token, State)};
handle_info({py_gave_up, Token}, State) ->
    {noreply, State#state{next = Token}};
handle_info({py_well, Check}, #state{check = Check, next = Next} = State) ->
    _ = erlang:cancel_timer(Check),
    Well = State#state{check = undefined, next = undefined},
    case Next of
        undefined -> {noreply, Well};
        Token -> {noreply, check(Token, Well)}
    end;
%% It arrived together with the end of its timer.
handle_info({py_well, _}, State) ->
    {noreply, State};
handle_info({timeout, Check, hung}, #state{check = Check, proxy = Proxy} = State) ->
    Proxy ! py_hung,
    ok = kill(State),
    {noreply, State};
handle_info({timeout, _, hung}, State) ->
    {noreply, State};
handle_info({'DOWN', _, process, Proxy, _}, #state{proxy = Proxy} = State) ->
    case runs(State) of
        true ->
            _ = erlang:start_timer(?END_MS, self(), outlived),
            {noreply, State#state{kill_after = infinity}};
        false ->
            {stop, normal, State}
    end;
handle_info({timeout, _, outlived}, State) ->
    ok = kill(State),
    {stop, normal, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_peer_guard: unknown message ~p", [Message]),
    {noreply, State}.

check(Token, #state{agent = Agent, kill_after = After} = State) ->
    Check = erlang:start_timer(After, self(), hung),
    ok = py_remote:send(Agent, {py_check, Check, Token, self()}),
    State#state{check = Check}.

kill(#state{os_pid = OsPid} = State) ->
    _ = [py_peer_node:kill(OsPid) || runs(State)],
    ok.

runs(#state{os_pid = OsPid, born = Born}) ->
    Born =/= undefined andalso born(OsPid) =:= Born.

%% The 22nd field of `stat' in `/proc', the 20th after the program's name in parentheses.
born(OsPid) ->
    case file:read_file(["/proc/", integer_to_list(OsPid), "/stat"]) of
        {ok, Text} ->
            Fields = lists:last(binary:split(Text, <<")">>, [global])),
            lists:nth(20, binary:split(Fields, <<" ">>, [global, trim_all]));
        {error, _} ->
            undefined
    end.
