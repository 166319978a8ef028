%% @doc A worker of py_asgi: a loop with the Python server on it.
%%
%% It starts the server on the loop and then sends `{started, Pid, {ok, Loop} | {error, Reason}}' to
%% py_asgi. It is linked to py_asgi and to its loop: if one of them dies, so does it. Messages:
%% `{drain, Timeout, AtOnce}' from py_asgi, once; `finished' from the process that waits until the
%% server has served as many requests as it may; `renew' at the end of its lifetime; `memory' every
%% second, if its memory is limited.
-module(py_asgi_worker).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, drain/3]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([start/0]).

-type start() :: #{
    server := pid(),
    socket := socket:socket() | undefined,
    place := #{place => peer | {peer, py_peer_options:options()}},
    app := py_asgi:app(),
    fresh := boolean(),
    importing := map(),
    config := map(),
    handlers := #{binary() => fun((map()) -> tuple())},
    start_timeout := pos_integer(),
    max_rss := pos_integer() | infinity,
    lifetime := pos_integer() | infinity
}.

-record(state, {
    server :: pid(),
    loop :: pid(),
    %% The process whose memory is limited.
    os_pid :: undefined | pos_integer(),
    max_rss :: pos_integer() | infinity,
    lifetime :: pos_integer() | infinity
}).

-define(PYTHON, 'erlang_loop.asgi.worker').
-define(MEMORY_MS, 1000).
%% Milliseconds for the application's shutdown, and for requests that were cancelled.
-define(SHUTDOWN, 10_000).

%% @doc Starts the worker, which begins to start its loop.
-spec start_link(start()) -> {ok, pid()}.
start_link(Start) ->
    {ok, _} = gen_server:start_link(?MODULE, Start, []).

%% @doc Makes the worker accept no more, and end when its requests have ended, or after `Timeout'.
-spec drain(pid(), non_neg_integer(), boolean()) -> ok.
drain(Pid, Timeout, AtOnce) ->
    gen_server:cast(Pid, {drain, Timeout, AtOnce}).

%% @private
-spec init(start()) -> {ok, starting, {continue, start()}}.
init(Start) ->
    process_flag(trap_exit, true),
    {ok, starting, {continue, Start}}.

%% @private
-spec handle_continue(start(), starting) -> {noreply, #state{}} | {stop, normal, starting}.
handle_continue(#{server := Server} = Start, starting) ->
    case start(Start) of
        {ok, State} ->
            Server ! {started, self(), {ok, State#state.loop}},
            {noreply, State};
        {error, Reason} ->
            Server ! {started, self(), {error, Reason}},
            {stop, normal, starting}
    end.

start(#{place := Place} = Start) ->
    case {py_event_loop:start_link(options(Place)), accepting(Start)} of
        {{ok, Loop}, {ok, Socket}} ->
            serve(Loop, Socket, Start);
        {{ok, Loop}, {error, Reason}} ->
            _ = py_event_loop:stop(Loop, ?SHUTDOWN),
            {error, {listen, Reason}};
        {{error, Reason}, _} ->
            {error, Reason}
    end.

%% The modules of OTP and of handlers are loaded when they are needed; a thread of its own keeps
%% requests of other loops from delaying this one.
options(Place) when Place =:= #{} -> #{thread => own};
options(Place) -> Place.

%% What Python listens on: a descriptor, or the path where another process fetches it.
accepting(#{socket := undefined}) ->
    {ok, none};
accepting(#{socket := Socket, place := Place}) when Place =:= #{} ->
    socket:getopt(Socket, otp, fd);
accepting(#{socket := Socket}) ->
    py_asgi_socket:send_to(Socket).

serve(Loop, Socket, Start) ->
    #{
        server := Server,
        app := App,
        fresh := Fresh,
        importing := Importing,
        config := Config,
        handlers := Handlers,
        start_timeout := Timeout,
        max_rss := MaxRss,
        lifetime := Lifetime
    } = Start,
    Args = [Socket, App, Fresh, Importing, Config, Handlers],
    case py_event_loop:run(Loop, ?PYTHON, start, Args, #{}, Timeout) of
        {ok, _} ->
            ok = watch_end(Loop),
            ok = renew_later(Lifetime),
            OsPid = os_pid(Loop, MaxRss),
            {ok, #state{
                server = Server, loop = Loop, os_pid = OsPid, max_rss = MaxRss, lifetime = Lifetime
            }};
        {error, Reason} ->
            _ = py_event_loop:stop(Loop, ?SHUTDOWN),
            {error, {app, Reason}}
    end.

%% A tenth earlier or later: workers that started together do not end together.
renew_later(infinity) ->
    ok;
renew_later(Lifetime) ->
    Jitter = rand:uniform(max(1, Lifetime div 5)) - Lifetime div 10,
    _ = erlang:send_after(Lifetime + Jitter, self(), renew),
    ok.

os_pid(_Loop, infinity) ->
    undefined;
os_pid(Loop, _) ->
    _ = erlang:send_after(?MEMORY_MS, self(), memory),
    {ok, #{os_pid := OsPid}} = py_event_loop:info(Loop),
    OsPid.

watch_end(Loop) ->
    Worker = self(),
    _ = spawn_link(fun() ->
        case py_event_loop:run(Loop, ?PYTHON, finished, [], #{}, infinity) of
            {ok, _} -> Worker ! finished;
            %% The loop has ended, and so does the worker.
            {error, _} -> ok
        end
    end),
    ok.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call(Request, _From, State) ->
    ?LOG_WARNING("py_asgi_worker ~p got an unknown call: ~tp", [self(), Request]),
    {reply, {error, unknown_call}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_cast({drain, Timeout, AtOnce}, #state{loop = Loop} = State) ->
    Patience = Timeout + ?SHUTDOWN,
    case py_event_loop:run(Loop, ?PYTHON, close, [Timeout / 1000, AtOnce], #{}, Patience) of
        {ok, _} -> ok;
        {error, Reason} -> ?LOG_ERROR("py_asgi_worker ~p did not end well: ~tp", [self(), Reason])
    end,
    _ = py_event_loop:stop(Loop, ?SHUTDOWN),
    {stop, normal, State};
handle_cast(Message, State) ->
    ?LOG_WARNING("py_asgi_worker ~p got an unknown cast: ~tp", [self(), Message]),
    {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(finished, #state{server = Server} = State) ->
    Server ! {renew, self()},
    {noreply, State};
handle_info(renew, #state{server = Server, lifetime = Lifetime} = State) ->
    Server ! {renew, self()},
    %% py_asgi may fail to start another one.
    ok = renew_later(Lifetime),
    {noreply, State};
handle_info(memory, #state{server = Server, os_pid = OsPid, max_rss = MaxRss} = State) ->
    _ = erlang:send_after(?MEMORY_MS, self(), memory),
    _ = [Server ! {renew, self()} || py_peer_guard:rss(OsPid) > MaxRss],
    {noreply, State};
handle_info({'EXIT', Loop, Reason}, #state{loop = Loop} = State) ->
    %% py_asgi logs it.
    {stop, {shutdown, {loop_down, Reason}}, State};
handle_info({'EXIT', _, _}, State) ->
    %% The process of watch_end, or one that handed the socket over; gen_server handles the end of
    %% py_asgi.
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_asgi_worker ~p got an unknown message: ~tp", [self(), Message]),
    {noreply, State}.
