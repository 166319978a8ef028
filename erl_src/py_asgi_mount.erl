%% @private
%% @doc A request that another Erlang server passes to the application: `py_asgi:handle/2'.
%%
%% A process linked to the caller runs the application's task. The application asks by a fun, and
%% waits for each reply: `begin', `read' and the parts of its response. The fun runs in a process of
%% the worker's node, which sends `{ask, Ref, From, What}' to the caller and waits for
%% `{reply, Ref, Reply}'. So a piece of a body is in flight only after it was asked for.
-module(py_asgi_mount).

-export([handle/2]).

-define(PYTHON, 'erlang_loop.asgi.mounted').
%% How many workers are tried, if they end before they begin the request.
-define(TRIES, 3).

-record(mount, {
    ref :: reference(),
    runner :: pid(),
    monitor :: reference(),
    body :: fun(() -> {more | last, iodata()} | closed),
    %% `none': the caller wants the response as a whole.
    reply :: none | fun((py_asgi:reply()) -> term()),
    start = none :: none | {200..999, [{binary(), binary()}]},
    data = [] :: iodata(),
    begun = false :: boolean()
}).

-spec handle(py_asgi:server(), py_asgi:mounted()) -> py_asgi:response() | ok | {error, term()}.
handle(Server, Request) ->
    ok = check(Request),
    handle(Server, Request, ?TRIES).

handle(Server, Request, Tries) ->
    case loop(Server) of
        {ok, Loop} ->
            case run(Loop, Request) of
                {not_begun, _} when Tries > 1 -> handle(Server, Request, Tries - 1);
                {not_begun, Reason} -> {error, Reason};
                Result -> Result
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% Of a worker that serves. This does not wait for the server's process, which may be starting one.
loop(Server) ->
    case persistent_term:get({py_asgi, pid(Server)}, none) of
        none -> {error, {no_server, Server}};
        [] -> {error, no_worker};
        Loops -> {ok, lists:nth(rand:uniform(length(Loops)), Loops)}
    end.

pid(Server) when is_pid(Server) -> Server;
pid(Server) -> whereis(Server).

