%% @private
%% @doc Groups: loops that several nodes share. A loop with the option `group => Scope' joins the scope
%% `Scope' of OTP's `pg', and a pool with `place => {group, Scope}' uses all loops in it, wherever
%% they are: `py_group_pool'. There is one such process on each node.
%%
%% `pg' says which nodes take part. These processes of theirs then tell each other which loops they
%% have, and how many requests each one has: at once when a loop comes or goes, ten times a second
%% while there are requests, and once a second otherwise. A node that has said nothing for some
%% seconds gets no new work as long as others can have it: its link may be cut, which the VM notices
%% only after a minute (`net_ticktime').
%%
%% Nodes do not connect again by themselves after a split. This process tries that for an hour.
%%
%% Takes these messages:
%%
%% <ul>
%% <li>from the same processes of other nodes: `{py_group_report, Scope, About, Loops}';</li>
%% <li>from `pg': `{Monitor, join | leave, py_groups, Pids}';</li>
%% <li>`{'DOWN', _, process, Loop, _}' of loops in groups, and of `pg';</li>
%% <li>its own timers: `report' and `reconnect'.</li>
%% </ul>
-module(py_groups).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([create_table/0, start_link/0, join/3, use/1]).
%% For callers.
-export([members/1, refusal/1, counter/1, load/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([scope/0, member/0]).

-type scope() :: atom().
-type member() :: #{
    pid := pid(),
    %% The name of the loop on its node, or the pid: the same after a restart of the loop.
    id := {node(), atom() | pid()},
    %% Of a loop of another node: its requests, and when its node has said so.
    state := here | atomics:atomics_ref()
}.

-record(scope, {
    pg :: reference(),
    %% The same processes of other nodes.
    others = [] :: [pid()],
    far = #{} :: #{node() => [member()]},
    refused = #{} :: #{node() => binary()},
    %% What was reported last, and when.
    reported = {[], 0} :: {[term()], integer()}
}).

-record(state, {
    scopes = #{} :: #{scope() => #scope{}},
    environment = unknown :: unknown | none | binary(),
    %% Nodes that were lost, and until when to look for them.
    lost = #{} :: #{node() => integer()}
}).

%% Rows: {{view, Scope}, tuple of members}, {{here, Loop}, Scope, Name}, {{refused, Scope}, Text},
%% {{counter, Loop}, State}.
-define(TABLE, ?MODULE).
%% What the two sides must agree on, besides OTP.
-define(PROTOCOL, 1).
-define(BUSY_MS, 100).
-define(IDLE_MS, 1000).
-define(SILENT_MS, 3500).
-define(RECONNECT_MS, 2000).
-define(LOST_MS, 3_600_000).

%% @doc The calling process owns the table: the top supervisor.
-spec create_table() -> ok.
create_table() ->
    ?TABLE = ets:new(?TABLE, [named_table, public, {read_concurrency, true}]),
    ok.

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc A loop of this node joins a group, until it ends.
-spec join(scope(), pid(), atom()) -> ok.
join(Scope, Loop, Name) ->
    gen_server:call(?MODULE, {join, Scope, Loop, Name}, infinity).

%% @doc This node takes part in a group.
-spec use(scope()) -> ok.
use(Scope) ->
    gen_server:call(?MODULE, {use, Scope}, infinity).

%% @doc The loops that may be used from this node.
-spec members(scope()) -> tuple().
members(Scope) ->
    row({view, Scope}, {}).

%% @doc Why there are loops that may not be used.
-spec refusal(scope()) -> none | binary().
refusal(Scope) ->
    row({refused, Scope}, none).

%% @doc Counts the requests to a loop of another node that is in a group.
-spec counter(pid()) -> undefined | atomics:atomics_ref().
counter(Loop) ->
    row({counter, Loop}, undefined).

row(Key, Default) ->
    try
        ets:lookup_element(?TABLE, Key, 2)
    catch
        error:badarg -> Default
    end.

%% @doc How many requests a loop has; an atom, which is more than any number, if it should get none.
-spec load(member()) -> non_neg_integer() | silent | down.
load(#{state := here, pid := Loop}) ->
    load_here(Loop);
load(#{state := State}) ->
    case now_ms() - atomics:get(State, 2) < ?SILENT_MS of
        true -> max(0, atomics:get(State, 1));
        false -> silent
    end.

load_here(Loop) ->
    case py_nif:python_loop_of(Loop) of
        {ok, _Queued, Unanswered} ->
            Unanswered;
        {error, loop_down} ->
            case py_remote:load(Loop) of
                {ok, unknown} -> 0;
                {ok, Load} -> Load;
                {error, loop_down} -> down
            end
    end.

now_ms() -> erlang:monotonic_time(millisecond).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    Here = [{Loop, Scope, Name} || {{here, Loop}, Scope, Name} <- ets:tab2list(?TABLE)],
    Scopes = [Scope || {{view, Scope}, _} <- ets:tab2list(?TABLE)],
    State = lists:foldl(fun used/2, #state{}, Scopes),
    {ok, lists:foldl(fun({L, S, N}, St) -> joined(S, L, N, St) end, State, Here)}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({join, Scope, Loop, Name}, _From, State) ->
    {reply, ok, joined(Scope, Loop, Name, used(Scope, State))};
handle_call({use, Scope}, _From, State) ->
    {reply, ok, used(Scope, State)};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_groups: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_groups: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({py_group_report, Scope, About, Loops}, #state{scopes = Scopes} = State) ->
    case Scopes of
        #{Scope := _} -> {noreply, reported(Scope, About, Loops, State)};
        #{} -> {noreply, State}
    end;
handle_info({Monitor, What, ?MODULE, Pids}, #state{scopes = Scopes} = State) when What =:= join; What =:= leave ->
    Far = [Pid || Pid <- Pids, node(Pid) =/= node()],
    case [Name || {Name, #scope{pg = Pg}} <- maps:to_list(Scopes), Pg =:= Monitor] of
        [Scope] when What =:= join -> {noreply, came(Scope, Far, State)};
        [Scope] -> {noreply, went(Scope, Far, State)};
        [] -> {noreply, State}
    end;
handle_info({'DOWN', _, process, Loop, _}, State) ->
    case ets:lookup(?TABLE, {here, Loop}) of
        [{_, Scope, _}] ->
            true = ets:delete(?TABLE, {here, Loop}),
            ok = show(Scope, State),
            {noreply, report(Scope, State)};
        [] ->
            {noreply, State}
    end;
handle_info({timeout, _, {report, Scope}}, State) ->
    Reported = report_changes(Scope, State),
    ok = arm(Scope, Reported),
    {noreply, Reported};
handle_info({timeout, _, reconnect}, State) ->
    {noreply, reconnect(State)};
%% With a scope of pg that was started here, all is begun again.
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_groups: unknown message ~p", [Message]),
    {noreply, State}.

%% Taking part

used(Scope, #state{scopes = Scopes} = State) when is_map_key(Scope, Scopes) ->
    State;
used(Scope, State) ->
    case pg:start_link(Scope) of
        {ok, _} -> ok;
        %% The program has started it.
        {error, {already_started, Pid}} -> link(Pid)
    end,
    {Monitor, Others} = pg:monitor(Scope, ?MODULE),
    ok = pg:join(Scope, ?MODULE, self()),
    #state{scopes = Scopes} = Known = with_environment(State),
    Used = Known#state{scopes = Scopes#{Scope => #scope{pg = Monitor}}},
    ok = show(Scope, Used),
    ok = arm(Scope, Used),
    came(Scope, [Pid || Pid <- Others, node(Pid) =/= node()], Used).

%% The program that finds it out takes a while, and no setting changes while the node runs.
with_environment(#state{environment = unknown} = State) ->
    case py_env:identity() of
        {ok, Environment} ->
            State#state{environment = Environment};
        {error, Sentence} ->
            ?LOG_WARNING("Loops of other nodes are used whatever their environment is: ~ts", [Sentence]),
            State#state{environment = none}
    end;
with_environment(State) ->
    State.

joined(Scope, Loop, Name, State) ->
    _ = monitor(process, Loop),
    true = ets:insert(?TABLE, {{here, Loop}, Scope, Name}),
    %% So that programs find it, too.
    ok = pg:join(Scope, py_event_loop, Loop),
    ok = show(Scope, State),
    report(Scope, State).

here(Scope) ->
    [{Loop, Name} || {{here, Loop}, Of, Name} <- ets:tab2list(?TABLE), Of =:= Scope].

%% What callers see.
show(Scope, #state{scopes = Scopes}) ->
    #{Scope := #scope{far = Far, refused = Refused}} = Scopes,
    Here = [#{pid => Loop, id => id(Loop, Name), state => here} || {Loop, Name} <- here(Scope)],
    Members = lists:append([Here | maps:values(Far)]),
    true = ets:insert(?TABLE, {{view, Scope}, list_to_tuple(lists:sort(Members))}),
    true = ets:insert(?TABLE, {{refused, Scope}, hd(maps:values(Refused) ++ [none])}),
    ok.

id(Loop, undefined) -> {node(Loop), Loop};
id(Loop, Name) -> {node(Loop), Name}.

%% Reports

arm(Scope, #state{scopes = Scopes}) ->
    #{Scope := #scope{reported = {Loops, _}}} = Scopes,
    Busy = lists:any(fun({_, _, Load}) -> Load =/= 0 end, Loops),
    _ = erlang:start_timer(case Busy of true -> ?BUSY_MS; false -> ?IDLE_MS end, self(), {report, Scope}),
    ok.

loads(Scope) ->
    [{Loop, Name, load_here(Loop)} || {Loop, Name} <- here(Scope)].

report(Scope, State) ->
    report(Scope, loads(Scope), State).

report_changes(Scope, #state{scopes = Scopes} = State) ->
    #{Scope := #scope{reported = {Before, At}}} = Scopes,
    case loads(Scope) of
        Before ->
            case now_ms() - At < ?IDLE_MS of
                true -> State;
                false -> report(Scope, Before, State)
            end;
        Loads ->
            report(Scope, Loads, State)
    end.

report(Scope, Loads, #state{scopes = Scopes} = State) ->
    #{Scope := #scope{others = Others} = Known} = Scopes,
    ok = send(Scope, Others, Loads, State),
    State#state{scopes = Scopes#{Scope := Known#scope{reported = {Loads, now_ms()}}}}.

%% A link that is cut must not stop this process.
send(Scope, Others, Loads, #state{environment = Environment}) ->
    Report = {py_group_report, Scope, {?PROTOCOL, node(), Environment}, Loads},
    lists:foreach(fun(Pid) -> erlang:send(Pid, Report, [nosuspend, noconnect]) end, Others).

reported(Scope, {?PROTOCOL, Node, Environment}, Loops, #state{environment = Own} = State) when
    Own =:= none; Own =:= Environment
->
    #state{scopes = #{Scope := #scope{far = Far, refused = Refused} = Known} = Scopes} = State,
    Before = maps:get(Node, Far, []),
    Members = [far(Loop, Name, Before) || {Loop, Name, Load} <- Loops, is_integer(Load)],
    Now = now_ms(),
    _ = [set(S, Load, Now) || #{pid := Pid, state := S} <- Members, {Loop, _, Load} <- Loops, Loop =:= Pid],
    case [Pid || #{pid := Pid} <- Members] =:= [Pid || #{pid := Pid} <- Before] of
        true ->
            State;
        false ->
            ok = forget(Before -- Members),
            _ = [ets:insert(?TABLE, {{counter, Pid}, S}) || #{pid := Pid, state := S} <- Members],
            New = Known#scope{far = Far#{Node => Members}, refused = maps:remove(Node, Refused)},
            Shown = State#state{scopes = Scopes#{Scope := New}},
            ok = show(Scope, Shown),
            Shown
    end;
reported(_Scope, {?PROTOCOL, _, _}, [], State) ->
    State;
reported(Scope, {?PROTOCOL, Node, Environment}, _, #state{environment = Own} = State) ->
    refused(Scope, Node, [
        "the environment there is ", shown(Environment), ", and that of this node is ", shown(Own),
        ": both must be built from the same list of packages"
    ], State);
reported(Scope, About, _, State) when is_tuple(About) ->
    refused(Scope, element(2, About), "erlang_loop there is of another version", State).

shown(none) -> "none";
shown(Environment) -> Environment.

far(Loop, Name, Before) ->
    case [Member || #{pid := Pid} = Member <- Before, Pid =:= Loop] of
        [Member] -> Member;
        [] -> #{pid => Loop, id => id(Loop, Name), state => atomics:new(2, [])}
    end.

set(State, Load, Now) ->
    ok = atomics:put(State, 1, Load),
    ok = atomics:put(State, 2, Now).

refused(Scope, Node, Why, #state{scopes = Scopes} = State) ->
    #{Scope := #scope{refused = Refused} = Known} = Scopes,
    case Refused of
        #{Node := _} ->
            State;
        #{} ->
            Text = iolist_to_binary([
                "the loops of ", atom_to_binary(Node), " in the group ", atom_to_binary(Scope), " cannot be used: ", Why
            ]),
            ?LOG_WARNING("~ts", [Text]),
            New = State#state{scopes = Scopes#{Scope := Known#scope{refused = Refused#{Node => Text}}}},
            ok = show(Scope, New),
            New
    end.

forget(Members) ->
    lists:foreach(fun(#{pid := Pid}) -> ets:delete(?TABLE, {counter, Pid}) end, Members).

%% Nodes

came(_Scope, [], State) ->
    State;
came(Scope, Pids, #state{scopes = Scopes} = State) ->
    #{Scope := #scope{others = Others} = Known} = Scopes,
    ok = send(Scope, Pids, loads(Scope), State),
    Back = maps:without([node(Pid) || Pid <- Pids], State#state.lost),
    State#state{scopes = Scopes#{Scope := Known#scope{others = lists:usort(Pids ++ Others)}}, lost = Back}.

went(Scope, Pids, #state{scopes = Scopes} = State) ->
    #{Scope := #scope{others = Others, far = Far, refused = Refused} = Known} = Scopes,
    Left = Others -- Pids,
    %% A restarted process may have joined already.
    Nodes = [node(Pid) || Pid <- Pids] -- [node(Pid) || Pid <- Left],
    ok = forget(lists:append(maps:values(maps:with(Nodes, Far)))),
    Without = Known#scope{
        others = Left, far = maps:without(Nodes, Far), refused = maps:without(Nodes, Refused)
    },
    New = State#state{scopes = Scopes#{Scope := Without}},
    ok = show(Scope, New),
    lost(Nodes -- nodes(), New).

lost([], State) ->
    State;
lost(Nodes, #state{lost = Lost} = State) ->
    _ = [start_reconnecting() || Lost =:= #{}],
    Until = now_ms() + ?LOST_MS,
    State#state{lost = maps:merge(Lost, maps:from_list([{Node, Until} || Node <- Nodes]))}.

start_reconnecting() ->
    erlang:start_timer(?RECONNECT_MS, self(), reconnect).

%% A node that is connected again joins by itself. Connecting takes seconds if the network is down.
reconnect(#state{lost = Lost} = State) ->
    Now = now_ms(),
    Left = maps:filter(fun(Node, Until) -> Until > Now andalso not lists:member(Node, nodes()) end, Lost),
    _ = spawn(fun() -> lists:foreach(fun net_kernel:connect_node/1, maps:keys(Left)) end),
    _ = [start_reconnecting() || Left =/= #{}],
    State#state{lost = Left}.
