%% @doc What does misuse do?
%%
%% Wrong types raise `badarg', what cannot be done returns `{error, Reason}', and ending
%% something a second time returns `ok'.
-module(py_misuse_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    wrong_types_raise_badarg/1,
    a_destroyed_loop_is_closed_for_every_call/1,
    destroying_ends_a_wait/1,
    a_dead_router_is_replaced/1,
    a_dead_pid_cannot_be_a_router/1,
    a_closed_loop_cannot_have_a_router/1,
    a_loop_without_any_router_still_works/1,
    waiting_without_a_router_leaves_no_messages/1,
    huge_delays_are_accepted/1,
    unknown_messages_are_logged_and_survived/1,
    calls_meant_for_keepers_are_harmless_elsewhere/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> started:begin_suite(Config).
end_per_suite(_Config) -> started:end_suite().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> started:end_case(Config).

%% Every function of py_nif, every argument, every wrong type.

wrong_types_raise_badarg(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, FdRef} = py_nif:add_reader(Loop, Read, 1),
    {ok, TimerRef} = py_nif:call_later(Loop, 3_600_000, 1),
    {ok, Channel} = py_nif:channel_new(terms, 1, self()),
    {ok, Listener, Address} = py_peer_memory:listen(),
    {ok, MemoryLink} = py_peer_memory:connect(Address),
    Good = #{
        loop => Loop,
        fd_ref => FdRef,
        timer_ref => TimerRef,
        %% Only the application's processes get these; the test is not one of them.
        poll_set => make_ref(),
        channel => Channel,
        channel_type => terms,
        token => undefined,
        reference => make_ref(),
        fd => -1,
        id => 1,
        port => 0,
        size => 1,
        pid => self(),
        bin => <<"x">>,
        bool => true,
        on_or_off => 1,
        atom => sigusr1,
        bins => [<<"x">>],
        none => none,
        loops => [],
        int => 1,
        interval => undefined,
        map => #{},
        loop_options => loop_options(),
        term => [a | b],
        timeout => 0,
        ledger => element(2, py_nif:ledger_create()),
        memory_listener => Listener,
        memory_link => MemoryLink,
        memory_share => element(2, py_nif:memory_share(<<"x">>))
    },
    Signatures = nif_signatures:all(),
    %% A function that is new must say what it takes.
    ?assertEqual([], [F || F <- nif_signatures:functions(), not is_map_key(F, Signatures)]),
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
    ok = py_nif:channel_close(Channel),
    ok = py_nif:event_loop_destroy(Loop),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]].

loop_options() ->
    #{native := Options} = py_event_loop_options:check(#{}),
    Options.

%% All terms are.
not_a(term, _Good) ->
    [];
not_a(Kind, #{loop := Loop, fd_ref := FdRef}) ->
    References = [Ref || {K, Ref} <- [{loop, Loop}, {fd_ref, FdRef}], K =/= Kind],
    Common = References ++ [make_ref(), an_atom, 1.5, {1}, #{}, 1 bsl 64, <<1:3>>],
    Right = #{atom => [an_atom], interval => [1.5], map => [#{}]},
    TakesReferences = lists:member(Kind, [token, reference]),
    [Term || Term <- Common -- maps:get(Kind, Right, []), not (TakesReferences andalso is_reference(Term))] ++
        case Kind of
            interval -> [0, 0.0, -0.5];
            port -> [-1, 65536, <<"1">>, []];
            K when K =:= id; K =:= size; K =:= timeout -> [-1, <<"1">>, []];
            K when K =:= fd; K =:= int -> [<<"1">>, []];
            bin -> [1, -1, []];
            loops -> [1, [all], [1 | 2]];
            bins -> [1, <<"x">>, [1], [<<"x">> | <<"y">>]];
            bool -> [1, true_or_false, []];
            on_or_off -> [2, -1, 256, true_or_false, []];
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

%% Routers

a_dead_router_is_replaced(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
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
        eventually:is(NodeRouter, fun() -> loop_events:keeper(Loop) end)
    end).

a_dead_pid_cannot_be_a_router(_Config) ->
    with:loop(fun(Loop) ->
        {Dead, Monitor} = spawn_monitor(fun() -> ok end),
        receive
            {'DOWN', Monitor, _, _, _} -> ok
        end,
        ?assertEqual({error, noproc}, py_nif:event_loop_set_router(Loop, Dead)),
        ?assertEqual({error, noproc}, py_nif:event_loop_set_worker(Loop, Dead)),
        ?assertEqual(whereis(py_event_router), loop_events:keeper(Loop))
    end).

a_closed_loop_cannot_have_a_router(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    ok = py_nif:event_loop_destroy(Loop),
    process_flag(trap_exit, true),
    ?assertEqual({error, closed}, py_event_router:start_link(Loop)),
    ?assertEqual({error, closed}, py_event_worker:start_link(id, Loop)),
    ?assertError(function_clause, py_event_router:start_link(not_a_loop)),
    ?assertError(function_clause, py_event_router:start_link(Loop, [{unknown, option}])).

%% The application is not started: a process that waits keeps the loop for that time.
a_loop_without_any_router_still_works(_Config) ->
    ok = application:stop(erlang_loop),
    with:pipe(fun(Loop, Read, Write) ->
        ?assertEqual(undefined, loop_events:keeper(Loop)),
        {ok, _} = py_nif:add_reader(Loop, Read, 1),
        Late = loop_events:write_when_waiting(Write),
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
        Waiting = loop_events:waiting(Loop),
        eventually:is(Waiting, fun() -> loop_events:keeper(Loop) end),
        {ok, _} = application:ensure_all_started(erlang_loop),
        ?assertEqual(whereis(py_event_router), loop_events:keeper(Loop)),
        ok = py_nif:write_test_fd(Write, <<"x">>),
        ?assertEqual(1, loop_events:answer(Waiting))
    end).

waiting_without_a_router_leaves_no_messages(_Config) ->
    ok = application:stop(erlang_loop),
    with:pipe(fun(Loop, Read, Write) ->
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
    with:loop(fun(Loop) ->
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

calls_meant_for_keepers_are_harmless_elsewhere(_Config) ->
    with:pipe(fun(Loop, Read, Write) ->
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

flush() ->
    receive
        _ -> flush()
    after 100 -> ok
    end.
