%% @doc Is what loops, tasks, calls and streams do visible, also while Python does not run?
-module(py_inspect_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    loops_of_erlang_and_of_python_are_shown/1,
    what_threads_wait_on_is_left_out/1,
    a_loop_is_found_by_pid_name_and_number/1,
    timers_and_fds_are_counted/1,
    tasks_have_stacks_awaiters_and_callers/1,
    a_task_group_and_gather_are_edges/1,
    a_loop_of_python_lists_its_tasks/1,
    a_loop_that_never_ran_has_no_tasks/1,
    ten_thousand_tasks_and_more/1,
    strange_names_do_not_matter/1,
    a_loop_stuck_outside_of_the_gil_shows_its_tasks/1,
    a_stuck_loop_has_its_line_and_its_last_tasks/1,
    a_late_list_is_no_message/1,
    calls_are_shown_until_they_end/1,
    streams_show_supply_and_demand/1,
    the_node_is_described/1,
    wrong_loops_are_refused/1,
    the_tree_is_that_of_pstree/1,
    tasks_that_await_each_other_are_marked/1,
    the_table_is_that_of_ps/1,
    metrics_are_prometheus_text/1,
    the_status_of_a_loops_process_shows_its_tasks/1,
    labels_of_callers_are_shown/1
]).
%% Called in another node.
-export([stuck/0]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

loops_of_erlang_and_of_python_are_shown(_Config) ->
    with_loop(#{name => shown}, fun(Loop) ->
        ?assertMatch({ok, _}, py_event_loop:run(Loop, called, loop_thread, [])),
        {ok, Shown} = has_turned(Loop),
        ?assertMatch(#{name := shown, pid := Loop, kind := python, unanswered := 0}, Shown),
        #{lag := #{turns := Turns, p50_us := Half, p99_us := Most, longest_us := Longest}} = Shown,
        ?assert(Turns > 0 andalso Half =< Most andalso Most =< Longest),
        #{thread := Thread, busy_us := Busy, busy_share := Share, gil_wait_us := _} = Shown,
        ?assert(Thread > 0 andalso Busy > 0 andalso Share >= 0.0 andalso Share =< 1.0)
    end),
    {ok, LoopRef} = py_nif:event_loop_new(),
    {ok, #{id := Id}} = py_nif:event_loop_info(LoopRef),
    ?assertMatch({ok, #{kind := erlang, pid := undefined, thread := 0}}, py_inspect:loop(Id)),
    ok = py_nif:event_loop_destroy(LoopRef),
    ?assertEqual({error, {no_loop, Id}}, py_inspect:loop(Id)).

%% A turn ends after its replies.
has_turned(Loop) ->
    eventually:passes(
        fun({ok, #{lag := #{turns := Ended}}}) -> Ended > 0 end, fun() -> py_inspect:loop(Loop) end
    ).

%% A thread that runs several loops has a loop of its own, which runs nothing.
what_threads_wait_on_is_left_out(_Config) ->
    Node = other_node:start([]),
    try
        {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
        {ok, _} = other_node:call(Node, py, call, [asyncio, sleep, [0]]),
        Names = [Name || #{name := Name} <- other_node:call(Node, py_inspect, loops, [])],
        ?assertEqual([py_default_loop, undefined], lists:sort(Names)),
        #{loops := Loops} = other_node:call(Node, py, status, []),
        ?assertMatch([_], Loops)
    after
        other_node:stop(Node)
    end.

a_loop_is_found_by_pid_name_and_number(_Config) ->
    with_loop(#{name => found}, fun(Loop) ->
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        [?assertMatch({ok, #{id := Id, pid := Loop}}, py_inspect:loop(Which)) || Which <- [Id, found]],
        ?assert(lists:member(Id, [Each || #{id := Each} <- py_inspect:loops()]))
    end).

timers_and_fds_are_counted(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        {ok, Sleeper} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
        {ok, Watcher} = py_event_loop:submit(Loop, inspected, watch, [Read]),
        eventually:is({1, 1, 2}, fun() ->
            {ok, #{timers := Timers, fds := Fds, unanswered := Unanswered}} = py_inspect:loop(Loop),
            {Timers, Fds, Unanswered}
        end),
        [cancelled(Task) || Task <- [Sleeper, Watcher]],
        [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]]
    end).

tasks_have_stacks_awaiters_and_callers(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, parent, []),
        #{<<"child">> := Child, <<"inspected.parent">> := Parent} = named(Loop, 2),
        Self = self(),
        ?assertMatch(
            #{
                state := waiting,
                caller := Self,
                request := Request,
                age_is_exact := true,
                awaited_by := [],
                cancelling := 0,
                coroutine := <<"parent">>,
                stack := [#{function := <<"parent">>}, #{function := <<"between">>}]
            } when is_integer(Request),
            Parent
        ),
        ParentId = maps:get(id, Parent),
        ?assertMatch(
            #{
                state := waiting,
                caller := Self,
                request := undefined,
                age_is_exact := false,
                awaited_by := [ParentId],
                stack := [#{function := <<"child">>, file := _, line := _}, #{function := <<"Event.wait">>}]
            },
            Child
        ),
        cancelled(Task)
    end).

a_task_group_and_gather_are_edges(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, groups, []),
        Tasks = named(Loop, 4),
        Names = maps:from_list([{Id, Name} || {Name, #{id := Id}} <- maps:to_list(Tasks)]),
        Edges = [
            {maps:get(Each, Names), Name}
         || {Name, #{awaited_by := Awaiters}} <- maps:to_list(Tasks), Each <- Awaiters
        ],
        ?assertEqual(
            [
                {<<"inspected.groups">>, <<"gathers">>},
                {<<"gathers">>, <<"one">>},
                {<<"gathers">>, <<"two">>}
            ],
            lists:keysort(2, Edges)
        ),
        cancelled(Task)
    end).

a_loop_of_python_lists_its_tasks(_Config) ->
    {ok, Task} = py:submit(inspected, run_loop, []),
    called:has_noted(<<"it runs">>),
    {ok, [Number]} = py:call(inspected, running_loops, []),
    ?assertMatch({ok, #{pid := undefined, kind := python}}, py_inspect:loop(Number)),
    {ok, #{tasks := Tasks}} = py_inspect:tasks(Number),
    ?assertMatch([#{coroutine := <<"run_loop.<locals>.main">>, request := undefined}], Tasks),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, none}, py:await(Task)),
    ?assertEqual({error, {no_loop, Number}}, py_inspect:tasks(Number)).

a_loop_that_never_ran_has_no_tasks(_Config) ->
    with_loop(#{}, fun(Loop) ->
        ?assertMatch({ok, #{thread := 0, state := idle}}, py_inspect:loop(Loop)),
        ?assertMatch({ok, #{tasks := [], total := 0, is_fresh := true}}, py_inspect:tasks(Loop)),
        %% It was not given a thread for this.
        ?assertMatch({ok, #{thread := 0}}, py_inspect:loop(Loop))
    end).

ten_thousand_tasks_and_more(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, many, [10_500]),
        called:has_noted(<<"many started">>),
        {ok, #{tasks := Tasks, total := Total}} = eventually:passes(
            fun({ok, #{is_fresh := IsFresh}}) -> IsFresh; (_) -> false end,
            fun() -> py_inspect:tasks(Loop) end
        ),
        ?assertEqual({10_000, 10_501}, {length(Tasks), Total}),
        cancelled(Task)
    end).

strange_names_do_not_matter(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, strange, []),
        Tasks = named(Loop, 3),
        ?assert(is_map_key(<<"a \\udcff b">>, Tasks)),
        ?assert(is_map_key(<<"<b>&">>, Tasks)),
        cancelled(Task)
    end).

%% time.sleep releases the GIL, and so another thread can list the tasks.
a_loop_stuck_outside_of_the_gil_shows_its_tasks(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
        called:is_blocked(),
        {ok, #{tasks := [Blocked], is_fresh := true}} = py_inspect:tasks(Loop),
        ?assertMatch(#{state := running, stack := [#{function := <<"block_loop">>} | _]}, Blocked),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Task))
    end).

a_stuck_loop_has_its_line_and_its_last_tasks(_Config) ->
    called:in_node([{stuck_after, 200}], stuck, ?MODULE).

stuck() ->
    {ok, Loop} = py_event_loop:start_link(#{name => stuck_one}),
    {ok, Waiting} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
    _ = named(Loop, 1),
    {ok, Other} = py_event_loop:start_link(#{}),
    {ok, _} = py_event_loop:run(Other, called, loop_thread, []),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_in_c, [Read]),
    {ok, Stuck} = eventually:passes(
        fun({ok, #{stack := Stack}}) -> Stack =/= [] end, fun() -> py_inspect:loop(Loop) end
    ),
    ?assertMatch(#{state := stuck, stack := [#{function := <<"wait_in_c">>, line := _} | _]}, Stuck),
    {ok, #{tasks := [Last], is_fresh := false, age_ms := Age}} = py_inspect:tasks(Loop),
    ?assertMatch(#{name := <<"asyncio.sleep">>}, Last),
    ?assert(Age >= 200),
    %% Without a list from before.
    case py:call(sys, getswitchinterval, [], #{}, 0) of
        {error, timeout} -> ?assertEqual({error, timeout}, py_inspect:tasks(Other));
        {ok, _} -> ok
    end,
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assertEqual({ok, 1}, py:await(Task, 60_000)),
    eventually:is(true, fun() -> {ok, #{is_fresh := Is}} = py_inspect:tasks(Loop), Is end),
    cancelled(Waiting),
    ok.

a_late_list_is_no_message(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
        called:is_blocked(),
        [{ok, _} = py_inspect:tasks(Loop) || _ <- [1, 2]],
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Task)),
        {ok, #{is_fresh := true}} = py_inspect:tasks(Loop),
        ?assertEqual({messages, []}, process_info(self(), messages))
    end).

calls_are_shown_until_they_end(_Config) ->
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py:submit(called, block, []),
    Self = self(),
    [#{name := <<"called.block">>} = Call] = eventually:passes(
        fun(Calls) -> Calls =/= [] end,
        fun() -> [Each || #{name := <<"called.block">>} = Each <- py_inspect:calls()] end
    ),
    ?assertMatch(#{caller := Self, is_outside := false, is_abandoned := false, thread := _}, Call),
    {ok, _} = py:call(called, release, []),
    {ok, _} = py:await(Task),
    eventually:is([], fun() -> py_inspect:calls() end).

streams_show_supply_and_demand(_Config) ->
    Self = self(),
    Streams = [
        begin
            {ok, Stream} = py:stream(inspected, Function, [], #{}, #{demand => 3}),
            [receive {py_stream, Stream, {data, _}} -> ok end || _ <- [1, 2, 3]],
            Stream
        end
     || Function <- [numbers, numbers_later]
    ],
    Shown = eventually:passes(
        fun(Found) -> [true, true] =:= [Waits || #{waits := Waits} <- Found] end,
        fun() -> py_inspect:streams() end
    ),
    [
        ?assertMatch(#{sent := 3, demand := 0, waits := true, consumer := Self, caller := Self}, Each)
     || Each <- Shown
    ],
    ?assertMatch([#{loop := undefined}, #{loop := Id}] when is_integer(Id), lists:sort(fun is_plain/2, Shown)),
    [ok = py:cancel(Stream) || Stream <- Streams],
    eventually:is([], fun() -> py_inspect:streams() end).

is_plain(#{loop := One}, _) -> One =:= undefined.

the_node_is_described(_Config) ->
    Node = node(),
    #{memory := Memory} = Described = py_inspect:node(),
    ?assertMatch(#{node := Node, python := true, calls := #{queued := 0}, stuck_after := 1000}, Described),
    ?assertMatch(#{erlang := Erlang, process := Process} when Process > Erlang div 2, Memory).

wrong_loops_are_refused(_Config) ->
    [
        begin
            ?assertError(badarg, py_inspect:loop(Wrong)),
            ?assertError(badarg, py_inspect:tasks(Wrong))
        end
     || Wrong <- [0, -1, 1 bsl 64, 1.5, "a", <<"a">>, {}]
    ],
    ?assertEqual({error, {no_loop, no_such_loop}}, py_inspect:loop(no_such_loop)),
    ?assertEqual({error, {no_loop, self()}}, py_inspect:tasks(self())).

%% As CPython's documentation of `pstree' shows it; tasks in the order of their names.
the_tree_is_that_of_pstree(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, albums, []),
        _ = named(Loop, 7),
        Lines = printed(fun() -> ok = py_inspect:tree(Loop) end),
        Expected = [
            <<"└── (T) inspected.albums"/utf8>>,
            <<"    └──  albums inspected.py"/utf8>>,
            <<"        └──  TaskGroup.__aexit__ taskgroups.py"/utf8>>,
            <<"            ├── (T) Sundowning"/utf8>>,
            <<"            │   └──  album inspected.py"/utf8>>,
            <<"            │       └──  TaskGroup.__aexit__ taskgroups.py"/utf8>>,
            <<"            │           ├── (T) Levitate"/utf8>>,
            <<"            │           │   └──  play inspected.py"/utf8>>,
            <<"            │           │       └──  sleep tasks.py"/utf8>>,
            <<"            │           └── (T) TNDNBTG"/utf8>>,
            <<"            │               └──  play inspected.py"/utf8>>,
            <<"            │                   └──  sleep tasks.py"/utf8>>,
            <<"            └── (T) TMBTE"/utf8>>,
            <<"                └──  album inspected.py"/utf8>>,
            <<"                    └──  TaskGroup.__aexit__ taskgroups.py"/utf8>>,
            <<"                        ├── (T) Aqua Regia"/utf8>>,
            <<"                        │   └──  play inspected.py"/utf8>>,
            <<"                        │       └──  sleep tasks.py"/utf8>>,
            <<"                        └── (T) DYWTYLM"/utf8>>,
            <<"                            └──  play inspected.py"/utf8>>,
            <<"                                └──  sleep tasks.py"/utf8>>
        ],
        %% Releases of Python differ in their lines, and some have one more coroutine.
        ?assertEqual(Expected, [shortened(Line) || Line <- Lines, not has(Line, "TaskGroup._aexit")]),
        cancelled(Task)
    end).

%% Without folder and line.
shortened(Line) ->
    re:replace(Line, " [^ ]*/([^/ ]+):[0-9]+$", " \\1", [unicode, {return, binary}]).

tasks_that_await_each_other_are_marked(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, cycle, []),
        _ = named(Loop, 6),
        Lines = printed(fun() -> ok = py_inspect:tree(Loop) end),
        Names = [Name || Line <- Lines, [_, Name] <- [string:split(Line, "(T) ")]],
        ?assertEqual(
            [
                <<"four">>, <<"five">>, <<"inspected.cycle">>, <<"three">>, <<"five (shown above)">>,
                <<"one">>, <<"two">>, <<"one (cycle)">>
            ],
            Names
        ),
        cancelled(Task)
    end).

the_table_is_that_of_ps(_Config) ->
    with_loop(#{name => table}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, parent, []),
        #{<<"child">> := #{id := Id}, <<"inspected.parent">> := #{id := Parent}} = named(Loop, 2),
        [Head, _ | Rows] = printed(fun() -> ok = py_inspect:ps(table) end),
        ?assert(has(Head, "^tid +task id +task name +coroutine stack +awaiter chain +awaiter name +awaiter id$")),
        Hex = fun(Number) -> "0x" ++ string:lowercase(integer_to_list(Number, 16)) end,
        [Child] = [Row || Row <- Rows, has(Row, "Event.wait -> child")],
        ?assert(has(Child, Hex(Id) ++ " +child +Event.wait -> child +between -> parent +inspected.parent +" ++ Hex(Parent))),
        [_] = [Row || Row <- Rows, has(Row, "between -> parent +0x0$")],
        ?assert(length(printed(fun() -> ok = py_inspect:ps() end)) >= 4),
        ?assert(length(printed(fun() -> ok = py_inspect:tree() end)) >= 4),
        cancelled(Task)
    end),
    ?assertEqual({error, {no_loop, table}}, py_inspect:tree(table)).

metrics_are_prometheus_text(_Config) ->
    with_loop(#{name => 'a "strange\\\n" name'}, fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, called, loop_thread, []),
        {ok, #{id := Id}} = has_turned(Loop),
        Lines = binary:split(py_metrics:prometheus(), <<"\n">>, [global, trim]),
        Sample = "^[a-z_]+({[a-z]+=\"([^\"\\\\]|\\\\[\\\\\"n])*\"(,[a-z]+=\"([^\"\\\\]|\\\\[\\\\\"n])*\")*})? [-+0-9.e]+$",
        [?assert(has(Line, Sample) orelse has(Line, "^# (HELP|TYPE) [a-z_]+ .+$"), Line) || Line <- Lines],
        Labels = ["{loop=\"", integer_to_list(Id), "\",name=\"a \\\"strange\\\\\\n\\\" name\""],
        Value = fun(Start) ->
            Bytes = unicode:characters_to_binary(Start),
            [Found] = [binary:part(Line, byte_size(Bytes), byte_size(Line) - byte_size(Bytes)) || Line <- Lines, is_prefix(Bytes, Line)],
            Found
        end,
        All = Value(["erlang_loop_turn_duration_seconds_count", Labels, "} "]),
        ?assertEqual(All, Value(["erlang_loop_turn_duration_seconds_bucket", Labels, ",le=\"+Inf\"} "])),
        ?assert(binary_to_integer(All) > 0),
        ?assertEqual(<<"0">>, Value(["erlang_loop_stuck", Labels, "} "])),
        ?assert(binary_to_integer(Value("erlang_loop_calls_total ")) >= 0),
        Types = [Line || <<"# TYPE ", _/binary>> = Line <- Lines],
        ?assertEqual(lists:usort(Types), lists:sort(Types))
    end).

the_status_of_a_loops_process_shows_its_tasks(_Config) ->
    with_loop(#{name => observed}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
        _ = named(Loop, 1),
        #{loop := #{name := observed}, tasks := #{tasks := [Shown]}} = status(Loop),
        ?assertMatch(#{name := <<"asyncio.sleep">>}, Shown),
        cancelled(Task),
        %% Also while its thread does not run Python.
        {ok, _} = py:call(called, hold, []),
        {ok, Blocked} = py_event_loop:submit(Loop, called, block_loop, []),
        called:is_blocked(),
        ?assertMatch(#{loop := #{id := _}, tasks := #{tasks := [_]}}, status(Loop)),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Blocked))
    end).

%% As observer gets it.
status(Loop) ->
    {status, Loop, _, [_, _, _, _, Misc]} = sys:get_status(Loop),
    {data, [{"State", State}]} = lists:last(Misc),
    State.

labels_of_callers_are_shown(_Config) ->
    HasLabels = erlang:function_exported(proc_lib, set_label, 1),
    with_loop(#{name => labelled}, fun(Loop) ->
        ok = py_observed:label({?MODULE, caller}),
        {ok, Task} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
        #{<<"asyncio.sleep">> := #{caller_label := Label}} = named(Loop, 1),
        Expected = case HasLabels of true -> {?MODULE, caller}; false -> undefined end,
        ?assertEqual(Expected, Label),
        HasLabels andalso ?assertEqual({label, {py_event_loop, labelled}}, process_info(Loop, label)),
        cancelled(Task)
    end).

is_prefix(Start, Text) ->
    binary:longest_common_prefix([Start, Text]) =:= byte_size(Start).

has(Line, Pattern) ->
    re:run(Line, Pattern, [unicode, {capture, none}]) =:= match.

%% The lines that `Print' writes to its group leader.
printed(Print) ->
    Leader = fake_leader:start(),
    ok = fake_leader:as_leader(Leader, Print),
    Text = fake_leader:text(Leader),
    ok = fake_leader:stop(Leader),
    binary:split(Text, <<"\n">>, [global, trim]).

%% The tasks by their names, when there are so many.
named(Loop, Count) ->
    {ok, #{tasks := Tasks}} = eventually:passes(
        fun({ok, #{tasks := Tasks}}) -> length(Tasks) =:= Count end,
        fun() -> py_inspect:tasks(Loop) end
    ),
    maps:from_list([{Name, Task} || #{name := Name} = Task <- Tasks]).

cancelled(Task) ->
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)).

with_loop(Options, Body) ->
    {ok, Loop} = py_event_loop:start_link(Options),
    Body(Loop),
    {ok, []} = py_event_loop:stop(Loop).
