%% @private
%% @doc The options of py_asgi, checked. Those of the Python server are checked by its `Config'.
-module(py_asgi_options).

-export([check/1, ip/1, of_config/1]).

-define(CONFIG, [
    root_path, proxy_headers, forwarded_allow_ips, proxy_protocol, lifespan, access_log,
    server_header, date_header, headers, limit_concurrency,
    limit_max_requests, limit_request_head, limit_request_body, timeout_keep_alive,
    timeout_request_head, timeout_disconnect, ws_max_size, ws_ping_interval, ws_ping_timeout,
    ws_per_message_deflate
]).

%% @doc Raises `{bad_option, What, Why}'.
-spec check(term()) -> ok.
check(#{uds := _, reuse_port := true}) ->
    py_event_loop_options:bad({reuse_port, true}, "for a host and a port");
check(#{listen := false} = Options) when
    is_map_key(host, Options); is_map_key(port, Options); is_map_key(uds, Options)
->
    py_event_loop_options:bad({listen, false}, "a server without host, port and uds");
check(#{max_rss := Bytes} = Options) when not is_map_key(place, Options) ->
    py_event_loop_options:bad({max_rss, Bytes}, "for workers with `place => peer'");
check(#{app := App} = Options) when is_binary(App) ->
    maps:foreach(fun valid/2, Options);
check(#{app := Apps} = Options) when is_map(Apps), map_size(Apps) > 0 ->
    maps:foreach(fun application/2, Apps),
    maps:foreach(fun valid/2, Options);
check(#{app := App}) ->
    py_event_loop_options:bad({app, App}, "a binary, `module:attribute', or a map of paths to such");
check(Options) ->
    py_event_loop_options:bad(Options, "a map with `app'").

application(<<"/", _/binary>>, App) when is_binary(App) -> ok;
application(Prefix, App) -> py_event_loop_options:bad({app, #{Prefix => App}}, "paths to `module:attribute'").

valid(app, _) -> ok;
valid(Key, Value) when Key =:= app_dir; Key =:= uds -> valid(Key, Value, is_binary(Value), "a binary");
valid(Key, Value) when Key =:= factory; Key =:= reuse_port; Key =:= listen ->
    valid(Key, Value, is_boolean(Value), "a boolean");
valid(interface, Value) -> valid(interface, Value, lists:member(Value, [asgi, wsgi]), "asgi or wsgi");
valid(name, Value) -> valid(name, Value, is_atom(Value) andalso Value =/= undefined, "an atom");
valid(host, Value) -> valid(host, Value, ip(Value) =/= error, "an IP address");
valid(port, Value) ->
    valid(port, Value, is_integer(Value) andalso Value >= 0 andalso Value < 65536, "a port");
valid(Key, Value) when
    Key =:= workers; Key =:= backlog; Key =:= start_timeout; Key =:= max_rss
->
    valid(Key, Value, is_integer(Value) andalso Value > 0, "a positive integer");
valid(place, Place) ->
    case py_peer_options:check(Place) of
        {peer, _} -> ok;
        %% A listening socket cannot be sent to another machine.
        {node, _} -> py_event_loop_options:bad({place, Place}, "peer or {peer, Options}")
    end;
valid(lifetime, infinity) -> ok;
valid(lifetime, Value) -> valid(lifetime, Value, is_integer(Value) andalso Value > 0, "milliseconds");
valid(drain_timeout, Value) ->
    valid(drain_timeout, Value, is_integer(Value) andalso Value >= 0, "milliseconds");
valid(handlers, Value) when is_map(Value) ->
    Valid = [is_binary(Prefix) andalso is_handler(Handler) || {Prefix, Handler} <- maps:to_list(Value)],
    valid(handlers, Value, lists:all(fun(One) -> One end, Valid), "a map of paths to handlers");
valid(handlers, Value) ->
    py_event_loop_options:bad({handlers, Value}, "a map of paths to handlers");
valid(ssl, Value) ->
    valid(ssl, Value, is_map(Value) andalso is_map_key(certfile, Value), "a map with `certfile'");
valid(Key, Value) ->
    %% The values are checked by Config.
    case lists:member(Key, ?CONFIG) of
        true -> ok;
        false -> py_event_loop_options:bad({Key, Value}, "no option of py_asgi")
    end.

valid(_Key, _Value, true, _Must) -> ok;
valid(Key, Value, false, Must) -> py_event_loop_options:bad({Key, Value}, Must).

is_handler({Module, Function}) -> is_atom(Module) andalso is_atom(Function);
is_handler(Handler) -> is_function(Handler, 1).

%% @doc An address as a tuple, from a tuple or its text.
-spec ip(term()) -> inet:ip_address() | error.
ip(Address) when is_tuple(Address) ->
    case inet:ntoa(Address) of
        {error, einval} -> error;
        _ -> Address
    end;
ip(Text) when is_binary(Text) ->
    case inet:parse_address(binary_to_list(Text)) of
        {ok, Address} -> Address;
        {error, einval} -> error
    end;
ip(_) ->
    error.

%% @doc The options of the Python server.
-spec of_config(py_asgi:options()) -> map().
of_config(Options) ->
    maps:with([ssl, backlog | ?CONFIG], Options).
