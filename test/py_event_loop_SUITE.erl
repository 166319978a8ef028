%% @doc Does a loop that Erlang started live, end and come back as a process of OTP does?
-module(py_event_loop_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_group/2, end_per_group/2]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    coroutines_run_on_the_loops_thread/1,
    plain_functions_do_not_block_the_loop/1,
    init_code_is_run/1,
    init_code_may_use_the_loop/1,
    init_code_ends_before_requests_begin/1,
    init_code_that_fails/1,
    a_loop_has_a_name/1,
    unknown_options_raise/1,
    stop_cancels_tasks_and_runs_finalizers/1,
    stop_reports_what_does_not_end/1,
    stop_reports_names_that_are_not_text/1,
    stop_abandons_a_stuck_loop/1,
    a_supervisor_waits_for_finalizers/1,
    a_supervisor_does_not_wait_forever/1,
    a_supervisor_abandons_a_stuck_loop/1,
    stop_twice_is_noproc/1,
    a_stopping_loop_takes_no_work/1,
    a_killed_loop_replies_to_1000_callers/1,
    a_killed_loop_cancels_its_tasks/1,
    a_killed_loop_that_is_stuck_replies_at_once/1,
    a_linked_owner_ends_its_loop/1,
    a_supervisor_restarts_a_fresh_loop/1,
    a_full_inbox_is_overload/1,
    tasks_are_shown/1,
    info_counts/1,
    which_loops_lists_them/1,
    a_loop_sleeps_and_wakes/1,
    system_exit_does_not_end_the_loop/1,
    a_task_in_debug_mode/1,
    the_own_callbacks_of_a_task_factory_run/1,
    many_loops/1,
    a_loop_that_stops_itself/1,
    callbacks_that_wait_run_before_the_end/1,
    the_default_loop_ends_in_order/1
]).
-export([init/1]).

suite() -> [{timetrap, {minutes, 2}}].

%% All cases run with a loop that has its own thread, and with one that shares a thread.
all() -> [{group, own}, {group, shared}].

groups() ->
    Cases = cases:of_suite(?MODULE, [init]),
    [{own, [], Cases}, {shared, [], Cases}].

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().

init_per_group(own, Config) ->
    ok = persistent_term:put(?MODULE, own),
    Config;
init_per_group(shared, Config) ->
    ok = persistent_term:put(?MODULE, shared),
    ok = py_nif:python_loop_threads(1),
    %% Two neighbours, so that their thread is one for many, whatever the test's loop does.
    Neighbours = [Loop || _ <- [1, 2], {ok, Loop} <- [py_event_loop:start_link(#{})]],
    lists:foreach(
        fun(Loop) ->
            unlink(Loop),
            {ok, _} = py_event_loop:run(Loop, called, loop_thread, [])
        end,
        Neighbours
    ),
    [{neighbours, Neighbours} | Config].

end_per_group(own, _Config) ->
    ok;
end_per_group(shared, Config) ->
    %% They were not affected.
    _ = [
        begin
            ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
            ?assertEqual({ok, []}, py_event_loop:stop(Loop))
        end
     || Loop <- proplists:get_value(neighbours, Config)
    ],
    py_nif:python_loop_threads(8).

init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

coroutines_run_on_the_loops_thread(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, Thread} = py_event_loop:run(Loop, called, loop_thread, []),
        ?assertEqual({ok, Thread}, py_event_loop:run(Loop, called, loop_thread, [])),
        {ok, Other} = py:call(called, loop_thread, []),
        ?assertNotEqual(Thread, Other),
        ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1], #{b => 2})),
        {ok, Task} = py_event_loop:submit(Loop, called, add_later, [1, 3]),
        ?assertEqual({ok, 4}, py:await(Task)),
        called:is_error("ValueError", "x", py_event_loop:run(Loop, called, fail_later, [<<"x">>])),
        called:is_error("AttributeError", "no_such", py_event_loop:run(Loop, called, no_such, []))
    end).

plain_functions_do_not_block_the_loop(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, called, block, []),
        ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
        ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add, [1, 2])),
        ?assertEqual({ok, false}, py_event_loop:run(Loop, called, has_running_loop, [])),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Task)),
        %% What they return is awaited on this loop.
        ?assertEqual({ok, <<"awaited">>}, py_event_loop:run(Loop, called, make_awaitable, []))
    end).

