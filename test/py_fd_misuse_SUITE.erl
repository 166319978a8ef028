%% @doc What if a caller passes the wrong file descriptor: a closed one, one of another loop, one whose
%% number belongs to another file by now?
-module(py_fd_misuse_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_bad_fd_is_ebadf/1,
    a_regular_file_is_eperm/1,
    closing_twice_is_ok/1,
    removing_twice_is_ok/1,
    a_reference_of_another_loop_is_stale/1,
    a_reader_is_not_a_writer/1,
    an_fd_watched_twice_has_the_second_callback/1,
    an_fd_in_two_loops_is_reported_by_both/1,
    a_reused_fd_number_is_a_new_fd/1,
    a_stale_reference_does_not_close_a_reused_fd/1,
    an_fd_can_be_closed_after_its_loop/1,
    test_functions_take_no_foreign_fds/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> started:begin_suite(Config).
end_per_suite(_Config) -> started:end_suite().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

a_bad_fd_is_ebadf(_Config) ->
    with:loop(fun(Loop) ->
        {ok, {Read, Write}} = py_nif:create_test_pipe(),
        _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]],
        _ = [
            ?assertEqual({Fd, {error, ebadf}}, {Fd, py_nif:Add(Loop, Fd, 1)})
         || Add <- [add_reader, add_writer], Fd <- [-1, -2, Read, 16#7fffffff]
        ]
    end).

a_regular_file_is_eperm(_Config) ->
    with:loop(fun(Loop) ->
        {ok, File} = file:open(code:which(?MODULE), [read, raw]),
        Fd = fd_of(code:which(?MODULE)),
        ?assertEqual({error, eperm}, py_nif:add_reader(Loop, Fd, 1)),
        ?assertEqual({error, eperm}, py_nif:add_writer(Loop, Fd, 1)),
        ?assertEqual(0, py_nif:poll_events(Loop, 0)),
        ok = file:close(File)
    end).

closing_twice_is_ok(_Config) ->
    with:loop(fun(Loop) ->
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
    with:pipe(fun(Loop, Read, Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        {ok, Writer} = py_nif:add_writer(Loop, Write, 2),
        _ = [?assertEqual(ok, py_nif:remove_reader(Loop, Reader)) || _ <- [1, 2]],
        _ = [?assertEqual(ok, py_nif:remove_writer(Loop, Writer)) || _ <- [1, 2]],
        ?assertMatch({ok, #{fds := 0}}, py_nif:event_loop_info(Loop))
    end).

a_reference_of_another_loop_is_stale(_Config) ->
    with:pipe(fun(One, Read, Write) ->
        with:loop(fun(Two) ->
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
    with:pipe(fun(Loop, Read, _Write) ->
        {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
        ?assertEqual({error, stale}, py_nif:remove_writer(Loop, Reader)),
        ?assertEqual({error, stale}, py_nif:stop_writer(Reader)),
        ?assertEqual({error, stale}, py_nif:start_writer(Reader)),
        ?assertMatch({ok, #{fds := 1}}, py_nif:event_loop_info(Loop))
    end).

an_fd_watched_twice_has_the_second_callback(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
        {ok, First} = py_nif:add_reader(Loop, Read, 1),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, py_nif:poll_events(Loop, 5000)),
        {ok, Second} = py_nif:add_reader(Loop, Read, 2),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        %% The first reference has no effect any more.
        ?assertEqual({error, stale}, py_nif:stop_reader(First)),
        ?assertEqual(ok, py_nif:remove_reader(Loop, First)),
        ?assertEqual(ok, py_nif:close_fd(First)),
        ?assertEqual([{2, read}], py_nif:get_pending(Loop)),
        ?assertEqual(ok, py_nif:remove_reader(Loop, Second)),
        ?assertEqual([], py_nif:get_pending(Loop))
    end).

an_fd_in_two_loops_is_reported_by_both(_Config) ->
    with:pipe(fun(One, Read, Write) ->
        with:loop(fun(Two) ->
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
    with:loop(fun(Loop) ->
        {Read, OldWrite, Old} = closed_and_watched(Loop, 1),
        {Read, NewWrite} = pipe_with_read_end(Read),
        %% The old watch reports nothing about the new pipe...
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

a_stale_reference_does_not_close_a_reused_fd(_Config) ->
    with:loop(fun(Loop) ->
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

%% The pieces

%% A pipe whose read end is watched and was then closed without telling the loop.
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

%% The number of the fd under which this node has the file open.
fd_of(File) ->
    {ok, Names} = file:list_dir("/proc/self/fd"),
    [Fd | _] = [
        list_to_integer(Name)
     || Name <- Names,
        file:read_link(filename:join("/proc/self/fd", Name)) =:= {ok, File}
    ],
    Fd.
