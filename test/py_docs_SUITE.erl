%% @doc Is what the pages say true?
%%
%% Runs the ```erlang blocks of README.md and docs/*.md, each page in a node of its own with the
%% application started. Blocks of a page share their variables, as in a shell. `snippet' says
%% how a page marks values and blocks that are not to be run.
-module(py_docs_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([the_pages_run/1, every_call_is_documented/1]).
%% Called in another node.
-export([run_page/2]).

all() ->
    [the_pages_run, every_call_is_documented].

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

the_pages_run(_Config) ->
    Pages = [project:file("README.md") | filelib:wildcard(project:file("docs/*.md"))],
    Blocks = lists:sum([run_in_node(Page) || Page <- Pages]),
    ct:pal("~p blocks in ~p pages", [Blocks, length(Pages)]),
    ?assert(Blocks > 0).

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

%% Answers what went wrong instead of raising it: the line matters more than the stack.
run_page(_Page, Blocks) ->
    try
        _ = lists:foldl(
            fun({Line, Text}, Bindings) ->
                try
                    snippet:run(Text, Bindings)
                catch
                    error:Reason -> throw({block_at_line, Line, Reason})
                end
            end,
            #{},
            Blocks
        ),
        ok
    catch
        throw:Failed -> Failed
    end.

%% docs/py_nif.md has every function that is not private to the application.
every_call_is_documented(_Config) ->
    {ok, Page} = file:read_file(project:file("docs/py_nif.md")),
    Private = [
        module_info,
        router_started,
        loop_arm,
        fd_ready,
        timer_fired,
        loop_release,
        python_start,
        python_main,
        python_running
    ],
    Missing = [
        Name
     || {Name, _} <- py_nif:module_info(exports),
        not lists:member(Name, Private),
        string:find(Page, "`" ++ atom_to_list(Name) ++ "(") =:= nomatch
    ],
    ?assertEqual([], lists:usort(Missing)).
