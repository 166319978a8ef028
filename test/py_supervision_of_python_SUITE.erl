%% @doc What happens to calls, streams, loops and actors of Python when a process dies?
%%
%% The rows of the table of docs/supervision.md that py_supervision_SUITE leaves to this suite. Each
%% has a node of its own, as Python would stay in this one.
-module(py_supervision_of_python_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    the_router_while_a_Python_thread_sleeps/1,
    the_signals_process/1,
    the_interpreter_process/1,
    the_calls_process/1,
    the_output_process/1,
    the_logger_process/1,
    the_questions_process/1,
    a_process_that_replies_to_a_question/1,
    an_actor/1,
    the_supervisor_of_actors/1,
    the_watchdog/1,
    the_default_loop/1,
    the_supervisor_of_the_default_loop/1,
    a_loop_started_from_Erlang/1,
    a_loop_of_a_pool/1,
    a_pool/1,
    a_peer/1,
    the_process_of_a_loop_in_a_peer/1,
    the_consumer_of_a_stream/1,
    a_process_that_called_Python/1
]).
%% Called in another node.
-export([kill_router_of_sleepers/0, kill_signals_process/0, kill_interpreter/0]).
-export([kill_calls/0, kill_output/0, kill_logger/0, kill_questions/0, kill_answerer/0]).
-export([kill_actor/0, kill_actors/0, kill_watchdog/0, kill_default_loop/0]).
-export([kill_loop_supervisor/0, kill_loop/0, kill_loop_of_pool/0, kill_pool/0]).
-export([kill_consumer/0, kill_caller/0, kill_peer/0, kill_loop_of_peer/0]).
%% Called by Python.
-export([say_and_wait/2]).

all() -> cases:of_suite(?MODULE).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% Python itself

the_router_while_a_Python_thread_sleeps(_Config) ->
    called:in_node([], kill_router_of_sleepers, ?MODULE).

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
        {'DOWN', Monitor, _, Pid, {ok, Took}} ->
            %% Below the minute that it would take if a process waited for a lost message.
            ?assert(Took >= 500 andalso Took < 30_000, Took)
    end.

the_signals_process(_Config) -> called:in_node([], kill_signals_process, ?MODULE).

kill_signals_process() ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        exit(py_interpreter:run(<<"node_probe">>, <<"wait_for_signal">>, [<<"SIGUSR1">>]))
    end),
    eventually:is([sigusr1], fun() -> element(2, py_nif:signals_wanted()) end),
    _ = mortal:kill_registered(py_signals),
    [] = os:cmd("kill -USR1 " ++ os:getpid()),
    receive
        {'DOWN', Monitor, _, Pid, Answer} -> ?assertEqual({ok, <<"SIGUSR1">>}, Answer)
    end.

the_interpreter_process(_Config) -> called:in_node([], kill_interpreter, ?MODULE).

kill_interpreter() ->
    %% While Python starts: the caller's call fails with the process, the next one waits.
    ok = start_and_kill_interpreter(),
    ?assertEqual(ok, py_interpreter:ensure_started()),
    Run = fun(Function, Args) -> py_interpreter:run(<<"node_probe">>, Function, Args) end,
    ?assertEqual({ok, undefined}, Run(<<"remember">>, [<<"it">>])),
    _ = mortal:kill_registered(py_interpreter),
    ?assertEqual({ok, <<"it">>}, Run(<<"recall">>, [])),
    ok = application:stop(erlang_loop),
    {ok, _} = application:ensure_all_started(erlang_loop),
    ?assertEqual({ok, <<"it">>}, Run(<<"recall">>, [])).

start_and_kill_interpreter() ->
    {_, Monitor} = spawn_monitor(fun() -> exit({answer, py_interpreter:ensure_started()}) end),
    eventually:is(true, fun py_nif:python_running/0),
    _ = mortal:kill_registered(py_interpreter),
    receive
        {'DOWN', Monitor, _, _, _} -> ok
    end.

%% Calls

the_calls_process(_Config) -> called:in_node([], kill_calls, ?MODULE).

kill_calls() ->
    {ok, _} = py:call(called, hold, []),
    {error, timeout} = py:call(called, block, [], #{}, 20),
    {ok, Task} = py:submit(called, block, []),
    _ = mortal:kill_registered(py_calls),
    eventually:is(1, fun abandoned/0),
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Task)),
    eventually:is(0, fun abandoned/0).

abandoned() ->
    #{abandoned := Abandoned} = py_calls:info(),
    Abandoned.

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

a_process_that_replies_to_a_question(_Config) -> called:in_node([], kill_answerer, ?MODULE).

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

%% Loops and pools

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
    {ok, Task} = py:submit(called, wait_forever, [<<"x">>]),
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
    {ok, Task} = py:submit(called, wait_forever, [<<"x">>]),
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
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
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
    {ok, Lost} = py_event_loop:submit(my_pool_1, called, wait_forever, [<<"x">>]),
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
    {ok, Task} = py_event_loop_pool:submit(my_pool, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    mortal:kill(Pool),
    {error, _} = py:await(Task),
    called:has_noted(<<"x cancelled">>),
    eventually:is({ok, 3}, fun() -> py_event_loop_pool:run(my_pool, called, add_later, [1, 2]) end),
    {ok, [#{pid := _}, #{pid := _}]} = py_event_loop_pool:info(my_pool),
    true = Pool =/= whereis(my_pool),
    ok.

%% The callers

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
    {ok, _} = py:call(called, hold, []),
    Callers = [
        spawn(fun() -> py:call(called, wait_forever, [<<"x">>], #{}, infinity) end),
        spawn(fun() -> py:call(called, block, [], #{}, infinity) end)
    ],
    called:has_noted(<<"x started">>),
    eventually:is(true, fun() -> {ok, true} =:= py:call(called, is_blocked, []) end),
    lists:foreach(fun mortal:kill/1, Callers),
    called:has_noted(<<"x cancelled">>),
    eventually:is(1, fun abandoned/0),
    {ok, _} = py:call(called, release, []),
    eventually:is(0, fun abandoned/0).

%% Peers

a_peer(_Config) -> called:in_node([], kill_peer, ?MODULE).

kill_peer() ->
    _ = process_flag(trap_exit, true),
    {ok, Loop} = py_event_loop:start_link(#{place => peer}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    {ok, #{os_pid := OsPid}} = py_event_loop:info(Loop),
    [] = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    Down = {peer_down, {signal, sigkill}},
    {error, Down} = py:await(Task),
    receive
        {'EXIT', Loop, Reason} -> ?assertEqual(Down, Reason)
    end,
    ok.

the_process_of_a_loop_in_a_peer(_Config) -> called:in_node([], kill_loop_of_peer, ?MODULE).

kill_loop_of_peer() ->
    _ = process_flag(trap_exit, true),
    {ok, Loop} = py_event_loop:start_link(#{place => peer}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    [OsPid] = peers:running(),
    ok = mortal:kill(Loop),
    {error, loop_down} = py:await(Task),
    eventually:is(false, fun() -> peers:is_running(OsPid) end).
