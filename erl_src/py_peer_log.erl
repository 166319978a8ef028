%% @private
%% @doc The one logger handler of a peer: sends events to its proxy in the origin, which logs them.
-module(py_peer_log).

-export([log/2]).
%% For py_peer.
-export([pass_on/2]).

%% @doc For `logger', in the peer, in the process that logs.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(Event, #{config := #{to := Proxy}}) ->
    %% Logging must not block while the origin is busy: then the event is lost.
    _ = erlang:send(Proxy, {py_peer_log, Event}, [nosuspend, noconnect]),
    ok.

%% @doc In the origin, in the proxy. OTP's default handler drops events whose group leader is on
%% another node, so this process's takes its place.
-spec pass_on(logger:log_event(), atom()) -> ok.
pass_on(#{level := Level, msg := Message, meta := Meta}, Peer) ->
    Here = Meta#{gl => group_leader(), peer => Peer},
    case Message of
        {string, Text} -> logger:log(Level, Text, Here);
        {report, Report} -> logger:log(Level, Report, Here);
        {Format, Args} -> logger:log(Level, Format, Args, Here)
    end.
