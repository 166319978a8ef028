%% @doc Does a mistake in an asyncio program show, with its line?
-module(py_lint_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    nothing_is_wrong_at_first/1,
    a_turn_that_does_not_yield/1,
    a_turn_that_is_over_was_watched/1,
    a_task_that_waits_for_long/1,
    a_coroutine_that_was_never_awaited/1,
    an_exception_that_was_never_retrieved/1,
    a_stream_without_demand/1,
    a_loop_near_its_limit/1,
    a_mistake_made_often_is_one_line/1,
    it_is_printed/1,
    wrong_options_raise/1
]).
%% Called in another node.
-export([does_not_yield/0]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().

init_per_testcase(_Case, Config) ->
    ok = py_lint:forget(),
    called:begin_case(Config).

end_per_testcase(_Case, Config) -> called:end_case(Config).

nothing_is_wrong_at_first(_Config) ->
    ?assertEqual([], py_lint:find(#{no_yield_ms => 10_000})).

a_turn_that_does_not_yield(_Config) ->
    called:in_node([], does_not_yield, ?MODULE).

%% One call into C keeps the GIL.
does_not_yield() ->
    {ok, Loop} = py_event_loop:start_link(#{name => busy}),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_in_c, [Read]),
    [Lint] = eventually:passes(
        fun(Found) -> Found =/= [] end, fun() -> py_lint:find(#{kinds => [no_yield]}) end
    ),
    ?assertMatch(#{name := busy, function := <<"wait_in_c">>, line := Line, for_ms := Ms} when Line > 0 andalso Ms >= 50, Lint),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assertEqual({ok, 1}, py:await(Task, 60_000)),
    ok.

a_turn_that_is_over_was_watched(_Config) ->
    with_loop(#{name => watched}, fun(Loop) ->
        {Watcher, Monitor} = spawn_monitor(fun() -> exit(py_lint:watch(1000, #{no_yield_ms => 20})) end),
        Blocks = fun Blocks() ->
            {ok, _} = py_event_loop:run(Loop, called, sleep_on_the_loop, [0.1]),
            is_process_alive(Watcher) andalso Blocks()
        end,
        Blocks(),
        receive {'DOWN', Monitor, process, Watcher, Found} ->
            ?assertMatch([_ | _], [Each || #{name := watched, function := <<"sleep_on_the_loop">>} = Each <- Found])
        end
    end).

a_task_that_waits_for_long(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, parent, []),
        Found = eventually:passes(
            fun(Lints) -> length(Lints) =:= 2 end,
            fun() -> py_lint:find(#{kinds => [long_wait], long_wait_ms => 1}) end
        ),
        %% Not the line of asyncio where it waits, but that of the program.
        ?assertMatch(#{function := <<"child">>, line := _}, hd([Each || #{name := <<"child">>} = Each <- Found])),
        ?assertEqual([], py_lint:find(#{kinds => [long_wait]})),
        ok = py:cancel(Task),
        ?assertEqual({error, cancelled}, py:await(Task))
    end).

a_coroutine_that_was_never_awaited(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Line} = py_event_loop:run(Loop, inspected, forgets_await, []),
        [Lint] = found(never_awaited),
        ?assertMatch(#{name := <<"child">>, line := Line, count := 1}, Lint),
        ?assertMatch({_, _}, binary:match(maps:get(file, Lint), <<"inspected.py">>))
    end).

an_exception_that_was_never_retrieved(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Line} = py_event_loop:run(Loop, inspected, forgets_exception, []),
        [Lint] = found(never_retrieved),
        ?assertMatch(#{name := <<"KeyError">>, line := Line, function := <<"forgets_exception.<locals>.fails">>}, Lint)
    end).

a_stream_without_demand(_Config) ->
    {ok, Stream} = py:stream(inspected, numbers_later, [], #{}, #{demand => 1}),
    [Lint] = eventually:passes(
        fun(Found) -> Found =/= [] end,
        fun() -> py_lint:find(#{kinds => [no_demand], no_demand_ms => 1}) end
    ),
    ?assertMatch(#{name := <<"inspected.numbers_later">>, for_ms := Ms, line := _} when Ms >= 1, Lint),
    ?assertEqual([], py_lint:find(#{kinds => [no_demand]})),
    ok = py:cancel(Stream).

a_loop_near_its_limit(_Config) ->
    with_loop(#{name => small, max_tasks => 5}, fun(Loop) ->
        Tasks = [begin {ok, Task} = py_event_loop:submit(Loop, asyncio, sleep, [3600]), Task end || _ <- [1, 2, 3, 4]],
        ?assertMatch([#{name := small, line := undefined}], found(near_limit)),
        ?assertEqual([], py_lint:find(#{kinds => [near_limit], near => 0.9})),
        [begin ok = py:cancel(Task), {error, cancelled} = py:await(Task) end || Task <- Tasks]
    end).

%% Each of a hundred is not a message.
a_mistake_made_often_is_one_line(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, inspected, forgets_often, [100]),
        eventually:is([64], fun() -> [Count || #{count := Count} <- found(never_retrieved)] end)
    end),
    [ok = py_lint:noted(<<"never_awaited">>, integer_to_binary(N), <<"f">>, 1, <<>>, 1) || N <- lists:seq(1, 1000)],
    ?assert(length(py_lint:find()) =< 201).

it_is_printed(_Config) ->
    ok = py_lint:noted(<<"never_awaited">>, <<"a\nb">>, <<"/app/a.py">>, 7, <<>>, 4),
    Leader = fake_leader:start(),
    ok = fake_leader:as_leader(Leader, fun() -> ok = py_lint:print() end),
    ?assertEqual(<<"/app/a.py:7: coroutine was never awaited: a?b, 4 times\n">>, fake_leader:text(Leader)),
    ok = fake_leader:stop(Leader).

wrong_options_raise(_Config) ->
    [
        ?assertError(_, py_lint:find(Wrong))
     || Wrong <- [[], #{no_yield_ms => 0}, #{near => 2}, #{kinds => [none]}, #{unknown => 1}]
    ],
    [?assertError(badarg, py_lint:watch(Wrong)) || Wrong <- [0, infinity, 1.0]].

found(Kind) ->
    eventually:passes(fun(Found) -> Found =/= [] end, fun() -> py_lint:find(#{kinds => [Kind]}) end).

with_loop(Options, Body) ->
    {ok, Loop} = py_event_loop:start_link(Options),
    Body(Loop),
    {ok, []} = py_event_loop:stop(Loop).
