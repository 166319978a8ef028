%% @doc Is a child that Python forks a Python process, and not a second node? It gets its own signals,
%% ends where it leaves the function that forked, and does none of the node's work.
%%
%% A mistake here ends the node: each case has one of its own.
-module(py_fork_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_signal_to_a_child_does_not_reach_the_node/1,
    a_child_has_the_signals_of_python/1,
    pools_of_forked_processes/1,
    a_child_of_a_call_runs_no_other_call/1,
    a_child_of_a_coroutine_runs_no_other_task/1,
    a_child_of_a_callback_runs_no_other_callback/1,
    a_child_of_a_generator_yields_nothing/1,
    a_child_of_the_main_thread/1,
    a_child_runs_no_exit_handlers_of_libraries/1
]).
%% Called in another node.
-export([
    signal_children/0, compare_signals/0, use_pools/0, fork_in_call/0, fork_in_coroutine/0,
    fork_in_callback/0, fork_in_generator/0, fork_on_main_thread/0,
    fork_with_exit_handler/0
]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

-define(PATIENCE, 60_000).
%% How a function's child leaves it, and the exit code it must have.
-define(WAYS, [
    {<<"return">>, 0}, {<<"raise">>, 1}, {<<"exit">>, 3}, {<<"say">>, 1}, {<<"interrupt">>, -2}
]).

a_signal_to_a_child_does_not_reach_the_node(_Config) ->
    called:in_node([], signal_children, ?MODULE).

signal_children() ->
    %% The suite may be run by nohup; what the node ignores, children ignore.
    [ok = os:set_signal(Signal, default) || Signal <- [sighup, sigquit, sigusr2]],
    Signals = [1, 2, 3, 10, 12, 15],
    [?assertEqual({ok, -Number}, call(signalled, [Number])) || Number <- Signals, Number =/= 2],
    %% As in python, KeyboardInterrupt; it ends by the signal then.
    ?assertEqual({ok, -2}, call(signalled, [2])),
    ?assertEqual({ok, -15}, call(terminate_process, [])),
    %% If the VM's signal server gets the signal at all, then before this call returns.
    _ = gen_event:which_handlers(erl_signal_server),
    ?assertEqual({started, started}, init:get_status()),
    ok.

a_child_has_the_signals_of_python(_Config) ->
    called:in_node([], compare_signals, ?MODULE).

compare_signals() ->
    ok = os:set_signal(sigusr2, handle),
    ok = os:set_signal(sigchld, default),
    ?assertEqual({ok, true}, call(signals_of_a_child, [])),
    ok.

pools_of_forked_processes(_Config) ->
    called:in_node([], use_pools, ?MODULE).

use_pools() ->
    ?assertEqual({ok, 100}, call(use_pools, [100])),
    ok.

a_child_of_a_call_runs_no_other_call(_Config) ->
    called:in_node([{call_threads, 1}], fork_in_call, ?MODULE).

fork_in_call() ->
    %% It is known for a coroutine function from now on.
    {ok, none} = call(allow, []),
    _ = [fork_before_other_calls(How, Code) || {How, Code} <- ?WAYS],
    ok.

fork_before_other_calls(How, Code) ->
    {ok, _} = call(noted, []),
    Names = [<<"call", ($0 + Number)>> || Number <- lists:seq(1, 5)],
    {ok, Forks} = py:submit(forking, fork, [How]),
    Waiting = [element(2, {ok, _} = py:submit(forking, note, [Name])) || Name <- Names],
    %% The one call thread waits for this.
    {ok, none} = call(allow, []),
    ?assertEqual({How, {ok, Code}}, {How, py:await(Forks, ?PATIENCE)}),
    ?assertEqual([{ok, Name} || Name <- Names], [py:await(Call, ?PATIENCE) || Call <- Waiting]),
    ?assertEqual({ok, [<<"atexit">> | Names]}, call(noted, [])).

a_child_of_a_coroutine_runs_no_other_task(_Config) ->
    called:in_node([], fork_in_coroutine, ?MODULE).

fork_in_coroutine() ->
    {ok, _} = py:submit(asyncio, sleep, [3600]),
    _ = [
        ?assertEqual({How, {ok, Code}}, {How, call(fork_in_coroutine, [How])})
     || {How, Code} <- [{<<"await">>, 1}, {<<"run">>, 7} | ?WAYS]
    ],
    Exits = lists:duplicate(length(?WAYS), <<"atexit">>),
    ?assertEqual({ok, Exits ++ [<<"ran">>]}, call(noted, [])),
    ok.

a_child_of_a_callback_runs_no_other_callback(_Config) ->
    called:in_node([], fork_in_callback, ?MODULE).

fork_in_callback() ->
    _ = [
        begin
            ?assertEqual({How, {ok, Code}}, {How, call(fork_in_callback, [How])}),
            ?assertEqual({ok, [<<"atexit">>, <<"next">>]}, call(noted, []))
        end
     || {How, Code} <- ?WAYS
    ],
    ok.

a_child_of_a_generator_yields_nothing(_Config) ->
    called:in_node([], fork_in_generator, ?MODULE).

fork_in_generator() ->
    Keep = fun(Item, Items) -> [Item | Items] end,
    _ = [
        ?assertEqual({ok, [Code]}, py:fold(Keep, [], forking, fork_in_generator, [How]))
     || {How, Code} <- ?WAYS
    ],
    Exits = lists:duplicate(length(?WAYS), <<"atexit">>),
    ?assertEqual({ok, Exits}, call(noted, [])),
    ok.

a_child_of_the_main_thread(_Config) ->
    called:in_node([], fork_on_main_thread, ?MODULE).

fork_on_main_thread() ->
    _ = [
        ?assertEqual(
            {ok, Code}, py_interpreter:run(<<"forking">>, <<"fork_on_main_thread">>, [How])
        )
     || {How, Code} <- ?WAYS
    ],
    _ = [?assertEqual({How, {ok, Code}}, {How, fork_in_eval(How)}) || {How, Code} <- ?WAYS],
    ok.

fork_in_eval(How) ->
    Source = <<"__import__('forking').fork_on_main_thread(how)">>,
    ok = py_nif:python_eval(1, Source, #{<<"how">> => How}),
    receive
        {py_main, 1, Result} -> Result
    after ?PATIENCE -> error(no_result)
    end.

a_child_runs_no_exit_handlers_of_libraries(_Config) ->
    called:in_node([], fork_with_exit_handler, ?MODULE).

fork_with_exit_handler() ->
    {ok, none} = py:call(ending, abort_in_exit_handler, []),
    {ok, none} = call(allow, []),
    ?assertEqual({ok, 3}, call(fork, [<<"exit">>])),
    ok.

call(Function, Args) -> py:call(forking, Function, Args, #{}, ?PATIENCE).
