%% @doc Do the loops of a pool share the work, and replace one that is gone?
-module(py_event_loop_pool_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    calls_are_spread/1,
    tasks_and_streams_are_spread/1,
    a_blocked_loop_gets_no_requests/1,
    a_killed_loop_is_replaced/1,
    calls_go_on_while_loops_are_killed/1,
    a_request_that_was_started_is_not_repeated/1,
    a_full_loop_is_passed_over/1,
    a_full_pool_is_overload/1,
    info_shows_the_loops/1,
    options_reach_the_loops/1,
    bad_options_raise/1,
    init_code_that_fails/1,
    a_pool_that_is_not_there/1,
    stop_ends_all_loops_at_once/1,
    stop_reports_what_does_not_end/1,
    stop_twice_is_noproc/1,
    a_supervisor_starts_it_again/1,
    a_pool_of_one/1
]).
-export([init/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE, [init]).

init_per_suite(Config) -> streams:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

%% Sharing

calls_are_spread(_Config) ->
    with_pool(#{size => 4}, fun(Pool) ->
        Marks = [py_event_loop_pool:run(Pool, called, mark_loop, []) || _ <- lists:seq(1, 8)],
        ?assertEqual(4, length([new || {ok, false} <- Marks])),
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add_later, [1, 2])),
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add_later, [1], #{b => 2})),
        %% Plain functions too; they run on call threads.
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add, [1, 2], #{}, 60_000)),
        called:is_error("ValueError", "x", py_event_loop_pool:run(Pool, called, fail_later, [<<"x">>])),
        ?assertEqual(
            {error, timeout}, py_event_loop_pool:run(Pool, asyncio, sleep, [60], #{}, 10)
        )
    end).

tasks_and_streams_are_spread(_Config) ->
    with_pool(#{size => 4}, fun(Pool) ->
        Tasks = [submit(Pool, called, wait_forever, [<<"x">>]) || _ <- lists:seq(1, 40)],
        ?assertEqual([10, 10, 10, 10], unanswered(Pool)),
        _ = [ok = py:cancel(Task) || Task <- Tasks],
        _ = [?assertEqual({error, cancelled}, py:await(Task)) || Task <- Tasks],
        %% A request that is cancelled before it begins gets its reply before its loop takes it.
        eventually:is([0, 0, 0, 0], fun() -> unanswered(Pool) end),
        Streams = [
            Stream
         || _ <- lists:seq(1, 8),
            {ok, Stream} <- [py_event_loop_pool:stream(Pool, streamed, waits, [<<"x">>])]
        ],
        ?assertEqual([2, 2, 2, 2], unanswered(Pool)),
        _ = [ok = py:cancel(Stream) || Stream <- Streams],
        eventually:is([0, 0, 0, 0], fun() -> unanswered(Pool) end)
    end).

a_blocked_loop_gets_no_requests(_Config) ->
    with_pool(#{size => 3}, fun(Pool) ->
        {ok, _} = py:call(called, hold, []),
        Stuck = submit(Pool, called, block_loop, []),
        _ = [
            ?assertEqual({ok, N}, py_event_loop_pool:run(Pool, called, add_later, [N, 0]))
         || N <- lists:seq(1, 30)
        ],
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Stuck))
    end).

%% Faults

