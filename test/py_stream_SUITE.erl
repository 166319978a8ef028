%% @doc Does a generator reach Erlang item by item: as demanded, to its end, and no further?
-module(py_stream_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    everything_that_can_be_iterated/1,
    what_cannot_be_iterated/1,
    names_and_arguments_that_are_wrong/1,
    no_more_than_demanded/1,
    demand_before_and_after/1,
    bad_demand_raises/1,
    bad_options_raise/1,
    demand_after_the_end/1,
    values_cross_as_in_calls/1,
    an_exception_is_the_end/1,
    an_item_that_cannot_cross/1,
    system_exit_is_an_error/1,
    another_process_may_be_the_consumer/1,
    a_dead_consumer_is_noproc/1,
    async_generators_run_on_their_loop/1,
    plain_generators_run_on_call_threads/1,
    a_busy_stream_leaves_time_for_others/1,
    a_full_loop_is_overload/1,
    ten_thousand_at_once/1,
    ten_thousand_plain_ones_at_once/1,
    fold_takes_all/1,
    fold_while_stops_early/1,
    a_fold_that_raises_cleans_up/1,
    fold_errors/1,
    fold_with_other_messages_in_the_mailbox/1
]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> streams:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> streams:end_case(Config).

%% What can be streamed

everything_that_can_be_iterated(_Config) ->
    Expected = {lists:seq(0, 9), done},
    _ = [
        ?assertEqual({Function, Expected}, {Function, streams:all_of(streamed, Function, [10])})
     || Function <- [count, count_slowly, plain_count, opens, opens_plain, makes, iterates],
        %% The second time its kind is known.
        _ <- [1, 2]
    ],
    ?assertEqual({lists:seq(9, 0, -1), done}, streams:all_of(streamed, "Countdown", [10])),
    ?assertEqual(Expected, streams:all_of(builtins, range, [10])),
    ?assertEqual({[1, <<"x">>], done}, streams:all_of(builtins, list, [[1, <<"x">>]])),
    ?assertEqual({[], done}, streams:all_of(streamed, count, [0])),
    ?assertEqual({[], done}, streams:all_of(streamed, plain_count, [0])),
    {ok, Stream} = py:stream(<<"streamed">>, "count", [2], #{start => 5}, #{demand => 10}),
    ?assertEqual({[5, 6], done}, streams:rest_of(Stream)).

what_cannot_be_iterated(_Config) ->
    called:is_error("TypeError", "not iterable", end_of(called, add, [1, 2])),
    called:is_error("TypeError", "not iterable", end_of(called, add_later, [1, 2])),
    called:is_error("ValueError", "x", end_of(called, fail, [<<"x">>])),
    called:is_error("ValueError", "x", end_of(called, fail_later, [<<"x">>])).

names_and_arguments_that_are_wrong(_Config) ->
    called:is_error("ModuleNotFoundError", "no_such", end_of(no_such, count, [])),
    called:is_error("AttributeError", "no_such", end_of(streamed, no_such, [])),
    called:is_error("TypeError", "argument", end_of(streamed, count, [])),
    called:is_error("TypeError", "argument", end_of(streamed, count, [])),
    called:is_error("ConversionError", "args[0]", end_of(streamed, count, [[1 | 2]])),
    ?assertError(badarg, py:stream(1, count, [])),
    ?assertError(badarg, py:stream(streamed, count, 1)),
    ?assertError(badarg, py:stream(streamed, count, [], [])).

end_of(Module, Function, Args) ->
    {_Items, End} = streams:all_of(Module, Function, Args),
    End.

%% Demand

no_more_than_demanded(_Config) ->
    _ = [
        begin
            {ok, Stream} = py:stream(streamed, Function, [<<"x">>]),
            streams:settle(),
            ?assertEqual([], streams:items(Stream)),
            ok = py:demand(Stream, 3),
            ?assertEqual([0, 1, 2], streams:await_items(Stream, 3)),
            streams:settle(),
            ?assertEqual([], streams:items(Stream)),
            ok = py:demand(Stream, 1),
            ok = py:demand(Stream, 1),
            ?assertEqual([3, 4], streams:await_items(Stream, 2)),
            streams:settle(),
            ?assertEqual([], streams:items(Stream)),
            ok = py:cancel(Stream)
        end
     || Function <- [tracked, plain_tracked]
    ].

demand_before_and_after(_Config) ->
    _ = [
        begin
            {ok, Stream} = py:stream(streamed, Function, [1000], #{}, #{demand => 1}),
            _ = [ok = py:demand(Stream, 1) || _ <- lists:seq(1, 1000)],
            ?assertEqual({lists:seq(0, 999), done}, streams:rest_of(Stream))
        end
     || Function <- [count, count_slowly, plain_count], _ <- lists:seq(1, 20)
    ].

bad_demand_raises(_Config) ->
    {ok, Stream} = py:stream(streamed, count, [3]),
    _ = [?assertError(badarg, py:demand(Stream, Bad)) || Bad <- [0, -1, many, 1.0, 1 bsl 64]],
    ?assertError(badarg, py:demand(make_ref(), 1)),
    ?assertError(badarg, py:cancel(make_ref())),
    ok = py:demand(Stream, (1 bsl 64) - 1),
    ok = py:demand(Stream, (1 bsl 64) - 1),
    ?assertEqual({[0, 1, 2], done}, streams:rest_of(Stream)).

bad_options_raise(_Config) ->
    Start = fun(Options) -> py:stream(streamed, count, [3], #{}, Options) end,
    _ = [
        ?assertError(badarg, Start(Options))
     || Options <- [
            #{demand => -1}, #{demand => many}, #{to => me}, #{to => make_ref()}, #{no_such => 1}
        ]
    ],
    Fold = fun(Options) -> py:fold(fun(_, A) -> A end, 0, streamed, count, [3], #{}, Options) end,
    _ = [
        ?assertError(badarg, Fold(Options))
     || Options <- [#{demand => 0}, #{demand => many}, #{timeout => -1}, #{to => self()}]
    ],
    ?assertEqual({error, {no_loop, no_such_loop}}, Start(#{loop => no_such_loop})),
    ?assertEqual({error, {no_loop, no_such_loop}}, Fold(#{loop => no_such_loop})).

demand_after_the_end(_Config) ->
    {ok, Stream} = py:stream(streamed, count, [1], #{}, #{demand => 2}),
    ?assertEqual({[0], done}, streams:rest_of(Stream)),
    ?assertEqual(ok, py:demand(Stream, 1)),
    ?assertEqual([], streams:items(Stream)).

values_cross_as_in_calls(_Config) ->
    Values = [1 bsl 100, <<"ü"/utf8>>, #{<<"a">> => [1.5, {x, none}]}, [], self()],
    _ = [
        ?assertEqual({[V], done}, streams:all_of(builtins, list, [[V]]))
     || V <- Values
    ].

%% Errors

an_exception_is_the_end(_Config) ->
    _ = [
        begin
            {Items, Error} = streams:all_of(streamed, Function, [3]),
            ?assertEqual([0, 1, 2], Items),
            called:is_error("ValueError", "on purpose", Error),
            {error, #{traceback := [_ | _]}} = Error
        end
     || Function <- [fails, plain_fails]
    ].

an_item_that_cannot_cross(_Config) ->
    _ = [
        begin
            {Items, Error} = streams:all_of(streamed, Function, [<<"x">>]),
            ?assertEqual([1], Items),
            called:is_error("", "item[\"x\"][2]", Error),
            called:has_noted(<<"x finalized">>)
        end
     || Function <- [unconvertible, plain_unconvertible]
    ].

system_exit_is_an_error(_Config) ->
    {[0], Error} = streams:all_of(streamed, leaves, [3]),
    called:is_error("SystemExit", "3", Error).

%% Consumers

another_process_may_be_the_consumer(_Config) ->
    Self = self(),
    Consumer = spawn_link(fun() ->
        receive
            {go, Stream} -> Self ! {got, streams:rest_of(Stream)}
        end
    end),
    {ok, Stream} = py:stream(streamed, count, [3], #{}, #{to => Consumer, demand => 5}),
    Consumer ! {go, Stream},
    receive
        {got, Got} -> ?assertEqual({[0, 1, 2], done}, Got)
    end.

a_dead_consumer_is_noproc(_Config) ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Monitor, _, _, _} -> ok
    end,
    ?assertEqual({error, noproc}, py:stream(streamed, count, [3], #{}, #{to => Pid})).

%% Where they run

async_generators_run_on_their_loop(_Config) ->
    {ok, Default} = py:call(called, loop_thread, []),
    ?assertEqual({[Default, Default], done}, streams:all_of(streamed, threads_of_items, [2])),
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Thread} = py_event_loop:run(Loop, called, loop_thread, []),
    ?assertNotEqual(Default, Thread),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, threads_of_items, [2], #{}, #{demand => 3}),
    ?assertEqual({[Thread, Thread], done}, streams:rest_of(Stream)),
    {ok, {items, 3}} = py:fold(
        fun(_, {items, N}) -> {items, N + 1} end, {items, 0}, streamed, count, [3], #{}, #{loop => Loop}
    ),
    eventually:is(
        {ok, #{pid => Loop, queued => 0, unanswered => 0}}, fun() -> called:counts(Loop) end
    ),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    ?assertEqual({error, loop_down}, py_event_loop:stream(Loop, streamed, count, [3])).

plain_generators_run_on_call_threads(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Thread} = py_event_loop:run(Loop, called, loop_thread, []),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, plain_threads, [3], #{}, #{demand => 9}),
    {Items, done} = streams:rest_of(Stream),
    ?assertEqual(3, length([Other || {Other, false} <- Items, Other =/= Thread])),
    eventually:is(
        {ok, #{pid => Loop, queued => 0, unanswered => 0}}, fun() -> called:counts(Loop) end
    ),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

%% Endless streams with unlimited demand: calls and coroutines still return, and they
%% need no more threads.
a_busy_stream_leaves_time_for_others(_Config) ->
    Sink = spawn_link(fun Drop() ->
        receive
            _ -> Drop()
        end
    end),
    Streams = [
        Stream
     || Function <- [tracked, plain_tracked],
        _ <- lists:seq(1, 3),
        {ok, Stream} <- [
            py:stream(streamed, Function, [<<"x">>], #{}, #{to => Sink, demand => 1 bsl 60})
        ]
    ],
    ?assertEqual(6, length(Streams)),
    _ = [
        begin
            ?assertEqual({ok, N}, py:call(called, add, [N, 0])),
            ?assertEqual({ok, N}, py:call(called, add_later, [N, 0]))
        end
     || N <- lists:seq(1, 10)
    ],
    unlink(Sink),
    mortal:kill(Sink),
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end).

a_full_loop_is_overload(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{max_queue => 10}),
    {ok, _} = py:call(called, hold, []),
    {ok, Stuck} = py_event_loop:submit(Loop, called, block_loop, []),
    eventually:is(0, fun() -> maps:get(queued, element(2, py_event_loop:info(Loop))) end),
    Answers = [py_event_loop:stream(Loop, streamed, count, [2]) || _ <- lists:seq(1, 15)],
    {Streams, Refused} = lists:partition(fun(Answer) -> element(1, Answer) =:= ok end, Answers),
    ?assertEqual(10, length(Streams)),
    ?assertEqual([{error, overload}], lists:usort(Refused)),
    %% Demand is never refused.
    _ = [ok = py:demand(Stream, 9) || {ok, Stream} <- Streams],
    {ok, _} = py:call(called, release, []),
    ?assertEqual({ok, <<"released">>}, py:await(Stuck)),
    _ = [?assertEqual({[0, 1], done}, streams:rest_of(Stream)) || {ok, Stream} <- Streams],
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

%% Many at once

ten_thousand_at_once(_Config) ->
    many_at_once(tracked).

ten_thousand_plain_ones_at_once(_Config) ->
    Before = leak_check:threads(),
    many_at_once(plain_tracked),
    %% Call threads and their standby.
    ?assert(leak_check:threads() - Before < 10, {Before, leak_check:threads()}).

%% All of them are open at the same time, and all of them go on.
many_at_once(Function) ->
    Count = 10_000,
    Streams = [
        Stream
     || _ <- lists:seq(1, Count),
        {ok, Stream} <- [py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1})]
    ],
    _ = [?assertEqual([0], streams:await_items(Stream, 1)) || Stream <- Streams],
    ?assertEqual({ok, Count}, py:call(streamed, count_open, [])),
    _ = [ok = py:demand(Stream, 2) || Stream <- Streams],
    _ = [?assertEqual([1, 2], streams:await_items(Stream, 2)) || Stream <- lists:reverse(Streams)],
    ?assertEqual({ok, Count}, py:call(streamed, count_open, [])),
    _ = [ok = py:cancel(Stream) || Stream <- Streams],
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end).

%% Folding

fold_takes_all(_Config) ->
    Sum = fun(Item, Acc) -> Item + Acc end,
    _ = [
        ?assertEqual(
            {ok, 499500}, py:fold(Sum, 0, streamed, Function, [1000], #{}, #{demand => Demand})
        )
     || Function <- [count, plain_count], Demand <- [1, 2, 3, 32, 1000, 10_000]
    ],
    ?assertEqual({ok, 10}, py:fold(Sum, 0, streamed, count, [5])),
    ?assertEqual({ok, 15}, py:fold(Sum, 0, streamed, count, [5], #{start => 1})),
    ?assertEqual({ok, empty}, py:fold(Sum, empty, streamed, count, [0])).

fold_while_stops_early(_Config) ->
    Until = fun
        (3, Acc) -> {halt, lists:reverse(Acc)};
        (Item, Acc) -> {cont, [Item | Acc]}
    end,
    _ = [
        begin
            ?assertEqual({ok, [0, 1, 2]}, py:fold_while(Until, [], streamed, Function, [<<"x">>])),
            called:has_noted(<<"x finalized">>)
        end
     || Function <- [tracked, plain_tracked]
    ],
    ?assertEqual({ok, [0, 1]}, fold_while_all(Until, [2])),
    ?assertEqual({ok, [2]}, py:fold_while(Until, [], streamed, count, [2], #{start => 2})).

fold_while_all(Until, Args) ->
    case py:fold_while(Until, [], streamed, count, Args) of
        {ok, Acc} -> {ok, lists:reverse(Acc)};
        Error -> Error
    end.

a_fold_that_raises_cleans_up(_Config) ->
    _ = [
        begin
            ?assertThrow(enough, py:fold(fun(_, _) -> throw(enough) end, 0, streamed, Function, [<<"x">>])),
            called:has_noted(<<"x finalized">>),
            ?assertEqual({messages, []}, process_info(self(), messages))
        end
     || Function <- [tracked, plain_tracked]
    ],
    Wrong = fun(_, Acc) -> Acc end,
    ?assertError({case_clause, 0}, py:fold_while(Wrong, 0, streamed, tracked, [<<"x">>])),
    called:has_noted(<<"x finalized">>).

fold_errors(_Config) ->
    Keep = fun(Item, Acc) -> [Item | Acc] end,
    called:is_error("ValueError", "on purpose", py:fold(Keep, [], streamed, fails, [2])),
    ?assertEqual({error, timeout}, py:fold(Keep, [], streamed, waits, [<<"x">>], #{}, #{timeout => 50})),
    called:has_noted(<<"x cancelled">>).

fold_with_other_messages_in_the_mailbox(_Config) ->
    self() ! before,
    Nested = fun(Item, Acc) ->
        {ok, Inner} = py:fold(fun(I, A) -> I + A end, 0, streamed, count, [Item]),
        self() ! {item, Item},
        Acc + Inner
    end,
    ?assertEqual({ok, 0 + 0 + 1 + 3}, py:fold(Nested, 0, streamed, count, [4])),
    ?assertEqual(
        {messages, [before | [{item, N} || N <- lists:seq(0, 3)]]}, process_info(self(), messages)
    ),
    flush().

flush() ->
    receive
        _ -> flush()
    after 0 -> ok
    end.
