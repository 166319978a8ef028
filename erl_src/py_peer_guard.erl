%% @private
%% @doc Ends the operating system process of a peer that hangs, that uses more memory than it may, or
%% that outlives its proxy. There is
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

-export([start/3, rss/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    proxy :: pid(),
    os_pid :: pos_integer(),
    %% When the operating system process was started: others may get its number.
    born :: undefined | binary(),
    kill_after :: timeout(),
    max_rss :: pos_integer() | infinity,
    agent :: undefined | pid(),
    %% The timer of the check that is being made.
    check :: undefined | reference(),
    %% A timeout since that check has begun.
    next :: undefined | reference()
}).

-type reason() :: hung | {limit, max_rss}.
-export_type([reason/0]).

%% How often the memory of a peer is checked, in milliseconds.
-define(MEMORY_MS, 500).
%% Milliseconds that the peer may take to end after its proxy.
-define(END_MS, 2000).

%% @doc Not linked: it outlives the proxy, which is the calling process.
-spec start(pid(), pos_integer(), py_peer_options:options()) -> pid().
start(Proxy, OsPid, Peer) ->
    {ok, Pid} = gen_server:start(?MODULE, {Proxy, OsPid, Peer}, []),
    Pid.

-spec init({pid(), pos_integer(), py_peer_options:options()}) -> {ok, #state{}}.
init({Proxy, OsPid, #{kill_after := KillAfter, limits := Limits}}) ->
    _ = monitor(process, Proxy),
    MaxRss = maps:get(max_rss, Limits, infinity),
    _ = [check_memory() || MaxRss =/= infinity],
    {ok, #state{
        proxy = Proxy, os_pid = OsPid, born = born(OsPid), kill_after = KillAfter, max_rss = MaxRss
    }}.

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
handle_info({timeout, Check, hung}, #state{check = Check} = State) ->
    {noreply, kill(hung, State)};
handle_info({timeout, _, hung}, State) ->
    {noreply, State};
handle_info({timeout, _, memory}, #state{os_pid = OsPid, max_rss = MaxRss} = State) ->
    case rss(OsPid) > MaxRss of
        true ->
            {noreply, kill({limit, max_rss}, State)};
        false ->
            _ = check_memory(),
            {noreply, State}
    end;
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

check_memory() ->
    erlang:start_timer(?MEMORY_MS, self(), memory).

%% @doc Bytes of memory in use; 0 if the process has ended.
-spec rss(pos_integer()) -> non_neg_integer().
rss(OsPid) ->
    case file:read_file(["/proc/", integer_to_list(OsPid), "/status"]) of
        {ok, Text} ->
            case re:run(Text, "VmRSS:\\s*(\\d+) kB", [{capture, all_but_first, binary}]) of
                {match, [Kilobytes]} -> 1024 * binary_to_integer(Kilobytes);
                nomatch -> 0
            end;
        {error, _} ->
            0
    end.

kill(Why, #state{proxy = Proxy} = State) ->
    Proxy ! {py_killed, Why},
    ok = kill(State),
    State.

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
