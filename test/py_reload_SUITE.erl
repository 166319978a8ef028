%% @doc Can `py_nif' be loaded again in a running node?
-module(py_reload_SUITE).

-include_lib("stdlib/include/assert.hrl").

%% How often the module is unloaded.
-define(ROUNDS, 20).

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    loops_survive_loading_the_module_twice/1,
    loops_survive_a_purge/1,
    loops_survive_unloading_the_module/1,
    python_survives_unloading_the_module/1,
    parked_loops_survive_unloading_the_module/1,
    forking_works_after_unloading_the_module/1,
    python_survives_purges/1,
    a_process_that_waits_survives_loading_the_module/1
]).

all() ->
    [
        loops_survive_loading_the_module_twice,
        loops_survive_a_purge,
        loops_survive_unloading_the_module,
        python_survives_unloading_the_module,
        parked_loops_survive_unloading_the_module,
        forking_works_after_unloading_the_module,
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

%% References to a loop, an fd and a timer are of use after the module was unloaded.
loops_survive_unloading_the_module(_Config) ->
    in_use(fun() -> [unload() || _ <- lists:seq(1, ?ROUNDS)] end).

%% What was there before the first unload works in each round, and after the last: a loop, a
%% task, a stream, an actor, a Python object in a term, the default loop, call threads.
python_survives_unloading_the_module(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, tracked, [<<"x">>]),
    {ok, Actor} = py_actor:start_link(Loop, acting, server, []),
    {ok, Object} = py:eval(<<"__import__('erlang').Handle([])">>),
    lists:foreach(
        fun(Round) ->
            unload(),
            ok = py:demand(Stream, 1),
            receive
                {py_stream, Stream, News} -> ?assertEqual({data, Round - 1}, News)
            end,
            Actor ! {echo, self(), Round},
            receive
                {Actor, Echo} -> ?assertEqual(Round, Echo)
            end,
            ?assertEqual({ok, lists:seq(1, Round)}, py:call(operator, iadd, [Object, [Round]])),
            ?assertEqual({ok, Round}, py_event_loop:run(Loop, called, add_later, [Round, 0])),
            ?assertEqual({ok, Round}, py:call(called, add_later, [Round, 0])),
            ?assertEqual({ok, Round}, py:call(called, add, [Round, 0]))
        end,
        lists:seq(1, ?ROUNDS)
    ),
    Actor ! stop,
    ok = py:cancel(Stream),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

%% Loops of Python threads: the router keeps one, the other has a worker. Both hand every wait to
%% the VM, so each byte must wake them through the VM's poller.
parked_loops_survive_unloading_the_module(_Config) ->
    Router = whereis(py_event_router),
    Loops = [start_reading(Isolated) || Isolated <- [false, true]],
    lists:foreach(
        fun(_) ->
            unload(),
            [ok = py_nif:write_test_fd(Write, <<"x">>) || {_, _, Write} <- Loops],
            [ok = read_up(Read) || {_, Read, _} <- Loops]
        end,
        lists:seq(1, ?ROUNDS)
    ),
    lists:foreach(
        fun({Reader, Read, Write}) ->
            receive
                {Reader, Taken} -> ?assertEqual({ok, ?ROUNDS}, Taken)
            end,
            ok = py_nif:close_test_fd(Read),
            ok = py_nif:close_test_fd(Write)
        end,
        Loops
    ),
    ?assertEqual(Router, whereis(py_event_router)).

start_reading(Isolated) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    Self = self(),
    Reader = spawn_link(fun() ->
        Self ! {self(), py:call(arming, take_bytes, [Read, ?ROUNDS, Isolated], #{}, infinity)}
    end),
    {Reader, Read, Write}.

%% Until the loop has read the byte. (FIONREAD of Python, on a call thread.)
read_up(Read) ->
    Unread = <<"__import__('struct').unpack('i', __import__('fcntl').ioctl(fd, 0x541B, bytes(4)))[0]">>,
    eventually:is({ok, 0}, fun() -> py:eval(Unread, #{fd => Read}) end).

%% Handlers of `fork' are registered once: a thread that forks gets its signal mask back.
forking_works_after_unloading_the_module(_Config) ->
    Blocked = <<"len(__import__('signal').pthread_sigmask(0, []))">>,
    Fork = <<"(lambda os, pid: os.waitpid(pid, 0)[1] if pid else os._exit(0))"
             "(__import__('os'), __import__('os').fork())">>,
    unload(),
    {ok, Before} = py:eval(Blocked),
    ?assertEqual({ok, 0}, py:eval(Fork)),
    ?assertEqual({ok, Before}, py:eval(Blocked)).

%% Calls, a stream and a task that waits, while the module is loaded and purged again and again:
%% every result is right, and no process dies that has used the old code.
python_survives_purges(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
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

%% The VM forgets the module and the types of its references. The next call loads it again, in
%% this process or in another. If that is still loading it, the VM would delete the entries of
%% functions that are not there yet, and leave a module without functions: hence the wait.
unload() ->
    {module, py_nif} = code:ensure_loaded(py_nif),
    _ = code:purge(py_nif),
    true = code:delete(py_nif),
    _ = code:purge(py_nif),
    ok.

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
