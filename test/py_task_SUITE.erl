%% @doc Can a task be awaited, polled and cancelled, also by its caller's death?
-module(py_task_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    tasks_run_side_by_side/1,
    await_takes_replies_in_any_order/1,
    await_twice_is_noproc/1,
    await_after_a_timeout_is_noproc/1,
    await_cancels_after_its_timeout/1,
    another_process_cannot_await/1,
    yield_lets_the_task_go_on/1,
    cancel_reaches_the_await/1,
    cancel_twice/1,
    cancel_after_the_end/1,
    cancel_by_another_process/1,
    a_coroutine_may_refuse_to_be_cancelled/1,
    a_queued_function_is_never_run/1,
    a_function_that_returns_after_its_cancellation/1,
    cancel_on_the_way_from_a_call_thread_to_the_loop/1,
    cancel_as_the_loop_begins/1,
    a_killed_caller_with_1000_tasks/1,
    a_killed_caller_with_1000_queued_functions/1,
    callers_that_die_at_once/1,
    a_caller_dies_while_the_loop_sleeps/1,
    a_caller_dies_while_the_loop_is_busy/1,
    a_caller_dies_while_the_loop_has_timers/1,
    the_first_step_runs_in_its_task/1,
    a_first_step_that_wants_to_exit/1,
    an_unreferenced_task_still_replies/1,
    a_coroutine_abandoned_before_it_begins/1,
    tasks_leave_no_memory_behind/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    ok = called:settle(),
    eventually:is({ok, 0}, fun() -> py:call(called, count_tasks, []) end),
    leak_check:end_case(Config).

tasks_run_side_by_side(_Config) ->
    {Time, _} = timer:tc(fun() ->
        Tasks = [submit(asyncio, sleep, [0.2, N]) || N <- lists:seq(1, 100)],
        ?assertEqual([{ok, N} || N <- lists:seq(1, 100)], [py:await(Task) || Task <- Tasks])
    end),
    %% One after the other they would take 20 s.
    ?assert(Time < 10_000_000, Time).

await_takes_replies_in_any_order(_Config) ->
    Tasks = [submit(called, add, [N, 0]) || N <- lists:seq(1, 50)],
    Later = [submit(called, add_later, [N, 0]) || N <- lists:seq(51, 100)],
    Answers = [py:await(Task) || Task <- lists:reverse(Tasks ++ Later)],
    ?assertEqual([{ok, N} || N <- lists:seq(100, 1, -1)], Answers).

await_twice_is_noproc(_Config) ->
    Task = submit(called, add, [1, 2]),
    ?assertEqual({ok, 3}, py:await(Task)),
    ?assertEqual({error, noproc}, py:await(Task)),
    ?assertEqual({error, noproc}, py:await(Task, infinity)),
    ?assertEqual({value, {error, noproc}}, py:yield(Task)).

await_after_a_timeout_is_noproc(_Config) ->
    Task = submit(asyncio, sleep, [60]),
    ?assertEqual({error, timeout}, py:await(Task, 10)),
    ?assertEqual({error, noproc}, py:await(Task, infinity)).

await_cancels_after_its_timeout(_Config) ->
    Task = submit(called, wait_forever, [<<"x">>]),
    ?assertEqual({error, timeout}, py:await(Task, 50)),
    called:has_noted(<<"x cancelled">>).

another_process_cannot_await(_Config) ->
    Task = submit(called, add, [1, 2]),
    {_, Monitor} = spawn_monitor(fun() -> py:await(Task) end),
    receive
        {'DOWN', Monitor, _, _, {Reason, _}} -> ?assertEqual(badarg, Reason)
    end,
    ?assertEqual({ok, 3}, py:await(Task)).

yield_lets_the_task_go_on(_Config) ->
    Task = submit(asyncio, sleep, [0.1, <<"x">>]),
    ?assertEqual(timeout, py:yield(Task)),
    ?assertEqual(timeout, py:yield(Task, 1)),
    ?assertEqual({value, {ok, <<"x">>}}, py:yield(Task, 5000)).

cancel_reaches_the_await(_Config) ->
    Task = submit(called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    ?assertEqual(ok, py:cancel(Task)),
    ?assertEqual({error, cancelled}, py:await(Task)),
    called:has_noted(<<"x cancelled">>).

cancel_twice(_Config) ->
    Task = submit(called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    ?assertEqual([ok, ok, ok], [py:cancel(Task) || _ <- [1, 2, 3]]),
    ?assertEqual({error, cancelled}, py:await(Task)),
    ?assertEqual(ok, py:cancel(Task)),
    ?assertEqual({error, noproc}, py:await(Task)).

cancel_after_the_end(_Config) ->
    Task = submit(called, add, [1, 2]),
    {ok, _} = py:call(called, add, [1, 2]),
    ?assertEqual(ok, py:cancel(Task)),
    ?assertEqual({ok, 3}, py:await(Task)).

cancel_by_another_process(_Config) ->
    Task = submit(called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    _ = spawn_link(fun() -> ok = py:cancel(Task) end),
    ?assertEqual({error, cancelled}, py:await(Task)).

a_coroutine_may_refuse_to_be_cancelled(_Config) ->
    Task = submit(called, ignore_cancellation, [<<"x">>]),
    eventually:is({ok, 1}, fun() -> py:call(called, count_tasks, []) end),
    %% It has begun: the task above was counted in a later turn of the loop.
    ok = py:cancel(Task),
    ?assertEqual({ok, <<"went on">>}, py:await(Task)),
    called:has_noted(<<"x went on">>).

a_queued_function_is_never_run(_Config) ->
    {ok, _} = py:call(called, hold, []),
    Blocked = submit(called, block, []),
    %% A burst: while it lasts, some of these wait behind the first.
    Tasks = [submit(called, note, [<<"ran">>]) || _ <- lists:seq(1, 50)],
    _ = [ok = py:cancel(Task) || Task <- Tasks],
    Answers = [py:await(Task) || Task <- Tasks],
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Blocked)),
    {ok, Events} = py:call(called, take_events, []),
    Cancelled = length([A || A <- Answers, A =:= {error, cancelled}]),
    %% One that was running at the moment may be both.
    ?assert(length(Events) + Cancelled - length(Tasks) =< 2, {Events, Cancelled}),
    ?assert(Cancelled > 0).

%% The cancel of one task does not hit another that runs later on the same thread.
a_function_that_returns_after_its_cancellation(_Config) ->
    _ = [
        begin
            Task = submit(called, add, [N, 0]),
            ok = py:cancel(Task),
            ?assert(lists:member(py:await(Task), [{ok, N}, {error, cancelled}])),
            ?assertEqual({ok, N}, py:call(called, add, [N, 0]))
        end
     || N <- lists:seq(1, 200)
    ].

cancel_on_the_way_from_a_call_thread_to_the_loop(_Config) ->
    _ = [
        begin
            Task = submit(called, make_awaitable, []),
            N rem 3 =:= 0 andalso erlang:yield(),
            ok = py:cancel(Task),
            ?assert(lists:member(py:await(Task), [{ok, <<"awaited">>}, {error, cancelled}]))
        end
     || N <- lists:seq(1, 500)
    ].

%% The loop began some of them between two checks of where they were: those got a reply, and then
%% slept their hour. It was some in a hundred thousand.
cancel_as_the_loop_begins(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, _} = py_event_loop:run(Loop, asyncio, sleep, [0]),
    Submit = fun(_) ->
        {ok, Task} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
        Task
    end,
    Cancels = fun(_) ->
        Tasks = lists:map(Submit, lists:seq(1, 10)),
        lists:foreach(fun py:cancel/1, Tasks),
        _ = [?assertEqual({error, cancelled}, py:await(Task)) || Task <- Tasks]
    end,
    Caller = fun() -> lists:foreach(Cancels, lists:seq(1, 10_000)) end,
    Callers = [spawn_monitor(Caller) || _ <- lists:seq(1, 4)],
    _ = [
        receive
            {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
        end
     || {Pid, Monitor} <- Callers
    ],
    eventually:is({ok, []}, fun() -> py_event_loop:tasks(Loop) end),
    {ok, []} = py_event_loop:stop(Loop).

a_killed_caller_with_1000_tasks(_Config) ->
    Self = self(),
    Pid = spawn(fun() ->
        _ = [submit(called, wait_forever, [<<"x">>]) || _ <- lists:seq(1, 1000)],
        Self ! submitted,
        receive
            never -> ok
        end
    end),
    receive
        submitted -> ok
    end,
    eventually:is({ok, 1000}, fun() -> py:call(called, count_tasks, []) end),
    mortal:kill(Pid),
    eventually:is({ok, 0}, fun() -> py:call(called, count_tasks, []) end),
    {ok, Events} = py:call(called, take_events, []),
    ?assertEqual(1000, length([E || E <- Events, E =:= <<"x cancelled">>])).

a_killed_caller_with_1000_queued_functions(_Config) ->
    Self = self(),
    Pid = spawn(fun() ->
        _ = [submit(called, sleep, [0.01]) || _ <- lists:seq(1, 1000)],
        Self ! submitted,
        receive
            never -> ok
        end
    end),
    receive
        submitted -> ok
    end,
    mortal:kill(Pid),
    %% 1,000 of them would take ten seconds on one thread.
    eventually:is(0, fun() -> maps:get(queued, py_calls:info()) end, 2000).

an_unreferenced_task_still_replies(_Config) ->
    {ok, _} = py:submit(called, note, [<<"kept">>]),
    erlang:garbage_collect(),
    called:has_noted(<<"kept">>),
    receive
        {py_reply, _, {ok, none}} -> ok
    end.

a_coroutine_abandoned_before_it_begins(_Config) ->
    %% Python would warn of a coroutine that was never awaited, if it were.
    ok = py:exec(<<"import warnings\nwarnings.simplefilter('error')">>),
    try
        _ = [{error, timeout} = py:call(called, add_later, [1, 2], #{}, 0) || _ <- lists:seq(1, 50)],
        ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2]))
    after
        ok = py:exec(<<"import warnings\nwarnings.resetwarnings()">>)
    end.

tasks_leave_no_memory_behind(_Config) ->
    Round = fun() ->
        _ = [
            begin
                {ok, _} = py:call(called, add, [1, 2]),
                {ok, _} = py:call(asyncio, sleep, [0]),
                {error, timeout} = py:call(asyncio, sleep, [10], #{}, 0)
            end
         || _ <- lists:seq(1, 3000)
        ],
        {ok, _} = py:call(gc, collect, []),
        erlang:garbage_collect(),
        leak_check:resident_bytes()
    end,
    _ = Round(),
    First = Round(),
    _ = Round(),
    _ = Round(),
    Last = Round(),
    %% 27,000 calls: a leak of 200 bytes for each would be 5 MB.
    ?assert(Last - First < 5_000_000, {First, Last}).

submit(Module, Function, Args) ->
    {ok, Task} = py:submit(Module, Function, Args),
    Task.

%% A caller that has just begun to wait is not monitored yet. Its coroutine still
%% ends, whenever it dies.
callers_that_die_at_once(_Config) ->
    {ok, 0} = py:call(called, count_tasks, []),
    _ = [
        begin
            {Pid, Monitor} = spawn_monitor(fun() -> py:call(asyncio, sleep, [3600], #{}, infinity) end),
            _ = [erlang:yield() || _ <- lists:seq(1, N rem 50)],
            exit(Pid, kill),
            receive
                {'DOWN', Monitor, _, _, killed} -> ok
            end
        end
     || N <- lists:seq(1, 500)
    ],
    eventually:is({ok, 0}, fun() -> py:call(called, count_tasks, []) end).

a_caller_dies_while_the_loop_sleeps(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    _ = [ok = called:dies_at_once(Loop) || _ <- lists:seq(1, 10)],
    {ok, []} = py_event_loop:stop(Loop).

%% It never sleeps.
a_caller_dies_while_the_loop_is_busy(_Config) ->
    callers_die_beside({called, turn_on_and_on, [0]}).

%% It sleeps, but not for long.
a_caller_dies_while_the_loop_has_timers(_Config) ->
    callers_die_beside({called, turn_on_and_on, [0.004]}).

callers_die_beside({Module, Function, Args}) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Task} = py_event_loop:submit(Loop, Module, Function, Args),
    _ = [ok = called:dies_at_once(Loop) || _ <- lists:seq(1, 10)],
    ok = py:cancel(Task),
    {error, cancelled} = py:await(Task),
    {ok, []} = py_event_loop:stop(Loop).

the_first_step_runs_in_its_task(_Config) ->
    Expected = {ok, {<<"called.first_step">>, true, true}},
    ?assertEqual(Expected, py:call(called, first_step, [])),
    %% By now it is known to be a coroutine function, and goes straight to the loop.
    ?assertEqual(Expected, py:call(called, first_step, [])).

%% What was taken together with it is begun too.
a_first_step_that_wants_to_exit(_Config) ->
    called:is_error("SystemExit", "5", py:call(called, leave_now, [5])),
    {ok, 3} = py:call(called, add_later, [1, 2]),
    Submitted = [
        begin
            {ok, Leaving} = py:submit(called, leave_now, [N]),
            {ok, Adding} = py:submit(called, add_later, [N, 1]),
            {N, Leaving, Adding}
        end
     || N <- lists:seq(1, 50)
    ],
    _ = [
        begin
            called:is_error("SystemExit", integer_to_list(N), py:await(Leaving)),
            ?assertEqual({ok, N + 1}, py:await(Adding))
        end
     || {N, Leaving, Adding} <- Submitted
    ].
