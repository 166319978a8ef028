%% @private
%% @doc The connection between this node and a peer of its own: Erlang's distribution, accepted on the
%% loopback interface from one node by name, while that node starts. For `py_peer_node'.
%%
%% A node that is not listening, or listens only with TLS, can have peers in this way, and no port
%% stays open. The handshake is OTP's own (`dist_util'); this is what "How to implement an
%% alternative carrier for the Erlang distribution" in the manual of ERTS asks for, with the plain
%% TCP socket of `inet_tcp_dist'. Both nodes must know the cookie: others fail the handshake.
-module(py_peer_link).

-include_lib("kernel/include/net_address.hrl").
-include_lib("kernel/include/dist_util.hrl").

-export([listen/1, stop/1]).

-define(LOOPBACK, {127, 0, 0, 1}).
%% Milliseconds for a handshake, as net_kernel's default.
-define(SETUP_MS, 7000).

%% @doc Accepts connections from `Node' until {@link stop/1}. Linked to the calling process.
-spec listen(node()) -> {ok, pid(), inet:port_number()} | {error, inet:posix()}.
listen(Node) ->
    Starter = self(),
    Listener = spawn_link(fun() ->
        case gen_tcp:listen(0, options()) of
            {ok, Socket} ->
                {ok, Port} = inet:port(Socket),
                Starter ! {self(), {ok, Port}},
                accept(Socket, Node);
            {error, Reason} ->
                Starter ! {self(), {error, Reason}}
        end
    end),
    %% It replies, or it crashes and this process with it.
    receive
        {Listener, {ok, Port}} -> {ok, Listener, Port};
        {Listener, {error, Reason}} -> {error, Reason}
    end.

%% The distribution needs a socket that is a port.
options() ->
    [{inet_backend, inet}, {ip, ?LOOPBACK}, {packet, 2}, {active, false}, {nodelay, true}].

-spec stop(pid()) -> ok.
stop(Listener) ->
    true = unlink(Listener),
    true = exit(Listener, kill),
    ok.

accept(Listening, Node) ->
    {ok, Socket} = gen_tcp:accept(Listening),
    Kernel = whereis(net_kernel),
    Owner = spawn_opt(
        fun() ->
            receive
                {owns, Socket} -> shake_hands(Kernel, Socket, Node)
            end
        end,
        [{priority, max}]
    ),
    %% The other side may have closed it.
    _ = gen_tcp:controlling_process(Socket, Owner),
    Owner ! {owns, Socket},
    accept(Listening, Node).

%% Becomes the owner of the connection, as net_kernel's own acceptors do, or exits.
-spec shake_hands(pid(), gen_tcp:socket(), node()) -> no_return().
shake_hands(Kernel, Socket, Node) ->
    true = link(Kernel),
    dist_util:handshake_other_started(#hs_data{
        kernel_pid = Kernel,
        this_node = node(),
        socket = Socket,
        timer = dist_util:start_timer(?SETUP_MS),
        this_flags = 0,
        allowed = [Node],
        f_send = fun inet_tcp:send/2,
        f_recv = fun inet_tcp:recv/3,
        f_setopts_pre_nodeup = fun(S) -> inet:setopts(S, [{active, false}, {packet, 4}]) end,
        f_setopts_post_nodeup = fun(S) ->
            inet:setopts(S, [{active, true}, {deliver, port}, {packet, 4}, binary])
        end,
        f_getll = fun inet:getll/1,
        f_address = fun address/2,
        mf_tick = fun(S) -> inet_tcp_dist:tick(inet_tcp, S) end,
        mf_getstat = fun inet_tcp_dist:getstat/1,
        mf_setopts = fun inet_tcp_dist:setopts/2,
        mf_getopts = fun inet_tcp_dist:getopts/2
    }).

address(Socket, Node) ->
    case inet:peername(Socket) of
        {ok, Address} ->
            [_, Host] = string:split(atom_to_list(Node), "@"),
            #net_address{address = Address, host = Host, protocol = tcp, family = inet};
        {error, _} ->
            dist_util:shutdown(?MODULE, ?LINE, no_node)
    end.
