#!/usr/bin/env escript
%% An echo server in Python, in a loop below an Erlang supervisor: the loop is killed while a client
%% talks to it, and is restarted on the same port automatically.
%%
%%   ERL_LIBS=_build/default/lib escript examples/supervised_echo.escript
-mode(compile).

-behaviour(supervisor).
-export([init/1]).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    Port = free_port(),
    {ok, Supervisor} = supervisor:start_link(?MODULE, Port),
    First = whereis(echo_loop),
    say("1. ~p runs the echo server on port ~p", [First, Port]),
    Client = connect(Port),
    say("2. A client says ~p and hears ~p", ["hello", ask(Client, "hello")]),
    kill(First),
    {error, closed} = gen_tcp:recv(Client, 0, 10_000),
    say("3. The loop was killed: the client's connection is closed", []),
    Second = wait_for_successor(Supervisor, First),
    say("4. Its supervisor has started ~p, which ran the init code again", [Second]),
    Again = connect(Port),
    say("5. A new client says ~p and hears ~p", ["hello again", ask(Again, "hello again")]),
    ok = gen_tcp:close(Again),
    stop(Supervisor),
    ok = application:stop(erlang_loop).

stop(Supervisor) ->
    Monitor = monitor(process, Supervisor),
    true = unlink(Supervisor),
    exit(Supervisor, shutdown),
    receive
        {'DOWN', Monitor, process, Supervisor, shutdown} -> ok
    end.

%% The supervisor is this module; a real one would be one of yours.
init(Port) ->
    Init = ["import supervised_echo\nsupervised_echo.start(", integer_to_list(Port), ")"],
    Loop = py_event_loop:child_spec(#{name => echo_loop, init => Init}),
    {ok, {#{strategy => one_for_one, intensity => 3, period => 10}, [Loop]}}.

kill(Loop) ->
    %% The supervisor's report of the death would only clutter the output.
    ok = logger:set_primary_config(level, none),
    Monitor = monitor(process, Loop),
    exit(Loop, kill),
    receive
        {'DOWN', Monitor, process, Loop, killed} -> ok
    end.

%% A supervisor replies only when it is not starting a child.
wait_for_successor(Supervisor, Dead) ->
    case supervisor:which_children(Supervisor) of
        [{echo_loop, Loop, worker, _}] when is_pid(Loop), Loop =/= Dead -> Loop;
        _ -> wait_for_successor(Supervisor, Dead)
    end.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

connect(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [{active, false}, {packet, line}]),
    Socket.

ask(Socket, Text) ->
    ok = gen_tcp:send(Socket, [Text, "\n"]),
    {ok, Answer} = gen_tcp:recv(Socket, 0, 10_000),
    Text = string:trim(Answer).

say(Format, Args) -> io:format(Format ++ "~n", Args).
