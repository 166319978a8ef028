%% @doc Can `py_nif' be loaded anew in a running node?
-module(py_reload_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    loops_survive_loading_the_module_twice/1,
    loops_survive_a_purge/1,
    a_process_that_waits_survives_loading_the_module/1
]).

all() ->
    [
        loops_survive_loading_the_module_twice,
        loops_survive_a_purge,
        a_process_that_waits_survives_loading_the_module
    ].

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    Config.

end_per_suite(_Config) ->
    ok = application:stop(erlang_loop).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

loops_survive_loading_the_module_twice(_Config) ->
    in_use(fun() -> [reload() || _ <- [1, 2]] end).

loops_survive_a_purge(_Config) ->
    in_use(fun() ->
        reload(),
        true = code:soft_purge(py_nif),
        reload(),
        _ = code:purge(py_nif)
    end).

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
