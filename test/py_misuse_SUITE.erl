%% @doc What if I use it wrong?
%%
%% Wrong types raise `badarg', what cannot be done answers `{error, Reason}', and whatever has
%% ended already is `ok' to end again.
-module(py_misuse_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    wrong_types_raise_badarg/1,
    a_destroyed_loop_is_closed_for_every_call/1,
    destroying_ends_a_wait/1,
    a_bad_fd_is_ebadf/1,
    a_regular_file_is_eperm/1,
    closing_twice_is_ok/1,
    removing_twice_is_ok/1,
    a_reference_of_another_loop_is_stale/1,
    a_reader_is_not_a_writer/1,
    an_fd_watched_twice_has_the_second_callback/1,
    an_fd_in_two_loops_is_reported_by_both/1,
    a_reused_fd_number_is_a_new_fd/1,
    a_stale_reference_does_not_close_a_strangers_fd/1,
    an_fd_can_be_closed_after_its_loop/1,
    a_dead_router_is_replaced/1,
    a_dead_pid_cannot_be_a_router/1,
    a_closed_loop_cannot_have_a_router/1,
    a_loop_without_any_router_still_works/1,
    waiting_without_a_router_leaves_no_messages/1,
    huge_delays_are_accepted/1,
    test_functions_take_no_foreign_fds/1,
    unknown_messages_are_logged_and_survived/1,
    calls_for_keepers_only_cannot_hurt/1
]).
%% For py_fuzz_SUITE.
-export([functions/0, signatures/0]).

all() ->
    [Case || {Case, 1} <- ?MODULE:module_info(exports), is_case(Case)].

is_case(Name) ->
    not lists:member(Name, [module_info, init_per_suite, end_per_suite]).

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    Config.

end_per_suite(_Config) ->
    ok = application:stop(erlang_loop).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    leak_check:end_case(Config).

%% Every function of py_nif, every argument, everything it is not.

wrong_types_raise_badarg(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, FdRef} = py_nif:add_reader(Loop, Read, 1),
    {ok, TimerRef} = py_nif:call_later(Loop, 3_600_000, 1),
    Good = #{
        loop => Loop,
        fd_ref => FdRef,
        timer_ref => TimerRef,
        %% Given to the application's processes only; this is none.
        poll_set => make_ref(),
        fd => -1,
        id => 1,
        port => 0,
        size => 1,
        pid => self(),
        bin => <<"x">>,
        bool => true,
        atom => sigusr1,
        bins => [<<"x">>],
        int => 1,
        map => #{},
        loop_options => loop_options(),
        term => [a | b],
        timeout => 0
    },
    Signatures = signatures(),
    %% A function that is new must say what it takes.
    ?assertEqual([], [F || F <- functions(), not is_map_key(F, Signatures)]),
    Wrong = [
        {Function, Position, Bad, Got}
     || {Function, Kinds} <- maps:to_list(Signatures),
        Position <- lists:seq(1, length(Kinds)),
        Bad <- not_a(lists:nth(Position, Kinds), Good),
        Args <- [replaced(Position, Bad, [maps:get(Kind, Good) || Kind <- Kinds])],
        Got <- [raised(Function, Args)],
        Got =/= badarg
    ],
    ?assertEqual([], Wrong),
    ok = py_nif:event_loop_destroy(Loop),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]].

loop_options() ->
    #{native := Options} = py_event_loop_options:check(#{}),
    Options.

functions() ->
    [F || {F, Arity} <- py_nif:module_info(exports), F =/= module_info, Arity > 0].

signatures() ->
    #{
        event_loop_new_for => [pid],
        event_loop_destroy => [loop],
        event_loop_set_router => [loop, pid],
        event_loop_set_worker => [loop, pid],
        event_loop_wakeup => [loop],
        event_loop_info => [loop],
        add_reader => [loop, fd, id],
        add_writer => [loop, fd, id],
        remove_reader => [loop, fd_ref],
        remove_writer => [loop, fd_ref],
        stop_reader => [fd_ref],
        start_reader => [fd_ref],
        stop_writer => [fd_ref],
        start_writer => [fd_ref],
        close_fd => [fd_ref],
        call_later => [loop, id, id],
        cancel_timer => [loop, timer_ref],
        poll_events => [loop, timeout],
        get_pending => [loop],
        write_test_fd => [fd, bin],
        read_test_fd => [fd, size],
        close_test_fd => [fd],
        create_test_tcp_listener => [port],
        connect_test_tcp => [bin, port],
        accept_test_tcp => [fd],
        create_test_udp_socket => [port],
        sendto_test_udp => [fd, bin, bin, port],
        recvfrom_test_udp => [fd, size],
        set_udp_broadcast => [fd, bool],
        loop_arm => [poll_set],
        fd_ready => [poll_set],
        timer_fired => [id],
        loop_release => [poll_set],
        sleep_done => [poll_set],
        signals_settled => [poll_set, bins],
        signal_take => [atom],
        signal_give_back => [atom],
        signal_arrived => [atom],
        python_start => [int, bin, bins],
        python_command => [bin, bins, bins],
        python_main => [int, bin, bin, bins],
        value_limits => [size, size, size],
        python_echo => [int, term],
        python_eval => [int, bin, map],
        python_eval_error => [int, bin, atom, term, term],
        %% Answers {error, not_started} to anything while Python is down; py_call_SUITE has it.
        task_submit => [term, term, term],
        task_ask => [term, term, term],
        task_watch => [poll_set],
        task_give_up => [poll_set],
        task_cancel => [poll_set],
        task_is_open => [poll_set],
        stream_submit => [term, term, pid, size],
        stream_demand => [poll_set, id],
        stream_cancel => [poll_set],
        questions_started => [pid],
        question_take => [poll_set],
        question_answer => [poll_set, term],
        question_raise => [poll_set, atom, term, term],
        mailbox_opened => [poll_set],
        mailbox_deliver => [poll_set, term],
        mailbox_exit => [poll_set, pid, term],
        calls_started => [pid, size, size, size],
        python_loop_start => [int, loop_options],
        python_loop_threads => [size],
        python_loop_set_default => [loop],
        python_loop_stop => [loop],
        python_loop_of => [pid],
        loop_lag => [pid],
        watchdog_look => [size],
        watchdog_stacks => [int, size],
        watchdog_interrupt => [size, size],
        output_started => [bool],
        output_done => [poll_set, size],
        logging_started => [size]
    }.

%% All terms are.
not_a(term, _Good) ->
    [];
not_a(Kind, #{loop := Loop, fd_ref := FdRef}) ->
    References = [Ref || {K, Ref} <- [{loop, Loop}, {fd_ref, FdRef}], K =/= Kind],
    Common = References ++ [make_ref(), an_atom, 1.5, {1}, #{}, 1 bsl 64, <<1:3>>],
    (Common -- ([an_atom || Kind =:= atom] ++ [#{} || Kind =:= map])) ++
        case Kind of
            K when K =:= id; K =:= size; K =:= port; K =:= timeout -> [-1, <<"1">>, []];
            K when K =:= fd; K =:= int -> [<<"1">>, []];
            bin -> [1, -1, []];
            bins -> [1, <<"x">>, [1], [<<"x">> | <<"y">>]];
            bool -> [1, true_or_false, []];
            loop_options -> [[], #{}, (loop_options())#{own := 1}, (loop_options())#{spin := a}];
            _ -> [1, -1, <<"x">>, []]
        end.

replaced(Position, Value, List) ->
    {Before, [_ | After]} = lists:split(Position - 1, List),
    Before ++ [Value | After].

raised(Function, Args) ->
    try
        {answered, apply(py_nif, Function, Args)}
    catch
        error:Reason -> Reason
    end.

a_destroyed_loop_is_closed_for_every_call(_Config) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
    {ok, Writer} = py_nif:add_writer(Loop, Write, 2),
    {ok, Timer} = py_nif:call_later(Loop, 10, 3),
    ok = py_nif:event_loop_destroy(Loop),
    Calls = [
        {event_loop_set_router, [Loop, self()]},
        {event_loop_set_worker, [Loop, self()]},
        {event_loop_wakeup, [Loop]},
        {event_loop_info, [Loop]},
        {add_reader, [Loop, Read, 1]},
        {add_writer, [Loop, Write, 1]},
        {remove_reader, [Loop, Reader]},
        {remove_writer, [Loop, Writer]},
        {stop_reader, [Reader]},
        {start_reader, [Reader]},
        {stop_writer, [Writer]},
        {start_writer, [Writer]},
        {call_later, [Loop, 10, 1]},
        {cancel_timer, [Loop, Timer]},
        {poll_events, [Loop, 0]},
        {poll_events, [Loop, 1000]},
        {poll_events, [Loop, infinity]},
        {get_pending, [Loop]}
    ],
    _ = [?assertEqual({F, {error, closed}}, {F, apply(py_nif, F, A)}) || {F, A} <- Calls],
    ?assertEqual(ok, py_nif:event_loop_destroy(Loop)),
    %% Its fds are the caller's, and still open.
    ok = py_nif:write_test_fd(Write, <<"x">>),
    {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]].

destroying_ends_a_wait(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Self = self(),
    Waiting = [
        spawn_link(fun() -> Self ! {self(), py_nif:poll_events(Loop, infinity)} end)
     || _ <- lists:seq(1, 5)
    ],
    _ = [eventually:is({status, waiting}, fun() -> process_info(W, status) end) || W <- Waiting],
    ok = py_nif:event_loop_destroy(Loop),
    _ = [
        receive
            {Pid, Answer} -> ?assertEqual({error, closed}, Answer)
        after 5000 -> error(still_waiting)
        end
     || Pid <- Waiting
    ].

%% File descriptors

a_bad_fd_is_ebadf(_Config) ->
    with_loop(fun(Loop) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]],
        _ = [
            ?assertEqual({Fd, {error, ebadf}}, {Fd, py_nif:Add(Loop, Fd, 1)})
         || Add <- [add_reader, add_writer], Fd <- [-1, -2, Read, 16#7fffffff]
        ]
    end).

a_regular_file_is_eperm(_Config) ->
    with_loop(fun(Loop) ->
        {ok, File} = file:open(code:which(?MODULE), [read, raw]),
        Fd = fd_of(code:which(?MODULE)),
        ?assertEqual({error, eperm}, py_nif:add_reader(Loop, Fd, 1)),
        ?assertEqual({error, eperm}, py_nif:add_writer(Loop, Fd, 1)),
        ?assertEqual(0, py_nif:poll_events(Loop, 0)),
        ok = file:close(File)
    end).

closing_twice_is_ok(_Config) ->
    with_loop(fun(Loop) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        ?assertEqual(ok, py_nif:close_fd(Reader)),
        ?assertEqual(ok, py_nif:close_fd(Reader)),
        ?assertEqual({error, ebadf}, py_nif:close_test_fd(Read)),
        ?assertEqual({error, stale}, py_nif:start_reader(Reader)),
        ?assertEqual({error, stale}, py_nif:stop_reader(Reader)),
        ?assertEqual(ok, py_nif:remove_reader(Loop, Reader)),
        ?assertEqual(ok, py_nif:close_test_fd(Write)),
        ?assertEqual({error, ebadf}, py_nif:close_test_fd(Write))
    end).

removing_twice_is_ok(_Config) ->
    with_pipe(fun(Loop, Read, Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        {ok, Writer} = py_nif:add_writer(Loop, Write, 2),
        _ = [?assertEqual(ok, py_nif:remove_reader(Loop, Reader)) || _ <- [1, 2]],
        _ = [?assertEqual(ok, py_nif:remove_writer(Loop, Writer)) || _ <- [1, 2]],
        ?assertMatch({ok, #{fds := 0}}, py_nif:event_loop_info(Loop))
    end).

a_reference_of_another_loop_is_stale(_Config) ->
    with_pipe(fun(One, Read, Write) ->
        with_loop(fun(Two) ->
            {ok, Reader} = py_nif:add_reader(One, Read, 1),
            {ok, _} = py_nif:add_reader(Two, Read, 2),
            {ok, Timer} = py_nif:call_later(One, 5, 3),
            ?assertEqual({error, stale}, py_nif:remove_reader(Two, Reader)),
            ?assertEqual({error, stale}, py_nif:cancel_timer(Two, Timer)),
            ok = py_nif:write_test_fd(Write, <<"x">>),
            ?assertEqual(1, py_nif:poll_events(Two, 5000)),
            eventually:is([{1, read}, {3, timer}], fun() ->
                lists:usort(py_nif:get_pending(One) ++ [{1, read}])
            end)
        end)
    end).

a_reader_is_not_a_writer(_Config) ->
    with_pipe(fun(Loop, Read, _Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        ?assertEqual({error, stale}, py_nif:remove_writer(Loop, Reader)),
        ?assertEqual({error, stale}, py_nif:stop_writer(Reader)),
        ?assertEqual({error, stale}, py_nif:start_writer(Reader)),
        ?assertMatch({ok, #{fds := 1}}, py_nif:event_loop_info(Loop))
    end).

an_fd_watched_twice_has_the_second_callback(_Config) ->
    with_pipe(fun(Loop, Read, Write) ->
        {ok, First} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        {ok, Second} = py_nif:add_reader(Loop, Read, 2),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        %% The first reference has no say any more.
        ?assertEqual({error, stale}, py_nif:stop_reader(First)),
        ?assertEqual(ok, py_nif:remove_reader(Loop, First)),
        ?assertEqual(ok, py_nif:close_fd(First)),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        ?assertEqual(ok, py_nif:remove_reader(Loop, Second)),
        ?assertEqual([], py_nif:get_pending(Loop))
    end).

an_fd_in_two_loops_is_reported_by_both(_Config) ->
    with_pipe(fun(One, Read, Write) ->
        with_loop(fun(Two) ->
            {ok, InOne} = py_nif:add_reader(One, Read, 1),
            {ok, InTwo} = py_nif:add_reader(Two, Read, 2),
            ok = py_nif:write_test_fd(Write, <<"x">>),
            ?assertEqual(1, py_nif:poll_events(One, 5000)),
            ?assertEqual(1, py_nif:poll_events(Two, 5000)),
            ?assertEqual([{1, read}], py_nif:get_pending(One)),
            ok = py_nif:remove_reader(One, InOne),
            ?assertEqual([{2, read}], py_nif:get_pending(Two)),
            %% Closed through one, it is gone from the other too.
            ok = py_nif:close_fd(InTwo),
            ?assertEqual({error, ebadf}, py_nif:add_reader(One, Read, 1))
        end)
    end).

a_reused_fd_number_is_a_new_fd(_Config) ->
    with_loop(fun(Loop) ->
        {Read, OldWrite, Old} = closed_and_watched(Loop, 1),
        {Read, NewWrite} = pipe_with_read_end(Read),
        %% The old watch says nothing about the new pipe...
        ok = py_nif:write_test_fd(NewWrite, <<"x">>),
        ?assertEqual(0, py_nif:poll_events(Loop, 20)),
        %% ... and a new one works.
        {ok, New} = py_nif:add_reader(Loop, Read, 2),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        ?assertEqual(ok, py_nif:remove_reader(Loop, Old)),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        ok = py_nif:close_fd(New),
        _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [OldWrite, NewWrite]]
    end).

a_stale_reference_does_not_close_a_strangers_fd(_Config) ->
    with_loop(fun(Loop) ->
        {Read, OldWrite, Closed} = closed_and_watched(Loop, 1),
        {Read, Write} = pipe_with_read_end(Read),
        ok = py_nif:close_fd(Closed),
        still_open(Read, Write),
        %% Removed, closed by its owner, and the number given to another.
        {ok, Removed} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:remove_reader(Loop, Removed),
        ok = py_nif:close_test_fd(Read),
        {Read, Write2} = pipe_with_read_end(Read),
        ok = py_nif:close_fd(Removed),
        still_open(Read, Write2),
        %% Closed through one of two references.
        {ok, {Client, Server}} = connected(),
        {ok, Reader} = py_nif:add_reader(Loop, Client, 1),
        {ok, Writer} = py_nif:add_writer(Loop, Client, 2),
        ok = py_nif:close_fd(Reader),
        {Client, Write3} = pipe_with_read_end(Client),
        ok = py_nif:close_fd(Writer),
        still_open(Client, Write3),
        Opened = [OldWrite, Read, Write, Write2, Client, Write3, Server],
        _ = [ok = py_nif:close_test_fd(Fd) || Fd <- Opened]
    end).

an_fd_can_be_closed_after_its_loop(_Config) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
    ok = py_nif:event_loop_destroy(Loop),
    ok = py_nif:close_fd(Reader),
    ?assertEqual({error, ebadf}, py_nif:read_test_fd(Read, 1)),
    ok = py_nif:close_test_fd(Write).

%% Routers

a_dead_router_is_replaced(_Config) ->
    with_pipe(fun(Loop, Read, Write) ->
        {Router, Monitor} = spawn_monitor(fun() -> timer:sleep(infinity) end),
        ok = py_nif:event_loop_set_router(Loop, Router),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        exit(Router, kill),
        receive
            {'DOWN', Monitor, _, _, _} -> ok
        end,
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        NodeRouter = whereis(py_event_router),
        eventually:is(NodeRouter, fun() -> keeper(Loop) end)
    end).

a_dead_pid_cannot_be_a_router(_Config) ->
    with_loop(fun(Loop) ->
        {Dead, Monitor} = spawn_monitor(fun() -> ok end),
        receive
            {'DOWN', Monitor, _, _, _} -> ok
        end,
        ?assertEqual({error, noproc}, py_nif:event_loop_set_router(Loop, Dead)),
        ?assertEqual({error, noproc}, py_nif:event_loop_set_worker(Loop, Dead)),
        ?assertEqual(whereis(py_event_router), keeper(Loop))
    end).

a_closed_loop_cannot_have_a_router(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    ok = py_nif:event_loop_destroy(Loop),
    process_flag(trap_exit, true),
    ?assertEqual({error, closed}, py_event_router:start_link(Loop)),
    ?assertEqual({error, closed}, py_event_worker:start_link(id, Loop)),
    ?assertError(function_clause, py_event_router:start_link(not_a_loop)),
    ?assertError(function_clause, py_event_router:start_link(Loop, [{unknown, option}])).

%% The application is not started: whoever waits keeps the loop for that time.
a_loop_without_any_router_still_works(_Config) ->
    ok = application:stop(erlang_loop),
    with_pipe(fun(Loop, Read, Write) ->
        ?assertEqual(undefined, keeper(Loop)),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        Late = spawn_link(fun() ->
            receive
            after 20 -> py_nif:write_test_fd(Write, <<"x">>)
            end
        end),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        eventually:is(false, fun() -> is_process_alive(Late) end),
        {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
        {ok, _} = py_nif:call_later(Loop, 5, 2),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{2, timer}], py_nif:get_pending(Loop)),
        {ok, _} = py_nif:call_later(Loop, 60, 3),
        ?assertEqual(1, py_nif:poll_events(Loop, infinity)),
        ?assertEqual([{3, timer}], py_nif:get_pending(Loop)),
        %% As soon as there is a router it takes over, also from a process that waits.
        Self = self(),
        Waiting = spawn_link(fun() -> Self ! {self(), py_nif:poll_events(Loop, infinity)} end),
        eventually:is(Waiting, fun() -> keeper(Loop) end),
        {ok, _} = application:ensure_all_started(erlang_loop),
        ?assertEqual(whereis(py_event_router), keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        receive
            {Waiting, Answer} -> ?assertEqual(1, Answer)
        after 5000 -> error(still_waiting)
        end
    end).

waiting_without_a_router_leaves_no_messages(_Config) ->
    ok = application:stop(erlang_loop),
    with_pipe(fun(Loop, Read, Write) ->
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        _ = [
            begin
                Late = spawn_link(fun() ->
                    receive
                    after 1 -> py_nif:write_test_fd(Write, <<"x">>)
                    end
                end),
                _ = py_nif:poll_events(Loop, 1 + Round rem 3),
                eventually:is(false, fun() -> is_process_alive(Late) end),
                {ok, _} = py_nif:read_test_fd(Read, 10),
                _ = py_nif:get_pending(Loop)
            end
         || Round <- lists:seq(1, 100)
        ],
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual({messages, []}, process_info(self(), messages))
    end).

%% The rest

huge_delays_are_accepted(_Config) ->
    with_loop(fun(Loop) ->
        Router = whereis(py_event_router),
        Year = 366 * 24 * 3600 * 1000,
        Delays = [Year, 100 * Year, 1000 * Year, 1 bsl 63, (1 bsl 64) - 1],
        Timers = [Timer || D <- Delays, {ok, Timer} <- [py_nif:call_later(Loop, D, 1)]],
        ?assertEqual(length(Delays), length(Timers)),
        {ok, _} = py_nif:call_later(Loop, 20, 2),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        ?assertEqual([{2, timer}], py_nif:get_pending(Loop)),
        ?assertEqual(0, py_nif:poll_events(Loop, 20)),
        _ = [ok = py_nif:cancel_timer(Loop, Timer) || Timer <- Timers],
        _ = sys:get_state(Router),
        ?assertEqual(Router, whereis(py_event_router))
    end).

test_functions_take_no_foreign_fds(_Config) ->
    {ok, File} = file:open(code:which(?MODULE), [read, raw]),
    Calls = fun(Fd) ->
        [
            py_nif:write_test_fd(Fd, <<"x">>),
            py_nif:read_test_fd(Fd, 1),
            py_nif:close_test_fd(Fd),
            py_nif:accept_test_tcp(Fd),
            py_nif:sendto_test_udp(Fd, <<"x">>, <<"127.0.0.1">>, 9),
            py_nif:recvfrom_test_udp(Fd, 1),
            py_nif:set_udp_broadcast(Fd, true)
        ]
    end,
    _ = [
        ?assertEqual([{error, ebadf}], lists:usort(Calls(Fd)))
     || Fd <- [0, 1, 2, fd_of(code:which(?MODULE)), -1, 1_000_000]
    ],
    {ok, _} = file:read(File, 1),
    ok = file:close(File),
    %% An fd made here, but of another kind.
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    ?assertEqual({error, enotsock}, py_nif:accept_test_tcp(Read)),
    ?assertEqual({error, enotsock}, py_nif:recvfrom_test_udp(Read, 1)),
    ?assertEqual({error, ebadf}, py_nif:write_test_fd(Read, <<"x">>)),
    ?assertError(badarg, py_nif:read_test_fd(Read, 1 bsl 40)),
    ok = py_nif:close_test_fd(Read),
    ?assertEqual({error, epipe}, py_nif:write_test_fd(Write, <<"x">>)),
    ok = py_nif:close_test_fd(Write).

unknown_messages_are_logged_and_survived(_Config) ->
    ok = log_watch:start(),
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, Worker} = py_event_worker:start_link(id, Loop),
    Processes = [whereis(py_event_router), Worker, whereis(py_interpreter)],
    _ = [
        begin
            Pid ! hello,
            gen_server:cast(Pid, hello),
            ?assertEqual({error, unknown_call}, gen_server:call(Pid, hello))
        end
     || Pid <- Processes
    ],
    ?assertEqual([true, true, true], [is_process_alive(Pid) || Pid <- Processes]),
    ?assertEqual(9, length([T || T <- log_watch:texts(), string:find(T, "unknown") =/= nomatch])),
    ok = py_event_worker:stop(Worker),
    ok = log_watch:stop().

calls_for_keepers_only_cannot_hurt(_Config) ->
    with_pipe(fun(Loop, Read, Write) ->
        ok = py_nif:timer_fired(1 bsl 62),
        ok = py_nif:event_loop_set_router(Loop, self()),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        PollSet =
            receive
                {select, Set, undefined, ready_input} -> Set
            end,
        _ = [ok = py_nif:Call(PollSet) || Call <- [fd_ready, fd_ready, loop_arm, loop_arm]],
        ?assertEqual([{1, read}], py_nif:get_pending(Loop)),
        ok = py_nif:event_loop_destroy(Loop),
        _ = [ok = py_nif:Call(PollSet) || Call <- [fd_ready, loop_arm, loop_release]],
        %% Messages keep the set alive.
        flush()
    end).

%% The pieces

with_loop(Fun) ->
    {ok, Loop} = py_nif:event_loop_new(),
    try
        Fun(Loop)
    after
        ok = py_nif:event_loop_destroy(Loop)
    end.

with_pipe(Fun) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    try
        with_loop(fun(Loop) -> Fun(Loop, Read, Write) end)
    after
        _ = [py_nif:close_test_fd(Fd) || Fd <- [Read, Write]]
    end.

keeper(Loop) ->
    {ok, #{keeper := Keeper}} = py_nif:event_loop_info(Loop),
    Keeper.

%% A pipe whose read end is watched and was then closed behind the loop's back.
closed_and_watched(Loop, CallbackId) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Reader} = py_nif:add_reader(Loop, Read, CallbackId),
    ok = py_nif:close_test_fd(Read),
    {Read, Write, Reader}.

%% A new pipe whose read end has this number. The kernel gives the lowest free one, so those
%% below are taken first.
pipe_with_read_end(Number) ->
    Below = take_numbers_below(Number),
    {ok, {Number, Write}} = py_nif:create_test_pipe(),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- Below],
    {Number, Write}.

take_numbers_below(Number) ->
    case py_nif:create_test_udp_socket(0) of
        {ok, {Fd, _}} when Fd < Number ->
            [Fd | take_numbers_below(Number)];
        {ok, {Fd, _}} ->
            ok = py_nif:close_test_fd(Fd),
            []
    end.

still_open(Read, Write) ->
    ok = py_nif:write_test_fd(Write, <<"mine">>),
    ?assertEqual({ok, <<"mine">>}, py_nif:read_test_fd(Read, 10)).

connected() ->
    {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
    {ok, Client} = py_nif:connect_test_tcp(<<"127.0.0.1">>, Port),
    {ok, Server} = py_nif:accept_test_tcp(Listener),
    ok = py_nif:close_test_fd(Listener),
    {ok, {Client, Server}}.

flush() ->
    receive
        _ -> flush()
    after 100 -> ok
    end.

%% The number of the fd under which this node has the file open.
fd_of(File) ->
    {ok, Names} = file:list_dir("/proc/self/fd"),
    [Fd | _] = [
        list_to_integer(Name)
     || Name <- Names,
        file:read_link(filename:join("/proc/self/fd", Name)) =:= {ok, File}
    ],
    Fd.
