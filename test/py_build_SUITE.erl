%% @doc Does it build where users build it, and does it say what is wrong where it cannot?
%%
%% Each case runs rebar3 as a user would, in a folder of its own. This project is linked into that
%% folder and cargo's files are shared, so that nothing is compiled a second time.
-module(py_build_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("kernel/include/file.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    builds_in_checkouts_of_another_project/1,
    builds_as_mix_would_do_it/1,
    builds_nothing_twice/1,
    builds_for_this_cpu_and_back/1,
    shows_which_python_it_was_built_with/1,
    says_that_there_is_no_such_python/1,
    says_that_python_is_too_old/1,
    says_that_python_has_no_shared_library/1,
    says_that_the_library_is_not_installed/1,
    says_that_the_headers_are_not_installed/1,
    says_that_cargo_is_missing/1,
    says_that_otp_is_too_old/1
]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [
        builds_in_checkouts_of_another_project,
        builds_as_mix_would_do_it,
        builds_nothing_twice,
        builds_for_this_cpu_and_back,
        shows_which_python_it_was_built_with,
        says_that_there_is_no_such_python,
        says_that_python_is_too_old,
        says_that_python_has_no_shared_library,
        says_that_the_library_is_not_installed,
        says_that_the_headers_are_not_installed,
        says_that_cargo_is_missing,
        says_that_otp_is_too_old
    ].

init_per_testcase(Case, Config) ->
    Folder = filename:join(?config(priv_dir, Config), Case),
    ok = filelib:ensure_dir(filename:join(Folder, "any")),
    [{folder, Folder} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% Where it builds

builds_in_checkouts_of_another_project(Config) ->
    Parent = parent_project(Config),
    ?assertMatch({0, _}, rebar3(Parent, ["compile"], [])),
    ?assertEqual({0, "loaded"}, load(filename:join(Parent, "_build/default/checkouts"))).

builds_as_mix_would_do_it(Config) ->
    %% What `mix deps.compile` does: links priv/ into its own build folder, writes the
    %% configuration there, and calls `rebar3 bare compile` in the dependency's folder.
    Lib = filename:join(?config(folder, Config), "lib"),
    Out = filename:join(Lib, "erlang_loop"),
    RebarConfig = filename:join(Out, "mix.rebar.config"),
    ok = filelib:ensure_dir(RebarConfig),
    ok = file:make_symlink(project:file("priv"), filename:join(Out, "priv")),
    {ok, _} = file:copy(project:file("rebar.config"), RebarConfig),
    Env = [
        {"REBAR_BARE_COMPILER_OUTPUT_DIR", Out},
        {"REBAR_SKIP_PROJECT_PLUGINS", "true"},
        {"REBAR_CONFIG", RebarConfig},
        {"REBAR_PROFILE", "prod"}
    ],
    Paths = filename:join(Lib, "*/ebin"),
    ?assertMatch({0, _}, rebar3(project:root(), ["bare", "compile", "--paths", Paths], Env)),
    ?assertEqual({0, "loaded"}, load(Lib)).

builds_nothing_twice(_Config) ->
    ?assertMatch({0, _}, run(project:root(), "sh", ["native/build"], [])),
    Before = built_files(),
    ?assertMatch({0, _}, run(project:root(), "sh", ["native/build"], [])),
    ?assertEqual(Before, built_files()).

%% In a copy of what the build needs, with a cargo that writes its flags instead of a library.
builds_for_this_cpu_and_back(Config) ->
    Copy = filename:join(?config(folder, Config), "copy"),
    Cargo = filename:join(Copy, "bin/cargo"),
    ok = filelib:ensure_dir(Cargo),
    ok = file:make_dir(filename:join(Copy, "native")),
    lists:foreach(
        fun(Name) ->
            To = filename:join([Copy, "native", Name]),
            {ok, _} = file:copy(project:file("native/" ++ Name), To)
        end,
        ["build", "python_env", "python_info.py", "artifact.py"]
    ),
    Fake =
        "#!/bin/sh\nwhile [ \"$1\" != --target-dir ]; do shift; done\n"
        "mkdir -p \"$2/release\" && echo \"flags:$RUSTFLAGS\" >\"$2/release/libpy_nif.so\"\n",
    ok = file:write_file(Cargo, Fake),
    ok = file:change_mode(Cargo, 8#755),
    Built = fun(Perf) ->
        Env = [
            {"PATH", filename:dirname(Cargo) ++ ":" ++ os:getenv("PATH")},
            {"CARGO_TARGET_DIR", filename:join(Copy, "target")},
            {"RUSTFLAGS", ""},
            {"PERF_BUILD", Perf}
        ],
        ?assertMatch({0, _}, run(Copy, "sh", ["native/build"], Env)),
        {ok, Flags} = file:read_file(filename:join(Copy, "priv/py_nif.so")),
        Flags
    end,
    ?assertEqual(<<"flags:\n">>, Built("0")),
    ?assertEqual(<<"flags: -C target-cpu=native\n">>, Built("1")),
    ?assertEqual(<<"flags:\n">>, Built("0")).

shows_which_python_it_was_built_with(_Config) ->
    Info = build_info(),
    Code = "import sys; print('%d.%d.%d' % sys.version_info[:3], end='')",
    Python = proplists:get_value(python, Info),
    Version = proplists:get_value(python_version, Info),
    ?assertEqual({0, Version}, run(project:root(), Python, ["-c", Code], [])),
    ?assert(filelib:is_regular(proplists:get_value(libpython, Info))),
    ?assert(filelib:is_dir(proplists:get_value(base_prefix, Info))).

%% Where it cannot

says_that_there_is_no_such_python(Config) ->
    refused(Config, [{"PYTHON", "/nowhere/python3"}], "no Python at '/nowhere/python3'").

says_that_python_is_too_old(Config) ->
    Lie = "sys.version_info = (3, 8, 18, 'final', 0)",
    refused(Config, lying_python(Config, Lie), "Python 3.8 .* is too old").

says_that_python_has_no_shared_library(Config) ->
    Lie = "sysconfig.get_config_vars()['Py_ENABLE_SHARED'] = 0",
    refused(Config, lying_python(Config, Lie), "built without --enable-shared").

says_that_the_library_is_not_installed(Config) ->
    Lie = "sysconfig.get_config_vars()['LIBDIR'] = '/nowhere'",
    refused(Config, lying_python(Config, Lie), "lacks libpython.*: install libpython.*-dev").

says_that_the_headers_are_not_installed(Config) ->
    Lie =
        "get_paths = sysconfig.get_paths\n"
        "sysconfig.get_paths = lambda *args: {**get_paths(*args), 'include': '/nowhere'}",
    refused(Config, lying_python(Config, Lie), "lacks /nowhere/Python.h: install libpython.*-dev").

says_that_cargo_is_missing(Config) ->
    %% A PATH with the commands that are needed without cargo.
    Bin = ?config(folder, Config),
    [
        ok = file:make_symlink(os:find_executable(Name), filename:join(Bin, Name))
     || Name <- ["dirname", "rm"]
    ],
    Env = [{"PATH", Bin}, {"PYTHON", proplists:get_value(python, build_info())}],
    {1, Output} = run(project:root(), os:find_executable("sh"), ["native/build"], Env),
    one_sentence(Output, "cargo is not on the PATH").

says_that_otp_is_too_old(Config) ->
    %% The next OTP release is required, in a copy of the configuration.
    Parent = parent_project(Config),
    Copy = filename:join(Parent, "_checkouts/erlang_loop"),
    ok = file:delete(Copy),
    ok = file:make_dir(Copy),
    ok = file:make_symlink(project:file("erl_src"), filename:join(Copy, "erl_src")),
    {ok, Terms} = file:consult(project:file("rebar.config")),
    ?assertMatch({_, "25"}, lists:keyfind(minimum_otp_vsn, 1, Terms)),
    Next = integer_to_list(list_to_integer(erlang:system_info(otp_release)) + 1),
    write_terms(
        filename:join(Copy, "rebar.config"),
        lists:keystore(minimum_otp_vsn, 1, Terms, {minimum_otp_vsn, Next})
    ),
    {1, Output} = rebar3(Parent, ["compile"], []),
    ?assertMatch({match, _}, re:run(Output, "OTP release " ++ Next ++ " or later is required")).

%% The pieces

%% A project with one module that uses this one through _checkouts.
parent_project(Config) ->
    Parent = filename:join(?config(folder, Config), "parent"),
    Link = filename:join(Parent, "_checkouts/erlang_loop"),
    ok = filelib:ensure_dir(Link),
    ok = file:make_symlink(project:root(), Link),
    write_terms(filename:join(Parent, "rebar.config"), [{deps, [erlang_loop]}]),
    App = {application, parent, [
        {description, "A project that depends on erlang_loop"},
        {vsn, "1"},
        {applications, [kernel, stdlib, erlang_loop]}
    ]},
    write_terms(filename:join(Parent, "src/parent.app.src"), [App]),
    Parent.

%% An interpreter that runs `Lie` before anything else.
lying_python(Config, Lie) ->
    Folder = ?config(folder, Config),
    Python = filename:join(Folder, "python3"),
    True = proplists:get_value(python, build_info()),
    Site = ["import sys\nimport sysconfig\n\n", Lie, "\n"],
    ok = file:write_file(filename:join(Folder, "sitecustomize.py"), Site),
    Script = ["#!/bin/sh\nPYTHONPATH='", Folder, "' exec '", True, "' \"$@\"\n"],
    ok = file:write_file(Python, Script),
    ok = file:change_mode(Python, 8#755),
    [{"PYTHON", Python}].

%% The build ends with one sentence that matches, and leaves what was built before alone.
refused(Config, Env, Pattern) ->
    Before = built_files(),
    {1, Output} = rebar3(parent_project(Config), ["compile"], Env),
    one_sentence(Output, Pattern),
    ?assertEqual(Before, built_files()).

one_sentence(Output, Pattern) ->
    Ours = [Line || "erlang_loop: " ++ _ = Line <- string:lexemes(Output, "\n")],
    ?assertMatch([_], Ours, Output),
    ?assertMatch({match, _}, re:run(Ours, Pattern ++ ".*\\.$"), Ours),
    ?assertEqual(nomatch, string:find(Output, "Traceback")).

%% Loads the library in a node of its own, without any help in finding libpython.
load(Lib) ->
    [Ebin] = filelib:wildcard(filename:join(Lib, "erlang_loop/ebin")),
    Code = "{ok, _} = py_nif:event_loop_new(), io:put_chars(\"loaded\"), halt().",
    Env = [{"LD_LIBRARY_PATH", false}, {"ERL_CRASH_DUMP_SECONDS", "0"}],
    run(Lib, "erl", ["-noshell", "-pa", Ebin, "-eval", Code], Env).

%% What tells an untouched file from a new one: name, inode and time.
built_files() ->
    Files = filelib:wildcard(project:file("priv/*")),
    [
        {File, Info#file_info.inode, Info#file_info.mtime}
     || File <- Files, {ok, Info} <- [file:read_file_info(File)]
    ].

build_info() ->
    {ok, Terms} = file:consult(project:file("priv/build_info")),
    Terms.

write_terms(File, Terms) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, [io_lib:format("~tp.~n", [Term]) || Term <- Terms]).

rebar3(Folder, Args, Env) ->
    run(Folder, "rebar3", Args, Env).

%% Runs a program and returns {ExitCode, Output}, stderr included.
run(Folder, Program, Args, Env) ->
    Target = os:getenv("CARGO_TARGET_DIR", project:file("target")),
    Port = open_port({spawn_executable, os:find_executable(Program)}, [
        {args, Args},
        {cd, Folder},
        {env, [{"CARGO_TARGET_DIR", Target}, {"TERM", "dumb"} | Env]},
        exit_status,
        stderr_to_stdout
    ]),
    {Code, Output} = collect(Port, []),
    ct:pal("~ts ~0tp~n~ts", [Program, Args, Output]),
    {Code, Output}.

%% The program writes, then ends; the timetrap is for one that does not.
collect(Port, Output) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Output, Data]);
        {Port, {exit_status, Code}} -> {Code, lists:flatten(Output)}
    end.
