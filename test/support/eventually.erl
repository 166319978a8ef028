%% @doc Waits for a condition, not for time.
-module(eventually).

-export([is/2, is/3, passes/2]).

-define(PATIENCE_MS, 10_000).

%% @doc Returns when `Fun()' returns `Expected'; raises with its last result.
-spec is(term(), fun(() -> term())) -> ok.
is(Expected, Fun) ->
    is(Expected, Fun, ?PATIENCE_MS).

-spec is(term(), fun(() -> term()), non_neg_integer()) -> ok.
is(Expected, Fun, PatienceMs) ->
    try_until(Expected, Fun, erlang:monotonic_time(millisecond) + PatienceMs).

try_until(Expected, Fun, Deadline) ->
    case Fun() of
        Expected ->
            ok;
        Other ->
            erlang:monotonic_time(millisecond) < Deadline orelse
                error({still, Other, expected, Expected}),
            %% Short against what is waited for, long enough to let it happen.
            timer:sleep(5),
            try_until(Expected, Fun, Deadline)
    end.

%% @doc As {@link is/2}, until `Passes' is true of the result, which is returned.
-spec passes(fun((Result) -> boolean()), fun(() -> Result)) -> Result.
passes(Passes, Fun) ->
    passes(Passes, Fun, 1000).

passes(Passes, Fun, Tries) ->
    Result = Fun(),
    case Passes(Result) of
        true -> Result;
        false when Tries > 0 -> timer:sleep(10), passes(Passes, Fun, Tries - 1);
        false -> error({still, Result})
    end.
