%% @doc Does a wake-up get lost?
%%
%% Many writers, many loops, random delays, and routers that are killed meanwhile. A reader that
%% waits for some seconds without being woken fails the test. The VM must not complain about an fd either.
-module(py_wakeup_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    every_write_arrives_while_routers_die/1,
    every_wakeup_ends_a_wait/1,
    every_timer_comes_while_the_queue_is_emptied/1,
    ten_thousand_fds_come_and_go/1
]).

%% Longer than any delay below by far: a thread that waits this long has lost its wake-up.
-define(LOST_MS, 15_000).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        every_write_arrives_while_routers_die,
        every_wakeup_ends_a_wait,
        every_timer_comes_while_the_queue_is_emptied,
        ten_thousand_fds_come_and_go
    ].

init_per_suite(Config) -> started:begin_suite(Config).
end_per_suite(_Config) -> started:end_suite().

init_per_testcase(_Case, Config) ->
    ok = log_watch:start(),
    leak_check:begin_case(Config).

end_per_testcase(_Case, Config) ->
    Complaints = [Text || Text <- log_watch:texts(), is_about_fds(Text)],
    ok = log_watch:stop(),
    case Complaints of
        [] -> leak_check:end_case(Config);
        _ -> {fail, {the_vm_complains, Complaints}}
    end.

%% The VM writes "Bad input fd in erts_poll()", "... stealing control of fd=7", "enif_select ...".
is_about_fds(Text) ->
    Words = ["fd=", " fd ", "enif_select", "driver_select", "stealing", "erts_poll"],
    lists:any(fun(Word) -> string:find(Text, Word) =/= nomatch end, Words).

every_write_arrives_while_routers_die(_Config) ->
    Loops = 24,
    Pipes = 8,
    Writes = 50,
    Killer = spawn_link(fun kill_node_router/0),
    {Time, _} = timer:tc(fun() ->
        together([fun() -> one_loop(Number, Pipes, Writes) end || Number <- lists:seq(1, Loops)])
    end),
    unlink(Killer),
    exit(Killer, kill),
    ct:pal("~p writes to ~p pipes of ~p loops in ~p ms", [
        Loops * Pipes * Writes, Loops * Pipes, Loops, Time div 1000
    ]).

%% A reader with its loop; each pipe has a writer that waits at random. A third of the loops have
%% a router of their own, which dies as well; a timer is always running.
one_loop(Number, Pipes, Writes) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Killer = [spawn_link(fun() -> kill_own_router(Loop) end) || Number rem 3 =:= 0],
    Reads = [watched_pipe(Loop, Writes) || _ <- lists:seq(1, Pipes)],
    {ok, _} = py_nif:call_later(Loop, 1, 0),
    ok = read_all(Loop, Pipes * Writes),
    _ = [unlink(Pid) || Pid <- Killer],
    _ = [exit(Pid, kill) || Pid <- Killer],
    ok = py_nif:event_loop_destroy(Loop),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- Reads].

watched_pipe(Loop, Writes) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    %% Callback ids are fds here; 0 is the timer's.
    {ok, _} = py_nif:add_reader(Loop, Read, Read),
    spawn_link(fun() ->
        _ = [write_later(Write) || _ <- lists:seq(1, Writes)],
        ok = py_nif:close_test_fd(Write)
    end),
    Read.

write_later(Write) ->
    receive
    after rand:uniform(40) -> ok = py_nif:write_test_fd(Write, <<"x">>)
    end.

read_all(_Loop, 0) ->
    ok;
read_all(Loop, Left) ->
    case py_nif:poll_events(Loop, ?LOST_MS) of
        0 -> error({lost, Left, py_nif:event_loop_info(Loop)});
        _ -> read_all(Loop, Left - lists:sum([took(Loop, E) || E <- py_nif:get_pending(Loop)]))
    end.

took(Loop, {0, timer}) ->
    {ok, _} = py_nif:call_later(Loop, rand:uniform(40), 0),
    0;
took(_Loop, {Read, read}) ->
    case py_nif:read_test_fd(Read, 100) of
        {ok, Data} -> byte_size(Data);
        {error, eagain} -> 0
    end.

%% No more often than the supervisor allows.
kill_node_router() ->
    receive
    after 350 + rand:uniform(200) -> ok
    end,
    _ = [exit(Pid, kill) || Pid <- [whereis(py_event_router)], is_pid(Pid)],
    kill_node_router().

kill_own_router(Loop) ->
    process_flag(trap_exit, true),
    {ok, Router} = py_event_router:start_link(Loop),
    receive
    after rand:uniform(60) -> exit(Router, kill)
    end,
    receive
        {'EXIT', Router, _} -> ok;
        {'EXIT', _, Reason} -> exit(Reason)
    end,
    kill_own_router(Loop).

