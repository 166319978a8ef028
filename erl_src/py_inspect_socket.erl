%% @doc A Unix socket at which a program of the same user asks this node what runs:
%% `bin/erlang-loop -m erlang_loop.inspect'. Erlang alone replies, also while a thread keeps the GIL.
%%
%% It exists with the setting `{inspect_socket, true}' or the environment variable
%% `ERLANG_LOOP_INSPECT=1'. The file is `PID.sock' in a folder that only its owner may open:
%% `$XDG_RUNTIME_DIR/erlang_loop', or `/tmp/erlang_loop-UID'. A folder of another user, or a path at
%% which something listens, is logged, and the node goes on without the socket.
%%
%% A client sends one line, a command of {@link py_inspect_text:reply/1}, and gets `ok' or `error'
%% and the text. Takes these messages:
%%
%% <ul>
%% <li>`{accepted, Pid}', from the process that has accepted a connection: another one accepts the
%% next.</li>
%% <li>`{'EXIT', Pid, Reason}', from such a process: its connection has ended.</li>
%% </ul>
-module(py_inspect_socket).

-behaviour(gen_server).

-include_lib("kernel/include/file.hrl").
-include_lib("kernel/include/logger.hrl").

-export([start_link/0, path/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
%% A process of its own.
-export([accept/2]).

-record(state, {
    socket :: gen_tcp:socket(),
    path :: file:filename(),
    acceptor :: pid() | undefined,
    connections = 0 :: non_neg_integer()
}).

-define(MAX_CONNECTIONS, 20).
-define(LINE_MS, 5000).
%% The longest line: a command and the name of a loop.
-define(LINE_BYTES, 1024).

-spec start_link() -> {ok, pid()} | ignore | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc The path of the socket. `undefined': there is none.
-spec path() -> file:filename() | undefined.
path() ->
    case whereis(?MODULE) of
        undefined -> undefined;
        Pid -> gen_server:call(Pid, path)
    end.

-spec init([]) -> {ok, #state{}} | ignore.
init([]) ->
    case py_settings:value(inspect_socket) orelse os:getenv("ERLANG_LOOP_INSPECT") =:= "1" of
        true -> opened(folder());
        false -> ignore
    end.

opened({ok, Folder}) ->
    Path = filename:join(Folder, os:getpid() ++ ".sock"),
    case listen(Path, is_free(Path)) of
        {ok, Socket} ->
            process_flag(trap_exit, true),
            ok = file:change_mode(Path, 8#600),
            {ok, accepting(#state{socket = Socket, path = Path})};
        {error, Reason} ->
            without(Path, Reason)
    end;
opened({error, Folder, Reason}) ->
    without(Folder, Reason).

without(Path, Reason) ->
    ?LOG_WARNING("inspect_socket: ~ts: ~ts; the node runs without it", [Path, why(Reason)]),
    ignore.

why(foreign) -> "it belongs to another user, or others may write to it";
why(in_use) -> "another process listens there";
why(Reason) -> inet:format_error(Reason).

%% Only its owner may look into it. Another user can have created the one in /tmp before us.
folder() ->
    {ok, #file_info{uid = Uid}} = file:read_file_info("/proc/self"),
    Folder =
        case os:getenv("XDG_RUNTIME_DIR", "") of
            "" -> "/tmp/erlang_loop-" ++ integer_to_list(Uid);
            Runtime -> filename:join(Runtime, "erlang_loop")
        end,
    _ = file:make_dir(Folder),
    case file:read_link_info(Folder) of
        {ok, #file_info{type = directory, uid = Uid, mode = Mode}} when Mode band 8#022 =:= 0 ->
            ok = file:change_mode(Folder, 8#700),
            {ok, Folder};
        {ok, _} ->
            {error, Folder, foreign};
        {error, Reason} ->
            {error, Folder, Reason}
    end.

%% A process with our number that has died has left its socket behind.
is_free(Path) ->
    case file:read_link_info(Path) of
        {error, enoent} ->
            ok;
        {ok, #file_info{type = other}} ->
            case gen_tcp:connect({local, Path}, 0, [{active, false}], 1000) of
                {ok, Socket} ->
                    ok = gen_tcp:close(Socket),
                    {error, in_use};
                {error, econnrefused} ->
                    file:delete(Path);
                {error, _} ->
                    {error, in_use}
            end;
        {ok, _} ->
            {error, eexist};
        {error, Reason} ->
            {error, Reason}
    end.

listen(Path, ok) ->
    gen_tcp:listen(0, [
        {ifaddr, {local, Path}},
        binary,
        {active, false},
        {backlog, 128},
        {packet, line},
        {packet_size, ?LINE_BYTES},
        {buffer, ?LINE_BYTES},
        {send_timeout, 5000},
        {send_timeout_close, true}
    ]);
listen(_, {error, Reason}) ->
    {error, Reason}.

accepting(#state{acceptor = undefined, socket = Socket, connections = Open} = State) when Open < ?MAX_CONNECTIONS ->
    State#state{acceptor = spawn_link(?MODULE, accept, [self(), Socket])};
accepting(State) ->
    State.

%% @private
-spec accept(pid(), gen_tcp:socket()) -> ok.
accept(Server, Listening) ->
    case gen_tcp:accept(Listening) of
        {ok, Socket} ->
            Server ! {accepted, self()},
            ok = py_observed:label({?MODULE, connection}),
            served(Socket, gen_tcp:recv(Socket, 0, ?LINE_MS));
        {error, closed} ->
            ok;
        {error, Reason} ->
            %% Such as too many open files.
            ?LOG_WARNING("inspect_socket: cannot accept: ~p", [Reason]),
            timer:sleep(1000),
            accept(Server, Listening)
    end.

served(Socket, {ok, Line}) ->
    [Command | _] = binary:split(Line, [<<"\r">>, <<"\n">>]),
    Reply =
        case py_inspect_text:reply(Command) of
            {ok, Text} -> ["ok\n", Text];
            {error, Text} -> ["error\n", Text]
        end,
    %% A client that has gone needs no reply.
    _ = gen_tcp:send(Socket, unicode:characters_to_binary(Reply)),
    gen_tcp:close(Socket);
served(Socket, {error, _}) ->
    gen_tcp:close(Socket).

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, file:filename() | {error, unknown_call}, #state{}}.
handle_call(path, _From, #state{path = Path} = State) ->
    {reply, Path, State};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_inspect_socket: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_inspect_socket: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({accepted, Pid}, #state{acceptor = Pid, connections = Open} = State) ->
    {noreply, accepting(State#state{acceptor = undefined, connections = Open + 1})};
handle_info({'EXIT', Pid, _}, #state{acceptor = Pid} = State) ->
    {noreply, accepting(State#state{acceptor = undefined})};
handle_info({'EXIT', _, _}, #state{connections = Open} = State) ->
    {noreply, accepting(State#state{connections = Open - 1})};
handle_info(Message, State) ->
    ?LOG_WARNING("py_inspect_socket: unknown message ~p", [Message]),
    {noreply, State}.

%% The linked processes end with this one.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{socket = Socket, path = Path}) ->
    ok = gen_tcp:close(Socket),
    _ = file:delete(Path),
    ok.
