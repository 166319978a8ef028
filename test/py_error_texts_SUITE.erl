%% @doc Does an error say what is wrong, where, and what to do?
-module(py_error_texts_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

%% Called in another node.
-export([default_loop_that_fails/0]).
-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    conversion_errors_name_the_keyword/1,
    a_syntax_error_is_pythons_own_text/1,
    an_import_that_fails_leaves_out_the_import_machinery/1,
    code_without_a_file_has_its_lines/1,
    lines_are_dropped_with_the_code/1,
    a_generator_that_is_called_mentions_streams/1,
    every_misuse_names_its_argument/1,
    the_shell_prints_which_argument_is_wrong/1,
    wrong_options_are_sentences/1,
    what_a_fun_raises_is_left_alone/1,
    init_code_that_fails_is_a_traceback/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> called:end_case(Config).

conversion_errors_name_the_keyword(_Config) ->
    Bad = [1, #{<<"b">> => <<255>>}],
    _ = [
        called:is_error("erlang.ConversionError", Text, Answer)
     || {Text, Answer} <- [
            {"kwargs[\"a\"]: a binary", py:call(called, add, [1], #{a => <<255>>})},
            {"kwargs[\"a\"][1][\"b\"]: a binary", py:call(called, add, [1], #{<<"a">> => Bad})},
            {"kwargs[\"grün\"]: a binary", py:call(called, add_later, [1], #{'grün' => <<255>>})},
            {"variables[\"x\"]: a binary", py:eval("x", #{x => <<255>>})},
            {"variables[\"x\"][1][\"b\"]: a binary", py:eval("x", #{x => Bad, y => 1})}
        ]
    ],
    process_flag(trap_exit, true),
    {ok, Actor} = py_actor:start_link(called, add_later, [1, Bad]),
    receive
        {'EXIT', Actor, {py_exception, Exception}} ->
            Place = "kwargs[\"args\"][1][1][\"b\"]: a binary",
            called:is_error("erlang.ConversionError", Place, {error, Exception})
    after 10_000 -> error(still_there)
    end,
    called:is_error(
        "TypeError",
        "kwargs: a name must be an atom or a UTF-8 binary, not 1",
        py:call(called, add, [1], #{1 => 2})
    ),
    called:is_error(
        "TypeError",
        "variables: a name must be an atom or a UTF-8 binary, not {x}",
        py:eval("x", #{{x} => 2})
    ).

a_syntax_error_is_pythons_own_text(Config) ->
    File = module(Config, "bad_syntax", "x = 1\ndef f(:\n    pass\n"),
    Lines = "\", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax\n",
    printed(["  File \"", File, Lines], py:call(bad_syntax, f, [])),
    {error, #{syntax := Where, message := Message}} = py:call(bad_syntax, f, []),
    ?assertEqual(<<"invalid syntax (bad_syntax.py, line 2)">>, Message),
    ?assertMatch(#{line := 2, column := 7, text := _}, Where),
    ?assertEqual(unicode:characters_to_binary(File), maps:get(file, Where)),
    %% Of a module that another one imports.
    Importing = module(Config, "imports_bad_syntax", "import bad_syntax\n"),
    printed(
        [
            "Traceback (most recent call last):\n  File \"", Importing,
            "\", line 1, in <module>\n    import bad_syntax\n  File \"", File, Lines
        ],
        py:call(imports_bad_syntax, f, [])
    ),
    %% Of code without a file.
    matches(
        "^  File \"<py:exec [0-9]+>\", line 2\n    y = = 2\n        \\^\n"
        "SyntaxError: invalid syntax\n$",
        py:exec("x = 1\ny = = 2\n")
    ),
    matches("^  File \"<py:eval [0-9]+>\", line 1\n    \\(1\n    \\^\nSyntaxError: ", py:eval("(1")),
    %% Found after parsing, when Python would look into the file for the line.
    matches(
        "^  File \"<py:exec [0-9]+>\", line 2\n    return x\n    \\^+\n"
        "SyntaxError: 'return' outside function\n$",
        py:exec("x = 1\nreturn x\n")
    ).

an_import_that_fails_leaves_out_the_import_machinery(Config) ->
    printed("ModuleNotFoundError: No module named 'no_such_module'\n", py:call(no_such_module, f, [])),
    File = module(Config, "raises_at_import", "1 / 0\n"),
    printed(
        [
            "Traceback (most recent call last):\n  File \"", File,
            "\", line 1, in <module>\n    1 / 0\nZeroDivisionError: division by zero\n"
        ],
        py:call(raises_at_import, f, [])
    ).

code_without_a_file_has_its_lines(_Config) ->
    ok = py:exec("def half(x):\n    # a comment\n    return x / 0\n"),
    matches(
        "^Traceback [^\n]+\n"
        "  File \"<py:eval [0-9]+>\", line 1, in <module>\n    half\\(4\\)\n"
        "  File \"<py:exec [0-9]+>\", line 3, in half\n    return x / 0\n"
        "ZeroDivisionError: division by zero\n$",
        py:eval("half(4)")
    ),
    ok = py:exec("import inspect"),
    ?assertEqual(
        {ok, <<"def half(x):\n    # a comment\n    return x / 0\n">>},
        py:eval("inspect.getsource(half)")
    ),
    ok = py:exec("del half").

lines_are_dropped_with_the_code(_Config) ->
    ok = py:exec("import linecache, gc"),
    Kept = fun() ->
        Count = "[gc.collect(), sum(name.startswith('<py:') for name in linecache.cache)][1]",
        {ok, Number} = py:eval(Count),
        Number
    end,
    Before = Kept(),
    _ = [{ok, N} = py:eval(integer_to_list(N) ++ " + (lambda: 0)()") || N <- lists:seq(1, 100)],
    _ = [{error, _} = py:eval("1 / 0") || _ <- lists:seq(1, 100)],
    _ = [{error, _} = py:eval("1 +") || _ <- lists:seq(1, 100)],
    _ = [ok = py:exec("def redefined():\n    return [x for x in ()]\n") || _ <- lists:seq(1, 100)],
    %% The function that is left.
    ?assertEqual(Before + 1, Kept()),
    %% A function within another one needs them when the outer one is gone.
    ok = py:exec("def outer():\n    return lambda: 1 / 0\ninner = outer()\ndel outer, redefined"),
    matches("line 2, in [^\n]*<lambda>\n    return lambda: 1 / 0\n", py:eval("inner()")),
    ok = py:exec("del inner"),
    ?assertEqual(Before, Kept()).

a_generator_that_is_called_mentions_streams(_Config) ->
    Code = "def items():\n    yield 1\nasync def later():\n    yield 1\n",
    ok = py:exec(Code),
    _ = [
        called:is_error("erlang.ConversionError", "py:stream/3 calls the function", Answer)
     || Answer <- [
            py:call(erlang_loop_shell, items, []),
            py:call(erlang_loop_shell, later, []),
            py:call(builtins, iter, [[1]])
        ]
    ],
    ok.

%% What is called, the number of the argument, and what is said of it.
every_misuse_names_its_argument(_Config) ->
    {ok, _} = py_event_loop:start_link(#{name => my_loop}),
    {ok, _} = py_event_loop_pool:start_link(#{name => my_pool, size => 1}),
    {ok, Task} = py:submit(math, sqrt, [16]),
    {ok, Stream} = py:stream(builtins, range, [3]),
    Nothing = fun(_) -> ok end,
    Last = fun(Item, _) -> Item end,
    Calls = [
        {py, call, [1, sqrt, [], #{}, 5000], 1, "not a name"},
        {py, call, [math, <<255>>, [], #{}, 5000], 2, "not a name"},
        {py, call, [math, [16#D800], [], #{}, 5000], 2, "not a name"},
        {py, call, [math, sqrt, 16, #{}, 5000], 3, "not a list"},
        {py, call, [math, sqrt, [16 | 1], #{}, 5000], 3, "not a proper list"},
        {py, call, [math, sqrt, [16], [{a, 1}], 5000], 4, "not a map"},
        {py, call, [math, sqrt, [16], #{}, -1], 5, "not a timeout"},
        {py, eval, [code, #{}, 5000], 1, "not Python code"},
        {py, eval, ["1", [{x, 1}], 5000], 2, "not a map"},
        {py, exec, [[1, a], 5000], 1, "not Python code"},
        {py, exec, ["1", never], 2, "not a timeout"},
        {py, submit, [math, sqrt, 16, #{}, #{}], 3, "not a list"},
        {py, cast, [math, sqrt, 16, #{}, #{}], 3, "not a list"},
        {py, await, [nothing, 5000], 1, "not a task"},
        {py, await, [Task, -1], 2, "not a timeout"},
        {py, yield, [nothing, 5000], 1, "not a task"},
        {py, yield, [Task, 1 bsl 32], 2, "not a timeout"},
        {py, cancel, [nothing], 1, "not a task of py:submit/3 nor a stream"},
        {py, cancel, [make_ref()], 1, "not a stream"},
        {py, stream, [builtins, range, 3, #{}, #{}], 3, "not a list"},
        {py, stream, [builtins, range, [3], #{}, #{demnd => 3}], 5, "no such option: demnd"},
        {py, stream, [builtins, range, [3], #{}, #{demand => -1}], 5, "option demand: not a number"},
        {py, stream, [builtins, range, [3], #{}, #{to => me}], 5, "option to: not a process"},
        {py, stream, [builtins, range, [3], #{}, #{loop => 1}], 5, "option loop: not a loop"},
        {py, stream, [builtins, range, [3], #{}, [{demand, 1}]], 5, "not a map"},
        {py, demand, [make_ref(), 1], 1, "not a stream"},
        {py, demand, [Stream, 0], 2, "not a positive number"},
        {py, fold, [Nothing, 0, builtins, range, [3], #{}, #{}], 1, "not a fun of 2 arguments"},
        {py, fold, [Last, 0, builtins, range, 3, #{}, #{}], 5, "not a list"},
        {py, fold, [Last, 0, builtins, range, [3], #{}, #{demand => 0}], 7, "option demand: not"},
        {py, fold_while, [Nothing, 0, builtins, range, [3], #{}, #{}], 1, "not a fun of 2"},
        {py, fold_while, [Last, 0, builtins, range, [3], #{}, #{timeout => x}], 7, "option timeout"},
        {py_event_loop, run, ["x", asyncio, sleep, [1], #{}, 5000], 1, "not a loop"},
        {py_event_loop, run, [my_loop, asyncio, sleep, 1, #{}, 5000], 4, "not a list"},
        {py_event_loop, run, [my_loop, asyncio, sleep, [1], [], 5000], 5, "not a map"},
        {py_event_loop, submit, [my_loop, asyncio, sleep, 1, #{}, #{}], 4, "not a list"},
        {py_event_loop, stream, [my_loop, builtins, range, [3], #{}, #{x => 1}], 6, "no such option"},
        {py_event_loop, stop, [1, infinity], 1, "not a loop"},
        {py_event_loop, stop, [my_loop, -1], 2, "not a timeout"},
        {py_event_loop, info, [1], 1, "not a loop"},
        {py_event_loop, tasks, [1], 1, "not a loop"},
        {py_event_loop, loop_ref, [1], 1, "not a loop"},
        {py_event_loop_pool, run, [self(), math, sqrt, [1], #{}, 5000], 1, "not the name of a pool"},
        {py_event_loop_pool, run, [my_pool, math, sqrt, [1], #{}, -1], 6, "not a timeout"},
        {py_event_loop_pool, submit, [my_pool, math, sqrt, 1, #{}, #{}], 4, "not a list"},
        {py_event_loop_pool, stream, [my_pool, math, sqrt, [1], #{}, #{x => 1}], 6, "no such option"},
        {py_event_loop_pool, info, [self()], 1, "not the name of a pool"},
        {py_event_loop_pool, stop, [my_pool, -1], 2, "not a timeout"},
        {py_nif, poll_events, [make_ref(), 0], 1, "not a loop of py_nif:event_loop_new/0"},
        {py_nif, poll_events, [nothing, soon], 2, "not a timeout"},
        {py_actor, start_link, [1, main, []], 1, "not a name"},
        {py_actor, start_link, [acting, server, 1], 3, "not a list"},
        {py_actor, start_link, [1, acting, server, []], 1, "not a loop"}
    ],
    _ = [
        begin
            {badarg, [{M, F, Args, _} | _] = Stack} = raised(M, F, Args),
            #{Number := Said} = py_misuse:format_error(badarg, Stack),
            ?assertMatch({match, _}, re:run(Said, "^" ++ Text), {M, F, Args, Said})
        end
     || {M, F, Args, Number, Text} <- Calls
    ],
    ?assertEqual({ok, 4.0}, py:await(Task)),
    ok = py:cancel(Stream),
    ok = py_event_loop_pool:stop(my_pool),
    {ok, []} = py_event_loop:stop(my_loop).

raised(Module, Function, Args) ->
    try
        {answered, apply(Module, Function, Args)}
    catch
        error:Reason:Stack -> {Reason, Stack}
    end.

the_shell_prints_which_argument_is_wrong(_Config) ->
    shown(
        fun() -> py:call(math, sqrt, 16) end,
        ["bad argument", "called as py:call(math,sqrt,16,#{},5000)", "*** argument 3: not a list"]
    ),
    {ok, Task} = py:submit(math, sqrt, [16]),
    Self = self(),
    spawn_link(fun() ->
        Said = "a task that " ++ pid_to_list(Self) ++ " submitted: only that process can await it",
        shown(fun() -> py:await(Task) end, ["bad argument", "argument 1: " ++ Said]),
        shown(fun() -> py:yield(Task) end, ["bad argument", "argument 1: " ++ Said]),
        Self ! shown
    end),
    receive
        shown -> ok
    end,
    ?assertEqual({ok, 4.0}, py:await(Task)).

wrong_options_are_sentences(_Config) ->
    shown(
        fun() -> py_event_loop:start_link(#{thread => mine}) end,
        ["exception error: wrong option {thread,mine}: own or shared"]
    ),
    shown(
        fun() -> py_event_loop_pool:start_link(#{name => my_pool, size => 0}) end,
        ["exception error: wrong option {size,0}: a positive number"]
    ),
    shown(
        fun() -> py_event_loop:start_link(#{callbacks => no_process}) end,
        ["bad argument", "argument 1: a loop with callbacks takes the pid of a process"]
    ).

%% Its badarg is not about the arguments of py:fold.
what_a_fun_raises_is_left_alone(_Config) ->
    Wrong = fun(Item, _) -> atom_to_list(Item) end,
    {badarg, [{erlang, atom_to_list, [0], _} | _]} =
        raised(py, fold, [Wrong, 0, builtins, range, [3], #{}, #{}]).

shown(Fun, Texts) ->
    try Fun() of
        Answer -> error({answered, Answer})
    catch
        Class:Reason:Stack ->
            Shown = unicode:characters_to_list(erl_error:format_exception(Class, Reason, Stack)),
            _ = [?assertNotEqual(nomatch, string:find(Shown, Text), {Text, Shown}) || Text <- Texts],
            ok
    end.

init_code_that_fails_is_a_traceback(_Config) ->
    process_flag(trap_exit, true),
    Answer = py_event_loop:start_link(#{init => "x = 1\nx / 0\n"}),
    matches(
        "^the loop does not start, because its init code raised:\nTraceback .*"
        "File \"<init of a loop [0-9]+>\", line 2, in <module>\n    x / 0\nZeroDivisionError: ",
        Answer
    ),
    called:in_node([{default_loop_init, "import nope"}], default_loop_that_fails, ?MODULE).

default_loop_that_fails() ->
    matches(
        "^the loop does not start, because its init code raised:\nTraceback .*"
        "File \"<init of py_default_loop [0-9]+>\", line 1, in <module>\n    import nope\n"
        "ModuleNotFoundError: ",
        py:call(asyncio, sleep, [0])
    ),
    ok = application:set_env(erlang_loop, default_loop_init, "x = 1"),
    {ok, none} = py:call(asyncio, sleep, [0]),
    ok.

%% The pieces

%% A module that is not there before.
module(Config, Name, Code) ->
    Folder = filename:join(?config(priv_dir, Config), "modules"),
    File = filename:join(Folder, Name ++ ".py"),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Code),
    {ok, _} = py:eval("__import__('sys').path.insert(0, f)", #{f => unicode:characters_to_binary(Folder)}),
    {ok, _} = py:eval("__import__('importlib').invalidate_caches()"),
    File.

text({error, Reason}) ->
    unicode:characters_to_list(py:format_error(Reason)).

printed(Expected, Answer) ->
    ?assertEqual(unicode:characters_to_list(Expected), text(Answer)).

matches(Pattern, Answer) ->
    Found = re:run(text(Answer), Pattern, [unicode, dotall]),
    ?assertMatch({match, _}, Found, {Pattern, text(Answer)}).
