%% @doc Does Python get Erlang's reply, wherever it calls from and whatever goes wrong? Can they
%% call each other any number of times, and never wait for each other forever?
-module(py_questions_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_reply/1,
    an_exception_has_class_reason_and_stack/1,
    an_error_of_python_that_crossed_erlang_can_be_read/1,
    funs_can_be_called/1,
    a_hundred_deep_on_call_threads/1,
    a_hundred_deep_on_a_loop/1,
    a_hundred_deep_by_turns/1,
    nested_calls_do_not_starve_each_other/1,
    endless_nesting_is_an_error/1,
    a_finalizer_asks_while_its_thread_waits/1,
    a_blocked_loop_still_gets_replies_of_plain_functions/1,
    a_loop_that_calls_itself_gets_an_error/1,
    a_loop_that_calls_one_on_its_thread_gets_an_error/1,
    a_loop_that_calls_itself_through_others_times_out/1,
    a_timeout_kills_what_runs/1,
    a_cancelled_task_kills_what_runs/1,
    a_killed_process_is_an_error_reply/1,
    calls_fail_at_once_when_the_dispatcher_dies/1,
    what_runs_survives_the_dispatcher/1,
    a_failed_cast_is_logged/1,
    messages_arrive_in_order/1,
    without_the_application/1,
    another_node/1
]).
%% Called by Python, or in another node.
-export([down/2, await_running/0, block/0, ask_python/3, ask_python_by_another/2, noted/1]).
-export([finalizer_asks/0, forget/1]).
-export([share_a_thread/0, endless/0, with_the_application_stopped/0, ask_another_node/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE, [forget, noted]).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().

init_per_testcase(_Case, Config) ->
    true = register(asking_case, self()),
    called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    ok = called:settle(),
    catch unregister(asking_case),
    leak_check:end_case(Config).

%% Replies

a_reply(_Config) ->
    _ = [
        ?assertEqual({ok, [3, 2, 1]}, py:call(asking, Way, [lists, reverse, [[1, 2, 3]]]))
     || Way <- [ask, ask_later, ask_later, ask_on_the_loop, ask_on_the_loop, ask_in_a_thread]
    ].

an_exception_has_class_reason_and_stack(_Config) ->
    {ok, {Kind, Reason, Text, Stack}} = py:call(asking, error_of, [lists, last, [not_a_list]]),
    ?assertEqual({<<"error">>, function_clause}, {Kind, Reason}),
    ?assertEqual(<<"error: function_clause">>, Text),
    ?assertMatch([{<<"lists">>, <<"last">>, 1, _, _} | _], Stack),
    ?assertMatch(
        {ok, {<<"throw">>, {a, 1}, _, _}}, py:call(asking, error_of, [erlang, throw, [{a, 1}]])
    ),
    ?assertMatch(
        {ok, {<<"exit">>, shutdown, _, _}}, py:call(asking, error_of, [erlang, exit, [shutdown]])
    ),
    ?assertMatch({ok, {<<"error">>, undef, _, _}}, py:call(asking, error_of, [lists, nope, []])).

%% Python raises, Erlang matches for {ok, _}, and Python gets the error.
an_error_of_python_that_crossed_erlang_can_be_read(_Config) ->
    Ask = [?MODULE, ask_python, [math, factorial, [-1]]],
    {ok, {_, _, Text, _}} = py:call(asking, error_of, Ask),
    Expected = "builtins.ValueError: factorial() not defined for negative values",
    ?assertNotEqual(nomatch, string:find(Text, Expected), Text).

funs_can_be_called(_Config) ->
    Add = fun(A, B) -> A + B end,
    ?assertEqual({ok, 3}, py:call(asking, apply, [Add, 1, 2])),
    ?assertEqual({ok, 3}, py:call(asking, apply_later, [Add, 1, 2])),
    ok = called:is_error("erlang.Error", "badarith", py:call(asking, apply, [Add, 1, a])),
    ok = called:is_error("erlang.Error", "badarity", py:call(asking, apply, [Add, 1])).

%% Nesting

down(Function, Depth) ->
    {ok, Below} = py:call(asking, Function, [Depth], #{}, 60_000),
    Below.

a_hundred_deep_on_call_threads(_Config) ->
    ?assertEqual({ok, 100}, py:call(asking, down, [100], #{}, 60_000)).

a_hundred_deep_on_a_loop(_Config) ->
    ?assertEqual({ok, 100}, py:call(asking, down_later, [100], #{}, 60_000)).

a_hundred_deep_by_turns(_Config) ->
    ?assertEqual({ok, 100}, py:call(asking, down_mixed, [100], #{}, 60_000)).

%% More callers than there are call threads, each ten deep.
nested_calls_do_not_starve_each_other(_Config) ->
    Tasks = [
        begin
            {ok, Task} = py:submit(asking, down, [10]),
            Task
        end
     || _ <- lists:seq(1, 80)
    ],
    ?assertEqual([{ok, 10}], lists:usort([py:await(Task, 60_000) || Task <- Tasks])).

endless_nesting_is_an_error(_Config) ->
    called:in_node([{call_nesting, 20}], endless, ?MODULE).

endless() ->
    {error, #{message := Message}} = py:call(asking, down, [1000], #{}, 30_000),
    ?assertNotEqual(nomatch, string:find(Message, "call_nesting limit reached"), Message),
    %% And all threads are back.
    ?assertEqual({ok, 10}, py:call(asking, down, [10])),
    ok.

%% The thread was counted as gone twice, and so no other was started for what it waited for.
a_finalizer_asks_while_its_thread_waits(_Config) ->
    called:in_node([{call_threads, 1}], finalizer_asks, ?MODULE).

finalizer_asks() ->
    Self = self(),
    {ok, _} = py:call(called, hold, []),
    %% What Erlang releases is finalized by the next thread that takes up Python: not this one.
    Main = spawn_link(fun() -> py_interpreter:run(<<"called">>, <<"block">>, []) end),
    eventually:is({ok, true}, fun() -> py:call(called, is_blocked, []) end),
    Keeper = spawn_link(fun() -> keep_what_asks_at_its_end(Self) end),
    receive
        {Keeper, keeps} -> ok
    end,
    Asked = py:call(asking, ask, [?MODULE, forget, [Keeper]], #{}, 20_000),
    ?assertEqual({ok, ok}, Asked),
    ?assertEqual({ok, [{ok, 3}]}, py:eval(<<"__import__('asking').last_answers">>)),
    {ok, _} = py:call(called, release, []),
    true = unlink(Main),
    ok.

%% Replies when the Python object is released, and so before its finalizer has its reply.
forget(Keeper) ->
    Keeper ! {forget, self()},
    receive
        {Keeper, forgot} -> ok
    end.

keep_what_asks_at_its_end(Parent) ->
    {ok, Handle} = py:call(asking, make_what_asks_at_its_end, []),
    Parent ! {self(), keeps},
    receive
        {forget, From} when is_reference(Handle) -> forget_all(From)
    end.

forget_all(From) ->
    true = erlang:garbage_collect(),
    From ! {self(), forgot}.

%% Loops that wait

a_blocked_loop_still_gets_replies_of_plain_functions(_Config) ->
    Ask = [?MODULE, ask_python, [called, add, [1, 2]]],
    ?assertEqual({ok, 3}, py:call(asking, ask_on_the_loop, Ask)).

%% Refused natively, so at once and not after five seconds: the reason shows which it was.
a_loop_that_calls_itself_gets_an_error(_Config) ->
    %% So that the loop is known to be where it runs.
    {ok, 3} = py:call(called, add_later, [1, 2]),
    Direct = [?MODULE, ask_python, [called, add_later, [1, 2]]],
    ok = called:is_error("erlang.Error", "deadlock", py:call(asking, ask_on_the_loop, Direct)),
    %% By way of a call thread.
    Indirect = [?MODULE, ask_python, [asking, ask, Direct]],
    ok = called:is_error("erlang.Error", "deadlock", py:call(asking, ask_on_the_loop, Indirect)),
    %% A plain function that returns a coroutine.
    Made = [?MODULE, ask_python, [called, make_awaitable, []]],
    ok = called:is_error("erlang.Error", "deadlock", py:call(asking, ask_on_the_loop, Made)),
    %% Another loop can be called.
    {ok, Loop} = py_event_loop:start_link(#{}),
    Other = [py_event_loop, run, [Loop, called, add_later, [1, 2]]],
    ?assertEqual({ok, {ok, 3}}, py:call(asking, ask_on_the_loop, Other)),
    {ok, []} = py_event_loop:stop(Loop).

a_loop_that_calls_one_on_its_thread_gets_an_error(_Config) ->
    called:in_node([{loop_threads, 1}], share_a_thread, ?MODULE).

share_a_thread() ->
    {One, Other} = two_on_a_thread(),
    Ask = [py_event_loop, run, [Other, called, add_later, [1, 2]]],
    ?assertEqual({ok, {error, deadlock}}, py_event_loop:run(One, asking, ask_on_the_loop, Ask)),
    ?assertEqual({ok, {ok, 3}}, py_event_loop:run(One, asking, ask_later, Ask)),
    ok.

%% A thread that seems busy gets no second loop: then they are tried again.
two_on_a_thread() ->
    [One, Other] = Loops = [element(2, {ok, _} = py_event_loop:start_link(#{})) || _ <- [1, 2]],
    Threads = [py_event_loop:run(Loop, called, loop_thread, []) || Loop <- Loops],
    case lists:usort(Threads) of
        [{ok, _}] ->
            {One, Other};
        _ ->
            _ = [{ok, []} = py_event_loop:stop(Loop) || Loop <- Loops],
            eventually:is([], fun() -> py_nif:python_loop_runners() end),
            two_on_a_thread()
    end.

a_loop_that_calls_itself_through_others_times_out(_Config) ->
    {ok, 3} = py:call(called, add_later, [1, 2]),
    Ask = [?MODULE, ask_python_by_another, [called, add_later], 0.2],
    ok = called:is_error("TimeoutError", "no reply within 0.2 s", py:call(asking, ask_on_the_loop, Ask)).

ask_python(Module, Function, Args) ->
    {ok, Value} = py:call(Module, Function, Args),
    Value.

ask_python_by_another(Module, Function) ->
    {_, Monitor} = spawn_monitor(fun() -> exit(py:call(Module, Function, [1, 2])) end),
    receive
        {'DOWN', Monitor, process, _, Answer} -> Answer
    end.

%% Timeouts and cancellation

a_timeout_kills_what_runs(_Config) ->
    {ok, Task} = py:submit(asking, ask, [?MODULE, block, [], 0.2]),
    Monitor = monitor(process, running()),
    ok = called:is_error("TimeoutError", "no reply within 0.2 s", py:await(Task)),
    killed(Monitor).

a_cancelled_task_kills_what_runs(_Config) ->
    {ok, Task} = py:submit(asking, ask_and_cancel, [?MODULE, block, []]),
    Running = running(),
    Monitor = monitor(process, Running),
    asking_waiter ! {running, Running},
    ?assertEqual({ok, <<"cancelled">>}, py:await(Task)),
    killed(Monitor),
    %% So does the end of the Erlang process that waits.
    {Caller, _} = spawn_monitor(fun() -> py:call(asking, ask_later, [?MODULE, block, []]) end),
    Second = monitor(process, running()),
    exit(Caller, kill),
    killed(Second).

%% Runs until it is killed; first reports that it has begun.
block() ->
    asking_case ! {running, self()},
    receive
        never -> ok
    end.

running() ->
    receive
        {running, Pid} -> Pid
    end.

await_running() ->
    true = register(asking_waiter, self()),
    receive
        {running, _} -> ok
    end.

killed(Monitor) ->
    receive
        {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(killed, Reason)
    end.

%% Deaths

a_killed_process_is_an_error_reply(_Config) ->
    {ok, Task} = py:submit(asking, ask, [?MODULE, block, []]),
    exit(running(), kill),
    ok = called:is_error("erlang.Error", "exit: killed", py:await(Task)),
    {ok, Second} = py:submit(asking, ask_later, [?MODULE, block, []]),
    exit(running(), out_of_luck),
    ok = called:is_error("erlang.Error", "exit: out_of_luck", py:await(Second)).

calls_fail_at_once_when_the_dispatcher_dies(_Config) ->
    Dispatcher = whereis(py_questions),
    ok = sys:suspend(Dispatcher),
    {ok, Task} = py:submit(asking, ask, [lists, reverse, [[]]]),
    {ok, Many} = py:submit(asking, ask_all, [100, lists, reverse, [[]]]),
    eventually:is(101, fun() -> element(2, process_info(Dispatcher, message_queue_len)) end),
    exit(Dispatcher, kill),
    ok = called:is_error("erlang.Error", "exit: noproc", py:await(Task)),
    {ok, Ends} = py:await(Many),
    ?assertEqual([<<"exit: noproc">>], lists:usort(Ends)),
    ?assertEqual(100, length(Ends)),
    eventually:is({ok, []}, fun() -> py:call(asking, ask, [lists, reverse, [[]]]) end).

what_runs_survives_the_dispatcher(_Config) ->
    {ok, Task} = py:submit(asking, ask, [?MODULE, noted, [x]]),
    Running = running(),
    Monitor = monitor(process, py_questions),
    exit(whereis(py_questions), kill),
    killed(Monitor),
    Running ! go_on,
    ?assertEqual({ok, x}, py:await(Task)),
    eventually:is(true, fun() -> is_pid(whereis(py_questions)) end).

noted(Value) ->
    asking_case ! {running, self()},
    receive
        go_on -> Value
    end.

%% Casts and messages

a_failed_cast_is_logged(_Config) ->
    ok = log_watch:start(),
    {ok, none} = py:call(asking, cast, [erlang, send, [self(), <<"cast">>]]),
    receive
        <<"cast">> -> ok
    end,
    {ok, none} = py:call(asking, cast, [erlang, error, [gone_wrong]]),
    ok = called:is_logged("gone_wrong"),
    ok = log_watch:stop().

messages_arrive_in_order(_Config) ->
    {ok, Me} = py:call(called, take_events, []) =:= {ok, []} andalso {ok, self()},
    _ = [{ok, none} = py:call(asking, send, [Dest, N]) || N <- [1, 2, 3], Dest <- [Me, asking_case]],
    ?assertEqual([1, 1, 2, 2, 3, 3], [receive N -> N end || _ <- lists:seq(1, 6)]),
    {ok, none} = py:call(asking, send, [{asking_case, node()}, {<<"a">>, [b]}]),
    receive
        {<<"a">>, [b]} -> ok
    end,
    Alias = alias(),
    {ok, none} = py:call(asking, send, [Alias, aliased]),
    receive
        aliased -> true = unalias(Alias)
    end,
    ok = called:is_error("ValueError", "no process is registered as", py:call(asking, send, [no_process, 1])),
    ok = called:is_error("TypeError", "a message is sent to a Pid", py:call(asking, send, [17, 1])),
    ok = called:is_error("ConversionError", "message[1]", py:eval(<<"__import__('erlang').send(pid, (1, object()))">>, #{pid => self()})).

%% The application

without_the_application(_Config) ->
    called:in_node([], with_the_application_stopped, ?MODULE).

with_the_application_stopped() ->
    {ok, []} = py:call(asking, ask, [lists, reverse, [[]]]),
    Self = self(),
    ok = py:exec(<<"import asking, threading">>),
    ok = application:stop(erlang_loop),
    %% A program on Python's main thread, which needs nothing of the application.
    Token = 1,
    ok = py_nif:python_eval(Token, <<"__import__('asking').ask('lists', 'reverse', [[]])">>, #{}),
    receive
        {py_main, Token, Answer} ->
            ok = called:is_error("RuntimeError", "the application erlang_loop is not running", Answer)
    end,
    {ok, _} = application:ensure_all_started(erlang_loop),
    ?assertEqual({ok, Self}, py:call(asking, ask, [lists, last, [[Self]]])),
    ok.

%% Nodes

another_node(_Config) ->
    called:in_node([], ask_another_node, ?MODULE).

ask_another_node() ->
    _ = os:cmd("epmd -daemon"),
    {ok, _} = net_kernel:start([list_to_atom("py_questions_" ++ os:getpid()), shortnames]),
    {ok, Peer, Node} = peer:start_link(#{name => peer:random_name()}),
    ?assertEqual({ok, Node}, py:call(asking, remote, [Node, erlang, node, []])),
    ?assertEqual({ok, Node}, py:call(asking, remote_later, [Node, erlang, node, []])),
    ?assertMatch(
        {ok, {<<"error">>, function_clause, [<<"last">> | _]}},
        py:call(asking, remote_error, [Node, lists, last, [a]])
    ),
    ?assertMatch(
        {ok, {<<"exit">>, bye, _}}, py:call(asking, remote_error, [Node, erlang, exit, [bye]])
    ),
    ?assertMatch(
        {ok, {<<"throw">>, ball, _}}, py:call(asking, remote_error, [Node, erlang, throw, [ball]])
    ),
    %% Messages there and back.
    Echo = erpc:call(Node, erlang, whereis, [init]),
    {ok, none} = py:call(asking, send, [Echo, {self(), {get_argument, home}}]),
    receive
        {init, {ok, _}} -> ok
    end,
    {ok, none} = py:call(asking, send, [{init, Node}, {self(), {get_argument, home}}]),
    receive
        {init, {ok, _}} -> ok
    end,
    ok = peer:stop(Peer),
    ?assertMatch(
        {ok, {<<"error">>, {erpc, noconnection}, _}},
        py:call(asking, remote_error, [Node, erlang, node, []])
    ),
    ok.
