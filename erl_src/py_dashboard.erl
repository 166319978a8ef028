%% @doc The web page that shows what this node is doing: listens, and starts a process for each
%% connection ({@link py_dashboard_http}).
%%
%% The setting `dashboard' or the environment variable `ERLANG_LOOP_DASHBOARD' has the port; without
%% either, this process is not started. The URL, which is logged, has a random token. A port that
%% cannot be opened is logged as an error, and the node goes on without the page.
%%
%% Takes these messages:
%%
%% <ul>
%% <li>the call `url', from {@link url/0}.</li>
%% <li>`{accepted, Pid}', from the process that has accepted a connection: another one accepts the
%% next, unless there are too many.</li>
%% <li>`{'EXIT', Pid, Reason}', from such a process: its connection has ended.</li>
%% </ul>
-module(py_dashboard).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, url/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
%% A process of its own.
-export([accept/3]).

-export_type([access/0]).

%% What a connection has to know: the token, the name of the cookie, and whether tasks can be
%% cancelled.
-type access() :: #{token := binary(), cookie := binary(), read_only := boolean()}.

-record(state, {
    socket :: gen_tcp:socket(),
    url :: binary(),
    access :: access(),
    acceptor :: pid() | undefined,
    connections = #{} :: #{pid() => open}
}).

%% Further browsers wait in the queue of the socket.
-define(MAX_CONNECTIONS, 200).
-define(TRIES, 5).
-define(TRY_MS, 100).

-spec start_link() -> {ok, pid()} | ignore | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc The address of the page, with its token. `undefined': there is none.
-spec url() -> binary() | undefined.
url() ->
    case whereis(?MODULE) of
        undefined -> undefined;
        Pid -> gen_server:call(Pid, url)
    end.

-spec init([]) -> {ok, #state{}} | ignore.
init([]) ->
    case options() of
        none -> ignore;
        #{port := Port, ip := Ip} = Options -> listening(listen(Ip, Port, ?TRIES), Options)
    end.

options() ->
    Defaults = #{port => 4040, ip => {127, 0, 0, 1}, read_only => false, token => undefined},
    case {py_settings:value(dashboard), os:getenv("ERLANG_LOOP_DASHBOARD")} of
        {Options, _} when is_map(Options) -> maps:merge(Defaults, Options);
        {undefined, Unset} when Unset =:= false; Unset =:= "" -> none;
        {undefined, Text} -> with_port(Text, Defaults)
    end.

with_port(Text, Defaults) ->
    case string:to_integer(Text) of
        {Port, ""} when Port >= 0, Port < 65536 ->
            Defaults#{port := Port};
        _ ->
            ?LOG_ERROR("ERLANG_LOOP_DASHBOARD is ~tp, and must be a port; there is no dashboard", [Text]),
            none
    end.

%% The socket of a process that was killed closes a moment after its successor has started.
listen(Ip, Port, Tries) ->
    case listen(Ip, Port) of
        {error, eaddrinuse} when Tries > 1 ->
            timer:sleep(?TRY_MS),
            listen(Ip, Port, Tries - 1);
        Result ->
            Result
    end.

listen(Ip, Port) ->
    Family = [inet6 || tuple_size(Ip) =:= 8],
    gen_tcp:listen(Port, Family ++ [
        binary,
        {ip, Ip},
        {active, false},
        {reuseaddr, true},
        {nodelay, true},
        {backlog, 128},
        {packet, http_bin},
        %% The longest line of a head.
        {packet_size, 8192},
        {send_timeout, 5000},
        {send_timeout_close, true}
    ]).

listening({ok, Socket}, #{ip := Ip, read_only := ReadOnly, token := Chosen}) ->
    process_flag(trap_exit, true),
    {ok, Port} = inet:port(Socket),
    Token = token(Chosen),
    Url = unicode:characters_to_binary(["http://", host(Ip), $:, integer_to_list(Port), "/?token=", Token]),
    ?LOG_NOTICE("dashboard: ~ts", [Url]),
    %% Cookies do not depend on the port: two nodes of one machine need two names.
    Cookie = <<"erlang_loop_", (integer_to_binary(Port))/binary>>,
    Access = #{token => Token, cookie => Cookie, read_only => ReadOnly},
    {ok, accepting(#state{socket = Socket, url = Url, access = Access})};
listening({error, Reason}, #{ip := Ip, port := Port}) ->
    ?LOG_ERROR("dashboard: cannot listen on ~ts:~b, the node runs without it: ~ts", [
        host(Ip), Port, inet:format_error(Reason)
    ]),
    ignore.

host({0, 0, 0, 0}) -> "localhost";
host({0, 0, 0, 0, 0, 0, 0, 0}) -> "localhost";
host(Ip) when tuple_size(Ip) =:= 8 -> [$[, inet:ntoa(Ip), $]];
host(Ip) -> inet:ntoa(Ip).

%% 192 bits from the system: OTP's crypto need not be installed.
token(Chosen) when Chosen =/= undefined ->
    iolist_to_binary(Chosen);
token(undefined) ->
    {ok, Device} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, <<Number:192>>} = file:read(Device, 24),
    ok = file:close(Device),
    iolist_to_binary(io_lib:format("~48.16.0b", [Number])).

%% Connections

accepting(#state{acceptor = undefined, socket = Socket, access = Access, connections = Open} = State) when
    map_size(Open) < ?MAX_CONNECTIONS
->
    State#state{acceptor = spawn_link(?MODULE, accept, [self(), Socket, Access])};
accepting(State) ->
    State.

%% @private
-spec accept(pid(), gen_tcp:socket(), access()) -> ok.
accept(Server, Listening, Access) ->
    case gen_tcp:accept(Listening) of
        {ok, Socket} ->
            Server ! {accepted, self()},
            ok = py_observed:label({py_dashboard, connection}),
            py_dashboard_http:serve(Socket, Access);
        {error, closed} ->
            ok;
        {error, Reason} ->
            %% Such as too many open files.
            ?LOG_WARNING("dashboard: cannot accept: ~p", [Reason]),
            timer:sleep(1000),
            accept(Server, Listening, Access)
    end.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, binary() | {error, unknown_call}, #state{}}.
handle_call(url, _From, #state{url = Url} = State) ->
    {reply, Url, State};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_dashboard: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_dashboard: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({accepted, Pid}, #state{acceptor = Pid, connections = Open} = State) ->
    {noreply, accepting(State#state{acceptor = undefined, connections = Open#{Pid => open}})};
handle_info({'EXIT', Pid, _}, #state{acceptor = Pid} = State) ->
    {noreply, accepting(State#state{acceptor = undefined})};
handle_info({'EXIT', Pid, _}, #state{connections = Open} = State) ->
    {noreply, accepting(State#state{connections = maps:remove(Pid, Open)})};
handle_info(Message, State) ->
    ?LOG_WARNING("py_dashboard: unknown message ~p", [Message]),
    {noreply, State}.

%% The linked processes end with this one.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{socket = Socket}) ->
    gen_tcp:close(Socket).
