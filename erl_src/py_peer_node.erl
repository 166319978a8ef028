%% @private
%% @doc Starts an Erlang node for a peer, as an operating system process that ends with this one. For
%% `py_peer'.
%%
%% The two nodes talk over Erlang's distribution, so that pids, monitors and messages work, but
%% without what usually comes with it: epmd, a listening port, `~/.erlang.cookie' in the peer, a
%% connection to other nodes.
%%
%% <ol>
%% <li>If this node is not distributed it becomes so, hidden and without listening.</li>
%% <li>It listens on the loopback interface until the peer has connected, with a random cookie:
%%     `py_peer_link'.</li>
%% <li>The peer gets all it needs to know in one message on its standard input: `py_peer_boot'.</li>
%% </ol>
%%
%% `peer' of OTP starts nodes, too. It is not used because its control channel shares the peer's
%% standard output, where bytes that C code or a traceback print (all of UTF-8 beyond ASCII) end it,
%% or it loses the exit status. Here the standard output is text, and the exit status is the reason.
-module(py_peer_node).

-include_lib("kernel/include/logger.hrl").

-export([ensure_distributed/0, open/3, reason/1, kill/1]).

-export_type([opened/0]).

-type opened() :: #{port := port(), node := node(), os_pid := pos_integer(), listener := pid()}.

%% @doc Makes this node able to have connections, which it initiates or is handed.
-spec ensure_distributed() -> ok | {error, term()}.
ensure_distributed() ->
    case {is_alive(), can_be_distributed()} of
        {true, _} -> ok;
        {false, ok} -> distribute();
        {false, Refused} -> Refused
    end.

%% OTP reads or creates a cookie file, and crashes where there is no place for it.
can_be_distributed() ->
    case {init:get_argument(setcookie), os:getenv("HOME")} of
        {error, false} ->
            {error, {not_distributed, "set HOME, or start the node with -setcookie"}};
        _ ->
            ok
    end.

distribute() ->
    Name = list_to_atom("erlang_loop_" ++ os:getpid() ++ "@127.0.0.1"),
    Options = #{name_domain => longnames, dist_listen => false, hidden => true},
    case net_kernel:start(Name, Options) of
        {ok, _} ->
            ?LOG_INFO("erlang_loop made this node ~p, hidden and without a port, for its peers", [Name]),
            ok;
        %% Another peer is being started.
        {error, {already_started, _}} ->
            ok;
        {error, Reason} ->
            {error, {not_distributed, Reason}}
    end.

%% @doc Starts the process. The calling process gets the port's messages: lines that the peer
%% prints, and its exit status.
-spec open(atom(), map(), py_peer_agent:config()) -> {ok, opened()} | {error, term()}.
open(Name, #{args := Args, env := Env, settings := Settings, limits := Limits}, Agent) ->
    Label = label(Name),
    Node = node_name(Label),
    Cookie = cookie(),
    true = erlang:set_cookie(Node, Cookie),
    case py_peer_link:listen(Node) of
        {ok, Listener, TcpPort} ->
            {Program, Before} = limited(Limits),
            Port = open_port({spawn_executable, Program}, [
                {args, Before ++ arguments(Label) ++ Args},
                {env, environment() ++ Env},
                {line, 4096}, binary, exit_status, stderr_to_stdout, hide
            ]),
            Config = term_to_binary(#{
                proxy => self(),
                node => Node,
                domain => domain(),
                cookie => Cookie,
                origin => node(),
                port => TcpPort,
                paths => paths(),
                settings => settings(Settings),
                log_level => maps:get(level, logger:get_primary_config()),
                agent => Agent
            }),
            true = port_command(Port, [<<(byte_size(Config)):32>>, Config]),
            case erlang:port_info(Port, os_pid) of
                {os_pid, OsPid} ->
                    {ok, #{port => Port, node => Node, os_pid => OsPid, listener => Listener}};
                undefined ->
                    ok = py_peer_link:stop(Listener),
                    {error, {peer_down, not_started}}
            end;
        {error, Reason} ->
            {error, {peer_down, {listen, Reason}}}
    end.

%% A shell sets limits and becomes `erl', in the same operating system process. At a soft limit of
%% CPU time the kernel sends SIGXCPU, at a hard one SIGKILL, which would not say why.
limited(Limits) ->
    case [ulimit(Limit) || {Name, _} = Limit <- maps:to_list(Limits), Name =:= cpu orelse Name =:= files] of
        [] -> {erl(), []};
        Commands -> {"/bin/sh", ["-c", lists:append(Commands) ++ "exec \"$0\" \"$@\"", erl()]}
    end.

