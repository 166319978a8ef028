%% @doc What the dashboard shows, as terms for {@link py_dashboard_json}, from {@link py_inspect}; and
%% what it changes: a task can be cancelled, a callback interrupted, a loop restarted.
%%
%% The query of a view says what is looked at: nothing, a `page', `loop', or `loop' and `task'. Identifiers of
%% loops and tasks are numbers; those that do not exist are an `error' in the view. `node' names a
%% connected node, which is then asked for the view: the overview has the loops of all of them, peers
%% included.
-module(py_dashboard_view).

-include_lib("kernel/include/logger.hrl").

-export([view/2, profile/1, trace/1]).
-export([cancel/1, interrupt/1, restart/1]).
%% On other nodes.
-export([summaries/0]).

-type query() :: #{binary() => binary()}.

%% Rows of one list: the browser draws no more, whatever there is.
-define(ROWS, 60).
-define(CANCEL_MS, 2000).
%% For another node: it may list its tasks, which takes up to 400 ms, or be gone.
-define(NODE_MS, 3000).
%% Loops to choose from, seconds of a profile, and different stacks of it.
-define(CHOICES, 1000).
-define(PROFILE_S, 60).
-define(STACKS, 5000).

-spec view(query(), py_dashboard:access()) -> #{atom() => term()}.
view(#{<<"node">> := Name} = Query, #{read_only := ReadOnly}) ->
    Here = maps:remove(<<"node">>, Query),
    case elsewhere(Name, view, [Here, #{read_only => ReadOnly}], ?NODE_MS) of
        {ok, View} -> View;
        error -> #{error => no_node, node_name => Name, read_only => ReadOnly}
    end;
view(Query, #{read_only := ReadOnly}) ->
    View = page_shown(maps:get(<<"page">>, Query, <<>>), Query),
    View#{node_name => node(), read_only => ReadOnly}.

%% Other nodes

%% Calls a function of this module on a connected node.
elsewhere(Name, Function, Args, Ms) ->
    case [Node || Node <- [node() | nodes(connected)], atom_to_binary(Node) =:= Name] of
        [Node] ->
            try
                {ok, erpc:call(Node, ?MODULE, Function, Args, Ms)}
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

page_shown(<<"calls">>, _) -> calls();
page_shown(<<"profile">>, _) -> loops();
page_shown(<<"recorder">>, Query) -> recorder(number(<<"loop">>, Query), Query);
page_shown(_, Query) -> shown(number(<<"loop">>, Query), number(<<"task">>, Query), Query).

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
    Here = [Loop#{node => node()} || Loop <- py_inspect:loops()],
    Nodes = [{node(), up, Here} | others()],
    Loops = lists:append([Each || {_, _, Each} <- Nodes]),
    Ordered = lists:sort(fun(One, Other) -> rank(One) =< rank(Other) end, Loops),
    #{
        node => maps:without([runners, stuck_after], py_inspect:node()),
        stuck => length([stuck || #{state := stuck} <- Loops]),
        unanswered => lists:sum([Count || #{unanswered := Count} <- Loops]),
        from => From,
        total => length(Loops),
        loops => [summary(Loop) || Loop <- rows(Ordered, From)],
        nodes => [node_row(Each) || Each <- Nodes],
        lints => rows(py_lint:find(#{kinds => [never_awaited, never_retrieved, no_demand, near_limit]}), 0),
        all_calls => length(py_inspect:calls()),
        all_streams => length(py_inspect:streams())
    }.

%% Calls, streams and functions

calls() ->
    Calls = py_inspect:calls(),
    Streams = py_inspect:streams(),
    Functions = py_inspect:functions(),
    #{
        calls => rows(Calls, 0),
        all_calls => length(Calls),
        streams => rows(Streams, 0),
        all_streams => length(Streams),
        functions => rows(Functions, 0),
        all_functions => length(Functions)
    }.

%% To choose from

loops() ->
    Loops = [maps:with([id, name, kind, state], Loop) || #{kind := python} = Loop <- py_inspect:loops()],
    #{loops => lists:sublist(Loops, ?CHOICES), total => length(Loops)}.

%% What a loop did last, the newest first

recorder(undefined, _) ->
    loops();
recorder(Id, Query) ->
    with_loop(Id, fun(Loop) ->
        {ok, Events} = events(Id),
        {Slow, Others} = lists:partition(fun(#{kind := Kind}) -> Kind =:= slow_turn end, lists:reverse(Events)),
        From = page(Query),
        #{loop => summary(Loop), slow => Slow, total => length(Others), from => From, rows => rows(Others, From)}
    end).

%% It may have ended meanwhile.
events(Id) ->
    case py_recorder:events(Id) of
        {ok, Events} -> {ok, Events};
        {error, _} -> {ok, []}
    end.

%% @doc For ui.perfetto.dev.
-spec trace(query()) -> {ok, iodata()} | {error, term()}.
trace(#{<<"node">> := Name} = Query) ->
    case elsewhere(Name, trace, [maps:remove(<<"node">>, Query)], ?NODE_MS) of
        {ok, Trace} -> Trace;
        error -> {error, no_node}
    end;
trace(Query) ->
    case number(<<"loop">>, Query) of
        undefined -> py_recorder:trace(all);
        Id -> py_recorder:trace(Id)
    end.

%% @doc A profile, and the same in the formats of other programs. One at a time.
-spec profile(query()) -> #{atom() => term()}.
profile(#{<<"node">> := Name} = Query) ->
    case elsewhere(Name, profile, [maps:remove(<<"node">>, Query)], 1000 * ?PROFILE_S + 30_000) of
        {ok, Profile} -> Profile;
        error -> #{error => no_node}
    end;
profile(Query) ->
    Ms = 1000 * min(?PROFILE_S, max(1, or_else(number(<<"seconds">>, Query), 3))),
    try register(py_dashboard_profile, self()) of
        true -> profiled(py_inspect:profile(or_else(number(<<"loop">>, Query), all), #{ms => Ms}))
    catch
        error:badarg -> #{error => busy}
    end.

profiled({ok, #{stacks := Stacks} = Profile}) ->
    {Kept, Rest} = lists:split(min(?STACKS, length(Stacks)), Stacks),
    (maps:without([samples], Profile))#{
        stacks => Kept,
        left_out => lists:sum([Count || #{samples := Count} <- Rest]),
        files => maps:from_list([{Format, iolist_to_binary(py_profile:text(Format, Profile))} || Format <- [collapsed, speedscope, firefox]])
    };
profiled({error, {no_loop, _}}) ->
    #{error => no_loop};
profiled({error, Reason}) ->
    #{error => Reason}.

or_else(undefined, Default) -> Default;
or_else(Value, _) -> Value.

%% Stuck ones first, then those of this node, by their numbers.
rank(#{state := State, node := Node, id := Id}) -> {State =/= stuck, Node =/= node(), Node, Id}.

rows(List, From) when From >= length(List) -> [];
rows(List, From) -> lists:sublist(List, From + 1, ?ROWS).

%% Those of other nodes are summaries already.
summary(#{lag := Lag, counters := _} = Loop) ->
    Kept = maps:without([counters, keeper], Loop),
    Kept#{lag := maps:update_with(histogram, fun classes/1, Lag)};
summary(Loop) ->
    Loop.

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
    changed_elsewhere(Name, cancel, Query);
cancel(Query) ->
    Loop = number(<<"loop">>, Query),
    Task = number(<<"task">>, Query),
    Name = maps:get(<<"name">>, Query, <<>>),
    Result = cancelled(Loop, Task, Name, request(number(<<"request">>, Query))),
    ?LOG_NOTICE("dashboard: cancel task ~p (~tp) of loop ~p: ~p", [Task, Name, Loop, Result]),
    #{result => Result}.

changed_elsewhere(Name, Function, Query) ->
    case elsewhere(Name, Function, [maps:remove(<<"node">>, Query)], ?NODE_MS) of
        {ok, Result} -> Result;
        error -> #{result => failed}
    end.

%% @doc Raises `LoopStuckError' in the callback that a loop runs now. `idle': it runs none.
-spec interrupt(query()) -> #{result := interrupted | idle | no_loop | failed}.
interrupt(#{<<"node">> := Name} = Query) ->
    changed_elsewhere(Name, interrupt, Query);
interrupt(Query) ->
    Loop = number(<<"loop">>, Query),
    Result =
        case Loop =/= undefined andalso py_watchdog:interrupt(Loop) of
            ok -> interrupted;
            {error, idle} -> idle;
            {error, closed} -> no_loop;
            false -> no_loop;
            {error, _} -> failed
        end,
    ?LOG_NOTICE("dashboard: interrupt loop ~p: ~p", [Loop, Result]),
    #{result => Result}.

%% @doc Ends the process of a loop: its supervisor, if it has one, starts another loop. `no_process':
%% Python started the loop.
-spec restart(query()) -> #{result := restarted | no_loop | no_process}.
restart(#{<<"node">> := Name} = Query) ->
    changed_elsewhere(Name, restart, Query);
restart(Query) ->
    Loop = number(<<"loop">>, Query),
    Result =
        case Loop =/= undefined andalso py_inspect:loop(Loop) of
            {ok, #{pid := Pid}} when is_pid(Pid) ->
                true = exit(Pid, {restarted, py_dashboard}),
                restarted;
            {ok, _} ->
                no_process;
            _ ->
                no_loop
        end,
    ?LOG_NOTICE("dashboard: restart loop ~p: ~p", [Loop, Result]),
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
