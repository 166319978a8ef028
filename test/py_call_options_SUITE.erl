%% @doc Does an option do what it says, wherever it is accepted, and is a wrong one refused?
-module(py_call_options_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_map_has_the_timeout/1,
    the_loop_is_an_option/1,
    a_result_by_reference/1,
    items_by_reference/1,
    forms_of_values/1,
    wrong_options_raise/1,
    rust_refuses_what_it_does_not_know/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) ->
    Begun = called:begin_case(Config),
    {ok, _} = py_event_loop:start_link(#{name => options_loop}),
    {ok, _} = py_event_loop_pool:start_link(#{name => options_pool, size => 1}),
    Begun.

end_per_testcase(_Case, Config) ->
    {ok, []} = py_event_loop:stop(options_loop),
    ok = py_event_loop_pool:stop(options_pool),
    called:end_case(Config).

a_map_has_the_timeout(_Config) ->
    ?assertEqual({ok, 4.0}, py:call(math, sqrt, [16], #{}, #{})),
    ?assertEqual({ok, 4.0}, py:call(math, sqrt, [16], #{}, #{timeout => infinity})),
    Short = #{timeout => 10},
    Timeout = {error, timeout},
    ?assertEqual(Timeout, py:call(asyncio, sleep, [3600], #{}, Short)),
    ?assertEqual(Timeout, py_event_loop:run(options_loop, asyncio, sleep, [3600], #{}, Short)),
    ?assertEqual(Timeout, py_event_loop_pool:run(options_pool, asyncio, sleep, [3600], #{}, Short)),
    Sleep = "__import__('asyncio').sleep(3600)",
    ?assertEqual(Timeout, py:eval(Sleep, #{}, Short)),
    ?assertEqual(ok, py:exec("x = 1", #{timeout => 1000})).

the_loop_is_an_option(_Config) ->
    There = #{loop => options_loop},
    Own = thread(py_event_loop:run(options_loop, called, loop_thread, [])),
    ?assertNotEqual(Own, thread(py:call(called, loop_thread, []))),
    ?assertEqual(Own, thread(py:call(called, loop_thread, [], #{}, There))),
    ?assertEqual(Own, thread(py:eval("__import__('called').loop_thread()", #{}, There))),
    {ok, Task} = py:submit(called, loop_thread, [], #{}, There),
    ?assertEqual(Own, thread(py:await(Task))),
    ok = py:cast(referred, note_thread, [], #{}, There),
    eventually:is({ok, [Own]}, fun() -> py:call(referred, noted_threads, []) end),
    Missing = #{loop => no_such_loop},
    _ = [
        ?assertEqual({error, {no_loop, no_such_loop}}, Result)
     || Result <- [
            py:call(math, sqrt, [16], #{}, Missing),
            py:eval("1", #{}, Missing),
            py:exec("1", Missing),
            py:submit(math, sqrt, [16], #{}, Missing),
            py:cast(math, sqrt, [16], #{}, Missing)
        ]
    ].

thread({ok, Ident}) when is_integer(Ident) -> Ident.

%% A dict has no equal: it is the same one that comes back.
a_result_by_reference(_Config) ->
    By = #{return => ref},
    Plain = py:call(referred, shared_dict, [], #{}, By),
    Later = py:call(referred, shared_dict_later, [], #{}, By),
    {ok, Task} = py:submit(referred, shared_dict, [], #{}, By),
    Others = [
        py:eval("__import__('referred').shared_dict()", #{}, By),
        py_event_loop:run(options_loop, referred, shared_dict_later, [], #{}, By),
        py_event_loop_pool:run(options_pool, referred, shared_dict, [], #{}, By),
        py:await(Task)
    ],
    _ = [
        begin
            ?assertMatch({ok, _}, Result),
            {ok, Ref} = Result,
            ?assert(is_reference(Ref)),
            ?assertEqual({ok, true}, py:call(referred, is_shared_dict, [Ref]))
        end
     || Result <- [Plain, Later | Others]
    ],
    ?assertEqual({ok, #{<<"shared">> => true}}, py:call(referred, shared_dict, [], #{}, #{return => value})),
    %% What has no value in Erlang has a reference; an error stays one.
    ?assertMatch({ok, _}, py:call(threading, 'Lock', [], #{}, By)),
    called:is_error("ValueError", "", py:call(math, sqrt, [-1], #{}, By)).

items_by_reference(_Config) ->
    Collect = fun(Item, Items) -> [Item | Items] end,
    _ = [
        begin
            {ok, Items} = py:fold(Collect, [], referred, Function, [], #{}, #{return => ref}),
            ?assertEqual([true, true], [is_reference(Item) || Item <- Items]),
            ?assertEqual({ok, [0, 1]}, py:call(referred, numbers_of, [lists:reverse(Items)]))
        end
     || Function <- [two_objects, two_objects_later]
    ],
    {ok, Stream} = py_event_loop_pool:stream(
        options_pool, referred, two_objects_later, [], #{}, #{demand => 3, return => ref}
    ),
    Ref =
        receive
            {py_stream, Stream, {data, Item}} -> Item
        after 5000 -> error(no_item)
        end,
    ?assertEqual({ok, [0]}, py:call(referred, numbers_of, [[Ref]])),
    ok = py:cancel(Stream).

forms_of_values(_Config) ->
    Values = fun(Options) -> #{values => Options} end,
    Nothing = "[None, (None, {'a': None, None: {1: [None]}}), 'None', 5]",
    _ = [
        begin
            Sent = [None, {None, #{<<"a">> => None, None => #{1 => [None]}}}, <<"None">>, 5],
            ?assertEqual({ok, Sent}, py:eval(Nothing, #{}, Values(#{none => None}))),
            %% It returns unchanged.
            ?assertEqual({ok, Sent}, py:call(copy, copy, [Sent], #{}, Values(#{none => None}))),
            ?assertEqual({ok, true}, py:eval("x is None", #{x => None}, Values(#{none => None}))),
            IsNone = py:call(builtins, dict, [], #{x => [None]}, Values(#{none => None})),
            ?assertEqual({ok, #{<<"x">> => [None]}}, IsNone)
         end
     || None <- [none, nil, undefined, null]
    ],
    %% Otherwise null is an atom.
    ?assertEqual({ok, false}, py:eval("x is None", #{x => null}, Values(#{none => nil}))),
    ?assertEqual({ok, [nil]}, py:eval("[x]", #{x => undefined}, Values(#{none => nil}))),

    Floats = "[float('inf'), -float('inf'), float('nan'), 1.5, {'a': float('inf')}]",
    Atoms = Values(#{non_finite => atoms}),
    {ok, [inf, '-inf', nan, 1.5, #{<<"a">> := inf}] = Back} = py:eval(Floats, #{}, Atoms),
    ?assertEqual({ok, <<"[inf, -inf, nan]">>}, py:eval("str([float(x) for x in y[:3]])", #{y => Back})),
    called:is_error("erlang.ConversionError", "no float for inf", py:eval(Floats, #{}, Values(#{}))),
    called:is_error("erlang.ConversionError", "no float for inf", py:eval("complex('inf')", #{}, Atoms)),

    Point = "from collections import namedtuple\n"
        "Point = namedtuple('Point', 'x y')\n"
        "[Point(1, Point(None, ())), (1, 2), __import__('time').gmtime(0)[:2]]",
    Maps = Values(#{namedtuples => maps, none => nil}),
    Inner = #{<<"x">> => nil, <<"y">> => {}},
    ?assertEqual({ok, [#{<<"x">> => 1, <<"y">> => Inner}, {1, 2}, {1970, 1}]}, py:eval(Point, #{}, Maps)),
    ?assertEqual({ok, [{1, {none, {}}}, {1, 2}, {1970, 1}]}, py:eval(Point)),
    %% The class lies about its fields.
    Liar = "class Liar(tuple): _fields = ('a', 'b')\nLiar((1,))",
    ?assertEqual({ok, {1}}, py:eval(Liar, #{}, Maps)),

    Nil = Values(#{none => nil}),
    Sleep = [0, none],
    {ok, Task} = py:submit(asyncio, sleep, Sleep, #{}, Nil),
    ?assertEqual({ok, nil}, py:await(Task)),
    ?assertEqual({ok, nil}, py_event_loop:run(options_loop, asyncio, sleep, Sleep, #{}, Nil)),
    ?assertEqual({ok, nil}, py_event_loop_pool:run(options_pool, asyncio, sleep, Sleep, #{}, Nil)),
    Collect = fun(Item, Items) -> [Item | Items] end,
    ?assertEqual({ok, [[nil], nil]}, py:fold(Collect, [], builtins, iter, [[none, [none]]], #{}, Nil)),
    ?assertEqual({ok, [{ok, nil}, {ok, 1}]}, py:eval("[None, 1]", #{}, Nil#{return => each})).

wrong_options_raise(_Config) ->
    Calls = [
        {py, call, [math, sqrt, [16], #{}, #{return => list}], 5, "option return: none of value, ref, each"},
        {py, call, [math, sqrt, [16], #{}, #{timeout => -1}], 5, "option timeout: not a timeout"},
        {py, call, [math, sqrt, [16], #{}, #{timeout => #{}}], 5, "option timeout: not a timeout"},
        {py, call, [math, sqrt, [16], #{}, #{loop => 1}], 5, "option loop: not a loop"},
        {py, call, [math, sqrt, [16], #{}, #{tiemout => 1}], 5, "no such option: tiemout; the options are loop, return, timeout, values"},
        {py, call, [math, sqrt, [16], #{}, [{timeout, 1}]], 5, "not a timeout"},
        {py, call, [math, sqrt, [16], #{}, #{values => nil}], 5, "option values: not a map"},
        {py, call, [math, sqrt, [16], #{}, #{values => #{none => ok}}], 5, "option values: option none: none of none, nil, null, undefined"},
        {py, submit, [math, sqrt, [16], #{}, #{values => #{non_finite => 1}}], 5, "option values: option non_finite: none of error, atoms"},
        {py, stream, [builtins, range, [3], #{}, #{values => #{namedtuples => 1}}], 5, "option values: option namedtuples: none of tuples, maps"},
        {py, eval, ["1", #{}, #{values => #{null => none}}], 3, "option values: no such option: null"},
        {py, exec, ["1", #{values => #{}}], 2, "no such option: values"},
        {py, cast, [math, sqrt, [16], #{}, #{values => #{}}], 5, "no such option: values"},
        {py, eval, ["1", #{}, #{demand => 1}], 3, "no such option: demand"},
        {py, exec, ["1", #{return => ref}], 2, "no such option: return"},
        {py, submit, [math, sqrt, [16], #{}, #{timeout => 1}], 5, "no such option: timeout"},
        {py, submit, [math, sqrt, [16], #{}, 5000], 5, "not a map"},
        {py, cast, [math, sqrt, [16], #{}, #{return => ref}], 5, "no such option: return"},
        {py, stream, [builtins, range, [3], #{}, #{return => 1}], 5, "option return: none of"},
        {py, stream, [builtins, range, [3], #{}, #{return => each}], 5, "option return: a stream"},
        {py, fold, [fun(_, A) -> A end, 0, builtins, range, [3], #{}, #{to => self()}], 7, "no such option: to"},
        {py_event_loop, run, [options_loop, math, sqrt, [1], #{}, #{loop => options_loop}], 6, "no such option: loop"},
        {py_event_loop, submit, [options_loop, math, sqrt, [1], #{}, #{loop => options_loop}], 6, "no such option: loop"},
        {py_event_loop, stream, [options_loop, math, sqrt, [1], #{}, #{loop => options_loop}], 6, "no such option: loop"},
        {py_event_loop_pool, run, [options_pool, math, sqrt, [1], #{}, #{x => 1}], 6, "no such option: x"},
        {py_event_loop_pool, submit, [options_pool, math, sqrt, [1], #{}, #{x => 1}], 6, "no such option: x"}
    ],
    _ = [
        begin
            {badarg, [{M, F, Args, _} | _] = Stack} = raised(M, F, Args),
            #{Number := Said} = py_misuse:format_error(badarg, Stack),
            ?assertMatch({match, _}, re:run(Said, "^" ++ Text), {M, F, Args, Said})
        end
     || {M, F, Args, Number, Text} <- Calls
    ].

raised(Module, Function, Args) ->
    try
        {returned, apply(Module, Function, Args)}
    catch
        error:Reason:Stack -> {Reason, Stack}
    end.

%% The options arrive with the call.
rust_refuses_what_it_does_not_know(_Config) ->
    Call = {call, math, sqrt, [16], #{}},
    Submit = fun(Wrapped) -> py_nif:request_submit(make_ref(), default, Wrapped) end,
    _ = [
        ?assertError(badarg, Submit(Bad))
     || Bad <- [
            {with, #{x => 1}, Call},
            {with, #{return => 1}, Call},
            {with, [], Call},
            {with, #{}, {with, #{}, Call}},
            {with, #{}},
            {with, #{}, Call, Call}
        ]
    ].
