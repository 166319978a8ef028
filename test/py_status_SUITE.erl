%% @doc What does Python do at this moment?
-module(py_status_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_call_has_its_caller_age_and_stack/1,
    a_task_has_the_whole_chain_of_its_awaits/1,
    of_a_deep_chain_both_ends_are_shown/1,
    a_task_that_runs_is_shown_where_it_stands/1,
    a_task_that_a_task_started/1,
    a_loop_that_python_started/1,
    it_needs_no_call_thread/1,
    while_one_call_keeps_the_gil_the_tasks_are_missing/1,
    nothing_is_sent_to_the_caller_later/1,
    before_python_starts/1
]).
%% Called in another node.
-export([down/0, taken/0, keeps_the_gil/0]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

a_call_has_its_caller_age_and_stack(_Config) ->
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py:submit(called, block, []),
    called:is_blocked(),
    #{python := up, calls := Calls, queue := #{threads := Threads}, missing := Missing} = py:status(),
    ?assertEqual(#{}, Missing),
    ?assert(Threads >= 1),
    Self = self(),
    [#{caller := Self, age_ms := Age, stack := Stack}] =
        [Call || #{function := <<"called.block">>} = Call <- Calls],
    ?assert(is_integer(Age)),
    ?assertNotEqual([], [Line || Line <- Stack, is_in(Line, "called.py"), is_in(Line, "in block")]),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)).

a_task_has_the_whole_chain_of_its_awaits(_Config) ->
    with_loop(fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, waiting, outermost, []),
        Chain = [<<"outermost">>, <<"middle">>, <<"items">>, <<"__await__">>, <<"innermost">>, <<"sleep">>],
        eventually:is([Chain], fun() ->
            {ok, Tasks} = py_event_loop:tasks(Loop),
            [functions(Info) || Info <- Tasks]
        end),
        {ok, [#{caller := Caller, age_ms := Age}]} = py_event_loop:tasks(Loop),
        ?assertEqual({self(), true}, {Caller, is_integer(Age)}),
        #{loops := Loops} = py:status(),
        [#{tasks := [Info], unanswered := 1, name := undefined}] =
            [Status || #{pid := Pid} = Status <- Loops, Pid =:= Loop],
        ?assertMatch({Caller, waiting, Chain}, {maps:get(caller, Info), maps:get(state, Info), functions(Info)}),
        ok = py:cancel(Task)
    end).

of_a_deep_chain_both_ends_are_shown(_Config) ->
    with_loop(fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, waiting, deep, [500]),
        eventually:is([{200, <<"sleep">>}], fun() ->
            {ok, Tasks} = py_event_loop:tasks(Loop),
            [{length(Stack), maps:get(function, lists:last(Stack))} || #{stack := Stack} <- Tasks]
        end),
        ok = py:cancel(Task)
    end).

%% Its loop could not report that itself.
a_task_that_runs_is_shown_where_it_stands(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, waiting, blocks, []),
        called:is_blocked(),
        #{loops := Loops} = py:status(),
        [#{tasks := [Info], turn_ms := Turn, stack := Stack}] =
            [Status || #{pid := Pid} = Status <- Loops, Pid =:= Loop],
        ?assert(is_integer(Turn)),
        ?assertNotEqual([], [Line || Line <- Stack, is_in(Line, "in blocked")]),
        #{state := running} = Info,
        ?assertMatch([<<"blocks">>, <<"blocked">>, <<"block">> | _], functions(Info)),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, none}, py:await(Task))
    end).

a_task_that_a_task_started(_Config) ->
    with_loop(fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, waiting, parent, [self()]),
        receive
            waits -> ok
        end,
        {ok, Tasks} = py_event_loop:tasks(Loop),
        [Child] = [Info || #{name := <<"the child">>} = Info <- Tasks],
        ?assertEqual([<<"innermost">>, <<"sleep">>], functions(Child)),
        %% The context of a task can be read from Python 3.12 on.
        {ok, IsReadable} = py:eval("hasattr(__import__('asyncio').Task, 'get_context')"),
        Expected =
            case IsReadable of
                true -> self();
                false -> undefined
            end,
        ?assertMatch(#{caller := Expected, age_ms := undefined}, Child),
        ok = py:cancel(Task)
    end).

a_loop_that_python_started(_Config) ->
    {ok, Task} = py:submit(waiting, run_a_loop, []),
    called:has_noted(<<"runs">>),
    eventually:is(true, fun() ->
        #{loops := Loops} = py:status(),
        Chains = [functions(Info) || #{pid := undefined, tasks := Tasks} <- Loops, Info <- Tasks],
        lists:any(fun(Chain) -> hd(Chain) =:= <<"outermost">> andalso lists:last(Chain) =:= <<"sleep">> end, Chains)
    end),
    {ok, none} = py:call(waiting, end_that_loop, []),
    ?assertEqual({ok, none}, py:await(Task)).

it_needs_no_call_thread(_Config) ->
    called:in_node([{call_threads, 1}], taken, ?MODULE).

taken() ->
    {ok, _} = py:call(called, hold, []),
    {ok, One} = py:submit(called, block, []),
    eventually:is([<<"called.block">>], fun() ->
        [Function || #{function := Function} <- maps:get(calls, py:status())]
    end),
    {ok, Other} = py:submit(called, block, []),
    #{queue := Queue, calls := Calls, missing := Missing} = py:status(),
    ?assertMatch({#{queued := 1}, #{}}, {Queue, Missing}),
    ?assertMatch([<<"called.block">>], [Function || #{function := Function} <- Calls]),
    ok = py:exec("import called; called.release()"),
    ?assertEqual({ok, <<"released">>}, py:await(One)),
    ?assertEqual({ok, <<"released">>}, py:await(Other)),
    ok.

while_one_call_keeps_the_gil_the_tasks_are_missing(_Config) ->
    called:in_node([], keeps_the_gil, ?MODULE).

keeps_the_gil() ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_in_c, [Read]),
    eventually:is(true, fun() ->
        #{loops := Loops} = py:status(),
        [#{stack := Stack}] = [Status || #{pid := Pid} = Status <- Loops, Pid =:= Loop],
        lists:any(fun(Line) -> is_in(Line, "in wait_in_c") end, Stack)
    end),
    #{missing := #{tasks := Why}} = py:status(),
    ?assertEqual(<<"one call keeps the GIL">>, Why),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assertEqual({ok, 1}, py:await(Task, 60_000)),
    ok.

nothing_is_sent_to_the_caller_later(_Config) ->
    _ = py:status(),
    {ok, 3} = py:call(called, add, [1, 2]),
    ?assertEqual({messages, []}, process_info(self(), messages)).

before_python_starts(_Config) ->
    called:in_node([], down, ?MODULE).

down() ->
    #{python := down, calls := [], loops := [], missing := Missing} = py:status(),
    ?assertEqual(#{}, Missing).

with_loop(Fun) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    Fun(Loop),
    {ok, []} = py_event_loop:stop(Loop).

functions(#{stack := Stack}) ->
    [Function || #{function := Function} <- Stack].

is_in(Line, Text) ->
    string:find(Line, Text) =/= nomatch.
