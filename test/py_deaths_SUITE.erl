%% @doc What if a process dies at this moment? Every process that a loop depends on, killed in every phase
%% of a loop's life.
%%
%% When a loop is killed, its callers get `loop_down'; the death of any other process changes
%% nothing for the loop: it does what it was about to do. Deaths at random are in py_faults_SUITE,
%% what each death leads to in py_supervision_SUITE and py_supervision_of_python_SUITE.
-module(py_deaths_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    the_loop/1,
    the_router/1,
    the_watchdog/1,
    the_calls_process/1,
    the_interpreter_process/1,
    the_signals_process/1,
    the_output_process/1,
    the_logger_process/1,
    the_worker_supervisor/1,
    the_supervisor_of_the_default_loop/1,
    the_caller/1,
    during_the_init_code/1
]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(_Case, Config) ->
    %% Started again, so that earlier deaths do not count.
    _ = application:stop(erlang_loop),
    called:begin_case(streams:begin_suite(Config)).

end_per_testcase(_Case, Config) -> streams:end_case(Config).

the_loop(_Config) ->
    in_every_phase(killed, fun mortal:kill/1).

the_router(_Config) -> dies(py_event_router).
the_watchdog(_Config) -> dies(py_watchdog).
the_calls_process(_Config) -> dies(py_calls).
the_interpreter_process(_Config) -> dies(py_interpreter).
the_signals_process(_Config) -> dies(py_signals).
the_output_process(_Config) -> dies(py_output).
the_logger_process(_Config) -> dies(py_logger).
the_worker_supervisor(_Config) -> dies(py_event_worker_sup).
the_supervisor_of_the_default_loop(_Config) -> dies(py_event_loop_sup).

dies(Name) ->
    in_every_phase(alive, fun(_Loop) -> mortal:kill_registered(Name) end).

%% A process with requests of every kind; they end with it.
the_caller(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    Self = self(),
    {Caller, Monitor} = spawn_monitor(fun() ->
        _ = [{ok, _} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]) || _ <- [1, 2]],
        {ok, _} = py_event_loop:stream(Loop, streamed, tracked, [<<"x">>], #{}, #{demand => 1}),
        receive
            {py_stream, _, {data, 0}} -> ok
        end,
        called:has_noted(<<"x started">>),
        Self ! begun,
        receive
            stop -> ok
        end
    end),
    receive
        begun -> exit(Caller, kill)
    end,
    receive
        {'DOWN', Monitor, _, _, killed} -> ok
    end,
    eventually:is({ok, 0}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

%% The loop's process, and the one that starts it: both while its init code runs.
during_the_init_code(_Config) ->
    _ = [
        begin
            {ok, _} = py:call(called, hold, []),
            {Starter, Monitor} = spawn_monitor(fun() ->
                exit(py_event_loop:start_link(#{init => <<"import called; called.block()">>}))
            end),
            called:is_blocked(),
            {links, [Loop]} = process_info(Starter, links),
            exit(maps:get(Victim, #{loop => Loop, starter => Starter}), kill),
            receive
                {'DOWN', Monitor, _, _, Reason} -> ?assertEqual(killed, Reason)
            end,
            {ok, _} = py:call(called, release, []),
            eventually:is(false, fun() -> is_process_alive(Loop) end),
            ?assertEqual({error, loop_down}, py_event_loop:run(Loop, called, add_later, [1, 2])),
            %% So that the next round does not mistake this one's thread for its own.
            eventually:is({ok, false}, fun() -> py:call(called, is_blocked, []) end)
        end
     || Victim <- [loop, starter]
    ],
    ok.

%% The phases

%% Each begins something on a fresh loop and returns a fun that checks the outcome.
phases() ->
    [
        {fresh, fun fresh/1},
        {first_requests, fun first_requests/1},
        {idle, fun idle/1},
        {waiting, fun waiting/1},
        {busy, fun busy/1},
        {streaming, fun streaming/1},
        {ending, fun ending/1},
        {ended, fun ended/1}
    ].

in_every_phase(Outcome, Kill) ->
    _ = process_flag(trap_exit, true),
    lists:foreach(
        fun({Name, Begin}) ->
            ct:log("~p", [Name]),
            {ok, Loop} = py_event_loop:start_link(#{}),
            Look = Begin(Loop),
            _ = Kill(Loop),
            Look(Outcome),
            _ = Outcome =:= alive andalso py_event_loop:stop(Loop),
            receive
                {'EXIT', Loop, _} -> ok
            end,
            ?assertEqual({error, loop_down}, py_event_loop:run(Loop, called, add_later, [1, 2]))
        end,
        phases()
    ).

%% No request yet: it has no thread and no fd.
fresh(Loop) ->
    fun(Outcome) -> works(Outcome, Loop) end.

%% A thread is just being assigned to it.
first_requests(Loop) ->
    Tasks = [
        {N, element(2, {ok, _} = py_event_loop:submit(Loop, called, add_later, [N, 1]))}
     || N <- lists:seq(1, 20)
    ],
    fun(Outcome) ->
        _ = [
            case {Outcome, py:await(Task)} of
                {_, {ok, Sum}} -> ?assertEqual(N + 1, Sum);
                {killed, Answer} -> ?assertEqual({error, loop_down}, Answer)
            end
         || {N, Task} <- Tasks
        ],
        works(Outcome, Loop)
    end.

%% Its thread sleeps, and the VM watches for it.
idle(Loop) ->
    {ok, 3} = py_event_loop:run(Loop, called, add_later, [1, 2]),
    fun(Outcome) -> works(Outcome, Loop) end.

waiting(Loop) ->
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    called:has_noted(<<"x started">>),
    fun
        (killed) ->
            ?assertEqual({error, loop_down}, py:await(Task)),
            called:has_noted(<<"x cancelled">>);
        (alive) ->
            works(alive, Loop),
            ok = py:cancel(Task),
            ?assertEqual({error, cancelled}, py:await(Task))
    end.

%% A callback blocks it.
busy(Loop) ->
    {ok, _} = py:call(called, hold, []),
    {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
    {ok, Behind} = py_event_loop:submit(Loop, called, add_later, [1, 2]),
    called:is_blocked(),
    fun
        (killed) ->
            ?assertEqual({error, loop_down}, py:await(Task)),
            ?assertEqual({error, loop_down}, py:await(Behind)),
            {ok, _} = py:call(called, release, []);
        (alive) ->
            {ok, _} = py:call(called, release, []),
            ?assertEqual({ok, <<"released">>}, py:await(Task)),
            ?assertEqual({ok, 3}, py:await(Behind))
    end.

streaming(Loop) ->
    Options = #{demand => 1},
    {ok, Stream} = py_event_loop:stream(Loop, streamed, tracked, [<<"x">>], #{}, Options),
    ?assertEqual({data, 0}, next_of(Stream)),
    fun
        (killed) ->
            ?assertEqual({error, loop_down}, next_of(Stream));
        (alive) ->
            ok = py:demand(Stream, 1),
            ?assertEqual({data, 1}, next_of(Stream)),
            ok = py:cancel(Stream)
    end.

next_of(Stream) ->
    receive
        {py_stream, Stream, News} -> News
    end.

%% A process stops it, and a task takes a while to end.
ending(Loop) ->
    {ok, _} = py:call(called, none_arrived, []),
    {ok, Task} = py_event_loop:submit(Loop, called, meet_at_the_end, [<<"x">>, 1000]),
    called:has_noted(<<"x started">>),
    {Stopper, Monitor} = spawn_monitor(fun() -> exit({stopped, py_event_loop:stop(Loop)}) end),
    eventually:is({ok, true}, fun() -> py:eval("__import__('called')._arrived == 1") end),
    fun(Outcome) ->
        %% It goes on.
        {ok, _} = py:call(called, all_arrived, []),
        Stopped =
            receive
                {'DOWN', Monitor, _, Stopper, {stopped, Answer}} -> Answer
            end,
        ?assertEqual({Outcome, stopped(Outcome)}, {Outcome, Stopped}),
        ?assertEqual({error, answered(Outcome)}, py:await(Task)),
        called:has_noted(<<"x met">>)
    end.

stopped(killed) -> {error, noproc};
stopped(alive) -> {ok, []}.

answered(killed) -> loop_down;
answered(alive) -> cancelled.

ended(Loop) ->
    {ok, []} = py_event_loop:stop(Loop),
    fun(_) -> ok end.

works(killed, Loop) ->
    ?assertEqual({error, loop_down}, py_event_loop:run(Loop, called, add_later, [1, 2]));
works(alive, Loop) ->
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])).
