%% @doc Can `py_nif' be loaded anew in a running node?
-module(py_reload_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    loops_survive_loading_the_module_twice/1,
    loops_survive_a_purge/1,
    python_survives_purges/1,
    a_process_that_waits_survives_loading_the_module/1
]).

all() ->
    [
        loops_survive_loading_the_module_twice,
        loops_survive_a_purge,
        python_survives_purges,
        a_process_that_waits_survives_loading_the_module
    ].

init_per_suite(Config) -> streams:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> called:end_case(Config).

loops_survive_loading_the_module_twice(_Config) ->
    in_use(fun() -> [reload() || _ <- [1, 2]] end).

loops_survive_a_purge(_Config) ->
    in_use(fun() ->
        reload(),
        true = code:soft_purge(py_nif),
        reload(),
        _ = code:purge(py_nif)
    end).

%% Calls, a stream and a task that waits, while the module is loaded and purged again and again:
%% every answer is right, and nobody dies who had anything to do with the old code.
python_survives_purges(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_for_ever, [<<"x">>]),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, tracked, [<<"x">>]),
    Callers = [spawn_monitor(fun() -> call_until_told(N, Loop) end) || N <- lists:seq(1, 10)],
    lists:foreach(
        fun(Item) ->
            ok = py:demand(Stream, 1),
            receive
                {py_stream, Stream, News} -> ?assertEqual({data, Item}, News)
            end,
            reload()
        end,
        lists:seq(0, 49)
    ),
    _ = [
        begin
            Caller ! stop,
            receive
                {'DOWN', Monitor, _, _, Reason} -> ?assertEqual(normal, Reason)
            end
        end
     || {Caller, Monitor} <- Callers
    ],
    ok = py:cancel(Stream),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

call_until_told(N, Loop) ->
    {ok, N} = py:call(called, add, [N, 0], #{}, 60_000),
    {ok, N} = py_event_loop:run(Loop, called, add_later, [N, 0], #{}, 60_000),
    receive
        stop -> ok
    after 0 -> call_until_told(N, Loop)
    end.

%% A wait in poll_events/2 is in the old code then: one reload is fine, the purge before a
%% second one would end it, as for any process in old code.
a_process_that_waits_survives_loading_the_module(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Self = self(),
    Waiting = spawn_link(fun() -> Self ! {self(), py_nif:poll_events(Loop, infinity)} end),
    eventually:is({status, waiting}, fun() -> process_info(Waiting, status) end),
    reload(),
    ?assertEqual(false, code:soft_purge(py_nif)),
    {ok, _} = py_nif:call_later(Loop, 10, 1),
    receive
        {Waiting, Answer} -> ?assertEqual(1, Answer)
    after 5000 -> error(still_waiting)
    end,
    ok = py_nif:event_loop_destroy(Loop).

%% What `l(py_nif)' does in a shell.
reload() ->
    _ = code:purge(py_nif),
    {module, py_nif} = code:load_file(py_nif).

%% A loop with a watch and two timers works before and after, and so do new ones.
in_use(Reload) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Reader} = py_nif:add_reader(Loop, Read, 1),
    {ok, _} = py_nif:call_later(Loop, 100, 2),
    {ok, Never} = py_nif:call_later(Loop, 3_600_000, 3),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    Before = py_nif:event_loop_count(),
    Reload(),
    ?assertEqual(Before, py_nif:event_loop_count()),
    ok = loop_events:await(Loop, [{1, read}, {2, timer}]),
    {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
    ok = py_nif:cancel_timer(Loop, Never),
    ?assertMatch({ok, #{timers := 0, fds := 1}}, py_nif:event_loop_info(Loop)),
    ok = py_nif:close_fd(Reader),
    ok = py_nif:close_test_fd(Write),
    {ok, New} = py_nif:event_loop_new(),
    _ = [ok = py_nif:event_loop_destroy(Each) || Each <- [Loop, New]].