every_wakeup_ends_a_wait(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Rounds = 20_000,
    Waker = spawn_link(fun() -> wake_again_and_again(Loop) end),
    _ = [
        begin
            Waker ! go,
            {Time, 0} = timer:tc(py_nif, poll_events, [Loop, ?LOST_MS]),
            ?assert(Time < ?LOST_MS * 1000)
        end
     || _ <- lists:seq(1, Rounds)
    ],
    unlink(Waker),
    exit(Waker, kill),
    ok = py_nif:event_loop_destroy(Loop).

wake_again_and_again(Loop) ->
    receive
        go -> ok
    end,
    ok = spin(rand:uniform(2000)),
    ok = py_nif:event_loop_wakeup(Loop),
    wake_again_and_again(Loop).

%% Keeps busy for a moment that no clock can give.
spin(0) -> ok;
spin(N) -> spin(N - 1).

%% One process waits, another one empties the queue at random moments: whatever it takes is
%% counted, and the waiting one must not be left behind with the rest.
every_timer_comes_while_the_queue_is_emptied(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Self = self(),
    Count = 3_000,
    spawn_link(fun() ->
        _ = [
            begin
                {ok, _} = py_nif:call_later(Loop, rand:uniform(30), N),
                N rem 10 =:= 0 andalso timer:sleep(1)
            end
         || N <- lists:seq(1, Count)
        ]
    end),
    Thief = spawn_link(fun() -> steal(Loop, Self) end),
    Seen = gather(Loop, Count, []),
    unlink(Thief),
    exit(Thief, kill),
    ?assertEqual(lists:seq(1, Count), lists:sort(Seen)),
    ok = py_nif:event_loop_destroy(Loop).

steal(Loop, To) ->
    To ! {stolen, [Id || {Id, timer} <- py_nif:get_pending(Loop)]},
    receive
    after rand:uniform(5) -> steal(Loop, To)
    end.

gather(_Loop, Count, Seen) when length(Seen) =:= Count ->
    Seen;
gather(Loop, Count, Seen) ->
    _ = py_nif:poll_events(Loop, 50),
    Own = [Id || {Id, timer} <- py_nif:get_pending(Loop)],
    Stolen = stolen(),
    gather(Loop, Count, Own ++ Stolen ++ Seen).

stolen() ->
    receive
        {stolen, Ids} -> Ids ++ stolen()
    after 0 -> []
    end.

%% Opened, watched, closed in every possible way, and their numbers reused at once, by loops that
%% come and go themselves.
ten_thousand_fds_come_and_go(_Config) ->
    Workers = 20,
    Rounds = 150,
    Killer = spawn_link(fun kill_node_router/0),
    {Time, Fds} = timer:tc(fun() ->
        lists:sum(together([fun() -> fd_worker(Rounds, 0) end || _ <- lists:seq(1, Workers)]))
    end),
    unlink(Killer),
    exit(Killer, kill),
    ct:pal("~p fds in ~p ms, complaints: ~p", [
        Fds, Time div 1000, [Text || Text <- log_watch:texts(), is_about_fds(Text)]
    ]),
    ?assert(Fds >= 10_000).

fd_worker(0, Fds) ->
    Fds;
fd_worker(Rounds, Fds) ->
    {ok, Loop} = py_nif:event_loop_new(),
    Pipes = [Pipe || _ <- lists:seq(1, 10), {ok, Pipe} <- [py_nif:create_test_pipe()]],
    Watched = [
        begin
            {ok, Reader} = py_nif:add_reader(Loop, Read, Read),
            ok = py_nif:write_test_fd(Write, <<"x">>),
            {Read, Write, Reader}
        end
     || {Read, Write} <- Pipes
    ],
    ok = read_all(Loop, length(Pipes)),
    _ = [close(rand:uniform(4), Loop, Each) || Each <- Watched],
    %% Some loops end with what they watch still there, some are left to the garbage collector.
    _ = [ok = py_nif:event_loop_destroy(Loop) || rand:uniform(3) > 1],
    fd_worker(Rounds - 1, Fds + 2 * length(Pipes)).

close(1, _Loop, {_, Write, Reader}) ->
    ok = py_nif:close_fd(Reader),
    ok = py_nif:close_test_fd(Write);
close(2, Loop, {Read, Write, Reader}) ->
    ok = py_nif:remove_reader(Loop, Reader),
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]];
close(3, _Loop, {Read, Write, _}) ->
    %% Without telling the loop.
    _ = [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]];
close(4, Loop, {Read, Write, Reader}) ->
    {ok, Writer} = py_nif:add_writer(Loop, Write, Write),
    ok = py_nif:stop_reader(Reader),
    ok = py_nif:close_fd(Writer),
    ok = py_nif:close_test_fd(Read),
    ok = py_nif:close_fd(Reader).

%% Runs all at the same time and returns their values.
together(Funs) ->
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), Fun()} end) || Fun <- Funs],
    [
        receive
            {Pid, Value} -> Value
        end
     || Pid <- Pids
    ].
