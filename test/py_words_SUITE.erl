%% @doc Do the default loop, a loop of your own and a pool have the same functions?
-module(py_words_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    every_word_has_the_same_arities/1,
    the_words_do_the_same/1,
    code_runs_on_that_loop/1,
    a_cast_runs_on_that_loop/1,
    what_is_wrong_is_named/1,
    a_loop_or_pool_that_is_not_there/1,
    a_name_that_python_does_not_have/1
]).

-define(PLACES, [{py_event_loop, words_loop}, {py_event_loop_pool, words_pool}]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().

init_per_testcase(_Case, Config) ->
    Begun = called:begin_case(Config),
    {ok, Loop} = py_event_loop:start_link(#{name => words_loop}),
    {ok, Pool} = py_event_loop_pool:start_link(#{name => words_pool, size => 2}),
    true = unlink(Loop),
    true = unlink(Pool),
    Begun.

end_per_testcase(_Case, Config) ->
    {ok, []} = py_event_loop:stop(words_loop),
    ok = py_event_loop_pool:stop(words_pool),
    called:end_case(Config).

%% With the loop or the pool first. A namespace is an option there.
every_word_has_the_same_arities(_Config) ->
    Arities = fun(Module, Word) -> lists:sort([A || {W, A} <- Module:module_info(exports), W =:= Word]) end,
    lists:foreach(
        fun({Word, Expected}) ->
            _ = [?assertEqual({Module, Word, Expected}, {Module, Word, Arities(Module, Word)}) || {Module, _} <- ?PLACES],
            ?assertEqual([], [A - 1 || A <- Expected] -- Arities(py, Word), Word)
        end,
        [
            {call, [4, 5, 6]}, {cast, [4, 5, 6]}, {submit, [4, 5, 6]}, {stream, [4, 5, 6]},
            {eval, [2, 3, 4]}, {exec, [2, 3]}
        ]
    ).

the_words_do_the_same(_Config) ->
    {ok, Namespace} = py:namespace(),
    lists:foreach(
        fun({Module, At}) ->
            ?assertEqual({ok, 11}, Module:call(At, called, add, [1])),
            ?assertEqual({ok, 3}, Module:call(At, called, add_later, [1], #{b => 2})),
            {ok, Sum} = Module:call(At, called, add, [1], #{}, #{return => ref, timeout => 1000}),
            ?assertEqual({ok, 11}, py:value(Sum)),
            ?assertEqual({error, timeout}, Module:call(At, asyncio, sleep, [3600], #{}, 1)),
            ?assertEqual({ok, 7}, Module:eval(At, "3 + 4")),
            ?assertEqual({ok, 8}, Module:eval(At, "n + 4", #{n => 4})),
            ?assertEqual(ok, Module:exec(At, "words = 5", #{namespace => Namespace})),
            ?assertEqual({ok, 5}, Module:eval(At, "words", #{}, #{namespace => Namespace, timeout => 1000})),
            ?assertMatch({error, #{type := <<"builtins.NameError">>}}, Module:exec(At, "no_such_name", 1000)),
            {ok, Task} = Module:submit(At, called, add, [1]),
            ?assertEqual({ok, 11}, py:await(Task)),
            {ok, Stream} = Module:stream(At, builtins, range, [1], #{}, #{demand => 2}),
            receive
                {py_stream, Stream, {data, 0}} -> ok
            end,
            receive
                {py_stream, Stream, done} -> ok
            end
        end,
        ?PLACES
    ).

code_runs_on_that_loop(_Config) ->
    Code = "import asyncio, threading\nasync def where():\n    return threading.get_ident()\nawait where()",
    {ok, OfLoop} = py_event_loop:call(words_loop, called, loop_thread, []),
    ?assertEqual({ok, OfLoop}, py_event_loop:eval(words_loop, Code)),
    {ok, OfDefault} = py:call(called, loop_thread, []),
    ?assertNotEqual({ok, OfDefault}, py_event_loop_pool:eval(words_pool, Code)).

a_cast_runs_on_that_loop(_Config) ->
    lists:foreach(
        fun({Module, At}) ->
            ok = Module:cast(At, waiting, tell_thread, [self()]),
            {ok, OfDefault} = py:call(called, loop_thread, []),
            receive
                {runs_on, Thread} -> ?assertNotEqual(OfDefault, Thread)
            end
        end,
        ?PLACES
    ).

what_is_wrong_is_named(_Config) ->
    lists:foreach(
        fun({Module, At}) ->
            _ = [
                ?assertError(badarg, Call())
             || Call <- [
                    fun() -> Module:call("x", called, add, [1]) end,
                    fun() -> Module:call(At, called, add, 1) end,
                    fun() -> Module:call(At, called, add, [1], #{}, -1) end,
                    fun() -> Module:call(At, called, add, [1], #{}, #{loop => At}) end,
                    fun() -> Module:eval(At, 7) end,
                    fun() -> Module:eval(At, "1", #{}, #{no_such => 1}) end,
                    fun() -> Module:exec(At, "1", #{return => ref}) end,
                    fun() -> Module:cast(At, called, add, [1], #{}, #{return => ref}) end
                ]
            ],
            try Module:eval(At, "1", #{}, #{loop => At}) of
                _ -> error(accepted)
            catch
                error:badarg:Stack ->
                    #{4 := Text} = py_misuse:format_error(badarg, Stack),
                    ?assertNotEqual(nomatch, string:find(Text, "no such option"))
            end
        end,
        ?PLACES
    ).

a_loop_or_pool_that_is_not_there(_Config) ->
    lists:foreach(
        fun({Module, Expected}) ->
            ?assertEqual({error, Expected}, Module:call(not_there, called, add, [1])),
            ?assertEqual({error, Expected}, Module:cast(not_there, called, add, [1])),
            ?assertEqual({error, Expected}, Module:eval(not_there, "1")),
            ?assertEqual({error, Expected}, Module:exec(not_there, "1"))
        end,
        [{py_event_loop, {no_loop, not_there}}, {py_event_loop_pool, {no_pool, not_there}}]
    ).

a_name_that_python_does_not_have(_Config) ->
    called:is_error("ModuleNotFoundError", "names a module of Elixir", py:call('Elixir.Foo', bar, [])),
    called:is_error("ModuleNotFoundError", "names a file", py:call("app/code.py", bar, [])),
    called:is_error("ModuleNotFoundError", "No module named 'no_such_module'", py:call(no_such_module, bar, [])).
