%% @private
%% @doc The listening socket of py_asgi: opened here, and sent to workers in other processes.
-module(py_asgi_socket).

-export([listen/1, close/2, send_to/1]).

-type address() :: {inet:ip_address(), inet:port_number()} | binary() | none.
-export_type([address/0]).

%% Milliseconds for a worker in another process to fetch the socket.
-define(FETCH, 60_000).

%% @doc Opens the socket that the options ask for.
-spec listen(py_asgi:options()) -> {ok, socket:socket() | undefined, address()} | {error, term()}.
listen(#{listen := false}) ->
    {ok, undefined, none};
listen(#{uds := Path} = Options) ->
    _ = unlink_if_dead(Path),
    bound(socket:open(local, stream, default), #{family => local, path => Path}, Path, Options);
listen(Options) ->
    Address = py_asgi_options:ip(maps:get(host, Options, {127, 0, 0, 1})),
    Port = maps:get(port, Options, 8000),
    Family =
        case tuple_size(Address) of
            4 -> inet;
            8 -> inet6
        end,
    Name = #{family => Family, addr => Address, port => Port},
    bound(socket:open(Family, stream, tcp), Name, {Address, Port}, Options).

bound({ok, Socket}, Name, Address, Options) ->
    _ = is_tuple(Address) andalso socket:setopt(Socket, {socket, reuseaddr}, true),
    Steps = [
        fun() -> reuse_port(Socket, maps:get(reuse_port, Options, false)) end,
        fun() -> socket:bind(Socket, Name) end,
        fun() -> socket:listen(Socket, maps:get(backlog, Options, 2048)) end
    ],
    case first_error(Steps) of
        ok ->
            {ok, Socket, address(Socket, Address)};
        {error, Reason} ->
            _ = socket:close(Socket),
            {error, {listen, Address, Reason}}
    end;
bound({error, Reason}, _Name, Address, _Options) ->
    {error, {listen, Address, Reason}}.

reuse_port(_Socket, false) -> ok;
reuse_port(Socket, true) -> socket:setopt(Socket, {socket, reuseport}, true).

first_error([]) ->
    ok;
first_error([Step | Steps]) ->
    case Step() of
        ok -> first_error(Steps);
        {error, Reason} -> {error, Reason}
    end.

address(_Socket, Path) when is_binary(Path) ->
    Path;
address(Socket, _) ->
    {ok, #{addr := Address, port := Port}} = socket:sockname(Socket),
    {Address, Port}.

%% A path that a dead server has left behind is free; that of a live one, or a file, is not.
unlink_if_dead(Path) ->
    case file:read_file_info(Path) of
        {ok, Info} when element(3, Info) =:= other ->
            {ok, Probe} = socket:open(local, stream, default),
            Connected = socket:connect(Probe, #{family => local, path => Path}),
            _ = socket:close(Probe),
            Connected =:= {error, econnrefused} andalso file:delete(Path);
        _ ->
            false
    end.

%% @doc Closes it, and frees the path of a Unix socket.
-spec close(socket:socket() | undefined, address()) -> ok.
close(undefined, _Address) ->
    ok;
close(Socket, Address) ->
    _ = socket:close(Socket),
    _ = is_binary(Address) andalso file:delete(Address),
    ok.

%% @doc Lets another process of this user fetch a copy of the socket, once, at the path that this
%% returns. The caller is linked to the process that hands it over.
-spec send_to(socket:socket()) -> {ok, Path :: binary()} | {error, term()}.
send_to(Socket) ->
    {ok, Fd} = socket:getopt(Socket, otp, fd),
    Name = string:lowercase(binary:encode_hex(crypto_bytes())),
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), <<"erlang_loop_", Name/binary>>),
    Path = filename:join(Folder, "socket"),
    %% Other users must not connect: what is handed over accepts the connections of the server.
    Steps = [
        fun() -> file:make_dir(Folder) end,
        fun() -> file:change_mode(Folder, 8#700) end
    ],
    case first_error(Steps) of
        ok ->
            Waiting = self(),
            Sender = spawn_link(fun() -> send_once(Fd, Folder, Path, Waiting) end),
            receive
                {Sender, Result} -> Result
            end;
        {error, Reason} ->
            {error, Reason}
    end.

crypto_bytes() ->
    <<(rand:uniform(1 bsl 64) - 1):64, (erlang:unique_integer([positive])):64>>.

send_once(Fd, Folder, Path, Waiting) ->
    {ok, Listener} = socket:open(local, stream, default),
    ok = socket:bind(Listener, #{family => local, path => Path}),
    ok = socket:listen(Listener, 1),
    Waiting ! {self(), {ok, iolist_to_binary(Path)}},
    %% Without a connection the worker has failed, and says so itself.
    _ =
        case socket:accept(Listener, ?FETCH) of
            {ok, Connection} ->
                Rights = #{level => socket, type => rights, data => <<Fd:32/native>>},
                _ = socket:sendmsg(Connection, #{iov => [<<0>>], ctrl => [Rights]}),
                socket:close(Connection);
            {error, _} ->
                ok
        end,
    _ = socket:close(Listener),
    _ = file:delete(Path),
    _ = file:del_dir(Folder),
    ok.
