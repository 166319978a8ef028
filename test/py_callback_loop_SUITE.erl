%% @doc Can an Erlang process have a loop's events as messages, without any Python?
-module(py_callback_loop_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_readable_fd_is_a_message/1,
    a_watch_is_reported_once_until_it_is_started_again/1,
    reader_and_writer_are_distinguished/1,
    timers_are_messages_in_order_and_never_early/1,
    a_cancelled_timer_does_not_come/1,
    many_timers_near_and_far/1,
    a_tcp_echo_server/1,
    a_tcp_echo_with_many_clients/1,
    python_is_not_started/1,
    events_cannot_be_asked_for/1,
    the_loop_ends_with_its_receiver/1,
    the_receiver_gets_nothing_after_the_end/1,
    it_stops_in_order/1,
    it_can_have_a_name_and_a_supervisor/1,
    wrong_options_are_refused/1
]).
%% Called in another node.
-export([echo_in_this_node/0]).

-define(PATIENCE, 10_000).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> started:begin_suite(Config).
end_per_suite(_Config) -> started:end_suite().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% Events

a_readable_fd_is_a_message(_Config) ->
    with_loop(fun(Loop, Ref) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        {ok, Reader} = py_nif:add_reader(Ref, Read, 7),
        nothing_comes(),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        comes({py_event, Loop, 7, read}),
        close([Reader], [Write])
    end).

%% A receiver that is slow, or does not read at all, is not flooded.
a_watch_is_reported_once_until_it_is_started_again(_Config) ->
    with_loop(fun(Loop, Ref) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        ok = py_nif:write_test_fd(Write, <<"ab">>),
        {ok, Reader} = py_nif:add_reader(Ref, Read, 1),
        comes({py_event, Loop, 1, read}),
        %% More data, other events and looks at the loop change nothing.
        ok = py_nif:write_test_fd(Write, <<"c">>),
        {ok, _} = py_nif:call_later(Ref, 1, 2),
        comes({py_event, Loop, 2, timer}),
        {ok, _} = py_nif:event_loop_info(Ref),
        nothing_comes(),
        ok = py_nif:start_reader(Reader),
        comes({py_event, Loop, 1, read}),
        {ok, <<"abc">>} = py_nif:read_test_fd(Read, 10),
        ok = py_nif:start_reader(Reader),
        nothing_comes(),
        ok = py_nif:stop_reader(Reader),
        ok = py_nif:write_test_fd(Write, <<"d">>),
        nothing_comes(),
        ok = py_nif:start_reader(Reader),
        comes({py_event, Loop, 1, read}),
        close([Reader], [Write])
    end).

