#!/usr/bin/env escript
%% What a loop does in a node: `make run` starts this with the application in the code path.
%% If anything goes wrong, it exits with a code other than 0.
-mode(compile).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    say("A node with OTP ~s, built for Python ~s", [otp(), built_for()]),
    {ok, Loop} = py_nif:event_loop_new(),
    fd_event(Loop),
    timers(Loop),
    tcp(Loop),
    dead_router(Loop),
    closed(Loop),
    python(),
    on_the_loop("7", <<"coroutines">>),
    on_the_loop("8", <<"echo">>),
    ok = logger:set_primary_config(level, none),
    ok = application:stop(erlang_loop).

fd_event(Loop) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
    %% Written later, so that the loop sleeps meanwhile and the VM's poller has to wake it.
    spawn_link(fun() -> timer:sleep(20), ok = py_nif:write_test_fd(Write, <<"hello">>) end),
    Event = await(Loop, {1, read}),
    {ok, <<"hello">> = Data} = py_nif:read_test_fd(Read, 100),
    say("1. A pipe was written to: ~p, and read: ~p", [Event, Data]),
    ok = py_nif:close_fd(Reader),
    ok = py_nif:close_test_fd(Write).

timers(Loop) ->
    Begun = os:perf_counter(microsecond),
    {ok, _} = py_nif:call_later(Loop, 40, 3),
    {ok, _} = py_nif:call_later(Loop, 10, 2),
    {ok, Never} = py_nif:call_later(Loop, 20, 4),
    ok = py_nif:cancel_timer(Loop, Never),
    [
        begin
            Event = await(Loop, {Id, timer}),
            Late = os:perf_counter(microsecond) - Begun - Delay * 1000,
            Late >= 0 orelse error({early, Event, Late}),
            say("2. A timer of ~p ms: ~p, ~p us late", [Delay, Event, Late])
        end
     || {Id, Delay} <- [{2, 10}, {3, 40}]
    ].

tcp(Loop) ->
    {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
    {ok, Accepting} = py_nif:add_reader(Loop, Listener, 5),
    {ok, Client} = py_nif:connect_test_tcp(<<"127.0.0.1">>, Port),
    say("3. A TCP client came: ~p", [await(Loop, {5, read})]),
    {ok, Served} = py_nif:accept_test_tcp(Listener),
    ok = py_nif:close_fd(Accepting),
    [ok = py_nif:close_test_fd(Fd) || Fd <- [Client, Served]].

dead_router(Loop) ->
    %% The supervisor's report of the death below would only clutter the output.
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    Router = whereis(py_event_router),
    Monitor = monitor(process, Router),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Reader} = py_nif:add_reader(Loop, Read, 6),
    exit(Router, kill),
    receive
        {'DOWN', Monitor, process, _, killed} -> ok
    end,
    ok = py_nif:write_test_fd(Write, <<"x">>),
    say("4. The router was killed: ~p still comes", [await(Loop, {6, read})]),
    ok = py_nif:close_fd(Reader),
    ok = py_nif:close_test_fd(Write),
    ok = logger:set_primary_config(level, Level).

closed(Loop) ->
    ok = py_nif:event_loop_destroy(Loop),
    {error, closed} = Answer = py_nif:get_pending(Loop),
    say("5. The loop is closed: get_pending answers ~p", [Answer]).

python() ->
    {ok, Version} = py_interpreter:run(<<"platform">>, <<"python_version">>, []),
    Version =:= list_to_binary(built_for()) orelse error({other_python, Version}),
    say("6. Python runs in the same process: version ~s", [Version]).

%% tour_echo.py runs this on an ErlangEventLoop and returns the text to print.
on_the_loop(Number, Function) ->
    {ok, Text} = py_interpreter:run(<<"tour_echo">>, Function, []),
    say("~s. ~ts", [Number, Text]).

%% Waits for this event. Others stay in the mailbox until they are requested.
await(Loop, Event) ->
    receive
        {event, Event} -> Event
    after 0 ->
        Count = py_nif:poll_events(Loop, 5000),
        Count > 0 orelse error({no_event, Event}),
        [self() ! {event, Pending} || Pending <- py_nif:get_pending(Loop)],
        await(Loop, Event)
    end.

otp() -> erlang:system_info(otp_release).

built_for() ->
    maps:get(python_version, py_python_choice:build_info()).

say(Format, Args) -> io:format(Format ++ "~n", Args).
