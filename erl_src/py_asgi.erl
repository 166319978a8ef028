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
%% Messages: `{started, Worker, Result}' from a worker that serves or failed to start;
%% `{renew, Worker}' from one that has served as many requests as it may or needs too much memory, or
%% from its lifetime's timer; `{'EXIT', Worker, Reason}' from one that has ended; the calls below.
-module(py_asgi).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, child_spec/1, reload/1, drain/2, handle/2, info/1, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([server/0, app/0, options/0, handler/0, request/0, response/0, info/0, worker_info/0]).
-export_type([mounted/0, reply/0]).

-type server() :: pid() | atom().
%% `module:attribute'; or several applications, each with the paths that begin with its prefix. The
%% longest one decides.
-type app() :: binary() | #{Prefix :: binary() => binary()}.
-type options() :: #{
    app := app(),
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
    %% `false': no socket; requests come through {@link handle/2} only. Default: true.
    listen => boolean(),
    %% Each worker is an operating system process of its own. Default: all are in this one.
    place => peer | {peer, py_peer_options:options()},
    %% Bytes of memory above which a worker with a place is replaced. Default: no limit.
    max_rss => pos_integer(),
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
%% A request of another server, for {@link handle/2}.
-type mounted() :: #{
    method := binary(),
    %% As it was sent: percent-encoded, without the query.
    path := binary(),
    query => binary(),
    headers => [{binary(), binary()}],
    %% The body, or a function that returns its next piece. It is called when the application
    %% receives.
    body => binary() | fun(() -> {more | last, iodata()} | closed),
    %% The mount point, a prefix of `path': it becomes the scope's `root_path'.
    root_path => binary(),
    client => {inet:ip_address(), inet:port_number()},
    scheme => http | https,
    %% Called with the response, piece by piece; the application waits meanwhile. Anything but `ok'
    %% tells it that the client has gone.
    reply => fun((reply()) -> ok | term())
}.
-type reply() :: {start, Status :: 200..999, [{binary(), binary()}]} | {more | last, binary()}.
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
    app := app(),
    address := py_asgi_socket:address(),
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
    address :: py_asgi_socket:address(),
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

%% @doc Starts the server: imports the application, runs its startup and listens. If one of these
%% fails, so does the start: `{error, {app, Reason}}' has the exception with its traceback,
%% `{error, {listen, Address, Posix}}' says why the address cannot be used.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(Options) ->
    ok = py_asgi_options:check(Options),
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

%% @doc Passes a request of another Erlang server to the application, and returns its response.
%%
%% The functions in `Request' run in the calling process: `body' for each piece that the application
%% receives, `reply' for each that it sends. So neither side is faster than the other. With `reply'
%% the result is `ok' once the response is complete. If the calling process dies, the application is
%% cancelled. `{error, Reason}': there is no worker, or it died; with `reply' the response may have
%% begun.
-spec handle(server(), mounted()) -> response() | ok | {error, term()}.
handle(Server, Request) ->
    py_asgi_mount:handle(Server, Request).

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

drain_timeout(Options) -> maps:get(drain_timeout, Options, 30_000).

%% The process

