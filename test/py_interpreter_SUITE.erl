%% @doc Does Python come up, as the settings say, and does the node end well with it?
%%
%% Python starts once in a node, so each case has a node of its own.
-module(py_interpreter_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    python_starts_when_first_needed/1,
    python_starts_with_the_application/1,
    many_processes_start_it_at_once/1,
    a_virtual_environment_is_used/1,
    python_path_comes_first/1,
    a_crash_leaves_the_python_stacks_behind/1,
    a_crash_leaves_nothing_behind_if_so_set/1,
    threads_take_turns_as_often_as_set/1,
    a_wrong_setting_is_one_sentence_and_can_be_fixed/1,
    another_version_is_refused_in_one_sentence/1,
    a_wrong_setting_does_not_stop_the_application/1,
    ssl_numpy_and_asyncio_can_be_imported/1,
    libpython_is_global/1,
    sys_executable_is_an_interpreter/1,
    children_have_their_exit_codes/1,
    signals_are_left_to_the_vm/1,
    programs_run_on_the_main_thread_one_after_another/1,
    asyncios_default_loop_is_ours/1,
    asyncios_own_loop_is_the_default_if_set/1,
    asyncio_and_the_package_are_imported_side_by_side/1,
    no_call_thread_is_pythons_main_thread/1,
    an_exception_is_returned_with_its_traceback/1,
    a_dead_caller_does_not_affect_others/1,
    init_stop_ends_the_node/1,
    halt_ends_the_node/1,
    halt_ends_the_node_while_python_starts/1,
    sigterm_ends_the_node/1,
    the_application_stops_and_starts_while_python_runs/1
]).
%% Called in another node.
-export([eventually_running/0, ask_together/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_testcase(Case, Config) ->
    Folder = filename:join(?config(priv_dir, Config), Case),
    ok = filelib:ensure_path(Folder),
    leak_check:begin_case([{folder, Folder} | Config]).

end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

%% Starting

python_starts_when_first_needed(_Config) ->
    with_node([], fun(Call) ->
        ?assertEqual(false, Call(py_nif, python_running, [])),
        ?assertEqual(ok, Call(py_interpreter, ensure_started, [])),
        ?assertEqual(ok, Call(py_interpreter, ensure_started, [])),
        ?assertEqual(true, Call(py_nif, python_running, [])),
        #{python_version := Built} = py_python_choice:build_info(),
        Version = maps:get(<<"version">>, describe(Call)),
        ?assertEqual(0, string:str(Built, binary_to_list(Version) ++ ".") - 1)
    end).

python_starts_with_the_application(_Config) ->
    with_node([{start_python, true}], fun(Call) ->
        ?assertEqual(true, Call(?MODULE, eventually_running, []))
    end).

eventually_running() ->
    ok = eventually:is(true, fun py_nif:python_running/0),
    true.

many_processes_start_it_at_once(_Config) ->
    with_node([], fun(Call) ->
        ?assertEqual(ok, Call(?MODULE, ask_together, [100, ok]))
    end).

ask_together(Count, Expected) ->
    Self = self(),
    _ = [
        spawn_link(fun() -> Self ! {answer, py_interpreter:ensure_started()} end)
     || _ <- lists:seq(1, Count)
    ],
    [
        receive
            {answer, Answer} -> ?assertEqual(Expected, Answer)
        end
     || _ <- lists:seq(1, Count)
    ],
    Expected.

%% Settings

a_virtual_environment_is_used(Config) ->
    Venv = make_venv(Config),
    [Site] = filelib:wildcard(filename:join(Venv, "lib/python3.*/site-packages")),
    ok = file:write_file(filename:join(Site, "only_there.py"), "answer = 42\n"),
    with_node([{venv, Venv}], fun(Call) ->
        File = unicode:characters_to_binary(filename:join(Site, "only_there.py")),
        ?assertEqual({ok, File}, probe(Call, import_all, ["only_there"])),
        #{<<"prefix">> := Prefix, <<"base_prefix">> := Base} = describe(Call),
        ?assertEqual(unicode:characters_to_binary(Venv), Prefix),
        ?assertNotEqual(Prefix, Base)
    end).

a_crash_leaves_the_python_stacks_behind(_Config) ->
    {Status, Printed} = called:run_in_node("py:call(called, crash, [])"),
    ?assertNotEqual(0, Status),
    has(Printed, "Fatal Python error: Segmentation fault"),
    has(Printed, "called.py\", line "),
    has(Printed, "in crash").

a_crash_leaves_nothing_behind_if_so_set(_Config) ->
    Before = "ok = application:set_env(erlang_loop, faulthandler, false)",
    {Status, Printed} = called:run_in_node(Before, "py:call(called, crash, [])"),
    ?assertNotEqual(0, Status),
    ?assertEqual(nomatch, string:find(Printed, "in crash"), Printed).

has(Printed, Text) ->
    ?assertNotEqual(nomatch, string:find(Printed, Text), Printed).

python_path_comes_first(Config) ->
    Folder = ?config(folder, Config),
    ok = file:write_file(filename:join(Folder, "colorsys.py"), "mine = True\n"),
    with_node([{python_path, [Folder, support()]}], fun(Call) ->
        File = unicode:characters_to_binary(filename:join(Folder, "colorsys.py")),
        ?assertEqual({ok, File}, probe(Call, import_all, ["colorsys"])),
        [First, Second | _] = maps:get(<<"path">>, describe(Call)),
        ?assertEqual(
            [Folder, support()], [unicode:characters_to_list(P) || P <- [First, Second]]
        )
    end).

threads_take_turns_as_often_as_set(_Config) ->
    Interval = fun(Env) ->
        with_node(Env, fun(Call) -> Call(py, call, [sys, getswitchinterval, []]) end)
    end,
    ?assertEqual({ok, 0.005}, Interval([])),
    ?assertEqual({ok, 0.0005}, Interval([{switch_interval, 0.5}])),
    ?assertEqual({ok, 0.002}, Interval([{switch_interval, 2}])).

a_wrong_setting_is_one_sentence_and_can_be_fixed(Config) ->
    Folder = ?config(folder, Config),
    with_node([], fun(Call) ->
        Set = fun(Key, Value) -> Call(application, set_env, [erlang_loop, Key, Value]) end,
        _ = [
            begin
                ok = Set(Key, Value),
                {error, Sentence} = Call(py_interpreter, ensure_started, []),
                ?assertEqual(Sentence, element(2, probe(Call, pid, []))),
                one_sentence(Sentence, Wrong),
                ok = Set(Key, undefined)
            end
         || {Wrong, Settings} <- [
                {"cannot be run as a Python interpreter", [
                    {python, "/nowhere/python3"},
                    {python, Folder},
                    {python, os:find_executable("false")},
                    {python, <<"no_such_command">>},
                    {venv, Folder}
                ]},
                {"must be 0.001 to 10000 milliseconds", [
                    {switch_interval, 0}, {switch_interval, "5"}, {switch_interval, 10_001}
                ]}
            ],
            {Key, Value} <- Settings
        ],
        ?assertEqual(ok, Call(py_interpreter, ensure_started, []))
    end).

another_version_is_refused_in_one_sentence(Config) ->
    Python = filename:join(?config(folder, Config), "python3"),
    ok = file:write_file(Python, "#!/bin/sh\necho 2.7\n"),
    ok = file:change_mode(Python, 8#755),
    with_node([{python, Python}], fun(Call) ->
        {error, Sentence} = Call(py_interpreter, ensure_started, []),
        one_sentence(Sentence, "is Python 2.7, but erlang_loop was built with 3")
    end).

a_wrong_setting_does_not_stop_the_application(_Config) ->
    with_node([{python, "/nowhere/python3"}, {start_python, true}], fun(Call) ->
        ?assertMatch({error, _}, Call(py_interpreter, ensure_started, [])),
        ?assertMatch({ok, _}, Call(py_event_loop, get_loop, []))
    end).

one_sentence(Binary, Pattern) ->
    ?assertMatch({match, _}, re:run(Binary, "^[^\n]*" ++ Pattern ++ "[^\n]*\\.$"), Binary).

%% What works in it

ssl_numpy_and_asyncio_can_be_imported(_Config) ->
    case project:venv() of
        none ->
            {skip, "no .venv: `make test` makes it"};
        {ok, Venv} ->
            with_node([{venv, Venv}], fun(Call) ->
                {ok, Numpy} = probe(Call, import_all, ["ssl", "asyncio", "sqlite3", "numpy"]),
                ?assertNotEqual(nomatch, string:find(Numpy, ".venv")),
                ?assertEqual({ok, 45}, probe(Call, add_with_numpy, [])),
                ?assertEqual({ok, <<"OpenSSL">>}, probe(Call, hash_with_ssl, []))
            end)
    end.

libpython_is_global(_Config) ->
    with_node([], fun(Call) ->
        ?assertEqual({ok, 1}, probe(Call, is_libpython_global, []))
    end).

sys_executable_is_an_interpreter(_Config) ->
    with_node([], fun(Call) ->
        #{<<"version">> := Version, <<"executable">> := Executable} = describe(Call),
        ?assert(filelib:is_regular(Executable)),
        Code = "import sys; print('%d.%d' % sys.version_info[:2], end='')",
        ?assertEqual({ok, Version}, probe(Call, output_of, [Code]))
    end).

%% The VM ignores SIGCHLD when it starts, and then every child seems to exit with 0.
children_have_their_exit_codes(_Config) ->
    with_node([], fun(Call) ->
        ?assertEqual({ok, 7}, probe(Call, exit_code_of, ["raise SystemExit(7)"])),
        ?assertEqual({ok, 0}, probe(Call, exit_code_of, [""])),
        Kill = "import os; os.kill(os.getpid(), 9)",
        ?assertEqual({ok, -9}, probe(Call, exit_code_of, [Kill])),
        %% Ports still have theirs.
        ?assertEqual("hello\n3\n", Call(os, cmd, ["echo hello; sh -c 'exit 3'; echo $?"]))
    end).

signals_are_left_to_the_vm(_Config) ->
    with_node([], fun(Call) ->
        ?assertEqual({ok, <<>>}, probe(Call, signal_handlers, []))
    end).

programs_run_on_the_main_thread_one_after_another(_Config) ->
    with_node([], fun(Call) ->
        ?assertMatch(#{<<"main_thread">> := true}, describe(Call)),
        {ok, Pid} = probe(Call, pid, []),
        ?assertEqual(integer_to_list(Pid), Call(os, getpid, [])),
        ?assertEqual({ok, undefined}, probe(Call, remember, [<<"äöü€"/utf8>>])),
        ?assertEqual({ok, <<"äöü€"/utf8>>}, probe(Call, recall, []))
    end).

%% As under bin/erlang-loop.
asyncios_default_loop_is_ours(_Config) ->
    with_node([], fun(Call) ->
        Ours = <<"ErlangEventLoop">>,
        %% Nothing pays for asyncio before it is imported.
        NotYet = [<<"'asyncio' in __import__('sys').modules">>],
        ?assertEqual({ok, false}, Call(py, eval, NotYet)),
        OnMain = Call(py_interpreter, run, [<<"default_loop">>, <<"of_the_main_thread">>, []]),
        ?assert(lists:member(OnMain, [{ok, Ours}, {ok, <<"none">>}])),
        ?assertEqual({ok, [Ours, Ours, Ours]}, Call(py, call, [default_loop, kinds, []])),
        ?assertEqual(
            {ok, <<"_UnixSelectorEventLoop">>}, Call(py, call, [default_loop, chosen, []])
        ),
        ok = Call(py, exec, [
            "import asyncio\n"
            "async def main():\n"
            "    return type(asyncio.get_running_loop()).__name__\n"
            "name = asyncio.run(main())\n"
        ]),
        ?assertEqual({ok, Ours}, Call(py, eval, [<<"name">>]))
    end).

asyncios_own_loop_is_the_default_if_set(_Config) ->
    with_node([{default_event_loop, false}], fun(Call) ->
        Own = <<"_UnixSelectorEventLoop">>,
        ?assertEqual({ok, [Own, Own, Own]}, Call(py, call, [default_loop, kinds, []])),
        %% Requests from Erlang still run on our loops.
        Type = <<"type(__import__('asyncio').get_running_loop()).__name__">>,
        ok = Call(py, exec, [["async def kind(): return ", Type]]),
        ?assertEqual({ok, <<"ErlangEventLoop">>}, Call(py, eval, [<<"kind()">>]))
    end).

asyncio_and_the_package_are_imported_side_by_side(_Config) ->
    with_node([], fun(Call) ->
        Ours = <<"ErlangEventLoop">>,
        Imported = Call(py, call, [default_loop, import_side_by_side, []]),
        ?assertEqual({ok, [Ours, Ours, Ours]}, Imported)
    end).

%% Servers ask this before they set signal handlers. The first call in the node imports threading.
no_call_thread_is_pythons_main_thread(Config) ->
    %% In a fresh environment nothing else imports it at the start.
    with_node([{venv, make_venv(Config)}], fun(Call) ->
        Main = <<"__import__('threading').main_thread().ident">>,
        {ok, Ident} = Call(py, eval, [Main]),
        Run = Call(py_interpreter, run, [<<"threading">>, <<"get_ident">>, []]),
        ?assertEqual({ok, Ident}, Run)
    end).

an_exception_is_returned_with_its_traceback(_Config) ->
    with_node([], fun(Call) ->
        {error, Traceback} = probe(Call, fail, ["on purpose"]),
        ?assertNotEqual(nomatch, string:find(Traceback, "Traceback (most recent call last)")),
        ?assertNotEqual(nomatch, string:find(Traceback, "ValueError: on purpose")),
        ?assertMatch({error, _}, probe(Call, no_such_function, [])),
        ?assertMatch({error, _}, Call(py_interpreter, run, [<<"no_such_module">>, <<"f">>, []])),
        ?assertMatch({ok, _}, probe(Call, pid, []))
    end).

a_dead_caller_does_not_affect_others(_Config) ->
    with_node([], fun(Call) ->
        ok = Call(py_interpreter, ensure_started, []),
        Caller = Call(erlang, spawn, [
            py_interpreter, run, [<<"node_probe">>, <<"sleep">>, [<<"0.2">>]]
        ]),
        true = Call(erlang, exit, [Caller, kill]),
        ?assertMatch({ok, _}, probe(Call, pid, []))
    end).

%% The end of the node. Python has threads then, busy and sleeping, daemons and others.

init_stop_ends_the_node(_Config) ->
    %% Some of the threads are not daemons, and never end.
    "running" ++ Logged = ends("init:stop().", 0),
    ?assertNotEqual(nomatch, string:find(Logged, "Python did not end within 100 ms")),
    no_crash(Logged),
    _ = ends("init:stop(3).", 3),
    ok.

halt_ends_the_node(_Config) ->
    "running" = ends("halt().", 0),
    "running" = ends("halt(4).", 4),
    %% What was printed may be lost then.
    {5, Printed} = other_node:run(with_threads("halt(5, [{flush, false}])."), python_path_args()),
    no_crash(Printed).

halt_ends_the_node_while_python_starts(_Config) ->
    Code =
        "{ok, _} = application:ensure_all_started(erlang_loop), "
        "spawn(py_interpreter, ensure_started, []), "
        "(fun Wait() -> py_nif:python_running() orelse Wait() end)(), "
        "io:put_chars(\"starting\"), halt(6).",
    ?assertEqual({6, "starting"}, other_node:run(Code)).

sigterm_ends_the_node(_Config) ->
    Code = with_threads("os:cmd(\"kill -TERM \" ++ os:getpid())."),
    {0, Printed} = other_node:run(Code, python_path_args()),
    ?assertMatch("running" ++ _, Printed),
    ?assertNotEqual(nomatch, string:find(Printed, "SIGTERM received")),
    no_crash(Printed).

the_application_stops_and_starts_while_python_runs(_Config) ->
    with_node([], fun(Call) ->
        {ok, Threads} = probe(Call, start_threads, ["4"]),
        {ok, _} = probe(Call, remember, ["it"]),
        _ = [
            begin
                ok = Call(application, stop, [erlang_loop]),
                ?assertMatch({ok, _}, Call(application, ensure_all_started, [erlang_loop])),
                ?assertEqual({ok, <<"it">>}, probe(Call, recall, []))
            end
         || _ <- [1, 2, 3]
        ],
        ?assert(Threads >= 5)
    end).

ends(End, Status) ->
    {Time, {Exit, Printed}} = timer:tc(fun() ->
        other_node:run(with_threads(End), python_path_args() ++ ["exit_timeout", "100"])
    end),
    ct:pal("~ts: status ~p after ~p ms", [End, Exit, Time div 1000]),
    ?assertEqual(Status, Exit),
    Printed.

with_threads(End) ->
    "{ok, _} = application:ensure_all_started(erlang_loop), "
    "{ok, _} = py_interpreter:run(<<\"node_probe\">>, <<\"start_threads\">>, [<<\"8\">>]), "
    "io:put_chars(\"running\"), " ++ End.

python_path_args() ->
    ["-erlang_loop", "python_path", lists:flatten(io_lib:format("~p", [[support()]]))].

no_crash(Printed) ->
    Words = ["Segmentation", "core dumped", "panicked", "Fatal Python error", "crash"],
    ?assertEqual([], [Word || Word <- Words, string:find(Printed, Word) =/= nomatch]).

%% The pieces

%% A node with the application started. Fun gets a function to call others in it.
with_node(Env, Fun) ->
    Node = other_node:start([{python_path, [support()]} | Env]),
    Call = fun(Module, Function, Args) -> other_node:call(Node, Module, Function, Args) end,
    {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
    try
        Fun(Call)
    after
        ok = other_node:stop(Node)
    end.

support() ->
    project:file("test/support/python").

probe(Call, Function, Args) ->
    Texts = [unicode:characters_to_binary(Arg) || Arg <- Args],
    Call(py_interpreter, run, [<<"node_probe">>, atom_to_binary(Function), Texts]).

describe(Call) ->
    {ok, Text} = probe(Call, describe, []),
    read_json(Text).

%% There is no JSON in this OTP; what `describe' writes is close to Erlang's terms.
read_json(Text) ->
    Rules = [
        {"\"(([^\"\\\\]|\\\\.)*)\"", "<<\"\\1\"/utf8>>"}, {": ", " => "}, {"^\\{", "#{"}
    ],
    Term = lists:foldl(
        fun({From, To}, T) -> re:replace(T, From, To, [global, unicode, {return, list}]) end,
        Text,
        Rules
    ),
    {ok, Tokens, _} = erl_scan:string(Term ++ "."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    {value, Map, _} = erl_eval:exprs(Exprs, []),
    Map.

make_venv(Config) ->
    Venv = filename:join(?config(folder, Config), "venv"),
    #{python := Python} = py_python_choice:build_info(),
    "" = os:cmd(lists:join(" ", [Python, "-m venv --without-pip", Venv])),
    Venv.
