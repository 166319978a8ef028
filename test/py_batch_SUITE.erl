%% @doc Does each caller get its own result of a call that it shares with others?
-module(py_batch_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    callers_share_calls/1,
    a_full_batch_does_not_wait/1,
    keys_are_kept_apart/1,
    each_gets_its_own_error/1,
    an_exception_is_for_all/1,
    a_result_for_each_item/1,
    those_that_left_are_left_out/1,
    too_many_wait/1,
    bad_options_raise/1,
    a_peer_that_dies/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [{group, here}, {group, peer}].

groups() ->
    Cases = cases:of_suite(?MODULE, [a_peer_that_dies, bad_options_raise]),
    [{here, [], [bad_options_raise | Cases]}, {peer, [], Cases ++ [a_peer_that_dies]}].

init_per_suite(Config) -> peers:begin_suite(Config).
end_per_suite(_Config) -> peers:end_suite().

init_per_group(here, Config) -> Config;
init_per_group(peer, Config) -> [{loop, peers:start(#{})} | Config].

%% The last case of the group ends the peer.
end_per_group(_, _Config) -> ok.

init_per_testcase(_Case, Config) ->
    _ = process_flag(trap_exit, true),
    Config.
end_per_testcase(_Case, _Config) ->
    _ = py_batch:stop(batched),
    ok.

start(Function, Options, Config) ->
    Place = maps:from_list([{loop, Loop} || {loop, Loop} <- Config]),
    All = maps:merge(Options#{name => batched, call => {batched, Function}}, Place),
    {ok, _} = py_batch:start_link(All),
    ok.

%% The results of many callers at a time, in the order of their items.
all_of(Items) ->
    all_of(Items, fun(Item) -> py_batch:call(batched, Item, 30_000) end).

all_of(Items, Call) ->
    Callers = [spawn_monitor(fun() -> exit({result, Call(Item)}) end) || Item <- Items],
    [
        receive
            {'DOWN', Monitor, process, Pid, {result, Result}} -> Result
        end
     || {Pid, Monitor} <- Callers
    ].

callers_share_calls(Config) ->
    ok = start(squares_and_count, #{size => 50, delay => 200}, Config),
    Results = all_of(lists:seq(1, 100)),
    ?assertEqual([{ok, {N * N, 50}} || N <- lists:seq(1, 100)], Results),
    ?assertEqual({ok, #{waiting => 0, running => 0}}, py_batch:info(batched)).

%% The delay is longer than the test may take.
a_full_batch_does_not_wait(Config) ->
    ok = start(squares_later, #{size => 4, delay => 1_000_000}, Config),
    ?assertEqual([{ok, N * N} || N <- lists:seq(1, 8)], all_of(lists:seq(1, 8))).

keys_are_kept_apart(Config) ->
    ok = start(keyed, #{size => 2, delay => 1_000_000}, Config),
    Call = fun({Key, Item}) -> py_batch:call(batched, Item, #{key => Key, timeout => 30_000}) end,
    Results = all_of([{Key, Item} || Item <- [1, 2], Key <- [<<"a">>, <<"b">>]], Call),
    ?assertEqual([{ok, {Key, N, 2}} || N <- [1, 2], Key <- [<<"a">>, <<"b">>]], Results).

each_gets_its_own_error(Config) ->
    ok = start(some_fail, #{size => 3, delay => 1_000_000}, Config),
    [{ok, 1}, {error, #{message := <<"no 2">>}}, {error, #{type := <<"erlang.ConversionError">>}}] =
        all_of([1, 2, 3]).

an_exception_is_for_all(Config) ->
    ok = start(fail, #{size => 2, delay => 1_000_000}, Config),
    [{error, #{message := <<"all">>}}, {error, #{message := <<"all">>}}] = all_of([1, 2]),
    [{error, #{message := <<"all">>}}, _] = all_of([1, 2]).

a_result_for_each_item(Config) ->
    ok = start(too_few, #{size => 2, delay => 1_000_000}, Config),
    Wrong = {error, {batch_length, 1, expected, 2}},
    ?assertEqual([Wrong, Wrong], all_of([1, 2])).

those_that_left_are_left_out(Config) ->
    ok = start(squares_and_count, #{size => 3, delay => 1_000_000}, Config),
    ?assertEqual({error, timeout}, py_batch:call(batched, 1, 1)),
    Dead = spawn(fun() -> py_batch:call(batched, 2, infinity) end),
    eventually:is({ok, #{waiting => 2, running => 0}}, fun() -> py_batch:info(batched) end),
    ok = mortal:kill(Dead),
    ?assertEqual({ok, {9, 1}}, py_batch:call(batched, 3)).

too_many_wait(Config) ->
    ok = start(squares_and_count, #{size => 3, delay => 1_000_000, max_queue => 1}, Config),
    Waits = spawn(fun() -> py_batch:call(batched, 2, infinity) end),
    eventually:is({ok, #{waiting => 1, running => 0}}, fun() -> py_batch:info(batched) end),
    ?assertEqual({error, overload}, py_batch:call(batched, 1)),
    ok = mortal:kill(Waits).

bad_options_raise(_Config) ->
    Good = #{name => batched, call => {batched, fail}},
    Bad = fun(Options) -> ?assertError({bad_option, _, _}, py_batch:start_link(Options)) end,
    lists:foreach(Bad, [
        #{}, #{name => batched}, Good#{call => {1, 2}}, Good#{size => 0}, Good#{delay => -1},
        Good#{timeout => x}, Good#{loop => l, pool => p}, Good#{colour => blue}
    ]),
    ?assertError(badarg, py_batch:call(batched, 1, -1)),
    ?assertError(badarg, py_batch:call(batched, 1, #{colour => blue})),
    ?assertEqual({error, noproc}, py_batch:call(batched, 1)).

a_peer_that_dies(Config) ->
    ok = start(crash, #{size => 2, delay => 1_000_000}, Config),
    Down = {error, {peer_down, {signal, sigsegv}}},
    ?assertEqual([Down, Down], all_of([1, 2])).
