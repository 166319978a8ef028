%% @doc Is the number of requests of a loop limited, and does every refused caller get an error?
%%
%% The queue of plain functions is in py_call_SUITE, a loop's inbox in py_event_loop_SUITE.
-module(py_limit_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_loop_with_all_its_tasks_is_overload/1,
    a_full_loop_can_still_be_inspected/1,
    what_is_handed_to_the_loop_counts_once/1,
    the_default_loop_has_limits_too/1,
    plain_streams_have_a_limit/1
]).
%% Called in another node.
-export([default_loop/0, plain_streams/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> streams:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

a_loop_with_all_its_tasks_is_overload(_Config) ->
    {Loop, [Task | Tasks]} = full_loop(),
    _ = [
        begin
            ?assertEqual({error, overload}, py_event_loop:run(Loop, called, Function, [1, 2])),
            ?assertEqual({error, overload}, py_event_loop:submit(Loop, called, Function, [1, 2]))
        end
     || Function <- [add, add_later]
    ],
    _ = [
        ?assertEqual({error, overload}, py_event_loop:stream(Loop, streamed, Function, [1]))
     || Function <- [count, plain_count]
    ],
    %% Others have room.
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])),
    %% And so has this one, when a task has ended.
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    ?assertEqual({ok, [1, 0]}, fold(Loop, count, 2)),
    ?assertEqual({ok, [1, 0]}, fold(Loop, plain_count, 2)),
    stop(Loop, Tasks).

a_full_loop_can_still_be_inspected(_Config) ->
    {Loop, Tasks} = full_loop(),
    {ok, Shown} = py_event_loop:tasks(Loop),
    ?assertEqual(5, length(Shown)),
    ?assertMatch({ok, #{unanswered := 5}}, py_event_loop:info(Loop)),
    stop(Loop, Tasks).

%% A plain function whose result is awaited is on a call thread first, then on the loop.
what_is_handed_to_the_loop_counts_once(_Config) ->
    {Loop, [Task | Tasks]} = full_loop(),
    ok = py:cancel(Task),
    {error, cancelled} = py:await(Task),
    ?assertEqual({ok, <<"awaited">>}, py_event_loop:run(Loop, called, make_awaitable, [])),
    ?assertEqual({ok, [1, 0]}, fold(Loop, opens, 2)),
    ?assertEqual({ok, [1, 0]}, fold(Loop, opens_plain, 2)),
    stop(Loop, Tasks).

the_default_loop_has_limits_too(_Config) ->
    Options = #{max_tasks => 3, patience => 1000},
    called:in_node([{default_loop_options, Options}], default_loop, ?MODULE).

default_loop() ->
    Tasks = [element(2, {ok, _} = py:submit(called, wait_forever, [<<"x">>])) || _ <- [1, 2, 3]],
    eventually:is(3, fun() -> unanswered(py_default_loop) end),
    %% Not known yet as a coroutine function: a call thread finds out, and then there is no room.
    {error, overload} = py:call(called, add_later, [1, 2]),
    %% Known by now.
    {error, overload} = py:call(called, add_later, [1, 2]),
    {error, overload} = py:submit(called, add_later, [1, 2]),
    {error, overload} = py:cast(called, add_later, [1, 2]),
    {error, overload} = py:fold(fun(I, _) -> I end, none, streamed, count, [2]),
    {error, overload} = py:stream(streamed, count, [2]),
    %% A cast that is refused on its way.
    ok = log_watch:start(),
    ok = py:cast(called, make_awaitable, []),
    called:is_logged("A cast to Python function called.make_awaitable failed"),
    called:is_logged("too many requests wait"),
    ok = log_watch:stop(),
    {ok, 3} = py:call(called, add, [1, 2]),
    _ = [ok = py:cancel(Task) || Task <- Tasks],
    _ = [{error, cancelled} = py:await(Task) || Task <- Tasks],
    %% One that had not begun gets its reply before the loop takes it.
    eventually:is({ok, 3}, fun() -> py:call(called, add_later, [1, 2]) end).

plain_streams_have_a_limit(_Config) ->
    called:in_node([{call_queue, 10}], plain_streams, ?MODULE).

plain_streams() ->
    Options = #{demand => 1},
    Streams = [
        begin
            {ok, Stream} = py:stream(streamed, plain_tracked, [<<"x">>], #{}, Options),
            receive
                {py_stream, Stream, {data, 0}} -> Stream
            end
        end
     || _ <- lists:seq(1, 10)
    ],
    Refused = fun() -> py:stream(streamed, plain_tracked, [<<"x">>], #{}, Options) end,
    eventually:is({error, overload}, fun() ->
        case Refused() of
            {ok, Stream} -> py:cancel(Stream);
            Answer -> Answer
        end
    end),
    {ok, 3} = py:call(called, add, [1, 2]),
    _ = [ok = py:cancel(Stream) || Stream <- Streams],
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    {ok, Again} = Refused(),
    ok = py:cancel(Again).

%% The pieces

full_loop() ->
    {ok, Loop} = py_event_loop:start_link(#{max_tasks => 5}),
    Tasks = [
        element(2, {ok, _} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]))
     || _ <- lists:seq(1, 5)
    ],
    %% They have begun, so that a cancelled one is no longer in the queue.
    {ok, [_, _, _, _, _]} = py_event_loop:tasks(Loop),
    {Loop, Tasks}.

stop(Loop, Tasks) ->
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    _ = [?assertEqual({error, cancelled}, py:await(Task)) || Task <- Tasks],
    ok.

fold(Loop, Function, Count) ->
    Keep = fun(Item, Items) -> [Item | Items] end,
    eventually:is(4, fun() -> unanswered(Loop) end),
    py:fold(Keep, [], streamed, Function, [Count], #{}, #{loop => Loop}).

unanswered(Loop) ->
    {ok, #{unanswered := Unanswered}} = py_event_loop:info(Loop),
    Unanswered.
