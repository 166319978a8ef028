%% @doc Does the doctor find what is wrong, and name the command that fixes it?
%%
%% Each case breaks a copy of the built project and runs `bin/erlang-loop --doctor' there.
-module(py_doctor_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    nothing_is_wrong/1,
    nothing_is_wrong_in_a_node/1,
    there_is_no_erlang/1,
    nothing_is_compiled/1,
    the_library_is_missing/1,
    the_library_is_truncated/1,
    the_library_is_of_another_version/1,
    libpython_is_missing/1,
    the_build_was_interrupted/1,
    the_interpreter_is_gone/1,
    the_interpreter_is_another_one_now/1,
    the_python_packages_are_missing/1,
    a_setting_is_wrong/1,
    the_venv_is_a_plain_folder/1,
    the_venv_has_lost_its_interpreter/1,
    the_venv_is_of_another_python/1,
    few_files_may_be_open/1,
    memory_is_limited/1,
    the_headers_are_missing/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        nothing_is_wrong,
        nothing_is_wrong_in_a_node,
        there_is_no_erlang,
        nothing_is_compiled,
        the_library_is_missing,
        the_library_is_truncated,
        the_library_is_of_another_version,
        libpython_is_missing,
        the_build_was_interrupted,
        the_interpreter_is_gone,
        the_interpreter_is_another_one_now,
        the_python_packages_are_missing,
        a_setting_is_wrong,
        the_venv_is_a_plain_folder,
        the_venv_has_lost_its_interpreter,
        the_venv_is_of_another_python,
        few_files_may_be_open,
        memory_is_limited,
        the_headers_are_missing
    ].

init_per_testcase(Case, Config) ->
    %% The code server finds an application by the name of its folder.
    Copy = filename:join([?config(priv_dir, Config), Case, "erlang_loop"]),
    [{copy, copy(Copy)} | Config].

end_per_testcase(_Case, _Config) -> ok.

nothing_is_wrong(Config) ->
    {0, Output} = doctor(Config, []),
    ?assertEqual([], faults(Output)),
    ?assertMatch({match, _}, re:run(Output, "\nok     Python was called: 3\\.")),
    ?assertMatch({match, _}, re:run(Output, "\nno faults\n$")).

nothing_is_wrong_in_a_node(_Config) ->
    ?assertEqual(ok, py_doctor:run()),
    ?assertEqual([], [Finding || {fault, _, _} = Finding <- py_doctor:check()]).

there_is_no_erlang(Config) ->
    Bin = file(Config, "only"),
    ok = file:make_dir(Bin),
    [
        ok = file:make_symlink(os:find_executable(Name), filename:join(Bin, Name))
     || Name <- ["sh", "readlink"]
    ],
    finds(Config, [{"PATH", Bin}], "erl is not on the PATH", "install Erlang/OTP 25 or newer").

nothing_is_compiled(Config) ->
    ok = file:del_dir_r(file(Config, "ebin")),
    ok = file:make_symlink(project:file("erl_src"), file(Config, "erl_src")),
    finds(Config, [], "the Erlang code of .* is not compiled", "rebar3 compile").

the_library_is_missing(Config) ->
    ok = file:delete(file(Config, "priv/py_nif.so")),
    finds(Config, [], "the native library .*/priv/py_nif.so is missing", "rebar3 compile").

the_library_is_truncated(Config) ->
    ok = edit(Config, "priv/py_nif.so", fun(Bytes) -> binary:part(Bytes, 0, 100_000) end),
    finds(Config, [], "py_nif.so is damaged", "rm .*/priv/py_nif.so && rebar3 compile").

%% As one that was built from older sources: a function has another name.
the_library_is_of_another_version(Config) ->
    ok = replace(Config, "priv/py_nif.so", <<"event_loop_count">>, <<"event_loop_tally">>),
    finds(Config, [], "or of another version than the Erlang code", "rm .*/priv/py_nif.so && rebar3").

%% The loader looks for a file that does not exist anywhere.
libpython_is_missing(Config) ->
    ok = replace(Config, "priv/py_nif.so", <<"libpython3">>, <<"libpython9">>),
    finds(Config, [], "does not find .*libpython3", "apt-get install libpython3\\.").

the_build_was_interrupted(Config) ->
    ok = edit(Config, "priv/build_info", fun(_) -> <<"{python, \"/usr">> end),
    finds(Config, [], "build_info is missing or damaged", "rebar3 compile").

the_interpreter_is_gone(Config) ->
    Python = file(Config, "python3"),
    ok = named_in_build_info(Config, Python),
    finds(Config, [], "does not exist or does not run", "build with another one: PYTHON=").

the_interpreter_is_another_one_now(Config) ->
    Python = other_python(Config, "python3"),
    ok = named_in_build_info(Config, Python),
    finds(Config, [], "is Python 3\\.9 now, and the library was built for 3\\.", "PYTHON=.*python3 rebar3").

%% A copy of the project that did not follow links.
the_python_packages_are_missing(Config) ->
    ok = file:delete(file(Config, "priv/python")),
    finds(Config, [], "the Python packages .* are not in", "copy the whole project").

a_setting_is_wrong(Config) ->
    Env = [{"ERL_FLAGS", "-erlang_loop call_threads 0"}],
    finds(Config, Env, "call_threads is 0, and must be an integer from 1", "docs/settings.md").

the_venv_is_a_plain_folder(Config) ->
    Env = [{"VIRTUAL_ENV", file(Config, "priv")}],
    Output = finds(Config, Env, "which is not a virtual environment", "-m venv /"),
    %% That would empty the folder.
    ?assertEqual(nomatch, string:find(Output, "--clear")).

the_venv_has_lost_its_interpreter(Config) ->
    Venv = file(Config, "venv"),
    Python = filename:join(Venv, "bin/python"),
    ok = filelib:ensure_dir(Python),
    ok = file:make_symlink(file(Config, "removed/python3"), Python),
    finds(Config, [{"VIRTUAL_ENV", Venv}], "the interpreter of the virtual environment", "-m venv --clear").

the_venv_is_of_another_python(Config) ->
    _ = other_python(Config, "venv/bin/python"),
    finds(
        Config, [{"VIRTUAL_ENV", file(Config, "venv")}], "has Python 3\\.9, and the library was built for",
        "-m venv --clear .*; or build for it: PYTHON="
    ).

few_files_may_be_open(Config) ->
    finds(Config, "ulimit -n 100", [], "may open 100 files", "ulimit -n 65536").

%% Enough for the VM to start.
memory_is_limited(Config) ->
    finds(Config, "ulimit -v 3000000", [], "may have 2929 MB of addresses", "MemoryMax=").

%% Needed for a build only: no fault of what is there.
the_headers_are_missing(Config) ->
    Site = "import sysconfig\nget_paths = sysconfig.get_paths\n"
        "sysconfig.get_paths = lambda *args: {**get_paths(*args), 'include': '/nowhere'}\n",
    ok = file:write_file(file(Config, "sitecustomize.py"), Site),
    {0, Output} = doctor(Config, [{"PYTHONPATH", file(Config, "")}]),
    Pattern = "\nnote   .*lacks /nowhere/Python.h\n       to fix it: install libpython3",
    ?assertMatch({match, _}, re:run(Output, Pattern), Output).

%% The pieces

%% What a build leaves, and what one needs first.
copy(Copy) ->
    Files = ["bin/erlang-loop", "native/python_info.py", "priv/py_nif.so", "priv/build_info"],
    lists:foreach(
        fun(Name) ->
            To = filename:join(Copy, Name),
            ok = filelib:ensure_dir(To),
            {ok, _} = file:copy(project:file(Name), To),
            ok = file:change_mode(To, 8#755)
        end,
        Files
    ),
    ok = file:make_symlink(project:file("python"), filename:join(Copy, "priv/python")),
    Ebin = filename:join(Copy, "ebin"),
    ok = file:make_dir(Ebin),
    [
        {ok, _} = file:copy(File, filename:join(Ebin, filename:basename(File)))
     || File <- filelib:wildcard(filename:join(code:lib_dir(erlang_loop, ebin), "*"))
    ],
    Copy.

file(Config, Name) -> filename:join(?config(copy, Config), Name).

edit(Config, Name, Change) ->
    {ok, Bytes} = file:read_file(file(Config, Name)),
    file:write_file(file(Config, Name), Change(Bytes)).

%% The same length, as nothing in the library may move.
replace(Config, Name, From, To) when byte_size(From) =:= byte_size(To) ->
    edit(Config, Name, fun(Bytes) -> binary:replace(Bytes, From, To, [global]) end).

named_in_build_info(Config, Python) ->
    {ok, Terms} = file:consult(file(Config, "priv/build_info")),
    Named = lists:keystore(python, 1, Terms, {python, Python}),
    Text = [io_lib:format("~tp.~n", [Term]) || Term <- Named],
    edit(Config, "priv/build_info", fun(_) -> Text end).

%% An interpreter that is Python 3.9, as far as a version goes.
other_python(Config, Name) ->
    Python = file(Config, Name),
    ok = filelib:ensure_dir(Python),
    ok = file:write_file(Python, "#!/bin/sh\necho 3.9\n"),
    ok = file:change_mode(Python, 8#755),
    Python.

finds(Config, Env, What, Fix) ->
    finds(Config, "true", Env, What, Fix).

%% One fault, which matches, with a command that matches; the exit code is 1.
finds(Config, Before, Env, What, Fix) ->
    {1, Output} = doctor(Config, Before, Env),
    [{Fault, Command} | _] = Faults = faults(Output),
    ?assertMatch({match, _}, re:run(Fault, What), Faults),
    ?assertMatch({match, _}, re:run(Command, Fix), Faults),
    ?assertMatch([_], Faults),
    ?assertEqual(nomatch, re:run(Output, "CRASH|SUPERVISOR|WARNING|{'EXIT'|Traceback")),
    Output.

faults(Output) ->
    Pattern = "FAULT  (.*)\n       to fix it: (.*)",
    case re:run(Output, Pattern, [global, {capture, all_but_first, list}]) of
        {match, Found} -> [{What, Fix} || [What, Fix] <- Found];
        nomatch -> []
    end.

doctor(Config, Env) -> doctor(Config, "true", Env).

doctor(Config, Before, Env) ->
    Script = Before ++ "; exec \"$0\" --doctor",
    Python = maps:get(python, py_python_choice:build_info()),
    Clean = [{"VIRTUAL_ENV", false}, {"PYTHON", Python}, {"ERL_LIBS", false}],
    Port = open_port({spawn_executable, os:find_executable("sh")}, [
        {args, ["-c", Script, file(Config, "bin/erlang-loop")]},
        {cd, ?config(copy, Config)},
        {env, Clean ++ Env},
        exit_status,
        stderr_to_stdout
    ]),
    {Status, Output} = collect(Port, []),
    ct:pal("~ts", [Output]),
    {Status, Output}.

%% The program writes, then ends; the timetrap is for one that does not.
collect(Port, Output) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Output, Data]);
        {Port, {exit_status, Status}} -> {Status, lists:flatten(Output)}
    end.
