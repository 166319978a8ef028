%% @private
%% @doc Tasks as text: the table and the tree that `python -m asyncio ps' and `pstree' of Python 3.14
%% print. See `py_inspect:ps/1' and `py_inspect:tree/1'.
-module(py_inspect_text).

-export([table/1, tree/1, lint/1, reply/1]).

-type task() :: py_inspect:task().
-type by_id() :: #{pos_integer() => task()}.

-define(COLUMNS, [
    {"tid", 16},
    {"task id", 20},
    {"task name", 20},
    {"coroutine stack", 50},
    {"awaiter chain", 50},
    {"awaiter name", 15},
    {"awaiter id", 15}
]).

%% @doc A row for each task and awaiter, for the tasks of a thread.
-spec table([{Thread :: non_neg_integer(), [task()]}]) -> unicode:chardata().
table(Threads) ->
    Rows = [Row || {Thread, Tasks} <- Threads, Row <- rows(Thread, Tasks)],
    [row([Title || {Title, _} <- ?COLUMNS]), lists:duplicate(180, $-), $\n, lists:map(fun row/1, Rows)].

row(Cells) ->
    Padded = lists:zipwith(fun({_, Width}, Cell) -> string:pad(Cell, Width) end, ?COLUMNS, Cells),
    [string:trim(lists:join($\s, Padded), trailing), $\n].

rows(Thread, Tasks) ->
    ById = by_id(Tasks),
    [
        [integer_to_binary(Thread), hex(Id), one_line(Name), chain(Stack) | awaiter(Awaiter, ById)]
     || #{id := Id, name := Name, stack := Stack, awaited_by := Awaiters} <- Tasks,
        Awaiter <- some(Awaiters)
    ].

some([]) -> [none];
some(Awaiters) -> Awaiters.

awaiter(none, _) ->
    ["", "", "0x0"];
awaiter(Id, ById) ->
    case ById of
        #{Id := #{name := Name, stack := Stack}} -> [chain(Stack), one_line(Name), hex(Id)];
        %% It began or ended while the tasks were listed.
        #{} -> ["", "Unknown", hex(Id)]
    end.

