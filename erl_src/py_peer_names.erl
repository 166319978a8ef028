%% @private
%% @doc Node names in a peer, in place of epmd (`-epmd_module'): the peer knows the port of one node,
%% its origin, and connects to no other. It is not listening itself.
-module(py_peer_names).

-export([set_origin/1]).
%% What net_kernel and its protocols call.
-export([
    start_link/0, register_node/2, register_node/3, listen_port_please/2, address_please/3,
    port_please/2, port_please/3, names/1
]).

%% The version of the distribution protocol that all OTP releases from 25 on have.
-define(VERSION, 6).

%% @doc The origin accepts a connection at this port of the loopback interface.
-spec set_origin(inet:port_number()) -> ok.
set_origin(Port) ->
    persistent_term:put(?MODULE, Port).

-spec start_link() -> ignore.
start_link() ->
    ignore.

-spec register_node(string(), inet:port_number()) -> {ok, 1}.
register_node(_Name, _Port) ->
    {ok, 1}.

-spec register_node(string(), inet:port_number(), atom()) -> {ok, 1}.
register_node(_Name, _Port, _Driver) ->
    {ok, 1}.

-spec listen_port_please(atom() | string(), string()) -> {ok, 0}.
listen_port_please(_Name, _Host) ->
    {ok, 0}.

-spec address_please(string(), string(), inet | inet6) ->
    {ok, inet:ip_address(), inet:port_number(), pos_integer()} | {error, nxdomain}.
address_please(_Name, _Host, inet) ->
    {ok, {127, 0, 0, 1}, persistent_term:get(?MODULE), ?VERSION};
address_please(_Name, _Host, inet6) ->
    {error, nxdomain}.

-spec port_please(string(), inet:ip_address() | string()) -> noport.
port_please(_Name, _Address) ->
    noport.

-spec port_please(string(), inet:ip_address() | string(), timeout()) -> noport.
port_please(_Name, _Address, _Timeout) ->
    noport.

-spec names(string()) -> {error, address}.
names(_Host) ->
    {error, address}.