reader_and_writer_are_distinguished(_Config) ->
    with_loop(fun(Loop, Ref) ->
        {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
        {ok, Client} = py_nif:connect_test_tcp(<<"127.0.0.1">>, Port),
        {ok, Served} = accept(Listener),
        {ok, Reader} = py_nif:add_reader(Ref, Served, 1),
        {ok, Writer} = py_nif:add_writer(Ref, Served, 2),
        comes({py_event, Loop, 2, write}),
        nothing_comes(),
        ok = py_nif:write_test_fd(Client, <<"x">>),
        comes({py_event, Loop, 1, read}),
        ok = py_nif:start_writer(Writer),
        comes({py_event, Loop, 2, write}),
        close([Reader], [Listener, Client])
    end).

timers_are_messages_in_order_and_never_early(_Config) ->
    with_loop(fun(Loop, Ref) ->
        Begun = os:perf_counter(microsecond),
        Delays = [{1, 40}, {2, 0}, {3, 10}, {4, 25}],
        [{ok, _} = py_nif:call_later(Ref, Delay, Id) || {Id, Delay} <- Delays],
        Came = [
            receive
                {py_event, Loop, Id, timer} -> {Id, os:perf_counter(microsecond) - Begun}
            after ?PATIENCE -> error(no_timer)
            end
         || _ <- Delays
        ],
        ?assertEqual([2, 3, 4, 1], [Id || {Id, _} <- Came]),
        [?assert(After >= 1000 * proplists:get_value(Id, Delays)) || {Id, After} <- Came]
    end).

a_cancelled_timer_does_not_come(_Config) ->
    with_loop(fun(Loop, Ref) ->
        {ok, Never} = py_nif:call_later(Ref, 5, 1),
        ok = py_nif:cancel_timer(Ref, Never),
        {ok, _} = py_nif:call_later(Ref, 10, 2),
        comes({py_event, Loop, 2, timer}),
        nothing_comes()
    end).

many_timers_near_and_far(_Config) ->
    with_loop(fun(Loop, Ref) ->
        Ids = lists:seq(1, 500),
        [{ok, _} = py_nif:call_later(Ref, rand:uniform(60), Id) || Id <- Ids],
        Came = [
            receive
                {py_event, Loop, Id, timer} -> Id
            after ?PATIENCE -> error(no_timer)
            end
         || _ <- Ids
        ],
        ?assertEqual(Ids, lists:sort(Came))
    end).

%% TCP

a_tcp_echo_server(_Config) ->
    {Server, Port} = start_echo(),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    [
        begin
            ok = gen_tcp:send(Client, Text),
            ?assertEqual({ok, Text}, gen_tcp:recv(Client, byte_size(Text), ?PATIENCE))
        end
     || Text <- [<<"hello">>, <<"again">>, binary:copy(<<"x">>, 10_000)]
    ],
    ok = gen_tcp:close(Client),
    stop_echo(Server).

%% Each sends many messages, all at the same time; some disconnect in between.
a_tcp_echo_with_many_clients(_Config) ->
    {Server, Port} = start_echo(),
    Talk = fun(Number) ->
        {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
        [
            begin
                Text = integer_to_binary(Number * 1000 + Turn),
                ok = gen_tcp:send(Client, Text),
                {ok, Text} = gen_tcp:recv(Client, byte_size(Text), ?PATIENCE)
            end
         || Turn <- lists:seq(1, 50)
        ],
        %% A reset instead of an end of file.
        Number rem 3 =:= 0 andalso (ok = inet:setopts(Client, [{linger, {true, 0}}])),
        ok = gen_tcp:close(Client)
    end,
    Clients = [spawn_monitor(fun() -> Talk(Number) end) || Number <- lists:seq(1, 50)],
    [
        receive
            {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
        after 60_000 -> error(client_hangs)
        end
     || {Pid, Monitor} <- Clients
    ],
    stop_echo(Server).

%% In a node where nothing else has started it either.
python_is_not_started(_Config) ->
    Node = other_node:start([]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    ?assertEqual(<<"hello">>, other_node:call(Node, ?MODULE, echo_in_this_node, [])),
    ?assertEqual(false, other_node:call(Node, py_nif, python_running, [])),
    ok = other_node:stop(Node).

echo_in_this_node() ->
    {Server, Port} = start_echo(),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Client, <<"hello">>),
    {ok, Text} = gen_tcp:recv(Client, 5, ?PATIENCE),
    ok = gen_tcp:close(Client),
    stop_echo(Server),
    Text.

%% The rest of the API

events_cannot_be_asked_for(_Config) ->
    with_loop(fun(_Loop, Ref) ->
        ?assertEqual({error, callbacks}, py_nif:get_pending(Ref)),
        ?assertEqual({error, callbacks}, py_nif:poll_events(Ref, 0)),
        ?assertEqual({error, callbacks}, py_nif:poll_events(Ref, infinity))
    end).

the_loop_ends_with_its_receiver(_Config) ->
    Receiver = spawn(fun() ->
        receive
            stop -> ok
        end
    end),
    {ok, Loop} = py_event_loop:start_link(#{callbacks => Receiver}),
    {ok, Ref} = py_event_loop:loop_ref(Loop),
    Monitor = monitor(process, Loop),
    Receiver ! stop,
    receive
        {'DOWN', Monitor, process, Loop, Reason} -> ?assertEqual(normal, Reason)
    after ?PATIENCE -> error(loop_stays)
    end,
    ?assertEqual({error, closed}, py_nif:call_later(Ref, 1, 1)),
    ?assertEqual({error, loop_down}, py_event_loop:loop_ref(Loop)).

the_receiver_gets_nothing_after_the_end(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{callbacks => self()}),
    {ok, Ref} = py_event_loop:loop_ref(Loop),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, _} = py_nif:add_reader(Ref, Read, 1),
    {ok, _} = py_nif:call_later(Ref, 5, 2),
    {ok, []} = py_event_loop:stop(Loop),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    %% Longer than the timer.
    timer:sleep(20),
    nothing_comes(),
    close([], [Read, Write]).

it_stops_in_order(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{callbacks => self()}),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    ?assertEqual({error, noproc}, py_event_loop:stop(Loop)),
    ?assertNot(is_process_alive(Loop)).

it_can_have_a_name_and_a_supervisor(_Config) ->
    Spec = py_event_loop:child_spec(#{callbacks => self(), name => my_callbacks}),
    Flags = #{strategy => one_for_one},
    {ok, Supervisor} = supervisor:start_link(supervisor_of, {Flags, [Spec]}),
    {ok, First} = py_event_loop:loop_ref(my_callbacks),
    exit(whereis(my_callbacks), kill),
    eventually:is(true, fun() ->
        case py_event_loop:loop_ref(my_callbacks) of
            {ok, Ref} -> Ref =/= First;
            {error, loop_down} -> false
        end
    end),
    ?assertEqual({error, closed}, py_nif:call_later(First, 1, 1)),
    {ok, Ref} = py_event_loop:loop_ref(my_callbacks),
    {ok, _} = py_nif:call_later(Ref, 1, 3),
    comes({py_event, whereis(my_callbacks), 3, timer}),
    unlink(Supervisor),
    Monitor = monitor(process, Supervisor),
    exit(Supervisor, shutdown),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    end.

wrong_options_are_refused(_Config) ->
    [
        ?assertError(badarg, py_event_loop:start_link(Options))
     || Options <- [
            #{callbacks => no_process},
            #{callbacks => self(), init => <<>>},
            #{callbacks => self(), name => "text"},
            #{callbacks => self(), name => undefined}
        ]
    ].

%% An echo server: a process that has nothing but messages.

start_echo() ->
    Caller = self(),
    Server = spawn_link(fun() ->
        {ok, Loop} = py_event_loop:start_link(#{callbacks => self()}),
        {ok, Ref} = py_event_loop:loop_ref(Loop),
        {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
        {ok, Accepting} = py_nif:add_reader(Ref, Listener, 0),
        Caller ! {self(), listening, Port},
        Served = echo(Loop, Ref, {Listener, Accepting}, 1, #{}),
        close([Accepting | [Reader || {_, Reader} <- maps:values(Served)]], []),
        {ok, []} = py_event_loop:stop(Loop)
    end),
    receive
        {Server, listening, Port} -> {Server, Port}
    after ?PATIENCE -> error(no_server)
    end.

stop_echo(Server) ->
    Monitor = monitor(process, Server),
    Server ! stop,
    receive
        {'DOWN', Monitor, process, Server, Reason} -> ?assertEqual(normal, Reason)
    after ?PATIENCE -> error(server_hangs)
    end.

echo(Loop, Ref, {Listener, Accepting} = Listening, Next, Served) ->
    receive
        stop ->
            Served;
        {py_event, Loop, 0, read} ->
            {After, Added} = accept_all(Ref, Listener, Next, Served),
            ok = py_nif:start_reader(Accepting),
            echo(Loop, Ref, Listening, After, Added);
        {py_event, Loop, Id, read} ->
            {Fd, Reader} = maps:get(Id, Served),
            case py_nif:read_test_fd(Fd, 65_536) of
                {ok, Data} when Data =/= <<>> ->
                    ok = py_nif:write_test_fd(Fd, Data),
                    ok = py_nif:start_reader(Reader),
                    echo(Loop, Ref, Listening, Next, Served);
                %% The end, or a reset: of this client only.
                _ ->
                    ok = py_nif:close_fd(Reader),
                    echo(Loop, Ref, Listening, Next, maps:remove(Id, Served))
            end
    end.

accept_all(Ref, Listener, Next, Served) ->
    case py_nif:accept_test_tcp(Listener) of
        {ok, Fd} ->
            {ok, Reader} = py_nif:add_reader(Ref, Fd, Next),
            accept_all(Ref, Listener, Next + 1, Served#{Next => {Fd, Reader}});
        {error, eagain} ->
            {Next, Served}
    end.

%% What tests share

with_loop(Test) ->
    {ok, Loop} = py_event_loop:start_link(#{callbacks => self()}),
    {ok, Ref} = py_event_loop:loop_ref(Loop),
    Test(Loop, Ref),
    {ok, []} = py_event_loop:stop(Loop).

comes(Event) ->
    receive
        Event -> ok;
        {py_event, _, _, _} = Other -> error({expected, Event, came, Other})
    after ?PATIENCE -> error({missing, Event})
    end.

%% Waits for a fixed time: the absence of a message has no event.
nothing_comes() ->
    receive
        {py_event, _, _, _} = Event -> error({unexpected, Event})
    after 30 -> ok
    end.

accept(Listener) ->
    case py_nif:accept_test_tcp(Listener) of
        {error, eagain} -> accept(Listener);
        Answer -> Answer
    end.

close(FdRefs, Fds) ->
    [ok = py_nif:close_fd(FdRef) || FdRef <- FdRefs],
    [ok = py_nif:close_test_fd(Fd) || Fd <- Fds].
