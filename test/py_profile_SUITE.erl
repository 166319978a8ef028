%% @doc Does a profile show where the time goes, on every thread, and while no thread gets the GIL?
-module(py_profile_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    the_shares_of_a_loop_are_right/1,
    the_shares_of_a_call_thread_are_right/1,
    samples_are_split_by_task/1,
    a_thread_that_keeps_the_gil_is_seen/1,
    a_stack_of_ten_thousand_frames_is_cut/1,
    a_node_at_rest_has_no_samples/1,
    a_profile_ends_with_its_caller/1,
    other_programs_can_read_it/1,
    wrong_options_are_refused/1,
    functions_are_timed/1
]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> called:end_case(Config).

the_shares_of_a_loop_are_right(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, profiled, both_later, []),
        is_right(Loop),
        {ok, _} = py:call(called, release, []),
        {ok, none} = py:await(Task)
    end).

the_shares_of_a_call_thread_are_right(_Config) ->
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py:submit(profiled, both, []),
    is_right(calls),
    {ok, _} = py:call(called, release, []),
    {ok, none} = py:await(Task).

%% Within 5 points of what the functions have measured themselves.
is_right(Which) ->
    eventually:passes(fun(Count) -> Count > 0 end, fun() -> samples_with(<<"spin">>, profile(Which, 20)) end),
    {ok, {SeventyBefore, ThirtyBefore}} = py:call(profiled, totals, []),
    {Seventy, Thirty, Missed} = sampled(Which, {0, 0, 0}),
    {ok, {SeventyAfter, ThirtyAfter}} = py:call(profiled, totals, []),
    {TookSeventy, TookThirty} = {SeventyAfter - SeventyBefore, ThirtyAfter - ThirtyBefore},
    Share = 100 * TookSeventy / (TookSeventy + TookThirty),
    Read = 100 * Seventy / (Seventy + Thirty),
    ?assert(Share > 60 andalso Share < 80, Share),
    ?assert(abs(Read - Share) =< 5, {Read, Share, Seventy, Thirty}),
    ?assert(20 * Missed =< Seventy + Thirty, {Missed, Seventy, Thirty}).

%% So many that chance hardly matters: 5 points are four standard deviations.
sampled(_, {Seventy, Thirty, _} = Counts) when Seventy + Thirty >= 1500 ->
    Counts;
sampled(Which, {Seventy, Thirty, Missed}) ->
    #{missed := More} = Profile = profile(Which, 500),
    sampled(Which, {
        Seventy + samples_with(<<"seventy">>, Profile), Thirty + samples_with(<<"thirty">>, Profile), Missed + More
    }).

samples_are_split_by_task(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        Names = [<<"one;<b>">>, <<"two\n">>],
        Tasks = [element(2, {ok, _} = py_event_loop:submit(Loop, profiled, named, [Name])) || Name <- Names],
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        eventually:is(Names, fun() ->
            #{stacks := Stacks} = profile(Loop, 100),
            lists:usort([Task || #{task := Task, loop := Each, frames := [#{function := <<"both_later">>} | _]} <- Stacks,
                Each =:= Id, Task =/= undefined])
        end),
        {ok, _} = py:call(called, release, []),
        [{ok, none} = py:await(Task) || Task <- Tasks]
    end).

