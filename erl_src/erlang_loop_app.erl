%% @doc The application: its supervision tree and the default loop.
%%
%% The default loop is made before the tree and outlives every process in it: loops live in the
%% NIF library, and a router that is restarted finds them again.
-module(erlang_loop_app).

-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    case py_event_loop:create_default() of
        ok -> erlang_loop_sup:start_link();
        {error, Reason} -> {error, Reason}
    end.

-spec stop(term()) -> ok.
stop(_State) ->
    py_event_loop:destroy_default().
