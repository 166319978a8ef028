%% @private
%% @doc A pool over the loops of a group, on this and other nodes: `py_event_loop_pool' with
%% `place => {group, Scope}'. It starts no loops. This process only makes the pool exist, and lets
%% callers wait while the group has no loops: `py_groups' knows those.
%%
%% Takes the call `count_children', as a supervisor does, and replies when there is a loop.
-module(py_group_pool).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, order/2, is_reachable/1, info/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([group/0]).

-type group() :: #{scope := py_groups:scope(), locality := any | prefer}.

%% Milliseconds between looks for a loop while callers wait.
-define(LOOK_MS, 50).

%% @doc Raises `{bad_option, What, Why}'.
-spec start_link(py_event_loop_pool:options()) -> {ok, pid(), group()} | {error, term()}.
start_link(#{name := Pool, place := {group, Scope}} = Options) ->
    is_atom(Scope) orelse
        py_event_loop_options:bad({place, {group, Scope}}, "the name of a group is an atom"),
    Locality = maps:get(locality, Options, any),
    lists:member(Locality, [any, prefer]) orelse
        py_event_loop_options:bad({locality, Locality}, "any or prefer"),
    case maps:to_list(maps:without([name, place, locality], Options)) of
        [] -> ok;
        [Option | _] -> py_event_loop_options:bad(Option, "a pool over a group starts no loops; there are name, place, locality")
    end,
    case gen_server:start_link({local, Pool}, ?MODULE, Scope, []) of
        {ok, Pid} -> {ok, Pid, #{scope => Scope, locality => Locality}};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init(py_groups:scope()) -> {ok, {py_groups:scope(), [gen_server:from()]}} | {stop, term()}.
init(Scope) ->
    try py_groups:use(Scope) of
        ok -> {ok, {Scope, []}}
    catch
        exit:_ -> {stop, not_started}
    end.

-spec handle_call(term(), gen_server:from(), State) -> {noreply, State} | {reply, term(), State}.
handle_call(count_children, From, {Scope, Waiting}) ->
    _ = [look() || Waiting =:= []],
    {noreply, {Scope, [From | Waiting]}};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_group_pool: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_group_pool: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), State) -> {noreply, State}.
handle_info({timeout, _, look}, {Scope, Waiting}) ->
    case py_groups:members(Scope) of
        {} ->
            _ = look(),
            {noreply, {Scope, Waiting}};
        _ ->
            lists:foreach(fun(From) -> gen_server:reply(From, ok) end, Waiting),
            {noreply, {Scope, []}}
    end;
handle_info(Message, State) ->
    ?LOG_WARNING("py_group_pool: unknown message ~p", [Message]),
    {noreply, State}.

look() -> erlang:start_timer(?LOOK_MS, self(), look).

%% Whose turn it is

%% @doc The loops of the group: the best one first, and a function for the others, which are rarely
%% needed.
-spec order(group(), none | {key, term()}) -> {pid(), fun(() -> [pid()])} | none.
order(#{scope := Scope, locality := Locality}, Affinity) ->
    case {py_groups:members(Scope), Affinity} of
        {{}, _} ->
            none;
        {Members, {key, Key}} ->
            [#{pid := First} | Rest] = by_key(Key, tuple_to_list(Members)),
            {First, fun() -> pids(Rest) end};
        {Members, none} ->
            First = first(Locality, Members),
            {First, fun() -> by_load(tuple_to_list(Members)) -- [First] end}
    end.

pids(Members) -> [Pid || #{pid := Pid} <- Members].

%% Of two that are chosen at random, the one with fewer requests: with loads that are somewhat old,
%% taking the best of all would send all callers to the same loop.
first(any, Members) ->
    {Pid, _} = better(Members),
    Pid;
first(prefer, Members) ->
    Here = list_to_tuple([M || #{state := here} = M <- tuple_to_list(Members)]),
    Far = list_to_tuple([M || #{state := S} = M <- tuple_to_list(Members), S =/= here]),
    case {better(Here), Far} of
        {none, _} -> first(any, Members);
        {{Pid, _}, {}} -> Pid;
        {{Pid, 0}, _} -> Pid;
        {{Pid, Load}, _} -> much_better(Pid, Load, better(Far))
    end.

much_better(_Here, Load, {Far, Less}) when is_integer(Less), (is_atom(Load) orelse Less * 2 < Load) -> Far;
much_better(Here, _Load, _) -> Here.

better({}) ->
    none;
better({#{pid := Pid} = Only}) ->
    {Pid, py_groups:load(Only)};
better(Members) ->
    Size = tuple_size(Members),
    N = rand:uniform(Size),
    Other = (N + rand:uniform(Size - 1) - 1) rem Size + 1,
    #{pid := One} = First = element(N, Members),
    #{pid := Two} = Second = element(Other, Members),
    case {py_groups:load(First), py_groups:load(Second)} of
        {Load, More} when Load =< More -> {One, Load};
        {_, Less} -> {Two, Less}
    end.

by_load(Members) ->
    [Pid || {_, _, Pid} <- lists:sort([{py_groups:load(M), rand:uniform(), Pid} || #{pid := Pid} = M <- Members])].

%% Rendezvous hashing: a loop that comes or goes moves only its own keys. Nodes that are silent come
%% last.
by_key(Key, Members) ->
    Hashed = [{is_atom(py_groups:load(M)), erlang:phash2({Key, Id}), M} || #{id := Id} = M <- Members],
    [Member || {_, _, Member} <- lists:sort(Hashed)].

%% @doc Whether a request can be sent now. The VM would try to connect, for seconds.
-spec is_reachable(pid()) -> boolean().
is_reachable(Loop) ->
    node(Loop) =:= node() orelse lists:member(node(Loop), nodes([visible, hidden])).

%% @doc As `py_event_loop_pool:info/1'.
-spec info(group()) -> [py_event_loop_pool:loop_info()].
info(#{scope := Scope}) ->
    [loop_info(Member) || Member <- tuple_to_list(py_groups:members(Scope))].

loop_info(#{pid := Pid, id := {Node, Name}} = Member) ->
    Load = py_groups:load(Member),
    #{
        name => case is_atom(Name) of true -> Name; false -> undefined end,
        pid => Pid,
        node => Node,
        queued => 0,
        unanswered => case Load of _ when is_integer(Load) -> Load; _ -> 0 end,
        reachable => is_integer(Load),
        spare => false
    }.
