%% @doc Is what the pages say true?
%%
%% Runs the ```erlang blocks of README.md and docs/*.md, each page in a node of its own with the
%% application started. Blocks of a page share their variables, as in a shell. `snippet' says
%% how a page marks values and blocks that are not to be run.
-module(py_docs_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([the_shell_has_the_documentation/1]).
-export([the_pages_run/1, the_pages_run_in_one_shell/1, every_call_is_documented/1, every_setting_is_documented/1]).
%% Called in another node.
-export([run_page/2, run_pages/1]).

all() ->
    [
        the_pages_run, the_pages_run_in_one_shell, the_shell_has_the_documentation,
        every_call_is_documented, every_setting_is_documented
    ].

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

the_pages_run(_Config) ->
    Blocks = lists:sum([run_in_node(Page) || Page <- pages()]),
    ct:pal("~p blocks in ~p pages", [Blocks, length(pages())]),
    ?assert(Blocks > 0).

%% What `h(py, call, 5)' prints.
the_shell_has_the_documentation(_Config) ->
    {ok, {docs_v1, _, erlang, _, #{<<"en">> := Page}, _, Functions}} = code:get_doc(py),
    ?assertNotEqual([], Page),
    [Texts] = [Texts || {{function, call, 5}, _, _, Texts, _} <- Functions],
    #{<<"en">> := [_ | _]} = Texts,
    ?assertMatch({ok, _}, code:get_doc(py_event_loop)).

%% A reader pastes examples of several pages into one shell: their variables, the names that they
%% register and what they define in Python must not collide.
the_pages_run_in_one_shell(_Config) ->
    Node = other_node:start([]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    ?assertEqual(ok, other_node:call(Node, ?MODULE, run_pages, [pages()])),
    ok = other_node:stop(Node).

pages() ->
    [project:file("README.md") | filelib:wildcard(project:file("docs/*.md"))].

run_in_node(Page) ->
    case snippet:blocks(Page) of
        [] ->
            0;
        Blocks ->
            Node = other_node:start([]),
            {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
            ?assertEqual({Page, ok}, {Page, other_node:call(Node, ?MODULE, run_page, [Page, Blocks])}),
            ok = other_node:stop(Node),
            length(Blocks)
    end.

%% Returns what went wrong instead of raising it: the line matters more than the stack.
run_page(Page, Blocks) ->
    run_blocks([{Page, Line, Text} || {Line, Text} <- Blocks]).

run_pages(Pages) ->
    run_blocks([{Page, Line, Text} || Page <- Pages, {Line, Text} <- snippet:blocks(Page)]).

run_blocks(Blocks) ->
    try
        _ = lists:foldl(
            fun({Page, Line, Text}, Bindings) ->
                try
                    snippet:run(Text, Bindings)
                catch
                    error:Reason -> throw({block_at_line, filename:basename(Page), Line, Reason})
                end
            end,
            #{},
            Blocks
        ),
        ok
    catch
        throw:Failed -> Failed
    end.

%% docs/py_nif.md has every function that is not private to the application, which the source
%% says of each.
every_call_is_documented(_Config) ->
    {ok, Page} = file:read_file(project:file("docs/py_nif.md")),
    {ok, Source} = file:read_file(project:file("erl_src/py_nif.erl")),
    {match, Private} = re:run(
        Source, "%% @private\n-spec (\\w+)\\(", [global, {capture, all_but_first, list}]
    ),
    Exported = [atom_to_list(Name) || {Name, _} <- py_nif:module_info(exports)],
    Public = lists:usort(Exported) -- ["module_info" | lists:append(Private)],
    ?assert(length(Public) > 30),
    ?assertEqual([], [N || N <- Public, string:find(Page, "`" ++ N ++ "(") =:= nomatch]).

%% docs/settings.md has every setting with its default and what it must be, and no other: as
%% py_settings and the application's file.
every_setting_is_documented(_Config) ->
    {ok, Page} = file:read_file(project:file("docs/settings.md")),
    {match, Rows} = re:run(
        Page,
        "^\\| `(\\w+)` \\| `([^`]+)` \\| ([^|]+) \\|",
        [global, multiline, {capture, all_but_first, list}]
    ),
    Table = [
        {Name, Default, unicode:characters_to_list(py_settings:must_be(Kind))}
     || {Name, Default, Kind, _} <- py_settings:table()
    ],
    Documented = [{list_to_atom(Name), value(Text), MustBe} || [Name, Text, MustBe] <- Rows],
    ?assertEqual(lists:sort(Table), lists:sort(Documented)),
    %% From the file: what is loaded may have been set otherwise.
    {ok, [{application, erlang_loop, Keys}]} =
        file:consult(filename:join(code:lib_dir(erlang_loop), "ebin/erlang_loop.app")),
    Defaults = [{Name, Default} || {Name, Default, _} <- Documented],
    ?assertEqual(lists:sort(proplists:get_value(env, Keys)), lists:sort(Defaults)).

value(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text ++ "."),
    {ok, Value} = erl_parse:parse_term(Tokens),
    Value.
