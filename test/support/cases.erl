%% @doc The test cases of a suite are what it exports with one argument.
-module(cases).

-export([of_suite/1, of_suite/2]).

-spec of_suite(module()) -> [atom()].
of_suite(Suite) ->
    of_suite(Suite, []).

%% @doc But for these, which it exports for others to call.
-spec of_suite(module(), [atom()]) -> [atom()].
of_suite(Suite, Others) ->
    NoCases = [module_info, init_per_suite, end_per_suite | Others],
    [Name || {Name, 1} <- Suite:module_info(exports), not lists:member(Name, NoCases)].
