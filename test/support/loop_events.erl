%% @doc Waiting for what a loop reports.
-module(loop_events).

-export([await/2]).

%% @doc Takes events from the loop until all of these have come, in any order; more may come.
-spec await(py_nif:loop_ref(), [py_nif:event()]) -> ok.
await(_Loop, []) ->
    ok;
await(Loop, Events) ->
    case py_nif:poll_events(Loop, 10_000) of
        Count when Count > 0 -> await(Loop, Events -- py_nif:get_pending(Loop));
        Nothing -> error({Nothing, still_expected, Events})
    end.
