%% @doc What survives what?
%%
%% Runs the table of docs/supervision.md: a row has a test of the same name, in words.
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
    the_signals_process/1,
    the_interpreter_process/1,
    the_calls_process/1,
    the_output_process/1,
    the_logger_process/1,
    the_questions_process/1,
    a_process_that_answers_a_question/1,
    an_actor/1,
    the_supervisor_of_actors/1,
    the_watchdog/1,
    the_default_loop/1,
    the_supervisor_of_the_default_loop/1,
    a_loop_started_from_Erlang/1,
    a_loop_of_a_pool/1,
    a_pool/1,
    a_process_that_called_Python/1,
    the_consumer_of_a_stream/1,
    a_loop_of_callbacks/1,
    the_receiver_of_callbacks/1,
    a_process_that_waits_in_poll_events/1,
    a_process_that_waits_in_poll_events_without_a_router/1,
    the_process_that_made_a_loop/1,
    the_router_while_a_Python_thread_sleeps/1,
    the_top_supervisor/1,
    the_application/1
]).
%% Called in another node.
-export([start_and_kill_interpreter/0, kill_signals_process/0, kill_router_of_sleepers/0]).
-export([kill_output/0, kill_logger/0]).
-export([kill_questions/0, kill_answerer/0, kill_actor/0, kill_actors/0]).
%% Called by Python.
-export([say_and_wait/2]).
-export([kill_calls/0, kill_watchdog/0, kill_default_loop/0, kill_loop_supervisor/0, kill_loop/0]).
-export([kill_caller/0, kill_loop_of_pool/0, kill_pool/0, kill_consumer/0]).

all() ->
    [every_row_has_a_test | tests()].

tests() ->
    NoTests = [module_info, every_row_has_a_test],
    [Case || {Case, 1} <- ?MODULE:module_info(exports), not lists:member(Case, NoTests)].

init_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    leak_check:begin_case(Config).

end_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    Verdict = leak_check:end_case(Config),
    %% With it go the counts of the supervisor, so that the next case may kill as it likes.
    ok = application:stop(erlang_loop),
    Verdict.

every_row_has_a_test(_Config) ->
    Table = project:section("docs/supervision.md", "## If this dies"),
    Rows = [string:trim(Row) || "| " ++ Line <- string:split(Table, "\n", all),
                                [Row | _] <- [string:split(Line, "|")]],
    [_Heading | Deaths] = Rows,
    Names = [re:replace(Row, "\\W", "_", [global, {return, list}]) || Row <- Deaths],
    ?assertEqual(lists:sort([atom_to_list(Case) || Case <- tests()]), lists:sort(Names)).

%% Routers

the_router(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 100, 2),
        New = mortal:kill_registered(py_event_router),
        eventually:is(New, fun() -> keeper(Loop) end),
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
    Writes = [answer(Pid) || Pid <- Waiting],
    _ = [eventually:is({status, waiting}, fun() -> process_info(P, status) end) || P <- Waiting],
    _ = mortal:kill_registered(py_event_router),
    _ = [ok = py_nif:write_test_fd(Write, <<"x">>) || Write <- Writes],
    _ = [?assertEqual({true, ok}, {answer(Pid), answer(Pid)}) || Pid <- Waiting].

a_router_started_by_hand(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        Router = own_router(Loop, []),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 60, 2),
        mortal:kill(Router),
        eventually:is(whereis(py_event_router), fun() -> keeper(Loop) end),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ok = loop_events:await(Loop, [{1, read}, {2, timer}])
    end).

