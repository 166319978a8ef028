%% @doc One connection of the dashboard: reads a request, checks it, replies, and closes.
%%
%% In this order: the `Host' is an address or this machine, which a page that rebinds its name
%% cannot claim; the path and method exist; the token is right; a `POST' comes from this page
%% (`Origin'). Files are looked up by their whole path in a list of those there are: no path is ever
%% joined. Each reply closes its connection, so that no request can hide behind another one.
-module(py_dashboard_http).

-include_lib("kernel/include/logger.hrl").

-export([serve/2]).

-type request() :: #{
    method := binary(),
    path := binary(),
    query := #{binary() => binary()},
    headers := #{binary() => binary()}
}.

-define(MAX_HEADERS, 64).
%% For the whole head.
-define(HEAD_MS, 10_000).
%% The shortest and the longest time between two events.
-define(EVENT_MS, 1000).
-define(LATEST_EVENT_MS, 5000).

%% @doc Called by the process that has accepted the connection.
-spec serve(gen_tcp:socket(), py_dashboard:access()) -> ok.
serve(Socket, Access) ->
    case head(Socket) of
        {ok, Request} -> answered(Socket, Request, Access);
        {error, Status} -> reply(Socket, Status, text(), reason(Status));
        closed -> ok
    end,
    closed(Socket).

%% What the browser still sends must not reset the connection before it has read the reply.
closed(Socket) ->
    _ = gen_tcp:shutdown(Socket, write),
    _ = inet:setopts(Socket, [{packet, raw}]),
    _ = gen_tcp:recv(Socket, 0, 100),
    gen_tcp:close(Socket).

%% The head

-spec head(gen_tcp:socket()) -> {ok, request()} | {error, 400..599} | closed.
head(Socket) ->
    End = erlang:monotonic_time(millisecond) + ?HEAD_MS,
    case line(Socket, End) of
        {ok, {http_request, Method, {abs_path, Target}, _}} ->
            case headers(Socket, End, #{}) of
                {ok, Headers} -> target(method(Method), Target, Headers);
                Other -> Other
            end;
        {ok, _} ->
            {error, 400};
        {error, emsgsize} ->
            {error, 431};
        {error, _} ->
            closed
    end.

line(Socket, End) ->
    gen_tcp:recv(Socket, 0, max(0, End - erlang:monotonic_time(millisecond))).

headers(_Socket, _End, Headers) when map_size(Headers) > ?MAX_HEADERS ->
    {error, 431};
headers(Socket, End, Headers) ->
    case line(Socket, End) of
        {ok, {http_header, _, Name, _, Value}} -> header(Socket, End, name(Name), Value, Headers);
        {ok, http_eoh} -> {ok, Headers};
        {ok, _} -> {error, 400};
        {error, emsgsize} -> {error, 431};
        {error, _} -> closed
    end.

%% A header that two readers could understand differently.
header(_, _, Name, _, Headers) when is_map_key(Name, Headers) -> {error, 400};
header(Socket, End, Name, Value, Headers) -> headers(Socket, End, Headers#{Name => Value}).

method(Method) when is_atom(Method) -> atom_to_binary(Method);
method(Method) -> Method.

name(Name) when is_atom(Name) -> name(atom_to_binary(Name));
name(Name) -> string:lowercase(Name).

target(Method, Target, Headers) ->
    {Path, Query} =
        case binary:split(Target, <<"?">>) of
            [Only] -> {Only, []};
            [Before, After] -> {Before, uri_string:dissect_query(After)}
        end,
    case is_list(Query) of
        true ->
            Pairs = maps:from_list([{Key, Value} || {Key, Value} <- Query, is_binary(Value)]),
            {ok, #{method => Method, path => Path, query => Pairs, headers => Headers}};
        false ->
            {error, 400}
    end.

%% Is it allowed

answered(Socket, #{headers := Headers, path := Path, method := Method} = Request, Access) ->
    case {is_own_host(maps:get(<<"host">>, Headers, <<>>)), route(Method, Path)} of
        {false, _} -> reply(Socket, 421, text(), "This host name is not that of the dashboard.\n");
        {true, {error, Status}} -> reply(Socket, Status, text(), reason(Status));
        {true, {ok, Route}} -> entered(Socket, entry(Request, Access), Route, Request, Access)
    end.

is_own_host(Host) ->
    Name = re:replace(Host, ":[0-9]+$", "", [{return, list}]),
    {ok, Machine} = inet:gethostname(),
    lists:member(Name, ["localhost", Machine]) orelse is_address(string:trim(Name, both, "[]")).

is_address(Name) ->
    element(1, inet:parse_strict_address(Name)) =:= ok.

%% With the token in the URL once, and then with the cookie; a scraper of metrics has it in a header.
entry(#{headers := #{<<"authorization">> := <<"Bearer ", Token/binary>>}, path := <<"/metrics">>}, #{token := Right}) ->
    case is_same(Token, Right) of
        true -> known;
        false -> refused
    end;
entry(#{query := #{<<"token">> := Token}}, #{token := Right}) ->
    case is_same(Token, Right) of
        true -> new;
        false -> refused
    end;
entry(#{headers := Headers}, #{token := Right, cookie := Name}) ->
    Pairs = binary:split(maps:get(<<"cookie">>, Headers, <<>>), [<<"; ">>, <<";">>], [global]),
    Tokens = [Value || Pair <- Pairs, [Key, Value] <- [binary:split(Pair, <<"=">>)], Key =:= Name],
    case lists:any(fun(Token) -> is_same(Token, Right) end, Tokens) of
        true -> known;
        false -> refused
    end.

%% Takes the same time wherever they differ.
is_same(One, Other) when byte_size(One) =:= byte_size(Other) ->
    Pairs = lists:zip(binary_to_list(One), binary_to_list(Other)),
    lists:foldl(fun({A, B}, Differs) -> Differs bor (A bxor B) end, 0, Pairs) =:= 0;
is_same(_, _) ->
    false.

entered(Socket, refused, _, _, _) ->
    reply(Socket, 401, text(), "The token is missing or wrong. Open the URL that the node logged, which has it.\n");
entered(Socket, new, page, _, #{token := Token, cookie := Name}) ->
    Cookie = [Name, $=, Token, "; Path=/; HttpOnly; SameSite=Strict"],
    %% Without the token in the address bar and in the history.
    reply(Socket, 303, [{"Location", "/"}, {"Set-Cookie", Cookie} | text()], "");
entered(Socket, new, _, _, _) ->
    reply(Socket, 400, text(), "The token opens the page only.\n");
entered(Socket, known, Route, Request, Access) ->
    routed(Socket, Route, Request, Access).

%% What there is

route(<<"GET">>, <<"/">>) -> {ok, page};
route(<<"GET">>, <<"/api/view">>) -> {ok, view};
route(<<"GET">>, <<"/api/events">>) -> {ok, events};
route(<<"GET">>, <<"/metrics">>) -> {ok, metrics};
route(<<"GET">>, <<"/api/trace">>) -> {ok, trace};
route(<<"POST">>, <<"/api/profile">>) -> {ok, profile};
route(<<"POST">>, <<"/api/cancel">>) -> {ok, {change, cancel}};
route(<<"POST">>, <<"/api/interrupt">>) -> {ok, {change, interrupt}};
route(<<"POST">>, <<"/api/restart">>) -> {ok, {change, restart}};
route(<<"GET">>, Path) ->
    case file(Path) of
        {_, _} = File -> {ok, {file, File}};
        none -> {error, 404}
    end;
route(_, _) -> {error, 405}.

file(<<"/app.js">>) -> {"app.js", "text/javascript; charset=utf-8"};
file(<<"/element.js">>) -> {"element.js", "text/javascript; charset=utf-8"};
file(<<"/overview.js">>) -> {"overview.js", "text/javascript; charset=utf-8"};
file(<<"/loop.js">>) -> {"loop.js", "text/javascript; charset=utf-8"};
file(<<"/task.js">>) -> {"task.js", "text/javascript; charset=utf-8"};
file(<<"/calls.js">>) -> {"calls.js", "text/javascript; charset=utf-8"};
file(<<"/flame.js">>) -> {"flame.js", "text/javascript; charset=utf-8"};
file(<<"/heat.js">>) -> {"heat.js", "text/javascript; charset=utf-8"};
file(<<"/profile.js">>) -> {"profile.js", "text/javascript; charset=utf-8"};
file(<<"/recorder.js">>) -> {"recorder.js", "text/javascript; charset=utf-8"};
file(<<"/style.css">>) -> {"style.css", "text/css; charset=utf-8"};
file(<<"/icon.svg">>) -> {"icon.svg", "image/svg+xml"};
file(_) -> none.

routed(Socket, page, _, _) ->
    send_file(Socket, {"index.html", "text/html; charset=utf-8"});
routed(Socket, {file, File}, _, _) ->
    send_file(Socket, File);
routed(Socket, view, #{query := Query}, Access) ->
    reply(Socket, 200, json(), py_dashboard_json:encode(py_dashboard_view:view(Query, Access)));
routed(Socket, metrics, _, _) ->
    Type = [{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}],
    reply(Socket, 200, Type, py_metrics:prometheus());
routed(Socket, events, #{query := Query}, Access) ->
    Type = [{"Content-Type", "text/event-stream"}],
    case gen_tcp:send(Socket, start(200, Type)) of
        ok -> events(Socket, Query, Access);
        {error, _} -> ok
    end;
routed(Socket, trace, #{query := Query}, _) ->
    case py_dashboard_view:trace(Query) of
        {ok, Trace} -> reply(Socket, 200, [{"Content-Disposition", "attachment; filename=loops.trace.json"} | json()], Trace);
        {error, _} -> reply(Socket, 404, text(), reason(404))
    end;
routed(Socket, profile, #{headers := Headers, query := Query}, _) ->
    case is_own_origin(Headers) of
        true -> reply(Socket, 200, json(), py_dashboard_json:encode(py_dashboard_view:profile(Query)));
        false -> foreign(Socket)
    end;
routed(Socket, {change, Action}, #{headers := Headers, query := Query}, #{read_only := ReadOnly}) ->
    case {is_own_origin(Headers), ReadOnly} of
        {false, _} -> foreign(Socket);
        {true, true} -> reply(Socket, 403, text(), "The dashboard is read-only.\n");
        {true, false} -> reply(Socket, 200, json(), py_dashboard_json:encode(py_dashboard_view:Action(Query)))
    end.

foreign(Socket) ->
    reply(Socket, 403, text(), "A foreign page must not do this.\n").

is_own_origin(#{<<"origin">> := Origin, <<"host">> := Host}) -> Origin =:= <<"http://", Host/binary>>;
is_own_origin(_) -> false.

%% An event each second until the browser goes away; less often if a view takes long.
events(Socket, Query, Access) ->
    Start = erlang:monotonic_time(millisecond),
    View = py_dashboard_json:encode(py_dashboard_view:view(Query, Access)),
    case gen_tcp:send(Socket, ["data: ", View, "\n\n"]) of
        ok ->
            Took = erlang:monotonic_time(millisecond) - Start,
            waited(Socket, min(?LATEST_EVENT_MS, max(?EVENT_MS, 20 * Took)), fun() -> events(Socket, Query, Access) end);
        {error, _} ->
            ok
    end.

waited(Socket, Ms, Next) ->
    _ = inet:setopts(Socket, [{packet, raw}]),
    case gen_tcp:recv(Socket, 0, Ms) of
        {error, timeout} -> Next();
        %% It is gone, or sends what no browser sends here.
        _ -> ok
    end.

%% Replies

send_file(Socket, {Name, Type}) ->
    Path = filename:join([code:priv_dir(erlang_loop), "dashboard", Name]),
    case file:read_file(Path) of
        {ok, Content} ->
            reply(Socket, 200, [{"Content-Type", Type}], Content);
        {error, Reason} ->
            ?LOG_ERROR("dashboard: ~ts: ~ts", [Path, file:format_error(Reason)]),
            reply(Socket, 500, text(), reason(500))
    end.

text() -> [{"Content-Type", "text/plain; charset=utf-8"}].
json() -> [{"Content-Type", "application/json"}].

reply(Socket, Status, Headers, Body) ->
    Length = {"Content-Length", integer_to_list(iolist_size(Body))},
    %% A browser that is gone needs no reply.
    _ = gen_tcp:send(Socket, [start(Status, [Length | Headers]), Body]),
    ok.

start(Status, Headers) ->
    [
        ["HTTP/1.1 ", integer_to_list(Status), $\s, string:trim(reason(Status)), "\r\n"],
        [[Name, ": ", Value, "\r\n"] || {Name, Value} <- Headers ++ strict()],
        "\r\n"
    ].

strict() ->
    [
        {"Connection", "close"},
        {"Cache-Control", "no-store"},
        {"Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Frame-Options", "DENY"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"}
    ].

reason(200) -> "OK\n";
reason(303) -> "See Other\n";
reason(400) -> "Bad Request\n";
reason(401) -> "Unauthorized\n";
reason(403) -> "Forbidden\n";
reason(404) -> "Not Found\n";
reason(405) -> "Method Not Allowed\n";
reason(421) -> "Misdirected Request\n";
reason(431) -> "Request Header Fields Too Large\n";
reason(500) -> "Internal Server Error\n".