run(Loop, Request) ->
    Caller = self(),
    Ref = make_ref(),
    Ask = fun(What) -> ask(Caller, Ref, What) end,
    Args = [scope(Request), Ask],
    Trace = py_trace:current(),
    Run = fun() ->
        %% The caller's, as in a call that it makes itself.
        ok = py_trace:put(Trace),
        Caller ! {ended, Ref, py_event_loop:run(Loop, ?PYTHON, handle, Args, #{}, infinity)}
    end,
    {Runner, Monitor} = spawn_opt(Run, [link, monitor]),
    Mount = #mount{
        ref = Ref,
        runner = Runner,
        monitor = Monitor,
        body = body(maps:get(body, Request, <<>>)),
        reply = maps:get(reply, Request, none)
    },
    try
        serve(Mount)
    after
        %% It still runs if a function of the request has raised: the application is cancelled.
        _ = unlink(Runner),
        _ = exit(Runner, kill),
        _ = demonitor(Monitor, [flush]),
        ok = forget(Ref, Runner)
    end.

forget(Ref, Runner) ->
    receive
        {'EXIT', Runner, _} -> forget(Ref, Runner);
        {ask, Ref, _, _} -> forget(Ref, Runner);
        {ended, Ref, _} -> forget(Ref, Runner)
    after 0 -> ok
    end.

%% In the worker's node.
ask(Caller, Ref, What) ->
    Monitor = monitor(process, Caller),
    Caller ! {ask, Ref, self(), What},
    receive
        {reply, Ref, Reply} -> Reply;
        {'DOWN', Monitor, process, Caller, _} -> closed
    end.

%% In the caller. The application may take any time; its end, and that of its worker, is a message.
serve(#mount{ref = Ref, monitor = Monitor} = Mount) ->
    receive
        {ask, Ref, From, What} ->
            {Reply, Next} = answer(What, Mount),
            From ! {reply, Ref, Reply},
            serve(Next);
        {ended, Ref, {ok, Whole}} ->
            ended(Whole, Mount);
        {ended, Ref, {error, Reason}} when Mount#mount.begun ->
            {error, Reason};
        {ended, Ref, {error, Reason}} ->
            {not_begun, Reason};
        {'DOWN', Monitor, process, _, Reason} ->
            {error, Reason}
    end.

answer('begin', Mount) ->
    {ok, Mount#mount{begun = true}};
answer(read, #mount{body = Body} = Mount) ->
    case Body() of
        {last, Data} ->
            {{true, bytes(iolist_to_binary(Data))}, Mount#mount{body = fun() -> {last, <<>>} end}};
        {more, Data} ->
            {{false, bytes(iolist_to_binary(Data))}, Mount};
        closed ->
            {closed, Mount}
    end;
answer({start, Status, Headers}, #mount{reply = none} = Mount) ->
    {ok, Mount#mount{start = {Status, Headers}}};
answer({More, Data}, #mount{reply = none, data = Before} = Mount) when More =:= more; More =:= last ->
    {ok, Mount#mount{data = [Before, Data]}};
answer(Part, #mount{reply = Reply} = Mount) ->
    case Reply(Part) of
        ok -> {ok, Mount};
        _ -> {closed, Mount}
    end.

ended(true, #mount{reply = none, start = {Status, Headers}, data = Data}) ->
    {Status, Headers, iolist_to_binary(Data)};
ended(true, #mount{}) ->
    ok;
%% It is logged.
ended(false, #mount{}) ->
    {error, incomplete}.

%% The request

check(#{method := Method, path := <<"/", _/binary>> = Path} = Request) when is_binary(Method) ->
    Root = maps:get(root_path, Request, <<>>),
    is_binary(Root) andalso string:prefix(Path, Root) =/= nomatch orelse
        bad({root_path, Root}, "a prefix of the path"),
    maps:foreach(fun valid/2, Request);
check(Request) ->
    bad(Request, "a map with `method' and `path', binaries").

valid(Key, _) when Key =:= method; Key =:= path; Key =:= root_path -> ok;
valid(query, Value) when is_binary(Value) -> ok;
valid(headers, Value) when is_list(Value) ->
    lists:all(fun is_header/1, Value) orelse bad({headers, Value}, "pairs of binaries"),
    ok;
valid(body, Value) when is_binary(Value); is_function(Value, 0) -> ok;
valid(reply, Value) when is_function(Value, 1) -> ok;
valid(scheme, Value) when Value =:= http; Value =:= https -> ok;
valid(client, {Address, Port} = Value) when is_integer(Port) ->
    py_asgi_options:ip(Address) =/= error orelse bad({client, Value}, "an IP address and a port"),
    ok;
valid(Key, Value) ->
    bad({Key, Value}, "no such value of a request: see py_asgi:mounted()").

is_header({Name, Value}) -> is_binary(Name) andalso is_binary(Value);
is_header(_) -> false.

-spec bad(term(), string()) -> no_return().
bad(What, Must) ->
    py_event_loop_options:bad(What, Must).

%% Binaries as Python's bytes.
scope(Request) ->
    Headers = [{bytes(Name), bytes(Value)} || {Name, Value} <- maps:get(headers, Request, [])],
    Client =
        case Request of
            #{client := {Address, Port}} -> {list_to_binary(inet:ntoa(Address)), Port};
            #{} -> none
        end,
    #{
        method => maps:get(method, Request),
        path => bytes(maps:get(path, Request)),
        root_path => maps:get(root_path, Request, <<>>),
        query => bytes(maps:get(query, Request, <<>>)),
        headers => Headers,
        client => Client,
        scheme => maps:get(scheme, Request, http)
    }.

bytes(Data) -> {bytes, Data}.

body(Body) when is_binary(Body) -> fun() -> {last, Body} end;
body(Body) -> Body.
