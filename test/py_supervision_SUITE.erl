%% @doc What survives what?
%%
%% Runs the table of docs/supervision.md: a row has a test of the same name, in words. The rows
%% whose deaths only Python code would notice are in py_supervision_of_python_SUITE.
-module(py_supervision_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([every_row_has_a_test/1]).
-export([
    the_router/1,
    the_router_ten_times_in_ten_seconds/1,
    the_router_while_100_loops_wait/1,
    a_router_started_by_hand/1,
    a_router_started_by_hand_with_a_name/1,
    a_router_started_by_hand_while_the_application_is_stopped/1,
    a_worker/1,
    a_worker_below_the_supervisor/1,
    the_worker_supervisor/1,
    a_loop_of_callbacks/1,
    the_receiver_of_callbacks/1,
    a_process_that_waits_in_poll_events/1,
    a_process_that_waits_in_poll_events_without_a_router/1,
    the_process_that_made_a_loop/1,
    the_top_supervisor/1,
    the_application/1
]).

all() ->
    [every_row_has_a_test | tests()].

tests() -> cases:of_suite(?MODULE, [every_row_has_a_test]).

init_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    leak_check:begin_case(Config).

end_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    Verdict = leak_check:end_case(Config),
    %% A new supervisor begins to count restarts at zero, so that the next case may kill processes, too.
    ok = application:stop(erlang_loop),
    Verdict.

every_row_has_a_test(_Config) ->
    Table = project:section("docs/supervision.md", "## If this dies"),
    Rows = [string:trim(Row) || "| " ++ Line <- string:split(Table, "\n", all),
                                [Row | _] <- [string:split(Line, "|")]],
    [_Heading | Deaths] = Rows,
    Names = [re:replace(Row, "\\W", "_", [global, {return, list}]) || Row <- Deaths],
    Tests = tests() ++ py_supervision_of_python_SUITE:all() ++ py_cluster_SUITE:deaths(),
    ?assertEqual(lists:sort([atom_to_list(Case) || Case <- Tests]), lists:sort(Names)).

%% Routers

the_router(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 100, 2),
        New = mortal:kill_registered(py_event_router),
        eventually:is(New, fun() -> loop_events:keeper(Loop) end),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ok = loop_events:await(Loop, [{1, read}, {2, timer}])
    end).

the_router_ten_times_in_ten_seconds(_Config) ->
    Top = whereis(erlang_loop_sup),
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        _ = [
            begin
                _ = mortal:kill_registered(py_event_router),
                ok = py_nif:write_test_fd(Write, <<"x">>),
                ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
                ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
                {ok, <<"x">>} = py_nif:read_test_fd(Read, 10)
            end
         || _ <- lists:seq(1, 10)
        ],
        ?assertEqual(Top, whereis(erlang_loop_sup))
    end).

the_router_while_100_loops_wait(_Config) ->
    Self = self(),
    Waiting = [
        spawn_link(fun() ->
            with:pipe(fun(Loop, Read, Write) ->
                {ok, _} = py_nif:add_reader(Loop, Read, 1),
                {ok, _} = py_nif:call_later(Loop, 400, 2),
                Self ! {self(), Write},
                %% The first wait is the one in which the router dies.
                Self ! {self(), py_nif:poll_events(Loop, infinity) > 0},
                Self ! {self(), loop_events:await(Loop, [{1, read}, {2, timer}])}
            end)
        end)
     || _ <- lists:seq(1, 100)
    ],
    Writes = [loop_events:answer(Pid) || Pid <- Waiting],
    _ = [eventually:is({status, waiting}, fun() -> process_info(P, status) end) || P <- Waiting],
    _ = mortal:kill_registered(py_event_router),
    _ = [ok = py_nif:write_test_fd(Write, <<"x">>) || Write <- Writes],
    Answers = [{loop_events:answer(Pid), loop_events:answer(Pid)} || Pid <- Waiting],
    ?assertEqual([{true, ok}], lists:usort(Answers)).