init_code_is_run(_Config) ->
    with_loop(#{init => ["import called\n", "called.note('ü init')"]}, fun(_) ->
        called:has_noted(<<"ü init"/utf8>>)
    end).

init_code_may_use_the_loop(_Config) ->
    %% Long enough that the loop has to park, and be woken by its process.
    Code = "import asyncio, called\n"
        "asyncio.get_event_loop().run_until_complete(asyncio.sleep(0.2))\n"
        "called.note('slept')",
    with_loop(#{init => Code}, fun(_) -> called:has_noted(<<"slept">>) end).

%% Also if it runs the loop, and others know the loop's name already.
init_code_ends_before_requests_begin(_Config) ->
    {ok, _} = py:call(called, hold, []),
    Code = [
        "import asyncio, called\n",
        "loop = asyncio.get_event_loop()\n",
        "loop.run_until_complete(loop.run_in_executor(None, called.block))\n",
        "called.note('prepared')"
    ],
    Name = loop_with_slow_init,
    {Asker, Monitor} = spawn_monitor(fun() ->
        called:is_blocked(),
        {ok, Task} = py_event_loop:submit(Name, called, take_events_later, []),
        {ok, _} = py:call(called, release, []),
        exit(py:await(Task))
    end),
    with_loop(#{name => Name, init => Code}, fun(_) ->
        receive
            {'DOWN', Monitor, process, Asker, Answer} ->
                ?assertEqual({ok, [<<"prepared">>]}, Answer)
        end
    end).

init_code_that_fails(_Config) ->
    _ = process_flag(trap_exit, true),
    {error, {init_failed, #{message := Message}}} =
        start_link(#{init => <<"raise ValueError('on purpose')">>}),
    ?assertEqual(<<"on purpose">>, Message),
    {error, {init_failed, _}} = start_link(#{init => <<"raise SystemExit(3)">>}),
    {error, {init_failed, _}} = start_link(#{init => <<"if">>}),
    flush_exits().

a_loop_has_a_name(_Config) ->
    with_loop(#{name => my_loop}, fun(Loop) ->
        ?assertEqual(Loop, whereis(my_loop)),
        ?assertEqual({ok, 3}, py_event_loop:run(my_loop, called, add_later, [1, 2])),
        ?assertMatch({ok, #{pid := Loop}}, py_event_loop:info(my_loop))
    end),
    NoLoop = {error, {no_loop, my_loop}},
    ?assertEqual(NoLoop, py_event_loop:run(my_loop, called, add_later, [1, 2])),
    ?assertEqual(NoLoop, py_event_loop:submit(my_loop, called, add_later, [1, 2])),
    ?assertEqual(NoLoop, py_event_loop:stream(my_loop, called, add_later, [1, 2])),
    ?assertEqual(NoLoop, py_event_loop:info(my_loop)),
    ?assertEqual(NoLoop, py_event_loop:tasks(my_loop)),
    ?assertEqual(NoLoop, py_event_loop:loop_ref(my_loop)),
    ?assertEqual({error, noproc}, py_event_loop:stop(my_loop)).

unknown_options_raise(_Config) ->
    ?assertError({bad_option, {no_such, 1}, _}, py_event_loop:start_link(#{no_such => 1})).

%% The end

stop_cancels_tasks_and_runs_finalizers(_Config) ->
    {ok, Loop} = start_link(#{}),
    {ok, _} = py_event_loop:run(Loop, called, generate, [<<"generator">>]),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    ?assertEqual({error, cancelled}, py:await(Task)),
    {ok, Events} = py:call(called, take_events, []),
    ?assertEqual([<<"x cancelled">>, <<"generator finalized">>], Events),
    eventually:is(false, fun() -> is_process_alive(Loop) end).

stop_reports_what_does_not_end(_Config) ->
    {ok, Loop} = start_link(#{patience => 100}),
    {ok, Task} = py_event_loop:submit(Loop, called, refuse_to_end, []),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    ok = log_watch:start(),
    {ok, [#{name := Name, stack := [_ | _]}]} = py_event_loop:stop(Loop),
    ?assertEqual(<<"called.refuse_to_end">>, Name),
    called:is_logged("1 tasks did not end within 100 ms of being cancelled"),
    ok = log_watch:stop(),
    ?assertEqual({error, loop_down}, py:await(Task)).

%% The thread's last message could not become a term, and stop/1 waited forever.
stop_reports_names_that_are_not_text(_Config) ->
    {ok, Loop} = start_link(#{patience => 100}),
    {ok, Task} = py_event_loop:submit(Loop, called, refuse_to_end, [<<"surrogate">>]),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    {ok, Shown} = py_event_loop:tasks(Loop),
    ?assertEqual([<<"a \\udcff b">>], [Name || #{name := <<"a", _/binary>> = Name} <- Shown]),
    {ok, [#{name := Name}]} = py_event_loop:stop(Loop, 10_000),
    ?assertEqual(<<"a \\udcff b">>, Name),
    ?assertEqual({error, loop_down}, py:await(Task)).

stop_abandons_a_stuck_loop(_Config) ->
    {ok, Loop} = start_link(#{}),
    unlink(Loop),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
    called:is_blocked(),
    ok = log_watch:start(),
    ?assertEqual({error, timeout}, py_event_loop:stop(Loop, 100)),
    called:is_logged("is left behind"),
    ok = log_watch:stop(),
    ?assertEqual({error, loop_down}, py:await(Task)),
    {ok, _} = py:call(called, release, []).

a_supervisor_waits_for_finalizers(_Config) ->
    Sup = supervise(#{name => my_loop}),
    {ok, _} = py_event_loop:run(my_loop, called, generate, [<<"generator">>]),
    %% Long enough for the loop to park, so that it needs its process to come to an end.
    {ok, Task} = py_event_loop:submit(my_loop, called, end_slowly, [<<"x">>, 0.3]),
    called:has_noted(<<"x started">>),
    shut_down(Sup),
    {ok, Events} = py:call(called, take_events, []),
    ?assertEqual([<<"x ended">>, <<"generator finalized">>], Events),
    ?assertEqual({error, cancelled}, py:await(Task)).

a_supervisor_does_not_wait_forever(_Config) ->
    ok = log_watch:start(),
    Sup = supervise(#{name => my_loop, patience => 100}),
    {ok, Task} = py_event_loop:submit(my_loop, called, refuse_to_end, []),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(my_loop, called, count_tasks, []) end),
    shut_down(Sup),
    called:is_logged("my_loop"),
    called:is_logged("1 tasks did not end within 100 ms of being cancelled"),
    called:is_logged("refuse_to_end"),
    ok = log_watch:stop(),
    ?assertEqual({error, loop_down}, py:await(Task)).

a_supervisor_abandons_a_stuck_loop(_Config) ->
    ok = log_watch:start(),
    Sup = supervise(#{name => my_loop, patience => 100}),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py_event_loop:submit(my_loop, called, block_loop, []),
    eventually:is(0, fun() -> queued(my_loop) end),
    shut_down(Sup),
    called:is_logged("is left behind: its thread does not return"),
    ok = log_watch:stop(),
    ?assertEqual({error, loop_down}, py:await(Task)),
    {ok, _} = py:call(called, release, []).

supervise(Options) ->
    {ok, Sup} = supervisor:start_link(?MODULE, py_event_loop:child_spec(Options)),
    Sup.

%% Returns when the supervisor, and so its loop, is gone.
shut_down(Sup) ->
    unlink(Sup),
    Monitor = monitor(process, Sup),
    exit(Sup, shutdown),
    receive
        {'DOWN', Monitor, _, _, shutdown} -> ok
    end.

stop_twice_is_noproc(_Config) ->
    {ok, Loop} = start_link(#{}),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    ?assertEqual({error, noproc}, py_event_loop:stop(Loop)).

a_stopping_loop_takes_no_work(_Config) ->
    {ok, Loop} = start_link(#{patience => 300}),
    {ok, _} = py_event_loop:submit(Loop, called, refuse_to_end, []),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    Self = self(),
    _ = spawn_link(fun() -> Self ! {stopped, py_event_loop:stop(Loop)} end),
    called:has_noted(<<"refused">>),
    ?assertEqual({error, loop_down}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    receive
        {stopped, {ok, [_]}} -> ok
    end,
    receive
        {py_reply, _, {error, loop_down}} -> ok
    end.

a_killed_loop_replies_to_1000_callers(_Config) ->
    {ok, Loop} = start_link(#{}),
    unlink(Loop),
    Callers = [
        spawn_monitor(fun() ->
            exit(py_event_loop:run(Loop, asyncio, sleep, [3600], #{}, infinity))
        end)
     || _ <- lists:seq(1, 1000)
    ],
    eventually:is({ok, 1000}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    mortal:kill(Loop),
    _ = [
        receive
            {'DOWN', Monitor, _, Pid, Answer} -> ?assertEqual({error, loop_down}, Answer)
        after 5000 -> error(no_answer)
        end
     || {Pid, Monitor} <- Callers
    ],
    ?assertEqual({error, loop_down}, py_event_loop:run(Loop, called, add_later, [1, 2])).

a_killed_loop_cancels_its_tasks(_Config) ->
    {ok, Loop} = start_link(#{}),
    unlink(Loop),
    {ok, _} = py_event_loop:run(Loop, called, generate, [<<"generator">>]),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    mortal:kill(Loop),
    ?assertEqual({error, loop_down}, py:await(Task)),
    eventually:is(true, fun() -> py:call(called, has_finalized, [<<"generator">>]) =:= {ok, true} end),
    called:has_noted(<<"x cancelled">>).

a_killed_loop_that_is_stuck_replies_at_once(_Config) ->
    {ok, Loop} = start_link(#{}),
    unlink(Loop),
    {ok, _} = py:call(called, hold, []),
    {ok, Stuck} = py_event_loop:submit(Loop, called, block_loop, []),
    {ok, Behind} = py_event_loop:submit(Loop, called, add_later, [1, 2]),
    called:is_blocked(),
    mortal:kill(Loop),
    ?assertEqual({error, loop_down}, py:await(Stuck, 20_000)),
    ?assertEqual({error, loop_down}, py:await(Behind, 20_000)),
    {ok, _} = py:call(called, release, []).

a_linked_owner_ends_its_loop(_Config) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Started} = start_link(#{}),
        Self ! {loop, Started},
        receive
            stop -> exit(enough)
        end
    end),
    Loop =
        receive
            {loop, Started} -> Started
        end,
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    Pid ! stop,
    receive
        {'DOWN', Monitor, _, _, enough} -> ok
    end,
    ?assertEqual({error, loop_down}, py:await(Task)),
    called:has_noted(<<"x cancelled">>).

a_supervisor_restarts_a_fresh_loop(_Config) ->
    Spec = child_spec(#{name => my_loop, init => <<"import called; called.note('init')">>}),
    {ok, Sup} = supervisor:start_link(?MODULE, Spec),
    called:has_noted(<<"init">>),
    ?assertEqual({ok, false}, py_event_loop:run(my_loop, called, mark_loop, [])),
    ?assertEqual({ok, true}, py_event_loop:run(my_loop, called, mark_loop, [])),
    _ = mortal:kill_registered(my_loop),
    called:has_noted(<<"init">>),
    ?assertEqual({ok, false}, py_event_loop:run(my_loop, called, mark_loop, [])),
    ?assertEqual({ok, 0}, py_event_loop:run(my_loop, called, count_tasks, [])),
    unlink(Sup),
    exit(Sup, shutdown),
    eventually:is(undefined, fun() -> whereis(my_loop) end).

init(Spec) ->
    {ok, {#{}, [Spec]}}.

a_full_inbox_is_overload(_Config) ->
    with_loop(#{max_queue => 10}, fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Stuck} = py_event_loop:submit(Loop, called, block_loop, []),
        eventually:is(0, fun() -> queued(Loop) end),
        Answers = [py_event_loop:submit(Loop, called, add_later, [1, 2]) || _ <- lists:seq(1, 15)],
        {Tasks, Refused} = lists:partition(fun(Answer) -> element(1, Answer) =:= ok end, Answers),
        ?assertEqual(10, length(Tasks)),
        ?assertEqual([{error, overload}], lists:usort(Refused)),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Stuck)),
        _ = [?assertEqual({ok, 3}, py:await(Task)) || {ok, Task} <- Tasks],
        ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2]))
    end).

%% What is to be seen

tasks_are_shown(_Config) ->
    with_loop(#{}, fun(Loop) ->
        ?assertEqual({ok, []}, py_event_loop:tasks(Loop)),
        {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
        called:has_noted(<<"x started">>),
        {ok, [Info]} = py_event_loop:tasks(Loop),
        ?assertMatch(
            #{
                name := <<"called.wait_forever">>,
                state := waiting,
                runs := <<"wait_forever">>,
                stack := [
                    #{function := <<"wait_forever">>, line := _, file := _}, #{function := <<"sleep">>}
                ]
            },
            Info
        ),
        ok = py:cancel(Task),
        ?assertEqual({error, cancelled}, py:await(Task)),
        eventually:is({ok, []}, fun() -> py_event_loop:tasks(Loop) end)
    end).

info_counts(_Config) ->
    with_loop(#{}, fun(Loop) ->
        ?assertEqual({ok, #{pid => Loop, queued => 0, unanswered => 0}}, called:counts(Loop)),
        {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
        ?assertMatch({ok, #{unanswered := 1}}, py_event_loop:info(Loop)),
        ok = py:cancel(Task),
        {error, cancelled} = py:await(Task),
        eventually:is(
            {ok, #{pid => Loop, queued => 0, unanswered => 0}},
            fun() -> called:counts(Loop) end
        )
    end),
    ?assertEqual({error, loop_down}, py_event_loop:info(self())).

which_loops_lists_them(_Config) ->
    with_loop(#{name => my_loop}, fun(Loop) ->
        Loops = py_event_loop:which_loops(),
        ?assert(lists:member({my_loop, Loop}, Loops)),
        ?assert(lists:member({py_default_loop, whereis(py_default_loop)}, Loops))
    end),
    ?assertNot(lists:keymember(my_loop, 1, py_event_loop:which_loops())).

a_loop_sleeps_and_wakes(_Config) ->
    with_loop(#{}, fun(Loop) ->
        _ = [
            begin
                %% Long enough for the loop to be parked.
                timer:sleep(30),
                ?assertEqual({ok, N}, py_event_loop:run(Loop, asyncio, sleep, [0.02, N], #{}, 60_000))
            end
         || N <- lists:seq(1, 20)
        ]
    end).

system_exit_does_not_end_the_loop(_Config) ->
    with_loop(#{}, fun(Loop) ->
        called:is_error("SystemExit", "4", py_event_loop:run(Loop, called, leave_later, [4])),
        ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2]))
    end).

a_task_in_debug_mode(_Config) ->
    with_loop(#{}, fun(Loop) ->
        ?assertEqual({ok, <<"yielded">>}, py_event_loop:run(Loop, called, yield_in_debug_mode, []))
    end).

%% Previously its callback was mistaken for the first step of a task, and ran before earlier ones.
the_own_callbacks_of_a_task_factory_run(_Config) ->
    with_loop(#{}, fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, called, count_turns, []),
        {ok, {Made, Ran}} = py_event_loop:run(Loop, called, add_later, [1, 2]),
        {ok, _} = py_event_loop:run(Loop, called, count_no_more, []),
        eventually:is({ok, 3}, fun() -> py_event_loop:run(Loop, called, add_later, [1, 2]) end),
        ?assert(Ran > Made, {Made, Ran})
    end).

many_loops(Config) ->
    Loops = [Loop || _ <- lists:seq(1, 30), {ok, Loop} <- [start_link(#{})]],
    Threads = [py_event_loop:run(Loop, called, loop_thread, []) || Loop <- Loops],
    Different = length(lists:usort(Threads)),
    case proplists:get_value(neighbours, Config) of
        undefined -> ?assertEqual(30, Different);
        %% A thread that happens to be busy gets no more loops.
        _ -> ?assert(Different =< 4)
    end,
    ?assertEqual(Threads, [py_event_loop:run(Loop, called, loop_thread, []) || Loop <- Loops]),
    _ = [?assertEqual({ok, []}, py_event_loop:stop(Loop)) || Loop <- Loops].

%% A program that calls loop.stop() ends the process, and its callers get an error.
a_loop_that_stops_itself(_Config) ->
    {ok, Loop} = start_link(#{}),
    Monitor = monitor(process, Loop),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    _ = py_event_loop:run(Loop, called, stop_loop, []),
    receive
        {'DOWN', Monitor, _, _, normal} -> ok
    end,
    ?assertEqual({error, cancelled}, py:await(Task)).

callbacks_that_wait_run_before_the_end(_Config) ->
    {ok, Loop} = start_link(#{}),
    Monitor = monitor(process, Loop),
    {ok, none} = py_event_loop:run(Loop, called, stop_loop_and_note, [<<"ran">>]),
    receive
        {'DOWN', Monitor, _, _, normal} -> ok
    end,
    ?assertEqual({ok, [<<"ran">>]}, py:call(called, take_events, [])).

%% Callers of a known coroutine function got `not_started'.
the_default_loop_ends_in_order(_Config) ->
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])),
    {ok, Task} = py:submit(called, end_slowly, [<<"x">>, 0.5]),
    called:has_noted(<<"x started">>),
    {Stopping, Monitor} = spawn_monitor(fun() ->
        {ok, []} = py_event_loop:stop(py_default_loop)
    end),
    eventually:is({error, loop_down}, fun() -> py:call(called, add_later, [1, 2]) end),
    receive
        {'DOWN', Monitor, process, Stopping, Reason} -> ?assertEqual(normal, Reason)
    end,
    ?assertEqual({error, cancelled}, py:await(Task)),
    eventually:is({ok, 3}, fun() -> py:call(called, add_later, [1, 2]) end).

%% The pieces

start_link(Options) ->
    py_event_loop:start_link(Options#{thread => persistent_term:get(?MODULE)}).

child_spec(Options) ->
    py_event_loop:child_spec(Options#{thread => persistent_term:get(?MODULE)}).

with_loop(Options, Fun) ->
    {ok, Loop} = start_link(Options),
    Fun(Loop),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

queued(Loop) ->
    {ok, #{queued := Queued}} = py_event_loop:info(Loop),
    Queued.

flush_exits() ->
    receive
        {'EXIT', _, _} -> flush_exits()
    after 0 -> ok
    end.