a_router_started_by_hand_with_a_name(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        First = own_router(Loop, [{name, by_hand}]),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        mortal:kill(First),
        ?assertEqual(undefined, whereis(by_hand)),
        eventually:is(whereis(py_event_router), fun() -> keeper(Loop) end),
        Second = own_router(Loop, [{name, by_hand}]),
        ?assertEqual(Second, whereis(by_hand)),
        ?assertEqual(Second, keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ok = py_event_router:stop(by_hand)
    end).

a_router_started_by_hand_while_the_application_is_stopped(_Config) ->
    ok = application:stop(erlang_loop),
    with:pipe(fun(Loop, Read, Write) ->
        Router = own_router(Loop, []),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        Waiting = waiting(Loop),
        mortal:kill(Router),
        eventually:is(Waiting, fun() -> keeper(Loop) end),
        {ok, _} = application:ensure_all_started(erlang_loop),
        ?assertEqual(whereis(py_event_router), keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, answer(Waiting))
    end).

%% Workers

a_worker(_Config) ->
    with:pipe(fun(Other, Read, Write) ->
        {ok, _} = py_nif:add_reader(Other, Read, 1),
        {ok, Loop} = py_nif:event_loop_new(),
        {ok, Worker} = py_event_worker:start_link(mine, Loop),
        unlink(Worker),
        Waiting = waiting(Loop),
        mortal:kill(Worker),
        ?assertEqual({error, closed}, answer(Waiting)),
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
        ?assertEqual(Worker, keeper(Fresh)),
        ok = py_event_worker:stop(Worker),
        ?assertEqual(Router, whereis(py_event_router)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Shared, 5000))
    end).

%% Python

