%% @private
%% @doc The first code of a peer: `erl ... -s py_peer_boot'.
%%
%% The origin writes one message to the peer's standard input: what it has to be. It is not on the
%% command line, because every user of the machine can read that. Then nothing more is written; when
%% the input ends, the origin has ended, or it closes the peer, and the peer ends, too.
-module(py_peer_boot).

-export([start/0]).

-type config() :: #{
    %% The process of the origin that stands for this peer.
    proxy := pid(),
    node := node(),
    domain := longnames | shortnames,
    cookie := atom(),
    origin := node(),
    %% Where the origin accepts the connection.
    port := inet:port_number(),
    paths := [file:filename()],
    settings := [{atom(), term()}],
    log_level := logger:level() | all | none,
    agent := py_peer_agent:config()
}.

-export_type([config/0]).

%% How long the agent may take to end its streams when the origin has gone.
-define(LAST_MS, 1000).

-spec start() -> pid().
start() ->
    spawn(fun read/0).

-spec read() -> no_return().
read() ->
    read(open_port({fd, 0, 1}, [in, binary, eof, {packet, 4}])).

-spec read(port()) -> no_return().
read(Input) ->
    receive
        {Input, {data, Config}} ->
            try
                wait_end(Input, become(binary_to_term(Config)))
            catch
                Class:Reason:Stack ->
                    io:format("the peer does not start: ~p~n", [{Class, Reason, Stack}]),
                    halt(1)
            end;
        {Input, eof} ->
            halt(0, [{flush, false}])
    end.

-spec become(config()) -> pid().
become(#{proxy := Proxy, paths := Paths, settings := Settings, agent := Agent} = Config) ->
    ok = code:add_pathsa(Paths),
    ok = connect(Config),
    ok = log_to(Proxy, Config),
    ok = application:load(erlang_loop),
    lists:foreach(
        fun({Name, Value}) -> ok = application:set_env(erlang_loop, Name, Value) end, Settings
    ),
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, Pid} = py_peer_agent:start(Agent),
    Pid.

%% Without a listening socket, so that no other node can connect.
connect(#{node := Node, domain := Domain, cookie := Cookie, origin := Origin, port := Port}) ->
    ok = py_peer_names:set_origin(Port),
    {ok, _} = net_kernel:start(Node, #{
        name_domain => Domain, dist_listen => false, hidden => true
    }),
    true = erlang:set_cookie(Cookie),
    case net_kernel:hidden_connect_node(Origin) of
        true -> ok;
        Refused -> error({no_connection_to_the_origin, Refused})
    end.

%% What is logged here appears in the origin's logs.
log_to(Proxy, #{log_level := Level}) ->
    _ = logger:remove_handler(default),
    ok = logger:set_primary_config(level, Level),
    logger:add_handler(py_peer_log, py_peer_log, #{config => #{to => Proxy}}).

-spec wait_end(port(), pid()) -> no_return().
wait_end(Input, Agent) ->
    receive
        {Input, eof} ->
            ok = py_peer_agent:origin_ended(Agent, ?LAST_MS),
            halt(0, [{flush, false}])
    end.
