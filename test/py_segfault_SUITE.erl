%% @doc Do callers survive that one call in a thousand dereferences a null pointer? Two peers and a
%% spare under 100 callers; `SEGFAULTS=N' sets how many crashes there are: `make segfaults N=1000'.
-module(py_segfault_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([one_call_in_a_thousand_crashes/1]).

-define(POOL, segfaulting).
-define(CALLERS, 100).

suite() -> [{timetrap, {hours, 12}}].

all() -> [one_call_in_a_thousand_crashes].

init_per_suite(Config) -> peers:begin_suite(Config).
end_per_suite(_Config) -> peers:end_suite().

%% Each call writes its number into a file before it crashes or returns.
one_call_in_a_thousand_crashes(Config) ->
    Crashes = list_to_integer(os:getenv("SEGFAULTS", "2")),
    File = filename:join(proplists:get_value(priv_dir, Config), "calls"),
    {ok, Pool} = py_event_loop_pool:start_link(
        peers:options(#{name => ?POOL, size => 2, spare => 1, intensity => 10 * Crashes + 10, period => 1})
    ),
    Began = erlang:monotonic_time(millisecond),
    Next = atomics:new(1, []),
    Call = fun(N) -> call(N, list_to_binary(File)) end,
    Callers = [
        spawn_monitor(fun() -> exit({results, calls(Next, 1000 * Crashes, Call, [])}) end)
     || _ <- lists:seq(1, ?CALLERS)
    ],
    Results = maps:from_list(lists:append(lists:map(fun results/1, Callers))),
    Milliseconds = erlang:monotonic_time(millisecond) - Began,
    %% It has replaced them all, and was never restarted itself.
    ?assertEqual(Pool, whereis(?POOL)),
    ok = py_event_loop_pool:stop(?POOL),
    Runs = runs(File),
    Of = fun(Outcome) -> [N || {N, Result} <- maps:to_list(Results), outcome({N, Result}) =:= Outcome] end,
    Shown = [{Outcome, length(Of(Outcome))} || Outcome <- [answered, told, unavailable, lost]],
    Twice = [N || {N, Count} <- maps:to_list(Runs), Count > 1],
    _ = [
        io:format(To, "~n~b crashes in ~b ms: ~w, run twice: ~b~n", [Crashes, Milliseconds, Shown, length(Twice)])
     || To <- [group_leader(), user]
    ],
    ?assertEqual({[], [], []}, {Of(unavailable), Of(lost), Twice}),
    ?assertEqual(1000 * Crashes, map_size(Results)),
    ?assertEqual([], [N || N <- Of(answered), not is_map_key(N, Runs)]),
    %% The report lists all that crash, and some that had begun beside them.
    ?assertEqual([], [N || N <- Of(answered), crashes(N)]).

calls(Next, Count, Call, Results) ->
    case atomics:add_get(Next, 1, 1) of
        N when N > Count -> Results;
        N -> calls(Next, Count, Call, [{N, Call(N)} | Results])
    end.

%% Plain functions and coroutines.
call(N, File) ->
    Function = lists:nth(N rem 2 + 1, [count_run, count_run_later]),
    py_event_loop_pool:run(?POOL, called, Function, [File, N, crashes(N)], #{}, 600_000).

crashes(N) ->
    N rem 1000 =:= 500.

results({Pid, Monitor}) ->
    receive
        {'DOWN', Monitor, process, Pid, {results, Results}} -> Results
    end.

outcome({N, {ok, N}}) -> answered;
outcome({_, {error, {peer_down, {signal, sigsegv}}}}) -> told;
outcome({_, {error, unavailable}}) -> unavailable;
outcome({_, _}) -> lost.

%% How many times each number is in the file.
runs(File) ->
    {ok, Text} = file:read_file(File),
    Count = fun(Line, Counts) -> maps:update_with(binary_to_integer(Line), fun(C) -> C + 1 end, 1, Counts) end,
    lists:foldl(Count, #{}, binary:split(Text, <<"\n">>, [global, trim_all])).
