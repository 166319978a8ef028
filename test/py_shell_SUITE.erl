%% @doc Can a loop be used from a shell, without any Python?
%%
%% Every call of the low-level API, as one would type it.
-module(py_shell_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    loops_come_and_go/1,
    there_is_a_default_loop/1,
    a_pipe_is_reported_readable/1,
    a_pipe_is_reported_writable/1,
    an_fd_is_reported_as_long_as_it_is_ready/1,
    get_pending_empties_the_queue/1,
    an_event_stays_until_it_is_taken/1,
    an_event_is_pending_once/1,
    what_ends_a_watch_drops_its_event/1,
    what_is_being_handled_is_not_collected_again/1,
    events_of_fds_and_timers_are_in_order/1,
    a_removed_watch_reports_nothing/1,
    a_watch_pauses_and_resumes/1,
    a_closed_peer_is_an_event/1,
    tcp_listens_connects_and_accepts/1,
    udp_sends_receives_and_broadcasts/1,
    a_port_that_is_not_one_raises/1,
    timers_come_in_order_and_never_early/1,
    a_cancelled_timer_does_not_come/1,
    poll_events_does_not_wait_for_0/1,
    poll_events_waits_its_time/1,
    poll_events_waits_forever/1,
    poll_events_leaves_the_mailbox_alone/1,
    a_wakeup_ends_a_wait/1,
    a_wakeup_is_remembered/1,
    several_processes_wait_for_one_loop/1,
    a_router_of_your_own_delivers/1,
    a_router_can_have_a_name/1,
    a_worker_delivers_and_owns_its_loop/1,
    any_process_can_be_the_router/1,
    info_shows_what_a_loop_does/1,
    the_snippets_of_the_request_run/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    Started = started:begin_suite(Config),
    %% The default loop makes its timerfd when it first needs it, and then keeps it.
    {ok, Loop} = py_event_loop:get_loop(),
    {ok, _} = py_nif:call_later(Loop, 0, 1),
    1 = py_nif:poll_events(Loop, 5000),
    [{1, timer}] = py_nif:get_pending(Loop),
    Started.

end_per_suite(_Config) -> started:end_suite().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% Loops

loops_come_and_go(_Config) ->
    Before = py_nif:event_loop_count(),
    {ok, Loop} = py_nif:event_loop_new(),
    ?assertEqual(Before + 1, py_nif:event_loop_count()),
    ?assertEqual(ok, py_nif:event_loop_destroy(Loop)),
    ?assertEqual(ok, py_nif:event_loop_destroy(Loop)),
    ?assertEqual(Before, py_nif:event_loop_count()).

there_is_a_default_loop(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    ?assertEqual({ok, Loop}, py_event_loop:get_loop()),
    {ok, _} = py_nif:call_later(Loop, 1, 5),
    ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
    ?assertEqual([{5, timer}], py_nif:get_pending(Loop)).

%% File descriptors

a_pipe_is_reported_readable(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 17),
        ?assertEqual(0, py_nif:poll_events(Loop, 0)),
        ok = py_nif:write_test_fd(Write, <<"hello">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{17, read}], py_nif:get_pending(Loop)),
        ?assertEqual({ok, <<"hel">>}, py_nif:read_test_fd(Read, 3)),
        ?assertEqual({ok, <<"lo">>}, py_nif:read_test_fd(Read, 100)),
        ?assertEqual({error, eagain}, py_nif:read_test_fd(Read, 100)),
        ?assertEqual([], py_nif:get_pending(Loop)),
        ok = py_nif:remove_reader(Loop, Reader)
    end).

a_pipe_is_reported_writable(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Writer} = py_nif:add_writer(Loop, Write, 18),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{18, write}], py_nif:get_pending(Loop)),
        fill(Write),
        ?assertEqual([], py_nif:get_pending(Loop)),
        {ok, _} = py_nif:read_test_fd(Read, 1 bsl 20),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ok = py_nif:remove_writer(Loop, Writer)
    end).