the_router_while_a_Python_thread_sleeps(_Config) ->
    Node = other_node:start([{python_path, [project:file("test/support/python")]}]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    {ok, Took} = other_node:call(Node, ?MODULE, kill_router_of_sleepers, []),
    %% Well below the minute that it would take if somebody waited for a lost message.
    ?assert(Took >= 500 andalso Took < 5000, Took),
    ok = other_node:stop(Node).

kill_router_of_sleepers() ->
    ok = py_interpreter:ensure_started(),
    Router = whereis(py_event_router),
    1 = erlang:trace(Router, true, ['receive']),
    {Pid, Monitor} = spawn_monitor(fun() ->
        exit(py_interpreter:run(<<"node_probe">>, <<"erlang_sleep">>, [<<"500">>, <<"20">>]))
    end),
    _ = [receive {trace, Router, 'receive', {sleep, _, _}} -> ok end || _ <- lists:seq(1, 20)],
    %% Only the router has them now.
    true = garbage_collect(),
    _ = mortal:kill_registered(py_event_router),
    receive
        {'DOWN', Monitor, _, Pid, Answer} -> Answer
    end.


the_signals_process(_Config) ->
    Node = other_node:start([{python_path, [project:file("test/support/python")]}]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    ?assertEqual({ok, <<"SIGUSR1">>}, other_node:call(Node, ?MODULE, kill_signals_process, [])),
    ok = other_node:stop(Node).

kill_signals_process() ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        exit(py_interpreter:run(<<"node_probe">>, <<"wait_for_signal">>, [<<"SIGUSR1">>]))
    end),
    eventually:is([sigusr1], fun() -> element(2, py_nif:signals_wanted()) end),
    _ = mortal:kill_registered(py_signals),
    [] = os:cmd("kill -USR1 " ++ os:getpid()),
    receive
        {'DOWN', Monitor, _, Pid, Answer} -> Answer
    end.

%% In a node of its own, as Python would stay in this one.
the_interpreter_process(_Config) ->
    Node = other_node:start([{python_path, [project:file("test/support/python")]}]),
    Call = fun(M, F, A) -> other_node:call(Node, M, F, A) end,
    {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
    Kill = fun() -> Call(mortal, kill_registered, [py_interpreter]) end,
    %% While Python starts: the caller's call fails with the process, the next one waits.
    ok = Call(?MODULE, start_and_kill_interpreter, []),
    ?assertEqual(ok, Call(py_interpreter, ensure_started, [])),
    Run = fun(Function, Args) -> Call(py_interpreter, run, [<<"node_probe">>, Function, Args]) end,
    ?assertEqual({ok, undefined}, Run(<<"remember">>, [<<"it">>])),
    _ = Kill(),
    ?assertEqual({ok, <<"it">>}, Run(<<"recall">>, [])),
    ok = Call(application, stop, [erlang_loop]),
    {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
    ?assertEqual({ok, <<"it">>}, Run(<<"recall">>, [])),
    ok = other_node:stop(Node).

start_and_kill_interpreter() ->
    {_, Monitor} = spawn_monitor(fun() -> exit({answer, py_interpreter:ensure_started()}) end),
    eventually:is(true, fun py_nif:python_running/0),
    _ = mortal:kill_registered(py_interpreter),
    receive
        {'DOWN', Monitor, _, _, _} -> ok
    end.

%% Calls, each in a node of its own as above

the_calls_process(_Config) -> called:in_node([], kill_calls, ?MODULE).

kill_calls() ->
    {ok, _} = py:call(called, hold, []),
    {error, timeout} = py:call(called, block, [], #{}, 20),
    {ok, Task} = py:submit(called, block, []),
    _ = mortal:kill_registered(py_calls),
    ok = log_watch:start(),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    called:is_logged("called.block ended"),
    log_watch:stop().

the_output_process(_Config) -> called:in_node([], kill_output, ?MODULE).

kill_output() ->
    Leader = fake_leader:start(),
    Print = fun(Text) ->
        {ok, none} = fake_leader:as_leader(Leader, fun() -> py:call(builtins, print, [Text]) end)
    end,
    ok = fake_leader:hold(Leader),
    Print(<<"before">>),
    _ = mortal:kill_registered(py_output),
    ok = fake_leader:release(Leader),
    Print(<<"after">>),
    fake_leader:has(Leader, <<"before\nafter\n">>),
    fake_leader:stop(Leader).

the_logger_process(_Config) -> called:in_node([], kill_logger, ?MODULE).

kill_logger() ->
    ok = log_events:start(),
    {ok, none} = py:call(printing, log_many, [1]),
    #{level := warning} = log_events:next("record 0"),
    _ = mortal:kill_registered(py_logger),
    {ok, none} = py:call(printing, log_many, [2]),
    #{level := warning} = log_events:next("record 1"),
    log_events:stop().
%% Python asks, and has pids

the_questions_process(_Config) -> called:in_node([], kill_questions, ?MODULE).

kill_questions() ->
    {ok, Asked} = py:submit(asking, ask, [?MODULE, say_and_wait, [self(), go_on]]),
    Answering = answering(),
    Server = whereis(py_questions),
    ok = sys:suspend(Server),
    {ok, Unheard} = py:submit(asking, ask, [lists, reverse, [[]]]),
    eventually:is({message_queue_len, 1}, fun() -> process_info(Server, message_queue_len) end),
    _ = mortal:kill_registered(py_questions),
    ok = called:is_error("erlang.Error", "exit: noproc", py:await(Unheard)),
    Answering ! go_on,
    ?assertEqual({ok, go_on}, py:await(Asked)),
    ?assertEqual({ok, []}, py:call(asking, ask, [lists, reverse, [[]]])),
    ok.

a_process_that_answers_a_question(_Config) -> called:in_node([], kill_answerer, ?MODULE).

kill_answerer() ->
    {ok, Asked} = py:submit(asking, ask, [?MODULE, say_and_wait, [self(), go_on]]),
    exit(answering(), out_of_luck),
    called:is_error("erlang.Error", "exit: out_of_luck", py:await(Asked)).

say_and_wait(Pid, Word) ->
    Pid ! {answering, self()},
    receive
        Word -> Word
    end.

answering() ->
    receive
        {answering, Pid} -> Pid
    end.

an_actor(_Config) -> called:in_node([], kill_actor, ?MODULE).

kill_actor() ->
    {ok, Actor} = py:call(acting, spawn, [self()]),
    ok = await(started),
    ok = mortal:kill(Actor),
    await(was_cancelled).

the_supervisor_of_actors(_Config) -> called:in_node([], kill_actors, ?MODULE).

kill_actors() ->
    {ok, Actor} = py:call(acting, spawn, [self()]),
    ok = await(started),
    _ = mortal:kill_registered(py_actor_sup),
    ok = await(was_cancelled),
    eventually:is(false, fun() -> is_process_alive(Actor) end),
    {ok, Other} = py:call(acting, spawn, [self()]),
    ok = await(started),
    ok = mortal:kill(Other),
    await(was_cancelled).

await(Message) ->
    receive
        Message -> ok
    end.
the_watchdog(_Config) -> called:in_node([{stuck_after, 200}], kill_watchdog, ?MODULE).

kill_watchdog() ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
    called:is_logged("block_loop"),
    _ = mortal:kill_registered(py_watchdog),
    ok = log_watch:forget(),
    called:is_logged("block_loop"),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    log_watch:stop().

the_default_loop(_Config) ->
    Init = <<"import called; called.note('init')">>,
    called:in_node([{default_loop_init, Init}], kill_default_loop, ?MODULE).

kill_default_loop() ->
    {ok, Task} = py:submit(called, wait_for_ever, [<<"x">>]),
    {ok, _} = py:call(called, hold, []),
    {ok, Plain} = py:submit(called, block, []),
    called:has_noted(<<"x started">>),
    _ = mortal:kill_registered(py_default_loop),
    ?assertEqual({error, loop_down}, py:await(Task)),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])),
    %% The old loop comes to its end while the new one is there already.
    eventually:is({ok, [<<"init">>, <<"x cancelled">>]}, fun() ->
        py:eval(<<"sorted(__import__('called').events)">>)
    end),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Plain)),
    ok.

