#!/usr/bin/env escript
%% An asyncio program moves into a node: five lines, and moved_in.py stays as it is.
%%
%%   ERL_LIBS=_build/default/lib escript examples/moved_in.escript
-mode(compile).

main([]) ->
    Here = filename:dirname(filename:absname(escript:script_name())),
    Port = free_port(),
    %% These five.
    ok = application:load(erlang_loop),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, _} = py_event_loop:start_link(#{name => words}),
    {ok, _} = py_event_loop:submit(words, moved_in, serve, [Port]),
    %% Its clients find it where it was, and Erlang sees its state.
    Client = connect(Port),
    ok = gen_tcp:send(Client, "to be or not to be\n"),
    {ok, <<"6\n">>} = gen_tcp:recv(Client, 0, 10_000),
    {ok, Count} = py_event_loop:run(words, moved_in, 'words.get', [<<"to">>]),
    io:format("a client has sent 6 words, 'to' among them ~b times~n", [Count]),
    ok = gen_tcp:shutdown(Client, write),
    {error, closed} = gen_tcp:recv(Client, 0, 10_000),
    {ok, Left} = py_event_loop:stop(words),
    io:format("the loop has stopped, with ~b tasks left~n", [length(Left)]),
    ok = application:stop(erlang_loop).

%% The server listens in a moment.
connect(Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]) of
        {ok, Socket} ->
            Socket;
        {error, econnrefused} ->
            timer:sleep(10),
            connect(Port)
    end.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.
