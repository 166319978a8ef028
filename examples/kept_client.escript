#!/usr/bin/env escript
%% A Python client object that Erlang keeps between calls, by reference: its connection stays open.
%%
%%   ERL_LIBS=_build/default/lib escript examples/kept_client.escript
-mode(compile).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, Listener} = gen_tcp:listen(0, [binary, {packet, line}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    Server = spawn_link(fun() -> accept(Listener, 0) end),
    {ok, Client} = py:call(kept_client, 'Client', [<<"127.0.0.1">>, Port], #{}, #{return => ref}),
    io:format("1. ~ts is ~ts~n", [py:format(Client), py:value(py:repr(Client))]),
    %% A coroutine method runs on the default loop, which has the connection.
    {ok, <<"OLLEH">>} = py:method(Client, ask, [<<"hello">>]),
    io:format("2. now it is ~ts~n", [py:value(py:repr(Client))]),
    %% Any process may use it.
    Self = self(),
    Askers = [
        spawn_link(fun() -> Self ! {self(), py:method(Client, ask, [integer_to_binary(N)])} end)
     || N <- lists:seq(10, 109)
    ],
    Replies = [
        receive
            {Asker, {ok, Reply}} -> Reply
        end
     || Asker <- Askers
    ],
    100 = length(lists:usort(Replies)),
    %% An attribute, and a method that is not there.
    {ok, Port} = py:item(py:value(py:attr(Client, address, #{return => ref})), 1),
    {error, #{type := <<"builtins.AttributeError">>}} = py:method(Client, aks, [<<"hello">>]),
    Server ! {connections, self()},
    receive
        {connections, Count} -> io:format("3. 101 questions, ~p connection~n", [Count])
    end,
    1 = Count,
    {ok, none} = py:method(Client, close, []),
    ok = application:stop(erlang_loop).

%% Reverses lines, and counts connections.
accept(Listener, Count) ->
    receive
        {connections, Pid} -> Pid ! {connections, Count}
    after 0 -> ok
    end,
    case gen_tcp:accept(Listener, 20) of
        {ok, Socket} ->
            Replier = spawn_link(fun() -> reply(Socket) end),
            ok = gen_tcp:controlling_process(Socket, Replier),
            accept(Listener, Count + 1);
        {error, timeout} ->
            accept(Listener, Count)
    end.

reply(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            Word = string:uppercase(string:reverse(string:trim(Line))),
            ok = gen_tcp:send(Socket, [Word, $\n]),
            reply(Socket);
        {error, closed} ->
            ok
    end.