%% The innermost first.
chain(Stack) ->
    lists:join(" -> ", [Function || #{function := Function} <- lists:reverse(Stack)]).

hex(Id) ->
    ["0x", string:lowercase(integer_to_binary(Id, 16))].

%% @doc Who awaits whom: below each task the frames of its coroutine, below these the tasks that it
%% awaits. A task that several tasks await is shown in full once. Tasks that await each other are
%% marked.
-spec tree([task()]) -> unicode:chardata().
tree(Tasks) ->
    Sorted = lists:sort(fun by_name/2, Tasks),
    ById = by_id(Sorted),
    Awaited = maps:from_list([{Id, known(Awaiters, ById)} || #{id := Id, awaited_by := Awaiters} <- Sorted]),
    Children = children(Sorted, Awaited),
    Roots = [Id || #{id := Id} <- Sorted, maps:get(Id, Awaited) =:= []],
    %% Tasks that only await each other have no root above them.
    Ids = Roots ++ [Id || #{id := Id} <- Sorted],
    {Text, _} = lists:mapfoldl(
        fun(Id, Shown) ->
            case Shown of
                #{Id := _} -> {[], Shown};
                #{} -> node(Id, [], true, {ById, Children, []}, Shown)
            end
        end,
        #{},
        Ids
    ),
    Text.

by_name(#{name := One, id := OneId}, #{name := Other, id := OtherId}) -> {One, OneId} =< {Other, OtherId}.

known(Awaiters, ById) ->
    [Id || Id <- Awaiters, is_map_key(Id, ById)].

%% In the order of the tasks.
children(Tasks, Awaited) ->
    lists:foldr(
        fun({Awaiter, Id}, Children) ->
            maps:update_with(Awaiter, fun(Ids) -> [Id | Ids] end, [Id], Children)
        end,
        #{},
        [{Awaiter, Id} || #{id := Id} <- Tasks, Awaiter <- maps:get(Id, Awaited)]
    ).

%% A task with all below it, and which tasks have been shown. `Path': the tasks above it.
node(Id, Prefix, IsLast, {ById, Children, Path}, Shown) ->
    #{Id := #{name := Name, stack := Stack}} = ById,
    Line = fun(Mark) -> line(Prefix, IsLast, ["(T) ", one_line(Name), Mark]) end,
    case {lists:member(Id, Path), Shown} of
        {true, _} ->
            {Line(" (cycle)"), Shown};
        {false, #{Id := _}} ->
            {Line(" (shown above)"), Shown};
        {false, #{}} ->
            Below = maps:get(Id, Children, []),
            {Text, Now} = frames(Stack, Below, below(Prefix, IsLast), {ById, Children, [Id | Path]}, Shown#{Id => shown}),
            {[Line("") | Text], Now}
    end.

%% Each frame below the one before it, and the awaited tasks below the innermost one.
frames([Frame | Inner], Below, Prefix, Known, Shown) ->
    {Text, Now} = frames(Inner, Below, below(Prefix, true), Known, Shown),
    {[line(Prefix, true, [$\s, frame(Frame)]) | Text], Now};
frames([], [], _, _, Shown) ->
    {[], Shown};
frames([], [Id], Prefix, Known, Shown) ->
    node(Id, Prefix, true, Known, Shown);
frames([], [Id | Ids], Prefix, Known, Shown) ->
    {First, Then} = node(Id, Prefix, false, Known, Shown),
    {Text, Now} = frames([], Ids, Prefix, Known, Then),
    {[First | Text], Now}.

frame(#{function := Function, file := File, line := Line}) ->
    [Function, $\s, one_line(File), $:, integer_to_binary(Line)].

line(Prefix, true, Text) -> [Prefix, "└── ", Text, $\n];
line(Prefix, false, Text) -> [Prefix, "├── ", Text, $\n].

below(Prefix, true) -> [Prefix, "    "];
below(Prefix, false) -> [Prefix, "│   "].

%% A name can be any text.
one_line(Text) ->
    re:replace(Text, "[\\x{0}-\\x{1f}\\x{7f}]", "?", [global, unicode, {return, binary}]).

%% @doc A line that begins with the place, as compilers print it.
-spec lint(py_lint:lint()) -> unicode:chardata().
lint(#{kind := Kind, name := Name, loop := Loop, file := File, line := Line, for_ms := For, count := Count}) ->
    [
        [[one_line(File), $:, integer_to_binary(Line), ": "] || File =/= undefined],
        [said(Kind), ": ", one_line(io_lib:format("~ts", [Name]))],
        [io_lib:format(", loop ~b", [Loop]) || Loop =/= undefined],
        [io_lib:format(", ~b ms", [For]) || For =/= undefined],
        [io_lib:format(", ~b times", [Count]) || Count > 1]
    ].

said(no_yield) -> "does not yield";
said(long_wait) -> "waits for long";
said(never_awaited) -> "coroutine was never awaited";
said(never_retrieved) -> "exception was never retrieved";
said(no_demand) -> "stream without demand";
said(near_limit) -> "near its limit of requests".

%% @doc The reply to a command of `py_inspect_socket': its name, and of `ps' and `pstree' perhaps the
%% number or name of a loop.
-spec reply(binary()) -> {ok | error, unicode:chardata()}.
reply(Line) ->
    case binary:split(Line, <<" ">>, [global]) of
        [<<"ps">>] -> {ok, py_inspect:all_as_text(ps)};
        [<<"pstree">>] -> {ok, py_inspect:all_as_text(tree)};
        [<<"ps">>, Loop] -> of_loop(ps, which(Loop));
        [<<"pstree">>, Loop] -> of_loop(tree, which(Loop));
        [<<"loops">>] -> {ok, [loop_line(Loop) || Loop <- py_inspect:loops()]};
        [<<"calls">>] -> {ok, [terms_line(Call) || Call <- py_inspect:calls()]};
        [<<"streams">>] -> {ok, [terms_line(Stream) || Stream <- py_inspect:streams()]};
        [<<"lints">>] -> {ok, [[lint(Lint), $\n] || Lint <- py_lint:find()]};
        [<<"node">>] -> {ok, terms_line(py_inspect:node())};
        [<<"metrics">>] -> {ok, py_metrics:prometheus()};
        _ -> {error, "there is no such command\n"}
    end.

%% A name that no process has creates no atom.
which(Text) ->
    try
        binary_to_integer(Text)
    catch
        error:badarg ->
            try
                binary_to_existing_atom(Text)
            catch
                error:_ -> none
            end
    end.

of_loop(_, Number) when is_integer(Number), (Number < 1 orelse Number >= 1 bsl 64) -> {error, "there is no such loop\n"};
of_loop(What, Which) ->
    case py_inspect:as_text(What, Which) of
        {ok, Text} -> {ok, Text};
        {error, timeout} -> {error, "the loop does not reply, and its tasks were never listed before\n"};
        {error, _} -> {error, "there is no such loop\n"}
    end.

loop_line(#{id := Id, name := Name, state := State, stack := Stack, lag := Lag, unanswered := Open, fds := Fds, timers := Timers}) ->
    #{p50_us := Half, p99_us := Most, longest_us := Longest} = Lag,
    Called = case Name of undefined -> "-"; _ -> io_lib:format("~tw", [Name]) end,
    [
        io_lib:format("~b ~ts ~w, turns of ~w us (half), ~w us (99 %), ~w us (longest); ~b requests, ~b fds, ~b timers", [
            Id, Called, State, Half, Most, Longest, Open, Fds, Timers
        ]),
        [[" at ", frame(Frame)] || Frame <- lists:sublist(Stack, 1)],
        $\n
    ].

terms_line(Map) ->
    Pairs = [io_lib:format("~tw ~0tP", [Key, Value, 30]) || {Key, Value} <- lists:sort(maps:to_list(Map))],
    [one_line(lists:join("; ", Pairs)), $\n].

-spec by_id([task()]) -> by_id().
by_id(Tasks) ->
    maps:from_list([{Id, Task} || #{id := Id} = Task <- Tasks]).
