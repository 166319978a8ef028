%% @doc Clients of an HTTP server under load: keep-alive connections that send requests repeatedly, and
%% count what fails. A connection that the server announced to close is opened again.
-module(asgi_load).

-export([start/2, stop/1, get/2]).

-type load() :: {ets:tid(), [pid()]}.
-export_type([load/0]).

%% @doc This many clients, each with its own connection.
-spec start(inet:port_number(), pos_integer()) -> load().
start(Port, Clients) ->
    Table = ets:new(?MODULE, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{requests, 0}, {failed, 0}, {announced, 0}, {stop, 0}]),
    {Table, [spawn_link(fun() -> connect(Table, Port) end) || _ <- lists:seq(1, Clients)]}.

%% @doc Ends the clients after their current request. Requests that had a complete response, those
%% that had none, and connections that the server closed as it had said.
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
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]) of
        {ok, Socket} ->
            Request = ["GET ", Path, " HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"],
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
