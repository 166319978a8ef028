#!/usr/bin/env escript
%% A TCP echo server that is one Erlang process and a loop, with no Python at all. It starts, talks
%% to itself and ends: ERL_LIBS=_build/default/lib escript examples/message_echo.escript
%%
%% If anything goes wrong, it exits with a code other than 0.
-mode(compile).

main([]) ->
    %% No report of the application's end.
    ok = logger:set_primary_config(level, warning),
    {ok, _} = application:ensure_all_started(erlang_loop),
    Main = self(),
    Server = spawn_link(fun() -> server(Main) end),
    Port =
        receive
            {listening, Number} -> Number
        end,
    [talk(Port, Text) || Text <- [<<"hello">>, <<"and again">>]],
    Server ! {stop, self()},
    receive
        stopped -> ok
    end,
    io:format("Python was ~s~n", [
        case py_nif:python_running() of
            false -> "not started";
            true -> error(python_was_started)
        end
    ]),
    ok = application:stop(erlang_loop).

talk(Port, Text) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, Text),
    {ok, Text} = gen_tcp:recv(Socket, byte_size(Text), 5000),
    io:format("the server answered ~s~n", [Text]),
    ok = gen_tcp:close(Socket).

%% The loop's events come to this process.
server(Main) ->
    {ok, Loop} = py_event_loop:start_link(#{callbacks => self()}),
    {ok, Ref} = py_event_loop:loop_ref(Loop),
    {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
    {ok, Accepting} = py_nif:add_reader(Ref, Listener, 0),
    Main ! {listening, Port},
    serve(Loop, Ref, {Listener, Accepting}, 1, #{}).

serve(Loop, Ref, {Listener, Accepting} = Listening, Next, Clients) ->
    receive
        {py_event, Loop, 0, read} ->
            {ok, Fd} = py_nif:accept_test_tcp(Listener),
            {ok, Reader} = py_nif:add_reader(Ref, Fd, Next),
            %% A watch reports one event: request the next one.
            ok = py_nif:start_reader(Accepting),
            serve(Loop, Ref, Listening, Next + 1, Clients#{Next => {Fd, Reader}});
        {py_event, Loop, Client, read} ->
            {Fd, Reader} = maps:get(Client, Clients),
            case py_nif:read_test_fd(Fd, 65536) of
                {ok, Data} when Data =/= <<>> ->
                    ok = py_nif:write_test_fd(Fd, Data),
                    ok = py_nif:start_reader(Reader),
                    serve(Loop, Ref, Listening, Next, Clients);
                _ ->
                    ok = py_nif:close_fd(Reader),
                    serve(Loop, Ref, Listening, Next, maps:remove(Client, Clients))
            end;
        {stop, From} ->
            [ok = py_nif:close_fd(Reader) || {_, Reader} <- maps:values(Clients)],
            ok = py_nif:close_fd(Accepting),
            {ok, []} = py_event_loop:stop(Loop),
            From ! stopped
    end.
