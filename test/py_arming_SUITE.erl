%% @doc Which threads arm loops?
%%
%% From OTP 28 on `enif_select' must run on a scheduler thread: called again from any other thread it
%% reads a null pointer, and the node crashes. So a Python thread that goes to sleep, or closes its
%% loop, asks an Erlang process to call it. Here loops run on Python's threads and park for every
%% wait; calls of the two NIFs that lead to `enif_select' are traced, and NIFs are called by
%% processes only, which run on scheduler threads.
-module(py_arming_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    every_wait_of_a_shared_loop_is_armed_by_the_router/1,
    every_wait_of_an_isolated_loop_is_armed_by_its_worker/1,
    loops_that_threads_close_are_released_by_the_router/1
]).

%% Nothing here takes this long, however busy the machine.
-define(LOST_MS, 60_000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        every_wait_of_a_shared_loop_is_armed_by_the_router,
        every_wait_of_an_isolated_loop_is_armed_by_its_worker,
        loops_that_threads_close_are_released_by_the_router
    ].

init_per_suite(Config) ->
    ok = called:start(),
    ok = py:exec(<<"import arming">>),
    Config.

end_per_suite(_Config) ->
    called:stop().

init_per_testcase(_Case, Config) ->
    Patterns = [erlang:trace_pattern({py_nif, Name, 1}, true, [local]) || Name <- [loop_arm, loop_release]],
    ?assertEqual([1, 1], Patterns),
    leak_check:begin_case(Config).

end_per_testcase(_Case, Config) ->
    _ = erlang:trace_pattern({py_nif, '_', '_'}, false, [local]),
    called:end_case(Config).

every_wait_of_a_shared_loop_is_armed_by_the_router(_Config) ->
    Router = whereis(py_event_router),
    1 = erlang:trace(Router, true, [call]),
    Armers = write_when_armed(1000, false),
    1 = erlang:trace(Router, false, [call]),
    ?assertEqual([Router], lists:usort(Armers)).

every_wait_of_an_isolated_loop_is_armed_by_its_worker(_Config) ->
    ok = trace_workers(true),
    Armers = write_when_armed(1000, true),
    ok = trace_workers(false),
    ?assertMatch([_], lists:usort(Armers)),
    ?assertNot(lists:member(whereis(py_event_router), Armers)).

%% Isolated loops: each is armed by its own worker, so the test knows which loop was armed. What
%% releases is the router: the worker may be on its way out.
loops_that_threads_close_are_released_by_the_router(_Config) ->
    Router = whereis(py_event_router),
    1 = erlang:trace(Router, true, [call]),
    ok = trace_workers(true),
    _ = [
        begin
            [_Worker] = write_when_armed(1, true),
            ?assertEqual(Router, called_by(loop_release))
        end
     || _ <- lists:seq(1, 200)
    ],
    ok = trace_workers(false),
    1 = erlang:trace(Router, false, [call]).

%% A worker exists only as long as its loop: it is traced from its start.
trace_workers(How) ->
    1 = erlang:trace(whereis(py_event_worker_sup), How, [call, set_on_spawn]),
    ok.

%% A loop on a thread of Python's reads this many bytes. Each is written when the loop was armed:
%% so it sleeps, or is about to, and only the VM's poller can wake it. Who armed it.
write_when_armed(Count, Isolated) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {Reader, Monitor} = spawn_monitor(fun() ->
        exit(py:call(arming, take_bytes, [Read, Count, Isolated], #{}, infinity))
    end),
    Armers = [
        begin
            Armer = armed_by(Isolated),
            %% It has called; when it replies, it has armed.
            _ = sys:get_state(Armer),
            ok = py_nif:write_test_fd(Write, <<"x">>),
            Armer
        end
     || _ <- lists:seq(1, Count)
    ],
    receive
        {'DOWN', Monitor, process, Reader, Result} -> ?assertEqual({ok, Count}, Result)
    after ?LOST_MS -> ct:fail(a_byte_was_not_noticed)
    end,
    ok = py_nif:close_test_fd(Read),
    ok = py_nif:close_test_fd(Write),
    Armers.

%% The router arms other loops, too, and a worker only its own.
armed_by(Isolated) ->
    Router = whereis(py_event_router),
    case called_by(loop_arm) of
        Router when Isolated -> armed_by(Isolated);
        Armer -> Armer
    end.

called_by(Nif) ->
    receive
        {trace, Process, call, {py_nif, Nif, [_]}} -> Process
    after ?LOST_MS -> ct:fail({not_called, Nif})
    end.
