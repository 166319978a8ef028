%% @doc Serves an ASGI application below a supervisor.
%%
%% ```
%% {ok, Server} = py_asgi:start_link(#{app => <<"main:app">>, app_dir => <<"/srv/app">>, port => 8000}),
%% ok = py_asgi:reload(Server),
%% #{address := Address} = py_asgi:info(Server).
%% '''
%%
%% The process owns the listening socket, so that the socket outlives the loops that accept from it.
%% Each loop has a process, a py_asgi_worker, linked to this one: a worker that dies is replaced,
%% and only its own requests fail. A reload starts new workers first and lets the old ones drain.
%%
%% Messages: `{renew, Worker}' from a worker that has served as many requests as it may, or from its
%% lifetime's timer; `{'EXIT', Worker, Reason}' from one that has ended; the calls below.
-module(py_asgi).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, child_spec/1, reload/1, drain/2, info/1, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([server/0, options/0, handler/0, request/0, response/0, info/0, worker_info/0]).

-type server() :: pid() | atom().
-type options() :: #{
    %% `module:attribute'.
    app := binary(),
    %% Where its modules are; a reload reads those below it again. Default: the current folder.
    app_dir => binary(),
    %% `wsgi': the application runs on threads. Default: `asgi'.
    interface => asgi | wsgi,
    %% The attribute is a function that returns the application. Default: false.
    factory => boolean(),
    %% Registers the process.
    name => atom(),
    %% An IP address. Default: 127.0.0.1.
    host => inet:ip_address() | binary(),
    %% 0 is any free port. Default: 8000.
    port => inet:port_number(),
    %% The path of a Unix socket, instead of `host' and `port'.
    uds => binary(),
    %% Loops. With the GIL, more than one is for isolation, not for speed. Default: 1.
    workers => pos_integer(),
    backlog => pos_integer(),
    %% Other processes of this machine may listen on the same port. Default: false.
    reuse_port => boolean(),
    %% Milliseconds for requests that are being processed when a worker drains. Default: 30,000.
    drain_timeout => non_neg_integer(),
    %% Milliseconds for the application's import and startup. Default: 60,000.
    start_timeout => pos_integer(),
    %% Milliseconds after which a worker is replaced, 10% more or less. Default: never.
    lifetime => pos_integer() | infinity,
    %% Paths, with all below them, that Erlang handles before the application sees them.
    handlers => #{Prefix :: binary() => handler()},
    %% `certfile', `keyfile', `password'.
    ssl => #{certfile := binary(), keyfile => binary(), password => binary()},
    %% Those of `erlang_loop.asgi.Config': docs/serving.md.
    atom() => term()
}.
%% A function of one argument, run in a process of its own for each request. With a module and a
%% function, the module's current version is called.
-type handler() :: fun((request()) -> response()) | {module(), Function :: atom()}.
-type request() :: #{
    method := binary(),
    path := binary(),
    query := binary(),
    %% Names in lower case.
    headers := [{binary(), binary()}],
    body := binary()
}.
-type response() :: {Status :: 200..999, [{iodata(), iodata()}], Body :: iodata()}.
-type worker_info() :: #{
    pid := pid(),
    loop := pid(),
    state := serving | draining,
    age_ms := non_neg_integer(),
    connections := non_neg_integer(),
    websockets := non_neg_integer(),
    active := non_neg_integer(),
    served := non_neg_integer()
}.
-type info() :: #{
    app := binary(),
    address := {inet:ip_address(), inet:port_number()} | binary(),
    state := serving | draining | drained,
    workers := [worker_info()]
}.

-record(worker, {
    loop :: pid(),
    since :: integer(),
    state = serving :: serving | draining
}).
-record(state, {
    options :: options(),
    socket :: socket:socket() | undefined,
    address :: {inet:ip_address(), inet:port_number()} | binary(),
    workers = #{} :: #{pid() => #worker{}},
    %% When workers were replaced because they died, in milliseconds.
    deaths = [] :: [integer()],
    %% Whom to reply to when the last worker has drained.
    drainers = [] :: [gen_server:from()],
    state = serving :: serving | draining | drained
}).

%% This many deaths of workers within PERIOD milliseconds end the server: its supervisor decides.
-define(DEATHS, 10).
-define(PERIOD, 10_000).

-define(CONFIG, [
    root_path, proxy_headers, forwarded_allow_ips, proxy_protocol, lifespan, access_log,
    server_header, date_header, headers, limit_concurrency,
    limit_max_requests, limit_request_head, limit_request_body, timeout_keep_alive,
    timeout_request_head, timeout_disconnect, ws_max_size, ws_ping_interval, ws_ping_timeout,
    ws_per_message_deflate
]).

%% @doc Starts the server: imports the application, runs its startup and listens. If one of these
%% fails, so does the start: `{error, {app, Reason}}' has the exception with its traceback,
%% `{error, {listen, Address, Posix}}' says why the address cannot be used.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(Options) ->
    ok = check(Options),
    case Options of
        #{name := Name} -> gen_server:start_link({local, Name}, ?MODULE, Options, [{timeout, infinity}]);
        #{} -> gen_server:start_link(?MODULE, Options, [{timeout, infinity}])
    end.

%% @doc A child specification for your supervisor. A server that is shut down drains.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(Options) ->
    #{
        id => maps:get(name, Options, ?MODULE),
        start => {?MODULE, start_link, [Options]},
        shutdown => drain_timeout(Options) + 5000
    }.

%% @doc Starts new workers, with the application's modules read again, and drains the old ones in
%% the background. Connections are accepted all the time. If the new workers do not start, the old
%% ones go on.
-spec reload(server()) -> ok | {error, term()}.
reload(Server) ->
    gen_server:call(Server, reload, infinity).

%% @doc Accepts no more connections, and returns when all requests have ended. What still runs after
%% `Timeout' milliseconds is cancelled. The server stays, without workers, until it is stopped.
-spec drain(server(), non_neg_integer()) -> ok.
drain(Server, Timeout) when is_integer(Timeout), Timeout >= 0 ->
    gen_server:call(Server, {drain, Timeout}, infinity);
