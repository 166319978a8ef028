#!/usr/bin/env escript
%% A server of the Model Context Protocol below an Erlang supervisor, in a process of its own: a tool
%% crashes with a segmentation fault, and the next client finds the server again.
%%
%%   ERL_LIBS=_build/default/lib escript examples/mcp_server.escript
-mode(compile).

-behaviour(supervisor).
-export([init/1]).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = application:ensure_all_started(erlang_loop),
    %% The report of the crash would only clutter the output.
    ok = logger:set_primary_config(level, none),
    Port = free_port(),
    {ok, Supervisor} = supervisor:start_link(?MODULE, Port),
    "protocolVersion" = ask(Port, "initialize", "{\"protocolVersion\": \"2025-06-18\"}", "protocolVersion"),
    say("1. The client is connected", []),
    say("2. 40 + 2 is ~s", [ask(Port, "tools/call", add(40, 2), "42")]),
    Monitor = monitor(process, whereis(mcp_server)),
    crashed = ask(Port, "tools/call", "{\"name\": \"crash\", \"arguments\": {}}", "text"),
    receive
        {'DOWN', Monitor, process, _, {peer_down, Why}} -> say("3. A tool crashed: ~p", [Why])
    end,
    _ = supervisor:which_children(Supervisor),
    say("4. The supervisor has started it again: 20 + 22 is ~s", [
        ask(Port, "tools/call", add(20, 22), "42")
    ]),
    true = unlink(Supervisor),
    exit(Supervisor, shutdown),
    ok = application:stop(erlang_loop).

init(Port) ->
    Code = ["import mcp_server\nmcp_server.start(", integer_to_list(Port), ")"],
    Loop = py_event_loop:child_spec(#{name => mcp_server, place => peer, init => Code}),
    {ok, {#{strategy => one_for_one, intensity => 3, period => 10}, [Loop]}}.

add(A, B) ->
    io_lib:format("{\"name\": \"add\", \"arguments\": {\"a\": ~b, \"b\": ~b}}", [A, B]).

%% Returns `Expected', a text that the reply contains.
ask(Port, Method, Params, Expected) ->
    Url = "http://127.0.0.1:" ++ integer_to_list(Port) ++ "/mcp",
    Body = io_lib:format("{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"~s\", \"params\": ~s}", [Method, Params]),
    Request = {Url, [], "application/json", iolist_to_binary(Body)},
    case httpc:request(post, Request, [], []) of
        {ok, {{_, 200, _}, _, Reply}} ->
            {Expected, true} = {Expected, string:find(Reply, Expected) =/= nomatch},
            Expected;
        {error, _} ->
            crashed
    end.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

say(Format, Args) -> io:format(Format ++ "~n", Args).
