%% @doc Is a value the same on the other side, or an error that says why not?
%%
%% docs/values.md is the specification: its tables are run here. Python starts once in a node, so
%% each case has a node of its own and runs there.
-module(py_values_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    erlang_to_python_as_documented/1,
    python_to_erlang_as_documented/1,
    numpy_as_documented/1,
    refused_terms_as_documented/1,
    refused_values_as_documented/1,
    random_terms_come_back/1,
    wide_values_cross/1,
    deep_values_are_refused_or_cross/1,
    deep_values_on_a_small_stack/1,
    large_binaries_are_shared/1,
    handles_keep_their_objects/1,
    atoms_are_one_object_each/1,
    atoms_from_python_are_limited/1,
    limits_are_settings/1,
    exceptions_are_data/1,
    endless_exceptions_are_cut/1,
    errors_of_erlang_are_exceptions/1,
    memory_stays/1
]).
%% Called in the other node.
-export([run/1, small_limits/0]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [Case || {Case, 1} <- ?MODULE:module_info(exports), Case =/= module_info, Case =/= run].

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% The tables

erlang_to_python_as_documented(_Config) ->
    there(fun() ->
        Rows = rows("## Erlang to Python"),
        ?assert(length(Rows) > 25),
        lists:foreach(fun erlang_row/1, Rows)
    end).

erlang_row([Erlang, "an " ++ Class, "the same"]) ->
    Term = term(Erlang),
    ?assertEqual({Erlang, {ok, true}}, {Erlang, python_values:eval(["type(term) is ", code(Class)], #{term => Term})}),
    ?assertEqual({Erlang, {ok, Term}}, {Erlang, python_values:echo(Term)});
erlang_row([Erlang, Python, Back]) ->
    Term = term(Erlang),
    Same = ["(lambda a, b: type(a) is type(b) and a == b and repr(a) == repr(b))(term, ", code(Python), ")"],
    ?assertEqual({Erlang, {ok, true}}, {Erlang, python_values:eval(Same, #{term => Term})}),
    ?assertEqual({Erlang, {ok, term(Back)}}, {Erlang, python_values:echo(Term)}).

python_to_erlang_as_documented(_Config) ->
    there(fun() -> python_rows("## Python to Erlang", 30) end).

numpy_as_documented(_Config) ->
    case project:venv() of
        none -> {skip, "there is no .venv with numpy"};
        {ok, _} -> there(fun() -> python_rows("### numpy", 9) end)
    end.

python_rows(Heading, AtLeast) ->
    Rows = rows(Heading),
    ?assert(length(Rows) >= AtLeast),
    lists:foreach(
        fun([Python, Erlang]) ->
            ?assertEqual({Python, {ok, term(Erlang)}}, {Python, python_values:eval(code(Python))})
        end,
        Rows
    ).

refused_terms_as_documented(_Config) ->
    there(fun() ->
        lists:foreach(
            fun([Erlang, Why]) ->
                try term(Erlang) of
                    Term -> refused(Erlang, Why, python_values:echo(Term))
                catch
                    % From OTP 27 on the VM itself has no integers of the size we refuse.
                    error:system_limit -> ok
                end
            end,
            rows("## Refused: Erlang to Python")
        )
    end).

refused_values_as_documented(_Config) ->
    there(fun() ->
        lists:foreach(
            fun([Python, Why]) -> refused(Python, Why, python_values:eval(code(Python))) end,
            rows("## Refused: Python to Erlang")
        )
    end).

refused(What, Why, Answer) ->
    ?assertMatch({_, {error, #{type := <<"erlang.ConversionError">>}}}, {What, Answer}),
    {error, #{message := Message}} = Answer,
    Begin = unicode:characters_to_binary(code(Why)),
    ?assertEqual({What, Begin}, {What, binary:part(Message, 0, min(byte_size(Message), byte_size(Begin)))}).

%% Any terms

random_terms_come_back(_Config) ->
    there(fun() ->
        Seed = erlang:system_time(),
        io:format(user, "random_terms_come_back: seed ~p~n", [Seed]),
        _ = rand:seed(exsss, Seed),
        Refused = length([refused || _ <- lists:seq(1, 10_000), random_term_comes_back(Seed) =:= refused]),
        %% Mostly they are not.
        ?assert(Refused < 2_000)
    end).

random_term_comes_back(Seed) ->
    Term = random_term:make(rand:uniform(60)),
    case {random_term:after_python(Term), python_values:echo(Term)} of
        {{ok, Back}, Answer} -> ?assertEqual({Seed, Term, {ok, Back}}, {Seed, Term, Answer});
        {refused, {error, _}} -> refused;
        {refused, Answer} -> error({should_be_refused, Seed, Term, Answer})
    end.

wide_values_cross(_Config) ->
    there(fun() ->
        Numbers = lists:seq(1, 1_000_000),
        ?assertEqual({ok, Numbers}, python_values:echo(Numbers)),
        Tuple = list_to_tuple(Numbers),
        ?assertEqual({ok, Tuple}, python_values:echo(Tuple)),
        Map = maps:from_keys(Numbers, <<"value">>),
        ?assertEqual({ok, Map}, python_values:echo(Map)),
        ?assertEqual({ok, {set, Numbers}}, python_values:eval("set(range(1, 1_000_001))"))
    end).

deep_values_are_refused_or_cross(_Config) ->
    there(fun deep_values/0).

%% The conversion keeps its own stack, so a thread with little room can do the same.
deep_values_on_a_small_stack(_Config) ->
    {ok, Built} = file:consult(filename:join(code:priv_dir(erlang_loop), "build_info")),
    case proplists:get_value(python_version, Built) of
        "3.13." ++ _ -> {skip, "CPython 3.13 itself overflows such a stack when it frees them"};
        _ -> deep_values_on_a_small_stack()
    end.

deep_values_on_a_small_stack() ->
    there(fun() ->
        python_values:exec(
            "import threading, py_event_loop\n"
            "def small(work):\n"
            "    threading.stack_size(256 * 1024)\n"
            "    found = []\n"
            "    def run():\n"
            "        try:\n"
            "            found.append(work())\n"
            "        except Exception as error:\n"
            "            found.append(str(error)[-28:])\n"
            "    thread = threading.Thread(target=run)\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "    threading.stack_size(0)\n"
            "    return found[0]\n"
            "def nested(depth, wrap):\n"
            "    value = wrap()\n"
            "    for _ in range(depth - 1):\n"
            "        value = wrap(value)\n"
            "    return value\n"
            "def depth(value):\n"
            "    count = 0\n"
            "    while value:\n"
            "        value = value[0]\n"
            "        count += 1\n"
            "    return count + 1\n"
            "in_list = lambda *inner: list(inner)\n"
            "in_tuple = lambda *inner: inner\n"
        ),
        [
            begin
                Echo = fun(Depth) ->
                    io_lib:format(
                        "small(lambda: depth(py_event_loop._echo(nested(~p, ~s))))", [Depth, Wrap]
                    )
                end,
                ?assertEqual({ok, 10_000}, python_values:eval(Echo(10_000))),
                ?assertEqual(
                    {ok, <<"nested more than 10,000 deep">>}, python_values:eval(Echo(100_000))
                )
            end
         || Wrap <- ["in_list", "in_tuple"]
        ]
    end).

deep_values() ->
    Nested = fun(Depth, Wrap) ->
        lists:foldl(fun(_, Inner) -> Wrap(Inner) end, [], lists:seq(2, Depth))
    end,
    Wraps = [
        fun(Inner) -> [Inner] end,
        fun(Inner) -> {Inner} end,
        fun(Inner) -> #{key => Inner} end
    ],
    lists:foreach(
        fun(Wrap) ->
            Fits = Nested(10_000, Wrap),
            ?assertEqual({ok, Fits}, python_values:echo(Fits)),
            too_deep("nested more than 10,000 deep", Nested(10_001, Wrap)),
            too_deep("nested more than 10,000 deep", Nested(1_000_000, Wrap))
        end,
        Wraps
    ),
    Key = fun(Depth) -> lists:foldl(fun(_, Inner) -> {Inner} end, 1, lists:seq(1, Depth)) end,
    ?assertEqual({ok, #{Key(100) => 1}}, python_values:echo(#{Key(100) => 1})),
    too_deep("nested more than 100 deep in a key", #{Key(101) => 1}),
    %% Each key is looked at for itself.
    Keys = #{{{Key(90)}} => [#{Key(90) => Nested(1000, hd(Wraps))}]},
    ?assertEqual({ok, Keys}, python_values:echo(Keys)).

too_deep(Text, Term) ->
    {error, #{message := Message}} = python_values:echo(Term),
    ?assertNotEqual(nomatch, string:find(Message, Text)),
    %% The path is as long as the value is deep, and is cut.
    ?assert(byte_size(Message) < 1000).

%% Memory

large_binaries_are_shared(_Config) ->
    there(fun() ->
        ok = python_values:exec([told_when_gone(), "big = Big(10_000_000)\n"]),
        Binaries = [element(2, python_values:eval("big")) || _ <- lists:seq(1, 100)],
        ?assertEqual([<<0:80_000_000>>], lists:usort(Binaries)),
        %% A billion bytes, were they copied.
        ?assert(leak_check:resident_bytes() < 500_000_000),
        ok = python_values:exec("del big"),
        ?assertEqual({ok, []}, python_values:eval("gone")),
        Part = binary:part(hd(Binaries), 100, 65),
        true = erlang:garbage_collect(),
        ?assertEqual({ok, []}, python_values:eval("gone")),
        ?assertEqual(<<0:520>>, Part)
    end),
    there(fun() ->
        ok = python_values:exec(told_when_gone()),
        Reader = spawn_link(fun() ->
            {ok, Big} = python_values:eval("Big(100_000)"),
            receive
                {size, From} -> From ! byte_size(Big)
            end
        end),
        Reader ! {size, self()},
        receive
            Size -> ?assertEqual(100_000, Size)
        end,
        %% Its last reference went with the process; no one asked Python anything meanwhile.
        eventually:is({ok, [1]}, fun() -> python_values:eval("gone") end)
    end).

told_when_gone() ->
    "gone = []\n"
    "class Big(bytes):\n"
    "    def __del__(self): gone.append(1)\n".

handles_keep_their_objects(_Config) ->
    there(fun() ->
        ok = python_values:exec(
            "import erlang, weakref\n"
            "class Thing: pass\n"
            "gone = []\n"
            "def make():\n"
            "    thing = Thing()\n"
            "    weakref.finalize(thing, gone.append, thing.__class__.__name__)\n"
            "    thing.me = id(thing)\n"
            "    return erlang.Handle(thing)\n"
        ),
        Holder = spawn_link(fun() ->
            {ok, Handle} = python_values:eval("make()"),
            ?assert(is_reference(Handle)),
            ?assertEqual({ok, true}, python_values:eval("h.me == id(h) and type(h) is Thing", #{h => Handle})),
            ?assertEqual({ok, true}, python_values:eval("a is b", #{a => Handle, b => Handle})),
            receive
                {stop, From} -> From ! stopped
            end
        end),
        ?assertEqual({ok, []}, python_values:eval("gone")),
        Holder ! {stop, self()},
        receive
            stopped -> ok
        end,
        eventually:is({ok, [<<"Thing">>]}, fun() -> python_values:eval("gone") end),
        %% The same handle is the same reference, each new one another.
        ok = python_values:exec("handle = erlang.Handle(print)"),
        ?assertEqual(python_values:eval("handle"), python_values:eval("handle")),
        ?assertNotEqual(python_values:eval("make()"), python_values:eval("make()"))
    end).

%% Atoms

atoms_are_one_object_each(_Config) ->
    there(fun() ->
        ok = python_values:exec("import erlang, copy, pickle\nfrom erlang import Atom"),
        True = [
            "a is b",
            "a is Atom('some_atom')",
            "a == 'some_atom' and {a: 1}['some_atom'] == 1 and str(a) == 'some_atom'",
            "type(str(a)) is str and repr(a) == \"Atom('some_atom')\"",
            "copy.copy(a) is a and copy.deepcopy(a) is a",
            "pickle.loads(pickle.dumps(a)) is a",
            "Atom.existing('some_atom') is a"
        ],
        [?assertEqual({T, {ok, true}}, {T, python_values:eval(T, #{a => some_atom, b => some_atom})}) || T <- True],
        ?assertMatch(
            {error, #{type := <<"builtins.ValueError">>}},
            python_values:eval("Atom.existing('there is no' + ' such atom')")
        ),
        ?assertMatch({error, #{type := <<"builtins.ValueError">>}}, python_values:eval("Atom('x' * 256)")),
        ?assertMatch({ok, _}, python_values:eval("Atom('ζ' * 255)")),
        %% Made past the constructor, it is no more than its name.
        ?assertEqual({ok, ok}, python_values:eval("str.__new__(Atom, 'ok')")),
        ?assertMatch({error, _}, python_values:eval("str.__new__(Atom, 'nobody made ' + 'this')"))
    end).

atoms_from_python_are_limited(_Config) ->
    there(fun() ->
        ok = python_values:exec("from erlang import Atom"),
        Before = erlang:system_info(atom_count),
        {error, #{type := <<"builtins.RuntimeError">>, message := Message}} =
            python_values:eval("[Atom(f'atom {i}') for i in range(1_200_000)] and None"),
        ?assertNotEqual(nomatch, string:find(Message, "100000 atoms")),
        ?assert(erlang:system_info(atom_count) - Before < 110_000),
        %% Those that exist are still there to be had.
        ?assertEqual({ok, ok}, python_values:eval("Atom('ok')")),
        %% Text never is one.
        After = erlang:system_info(atom_count),
        {ok, _} = python_values:eval("[f'text {i}' for i in range(10_000)]"),
        ?assertEqual(After, erlang:system_info(atom_count))
    end).

limits_are_settings(_Config) ->
    Limits = [{max_integer_bytes, 10}, {max_value_parts, 100}, {max_new_atoms, 1}],
    called:in_node(Limits, small_limits, ?MODULE).

small_limits() ->
    ?assertEqual({ok, 1 bsl 79}, py:eval("1 << 79")),
    ok = called:is_error("erlang.ConversionError", "at most 10 bytes", py:eval("1 << 80")),
    ok = called:is_error("erlang.ConversionError", "at most 10 bytes", py:eval("x", #{x => 1 bsl 80})),
    ?assertMatch({ok, [_ | _]}, py:eval("[0] * 100")),
    ok = called:is_error("erlang.ConversionError", "more than 100 values", py:eval("[0] * 101")),
    ?assertMatch({ok, _}, py:eval("__import__('erlang').Atom('a new ' + 'atom')")),
    called:is_error("RuntimeError", "has made 1 atoms", py:eval("__import__('erlang').Atom('one ' + 'more')")).

%% Errors

exceptions_are_data(_Config) ->
    there(fun() ->
        ok = python_values:exec(
            "class Outer:\n"
            "    class Mine(Exception): pass\n"
            "def inner():\n"
            "    raise KeyError('key')\n"
            "def caused():\n"
            "    try: inner()\n"
            "    except KeyError as error: raise Outer.Mine('it', 2) from error\n"
            "def context():\n"
            "    try: inner()\n"
            "    except KeyError: 1 / 0\n"
            "def hidden():\n"
            "    try: inner()\n"
            "    except KeyError: raise ValueError('\\ud800 lone') from None\n"
            "class Mute(Exception):\n"
            "    def __str__(self): raise TypeError\n"
            "def mute(): raise Mute\n"
            "def long(): raise ValueError('x' * 1_000_000)\n"
            "def leave(): raise SystemExit(3)\n"
        ),
        {error, Caused} = python_values:eval("caused()"),
        ?assertMatch(
            #{
                type := <<"__main__.Outer.Mine">>,
                message := <<"('it', 2)">>,
                cause := #{type := <<"builtins.KeyError">>, message := <<"'key'">>, cause := none},
                context := none,
                notes := [],
                exceptions := []
            },
            Caused
        ),
        ?assertEqual(7, map_size(Caused)),
        #{traceback := Frames, cause := #{traceback := CauseFrames}} = Caused,
        ?assertMatch(
            [
                #{function := <<"<module>">>, file := <<"<string>">>, line := 1},
                #{function := <<"caused">>, line := 7, source := <<>>}
            ],
            Frames
        ),
        ?assertMatch([#{function := <<"caused">>}, #{function := <<"inner">>, line := 4}], CauseFrames),
        ?assertMatch(
            {error, #{type := <<"builtins.ZeroDivisionError">>, context := #{type := <<"builtins.KeyError">>}}},
            python_values:eval("context()")
        ),
        ?assertMatch({error, #{cause := none, context := none}}, python_values:eval("hidden()")),
        ?assertMatch({error, #{message := <<"<its str() failed>">>}}, python_values:eval("mute()")),
        {error, #{message := Long}} = python_values:eval("long()"),
        ?assert(byte_size(Long) < 20_000),
        ?assertMatch({error, #{type := <<"builtins.SystemExit">>, message := <<"3">>}}, python_values:eval("leave()")),
        ?assertMatch({error, #{type := <<"builtins.SyntaxError">>}}, python_values:eval("1 +")),
        %% Lines of files are found.
        {error, #{traceback := InFile}} = python_values:eval("__import__('json').loads('{')"),
        ?assertMatch(#{source := <<"obj, end = self.scan_once(s, idx)">>}, lists:last(InFile))
    end).

endless_exceptions_are_cut(_Config) ->
    there(fun() ->
        ok = python_values:exec(
            "def recursion(n=0): return recursion(n + 1)\n"
            "def cycle():\n"
            "    one, other = ValueError('one'), ValueError('other')\n"
            "    one.__cause__, other.__cause__ = other, one\n"
            "    raise one\n"
            "def chain():\n"
            "    error = None\n"
            "    for index in range(100_000):\n"
            "        new = ValueError(str(index))\n"
            "        new.__cause__ = error\n"
            "        error = new\n"
            "    raise error\n"
            "def group(depth=12):\n"
            "    members = [ValueError(i) for i in range(3)]\n"
            "    for _ in range(depth): members = [ExceptionGroup('g', members), ExceptionGroup('g', members)]\n"
            "    raise ExceptionGroup('top', members)\n"
            "def noted():\n"
            "    error = ValueError()\n"
            "    for i in range(1000): error.add_note(f'note {i}')\n"
            "    raise error\n"
        ),
        {error, #{type := <<"builtins.RecursionError">>, traceback := Frames}} = python_values:eval("recursion()"),
        ?assertEqual(101, length(Frames)),
        ?assertMatch(#{function := <<"... ", _/binary>>}, lists:nth(51, Frames)),
        ?assertMatch(
            {error, #{message := <<"one">>, cause := #{message := <<"other">>, cause := none}}},
            python_values:eval("cycle()")
        ),
        {error, Chain} = python_values:eval("chain()"),
        ?assert(erts_debug:flat_size(Chain) < 10_000),
        case python_values:eval("hasattr(__builtins__, 'ExceptionGroup')") of
            {ok, true} ->
                {error, Group} = python_values:eval("group(0)"),
                ?assertMatch(
                    #{message := <<"top (3 sub-exceptions)">>, exceptions := [#{message := <<"0">>}, _, _]},
                    Group
                ),
                {error, Groups} = python_values:eval("group()"),
                ?assert(erts_debug:flat_size(Groups) < 100_000),
                {error, #{notes := Notes}} = python_values:eval("noted()"),
                ?assertEqual(20, length(Notes)),
                ?assertEqual(<<"note 0">>, hd(Notes));
            _ ->
                ok
        end
    end).

errors_of_erlang_are_exceptions(_Config) ->
    there(fun() ->
        ok = python_values:exec("import erlang"),
        Stack = [
            {lists, map, 2, [{file, "lists.erl"}, {line, 12}]},
            {m, f, [a, b, c], []},
            odd
        ],
        Eval = fun(Source, Class, Reason) ->
            {ok, Value} = python_values:eval_error(Source, Class, Reason, Stack),
            Value
        end,
        ?assertEqual(
            {true, <<"error">>, {badmatch, 1}, <<"error: {badmatch,1}">>},
            Eval("(type(error) is erlang.Error, error.kind, error.reason, str(error))", error, {badmatch, 1})
        ),
        ?assertEqual(<<"exit">>, Eval("error.kind", exit, normal)),
        ?assertEqual(
            [{<<"lists">>, <<"map">>, 2, <<"lists.erl">>, 12}, {<<"m">>, <<"f">>, 3, none, none}],
            Eval("error.stacktrace", throw, x)
        ),
        ?assertEqual(12, Eval("error.stacktrace[0].line", throw, x)),
        %% A reason that Python cannot have.
        ?assertEqual(<<"[a|b]">>, Eval("error.reason", error, [a | b])),
        ?assertEqual(true, Eval("isinstance(error, Exception)", error, #{[1] => 2}))
    end).

%% Leaks

memory_stays(_Config) ->
    there(fun() ->
        ok = python_values:exec(
            "import py_event_loop, erlang\n"
            "from erlang import Atom\n"
            "import datetime, decimal\n"
            "value = {'a': [1, 2.5, None, True], Atom('b'): ('text', b'bytes', 2**100),\n"
            "         'c': {1, 2}, 'd': decimal.Decimal('1.5'), 'e': erlang.BitString(b'a', 3),\n"
            "         'f': erlang.Handle(print), 'g': datetime.datetime.now(), 'h': ref}\n"
            "bad = [value, {'x': object()}]\n"
            "def convert(count):\n"
            "    for _ in range(count):\n"
            "        py_event_loop._echo(value)\n"
            "        try: py_event_loop._echo(bad)\n"
            "        except ValueError: pass\n",
            #{ref => make_ref()}
        ),
        {ok, none} = python_values:eval("convert(5_000)"),
        Before = leak_check:resident_bytes(),
        {ok, none} = python_values:eval("convert(50_000)"),
        Growth = leak_check:resident_bytes() - Before,
        io:format(user, "memory_stays: ~p bytes more~n", [Growth]),
        %% One object of each conversion left behind would be 10 MB or more.
        ?assert(Growth < 5_000_000)
    end).

%% The other node

there(Work) ->
    Env =
        case project:venv() of
            {ok, Venv} -> [{venv, Venv}];
            none -> []
        end,
    Node = other_node:start(Env),
    try
        ok = peer:call(Node, ?MODULE, run, [Work], 240_000)
    after
        other_node:stop(Node)
    end.

run(Work) ->
    ok = python_values:start(),
    [ok = python_values:exec(Block) || Block <- python_blocks()],
    _ = Work(),
    ok.

%% The page

%% The code that the tables build on; numpy's only where it is.
python_blocks() ->
    {ok, Page} = file:read_file(project:file("docs/values.md")),
    {match, Blocks} = re:run(Page, "```python\n(.*?)```", [global, dotall, {capture, all_but_first, binary}]),
    {ok, Numpy} = python_values:eval("__import__('importlib.util').util.find_spec('numpy') is not None"),
    [<<"import erlang">> | [B || [B] <- Blocks, Numpy orelse B =/= <<"import numpy\n">>]].

%% The rows of the table below a heading, without its head.
rows(Heading) ->
    Lines = string:split(project:section("docs/values.md", Heading), "\n", all),
    [_Head, _Rule | Rows] = [cells(Line) || "|" ++ Line <- Lines],
    Rows.

cells(Line) ->
    Marked = string:replace(Line, "\\|", [0], all),
    [
        string:trim(lists:flatten(string:replace(Cell, [0], "|", all)))
     || Cell <- lists:droplast(string:split(lists:flatten(Marked), "|", all))
    ].

code(Cell) ->
    [$` | Rest] = Cell,
    lists:droplast(Rest).

term(Cell) ->
    {ok, Tokens, _} = erl_scan:string(code(Cell) ++ "."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    {value, Value, _} = erl_eval:exprs(Exprs, #{}),
    Value.