%% Long enough for the slowest machine: the profile shows the call, or it ended before.
a_thread_that_keeps_the_gil_is_seen(_Config) ->
    {ok, Task} = py:submit(profiled, without_release, [50_000_000]),
    Frame = eventually:passes(fun(Found) -> Found =/= none end, fun() ->
        #{stacks := Stacks} = profile(calls, 20),
        case [Last || #{frames := [_ | _] = Frames} <- Stacks,
            #{function := <<"without_release">>} = Last <- [lists:last(Frames)]] of
            [Found | _] -> Found;
            [] -> none
        end
    end),
    #{file := File, line := Line} = Frame,
    ?assertEqual(<<"profiled.py">>, filename:basename(File)),
    ?assert(Line > 40),
    {ok, _} = py:await(Task, infinity).

a_stack_of_ten_thousand_frames_is_cut(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, profiled, deep, [9000]),
        eventually:is(1000, fun() ->
            #{stacks := Stacks} = profile(Loop, 30),
            lists:max([0 | [length(Frames) || #{frames := Frames} <- Stacks]])
        end),
        Profile = profile(Loop, 30),
        [?assert(iolist_size(py_profile:text(Format, Profile)) > 1000) || Format <- [collapsed, speedscope, firefox]],
        {ok, _} = py:call(called, release, []),
        {ok, none} = py:await(Task)
    end).

a_node_at_rest_has_no_samples(_Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, asyncio, sleep, [0]),
        eventually:passes(fun(#{stacks := Stacks, idle := Idle}) -> Stacks =:= [] andalso Idle > 0 end,
            fun() -> profile(Loop, 30) end)
    end).

a_profile_ends_with_its_caller(_Config) ->
    {Pid, Monitor} = spawn_monitor(fun() -> py_inspect:profile(all, #{ms => 3_600_000, interval_us => 1000}) end),
    eventually:is(1, fun profiling_threads/0),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, killed} -> ok end,
    eventually:is(0, fun profiling_threads/0).

profiling_threads() ->
    Names = [file:read_file(Path) || Path <- filelib:wildcard("/proc/self/task/*/comm")],
    length([Name || {ok, <<"python-profile", _/binary>> = Name} <- Names]).

other_programs_can_read_it(Config) ->
    with_loop(fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, profiled, named, [<<"one;two">>]),
        Profile = #{stacks := Stacks, samples := Samples} =
            eventually:passes(fun(Profile) -> samples_with(<<"spin">>, Profile) > 0 end, fun() -> profile(Loop, 100) end),
        {ok, _} = py:call(called, release, []),
        {ok, none} = py:await(Task),
        All = length(Samples),
        ?assertEqual(All, lists:sum([Count || #{samples := Count} <- Stacks])),
        Lines = string:split(string:trim(iolist_to_binary(py_profile:text(collapsed, Profile))), "\n", all),
        ?assertEqual(All, lists:sum([binary_to_integer(lists:last(string:split(Line, " ", all))) || Line <- Lines])),
        [_ | _] = [Line || Line <- Lines, string:find(Line, ";spin (profiled.py:") =/= nomatch],
        #{<<"profiles">> := Profiles, <<"shared">> := #{<<"frames">> := [#{<<"name">> := _, <<"line">> := _} | _]}} =
            json(speedscope, Profile),
        ?assertEqual(length(Stacks), lists:sum([length(Weights) || #{<<"weights">> := Weights} <- Profiles])),
        #{<<"threads">> := Threads, <<"meta">> := #{<<"version">> := 24}} = json(firefox, Profile),
        ?assertEqual(All, lists:sum([length(Data) || #{<<"samples">> := #{<<"data">> := Data}} <- Threads])),
        File = filename:join(proplists:get_value(priv_dir, Config), "profile.txt"),
        ok = py_profile:write(File, collapsed, Profile),
        ?assertEqual({error, enoent}, py_profile:write("/no/such/folder/profile", collapsed, Profile))
    end).

json(Format, Profile) ->
    {ok, Read} = py:call(json, loads, [iolist_to_binary(py_profile:text(Format, Profile))]),
    Read.

wrong_options_are_refused(_Config) ->
    [
        ?assertError(badarg, py_inspect:profile(all, Options))
     || Options <- [#{ms => 0}, #{ms => 1.5}, #{ms => 4_000_000}, #{interval_us => 99}, #{other => 1}, []]
    ],
    ?assertEqual({error, {no_loop, 999_999}}, py_inspect:profile(999_999, #{})),
    ?assertEqual({error, {no_loop, nothing}}, py_inspect:profile(nothing, #{})).

functions_are_timed(_Config) ->
    {ok, none} = py:call(time, sleep, [0.002]),
    with_loop(fun(Loop) -> {ok, none} = py_event_loop:run(Loop, asyncio, sleep, [0.002, none]) end),
    Functions = eventually:passes(
        fun(Found) -> length(Found) =:= 2 end,
        fun() -> [One || #{name := Name} = One <- py_inspect:functions(),
            lists:member(Name, [<<"time.sleep">>, <<"asyncio.sleep">>])] end
    ),
    [
        ?assert(Calls > 0 andalso P99 =< Longest andalso Longest =< Total andalso Longest >= 2.0)
     || #{calls := Calls, total_ms := Total, p99_ms := P99, longest_ms := Longest} <- Functions
    ].

profile(Which, Ms) ->
    {ok, Profile} = py_inspect:profile(Which, #{ms => Ms, interval_us => 1000}),
    Profile.

samples_with(Name, #{stacks := Stacks}) ->
    lists:sum([Count || #{frames := Frames, samples := Count} <- Stacks,
        lists:any(fun(#{function := Function}) -> Function =:= Name end, Frames)]).

with_loop(Fun) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    try
        Fun(Loop)
    after
        {ok, _} = py_event_loop:stop(Loop)
    end.