an_fd_is_reported_as_long_as_it_is_ready(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        _ = [?assertEqual([{1, read}], py_nif:get_pending(Loop)) || _ <- lists:seq(1, 5)],
        {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
        ?assertEqual([], py_nif:get_pending(Loop))
    end).

get_pending_empties_the_queue(_Config) ->
    with:loop(fun(Loop) ->
        {ok, _} = py_nif:call_later(Loop, 0, 1),
        {ok, _} = py_nif:call_later(Loop, 0, 1),
        eventually:is(2, fun() -> py_nif:poll_events(Loop, 0) end),
        ?assertEqual([{1, timer}, {1, timer}], py_nif:get_pending(Loop)),
        ?assertEqual([], py_nif:get_pending(Loop)),
        ?assertEqual(0, py_nif:poll_events(Loop, 0))
    end).

%% Also when the data was read meanwhile, and however often the loop was looked at.
an_event_stays_until_it_is_taken(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
        ?assertEqual(1, py_nif:poll_events(Loop, 0)),
        ?assertEqual(1, py_nif:poll_events(Loop, infinity)),
        ?assertMatch({ok, #{pending := 1}}, py_nif:event_loop_info(Loop)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        ?assertEqual([], py_nif:get_pending(Loop)),
        ?assertEqual(0, py_nif:poll_events(Loop, 20)),
        %% The next data is the next event.
        ok = py_nif:write_test_fd(Write, <<"y">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop))
    end).

%% For each callback and direction, though it came several times and from several fds.
an_event_is_pending_once(_Config) ->
    with:loop(fun(Loop) ->
        Pipes = [element(2, py_nif:create_test_pipe()) || _ <- [1, 2]],
        Readers = [element(2, py_nif:add_reader(Loop, Read, 7)) || {Read, _} <- Pipes],
        lists:foreach(
            fun({Read, Write}) ->
                _ = [come_and_gone(Loop, Read, Write) || _ <- lists:seq(1, 10)]
            end,
            Pipes
        ),
        ?assertEqual(1, py_nif:poll_events(Loop, 0)),
        %% It is about both fds: with one of them gone it still is.
        ok = py_nif:close_fd(hd(Readers)),
        ?assertEqual([{7, read}], py_nif:get_pending(Loop)),
        ?assertEqual([], py_nif:get_pending(Loop)),
        _ = [py_nif:close_fd(Reader) || Reader <- Readers],
        _ = [ok = py_nif:close_test_fd(Write) || {_, Write} <- Pipes]
    end).

%% Removed, replaced, paused or closed: the callback gets no earlier event.
what_ends_a_watch_drops_its_event(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        Watch = fun() ->
            {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
            come_and_gone(Loop, Read, Write),
            Reader
        end,
        ok = py_nif:remove_reader(Loop, Watch()),
        ?assertEqual(0, py_nif:poll_events(Loop, 0)),
        _ = Watch(),
        {ok, _} = py_nif:add_reader(Loop, Read, 2),
        ?assertEqual([], py_nif:get_pending(Loop)),
        Paused = Watch(),
        ok = py_nif:stop_reader(Paused),
        ?assertEqual([], py_nif:get_pending(Loop)),
        ok = py_nif:start_reader(Paused),
        ?assertEqual([], py_nif:get_pending(Loop)),
        %% A reference that was replaced ends nothing.
        ok = py_nif:remove_reader(Loop, begin Old = Watch(), _ = Watch(), Old end),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        %% The other direction is another watch.
        {ok, Writer} = py_nif:add_writer(Loop, Write, 3),
        Reader = Watch(),
        ?assertEqual(2, py_nif:poll_events(Loop, 5000)),
        ok = py_nif:remove_reader(Loop, Reader),
        ?assertEqual([{3, write}], py_nif:get_pending(Loop)),
        ok = py_nif:remove_writer(Loop, Writer),
        ok = py_nif:close_fd(Watch()),
        ?assertEqual([], py_nif:get_pending(Loop))
    end).

%% Between get_pending/1 and the reading of the data neither the router, which may get it only
%% then, nor a look at the loop makes the same data an event again.
what_is_being_handled_is_not_collected_again(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, #{keeper := Router}} = py_nif:event_loop_info(Loop),
        lists:foreach(
            fun(_) ->
                ok = py_nif:write_test_fd(Write, <<"x">>),
                ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
                ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
                %% The router has handled its messages.
                _ = sys:get_state(Router),
                ?assertMatch({ok, #{pending := 0}}, py_nif:event_loop_info(Loop)),
                {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
                ?assertEqual(0, py_nif:poll_events(Loop, 0)),
                ?assertEqual([], py_nif:get_pending(Loop))
            end,
            lists:seq(1, 200)
        ),
        %% Timers are collected meanwhile, and a waiting process is woken.
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        {ok, _} = py_nif:call_later(Loop, 10, 2),
        eventually:is({ok, 1}, fun() ->
            {ok, #{pending := Pending}} = py_nif:event_loop_info(Loop),
            {ok, Pending}
        end),
        ?assertEqual([{2, timer}, {1, read}], py_nif:get_pending(Loop))
    end).

events_of_fds_and_timers_are_in_order(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:call_later(Loop, 0, 1),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        {ok, _} = py_nif:add_reader(Loop, Read, 2),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        eventually:is(2, fun() -> py_nif:poll_events(Loop, 0) end),
        {ok, _} = py_nif:call_later(Loop, 0, 3),
        eventually:is(3, fun() -> py_nif:poll_events(Loop, 0) end),
        Expected = [{1, timer}, {2, read}, {3, timer}],
        ?assertEqual(Expected, py_nif:get_pending(Loop))
    end).

%% Data that the loop has seen and that was read before a process took the event.
come_and_gone(Loop, Read, Write) ->
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assert(py_nif:poll_events(Loop, 5000) > 0),
    {ok, <<"x">>} = py_nif:read_test_fd(Read, 10).

%% Also when the router had collected the event before.
a_removed_watch_reports_nothing(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ok = py_nif:remove_reader(Loop, Reader),
        ?assertEqual([], py_nif:get_pending(Loop)),
        ?assertEqual(0, py_nif:poll_events(Loop, 20))
    end).

a_watch_pauses_and_resumes(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        {ok, Writer} = py_nif:add_writer(Loop, Write, 2),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ok = py_nif:stop_reader(Reader),
        ?assertEqual([{2, write}], py_nif:get_pending(Loop)),
        ok = py_nif:stop_writer(Writer),
        ok = py_nif:stop_writer(Writer),
        ?assertEqual(0, py_nif:poll_events(Loop, 20)),
        ok = py_nif:start_reader(Reader),
        ok = py_nif:start_reader(Reader),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        ok = py_nif:start_writer(Writer),
        ?assertEqual([{1, read}, {2, write}], lists:sort(py_nif:get_pending(Loop)))
    end).

a_closed_peer_is_an_event(_Config) ->
    with:loop(fun(Loop) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:close_test_fd(Write),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual({ok, <<>>}, py_nif:read_test_fd(Read, 10)),
        ok = py_nif:close_fd(Reader),
        ?assertEqual({error, ebadf}, py_nif:read_test_fd(Read, 10)),
        ?assertEqual([], py_nif:get_pending(Loop))
    end).

%% Sockets

tcp_listens_connects_and_accepts(_Config) ->
    with:loop(fun(Loop) ->
        {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
        {ok, Accepting} = py_nif:add_reader(Loop, Listener, 1),
        ?assertEqual({error, eagain}, py_nif:accept_test_tcp(Listener)),
        {ok, Client} = py_nif:connect_test_tcp(<<"127.0.0.1">>, Port),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        {ok, Server} = py_nif:accept_test_tcp(Listener),
        {ok, Reader} = py_nif:add_reader(Loop, Server, 2),
        ok = py_nif:write_test_fd(Client, <<"ping">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        ?assertEqual({ok, <<"ping">>}, py_nif:read_test_fd(Server, 100)),
        ok = py_nif:close_fd(Reader),
        ok = py_nif:close_fd(Accepting),
        ok = py_nif:close_test_fd(Client),
        ?assertEqual(
            {error, econnrefused}, py_nif:connect_test_tcp(<<"127.0.0.1">>, Port)
        )
    end).

udp_sends_receives_and_broadcasts(_Config) ->
    with:loop(fun(Loop) ->
        {ok, {One, OnePort}} = py_nif:create_test_udp_socket(0),
        {ok, {Two, TwoPort}} = py_nif:create_test_udp_socket(0),
        {ok, _} = py_nif:add_reader(Loop, Two, 2),
        ?assertEqual({error, eagain}, py_nif:recvfrom_test_udp(Two, 100)),
        ok = py_nif:sendto_test_udp(One, <<"hello">>, <<"127.0.0.1">>, TwoPort),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual(
            {ok, {<<"hello">>, {<<"127.0.0.1">>, OnePort}}}, py_nif:recvfrom_test_udp(Two, 100)
        ),
        ok = py_nif:sendto_test_udp(One, <<>>, <<"localhost">>, TwoPort),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertMatch({ok, {<<>>, _}}, py_nif:recvfrom_test_udp(Two, 100)),
        %% The loopback network has a broadcast address too, which needs the option.
        Broadcast = fun() ->
            py_nif:sendto_test_udp(One, <<"all">>, <<"127.255.255.255">>, TwoPort)
        end,
        ?assertEqual({error, eacces}, Broadcast()),
        ok = py_nif:set_udp_broadcast(One, true),
        ok = Broadcast(),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertMatch({ok, {<<"all">>, {_, OnePort}}}, py_nif:recvfrom_test_udp(Two, 100)),
        ok = py_nif:set_udp_broadcast(One, false),
        ?assertEqual({error, eacces}, Broadcast()),
        %% As setsockopt has it.
        ok = py_nif:set_udp_broadcast(One, 1),
        ok = Broadcast(),
        ok = py_nif:set_udp_broadcast(One, 0),
        ?assertEqual({error, eacces}, Broadcast()),
        [?assertError(badarg, py_nif:set_udp_broadcast(One, On)) || On <- [2, -1, 1.0, on, 256]],
        _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [One, Two]]
    end).

a_port_that_is_not_one_raises(_Config) ->
    {ok, {Fd, Port}} = py_nif:create_test_udp_socket(0),
    Calls = [
        fun(P) -> py_nif:create_test_tcp_listener(P) end,
        fun(P) -> py_nif:create_test_udp_socket(P) end,
        fun(P) -> py_nif:connect_test_tcp(<<"127.0.0.1">>, P) end,
        fun(P) -> py_nif:sendto_test_udp(Fd, <<>>, <<"127.0.0.1">>, P) end
    ],
    [?assertError(badarg, Call(P)) || Call <- Calls, P <- [-1, 65536, 65536 + Port, 1 bsl 40]],
    ok = py_nif:close_test_fd(Fd).

%% Timers

timers_come_in_order_and_never_early(_Config) ->
    with:loop(fun(Loop) ->
        Delays = [0, 1, 2, 3, 5, 8, 15, 19, 20, 21, 25, 40, 60, 90],
        %% The clock the loop uses, which the VM's own may differ from by a little.
        Begun = os:perf_counter(microsecond),
        _ = [{ok, _} = py_nif:call_later(Loop, D, D) || D <- lists:reverse(Delays)],
        Came = collect(Loop, length(Delays), fun({D, timer}) ->
            {D, os:perf_counter(microsecond) - Begun}
        end),
        ct:pal("delay in ms, came after us: ~p", [Came]),
        ?assertEqual(Delays, [D || {D, _} <- Came]),
        ?assertEqual([], [Early || {D, After} = Early <- Came, After < D * 1000])
    end).

a_cancelled_timer_does_not_come(_Config) ->
    with:loop(fun(Loop) ->
        {ok, Near} = py_nif:call_later(Loop, 200, 1),
        {ok, Far} = py_nif:call_later(Loop, 250, 2),
        {ok, _} = py_nif:call_later(Loop, 300, 3),
        ok = py_nif:cancel_timer(Loop, Near),
        ok = py_nif:cancel_timer(Loop, Far),
        ok = py_nif:cancel_timer(Loop, Far),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{3, timer}], py_nif:get_pending(Loop)),
        ?assertMatch({ok, #{timers := 0}}, py_nif:event_loop_info(Loop))
    end).

%% Waiting

poll_events_does_not_wait_for_0(_Config) ->
    with:loop(fun(Loop) ->
        {Microseconds, 0} = timer:tc(py_nif, poll_events, [Loop, 0]),
        ?assert(Microseconds < 10_000)
    end).

poll_events_waits_its_time(_Config) ->
    with:loop(fun(Loop) ->
        _ = [
            begin
                {Microseconds, 0} = timer:tc(py_nif, poll_events, [Loop, Timeout]),
                ?assert(Microseconds >= Timeout * 1000)
            end
         || Timeout <- [1, 10, 50]
        ]
    end).

poll_events_waits_forever(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        Waiting = loop_events:waiting(Loop),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, loop_events:answer(Waiting))
    end).

poll_events_leaves_the_mailbox_alone(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        self() ! mine,
        _ = [
            begin
                %% So that the event meets the end of the wait, as often as can be.
                Late = spawn_link(fun() ->
                    receive
                    after 2 -> py_nif:write_test_fd(Write, <<"x">>)
                    end
                end),
                _ = py_nif:poll_events(Loop, 2),
                eventually:is(false, fun() -> is_process_alive(Late) end),
                {ok, _} = py_nif:read_test_fd(Read, 10),
                _ = py_nif:get_pending(Loop)
            end
         || _ <- lists:seq(1, 50)
        ],
        ?assertEqual({messages, [mine]}, process_info(self(), messages))
    end).

a_wakeup_ends_a_wait(_Config) ->
    with:loop(fun(Loop) ->
        Waiting = loop_events:waiting(Loop),
        ok = py_nif:event_loop_wakeup(Loop),
        ?assertEqual(0, loop_events:answer(Waiting))
    end).

a_wakeup_is_remembered(_Config) ->
    with:loop(fun(Loop) ->
        ok = py_nif:event_loop_wakeup(Loop),
        ok = py_nif:event_loop_wakeup(Loop),
        ?assertEqual(0, py_nif:poll_events(Loop, infinity)),
        {Microseconds, 0} = timer:tc(py_nif, poll_events, [Loop, 20]),
        ?assert(Microseconds >= 20_000)
    end).

several_processes_wait_for_one_loop(_Config) ->
    with:loop(fun(Loop) ->
        Waiting = [loop_events:waiting(Loop) || _ <- lists:seq(1, 10)],
        {ok, _} = py_nif:call_later(Loop, 10, 1),
        ?assertEqual(lists:duplicate(10, 1), [loop_events:answer(Each) || Each <- Waiting])
    end).

%% Keepers

a_router_of_your_own_delivers(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Router} = py_event_router:start_link(Loop),
        ?assertMatch({ok, #{keeper := Router}}, py_nif:event_loop_info(Loop)),
        delivers(Loop, Read, Write),
        ok = py_event_router:stop(Router),
        delivers(Loop, Read, Write)
    end).

a_router_can_have_a_name(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Router} = py_event_router:start_link(Loop, [{name, my_router}]),
        ?assertEqual(Router, whereis(my_router)),
        delivers(Loop, Read, Write),
        ok = py_event_router:stop(my_router),
        ?assertEqual(undefined, whereis(my_router))
    end).

a_worker_delivers_and_owns_its_loop(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Worker} = py_event_worker:start_link(mine, Loop),
        ?assertMatch({ok, #{keeper := Worker}}, py_nif:event_loop_info(Loop)),
        delivers(Loop, Read, Write),
        ok = py_event_worker:stop(Worker),
        ?assertEqual({error, closed}, py_nif:get_pending(Loop))
    end).

%% Then the messages of py_keeper come here; poll_events/2 takes those it needs.
any_process_can_be_the_router(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        ok = py_nif:event_loop_set_router(Loop, self()),
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        receive
            {select, PollSet, undefined, ready_input} -> ok = py_nif:fd_ready(PollSet)
        end,
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        {ok, _} = py_nif:read_test_fd(Read, 10),
        ok = py_nif:remove_reader(Loop, Reader),
        delivers(Loop, Read, Write),
        {ok, _} = py_nif:call_later(Loop, 50, 7),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000))
    end).

info_shows_what_a_loop_does(_Config) ->
    with:pipe(fun(Loop, Read, _Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        {ok, _} = py_nif:call_later(Loop, 3_600_000, 2),
        {ok, _} = py_nif:call_later(Loop, 0, 3),
        eventually:is(1, fun() -> py_nif:poll_events(Loop, 0) end),
        {ok, Info} = py_nif:event_loop_info(Loop),
        Router = whereis(py_event_router),
        ?assertMatch(
            #{fds := 1, timers := 1, pending := 1, timers_fired := 1, keeper := Router}, Info
        ),
        ?assert(lists:all(fun is_atom/1, maps:keys(Info)))
    end).

%% The lines that define this API, with values for their free variables.
the_snippets_of_the_request_run(_Config) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    _ = snippet:run(
        "%% Create a new event loop instance\n"
        "{ok, LoopRef} = py_nif:event_loop_new().\n"
        "%% Add a reader callback for a file descriptor\n"
        "{ok, FdRef} = py_nif:add_reader(LoopRef, Fd, CallbackId).\n"
        "%% Remove a reader\n"
        "ok = py_nif:remove_reader(LoopRef, FdRef).\n"
        "%% Poll for events (returns number of events ready)\n"
        "NumEvents = py_nif:poll_events(LoopRef, TimeoutMs).\n"
        "%% => 0\n"
        "%% Get pending callback events\n"
        "Pending = py_nif:get_pending(LoopRef).\n"
        "%% => []\n"
        "%% Destroy the event loop\n"
        "py_nif:event_loop_destroy(LoopRef).\n",
        #{'Fd' => Read, 'CallbackId' => 1, 'TimeoutMs' => 10}
    ),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]],
    Bound = snippet:run(
        "{ok, {Fd, Port}} = py_nif:create_test_udp_socket(0).  % 0 = ephemeral port\n"
        "ok = py_nif:sendto_test_udp(Fd, <<\"hello\">>, <<\"127.0.0.1\">>, 9999).\n",
        #{}
    ),
    %% The next line expects a datagram from the port it was bound to.
    #{'Fd' := Udp, 'Port' := Port} = Bound,
    ok = py_nif:sendto_test_udp(Udp, <<"to myself">>, <<"127.0.0.1">>, Port),
    _ = snippet:run(
        "{ok, {Data, {Host, Port}}} = py_nif:recvfrom_test_udp(Fd, MaxBytes).\n"
        "ok = py_nif:set_udp_broadcast(Fd, true).\n"
        "py_nif:close_test_fd(Fd).\n",
        Bound#{'MaxBytes' => 100}
    ),
    #{'LoopRef' := Loop, 'RouterPid' := Router} = snippet:run(
        "%% Start the event router\n"
        "{ok, LoopRef} = py_nif:event_loop_new(),\n"
        "{ok, RouterPid} = py_event_router:start_link(LoopRef),\n"
        "ok = py_nif:event_loop_set_router(LoopRef, RouterPid).\n",
        #{}
    ),
    ok = py_event_router:stop(Router),
    ok = py_nif:event_loop_destroy(Loop).

%% The pieces

fill(Fd) ->
    case py_nif:write_test_fd(Fd, binary:copy(<<"x">>, 4096)) of
        ok -> fill(Fd);
        {error, eagain} -> ok
    end.

%% Watches the pipe, waits for an event in it, and leaves everything as it was.
delivers(Loop, Read, Write) ->
    {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
    Late = loop_events:write_when_waiting(Write),
    ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
    ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
    eventually:is(false, fun() -> is_process_alive(Late) end),
    {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
    ok = py_nif:remove_reader(Loop, Reader).

collect(_Loop, 0, _Fun) ->
    [];
collect(Loop, Count, Fun) ->
    ?assert(py_nif:poll_events(Loop, 5000) > 0),
    Came = [Fun(Event) || Event <- py_nif:get_pending(Loop)],
    Came ++ collect(Loop, Count - length(Came), Fun).
