%% @doc A worker of py_asgi: a loop with the Python server on it.
%%
%% It starts the server when it starts, and is linked to py_asgi and to its loop: if one of them
%% dies, so does it. Messages: `{drain, Timeout, AtOnce}' from py_asgi, once; `finished' from the
%% process that waits until the server has served as many requests as it may.
-module(py_asgi_worker).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, drain/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([start/0]).

-type start() :: #{
    server := pid(),
    fd := integer(),
    app := binary(),
    fresh := boolean(),
    importing := map(),
    config := map(),
    handlers := #{binary() => fun((map()) -> tuple())},
    start_timeout := pos_integer()
}.

-type state() :: {Server :: pid(), Loop :: pid()}.

-define(PYTHON, 'erlang_loop.asgi.worker').
%% Milliseconds for the application's shutdown, and for requests that were cancelled.
-define(SHUTDOWN, 10_000).

%% @doc Starts the worker; the second result is its loop.
-spec start_link(start()) -> {ok, pid(), pid()} | {error, term()}.
start_link(Start) ->
    %% The reply comes when the server accepts connections.
    case gen_server:start_link(?MODULE, Start, [{timeout, infinity}]) of
        {ok, Pid} -> {ok, Pid, gen_server:call(Pid, loop, infinity)};
        {error, Reason} -> {error, Reason}
    end.

%% @doc Makes the worker accept no more, and end when its requests have ended, or after `Timeout'.
-spec drain(pid(), non_neg_integer(), boolean()) -> ok.
drain(Pid, Timeout, AtOnce) ->
    gen_server:cast(Pid, {drain, Timeout, AtOnce}).

%% @private
-spec init(start()) -> {ok, state()} | {stop, term()}.
init(#{server := Server, fd := Fd, app := App, fresh := Fresh} = Start) ->
    process_flag(trap_exit, true),
    #{importing := Importing, config := Config, handlers := Handlers, start_timeout := Timeout} =
        Start,
    case py_event_loop:start_link(#{thread => own}) of
        {ok, Loop} ->
            Args = [Fd, App, Fresh, Importing, Config, Handlers],
            case py_event_loop:run(Loop, ?PYTHON, start, Args, #{}, Timeout) of
                {ok, _} ->
                    ok = watch_end(Loop),
                    {ok, {Server, Loop}};
                {error, Reason} ->
                    _ = py_event_loop:stop(Loop, ?SHUTDOWN),
                    {stop, {app, Reason}}
            end;
        {error, Reason} ->
            {stop, Reason}
    end.

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
-spec handle_call(term(), gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(loop, _From, {_, Loop} = State) ->
    {reply, Loop, State};
handle_call(Request, _From, State) ->
    ?LOG_WARNING("py_asgi_worker ~p got an unknown call: ~tp", [self(), Request]),
    {reply, {error, unknown_call}, State}.

%% @private
-spec handle_cast(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_cast({drain, Timeout, AtOnce}, {_, Loop} = State) ->
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
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(finished, {Server, _} = State) ->
    Server ! {renew, self()},
    {noreply, State};
handle_info({'EXIT', Loop, Reason}, {_, Loop} = State) ->
    {stop, {loop_down, Reason}, State};
handle_info({'EXIT', _, _}, State) ->
    %% The process of watch_end; gen_server handles the end of py_asgi.
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_asgi_worker ~p got an unknown message: ~tp", [self(), Message]),
    {noreply, State}.
