%% @doc Does anything leak?
%%
%% References are dropped in every state a loop can be in; fds, loops and threads must be back
%% afterwards without any explicit destroy.
-module(py_garbage_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_dropped_loop_is_closed/1,
    a_dropped_loop_that_watches_is_closed/1,
    a_dropped_loop_with_a_timer_of_an_hour_is_closed/1,
    a_dropped_loop_without_a_router_is_closed/1,
    a_dropped_loop_whose_router_was_killed_is_closed/1,
    a_loop_lives_as_long_as_its_own_router/1,
    dropped_references_end_nothing/1,
    a_destroyed_loop_frees_its_fds_though_referenced/1,
    a_killed_waiter_leaves_nothing/1,
    ten_thousand_loops/1,
    many_short_waits/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> started:begin_suite(Config).
end_per_suite(_Config) -> started:end_suite().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

%% Most cases here are about this check.
end_per_testcase(_Case, Config) -> started:end_case(Config).

a_dropped_loop_is_closed(_Config) ->
    dropped(fun(_Loop) -> ok end).

a_dropped_loop_that_watches_is_closed(_Config) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    dropped(fun(Loop) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:add_writer(Loop, Write, 2),
        _ = py_nif:poll_events(Loop, 10)
    end),
    %% The fds are the caller's.
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]].

a_dropped_loop_with_a_timer_of_an_hour_is_closed(_Config) ->
    dropped(fun(Loop) -> {ok, _} = py_nif:call_later(Loop, 3_600_000, 1) end),
    %% Nor does the router keep a timer for it.
    eventually:is([], fun router_timers/0).

a_dropped_loop_without_a_router_is_closed(_Config) ->
    ok = application:stop(erlang_loop),
    dropped(fun(Loop) ->
        {ok, _} = py_nif:call_later(Loop, 3_600_000, 1),
        _ = py_nif:poll_events(Loop, 5)
    end).

a_dropped_loop_whose_router_was_killed_is_closed(_Config) ->
    dropped(fun(Loop) ->
        {Router, Monitor} = spawn_monitor(fun() -> timer:sleep(infinity) end),
        ok = py_nif:event_loop_set_router(Loop, Router),
        {ok, _} = py_nif:call_later(Loop, 3_600_000, 1),
        exit(Router, kill),
        receive
            {'DOWN', Monitor, _, _, _} -> ok
        end
    end).

a_loop_lives_as_long_as_its_own_router(_Config) ->
    Before = py_nif:event_loop_count(),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Loop} = py_nif:event_loop_new(),
        {ok, Router} = py_event_router:start_link(Loop),
        unlink(Router),
        Self ! {router, Router}
    end),
    receive
        {'DOWN', Monitor, _, Pid, normal} -> ok
    end,
    Router =
        receive
            {router, R} -> R
        end,
    erlang:garbage_collect(Router),
    ?assertEqual(Before + 1, py_nif:event_loop_count()),
    ok = py_event_router:stop(Router),
    eventually:is(Before, fun py_nif:event_loop_count/0).

dropped_references_end_nothing(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    in_process(fun() ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 20, 2)
    end),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    eventually:is([{1, read}, {2, timer}], fun() ->
        lists:usort([{1, read} | py_nif:get_pending(Loop)])
    end),
    ok = py_nif:event_loop_destroy(Loop),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]].

a_destroyed_loop_frees_its_fds_though_referenced(_Config) ->
    Before = leak_check:snapshot(),
    Loops = [Loop || _ <- lists:seq(1, 100), {ok, Loop} <- [py_nif:event_loop_new()]],
    _ = [{ok, _} = py_nif:call_later(Loop, 5, 1) || Loop <- Loops],
    _ = [ok = py_nif:event_loop_destroy(Loop) || Loop <- Loops],
    ok = leak_check:back_to(Before),
    ?assertEqual([{error, closed}], lists:usort([py_nif:get_pending(Loop) || Loop <- Loops])).

a_killed_waiter_leaves_nothing(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    _ = [
        begin
            {Pid, Monitor} = spawn_monitor(fun() -> py_nif:poll_events(Loop, infinity) end),
            eventually:is({status, waiting}, fun() -> process_info(Pid, status) end),
            exit(Pid, kill),
            receive
                {'DOWN', Monitor, _, _, killed} -> ok
            end
        end
     || _ <- lists:seq(1, 20)
    ],
    {ok, _} = py_nif:call_later(Loop, 5, 1),
    ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
    ok = py_nif:event_loop_destroy(Loop).

%% In rounds as large as the limit of fds allows.
ten_thousand_loops(_Config) ->
    Round = min(5_000, (max_fds() - 500) div 3),
    Rounds = (10_000 + Round - 1) div Round,
    %% The first round pays for the growth of the kernel's table of fds.
    Figures = [round_of_loops(Round) || _ <- lists:seq(1, Rounds)],
    ct:pal(
        "~p loops, ~p at a time, for each round: us to create one, us to destroy one, "
        "resident bytes of one~n~p",
        [Round * Rounds, Round, Figures]
    ).

round_of_loops(Count) ->
    Memory = leak_check:resident_bytes(),
    {Created, Loops} = timer:tc(fun() ->
        [Loop || _ <- lists:seq(1, Count), {ok, Loop} <- [py_nif:event_loop_new()]]
    end),
    ?assertEqual(Count, length(Loops)),
    Each = (leak_check:resident_bytes() - Memory) div Count,
    {Destroyed, _} = timer:tc(fun() -> [ok = py_nif:event_loop_destroy(L) || L <- Loops] end),
    {Created / Count, Destroyed / Count, Each}.

many_short_waits(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Wait = fun() -> [py_nif:poll_events(Loop, 0) || _ <- lists:seq(1, 50_000)] end,
    _ = Wait(),
    Before = leak_check:resident_bytes(),
    _ = Wait(),
    erlang:garbage_collect(),
    Grown = leak_check:resident_bytes() - Before,
    ?assert(Grown < 8_000_000, Grown),
    ok = py_nif:event_loop_destroy(Loop).

%% The pieces

%% Ten loops in a process that ends without destroying them.
dropped(Fun) ->
    Before = py_nif:event_loop_count(),
    in_process(fun() ->
        Loops = [Loop || _ <- lists:seq(1, 10), {ok, Loop} <- [py_nif:event_loop_new()]],
        ?assertEqual(Before + 10, py_nif:event_loop_count()),
        lists:foreach(Fun, Loops)
    end),
    eventually:is(Before, fun py_nif:event_loop_count/0).

in_process(Fun) ->
    {Pid, Monitor} = spawn_monitor(Fun),
    receive
        {'DOWN', Monitor, _, Pid, Reason} -> ?assertEqual(normal, Reason)
    end.

%% In OTP the state of a gen_server is what sys:get_state/1 answers; its last field are timers.
router_timers() ->
    State = sys:get_state(py_event_router),
    maps:keys(element(tuple_size(State), State)).

max_fds() ->
    proplists:get_value(max_fds, lists:flatten(erlang:system_info(check_io))).