a_router_started_by_hand(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        Router = own_router(Loop, []),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 60, 2),
        mortal:kill(Router),
        eventually:is(whereis(py_event_router), fun() -> loop_events:keeper(Loop) end),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ok = loop_events:await(Loop, [{1, read}, {2, timer}])
    end).

a_router_started_by_hand_with_a_name(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        First = own_router(Loop, [{name, by_hand}]),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        mortal:kill(First),
        ?assertEqual(undefined, whereis(by_hand)),
        eventually:is(whereis(py_event_router), fun() -> loop_events:keeper(Loop) end),
        Second = own_router(Loop, [{name, by_hand}]),
        ?assertEqual(Second, whereis(by_hand)),
        ?assertEqual(Second, loop_events:keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ok = py_event_router:stop(by_hand)
    end).

a_router_started_by_hand_while_the_application_is_stopped(_Config) ->
    ok = application:stop(erlang_loop),
    with:pipe(fun(Loop, Read, Write) ->
        Router = own_router(Loop, []),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        Waiting = loop_events:waiting(Loop),
        mortal:kill(Router),
        eventually:is(Waiting, fun() -> loop_events:keeper(Loop) end),
        {ok, _} = application:ensure_all_started(erlang_loop),
        ?assertEqual(whereis(py_event_router), loop_events:keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, loop_events:answer(Waiting))
    end).

%% Workers

a_worker(_Config) ->
    with:pipe(fun(Other, Read, Write) ->
        {ok, _} = py_nif:add_reader(Other, Read, 1),
        {ok, Loop} = py_nif:event_loop_new(),
        {ok, Worker} = py_event_worker:start_link(mine, Loop),
        unlink(Worker),
        Waiting = loop_events:waiting(Loop),
        mortal:kill(Worker),
        ?assertEqual({error, closed}, loop_events:answer(Waiting)),
        ?assertEqual({error, closed}, py_nif:add_reader(Loop, Read, 1)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Other, 5000))
    end).

a_worker_below_the_supervisor(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, Worker} = py_event_worker_sup:start_worker(Loop),
    ?assertMatch([{_, Worker, worker, _}], supervisor:which_children(py_event_worker_sup)),
    ok = log_watch:start(),
    %% An error in the worker itself: fd_ready/1 is given something that is not a poll set.
    Worker ! {select, not_a_poll_set, undefined, ready_input},
    eventually:is({error, closed}, fun() -> py_nif:get_pending(Loop) end),
    eventually:is(true, fun() ->
        lists:any(
            fun(Text) -> string:find(Text, "py_event_worker") =/= nomatch end, log_watch:texts()
        )
    end),
    ok = log_watch:stop(),
    eventually:is([], fun() -> supervisor:which_children(py_event_worker_sup) end).

the_worker_supervisor(_Config) ->
    Router = whereis(py_event_router),
    with:pipe(fun(Shared, Read, Write) ->
        {ok, _} = py_nif:add_reader(Shared, Read, 1),
        Loops = [Loop || _ <- lists:seq(1, 5), {ok, Loop} <- [py_nif:event_loop_new()]],
        _ = [{ok, _} = py_event_worker_sup:start_worker(Loop) || Loop <- Loops],
        New = mortal:kill_registered(py_event_worker_sup),
        ?assertNotEqual(undefined, New),
        eventually:is([{error, closed}], fun() ->
            lists:usort([py_nif:get_pending(Loop) || Loop <- Loops])
        end),
        {ok, Fresh} = py_nif:event_loop_new(),
        {ok, Worker} = py_event_worker_sup:start_worker(Fresh),
        ?assertEqual(Worker, loop_events:keeper(Fresh)),
        ok = py_event_worker:stop(Worker),
        ?assertEqual(Router, whereis(py_event_router)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Shared, 5000))
    end).

%% Users

