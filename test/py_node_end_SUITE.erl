%% @doc Does Python end in order with its node? Exit functions run, threads and child processes
%% end, and the process ends with the status it was given.
-module(py_node_end_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    init_stop_runs_exit_functions/1,
    init_stop_joins_threads_first/1,
    exit_functions_may_call_erlang/1,
    an_exit_function_that_raises_is_logged/1,
    threads_that_never_end_are_logged/1,
    a_timeout_of_0_runs_no_exit_functions/1,
    python_goes_on_while_only_the_application_stops/1,
    exit_functions_run_after_the_application_was_stopped/1,
    threads_that_never_end_after_the_application_was_stopped/1,
    pools_of_processes_end_with_the_node/1,
    exit_handlers_of_libraries_do_not_run/1,
    halt_while_loops_talk_tls/1
]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(Case, Config) ->
    Path = filename:join(?config(priv_dir, Config), Case),
    ok = file:write_file(Path, <<>>),
    [{path, Path} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

init_stop_runs_exit_functions(Config) ->
    {3, Printed} = node_runs(Config, [{register, path}], "init:stop(3)"),
    ?assertEqual(<<"main thread: True\n">>, written(Config)),
    ?assert(has(Printed, "printed at exit")),
    ?assert(has(Printed, "logged at exit")).

init_stop_joins_threads_first(Config) ->
    Started = [{register, path}, {start_thread, path}, {start_executor, path}],
    {0, _} = node_runs(Config, Started, "init:stop()"),
    ?assertEqual(<<"executor\nthread\nmain thread: True\n">>, written(Config)).

exit_functions_may_call_erlang(Config) ->
    {0, _} = node_runs(Config, [{register_call, path}], "init:stop()"),
    ?assertEqual(<<"[2, 1]\n">>, written(Config)).

an_exit_function_that_raises_is_logged(Config) ->
    {0, Printed} = node_runs(Config, [{register, path}, {register_error}], "init:stop()"),
    ?assert(has(Printed, "ZeroDivisionError")),
    ?assertEqual(<<"main thread: True\n">>, written(Config)).

threads_that_never_end_are_logged(Config) ->
    Started = [{register, path}, {start_endless_thread}],
    {4, Printed} = node_runs(Config, Started, "init:stop(4)", ["exit_timeout", "200"]),
    ?assert(has(Printed, "Python did not end within 200 ms")),
    %% The stack of the thread that waits for it.
    ?assert(has(Printed, "in _shutdown")),
    ?assertEqual(<<>>, written(Config)).

a_timeout_of_0_runs_no_exit_functions(Config) ->
    {0, ""} = node_runs(Config, [{register, path}], "init:stop()", ["exit_timeout", "0"]),
    ?assertEqual(<<>>, written(Config)).

python_goes_on_while_only_the_application_stops(Config) ->
    Ended =
        "ok = application:stop(erlang_loop),"
        "{ok, _} = application:ensure_all_started(erlang_loop),"
        "{ok, [_, _]} = py:call(ending, start_pool, [], #{}, 60000),"
        "halt(0)",
    {0, _} = node_runs(Config, [{register, path}], Ended),
    ?assertEqual(<<>>, written(Config)).

exit_functions_run_after_the_application_was_stopped(Config) ->
    _ = [
        begin
            ok = file:write_file(?config(path, Config), <<>>),
            {2, _} = node_runs(Config, [{register, path}, {start_thread, path}], [
                "ok = application:stop(erlang_loop), ", End
            ]),
            ?assertEqual(<<"thread\nmain thread: True\n">>, written(Config))
        end
     || End <- ["halt(2)", "init:stop(2)"]
    ],
    ok.

threads_that_never_end_after_the_application_was_stopped(Config) ->
    End = "ok = application:stop(erlang_loop), halt(2)",
    {2, Printed} = node_runs(Config, [{start_endless_thread}], End, ["exit_timeout", "200"]),
    ?assert(has(Printed, "Python did not end within 200ms")).

pools_of_processes_end_with_the_node(Config) ->
    _ = [pool_ends(Config, End) || End <- ["halt()", "init:stop()", stop_and("halt()")]],
    ok.

stop_and(End) ->
    "ok = application:stop(erlang_loop), " ++ End.

pool_ends(Config, End) ->
    Print = "{ok, Pids} = py:call(ending, start_pool, [], #{}, 60000), io:format(\"~w~n\", [Pids]), ",
    {0, Printed} = node_runs(Config, [], Print ++ End),
    %% multiprocessing's resource tracker may add what a pool has left behind.
    [Line | _] = string:split(Printed, "\n"),
    [_, _] = Pids = string:lexemes(Line, "[],"),
    eventually:is([], fun() -> [Pid || Pid <- Pids, runs(Pid)] end).

%% A zombie has ended: whose child it is now may take its time to notice.
runs(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/status") of
        {ok, Status} -> not has(Status, "State:\tZ");
        {error, _} -> false
    end.

exit_handlers_of_libraries_do_not_run(Config) ->
    _ = [
        ?assertEqual({7, ""}, node_runs(Config, [{abort_in_exit_handler}], End))
     || End <- ["halt(7)", "init:stop(7)"]
    ],
    ok.

halt_while_loops_talk_tls(Config) ->
    Talk =
        "_ = [begin"
        "         {ok, Loop} = py_event_loop:start_link(#{thread => own}),"
        "         {ok, _} = py_event_loop:run(Loop, ending, talk_tls, [], #{}, 60000)"
        "     end || _ <- [1, 2, 3]],"
        %% Anywhere in a handshake, or after it.
        "receive after 200 + rand:uniform(100) -> halt(7) end",
    _ = [?assertEqual({7, ""}, node_runs(Config, [], Talk)) || _ <- [1, 2, 3]],
    ok.

%% The pieces

%% A node calls these functions of ending.py and ends so: its status, and what it printed.
node_runs(Config, Functions, End) ->
    node_runs(Config, Functions, End, []).

node_runs(Config, Functions, End, Setting) ->
    Code = [
        "{ok, _} = application:ensure_all_started(erlang_loop), ",
        [call(Config, Function) || Function <- Functions],
        End,
        "."
    ],
    Support = io_lib:format("~p", [[project:file("test/support/python")]]),
    Args = ["-erlang_loop", "python_path", lists:flatten(Support) | Setting],
    other_node:run(lists:flatten(Code), Args).

call(_Config, {Function}) ->
    io_lib:format("{ok, _} = py:call(ending, ~p, []), ", [Function]);
call(Config, {Function, path}) ->
    Path = unicode:characters_to_binary(?config(path, Config)),
    io_lib:format("{ok, _} = py:call(ending, ~p, [~p]), ", [Function, Path]).

written(Config) ->
    {ok, Written} = file:read_file(?config(path, Config)),
    Written.

has(Text, Part) ->
    string:find(Text, Part) =/= nomatch.