ulimit({cpu, Seconds}) -> "ulimit -S -t " ++ integer_to_list(Seconds) ++ " && ";
ulimit({files, Count}) -> "ulimit -n " ++ integer_to_list(Count) ++ " && ".

%% As a part of a node's name and of a command line.
label(undefined) ->
    "loop";
label(Name) ->
    [case is_plain(C) of true -> C; false -> $_ end || C <- atom_to_list(Name)].

is_plain(C) ->
    (C >= $a andalso C =< $z) orelse (C >= $A andalso C =< $Z) orelse
        (C >= $0 andalso C =< $9) orelse C =:= $_.

%% Names are not used twice: an old connection may still be ending.
node_name(Label) ->
    [_, Host] = string:split(atom_to_list(node()), "@"),
    Number = integer_to_list(erlang:unique_integer([positive])),
    list_to_atom(lists:append(["py_peer_", Label, "_", os:getpid(), "_", Number, "@", Host])).

domain() ->
    case net_kernel:longnames() of
        true -> longnames;
        false -> shortnames
    end.

%% 160 random bits from the system; the application crypto need not be there.
cookie() ->
    {ok, File} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(File, 20),
    ok = file:close(File),
    binary_to_atom(binary:encode_hex(Bytes)).

%% What is started

erl() ->
    Root = code:root_dir(),
    Version = erlang:system_info(version),
    Places = [
        filename:join([Root, "bin", "erl"]), filename:join([Root, "erts-" ++ Version, "bin", "erl"])
    ],
    case lists:filter(fun filelib:is_regular/1, Places) of
        [Erl | _] -> Erl;
        [] -> os:find_executable("erl")
    end.

%% One scheduler: loops and calls have threads of their own, and Python computes on one of them.
%% `-py_peer' only shows in the list of processes. The cookie here is never used.
arguments(Label) ->
    boot() ++
        [
            "-noinput", "-hidden", "-setcookie", "none", "-start_epmd", "false",
            "-epmd_module", "py_peer_names", "-kernel", "dist_auto_connect", "never",
            "+S", "1:1", "+SDcpu", "1:1", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none",
            "+Bd",
            "-pa", filename:absname(filename:dirname(code:which(?MODULE))),
            "-py_peer", Label, "-s", "py_peer_boot"
        ].

%% Without ~/.erlang; a release may have no such boot file.
boot() ->
    Bin = filename:join(code:root_dir(), "bin"),
    Files = [filename:join(Bin, Name) || Name <- ["no_dot_erlang", "start_clean"]],
    case [File || File <- Files, filelib:is_regular(File ++ ".boot")] of
        [File | _] -> ["-boot", File];
        [] -> []
    end.

%% Flags for the origin are not for its peers: a name, for instance.
environment() ->
    [{Name, false} || Name <- ["ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS"]].

%% Everything that is not OTP's own.
paths() ->
    Otp = filename:join(code:root_dir(), "lib"),
    [filename:absname(Path) || Path <- code:get_path(), Path =/= ".", not lists:prefix(Otp, Path)].

settings(Own) ->
    Known = [Setting || {Name, _} = Setting <- application:get_all_env(erlang_loop),
        lists:keymember(Name, 1, py_settings:table())],
    maps:to_list(maps:merge(maps:from_list(Known), Own)).

%% The end

%% @doc Why an operating system process with this status has ended: erts adds 128 to the number of a
%% signal, as shells do.
-spec reason(non_neg_integer()) -> {signal, atom() | pos_integer()} | {exit, non_neg_integer()}.
reason(Status) when Status > 128, Status =< 128 + 64 -> {signal, signal(Status - 128)};
reason(Status) -> {exit, Status}.

signal(1) -> sighup;
signal(2) -> sigint;
signal(3) -> sigquit;
signal(4) -> sigill;
signal(5) -> sigtrap;
signal(6) -> sigabrt;
signal(7) -> sigbus;
signal(8) -> sigfpe;
signal(9) -> sigkill;
signal(11) -> sigsegv;
signal(13) -> sigpipe;
signal(15) -> sigterm;
signal(24) -> sigxcpu;
signal(25) -> sigxfsz;
signal(31) -> sigsys;
signal(Number) -> Number.

%% @doc A process that hangs or is stopped ends, too.
-spec kill(pos_integer()) -> ok.
kill(OsPid) ->
    _ = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    ok.
