%% @doc Do the tests exist that a page names?
-module(named_tests).

-include_lib("stdlib/include/assert.hrl").

-export([check/1]).

%% @doc Fails for each test that the page names and that does not exist; returns how many it names.
-spec check(string()) -> non_neg_integer().
check(Path) ->
    {ok, Page} = file:read_file(project:file(Path)),
    Named = named(Page, "`(py_\\w+_SUITE):(\\w+)`", "\n~ts(") ++
        named(Page, "`(test_\\w+\\.py)::(\\w+)`", "def ~ts(") ++
        named(Page, "`(loom_\\w+\\.rs)::(\\w+)`", "fn ~ts("),
    ?assertEqual([], [{File, Test} || {File, Test, false} <- Named]),
    length(Named).

named(Page, Pattern, Definition) ->
    case re:run(Page, Pattern, [global, {capture, all_but_first, list}]) of
        nomatch -> [];
        {match, Found} -> [{F, T, is_in(source(F), Definition, T)} || [F, T] <- Found]
    end.

is_in(Source, Definition, Test) ->
    string:find(Source, io_lib:format(Definition, [Test])) =/= nomatch.

source(Name) ->
    Patterns = [
        "test/" ++ Name ++ ".erl",
        "test/python/*/" ++ Name,
        "test/python/" ++ Name,
        "native/event_loop/tests/" ++ Name
    ],
    case [Path || Pattern <- Patterns, Path <- filelib:wildcard(project:file(Pattern))] of
        [Path | _] ->
            {ok, Source} = file:read_file(Path),
            Source;
        [] ->
            <<>>
    end.
