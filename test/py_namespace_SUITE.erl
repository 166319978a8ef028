%% @doc Does my code have names of its own, and does it run as in a notebook?
-module(py_namespace_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    names_stay_in_their_namespace/1,
    a_namespace_is_an_object/1,
    a_copy_has_names_of_its_own/1,
    namespaces_are_listed/1,
    any_module_is_a_namespace/1,
    what_is_not_a_namespace/1,
    the_last_expression_is_the_value/1,
    variables_belong_to_the_call/1,
    concurrent_calls_have_their_own_variables/1,
    await_outside_of_functions/1,
    await_on_a_loop_of_your_own/1,
    a_result_by_reference/1,
    tracebacks_have_source_lines/1,
    tracebacks_name_the_callers_file/1,
    a_syntax_error_names_the_callers_line/1,
    a_timeout_interrupts_code_in_a_namespace/1,
    its_creator_dies_in_the_middle_of_an_exec/1,
    a_namespace_outlives_its_creator/1,
    a_namespace_ends_with_its_last_reference/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

names_stay_in_their_namespace(_Config) ->
    {ok, One} = py:namespace(),
    {ok, Two} = py:namespace(),
    ok = py:exec(One, "x = 1\ndef f():\n    global x\n    x += 1\n    return x"),
    ok = py:exec(Two, "x = 10"),
    ?assertEqual({ok, 2}, py:eval(One, "f()")),
    ?assertEqual({ok, [2, 10]}, py:eval("[a.x, b.x]", #{a => One, b => Two})),
    is_undefined(py:eval(Two, "f")),
    is_undefined(py:eval("f")),
    ok = py:exec("in_shell = 1"),
    is_undefined(py:eval(One, "in_shell")),
    %% As an option.
    ok = py:exec("x = 20", #{namespace => Two}),
    ?assertEqual({ok, 21}, py:eval("x + n", #{n => 1}, #{namespace => Two})).

a_namespace_is_an_object(_Config) ->
    {ok, Ns} = py:namespace(#{name => counter}),
    ok = py:exec(Ns, [
        "import asyncio\n",
        "def add(a, b): return a + b\n",
        "async def later(x): return await asyncio.sleep(0, x)\n",
        "def items():\n    yield from (1, 2)\n"
    ]),
    ?assertEqual({ok, 3}, py:call(Ns, add, [1], #{b => 2})),
    ?assertEqual({ok, 4}, py:call(Ns, later, [4])),
    ?assertEqual({ok, 3}, py:fold(fun erlang:'+'/2, 0, Ns, items, [])),
    ?assertEqual({ok, <<"counter">>}, py:attr(Ns, '__name__')),
    ?assertEqual("#py{erlang.Namespace}", py:format(Ns)).

a_copy_has_names_of_its_own(_Config) ->
    {ok, Ns} = py:namespace(),
    ok = py:exec(Ns, "x, shared = 1, []\ndef read_x(): return x"),
    {ok, Copy} = py:namespace(#{copy => Ns, name => <<"copy">>}),
    ok = py:exec(Copy, "x = 2\nshared.append(x)"),
    ?assertEqual({ok, {1, [2]}}, py:eval(Ns, "x, shared")),
    %% A function keeps the namespace in which it was defined.
    ?assertEqual({ok, {2, 1, <<"copy">>}}, py:eval(Copy, "x, read_x(), __name__")).

namespaces_are_listed(_Config) ->
    {ok, Ns} = py:namespace(#{name => "listed"}),
    ok = py:exec(Ns, "b = a = 1"),
    ?assertEqual({ok, [<<"a">>, <<"b">>]}, py:names(Ns)),
    {ok, All} = py:namespaces(),
    [#{namespace := Same, names := Names, creator := Creator}] =
        [Info || #{name := <<"listed">>} = Info <- All],
    ?assertEqual({[<<"a">>, <<"b">>], self()}, {Names, Creator}),
    ?assertEqual({ok, true}, py:eval("a is b", #{a => Ns, b => Same})).

any_module_is_a_namespace(_Config) ->
    {ok, Module} = py:call(importlib, import_module, [called], #{}, #{return => ref}),
    ?assertEqual({ok, 3}, py:eval(Module, "add(1, 2)")),
    {ok, Names} = py:names(Module),
    ?assert(lists:member(<<"add">>, Names)).

what_is_not_a_namespace(_Config) ->
    {ok, List} = py:eval("[]", #{}, #{return => ref}),
    Type = <<"builtins.TypeError">>,
    {error, #{type := Type, message := Message}} = py:exec(List, "x = 1"),
    ?assertEqual(<<"code runs in a namespace or a module, not in a builtins.list">>, Message),
    {error, #{type := Type}} = py:names(List),
    {error, #{type := Type}} = py:namespace(#{copy => List}),
    {ok, Ns} = py:namespace(),
    [
        ?assertError(badarg, Wrong())
     || Wrong <- [
            fun() -> py:exec(make_ref(), "x = 1") end,
            fun() -> py:eval(make_ref(), "1", #{}) end,
            fun() -> py:names(self()) end,
            fun() -> py:namespace(#{copy => make_ref()}) end,
            fun() -> py:namespace(#{naem => x}) end,
            fun() -> py:namespace([]) end,
            fun() -> py:exec(Ns, "x = 1", #{namespace => Ns}) end,
            fun() -> py:exec(Ns, "x = 1", #{return => ref}) end,
            fun() -> py:eval("1", #{}, #{namespace => my_namespace}) end,
            fun() -> py:eval("1", #{}, #{line => 0}) end,
            fun() -> py:eval("1", #{}, #{line => 1 bsl 40}) end,
            fun() -> py:eval("1", #{}, #{file => 5}) end,
            fun() -> py:call(math, sqrt, [4], #{}, #{namespace => Ns}) end
        ]
    ].

the_last_expression_is_the_value(_Config) ->
    {ok, Ns} = py:namespace(),
    ?assertEqual({ok, 3}, py:eval(Ns, "a = 1\nb = 2\na + b")),
    ?assertEqual({ok, none}, py:eval(Ns, "a = 5")),
    ?assertEqual({ok, none}, py:eval(Ns, "for i in range(3):\n    i")),
    ?assertEqual({ok, none}, py:eval(Ns, "")),
    ?assertEqual({ok, <<"text">>}, py:eval(Ns, "'text'")),
    ?assertEqual({ok, [5, 2]}, py:eval(Ns, "[\n    a,\n    b,\n]")),
    %% No value, so it need not have a form in Erlang.
    ok = py:exec(Ns, "object()").

variables_belong_to_the_call(_Config) ->
    {ok, Ns} = py:namespace(),
    Eval = fun(Code) -> py:eval(Ns, Code, #{n => 3}) end,
    ?assertEqual({ok, [0, 3]}, Eval("[i * n for i in range(2)]")),
    ?assertEqual({ok, 9}, Eval("n += 1\nsquare: int = 9\ndef add(x): return x + n\nsquare")),
    is_undefined(py:eval(Ns, "n")),
    %% A function keeps the variables that it was defined with.
    ?assertEqual({ok, 14}, py:eval(Ns, "add(10)")),
    ?assertEqual({ok, 9}, py:eval(Ns, "square")),
    ?assertEqual({ok, 3}, Eval("import os.path\n[last := i for i in range(n + 1)]\nlast")),
    ?assertEqual({ok, [<<"add">>, <<"last">>, <<"os">>, <<"square">>]}, py:names(Ns)),
    {error, #{type := <<"builtins.SyntaxError">>, message := Message}} = Eval("return n"),
    ?assertMatch(<<"'return' outside function", _/binary>>, Message).

concurrent_calls_have_their_own_variables(_Config) ->
    {ok, Ns} = py:namespace(),
    Code = "import time\nbefore = n\ntime.sleep(0.002)\nn",
    Self = self(),
    Numbers = lists:seq(1, 8),
    Eval = fun(N) -> Self ! {N, py:eval(Ns, Code, #{n => N})} end,
    _ = [spawn_link(fun() -> Eval(N) end) || N <- Numbers],
    ?assertEqual([{ok, N} || N <- Numbers], [receive {N, Result} -> Result end || N <- Numbers]).

await_outside_of_functions(_Config) ->
    {ok, Ns} = py:namespace(),
    ok = py:exec(Ns, "import asyncio\nx = await asyncio.sleep(0, 1)"),
    ?assertEqual({ok, 1}, py:eval(Ns, "x")),
    ?assertEqual({ok, 2}, py:eval(Ns, "await asyncio.sleep(0, 2)")),
    ?assertEqual({ok, 7}, py:eval(Ns, "y = await asyncio.sleep(0, n)\nx + y", #{n => 6})),
    ?assertEqual({ok, 6}, py:eval(Ns, "y")),
    ?assertEqual({ok, 8}, py:eval(Ns, "async def f():\n    return 8\nf()")),
    ?assertEqual({error, timeout}, py:eval(Ns, "await asyncio.sleep(3600)", #{}, 10)).

await_on_a_loop_of_your_own(_Config) ->
    {ok, Ns} = py:namespace(),
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, There} = py_event_loop:run(Loop, called, loop_thread, []),
    Code = "import asyncio, called\nawait asyncio.sleep(0)\nawait called.loop_thread()",
    ?assertEqual({ok, There}, py:eval(Ns, Code, #{}, #{loop => Loop})),
    {ok, Default} = py:eval(Ns, Code),
    ?assertNotEqual(There, Default),
    {ok, []} = py_event_loop:stop(Loop).

a_result_by_reference(_Config) ->
    {ok, Ns} = py:namespace(),
    {ok, Items} = py:eval(Ns, "items = []\nitems", #{}, #{return => ref}),
    {ok, none} = py:method(Items, append, [1]),
    ?assertEqual({ok, [1]}, py:eval(Ns, "items")).

tracebacks_have_source_lines(_Config) ->
    {ok, Ns} = py:namespace(),
    Code = "x = 1\ndef f(y):\n    return x / y\nf(zero)",
    [
        begin
            {error, #{traceback := [Outer, Inner]}} = py:eval(Ns, Text, #{zero => 0}),
            ?assertMatch(#{source := <<"f(zero)">>, function := <<"<module>">>}, Outer),
            ?assertMatch(#{source := <<"return x / y">>, line := 3}, Inner)
        end
     || Text <- [Code, Code ++ "\nimport asyncio\nawait asyncio.sleep(0)"]
    ],
    %% The function is called later.
    {error, #{traceback := Later}} = py:call(Ns, f, [0]),
    ?assertMatch([#{source := <<"return x / y">>, line := 3}], Later).

tracebacks_name_the_callers_file(_Config) ->
    {ok, Ns} = py:namespace(),
    File = <<"lib/not_here.ex">>,
    At = fun(Line) -> #{file => File, line => Line} end,
    ok = py:exec(Ns, "def f(x):\n    return 1 / x", At(10)),
    {error, #{traceback := [One, Two]}} = py:eval(Ns, "y = 0\nf(y)", #{}, At(40)),
    ?assertEqual(
        #{file => File, line => 41, function => <<"<module>">>, source => <<"f(y)">>}, One
    ),
    ?assertEqual(
        #{file => File, line => 11, function => <<"f">>, source => <<"return 1 / x">>}, Two
    ),
    %% A file that is there has the lines.
    Here = list_to_binary(filename:absname(?FILE)),
    {error, #{traceback := [#{line := 1, source := First}]}} =
        py:eval(Ns, "1 / 0", #{}, #{file => Here}),
    ?assertMatch(<<"%% @doc", _/binary>>, First).

a_syntax_error_names_the_callers_line(_Config) ->
    [
        begin
            {error, #{syntax := Syntax, traceback := []}} =
                py:eval(Code, Variables, #{file => "a.ex", line => 7}),
            ?assertMatch(#{file := <<"a.ex">>, line := 8}, Syntax)
        end
     || Code <- ["a = 1\nb = = 2", "a = 1\nreturn 5"], Variables <- [#{}, #{n => 1}]
    ].

a_timeout_interrupts_code_in_a_namespace(_Config) ->
    {ok, Ns} = py:namespace(),
    Code = "try:\n    while True:\n        n = 1\nfinally:\n    ended = True",
    ?assertEqual({error, timeout}, py:exec(Ns, Code, 20)),
    eventually:is({ok, true}, fun() -> py:eval(Ns, "globals().get('ended')") end).

%% The code is interrupted. Its `finally' block has all names, and then the namespace ends.
its_creator_dies_in_the_middle_of_an_exec(_Config) ->
    {ok, Event} = py:call(threading, 'Event', [], #{}, #{return => ref}),
    {ok, Seen} = py:eval("[]", #{}, #{return => ref}),
    Creator = spawn(fun() ->
        {ok, Ns} = py:namespace(#{name => interrupted}),
        ok = py:exec(Ns, "def helper(): return 'finally'"),
        Code = "began.set()\ntry:\n    while True:\n        n = 1\nfinally:\n    seen.append(helper())",
        py:eval(Ns, Code, #{began => Event, seen => Seen}, infinity)
    end),
    {ok, true} = py:method(Event, wait, [5]),
    ?assertMatch([_], listed(<<"interrupted">>)),
    exit(Creator, kill),
    eventually:is({ok, [<<"finally">>]}, fun() -> py:value(Seen) end),
    eventually:is([], fun() -> listed(<<"interrupted">>) end).

%% The code of another process that has the reference continues.
a_namespace_outlives_its_creator(_Config) ->
    Self = self(),
    Creator = spawn(fun() ->
        {ok, Ns} = py:namespace(),
        ok = py:exec(Ns, "import threading\nbegan, go = threading.Event(), threading.Event()"),
        Self ! {namespace, Ns},
        receive stop -> ok end
    end),
    Ns = receive {namespace, Created} -> Created end,
    Waiting = spawn_link(fun() ->
        Self ! {self(), py:eval(Ns, "began.set()\nx = go.wait(5)\nx")}
    end),
    {ok, true} = py:eval(Ns, "began.wait(5)"),
    exit(Creator, kill),
    {ok, none} = py:eval(Ns, "go.set()"),
    receive {Waiting, Result} -> ?assertEqual({ok, true}, Result) end,
    ?assertEqual({ok, true}, py:eval(Ns, "x")).

a_namespace_ends_with_its_last_reference(_Config) ->
    {ok, Ns} = py:namespace(#{name => kept}),
    {_, Monitor} = spawn_monitor(fun() ->
        {ok, Short} = py:namespace(#{name => short}),
        ok = py:exec(Short, "def f(): return f")
    end),
    receive {'DOWN', Monitor, _, _, normal} -> ok end,
    eventually:is([], fun() -> py:call(gc, collect, []), listed(<<"short">>) end),
    ?assertMatch([_], listed(<<"kept">>)),
    ?assertEqual({ok, []}, py:names(Ns)).

listed(Name) ->
    {ok, All} = py:namespaces(),
    [Listed || #{name := Listed} <- All, Listed =:= Name].

is_undefined({error, #{type := Type}}) -> ?assertEqual(<<"builtins.NameError">>, Type);
is_undefined(Result) -> ?assertEqual(undefined, Result).
