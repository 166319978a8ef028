%% @doc Loops in operating system processes of their own, for suites: `called' and `streamed' can be
%% imported there, and no process is left behind.
-module(peers).

-include_lib("stdlib/include/assert.hrl").

-export([begin_suite/1, end_suite/0, begin_case/1, end_case/1]).
-export([start/1, stop/1, options/1, ended/1, os_pid/1, is_running/1, running/0, listening/1, flush/0, flush_all/0]).

-spec begin_suite(Config) -> Config when Config :: [{atom(), term()}].
begin_suite(Config) ->
    Started = called:begin_suite(Config),
    %% So that no case is the one that makes this node distributed.
    ok = py_peer_node:ensure_distributed(),
    %% And the process that looks up names is there.
    pang = net_adm:ping('nowhere@127.0.0.1'),
    Started.

-spec end_suite() -> ok.
end_suite() ->
    ?assertEqual([], running()),
    called:stop().

-spec begin_case([{atom(), term()}]) -> [{atom(), term()}].
begin_case(Config) ->
    [{peers, running()} | called:begin_case(Config)].

%% @doc No peer is left that the case has started.
-spec end_case([{atom(), term()}]) -> ok | {fail, term()}.
end_case(Config) ->
    Before = proplists:get_value(peers, Config),
    try
        eventually:is([], fun() -> running() -- Before end),
        called:end_case(Config)
    catch
        error:Reason -> {fail, {left, Reason}}
    end.

%% @doc A loop, in a peer if the options name no other place. Not linked.
-spec start(py_event_loop:options()) -> pid().
start(Options) ->
    {ok, Loop} = py_event_loop:start_link(options(Options)),
    true = unlink(Loop),
    Loop.

-spec options(map()) -> map().
options(#{place := Node} = Options) when is_atom(Node), Node =/= peer ->
    Options;
options(Options) ->
    Peer =
        case Options of
            #{place := {peer, Given}} -> Given;
            #{} -> #{}
        end,
    Settings = maps:get(settings, Peer, #{}),
    Path = #{python_path => [project:file("test/support/python")]},
    Options#{place => {peer, Peer#{settings => maps:merge(Path, Settings)}}}.

-spec stop(pid()) -> ok.
stop(Loop) ->
    {ok, _} = py_event_loop:stop(Loop),
    ok.

%% @doc Waits for the end of a loop and returns the reason.
-spec ended(pid()) -> term().
ended(Loop) ->
    Monitor = monitor(process, Loop),
    receive
        {'DOWN', Monitor, process, Loop, Reason} -> Reason
    after 30_000 -> error({still_alive, Loop})
    end.

-spec os_pid(py_event_loop:loop()) -> pos_integer().
os_pid(Loop) ->
    {ok, #{os_pid := OsPid}} = py_event_loop:info(Loop),
    OsPid.

-spec is_running(pos_integer()) -> boolean().
is_running(OsPid) ->
    filelib:is_dir(io_lib:format("/proc/~b", [OsPid])).

%% @doc The peers of this node.
-spec running() -> [pos_integer()].
running() ->
    [list_to_integer(Pid) || Pid <- children(os:getpid())].

%% The VM starts programs by a child of its own, erl_child_setup.
children(Pid) ->
    lists:append([
        peers_below(Child)
     || Path <- filelib:wildcard("/proc/" ++ Pid ++ "/task/*/children"), Child <- words(Path)
    ]).

peers_below(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/cmdline") of
        {ok, Bytes} ->
            case {binary:match(Bytes, <<"py_peer_boot">>), binary:match(Bytes, <<"erl_child_setup">>)} of
                {{_, _}, _} -> [Pid];
                {nomatch, {_, _}} -> children(Pid);
                {nomatch, nomatch} -> []
            end;
        {error, _} ->
            []
    end.

words(Path) ->
    case file:read_file(Path) of
        {ok, Text} -> string:lexemes(binary_to_list(Text), " \n");
        {error, _} -> []
    end.

%% @doc The TCP sockets on which a process listens, as their inodes.
-spec listening(pos_integer()) -> [binary()].
listening(OsPid) ->
    Fds = filelib:wildcard(lists:flatten(io_lib:format("/proc/~b/fd/*", [OsPid]))),
    Sockets = [Link || Fd <- Fds, {ok, "socket:[" ++ Link} <- [file:read_link(Fd)]],
    Inodes = [list_to_binary(lists:droplast(Link)) || Link <- Sockets],
    Lines = lists:append([
        binary:split(Text, <<"\n">>, [global])
     || Table <- ["/proc/net/tcp", "/proc/net/tcp6"], {ok, Text} <- [file:read_file(Table)]
    ]),
    %% The fourth column is the state, the tenth the inode; 0A is LISTEN.
    [
        lists:nth(10, Columns)
     || Line <- Lines,
        Columns <- [binary:split(Line, <<" ">>, [global, trim_all])],
        length(Columns) > 9,
        lists:nth(4, Columns) =:= <<"0A">>,
        lists:member(lists:nth(10, Columns), Inodes)
    ].

%% @doc Forgets the replies of tasks that were not awaited.
-spec flush() -> ok.
flush() ->
    receive
        {py_reply, _, _} -> flush();
        {'DOWN', _, _, _, _} -> flush()
    after 0 -> ok
    end.

%% @doc Forgets all messages.
-spec flush_all() -> ok.
flush_all() ->
    receive
        _ -> flush_all()
    after 0 -> ok
    end.
