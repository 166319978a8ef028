%% @doc Do objects, atoms and exceptions arrive as what they are, and release what they held?
%%
%% Python starts once in a node, so each case has a node of its own and runs there.
-module(py_value_objects_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    large_binaries_are_shared/1,
    views_share_their_binary/1,
    handles_keep_their_objects/1,
    atoms_are_one_object_each/1,
    atoms_from_python_are_limited/1,
    exceptions_are_data/1,
    endless_exceptions_are_cut/1,
    errors_of_erlang_are_exceptions/1,
    memory_stays/1
]).

suite() -> [{timetrap, {minutes, 5}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% Binaries and handles

large_binaries_are_shared(_Config) ->
    python_values:in_node(fun() ->
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
    python_values:in_node(fun() ->
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

views_share_their_binary(_Config) ->
    python_values:in_node(fun() ->
        ok = python_values:exec("kept = []\n"),
        Reader = spawn_link(fun() ->
            Big = binary:copy(<<7>>, 20_000_000),
            Views = [{view, Big} || _ <- lists:seq(1, 100)],
            {ok, none} = python_values:eval("kept.extend(views)", #{views => Views}),
            receive
                {stop, From} -> From ! stopped
            end
        end),
        eventually:is({ok, 100}, fun() -> python_values:eval("len(kept)") end),
        ?assert(erlang:memory(binary) < 100_000_000),
        ?assert(leak_check:resident_bytes() < 500_000_000),
        Reader ! {stop, self()},
        receive
            stopped -> ok
        end,
        %% The binary lives on in Python alone.
        ok = python_values:exec("part = kept[-1][-3:]\nkept.clear()\n"),
        ?assertEqual({ok, <<7, 7, 7>>}, python_values:eval("part")),
        ?assert(erlang:memory(binary) > 20_000_000),
        ok = python_values:exec("del part\n"),
        eventually:is(true, fun() -> erlang:memory(binary) < 20_000_000 end)
    end).

handles_keep_their_objects(_Config) ->
    python_values:in_node(fun() ->
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
    python_values:in_node(fun() ->
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
        ?assertMatch({error, _}, python_values:eval("str.__new__(Atom, 'no such ' + 'atom')"))
    end).

atoms_from_python_are_limited(_Config) ->
    python_values:in_node(fun() ->
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

%% Errors

exceptions_are_data(_Config) ->
    python_values:in_node(fun() ->
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
    python_values:in_node(fun() ->
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
    python_values:in_node(fun() ->
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
    python_values:in_node(fun() ->
        ok = python_values:exec(
            "import py_event_loop, erlang\n"
            "from erlang import Atom\n"
            "import datetime, decimal\n"
            "value = {'a': [1, 2.5, None, True], Atom('b'): ('text', b'bytes', 2**100),\n"
            "         'c': {1, 2}, 'd': decimal.Decimal('1.5'), 'e': erlang.BitString(b'a', 3),\n"
            "         'f': erlang.Handle(print), 'g': datetime.datetime.now(), 'h': ref,\n"
            "         'i': {frozenset({(1,)}): {decimal.Decimal(2)}}, 'j': (Atom('view'), b'\\xff'),\n"
            "         'k': [(Atom('date'), (2024, 2, 29)), range(3), {1: 2}.keys()]}\n"
            "wrong = [value, (Atom('set'), [1, [2]])]\n"
            "bad = [value, {'x': object()}]\n"
            "def convert(count):\n"
            "    for _ in range(count):\n"
            "        py_event_loop._echo(value)\n"
            "        for each in bad, wrong:\n"
            "            try: py_event_loop._echo(each)\n"
            "            except ValueError: pass\n",
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
