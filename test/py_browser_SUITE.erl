%% @doc Does the dashboard do in a real browser what a person expects?
-module(py_browser_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_task_is_found_and_cancelled/1,
    a_stuck_loop_is_red_and_is_interrupted/1,
    a_loop_is_restarted/1,
    flame_graph_and_recorder_open/1,
    markup_in_a_name_is_text/1,
    it_fits_a_telephone/1,
    a_wrong_token_shows_nothing/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    _ = called:begin_suite(Config),
    case py:call(browser, is_installed, []) of
        {ok, true} ->
            ok = application:set_env(erlang_loop, dashboard, #{port => 0}),
            _ = supervisor:terminate_child(erlang_loop_sup, py_dashboard),
            {ok, _} = supervisor:restart_child(erlang_loop_sup, py_dashboard),
            browsed(start, []),
            Config;
        {ok, false} ->
            {skip, "chromium and chromium-driver are not installed"}
    end.

end_per_suite(_Config) ->
    browsed(stop, []),
    _ = supervisor:terminate_child(erlang_loop_sup, py_dashboard),
    ok = application:set_env(erlang_loop, dashboard, undefined),
    called:stop().

init_per_testcase(_Case, Config) ->
    {ok, _} = py:call(called, take_events, []),
    browsed(enter, [py_dashboard:url()]),
    Config.

%% Whatever was done: no script has failed, and nothing was loaded that is not allowed.
end_per_testcase(_Case, _Config) ->
    ok = called:settle(),
    ?assertEqual([], browsed(is_quiet, [])).

a_task_is_found_and_cancelled(_Config) ->
    with_loop(fun(Loop, Id) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, parent, []),
        eventually:is(2, fun() -> {ok, #{total := Total}} = py_inspect:tasks(Loop), Total end),
        {ok, #{tasks := Tasks}} = py_inspect:tasks(Loop),
        [Child] = [Each || #{id := Each, name := <<"child">>} <- Tasks],
        browsed(search, [Id, <<"nothing">>, <<"No task matches.">>]),
        browsed(cancel_task, [Id, iolist_to_binary(["task-", integer_to_list(Child)])]),
        ?assertEqual({error, cancelled}, py:await(Task))
    end).

a_stuck_loop_is_red_and_is_interrupted(_Config) ->
    with_loop(fun(Loop, Id) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, profiled, both_later_at_once, []),
        browsed(is_stuck, [Id, <<"spin">>]),
        browsed(keep, [Id, interrupt]),
        browsed(act, [Id, interrupt, <<"The callback is being interrupted.">>]),
        {error, Reason} = py:await(Task, 30_000),
        ?assertNotEqual(timeout, Reason),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, 1}, py_event_loop:run(Loop, asyncio, sleep, [0, 1]))
    end).

a_loop_is_restarted(_Config) ->
    Spec = py_event_loop:child_spec(#{name => restarted}),
    {ok, Supervisor} = supervisor:start_link(supervisor_of, {#{}, [Spec]}),
    Before = whereis(restarted),
    {ok, 1} = py_event_loop:run(restarted, asyncio, sleep, [0, 1]),
    {ok, #{id := Id}} = py_inspect:loop(restarted),
    browsed(act, [Id, restart, <<"The loop was ended">>]),
    eventually:is(true, fun() -> is_pid(whereis(restarted)) andalso whereis(restarted) =/= Before end),
    unlink(Supervisor),
    gen_server:stop(Supervisor).

flame_graph_and_recorder_open(_Config) ->
    with_loop(fun(Loop, Id) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, profiled, named, [<<"spinning">>]),
        browsed(flame_graph, [Id, <<"both_later">>]),
        {ok, _} = py:call(called, release, []),
        {ok, none} = py:await(Task),
        {ok, _} = py:call(called, hold, []),
        {ok, Blocks} = py_event_loop:submit(Loop, called, block_loop, []),
        eventually:passes(fun(Slow) -> Slow =/= [] end, fun() ->
            {ok, Events} = py_recorder:events(Loop),
            [Event || #{kind := slow_turn, stack := Stack} = Event <- Events, #{function := <<"block_loop">>} <- Stack]
        end),
        {ok, _} = py:call(called, release, []),
        {ok, _} = py:await(Blocks),
        browsed(recorder, [Id, <<"block_loop">>]),
        browsed(calls, [<<"profiled.named">>])
    end).

markup_in_a_name_is_text(_Config) ->
    with_loop(fun(Loop, Id) ->
        Name = <<"<img src=x onerror='window.broken=1'><script>window.broken=1</script>">>,
        {ok, Task} = py_event_loop:submit(Loop, inspected, named_child, [Name]),
        browsed(is_text, [Id, Name]),
        ok = py:cancel(Task),
        {error, cancelled} = py:await(Task)
    end).

it_fits_a_telephone(_Config) ->
    with_loop(fun(Loop, Id) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, named_child, [binary:copy(<<"long">>, 60)]),
        Number = integer_to_binary(Id),
        browsed(fits, [[<<"#/">>, <<"#/loop/", Number/binary>>, <<"#/calls">>, <<"#/profile">>, <<"#/recorder/", Number/binary>>]]),
        ok = py:cancel(Task),
        {error, cancelled} = py:await(Task)
    end).

a_wrong_token_shows_nothing(_Config) ->
    [Address, _] = string:split(py_dashboard:url(), "="),
    browsed(is_refused, [<<Address/binary, "=wrong">>]).

with_loop(Fun) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, #{id := Id}} = py_inspect:loop(Loop),
    try
        Fun(Loop, Id)
    after
        {ok, _} = py_event_loop:stop(Loop)
    end.

browsed(Function, Arguments) ->
    case py:call(browsed, Function, Arguments, #{}, 100_000) of
        {ok, Result} -> Result;
        {error, Reason} -> error({Function, Reason})
    end.
