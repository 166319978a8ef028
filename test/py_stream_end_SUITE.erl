%% @doc Does a stream that is cancelled, or that lost its consumer or its loop, end and clean up?
-module(py_stream_end_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    cancel_reaches_the_await/1,
    cancel_closes_at_the_yield/1,
    cancel_leaves_no_message/1,
    cancel_twice_and_after_the_end/1,
    cancel_before_it_has_begun/1,
    cancel_by_another_process/1,
    a_generator_that_refuses_to_be_cancelled/1,
    a_plain_generator_that_blocks_is_reported/1,
    an_exception_in_a_finalizer_is_logged/1,
    a_killed_consumer_with_1000_streams/1,
    a_killed_consumer_with_1000_plain_streams/1,
    a_killed_loop_with_1000_streams/1,
    a_killed_loop_with_plain_streams/1,
    a_stopped_loop_cancels_its_streams/1,
    streams_leave_no_memory_behind/1
]).
%% Called in another node.
-export([blocked_generator/0]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> streams:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> streams:end_case(Config).

%% The Stop button

cancel_reaches_the_await(_Config) ->
    {ok, Stream} = py:stream(streamed, waits, [<<"x">>], #{}, #{demand => 5}),
    ?assertEqual([0], streams:await_items(Stream, 1)),
    called:has_noted(<<"x waits">>),
    ?assertEqual(ok, py:cancel(Stream)),
    called:has_noted(<<"x cancelled">>).

cancel_closes_at_the_yield(_Config) ->
    _ = [
        begin
            {ok, Stream} = py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1}),
            ?assertEqual([0], streams:await_items(Stream, 1)),
            ok = py:cancel(Stream),
            called:has_noted(<<"x finalized">>)
        end
     || Function <- [tracked, plain_tracked]
    ].

%% While it sends as fast as it can.
cancel_leaves_no_message(_Config) ->
    _ = [
        begin
            {ok, Stream} = py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1000000}),
            _ = streams:await_items(Stream, N),
            ok = py:cancel(Stream),
            ?assertEqual([], streams:items(Stream)),
            N rem 10 =:= 0 andalso streams:settle(),
            ?assertEqual([], streams:items(Stream))
        end
     || Function <- [tracked, plain_tracked], N <- lists:seq(1, 50)
    ].

cancel_twice_and_after_the_end(_Config) ->
    {ok, Stream} = py:stream(streamed, tracked, [<<"x">>], #{}, #{demand => 1}),
    ?assertEqual([ok, ok, ok], [py:cancel(Stream) || _ <- [1, 2, 3]]),
    {ok, Short} = py:stream(streamed, count, [1], #{}, #{demand => 5}),
    ?assertEqual({[0], done}, streams:rest_of(Short)),
    ?assertEqual(ok, py:cancel(Short)),
    ?assertEqual(ok, py:demand(Stream, 1)).

cancel_before_it_has_begun(_Config) ->
    ok = py:exec(<<"import warnings\nwarnings.simplefilter('error')">>),
    try
        _ = [
            begin
                {ok, Stream} = py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1}),
                N rem 3 =:= 0 andalso erlang:yield(),
                ok = py:cancel(Stream)
            end
         || Function <- [tracked, plain_tracked, waits, opens, opens_plain],
            N <- lists:seq(1, 200)
        ]
    after
        ok = py:exec(<<"import warnings\nwarnings.resetwarnings()">>)
    end.

cancel_by_another_process(_Config) ->
    _ = [
        begin
            {ok, Stream} = py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1}),
            ?assertEqual([0], streams:await_items(Stream, 1)),
            _ = spawn_link(fun() -> ok = py:cancel(Stream) end),
            ?assertEqual({[], {error, cancelled}}, streams:rest_of(Stream)),
            called:has_noted(<<"x finalized">>)
        end
     || Function <- [tracked, plain_tracked]
    ].