the_supervisor_of_the_default_loop(_Config) ->
    called:in_node([], kill_loop_supervisor, ?MODULE).

kill_loop_supervisor() ->
    {ok, Task} = py:submit(called, wait_for_ever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    Old = whereis(py_default_loop),
    _ = mortal:kill_registered(py_event_loop_sup),
    ?assertEqual({error, loop_down}, py:await(Task)),
    eventually:is({ok, 3}, fun() -> py:call(called, add_later, [1, 2]) end),
    ?assertNotEqual(Old, whereis(py_default_loop)),
    ok.

a_loop_started_from_Erlang(_Config) -> called:in_node([], kill_loop, ?MODULE).

kill_loop() ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    unlink(Loop),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_for_ever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    mortal:kill(Loop),
    ?assertEqual({error, loop_down}, py:await(Task)),
    ?assertEqual({error, loop_down}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    called:has_noted(<<"x cancelled">>).

a_loop_of_a_pool(_Config) -> called:in_node([], kill_loop_of_pool, ?MODULE).

kill_loop_of_pool() ->
    Init = <<"import called; called.note('init')">>,
    {ok, _} = py_event_loop_pool:start_link(#{name => my_pool, size => 2, init => Init}),
    {ok, [<<"init">>, <<"init">>]} = py:call(called, take_events, []),
    Other = whereis(my_pool_2),
    {ok, Lost} = py_event_loop:submit(my_pool_1, called, wait_for_ever, [<<"x">>]),
    {ok, Kept} = py_event_loop:submit(my_pool_2, asyncio, sleep, [0.2, <<"kept">>]),
    called:has_noted(<<"x started">>),
    mortal:kill(whereis(my_pool_1)),
    {error, loop_down} = py:await(Lost),
    {ok, 3} = py_event_loop_pool:run(my_pool, called, add_later, [1, 2]),
    {ok, <<"kept">>} = py:await(Kept),
    eventually:is(true, fun() ->
        {ok, Events} = py:eval(<<"__import__('called').events">>),
        lists:member(<<"init">>, Events) andalso lists:member(<<"x cancelled">>, Events)
    end),
    eventually:is(true, fun() -> is_pid(whereis(my_pool_1)) end),
    {ok, 3} = py_event_loop:run(my_pool_1, called, add_later, [1, 2]),
    Other = whereis(my_pool_2),
    ok = py_event_loop_pool:stop(my_pool).

a_pool(_Config) -> called:in_node([], kill_pool, ?MODULE).

kill_pool() ->
    Spec = py_event_loop_pool:child_spec(#{name => my_pool, size => 2}),
    %% Any supervisor will do.
    {ok, Pool} = supervisor:start_child(erlang_loop_sup, Spec),
    {ok, Task} = py_event_loop_pool:submit(my_pool, called, wait_for_ever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    mortal:kill(Pool),
    {error, _} = py:await(Task),
    called:has_noted(<<"x cancelled">>),
    eventually:is({ok, 3}, fun() -> py_event_loop_pool:run(my_pool, called, add_later, [1, 2]) end),
    {ok, [#{pid := _}, #{pid := _}]} = py_event_loop_pool:info(my_pool),
    true = Pool =/= whereis(my_pool),
    ok.

the_consumer_of_a_stream(_Config) -> called:in_node([], kill_consumer, ?MODULE).

kill_consumer() ->
    Self = self(),
    Consumer = spawn(fun() ->
        _ = [
            {ok, _} = py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1})
         || Function <- [tracked, plain_tracked]
        ],
        _ = [receive {py_stream, _, {data, 0}} -> ok end || _ <- [1, 2]],
        Self ! ready,
        receive
            never -> ok
        end
    end),
    receive
        ready -> ok
    end,
    {ok, 2} = py:call(streamed, count_open, []),
    mortal:kill(Consumer),
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    ok.

a_process_that_called_Python(_Config) -> called:in_node([], kill_caller, ?MODULE).

kill_caller() ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    Callers = [
        spawn(fun() -> py:call(called, wait_for_ever, [<<"x">>], #{}, infinity) end),
        spawn(fun() -> py:call(called, block, [], #{}, infinity) end)
    ],
    called:has_noted(<<"x started">>),
    eventually:is(true, fun() -> {ok, true} =:= py:call(called, is_blocked, []) end),
    lists:foreach(fun mortal:kill/1, Callers),
    called:has_noted(<<"x cancelled">>),
    {ok, _} = py:call(called, release, []),
    called:is_logged("called.block ended"),
    log_watch:stop().

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
        One = waiting(Loop),
        Two = waiting(Loop),
        unlink(One),
        mortal:kill(One),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, answer(Two)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop))
    end).

a_process_that_waits_in_poll_events_without_a_router(_Config) ->
    ok = application:stop(erlang_loop),
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        One = waiting(Loop),
        ?assertEqual(One, keeper(Loop)),
        Two = waiting(Loop),
        unlink(One),
        mortal:kill(One),
        eventually:is(Two, fun() -> keeper(Loop) end),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, answer(Two)),
        eventually:is(undefined, fun() -> keeper(Loop) end)
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
        Waiting = waiting(Loop),
        End(),
        eventually:is({error, not_started}, fun py_event_loop:get_loop/0),
        ?assertEqual({error, closed}, py_nif:get_pending(Default)),
        eventually:is({error, closed}, fun() -> py_nif:get_pending(Isolated) end),
        ?assertEqual(1, answer(Waiting)),
        ?assertEqual([{2, timer}], py_nif:get_pending(Loop)),
        {ok, _} = application:ensure_all_started(erlang_loop),
        ?assertMatch({ok, _}, py_event_loop:get_loop()),
        ?assertEqual(whereis(py_event_router), keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000))
    end).

%% The pieces

is_running() ->
    lists:keymember(erlang_loop, 1, application:which_applications()).

keeper(Loop) ->
    {ok, #{keeper := Keeper}} = py_nif:event_loop_info(Loop),
    Keeper.

own_router(Loop, Options) ->
    {ok, Router} = py_event_router:start_link(Loop, Options),
    unlink(Router),
    Router.

%% A process in poll_events/2; returns when it waits.
waiting(Loop) ->
    Self = self(),
    Pid = spawn_link(fun() -> Self ! {self(), py_nif:poll_events(Loop, infinity)} end),
    eventually:is({status, waiting}, fun() -> process_info(Pid, status) end),
    Pid.

answer(Pid) ->
    receive
        {Pid, Answer} -> Answer
    after 10_000 -> error(no_answer)
    end.
