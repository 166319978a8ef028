%% @doc Can a stall be explained when it is over?
-module(py_recorder_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_stall_that_is_over_has_its_stack/1,
    a_stall_that_keeps_the_gil_has_its_stack/1,
    requests_timers_and_fds_are_recorded/1,
    a_stuck_report_has_the_last_events/1,
    a_trace_is_read_by_other_programs/1,
    only_the_last_events_are_kept/1,
    wrong_loops_are_refused/1
]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

a_stall_that_is_over_has_its_stack(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
        _ = stall(Loop, <<"block_loop">>),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Task)),
        #{stack := Stack, duration_us := Duration} = stall(Loop, <<"block_loop">>),
        ?assert(Duration >= 20_000),
        [#{file := File, line := Line} | _] = [Frame || #{function := <<"block_loop">>} = Frame <- Stack],
        ?assertEqual(<<"called.py">>, filename:basename(File)),
        ?assert(Line > 1),
        eventually:passes(fun(Turns) -> Turns =/= [] end, fun() ->
            [Turn || #{kind := turn, duration_us := Took} = Turn <- events(Loop), Took >= 20_000]
        end)
    end).

a_stall_that_keeps_the_gil_has_its_stack(_Config) ->
    with_loop(fun(Loop) ->
        %% Twice as long each time, until it was seen.
        Spin = fun Spin(Count) ->
            {ok, Task} = py_event_loop:submit(Loop, profiled, spin_later, [Count]),
            {ok, _} = py:await(Task, infinity),
            case stalls(Loop, <<"without_release">>) of
                [Stall | _] -> Stall;
                [] -> Spin(2 * Count)
            end
        end,
        #{duration_us := Duration} = Spin(10_000_000),
        ?assert(Duration >= 20_000)
    end).

requests_timers_and_fds_are_recorded(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, asyncio, sleep, [0.001]),
        {ok, _} = py_event_loop:run(Loop, called, watch_something, []),
        {ok, Sleeper} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
        %% It is not only queued.
        eventually:is(1, fun() -> {ok, #{total := Count}} = py_inspect:tasks(Loop), Count end),
        ok = py:cancel(Sleeper),
        {error, cancelled} = py:await(Sleeper),
        Wanted = [request_cancel, request_in, request_out, timers],
        eventually:is(Wanted, fun() ->
            [Kind || Kind <- lists:usort([Kind || #{kind := Kind} <- events(Loop)]), lists:member(Kind, Wanted)]
        end),
        Ages = [Age || #{age_us := Age} <- events(Loop)],
        ?assertEqual(lists:reverse(lists:sort(Ages)), Ages),
        {In, Out} = {numbers(request_in, Loop), numbers(request_out, Loop)},
        ?assertEqual(lists:sort(In), lists:sort(Out))
    end).

numbers(Kind, Loop) -> [Request || #{kind := Each, request := Request} <- events(Loop), Each =:= Kind].

a_stuck_report_has_the_last_events(_Config) ->
    with_loop(fun(Loop) ->
        ok = log_watch:start(),
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
        called:is_logged("Its last events:"),
        {ok, _} = py:call(called, release, []),
        {ok, _} = py:await(Task),
        log_watch:stop()
    end).

a_trace_is_read_by_other_programs(Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, asyncio, sleep, [0.001]),
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        File = filename:join(proplists:get_value(priv_dir, Config), "loop.trace.json"),
        ok = py_recorder:write(File, Loop),
        {ok, Text} = file:read_file(File),
        {ok, #{<<"traceEvents">> := [Title | Events]}} = py:call(json, loads, [Text]),
        ?assertMatch(#{<<"ph">> := <<"M">>, <<"tid">> := Id}, Title),
        Kinds = lists:usort([Ph || #{<<"ph">> := Ph, <<"ts">> := _, <<"pid">> := 1} <- Events]),
        [?assert(lists:member(Kind, Kinds)) || Kind <- [<<"b">>, <<"e">>]],
        {ok, All} = py_recorder:trace(all),
        ?assert(iolist_size(All) >= byte_size(Text))
    end).

only_the_last_events_are_kept(_Config) ->
    with_loop(fun(Loop) ->
        [{ok, _} = py_event_loop:run(Loop, asyncio, sleep, [0]) || _ <- lists:seq(1, 300)],
        Kept = [Event || #{kind := Kind} = Event <- events(Loop), Kind =/= slow_turn],
        ?assertEqual(255, length(Kept))
    end).

wrong_loops_are_refused(_Config) ->
    ?assertEqual({error, {no_loop, 999_999}}, py_recorder:events(999_999)),
    ?assertEqual({error, {no_loop, nothing}}, py_recorder:trace(nothing)),
    ?assertEqual({error, {no_loop, nothing}}, py_recorder:write("/tmp/none", nothing)),
    ?assertError(badarg, py_recorder:events("loop")).

%% As soon as it was seen.
stall(Loop, Function) ->
    [Stall | _] = eventually:passes(fun(Found) -> Found =/= [] end, fun() -> stalls(Loop, Function) end),
    Stall.

stalls(Loop, Function) ->
    [Event || #{kind := slow_turn, stack := Stack} = Event <- events(Loop),
        lists:any(fun(#{function := Each}) -> Each =:= Function end, Stack)].

events(Loop) ->
    {ok, Events} = py_recorder:events(Loop),
    Events.

with_loop(Fun) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    try
        Fun(Loop)
    after
        {ok, _} = py_event_loop:stop(Loop)
    end.