%% @private
-spec init(options()) -> {ok, #state{}} | {stop, term()}.
init(Options) ->
    process_flag(trap_exit, true),
    case py_asgi_socket:listen(Options) of
        {ok, Socket, Address} ->
            State = #state{options = Options, socket = Socket, address = Address},
            case start_workers(false, State) of
                {ok, Workers} -> {ok, published(State#state{workers = Workers})};
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
            {reply, ok, published(State#state{workers = maps:merge(Old, New)})};
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
    {noreply, published(State#state{workers = Workers, drainers = Drainers, state = draining})};
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
        {#worker{state = serving}, Left} -> replace(Pid, Reason, published(State#state{workers = Left}));
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
    _ = persistent_term:erase({?MODULE, self()}),
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

%% The first one alone: it reads the modules again, and an application that cannot be imported fails
%% once. The others start at the same time.
start_workers(Fresh, #state{options = Options} = State) ->
    case await_starts([start_worker(Fresh, State)]) of
        {ok, First} ->
            Others = maps:get(workers, Options, 1) - 1,
            case await_starts([start_worker(false, State) || _ <- lists:seq(1, Others)]) of
                {ok, Rest} ->
                    {ok, maps:merge(First, Rest)};
                {error, Reason} ->
                    ok = await_ends(maps:keys(drain_workers(0, true, First))),
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

start_worker(Fresh, #state{options = Options, socket = Socket}) ->
    {ok, Pid} = py_asgi_worker:start_link(#{
        server => self(),
        socket => Socket,
        place => maps:with([place], Options),
        app => maps:get(app, Options),
        fresh => Fresh andalso not is_map_key(place, Options),
        importing => maps:with([app_dir, factory, interface], Options),
        config => py_asgi_options:of_config(Options),
        handlers => handlers(Options),
        start_timeout => maps:get(start_timeout, Options, 60_000),
        max_rss => maps:get(max_rss, Options, infinity),
        lifetime => maps:get(lifetime, Options, infinity)
    }),
    Pid.

%% All have started, or none is left. A worker always sends its result, or dies.
await_starts(Pids) ->
    Results = [
        receive
            {started, Pid, {ok, Loop}} -> {Pid, #worker{loop = Loop, since = now_ms()}};
            {started, Pid, {error, Reason}} -> {error, Reason};
            {'EXIT', Pid, Reason} -> {error, Reason}
        end
     || Pid <- Pids
    ],
    Started = maps:from_list([Result || {Pid, _} = Result <- Results, is_pid(Pid)]),
    case [Reason || {error, Reason} <- Results] of
        [] ->
            {ok, Started};
        [Reason | _] ->
            ok = await_ends(maps:keys(drain_workers(0, true, Started))),
            {error, Reason}
    end.

%% For handle/2, which does not wait for this process: it may be starting workers.
published(#state{workers = Workers} = State) ->
    Loops = [Loop || #worker{state = serving, loop = Loop} <- maps:values(Workers)],
    ok = persistent_term:put({?MODULE, self()}, Loops),
    State.

handlers(#{handlers := Handlers, place := _}) ->
    %% A handler runs in this node, wherever its worker is.
    Server = self(),
    maps:map(
        fun(_, Handler) ->
            Called = called(Handler),
            fun(Request) -> erpc:call(node(Server), fun() -> Called(Request) end) end
        end,
        Handlers
    );
handlers(Options) ->
    maps:map(fun(_, Handler) -> called(Handler) end, maps:get(handlers, Options, #{})).

%% The response as Python's bytes. A wrong one fails here, with its handler in the error.
called({Module, Function}) -> called(fun Module:Function/1);
called(Handler) ->
    fun(Request) ->
        {Status, Headers, Body} = Handler(Request),
        true = is_integer(Status) andalso Status >= 200 andalso Status =< 999,
        {Status, [{bytes(Name), bytes(Value)} || {Name, Value} <- Headers], bytes(Body)}
    end.

bytes(Data) -> {bytes, iolist_to_binary(Data)}.

renew(Pid, Worker, State) ->
    case await_starts([start_worker(false, State)]) of
        {ok, New} ->
            Old = drain_workers(drain_timeout(State#state.options), false, #{Pid => Worker}),
            Workers = maps:merge(State#state.workers, Old),
            published(State#state{workers = maps:merge(Workers, New)});
        {error, Reason} ->
            ?LOG_ERROR("py_asgi ~p cannot replace its worker ~p, which goes on: ~tp", [
                self(), Pid, Reason
            ]),
            State
    end.

%% A worker died: only what ran on it has failed.
replace(Pid, Reason, #state{state = serving, deaths = Deaths} = State) ->
    ?LOG_ERROR("py_asgi ~p replaces its worker ~p, which died: ~tp", [self(), Pid, Reason]),
    Now = now_ms(),
    Recent = [Now | [At || At <- Deaths, Now - At < ?PERIOD]],
    case length(Recent) > ?DEATHS orelse await_starts([start_worker(false, State)]) of
        true ->
            {stop, {workers_die, Reason}, State};
        {ok, New} ->
            Workers = maps:merge(State#state.workers, New),
            {noreply, published(State#state{workers = Workers, deaths = Recent})};
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

close_socket(#state{socket = Socket, address = Address} = State) ->
    ok = py_asgi_socket:close(Socket, Address),
    State#state{socket = undefined}.