a_generator_that_refuses_to_be_cancelled(_Config) ->
    {ok, Stream} = py:stream(streamed, refuses, [<<"x">>], #{}, #{demand => 5}),
    called:has_noted(<<"x waits">>),
    ok = py:cancel(Stream),
    called:has_noted(<<"x refused">>),
    streams:settle(),
    ?assertEqual([], streams:items(Stream)).

a_plain_generator_that_blocks_is_reported(_Config) ->
    called:in_node([{call_warning, 50}], blocked_generator, ?MODULE).

%% In a node of its own, for its settings.
blocked_generator() ->
    ok = log_watch:start(),
    {ok, _} = py:call(called, hold, []),
    {ok, Stream} = py:stream(streamed, plain_blocks, [<<"x">>], #{}, #{demand => 2}),
    [0] = streams:await_items(Stream, 1),
    called:has_noted(<<"x blocks">>),
    ok = py:cancel(Stream),
    called:is_logged("streamed.plain_blocks is still running 50 ms after"),
    {ok, _} = py:call(called, release, []),
    called:has_noted(<<"x finalized">>),
    called:is_logged("streamed.plain_blocks ended"),
    [] = streams:items(Stream),
    log_watch:stop().

an_exception_in_a_finalizer_is_logged(_Config) ->
    ok = log_watch:start(),
    _ = [
        begin
            {ok, Stream} = py:stream(streamed, Function, [], #{}, #{demand => 1}),
            ?assertEqual([1], streams:await_items(Stream, 1)),
            ok = py:cancel(Stream),
            called:is_logged("streamed." ++ atom_to_list(Function) ++ " failed after")
        end
     || Function <- [fails_at_its_end, plain_fails_at_its_end]
    ],
    ok = log_watch:stop().

%% The death of those who take part

a_killed_consumer_with_1000_streams(_Config) ->
    killed_consumer(waits).

a_killed_consumer_with_1000_plain_streams(_Config) ->
    killed_consumer(plain_tracked).

killed_consumer(Function) ->
    Self = self(),
    Consumer = spawn(fun() ->
        Streams = [
            element(2, {ok, _} = py:stream(streamed, Function, [<<"x">>], #{}, #{demand => 1}))
         || _ <- lists:seq(1, 1000)
        ],
        _ = [streams:await_items(Stream, 1) || Stream <- Streams],
        _ = [ok = py:demand(Stream, 1) || Stream <- Streams, Function =:= waits],
        Self ! ready,
        receive
            never -> ok
        end
    end),
    receive
        ready -> ok
    end,
    ?assertEqual({ok, 1000}, py:call(streamed, count_open, [])),
    Waiting = fun() -> noted(<<"x waits">>) end,
    Function =:= waits andalso eventually:is(1000, Waiting),
    mortal:kill(Consumer),
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    Ended = #{waits => <<"x cancelled">>, plain_tracked => <<"x finalized">>},
    ?assertEqual(1000, noted(maps:get(Function, Ended))).

noted(Event) ->
    {ok, Count} = py:eval(<<"__import__('called').events.count(event)">>, #{event => Event}),
    Count.

a_killed_loop_with_1000_streams(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    unlink(Loop),
    Streams = [
        element(2, {ok, _} = py_event_loop:stream(Loop, streamed, waits, [<<"x">>], #{}, #{demand => 2}))
     || _ <- lists:seq(1, 1000)
    ],
    _ = [?assertEqual([0], streams:await_items(Stream, 1)) || Stream <- Streams],
    mortal:kill(Loop),
    _ = [?assertEqual({[], {error, loop_down}}, streams:rest_of(Stream)) || Stream <- Streams],
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    ?assertEqual(1000, noted(<<"x cancelled">>)).

%% They belong to the loop that was asked, though they do not run on it.
a_killed_loop_with_plain_streams(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    unlink(Loop),
    Options = #{demand => 1},
    Streams = [
        element(2, {ok, _} = py_event_loop:stream(Loop, streamed, plain_tracked, [<<"x">>], #{}, Options))
     || _ <- lists:seq(1, 100)
    ],
    _ = [?assertEqual([0], streams:await_items(Stream, 1)) || Stream <- Streams],
    mortal:kill(Loop),
    _ = [?assertEqual({[], {error, loop_down}}, streams:rest_of(Stream)) || Stream <- Streams],
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end).

a_stopped_loop_cancels_its_streams(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Async} = py_event_loop:stream(Loop, streamed, tracked, [<<"async">>], #{}, #{demand => 1}),
    {ok, Plain} = py_event_loop:stream(Loop, streamed, plain_tracked, [<<"plain">>], #{}, #{demand => 1}),
    ?assertEqual([0], streams:await_items(Async, 1)),
    ?assertEqual([0], streams:await_items(Plain, 1)),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    ?assertEqual({[], {error, cancelled}}, streams:rest_of(Async)),
    ?assertEqual({[], {error, loop_down}}, streams:rest_of(Plain)),
    called:has_noted(<<"plain finalized">>).

%% Nothing is left

streams_leave_no_memory_behind(_Config) ->
    Round = fun() ->
        _ = [
            begin
                {ok, _} = py:fold(fun(_, A) -> A end, 0, streamed, Function, [10]),
                {ok, Stream} = py:stream(streamed, tracked, [<<"x">>], #{}, #{demand => 1}),
                ok = py:cancel(Stream)
            end
         || Function <- [count, plain_count], _ <- lists:seq(1, 1000)
        ],
        {ok, _} = py:call(called, take_events, []),
        {ok, _} = py:call(gc, collect, []),
        erlang:garbage_collect(),
        leak_check:resident_bytes()
    end,
    _ = Round(),
    First = Round(),
    _ = [Round() || _ <- lists:seq(1, 3)],
    Last = Round(),
    %% 16,000 streams: a leak of 400 bytes for each would be 6 MB.
    ?assert(Last - First < 6_000_000, {First, Last}).
