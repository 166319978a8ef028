%% @doc Is a value the same on the other side, or an error that says why not?
%%
%% docs/values.md is the specification: its tables are run here. Python starts once in a node, so
%% each case has a node of its own and runs there.
-module(py_values_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    values_as_documented/1,
    tagged_tuples_as_documented/1,
    structs_as_documented/1,
    encoders_as_documented/1,
    numpy_as_documented/1,
    arrays_that_nothing_writes_to_are_shared/1,
    refused_terms_as_documented/1,
    refused_values_as_documented/1,
    random_terms_come_back/1,
    wide_values_cross/1,
    deep_values_are_refused_or_cross/1,
    deep_values_on_a_small_stack/1,
    limits_are_settings/1,
    none_is_a_setting/1
]).
%% Called in the other node.
-export([small_limits/0, arrays/0, nil_for_none/0, null_for_none/0]).

suite() -> [{timetrap, {minutes, 5}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% The tables

values_as_documented(_Config) ->
    there(fun() -> documented("## Values", 60) end).

tagged_tuples_as_documented(_Config) ->
    there(fun() -> documented("### Tagged tuples", 9) end).

structs_as_documented(_Config) ->
    there(fun() -> documented("### Structs of Elixir", 10) end).

encoders_as_documented(_Config) ->
    there(fun() -> documented("## Encoders and decoders", 2) end).

numpy_as_documented(_Config) ->
    case project:venv() of
        none -> {skip, "there is no .venv with numpy"};
        {ok, _} -> there(fun() -> documented("### numpy", 11) end)
    end.

%% Is the memory of the binary that of the array? And if not, was it right to copy?
arrays_that_nothing_writes_to_are_shared(_Config) ->
    case project:venv() of
        none -> {skip, "there is no .venv with numpy"};
        {ok, Venv} -> called:in_node([{venv, Venv}], arrays, ?MODULE)
    end.

arrays() ->
    ok = py:exec([
        "import numpy, weakref\n",
        "def address(array): return array.__array_interface__['data'][0]\n",
        "def note(array):\n    global noted\n    noted = address(array)\n    return array\n",
        "def new(count=10_000): return note(numpy.arange(float(count)))\n",
        "def read_only(array):\n    array.flags.writeable = False\n    return array\n",
        "def cached(array):\n    cache['a'] = array\n    return array\n",
        "cache = weakref.WeakValueDictionary()\n",
        "kept, fixed = new(), read_only(new())\n",
        "lists = [new()]\n",
        "class Sub(numpy.ndarray): pass\n"
    ]),
    Shared = [
        "new()", "note(new().reshape(100, 100))", "new()[:9_000]", "note(fixed)", "note(fixed[10:])",
        "note(numpy.frombuffer(bytes(100_000), dtype='u1'))", "note(back)",
        "note(numpy.frombuffer(back_view, dtype='f8'))"
    ],
    Copied = [
        "note(kept)", "note(kept[:])", "note(read_only(kept[:]))", "note(lists[0])", "cached(new())",
        "new()[:1_000]", "new(30_000)[:10_000]", "new()[::-1]", "note(new().view(Sub))",
        "note(numpy.frombuffer(bytearray(100_000), dtype='u1'))"
    ],
    {ok, {ndarray, _, _, Own} = Back} = py:call(erlang_loop_shell, new, []),
    Variables = #{back => Back, back_view => {view, Own}},
    IsShared = fun(Code, Take) ->
        %% The function returns before the conversion begins.
        Function = ["def result(back, back_view): return ", Code, "\n"],
        ok = py:exec(Function),
        {ok, Result} = py:call(erlang_loop_shell, result, [], Variables),
        {ndarray, _, _, Binary} = Take(Result),
        py:eval("address(numpy.frombuffer(view, 'u1')) == noted", #{view => {view, Binary}})
    end,
    Itself = fun(Array) -> Array end,
    ?assertEqual([], [Code || Code <- Shared, IsShared(Code, Itself) =/= {ok, true}]),
    ?assertEqual([], [Code || Code <- Copied, IsShared(Code, Itself) =/= {ok, false}]),
    %% In containers that the function has built.
    ?assertEqual({ok, true}, IsShared("[1, new()]", fun([1, Array]) -> Array end)),
    ?assertEqual({ok, true}, IsShared("{'a': ({1: new()},)}", fun(#{<<"a">> := {#{1 := Array}}}) -> Array end)),
    ?assertEqual({ok, false}, IsShared("lists", fun([Array]) -> Array end)),
    ?assertEqual({ok, false}, IsShared("[lists[0]] * 2", fun([Array, Array]) -> Array end)),
    %% A copy does not change with the array.
    {ok, {ndarray, _, _, Before}} = py:eval("kept"),
    Kept = binary:copy(Before),
    ok = py:exec("kept += 1"),
    ?assertEqual(Kept, Before),
    %% A shared array lives as long as its binary.
    {ok, {ndarray, _, _, Last}} = py:call(erlang_loop_shell, new, []),
    Expected = << <<(float(N)):64/float-little>> || N <- lists:seq(0, 9_999) >>,
    ok = py:exec("import gc\ngc.collect()\n[new() for _ in range(100)]"),
    ?assertEqual(Expected, Last),
    Written = [written(Seed) || Seed <- lists:seq(1, 300)],
    ?assert(lists:sum(Written) > 100).

%% Of a result whose memory Python writes to afterwards, as far as it can: does it stay the same?
written(Seed) ->
    {ok, Result} = py:call(aliased, make, [Seed]),
    Before = binary_to_term(term_to_binary(Result)),
    {ok, Count} = py:call(aliased, change, []),
    ?assert(Before =:= Result, Seed),
    Count.

documented(Heading, AtLeast) ->
    Rows = rows(Heading),
    ?assert(length(Rows) >= AtLeast),
    lists:foreach(fun row/1, Rows).

row([Erlang, "↔", "an " ++ Class]) ->
    Term = term(Erlang),
    ?assertEqual({Erlang, {ok, true}}, {Erlang, python_values:eval(["type(term) is ", code(Class)], #{term => Term})}),
    ?assertEqual({Erlang, {ok, Term}}, {Erlang, python_values:echo(Term)});
row([Erlang, "↔", Python]) ->
    row([Erlang, "→", Python]),
    row([Erlang, "←", Python]),
    ?assertEqual({Erlang, {ok, term(Erlang)}}, {Erlang, python_values:echo(term(Erlang))});
row([Erlang, "→", Python]) ->
    Same = ["same(term, ", code(Python), ")"],
    ?assertEqual({Erlang, {ok, true}}, {Erlang, python_values:eval(Same, #{term => term(Erlang)})});
row([Erlang, "←", Python]) ->
    ?assertEqual({Python, {ok, term(Erlang)}}, {Python, python_values:eval(code(Python))}).

%% Tells 1 from True, 0.0 from -0.0, and memory that can be written to from memory that cannot.
same() ->
    "def same(a, b):\n"
    "    if type(a) is not type(b): return False\n"
    "    if type(a) is memoryview: return a == b and a.readonly == b.readonly\n"
    "    if hasattr(a, 'dtype'): return a.dtype == b.dtype and a.tolist() == b.tolist() and not a.flags.writeable\n"
    "    return a == b and repr(a) == repr(b)\n".

refused_terms_as_documented(_Config) ->
    there(fun() ->
        Numpy = numpy(),
        lists:foreach(
            fun([Erlang, Why]) ->
                try term(Erlang) of
                    Array when element(1, Array) =:= ndarray, not Numpy -> ok;
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
        ?assertEqual({ok, {set, Numbers}}, python_values:eval("set(range(1, 1_000_001))")),
        ?assertEqual({ok, {frozenset, Numbers}}, python_values:echo({frozenset, Numbers}))
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
    %% Python hashes the members of sets, too.
    ?assertEqual({ok, {set, [Key(100)]}}, python_values:echo({set, [Key(100)]})),
    too_deep("nested more than 100 deep in a key", {set, [Key(101)]}),
    Frozen = fun(Depth) -> Nested(Depth, fun(Inner) -> {frozenset, [Inner]} end) end,
    too_deep("nested more than 100 deep in a key", Frozen(1_000_000)),
    %% Each key is looked at for itself.
    Keys = #{{{Key(90)}} => [#{Key(90) => Nested(1000, hd(Wraps))}]},
    ?assertEqual({ok, Keys}, python_values:echo(Keys)).

too_deep(Text, Term) ->
    {error, #{message := Message}} = python_values:echo(Term),
    ?assertNotEqual(nomatch, string:find(Message, Text)),
    %% The path is as long as the value is deep, and is cut.
    ?assert(byte_size(Message) < 1000).

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

none_is_a_setting(_Config) ->
    called:in_node([{none, nil}], nil_for_none, ?MODULE),
    called:in_node([{none, null}], null_for_none, ?MODULE).

nil_for_none() ->
    ?assertEqual({ok, [nil, #{nil => 1}]}, py:eval("[None, {None: 1}]")),
    %% A call chooses another one, or only another form.
    ?assertEqual({ok, none}, py:eval("None", #{}, #{values => #{none => none}})),
    ?assertEqual({ok, [nil, inf]}, py:eval("[None, float('inf')]", #{}, #{values => #{non_finite => atoms}})),
    ?assertEqual({ok, [nil]}, py:fold(fun(Item, All) -> [Item | All] end, [], builtins, list, [[none]])),
    %% What Python code sends.
    ok = py:exec("import erlang\ndef tell(pid): erlang.send(pid, [None])\n"),
    {ok, nil} = py:call(erlang_loop_shell, tell, [self()]),
    receive
        Sent -> ?assertEqual([nil], Sent)
    end,
    ?assertEqual({ok, <<"nil">>}, py:eval("erlang.call('erlang', 'atom_to_binary', [None])")),
    %% Exceptions and tagged tuples have `none'.
    ?assertMatch({error, #{cause := none, context := none}}, py:eval("1 / 0")),
    ?assertMatch(
        {ok, {datetime, _, 0, none}}, py:eval("__import__('datetime').datetime(2024, 1, 1)")
    ),
    %% So do erlang_loop's own functions: they return what they do in other nodes.
    {ok, Sleeping} = py:submit(asyncio, sleep, [3600]),
    Callers = fun() -> [Caller || #{caller := Caller} <- element(2, py_event_loop:tasks(py_default_loop))] end,
    eventually:is([self()], Callers),
    ok = py:exec("import asyncio\nasync def start():\n    global task\n    task = asyncio.create_task(asyncio.sleep(3600))\n"),
    {ok, nil} = py:call(erlang_loop_shell, start, []),
    {ok, Tasks} = py_event_loop:tasks(py_default_loop),
    ?assertEqual([], [Task || #{age_ms := nil} = Task <- Tasks]),
    ok = py:cancel(Sleeping).

null_for_none() ->
    ?assertEqual({ok, <<"[1, null]">>}, py:call(json, dumps, [[1, null]])),
    ?assertEqual({ok, [1, null]}, py:call(json, loads, [<<"[1, null]">>])),
    ?assertEqual({ok, true}, py:eval("x is None", #{x => null})),
    {ok, Channel} = py:channel(),
    ok = py_channel:send(Channel, null),
    ok = py_channel:close(Channel),
    ?assertEqual({ok, [null]}, py:call(builtins, list, [Channel])),
    ?assertEqual({ok, [1, nil]}, py:call(json, loads, [<<"[1, null]">>], #{}, #{values => #{none => nil}})),
    ok.

%% The page

%% In another node, where the names are known that the tables use.
there(Work) ->
    python_values:in_node(fun() ->
        [ok = python_values:exec(Block) || Block <- python_blocks()],
        Work()
    end).

%% The code that the tables build on; numpy's only where it is.
python_blocks() ->
    {ok, Page} = file:read_file(project:file("docs/values.md")),
    {match, Blocks} = re:run(Page, "```python\n(.*?)```", [global, dotall, {capture, all_but_first, binary}]),
    Numpy = numpy(),
    ["import erlang", same() | [B || [B] <- Blocks, Numpy orelse B =/= <<"import numpy\n">>]].

numpy() ->
    {ok, Found} = python_values:eval("__import__('importlib.util').util.find_spec('numpy') is not None"),
    Found.

%% The rows of the table below a heading, without its head.
rows(Heading) ->
    %% Up to the next heading of any level.
    [Section | _] = string:split(project:section("docs/values.md", Heading), "\n###"),
    [_Head, _Rule | Rows] = [cells(Line) || "|" ++ Line <- string:split(Section, "\n", all)],
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