drain(_Server, Timeout) ->
    error({bad_option, {timeout, Timeout}, "milliseconds"}).

%% @doc What it serves, and what its workers do.
-spec info(server()) -> info().
info(Server) ->
    {Info, Workers} = gen_server:call(Server, info, infinity),
    %% The loops are asked by the caller: one that is stuck does not block the server.
    Info#{workers => lists:append([worker_info(Pid, Worker) || {Pid, Worker} <- Workers])}.

worker_info(Pid, #worker{loop = Loop, since = Since, state = State}) ->
    case py_event_loop:run(Loop, 'erlang_loop.asgi.worker', counts, []) of
        {ok, #{<<"connections">> := Connections, <<"active">> := Active, <<"served">> := Served} = Counts} ->
            [
                #{
                    pid => Pid,
                    loop => Loop,
                    state => State,
                    age_ms => now_ms() - Since,
                    connections => Connections,
                    websockets => maps:get(<<"websockets">>, Counts),
                    active => Active,
                    served => Served
                }
            ];
        %% It has ended meanwhile.
        {error, _} ->
            []
    end.

%% @doc Drains and ends the server.
-spec stop(server()) -> ok.
stop(Server) ->
    gen_server:stop(Server, normal, infinity).

%% Options

-spec check(term()) -> ok.
check(#{uds := _, reuse_port := true}) ->
    py_event_loop_options:bad({reuse_port, true}, "for a host and a port");
check(#{app := App} = Options) when is_binary(App) ->
    maps:foreach(fun valid/2, Options);
check(#{app := App}) ->
    py_event_loop_options:bad({app, App}, "a binary, `module:attribute'");
check(Options) ->
    py_event_loop_options:bad(Options, "a map with `app'").

valid(app, _) -> ok;
valid(Key, Value) when Key =:= app_dir; Key =:= uds -> valid(Key, Value, is_binary(Value), "a binary");
valid(Key, Value) when Key =:= factory; Key =:= reuse_port ->
    valid(Key, Value, is_boolean(Value), "a boolean");
valid(interface, Value) -> valid(interface, Value, lists:member(Value, [asgi, wsgi]), "asgi or wsgi");
valid(name, Value) -> valid(name, Value, is_atom(Value) andalso Value =/= undefined, "an atom");
valid(host, Value) -> valid(host, Value, ip(Value) =/= error, "an IP address");
valid(port, Value) ->
    valid(port, Value, is_integer(Value) andalso Value >= 0 andalso Value < 65536, "a port");
valid(Key, Value) when Key =:= workers; Key =:= backlog; Key =:= start_timeout ->
    valid(Key, Value, is_integer(Value) andalso Value > 0, "a positive integer");
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

drain_timeout(Options) -> maps:get(drain_timeout, Options, 30_000).

%% The process

%% @private
-spec init(options()) -> {ok, #state{}} | {stop, term()}.
init(Options) ->
    process_flag(trap_exit, true),
    case listen(Options) of
        {ok, Socket, Address} ->
            State = #state{options = Options, socket = Socket, address = Address},
            case start_workers(false, State) of
                {ok, Workers} -> {ok, State#state{workers = Workers}};
                {error, Reason} -> {stop, Reason}
            end;
        {error, Reason} ->
            {stop, Reason}
    end.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}}.
handle_call(info, _From, #state{options = #{app := App}} = State) ->
    Info = #{app => App, address => State#state.address, state => State#state.state},
    {reply, {Info, maps:to_list(State#state.workers)}, State};
handle_call(reload, _From, #state{state = serving} = State) ->
    case start_workers(true, State) of
        {ok, New} ->
            Old = drain_workers(drain_timeout(State#state.options), false, State#state.workers),
            {reply, ok, State#state{workers = maps:merge(Old, New)}};
        {error, Reason} ->
            {reply, {error, Reason}, State}
    end;
handle_call(reload, _From, State) ->
    {reply, {error, State#state.state}, State};
handle_call({drain, _}, _From, #state{workers = Workers} = State) when Workers =:= #{} ->
    {reply, ok, close_socket(State#state{state = drained})};
handle_call({drain, Timeout}, From, State) ->
    Workers = drain_workers(Timeout, true, State#state.workers),
    Drainers = [From | State#state.drainers],
    {noreply, State#state{workers = Workers, drainers = Drainers, state = draining}};
handle_call(Request, _From, State) ->
    ?LOG_WARNING("py_asgi ~p got an unknown call: ~tp", [self(), Request]),
    {reply, {error, unknown_call}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Message, State) ->
    ?LOG_WARNING("py_asgi ~p got an unknown cast: ~tp", [self(), Message]),
    {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({renew, Pid}, #state{state = serving, workers = Workers} = State) ->
    case Workers of
        #{Pid := #worker{state = serving} = Worker} -> {noreply, renew(Pid, Worker, State)};
        %% It has been replaced already.
        #{} -> {noreply, State}
    end;
handle_info({renew, _Pid}, State) ->
    {noreply, State};
handle_info({'EXIT', Pid, Reason}, #state{workers = Workers} = State) ->
    case maps:take(Pid, Workers) of
        {#worker{state = draining}, Left} -> {noreply, drained(State#state{workers = Left})};
        {#worker{state = serving}, Left} -> replace(Pid, Reason, State#state{workers = Left});
        %% A worker that did not start. gen_server handles the parent's end.
        error -> {noreply, State}
    end;
handle_info(Message, State) ->
    ?LOG_WARNING("py_asgi ~p got an unknown message: ~tp", [self(), Message]),
    {noreply, State}.

%% @private
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{options = Options, workers = Workers} = State) ->
    Timeout = drain_timeout(Options),
    Left = drain_workers(Timeout, true, Workers),
    ok = await_ends(maps:keys(Left)),
    _ = close_socket(State),
    ok.

await_ends([]) ->
    ok;
await_ends([Pid | Pids]) ->
    Monitor = monitor(process, Pid),
    %% A worker ends by itself: its own steps have timeouts.
    receive
        {'DOWN', Monitor, process, Pid, _} -> await_ends(Pids)
    end.

%% Workers

start_workers(Fresh, #state{options = Options} = State) ->
    start_workers(maps:get(workers, Options, 1), Fresh, State, #{}).

start_workers(0, _Fresh, _State, Started) ->
    {ok, Started};
start_workers(Count, Fresh, State, Started) ->
    case start_worker(Fresh, State) of
        {ok, Pid, Worker} ->
            start_workers(Count - 1, false, State, Started#{Pid => Worker});
        {error, Reason} ->
            ok = await_ends(maps:keys(drain_workers(0, true, Started))),
            {error, Reason}
    end.

start_worker(Fresh, #state{options = Options, socket = Socket}) ->
    {ok, Fd} = socket:getopt(Socket, otp, fd),
    Start = #{
        server => self(),
        fd => Fd,
        app => maps:get(app, Options),
        fresh => Fresh,
        importing => maps:with([app_dir, factory, interface], Options),
        config => maps:with([ssl, backlog | ?CONFIG], Options),
        handlers => maps:map(fun(_, Handler) -> called(Handler) end, maps:get(handlers, Options, #{})),
        start_timeout => maps:get(start_timeout, Options, 60_000)
    },
    case py_asgi_worker:start_link(Start) of
        {ok, Pid, Loop} ->
            _ = renew_later(Pid, maps:get(lifetime, Options, infinity)),
            {ok, Pid, #worker{loop = Loop, since = now_ms()}};
        {error, Reason} ->
            {error, Reason}
    end.

%% The response as Python's bytes. A wrong one fails here, with its handler in the error.
called({Module, Function}) -> called(fun Module:Function/1);
called(Handler) ->
    fun(Request) ->
        {Status, Headers, Body} = Handler(Request),
        true = is_integer(Status) andalso Status >= 200 andalso Status =< 999,
        {Status, [{bytes(Name), bytes(Value)} || {Name, Value} <- Headers], bytes(Body)}
    end.

bytes(Data) -> {bytes, iolist_to_binary(Data)}.

%% Not all at the same time.
renew_later(_Pid, infinity) ->
    infinity;
renew_later(Pid, Lifetime) ->
    Jitter = rand:uniform(max(1, Lifetime div 5)) - Lifetime div 10,
    erlang:send_after(Lifetime + Jitter, self(), {renew, Pid}).

renew(Pid, Worker, State) ->
    case start_worker(false, State) of
        {ok, New, Started} ->
            Old = drain_workers(drain_timeout(State#state.options), false, #{Pid => Worker}),
            Workers = maps:merge(State#state.workers, Old),
            State#state{workers = Workers#{New => Started}};
        {error, Reason} ->
            ?LOG_ERROR("py_asgi ~p cannot replace its worker ~p, which goes on: ~tp", [
                self(), Pid, Reason
            ]),
            _ = renew_later(Pid, maps:get(lifetime, State#state.options, infinity)),
            State
    end.

%% A worker died: only what ran on it has failed.
replace(Pid, Reason, #state{state = serving, deaths = Deaths} = State) ->
    ?LOG_ERROR("py_asgi ~p replaces its worker ~p, which died: ~tp", [self(), Pid, Reason]),
    Now = now_ms(),
    Recent = [Now | [At || At <- Deaths, Now - At < ?PERIOD]],
    case length(Recent) > ?DEATHS orelse start_worker(false, State) of
        true ->
            {stop, {workers_die, Reason}, State};
        {ok, New, Worker} ->
            Workers = (State#state.workers)#{New => Worker},
            {noreply, State#state{workers = Workers, deaths = Recent}};
        {error, Error} ->
            {stop, {worker, Error}, State}
    end;
replace(_Pid, _Reason, State) ->
    {noreply, drained(State)}.

drain_workers(Timeout, AtOnce, Workers) ->
    maps:map(
        fun(Pid, Worker) ->
            ok = py_asgi_worker:drain(Pid, Timeout, AtOnce),
            Worker#worker{state = draining}
        end,
        Workers
    ).

drained(#state{state = draining, workers = Workers} = State) when Workers =:= #{} ->
    _ = [gen_server:reply(From, ok) || From <- State#state.drainers],
    close_socket(State#state{state = drained, drainers = []});
drained(State) ->
    State.

now_ms() -> erlang:monotonic_time(millisecond).

%% The listening socket

listen(#{uds := Path} = Options) ->
    _ = unlink_if_dead(Path),
    bound(socket:open(local, stream, default), #{family => local, path => Path}, Path, Options);
listen(Options) ->
    Address = ip(maps:get(host, Options, {127, 0, 0, 1})),
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

close_socket(#state{socket = undefined} = State) ->
    State;
close_socket(#state{socket = Socket, address = Address} = State) ->
    _ = socket:close(Socket),
    _ = is_binary(Address) andalso file:delete(Address),
    State#state{socket = undefined}.
