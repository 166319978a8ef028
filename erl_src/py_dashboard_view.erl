%% @doc What the dashboard shows, as terms for {@link py_dashboard_json}, from {@link py_inspect}; and
%% the one thing that it changes: a task can be cancelled.
%%
%% The query of a view says what is looked at: nothing, `loop', or `loop' and `task'. Identifiers of
%% loops and tasks are numbers; those that do not exist are an `error' in the view. `node' names a
%% connected node, which is then asked for the view: the overview has the loops of all of them, peers
%% included.
-module(py_dashboard_view).

-include_lib("kernel/include/logger.hrl").

-export([view/2, cancel/1]).
%% On other nodes.
-export([summaries/0]).

-type query() :: #{binary() => binary()}.

%% Rows of one list: the browser draws no more, whatever there is.
-define(ROWS, 60).
-define(CANCEL_MS, 2000).
%% For another node: it may list its tasks, which takes up to 400 ms, or be gone.
-define(NODE_MS, 3000).

-spec view(query(), py_dashboard:access()) -> #{atom() => term()}.
view(#{<<"node">> := Name} = Query, #{read_only := ReadOnly}) ->
    Here = maps:remove(<<"node">>, Query),
    case elsewhere(Name, view, [Here, #{read_only => ReadOnly}]) of
        {ok, View} -> View;
        error -> #{error => no_node, node_name => Name, read_only => ReadOnly}
    end;
view(Query, #{read_only := ReadOnly}) ->
    View = shown(number(<<"loop">>, Query), number(<<"task">>, Query), Query),
    View#{node_name => node(), read_only => ReadOnly}.

%% Other nodes

%% Calls a function of this module on a connected node.
elsewhere(Name, Function, Args) ->
    case [Node || Node <- [node() | nodes(connected)], atom_to_binary(Node) =:= Name] of
        [Node] ->
            try
                {ok, erpc:call(Node, ?MODULE, Function, Args, ?NODE_MS)}
            catch
                %% It has just gone, or does not run this application.
                _:_ -> error
            end;
        [] ->
            error
    end.

%% @doc The loops of this node, as the overview of another one shows them.
-spec summaries() -> [#{atom() => term()}].
summaries() ->
    [(summary(Loop))#{node => node()} || Loop <- py_inspect:loops()].

%% Nodes without this application are left out. One that does not reply in time has no loops.
others() ->
    Nodes = nodes(connected),
    Replies = erpc:multicall(Nodes, ?MODULE, summaries, [], ?NODE_MS),
    lists:append([other(Node, Reply) || {Node, Reply} <- lists:zip(Nodes, Replies)]).

other(Node, {ok, Loops}) -> [{Node, up, Loops}];
other(_, {error, {exception, undef, _}}) -> [];
other(Node, _) -> [{Node, unreachable, []}].

node_row({Node, State, Loops}) ->
    Stuck = length([stuck || #{state := stuck} <- Loops]),
    #{name => Node, state => State, loops => length(Loops), stuck => Stuck}.

shown(undefined, _, Query) -> overview(page(Query));
shown(Id, undefined, Query) -> with_loop(Id, fun(Loop) -> loop(Loop, Query) end);
shown(Id, TaskId, _) -> with_loop(Id, fun(Loop) -> task(Loop, TaskId) end).

number(Key, Query) ->
    case string:to_integer(maps:get(Key, Query, <<>>)) of
        {Number, <<>>} when is_integer(Number), Number > 0, Number < 1 bsl 63 -> Number;
        _ -> undefined
    end.

page(Query) ->
    case number(<<"from">>, Query) of
        undefined -> 0;
        From -> From
    end.

%% All loops

overview(From) ->
    Nodes = [{node(), up, summaries()} | others()],
    Loops = lists:append([Each || {_, _, Each} <- Nodes]),
    Ordered = lists:sort(fun(One, Other) -> rank(One) =< rank(Other) end, Loops),
    Calls = py_inspect:calls(),
    Streams = py_inspect:streams(),
    #{
        node => maps:without([runners, stuck_after], py_inspect:node()),
        stuck => length([stuck || #{state := stuck} <- Loops]),
        unanswered => lists:sum([Count || #{unanswered := Count} <- Loops]),
        from => From,
        total => length(Loops),
        loops => rows(Ordered, From),
        nodes => [node_row(Each) || Each <- Nodes],
        lints => rows(py_lint:find(#{kinds => [never_awaited, never_retrieved, no_demand, near_limit]}), 0),
        calls => rows(Calls, 0),
        all_calls => length(Calls),
        streams => rows(Streams, 0),
        all_streams => length(Streams)
    }.

%% Stuck ones first, then those of this node, by their numbers.
rank(#{state := State, node := Node, id := Id}) -> {State =/= stuck, Node =/= node(), Node, Id}.

rows(List, From) when From >= length(List) -> [];
rows(List, From) -> lists:sublist(List, From + 1, ?ROWS).

summary(#{lag := Lag} = Loop) ->
    Kept = maps:without([counters, keeper], Loop),
    Kept#{lag := maps:update_with(histogram, fun classes/1, Lag)}.

%% From the first class to the last one that has turns.
classes(Histogram) ->
    Used = lists:dropwhile(fun({_, Count}) -> Count =:= 0 end, lists:reverse(Histogram)),
    [[Bound, Count] || {Bound, Count} <- lists:reverse(Used)].

with_loop(Id, View) ->
    case py_inspect:loop(Id) of
        {ok, Loop} -> View(Loop);
        {error, _} -> #{error => no_loop}
    end.

%% One loop

loop(#{kind := erlang} = Loop, _) ->
    #{loop => summary(Loop), rows => [], total => 0, found => 0, from => 0, is_fresh => true, age_ms => 0};
loop(#{id := Id} = Loop, Query) ->
    case py_inspect:tasks(Id) of
        {ok, #{tasks := Tasks} = Listed} ->
            Rows = searched(maps:get(<<"search">>, Query, <<>>), Tasks),
            From = page(Query),
            Kept = maps:with([total, age_ms, is_fresh], Listed),
            Kept#{
                loop => summary(Loop),
                found => length(Rows),
                from => From,
                rows => [row(Depth, Task) || {Depth, Task} <- rows(Rows, From)]
            };
        {error, timeout} ->
            #{loop => summary(Loop), tasks_error => timeout};
        {error, _} ->
            #{error => no_loop}
    end.

row(Depth, #{stack := Stack} = Task) ->
    Kept = maps:without([awaited_by, stack], Task),
    Kept#{depth => min(Depth, 12), place => place(Stack)}.

%% Where it waits: the innermost frame.
place([]) -> undefined;
place(Stack) -> lists:last(Stack).

searched(<<>>, Tasks) -> tree(Tasks);
searched(Text, Tasks) -> [{0, Task} || Task <- Tasks, is_found(string:casefold(Text), Task)].

is_found(Text, #{name := Name, coroutine := Coroutine, state := State, stack := Stack, caller_name := Caller}) ->
    Texts = [Name, Coroutine, atom_to_binary(State) | [atom_to_binary(Caller) || Caller =/= undefined]],
    Frames = [[File, $:, integer_to_list(Line), $\s, Function] ||
        #{file := File, line := Line, function := Function} <- Stack],
    Folded = string:casefold(unicode:characters_to_binary(lists:join($\n, Texts ++ Frames))),
    binary:match(Folded, Text) =/= nomatch.

%% Each task once, below the first one that awaits it. Tasks that only await each other have no
%% beginning: the oldest is taken.
tree(Tasks) ->
    ById = maps:from_list([{Id, Task} || #{id := Id} = Task <- Tasks]),
    Awaited = lists:foldr(
        fun({Awaiter, Id}, Below) ->
            maps:update_with(Awaiter, fun(Ids) -> [Id | Ids] end, [Id], Below)
        end,
        #{},
        [{Awaiter, Id} || #{id := Id, awaited_by := Awaiters} <- Tasks, Awaiter <- Awaiters]
    ),
    {Roots, Others} = lists:partition(
        fun(#{awaited_by := Awaiters}) -> not lists:any(fun(Id) -> is_map_key(Id, ById) end, Awaiters) end,
        Tasks
    ),
    walked([{0, Id} || #{id := Id} <- Roots ++ Others], ById, Awaited, #{}, []).

walked([], _, _, _, Rows) ->
    lists:reverse(Rows);
walked([{_, Id} | Left], ById, Awaited, Seen, Rows) when is_map_key(Id, Seen); not is_map_key(Id, ById) ->
    walked(Left, ById, Awaited, Seen, Rows);
walked([{Depth, Id} | Left], ById, Awaited, Seen, Rows) ->
    Below = [{Depth + 1, Each} || Each <- maps:get(Id, Awaited, [])],
    walked(Below ++ Left, ById, Awaited, Seen#{Id => seen}, [{Depth, map_get(Id, ById)} | Rows]).

%% One task

task(#{id := LoopId} = Loop, Id) ->
    case py_inspect:tasks(LoopId) of
        {ok, #{tasks := Tasks} = Listed} ->
            case [Task || #{id := Each} = Task <- Tasks, Each =:= Id] of
                [Task] ->
                    Kept = maps:with([age_ms, is_fresh], Listed),
                    Kept#{loop => summary(Loop), task => in_full(Task, Tasks)};
                [] ->
                    #{error => no_task}
            end;
        {error, timeout} ->
            #{loop => summary(Loop), tasks_error => timeout};
        {error, _} ->
            #{error => no_loop}
    end.

in_full(#{id := Id, awaited_by := Awaiters} = Task, Tasks) ->
    Task#{
        awaited_by := [row(0, Each) || #{id := Awaiter} = Each <- Tasks, lists:member(Awaiter, Awaiters)],
        awaits => rows([row(0, Each) || #{awaited_by := Ids} = Each <- Tasks, lists:member(Id, Ids)], 0)
    }.

%% @doc Cancels a task. `timeout': its loop is stuck or Python does not run, nothing was cancelled.
-spec cancel(query()) -> #{result := cancelled | no_task | timeout | failed}.
cancel(#{<<"node">> := Name} = Query) ->
    case elsewhere(Name, cancel, [maps:remove(<<"node">>, Query)]) of
        {ok, Result} -> Result;
        error -> #{result => failed}
    end;
cancel(Query) ->
    Loop = number(<<"loop">>, Query),
    Task = number(<<"task">>, Query),
    Name = maps:get(<<"name">>, Query, <<>>),
    Result = cancelled(Loop, Task, Name, request(number(<<"request">>, Query))),
    ?LOG_NOTICE("dashboard: cancel task ~p (~tp) of loop ~p: ~p", [Task, Name, Loop, Result]),
    #{result => Result}.

request(undefined) -> none;
request(Number) -> Number.

cancelled(Loop, Task, _, _) when Loop =:= undefined; Task =:= undefined ->
    no_task;
cancelled(Loop, Task, Name, Request) ->
    %% Whatever the setting `none' says.
    Options = #{timeout => ?CANCEL_MS, values => #{none => none}},
    case py:call('erlang_loop.inspect', cancel, [Loop, Task, Name, Request], #{}, Options) of
        {ok, true} -> cancelled;
        {ok, false} -> no_task;
        {ok, none} -> timeout;
        {error, timeout} -> timeout;
        {error, Reason} ->
            ?LOG_WARNING("dashboard: a task cannot be cancelled: ~p", [Reason]),
            failed
    end.
