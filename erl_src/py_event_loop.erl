%% @doc Loops as Erlang code uses them.
-module(py_event_loop).

-export([get_loop/0, which_loops/0]).
%% For erlang_loop_app.
-export([create_default/0, destroy_default/0]).

-define(DEFAULT, {?MODULE, default_loop}).

%% @doc The node's default loop, for `py_nif' calls. It lives as long as the application runs.
-spec get_loop() -> {ok, py_nif:loop_ref()} | {error, not_started}.
get_loop() ->
    case persistent_term:get(?DEFAULT, undefined) of
        undefined -> {error, not_started};
        LoopRef -> {ok, LoopRef}
    end.

%% @doc The number of live loops in this node, those of Python included.
-spec which_loops() -> non_neg_integer().
which_loops() ->
    py_nif:event_loop_count().

%% @private
-spec create_default() -> ok | {error, term()}.
create_default() ->
    case py_nif:event_loop_new() of
        {ok, LoopRef} -> persistent_term:put(?DEFAULT, LoopRef);
        {error, Reason} -> {error, Reason}
    end.

%% @private
-spec destroy_default() -> ok.
destroy_default() ->
    case get_loop() of
        {ok, LoopRef} ->
            ok = py_nif:event_loop_destroy(LoopRef),
            _ = persistent_term:erase(?DEFAULT),
            ok;
        {error, not_started} ->
            ok
    end.
