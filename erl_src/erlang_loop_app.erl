%% @doc The application: its supervision tree and the node's loop.
%%
%% The node's loop (py_event_loop:get_loop/0) is created before the tree and outlives every process
%% in it: loops live in the NIF library, and a restarted router finds them again.
-module(erlang_loop_app).

-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    maybe_start(py_settings:check()).

maybe_start(ok) ->
    _ = py_telemetry:detect(),
    case py_event_loop:create_node_loop() of
        ok -> erlang_loop_sup:start_link();
        {error, Reason} -> {error, Reason}
    end;
maybe_start({error, Reason}) ->
    {error, Reason}.

-spec stop(term()) -> ok.
stop(_State) ->
    %% Python stays up, but takes no calls: if the top supervisor was killed, no process has ended
    %% the default loop in order.
    ok = py_nif:python_loop_forget_default(),
    py_event_loop:destroy_node_loop().
