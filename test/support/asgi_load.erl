%% @doc Clients of an HTTP server under load: keep-alive connections that send requests repeatedly, and
%% count what fails, and WebSockets that expect an echo of each message. A connection that the server
%% announced to close is opened again.
-module(asgi_load).

-export([start/3, stop/1, get/2, ask/2]).

-type load() :: {ets:tid(), [pid()]}.
-export_type([load/0]).

%% @doc This many clients and WebSockets, each with its own connection.
-spec start(inet:port_number(), pos_integer(), non_neg_integer()) -> load().
start(Port, Clients, WebSockets) ->
    Table = ets:new(?MODULE, [public, {write_concurrency, true}]),
    Names = [requests, failed, announced, messages, restarted, stop],
    true = ets:insert(Table, [{Name, 0} || Name <- Names]),
    Loads =
        [fun() -> connect(Table, Port) end || _ <- lists:seq(1, Clients)] ++
            [fun() -> upgrade(Table, Port) end || _ <- lists:seq(1, WebSockets)],
    {Table, [spawn_link(Load) || Load <- Loads]}.

%% @doc Ends the clients after their current request. Requests that had a complete response, failures,
%% and connections that the server closed as it had said; messages that came back, and WebSockets
%% that were closed with 1012.
-spec stop(load()) -> #{requests := integer(), failed := integer(), announced := integer()}.
stop({Table, Pids}) ->
    true = ets:insert(Table, {stop, 1}),
    Monitors = [monitor(process, Pid) || Pid <- Pids],
    _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || Monitor <- Monitors],
    Counts = maps:from_list(ets:tab2list(Table)),
    true = ets:delete(Table),
    maps:remove(stop, Counts).

%% @doc One request on a connection of its own: status and body.
-spec get(inet:port_number(), iodata()) -> {integer(), binary()} | {error, term()}.
get(Port, Path) ->
    ask(Port, ["GET ", Path, " HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"]).

%% @doc The same with any request.
-spec ask(inet:port_number(), iodata()) -> {integer(), binary()} | {error, term()}.
ask(Port, Request) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]) of
        {ok, Socket} ->
            ok = gen_tcp:send(Socket, Request),
            Response = response(Socket, <<>>),
            ok = gen_tcp:close(Socket),
            case Response of
                {ok, Status, _, Body} -> {Status, Body};
                {error, Reason} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

connect(Table, Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true}]) of
        {ok, Socket} ->
            ask(Table, Port, Socket);
        {error, Reason} ->
            failed(Table, Reason)
    end.

ask(Table, Port, Socket) ->
    _ = gen_tcp:send(Socket, <<"GET / HTTP/1.1\r\nhost: x\r\n\r\n">>),
    case response(Socket, <<>>) of
        {ok, 200, Close, _} ->
            _ = ets:update_counter(Table, requests, 1),
            case {ets:lookup_element(Table, stop, 2), Close} of
                {1, _} ->
                    gen_tcp:close(Socket);
                {0, true} ->
                    _ = ets:update_counter(Table, announced, 1),
                    ok = gen_tcp:close(Socket),
                    connect(Table, Port);
                {0, false} ->
                    ask(Table, Port, Socket)
            end;
        Other ->
            ok = gen_tcp:close(Socket),
            failed(Table, Other)
    end.

%% A WebSocket that sends a message every 10 ms.
upgrade(Table, Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true}]),
    ok = gen_tcp:send(Socket, [
        "GET /echo HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ]),
    case head(Socket, <<>>) of
        {ok, <<"HTTP/1.1 101", _/binary>>, Rest} ->
            talk(Table, Port, Socket, Rest);
        Other ->
            ok = gen_tcp:close(Socket),
            failed(Table, Other)
    end.

head(Socket, Data) ->
    case binary:split(Data, <<"\r\n\r\n">>) of
        [Head, Rest] ->
            {ok, Head, Rest};
        [_] ->
            case gen_tcp:recv(Socket, 0, 20_000) of
                {ok, More} -> head(Socket, <<Data/binary, More/binary>>);
                {error, Reason} -> {error, Reason}
            end
    end.

talk(Table, Port, Socket, Data) ->
    Last = ets:lookup_element(Table, stop, 2) =:= 1,
    %% FIN and the opcode; the mask is zero.
    Frame =
        case Last of
            true -> <<16#88, 16#82, 0:32, 1000:16>>;
            false -> <<16#81, 16#85, 0:32, "hello">>
        end,
    _ = gen_tcp:send(Socket, Frame),
    case frame(Socket, Data) of
        {ok, 1, <<"hello">>, Rest} ->
            _ = ets:update_counter(Table, messages, 1),
            ok = timer:sleep(10),
            talk(Table, Port, Socket, Rest);
        {ok, 8, <<1012:16, _/binary>>, _} ->
            _ = ets:update_counter(Table, restarted, 1),
            _ = gen_tcp:send(Socket, <<16#88, 16#82, 0:32, 1012:16>>),
            %% The server ends the connection first.
            {error, closed} = ended(Socket),
            ok = gen_tcp:close(Socket),
            Last orelse upgrade(Table, Port);
        {ok, 8, <<1000:16>>, _} when Last ->
            gen_tcp:close(Socket);
        Other ->
            ok = gen_tcp:close(Socket),
            failed(Table, {websocket, Other})
    end.

ended(Socket) ->
    case gen_tcp:recv(Socket, 0, 20_000) of
        {ok, _} -> ended(Socket);
        {error, Reason} -> {error, Reason}
    end.

%% A short frame of a server.
frame(_Socket, <<1:1, 0:3, Opcode:4, 0:1, Size:7, Payload:Size/binary, Rest/binary>>) when Size < 126 ->
    {ok, Opcode, Payload, Rest};
frame(Socket, Data) ->
    case gen_tcp:recv(Socket, 0, 20_000) of
        {ok, More} -> frame(Socket, <<Data/binary, More/binary>>);
        {error, Reason} -> {error, Reason}
    end.

failed(Table, Reason) ->
    ct:pal("a request failed: ~tp", [Reason]),
    ets:update_counter(Table, failed, 1).

response(Socket, Data) ->
    case binary:split(Data, <<"\r\n\r\n">>) of
        [Head, Body] ->
            Lower = string:lowercase(Head),
            {match, [Status]} = re:run(Head, "^HTTP/1.1 ([0-9]+)", [{capture, [1], list}]),
            {match, [Length]} = re:run(Lower, "content-length: ([0-9]+)", [{capture, [1], list}]),
            Close = binary:match(Lower, <<"connection: close">>) =/= nomatch,
            case rest(Socket, Body, list_to_integer(Length)) of
                {ok, Whole} -> {ok, list_to_integer(Status), Close, Whole};
                {error, Reason} -> {error, Reason}
            end;
        [_] ->
            case gen_tcp:recv(Socket, 0, 20_000) of
                {ok, More} -> response(Socket, <<Data/binary, More/binary>>);
                {error, Reason} -> {error, Reason}
            end
    end.

rest(_Socket, Body, Length) when byte_size(Body) >= Length ->
    {ok, Body};
rest(Socket, Body, Length) ->
    case gen_tcp:recv(Socket, 0, 20_000) of
        {ok, More} -> rest(Socket, <<Body/binary, More/binary>>, Length);
        {error, Reason} -> {error, Reason}
    end.