a_killed_loop_is_replaced(_Config) ->
    Init = <<"import called; called.note('init')">>,
    with_pool(#{size => 2, init => Init}, fun(Pool) ->
        {ok, [#{name := Name, pid := Old}, #{pid := Other}]} = py_event_loop_pool:info(Pool),
        Tasks = [submit(Pool, called, wait_forever, [<<"x">>]) || _ <- [1, 2]],
        {ok, _} = py:call(called, take_events, []),
        New = mortal:kill_registered(Name),
        ?assertNotEqual(Old, New),
        called:has_noted(<<"init">>),
        ?assertMatch({ok, [#{pid := New}, #{pid := Other}]}, py_event_loop_pool:info(Pool)),
        %% One of the two tasks ran on it; the other continues.
        receive
            {py_reply, _, Lost} -> ?assertEqual({error, loop_down}, Lost)
        end,
        ?assertEqual([0, 1], unanswered(Pool)),
        _ = [py:cancel(Task) || Task <- Tasks],
        eventually:is([0, 0], fun() -> unanswered(Pool) end),
        _ = [py:await(Task) || Task <- Tasks]
    end).

calls_go_on_while_loops_are_killed(_Config) ->
    with_pool(#{size => 4, intensity => 100}, fun(Pool) ->
        Self = self(),
        Callers = [
            spawn_link(fun() ->
                Answers = [
                    py_event_loop_pool:run(Pool, called, add_later, [N, 0])
                 || N <- lists:seq(1, 100)
                ],
                Self ! {self(), Answers}
            end)
         || _ <- lists:seq(1, 10)
        ],
        _ = [
            mortal:kill_registered(Name)
         || _ <- [1, 2, 3],
            #{name := Name} <- element(2, py_event_loop_pool:info(Pool))
        ],
        Answers = lists:append([
            receive
                {Caller, Got} -> Got
            end
         || Caller <- Callers
        ]),
        %% Only what was on a loop that died is lost.
        ?assertEqual([], [Bad || {error, Bad} <- Answers, Bad =/= loop_down]),
        ?assert(length([ok || {ok, _} <- Answers]) > 500),
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add_later, [1, 2]))
    end).

%% Only requests that a loop refuses go to another one.
a_request_that_was_started_is_not_repeated(_Config) ->
    with_pool(#{size => 2}, fun(Pool) ->
        {ok, _} = py:call(called, take_events, []),
        Self = self(),
        Run = fun() ->
            Self ! {replied, py_event_loop_pool:run(Pool, called, wait_forever, [<<"x">>])}
        end,
        _ = spawn_link(Run),
        called:has_noted(<<"x started">>),
        {ok, Loops} = py_event_loop_pool:info(Pool),
        [Name] = [Name || #{name := Name, unanswered := 1} <- Loops],
        _ = mortal:kill_registered(Name),
        receive
            {replied, Reply} -> ?assertEqual({error, loop_down}, Reply)
        end,
        called:has_noted(<<"x cancelled">>),
        ?assertEqual([0, 0], unanswered(Pool)),
        ?assertEqual({ok, []}, py:call(called, take_events, []))
    end).

%% Limits

a_full_loop_is_passed_over(_Config) ->
    with_pool(#{size => 2, max_queue => 5}, fun(Pool) ->
        {ok, [#{name := First}, #{name := Second}]} = py_event_loop_pool:info(Pool),
        {ok, _} = py:call(called, hold, []),
        {ok, Stuck} = py_event_loop:submit(First, called, block_loop, []),
        eventually:is([0, 0], fun() -> queued(Pool) end),
        Full = [element(2, py_event_loop:submit(First, called, add_later, [1, 2])) || _ <- lists:seq(1, 5)],
        ?assertEqual({error, overload}, py_event_loop:submit(First, called, add_later, [1, 2])),
        %% More requests than the first loop has, so that the first one is tried first.
        Busy = [
            begin
                {ok, Task} = py_event_loop:submit(Second, called, wait_forever, [<<"x">>]),
                eventually:is([5, 0], fun() -> queued(Pool) end),
                Task
            end
         || _ <- lists:seq(1, 20)
        ],
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add_later, [1, 2])),
        _ = [ok = py:cancel(Task) || Task <- Busy],
        {ok, _} = py:call(called, release, []),
        _ = [{error, cancelled} = py:await(Task) || Task <- Busy],
        _ = [{ok, 3} = py:await(Task) || Task <- Full],
        {ok, <<"released">>} = py:await(Stuck)
    end).

a_full_pool_is_overload(_Config) ->
    with_pool(#{size => 2, max_queue => 5}, fun(Pool) ->
        {ok, _} = py:call(called, hold, []),
        Stuck = [submit(Pool, called, block_loop, []) || _ <- [1, 2]],
        eventually:is([0, 0], fun() -> queued(Pool) end),
        Tasks = [submit(Pool, called, add_later, [1, 2]) || _ <- lists:seq(1, 10)],
        ?assertEqual([5, 5], queued(Pool)),
        ?assertEqual({error, overload}, py_event_loop_pool:submit(Pool, called, add_later, [1, 2])),
        ?assertEqual({error, overload}, py_event_loop_pool:run(Pool, called, add_later, [1, 2])),
        ?assertEqual({error, overload}, py_event_loop_pool:stream(Pool, streamed, count, [1])),
        {ok, _} = py:call(called, release, []),
        _ = [{ok, 3} = py:await(Task) || Task <- Tasks],
        _ = [{ok, <<"released">>} = py:await(Task) || Task <- Stuck]
    end).

%% What is to be seen

info_shows_the_loops(_Config) ->
    with_pool(#{size => 2}, fun(Pool) ->
        {ok, Loops} = py_event_loop_pool:info(Pool),
        ?assertMatch(
            [
                #{name := my_pool_1, pid := _, queued := 0, unanswered := 0},
                #{name := my_pool_2, pid := _, queued := 0, unanswered := 0}
            ],
            Loops
        ),
        Known = py_event_loop:which_loops(),
        _ = [?assert(lists:member({N, P}, Known)) || #{name := N, pid := P} <- Loops]
    end).

options_reach_the_loops(_Config) ->
    Init = <<"import called; called.note('init')">>,
    with_pool(#{size => 3, init => Init}, fun(_) ->
        {ok, Events} = py:call(called, take_events, []),
        ?assertEqual([<<"init">>, <<"init">>, <<"init">>], Events)
    end).

bad_options_raise(_Config) ->
    _ = process_flag(trap_exit, true),
    _ = [
        ?assertError({bad_option, _, _}, py_event_loop_pool:start_link(Options))
     || Options <- [
            #{}, #{name => "x"}, #{name => undefined}, #{name => my_pool, size => 0},
            #{name => my_pool, intensity => many}, #{name => my_pool, period => 0}, nothing
        ]
    ],
    %% What the loops do not take.
    ?assertMatch(
        {error, {bad_option, {no_such, 1}, "no such option; the options are " ++ _}},
        py_event_loop_pool:start_link(#{name => my_pool, no_such => 1})
    ),
    ?assertEqual(undefined, whereis(my_pool)),
    ?assertError(badarg, py_event_loop_pool:run(my_pool, asyncio, sleep, [0], #{}, -1)),
    flush_exits().

init_code_that_fails(_Config) ->
    _ = process_flag(trap_exit, true),
    Init = <<"raise ValueError('on purpose')">>,
    ?assertMatch(
        {error, {init_failed, #{message := <<"on purpose">>}}},
        py_event_loop_pool:start_link(#{name => my_pool, init => Init})
    ),
    ?assertEqual(undefined, whereis(my_pool)),
    flush_exits().

a_pool_that_is_not_there(_Config) ->
    NoPool = {error, {no_pool, no_such_pool}},
    ?assertEqual(NoPool, py_event_loop_pool:run(no_such_pool, called, add, [1, 2])),
    ?assertEqual(NoPool, py_event_loop_pool:submit(no_such_pool, called, add, [1, 2])),
    ?assertEqual(NoPool, py_event_loop_pool:stream(no_such_pool, streamed, count, [1])),
    ?assertEqual({error, noproc}, py_event_loop_pool:info(no_such_pool)),
    ?assertEqual({error, noproc}, py_event_loop_pool:stop(no_such_pool)).

%% The end

%% One after another, they would wait for each other until `patience' is over.
stop_ends_all_loops_at_once(_Config) ->
    {ok, _} = py:call(called, none_arrived, []),
    {ok, _} = py_event_loop_pool:start_link(#{name => my_pool, size => 3, patience => 60_000}),
    Tasks = [submit(my_pool, called, meet_at_the_end, [<<"x">>, 3]) || _ <- [1, 2, 3]],
    ?assertEqual([1, 1, 1], unanswered(my_pool)),
    eventually:is([1, 1, 1], fun() -> [tasks_of(Name) || Name <- names(my_pool)] end),
    ?assertEqual(ok, py_event_loop_pool:stop(my_pool)),
    {ok, Events} = py:call(called, take_events, []),
    ?assertEqual(3, length([met || <<"x met">> <- Events])),
    _ = [?assertEqual({error, cancelled}, py:await(Task)) || Task <- Tasks],
    ?assertEqual({error, noproc}, py_event_loop_pool:info(my_pool)),
    ?assertEqual({error, {no_pool, my_pool}}, py_event_loop_pool:run(my_pool, called, add, [1, 2])).

stop_reports_what_does_not_end(_Config) ->
    ok = log_watch:start(),
    {ok, _} = py_event_loop_pool:start_link(#{name => my_pool, size => 2, patience => 100}),
    Task = submit(my_pool, called, refuse_to_end, []),
    eventually:is(1, fun() -> lists:sum([tasks_of(Name) || Name <- names(my_pool)]) end),
    ?assertEqual(ok, py_event_loop_pool:stop(my_pool)),
    called:is_logged("1 tasks did not end within 100 ms"),
    called:is_logged("refuse_to_end"),
    ?assertEqual({error, loop_down}, py:await(Task)),
    ok = log_watch:stop().

stop_twice_is_noproc(_Config) ->
    {ok, _} = py_event_loop_pool:start_link(#{name => my_pool}),
    ?assertEqual(ok, py_event_loop_pool:stop(my_pool)),
    ?assertEqual({error, noproc}, py_event_loop_pool:stop(my_pool)).

a_supervisor_starts_it_again(_Config) ->
    Spec = py_event_loop_pool:child_spec(#{name => my_pool, size => 2, intensity => 0}),
    {ok, Sup} = supervisor:start_link(?MODULE, Spec),
    Old = whereis(my_pool),
    ?assertEqual({ok, 3}, py_event_loop_pool:run(my_pool, called, add_later, [1, 2])),
    %% No loop may be replaced: the pool ends with it.
    ok = mortal:kill(whereis(my_pool_1)),
    eventually:is(true, fun() -> is_pid(whereis(my_pool)) andalso whereis(my_pool) =/= Old end),
    eventually:is({ok, 3}, fun() -> py_event_loop_pool:run(my_pool, called, add_later, [1, 2]) end),
    ?assertMatch({ok, [_, _]}, py_event_loop_pool:info(my_pool)),
    unlink(Sup),
    exit(Sup, shutdown),
    eventually:is(undefined, fun() -> whereis(my_pool_1) end),
    eventually:is({error, noproc}, fun() -> py_event_loop_pool:info(my_pool) end).

init(Spec) ->
    {ok, {#{}, [Spec]}}.

a_pool_of_one(_Config) ->
    with_pool(#{size => 1}, fun(Pool) ->
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add_later, [1, 2])),
        ?assertEqual({ok, 3}, py_event_loop_pool:run(Pool, called, add_later, [1, 2]))
    end).

%% The pieces

with_pool(Options, Fun) ->
    {ok, Pid} = py_event_loop_pool:start_link(Options#{name => my_pool}),
    ?assertEqual(Pid, whereis(my_pool)),
    Fun(my_pool),
    ?assertEqual(ok, py_event_loop_pool:stop(my_pool)).

submit(Pool, Module, Function, Args) ->
    {ok, Task} = py_event_loop_pool:submit(Pool, Module, Function, Args),
    Task.

unanswered(Pool) ->
    [N || #{unanswered := N} <- element(2, py_event_loop_pool:info(Pool))].

queued(Pool) ->
    [N || #{queued := N} <- element(2, py_event_loop_pool:info(Pool))].

names(Pool) ->
    [Name || #{name := Name} <- element(2, py_event_loop_pool:info(Pool))].

tasks_of(Loop) ->
    {ok, Tasks} = py_event_loop:tasks(Loop),
    length(Tasks).

flush_exits() ->
    receive
        {'EXIT', _, _} -> flush_exits()
    after 0 -> ok
    end.
