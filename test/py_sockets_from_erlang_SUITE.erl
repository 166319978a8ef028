%% @doc Can Erlang pass its listeners and connections to Python, as docs/calls.md says?
-module(py_sockets_from_erlang_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_listener_of_gen_tcp/1,
    a_listener_of_socket/1,
    lines_that_erlang_has_read/1,
    messages_that_erlang_has_received/1,
    data_that_erlang_has_not_sent/1
]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

a_listener_of_gen_tcp(_Config) ->
    {ok, Listener} = gen_tcp:listen(0, [{active, false}]),
    {ok, Port} = inet:port(Listener),
    Copy = duplicate(inet:getfd(Listener)),
    ok = gen_tcp:close(Listener),
    is_served(Copy, Port).

%% Closing it makes the file that both share blocking, with which a loop would hang.
a_listener_of_socket(_Config) ->
    {ok, Listener} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listener, #{family => inet, addr => loopback, port => 0}),
    ok = socket:listen(Listener),
    {ok, #{port := Port}} = socket:sockname(Listener),
    Copy = duplicate(socket:getopt(Listener, {otp, fd})),
    ok = socket:close(Listener),
    is_served(Copy, Port).

is_served(Listener, Port) ->
    {ok, Server} = py:submit(sockets_from_erlang, serve, [Listener]),
    Client = connect(Port),
    _ = [
        begin
            ok = gen_tcp:send(Client, Text),
            ?assertEqual({ok, Text}, gen_tcp:recv(Client, byte_size(Text), 5000))
        end
     || Text <- [<<"one">>, <<"two">>]
    ],
    ok = gen_tcp:close(Client),
    ok = py:cancel(Server),
    ?assertEqual({error, cancelled}, py:await(Server)),
    ?assertEqual({error, econnrefused}, gen_tcp:connect({127, 0, 0, 1}, Port, [])).

%% Its driver has read more than the line it returned.
lines_that_erlang_has_read(_Config) ->
    {Peer, Connection} = connection([{packet, line}, {active, false}]),
    ok = gen_tcp:send(Peer, <<"header\none\ntw">>),
    ?assertEqual({ok, <<"header\n">>}, gen_tcp:recv(Connection, 0, 5000)),
    ok = inet:setopts(Connection, [{packet, raw}]),
    is_sent_back(Peer, Connection, rest(Connection), <<"one\ntwo\n">>).

messages_that_erlang_has_received(_Config) ->
    {Peer, Connection} = connection([{active, true}]),
    ok = gen_tcp:send(Peer, <<"one\ntw">>),
    First =
        receive
            {tcp, Connection, Data} -> Data
        end,
    ok = inet:setopts(Connection, [{active, false}]),
    AlreadyRead = <<First/binary, (received(Connection))/binary, (rest(Connection))/binary>>,
    is_sent_back(Peer, Connection, AlreadyRead, <<"one\ntwo\n">>).

received(Connection) ->
    receive
        {tcp, Connection, Data} -> <<Data/binary, (received(Connection))/binary>>
    after 0 -> <<>>
    end.

rest(Connection) ->
    case gen_tcp:recv(Connection, 0, 0) of
        {ok, Data} -> Data;
        {error, timeout} -> <<>>
    end.

is_sent_back(Peer, Connection, AlreadyRead, Expected) ->
    Copy = duplicate(inet:getfd(Connection)),
    ok = gen_tcp:close(Connection),
    {ok, Task} = py:submit(sockets_from_erlang, send_back, [Copy, {bytes, AlreadyRead}]),
    ok = gen_tcp:send(Peer, <<"o\n">>),
    ok = gen_tcp:shutdown(Peer, write),
    ?assertEqual({ok, Expected}, gen_tcp:recv(Peer, byte_size(Expected), 5000)),
    ?assertEqual({error, closed}, gen_tcp:recv(Peer, 0, 5000)),
    ?assertEqual({ok, none}, py:await(Task)),
    ok = gen_tcp:close(Peer).

%% More than the kernel takes: it waits in the driver's queue, and Python's data come after it.
data_that_erlang_has_not_sent(_Config) ->
    {Peer, Connection} = connection([{active, false}, {high_watermark, 1 bsl 27}]),
    Before = binary:copy(<<"erlang">>, 5_000_000),
    ok = gen_tcp:send(Connection, Before),
    {ok, [{send_pend, Waiting}]} = inet:getstat(Connection, [send_pend]),
    ?assert(Waiting > 0),
    Copy = duplicate(inet:getfd(Connection)),
    ok = gen_tcp:send(Peer, <<"python">>),
    ok = gen_tcp:shutdown(Peer, write),
    Closed = spawn_close(Connection),
    ?assertEqual({ok, Before}, gen_tcp:recv(Peer, byte_size(Before), 30_000)),
    receive
        {'DOWN', Closed, process, _, Reason} -> ?assertEqual(normal, Reason)
    end,
    ?assertEqual({ok, none}, py:call(sockets_from_erlang, send_back, [Copy, {bytes, <<>>}])),
    ?assertEqual({ok, <<"python">>}, gen_tcp:recv(Peer, 6, 5000)),
    ok = gen_tcp:close(Peer).

%% Closing waits for the peer, which is this process.
spawn_close(Connection) ->
    Owner = self(),
    {Closer, Monitor} = spawn_monitor(fun() ->
        receive
            {close, Owner} -> ok = gen_tcp:close(Connection)
        end
    end),
    ok = gen_tcp:controlling_process(Connection, Closer),
    Closer ! {close, Owner},
    Monitor.

connection(Options) ->
    {ok, Listener} = gen_tcp:listen(0, [binary | Options]),
    {ok, Port} = inet:port(Listener),
    Peer = connect(Port),
    {ok, Connection} = gen_tcp:accept(Listener),
    ok = gen_tcp:close(Listener),
    {Peer, Connection}.

connect(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    Socket.

duplicate({ok, Fd}) ->
    {ok, Copy} = py:call(os, dup, [Fd]),
    Copy.