a_loop_of_callbacks(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{callbacks => self()}),
    true = unlink(Loop),
    {ok, Ref} = py_event_loop:loop_ref(Loop),
    {ok, _} = py_nif:call_later(Ref, 50, 1),
    ok = mortal:kill(Loop),
    eventually:is({error, closed}, fun() -> py_nif:event_loop_info(Ref) end),
    ?assertEqual({error, closed}, py_nif:call_later(Ref, 1, 2)),
    ?assertEqual({error, loop_down}, py_event_loop:loop_ref(Loop)),
    %% Longer than its timer.
    receive
        {py_event, _, _, _} = Event -> error({came, Event})
    after 100 -> ok
    end.

the_receiver_of_callbacks(_Config) ->
    Receiver = spawn(fun() -> receive after infinity -> ok end end),
    {ok, Loop} = py_event_loop:start_link(#{callbacks => Receiver}),
    {ok, Ref} = py_event_loop:loop_ref(Loop),
    Monitor = monitor(process, Loop),
    ok = mortal:kill(Receiver),
    receive
        {'DOWN', Monitor, process, Loop, Reason} -> ?assertEqual(normal, Reason)
    after 10_000 -> error(loop_stays)
    end,
    ?assertEqual({error, closed}, py_nif:event_loop_info(Ref)).

a_process_that_waits_in_poll_events(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        One = loop_events:waiting(Loop),
        Two = loop_events:waiting(Loop),
        unlink(One),
        mortal:kill(One),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, loop_events:answer(Two)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop))
    end).

a_process_that_waits_in_poll_events_without_a_router(_Config) ->
    ok = application:stop(erlang_loop),
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        One = loop_events:waiting(Loop),
        ?assertEqual(One, loop_events:keeper(Loop)),
        Two = loop_events:waiting(Loop),
        unlink(One),
        mortal:kill(One),
        eventually:is(Two, fun() -> loop_events:keeper(Loop) end),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, loop_events:answer(Two)),
        eventually:is(undefined, fun() -> loop_events:keeper(Loop) end)
    end).

the_process_that_made_a_loop(_Config) ->
    Before = py_nif:event_loop_count(),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Loop} = py_nif:event_loop_new(),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        _ = py_nif:poll_events(Loop, infinity)
    end),
    eventually:is(Before + 1, fun py_nif:event_loop_count/0),
    exit(Pid, kill),
    receive
        {'DOWN', Monitor, _, _, killed} -> ok
    end,
    eventually:is(Before, fun py_nif:event_loop_count/0),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assertEqual({ok, <<"x">>}, py_nif:read_test_fd(Read, 10)),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]].

%% The whole

the_top_supervisor(_Config) ->
    after_the_end(fun() ->
        mortal:kill(whereis(erlang_loop_sup)),
        eventually:is(false, fun is_running/0)
    end).

the_application(_Config) ->
    after_the_end(fun() -> ok = application:stop(erlang_loop) end).

after_the_end(End) ->
    {ok, Default} = py_event_loop:get_loop(),
    {ok, Isolated} = py_nif:event_loop_new(),
    {ok, _} = py_event_worker_sup:start_worker(Isolated),
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 100, 2),
        Waiting = loop_events:waiting(Loop),
        End(),
        eventually:is({error, not_started}, fun py_event_loop:get_loop/0),
        ?assertEqual({error, closed}, py_nif:get_pending(Default)),
        eventually:is({error, closed}, fun() -> py_nif:get_pending(Isolated) end),
        ?assertEqual(1, loop_events:answer(Waiting)),
        ?assertEqual([{2, timer}], py_nif:get_pending(Loop)),
        {ok, _} = application:ensure_all_started(erlang_loop),
        ?assertMatch({ok, _}, py_event_loop:get_loop()),
        ?assertEqual(whereis(py_event_router), loop_events:keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000))
    end).

%% The pieces

is_running() ->
    lists:keymember(erlang_loop, 1, application:which_applications()).

own_router(Loop, Options) ->
    {ok, Router} = py_event_router:start_link(Loop, Options),
    unlink(Router),
    Router.
