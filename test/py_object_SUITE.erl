%% @doc Can Erlang keep a Python object and work with it?
-module(py_object_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    an_object_keeps_its_state_between_calls/1,
    a_method_takes_keywords_and_options/1,
    a_method_of_an_attribute/1,
    a_coroutine_method_runs_on_the_loop/1,
    every_way_of_calling_takes_an_object/1,
    a_generator_method_is_a_stream/1,
    attributes_items_and_values/1,
    an_object_is_an_argument/1,
    an_object_comes_back_as_itself/1,
    a_handle_is_a_reference/1,
    what_is_missing_is_an_exception/1,
    a_result_without_a_value_mentions_references/1,
    a_reference_of_another_node/1,
    a_reference_of_before_a_restart/1,
    anything_else_is_badarg/1,
    a_reference_prints_as_its_type/1,
    an_object_outlives_the_process_that_got_it/1,
    an_object_ends_with_its_last_reference/1
]).
%% Called in another node.
-export([new_client/0, kept_client/0]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

new_client() ->
    {ok, Client} = py:call(referred, 'Client', [<<"one">>], #{}, #{return => ref}),
    Client.

%% A reference in another node does not keep it alive.
kept_client() ->
    Client = new_client(),
    ok = persistent_term:put({?MODULE, client}, Client),
    Client.

an_object_keeps_its_state_between_calls(_Config) ->
    Client = new_client(),
    ?assertEqual({ok, 1}, py:method(Client, send, [<<"a">>])),
    ?assertEqual({ok, 3}, py:method(Client, <<"send">>, [<<"b">>, <<"c">>])),
    ?assertEqual({ok, [<<"a">>, <<"b">>, <<"c">>]}, py:attr(Client, sent)).

a_method_takes_keywords_and_options(_Config) ->
    Client = new_client(),
    ?assertEqual({ok, 2}, py:method(Client, send, [1], #{times => 2})),
    ?assertEqual({ok, 3}, py:method(Client, "send", [1], #{}, 1000)),
    ?assertEqual({ok, 4}, py:method(Client, send, [1], #{}, #{timeout => 1000})),
    {ok, Four} = py:method(Client, send, [], #{}, #{return => ref}),
    ?assertEqual({ok, 4}, py:value(Four)),
    {ok, Event} = py:call(threading, 'Event', [], #{}, #{return => ref}),
    {ok, Waiting} = py:submit(Event, wait, [10]),
    ?assertEqual({error, timeout}, py:method(Event, wait, [10], #{}, 10)),
    {ok, none} = py:method(Event, set, []),
    ?assertEqual({ok, true}, py:await(Waiting)).

a_method_of_an_attribute(_Config) ->
    Client = new_client(),
    {ok, none} = py:method(Client, 'sent.append', [1]),
    {ok, none} = py:method(Client, "sent.append", [2]),
    ?assertEqual({ok, [1, 2]}, py:attr(Client, sent)),
    ?assertEqual({ok, 7}, py:attr(Client, 'number.number')),
    ?assertEqual({ok, 7}, py:attr(Client, "number.number")).

a_coroutine_method_runs_on_the_loop(_Config) ->
    Client = new_client(),
    {ok, Default} = py:call(called, loop_thread, []),
    ?assertEqual({ok, {Default, 1}}, py:method(Client, send_later, [1])),
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, There} = py_event_loop:run(Loop, called, loop_thread, []),
    ?assertNotEqual(Default, There),
    ?assertEqual({ok, {There, 2}}, py:method(Client, send_later, [1], #{}, #{loop => Loop})),
    ?assertEqual({ok, {There, 3}}, py_event_loop:run(Loop, Client, send_later, [1])),
    {ok, []} = py_event_loop:stop(Loop).

every_way_of_calling_takes_an_object(_Config) ->
    Client = new_client(),
    {ok, _} = py_event_loop_pool:start_link(#{name => object_pool, size => 1}),
    ?assertEqual({ok, 1}, py:call(Client, send, [1])),
    ?assertEqual({ok, 2}, py_event_loop_pool:run(object_pool, Client, send, [1])),
    {ok, Task} = py:submit(Client, send, [1]),
    ?assertEqual({ok, 3}, py:await(Task)),
    {ok, PoolTask} = py_event_loop_pool:submit(object_pool, Client, send, [1]),
    ?assertEqual({ok, 4}, py:await(PoolTask)),
    ok = py:cast(Client, send, [2]),
    eventually:is({ok, [1, 1, 1, 1, 2]}, fun() -> py:attr(Client, sent) end),
    ok = py_event_loop_pool:stop(object_pool).

a_generator_method_is_a_stream(_Config) ->
    Client = new_client(),
    {ok, 3} = py:method(Client, send, [1, 2, 3]),
    Sum = fun erlang:'+'/2,
    ?assertEqual({ok, 6}, py:fold(Sum, 0, Client, all_sent, [])),
    ?assertEqual({ok, 6}, py:fold(Sum, 0, Client, all_sent_later, [])).

attributes_items_and_values(_Config) ->
    Client = new_client(),
    ?assertEqual({ok, <<"one">>}, py:attr(Client, name)),
    ?assertEqual({ok, <<"one">>}, py:attr(Client, <<"name">>, 1000)),
    {ok, 2} = py:method(Client, send, [10, 20]),
    ?assertEqual({ok, 20}, py:item(Client, 1)),
    ?assertEqual({ok, 20}, py:item(Client, -1, #{timeout => 1000})),
    {ok, Sent} = py:attr(Client, sent, #{return => ref}),
    {ok, none} = py:method(Sent, append, [30]),
    ?assertEqual({ok, [10, 20, 30]}, py:value(Sent)),
    {ok, Dict} = py:eval("{'a': 1, (1, 2): 'pair', 'inner': {'b': 2}}", #{}, #{return => ref}),
    ?assertEqual({ok, 1}, py:item(Dict, <<"a">>)),
    ?assertEqual({ok, <<"pair">>}, py:item(Dict, {1, 2})),
    {ok, Inner} = py:item(Dict, <<"inner">>, #{return => ref}),
    ?assertEqual({ok, 2}, py:item(Inner, <<"b">>)),
    ?assertEqual({ok, <<"referred.Client">>}, py:type(Client)),
    ?assertEqual({ok, <<"builtins.dict">>}, py:type(Dict, 1000)),
    ?assertEqual({ok, <<"<client one>">>}, py:repr(Client)),
    ?assertEqual({ok, <<"[10, 20, 30]">>}, py:repr(Sent, 1000)),
    %% Results and objects differ in their shape.
    ?assertEqual(3, length(py:value(py:value(Sent)))).

an_object_is_an_argument(_Config) ->
    Client = new_client(),
    Number = py:value(py:attr(Client, number, #{return => ref})),
    {ok, _} = py:method(Client, send, [Client, [Number], #{<<"key">> => Number}, {Number, 1}]),
    ?assertEqual({ok, true}, py:eval("c.sent[0] is c", #{c => Client})),
    Same = "c.sent[1][0] is c.sent[2]['key'] is c.sent[3][0] is n",
    ?assertEqual({ok, true}, py:eval(Same, #{c => Client, n => Number})),
    ?assertEqual({ok, true}, py:call(referred, is_same, [], #{one => Number, other => Number})),
    %% It would keep itself.
    {ok, none} = py:method(Client, 'sent.clear', []).

%% On another loop, from another process.
an_object_comes_back_as_itself(_Config) ->
    Client = new_client(),
    Again = py:value(py:value(Client, #{return => ref})),
    ?assertEqual({ok, true}, py:call(referred, is_same, [Client, Again])),
    {ok, Loop} = py_event_loop:start_link(#{}),
    Self = self(),
    spawn_link(fun() ->
        {ok, There} = py_event_loop:run(Loop, erlang_asyncio, sleep, [0, Client], #{}, #{return => ref}),
        Self ! {there, There}
    end),
    receive
        {there, There} -> ?assertEqual({ok, true}, py:call(referred, is_same, [Client, There]))
    end,
    {ok, []} = py_event_loop:stop(Loop).

a_handle_is_a_reference(_Config) ->
    Client = new_client(),
    {ok, Handle} = py:call(referred, handle_of, [Client]),
    ?assertEqual({ok, 1}, py:method(Handle, send, [1])),
    ?assertEqual({ok, [1]}, py:attr(Client, sent)).

what_is_missing_is_an_exception(_Config) ->
    Client = new_client(),
    Missing = "'Client' object has no attribute 'sned'",
    called:is_error("AttributeError", Missing, py:method(Client, sned, [1])),
    called:is_error("AttributeError", Missing, py:attr(Client, sned)),
    {ok, Task} = py:submit(Client, sned, [1]),
    called:is_error("AttributeError", Missing, py:await(Task)),
    called:is_error("AttributeError", "no attribute 'x'", py:attr(Client, 'number.x')),
    called:is_error("IndexError", "list index out of range", py:item(Client, 5)),
    called:is_error("TypeError", "unexpected keyword", py:method(Client, send, [], #{x => 1})),
    {ok, Number} = py:attr(Client, number, #{return => ref}),
    called:is_error("TypeError", "not subscriptable", py:item(Number, 1)).

a_result_without_a_value_mentions_references(_Config) ->
    Client = new_client(),
    called:is_error("erlang.ConversionError", "return => ref", py:value(Client)),
    called:is_error("erlang.ConversionError", "return => ref", py:attr(Client, number)).

a_reference_of_another_node(_Config) ->
    Node = node_with_python(),
    Client = other_node:call(Node, ?MODULE, kept_client, []),
    ?assert(is_reference(Client)),
    raises_badarg(Client),
    %% Back in its node it is the object.
    ?assertEqual({ok, 1}, other_node:call(Node, py, method, [Client, send, [1]])),
    other_node:stop(Node).

a_reference_of_before_a_restart(_Config) ->
    Client = new_client(),
    Written = term_to_binary(Client),
    %% As long as it lives, what is written refers to it.
    ?assertEqual({ok, 1}, py:method(binary_to_term(Written), send, [1])),
    Node = node_with_python(),
    Gone = other_node:call(Node, ?MODULE, new_client, []),
    other_node:stop(Node),
    raises_badarg(Gone),
    raises_badarg(make_ref()).

node_with_python() ->
    Node = other_node:start([{python_path, [project:file("test/support/python")]}]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    Node.

raises_badarg(Ref) ->
    _ = [
        begin
            {badarg, [{py, F, _, _} | _] = Stack} = raised(F, Args),
            #{1 := Said} = py_misuse:format_error(badarg, Stack),
            ?assertMatch({match, _}, re:run(Said, "^not a reference to a Python object of this node"))
        end
     || {F, Args} <- [
            {call, [Ref, send, [1]]},
            {method, [Ref, send, [1]]},
            {submit, [Ref, send, [1]]},
            {cast, [Ref, send, [1]]},
            {stream, [Ref, send, [1]]},
            {attr, [Ref, name]},
            {item, [Ref, 0]},
            {value, [Ref]},
            {type, [Ref]},
            {repr, [Ref]}
        ]
    ],
    ok.

anything_else_is_badarg(_Config) ->
    Client = new_client(),
    _ = [
        begin
            {badarg, [{py, F, _, _} | _] = Stack} = raised(F, Args),
            #{Number := Said} = py_misuse:format_error(badarg, Stack),
            ?assertMatch({match, _}, re:run(Said, "^" ++ Text))
        end
     || {F, Args, Number, Text} <- [
            {method, [math, sqrt, [1]], 1, "not a reference to a Python object: the option return"},
            {method, [Client, 1, [1]], 2, "not a name"},
            {method, [Client, Client, [1]], 2, "not a name"},
            {method, [Client, send, 1], 3, "not a list"},
            {method, [Client, send, [1], []], 4, "not a map"},
            {method, [Client, send, [1], #{}, #{x => 1}], 5, "no such option: x"},
            {attr, [Client, 1], 2, "not a name"},
            {attr, [Client, name, #{x => 1}], 3, "no such option: x"},
            {item, [Client, 0, -1], 3, "not a timeout"},
            {value, [42], 1, "not a reference to a Python object: "},
            {type, [<<"list">>], 1, "not a reference to a Python object: "},
            {repr, [Client, soon], 2, "not a timeout"}
        ]
    ].

raised(Function, Args) ->
    try
        {returned, apply(py, Function, Args)}
    catch
        error:Reason:Stack -> {Reason, Stack}
    end.

a_reference_prints_as_its_type(_Config) ->
    Client = new_client(),
    Other = make_ref(),
    ?assertEqual("#py{referred.Client}", py:format(Client)),
    Term = #{client => Client, list => [1, {Client, <<"x">>} | Other]},
    Text = py:format(Term),
    ?assertEqual(nomatch, string:find(Text, ref_to_list(Client))),
    ?assertNotEqual(nomatch, string:find(Text, ref_to_list(Other))),
    ?assertNotEqual(nomatch, string:find(Text, "{#py{referred.Client},<<\"x\">>}")),
    ?assertEqual("[1,2]", py:format([1, 2])).

an_object_outlives_the_process_that_got_it(_Config) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> Self ! {client, new_client()} end),
    receive
        {'DOWN', Monitor, process, Pid, normal} -> ok
    end,
    receive
        {client, Client} -> ?assertEqual({ok, 1}, py:method(Client, send, [1]))
    end.

an_object_ends_with_its_last_reference(_Config) ->
    _ = [
        begin
            {Pid, Monitor} = spawn_monitor(fun() ->
                {ok, Ref} = py:call(referred, Function, [], #{}, #{return => ref}),
                {ok, 1} = py:call(referred, living, []),
                ?assertMatch({ok, <<"<referred.Counted object", _/binary>>}, py:repr(Ref))
            end),
            receive
                {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
            end,
            eventually:is({ok, 0}, fun() -> py:call(referred, living, []) end)
        end
     || Function <- [counted, counted_later]
    ].
