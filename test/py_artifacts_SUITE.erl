%% @doc Is a prebuilt library used where it fits, and does a node choose the one for its interpreter?
%%
%% Cases build in copies of what native/build needs, with a PATH that has no cargo.
-module(py_artifacts_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("kernel/include/file.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_prebuilt_library_needs_no_cargo_and_no_headers/1,
    a_prebuilt_library_is_copied_once/1,
    a_url_is_as_good_as_a_folder/1,
    a_wrong_checksum_is_refused/1,
    a_library_for_another_python_is_refused/1,
    a_library_for_a_newer_otp_is_refused/1,
    a_folder_that_does_not_exist_is_named/1,
    without_a_prebuilt_library_cargo_builds/1,
    the_settings_choose_the_library/1,
    an_interpreter_without_a_library_is_refused/1
]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        a_prebuilt_library_needs_no_cargo_and_no_headers,
        a_prebuilt_library_is_copied_once,
        a_url_is_as_good_as_a_folder,
        a_wrong_checksum_is_refused,
        a_library_for_another_python_is_refused,
        a_library_for_a_newer_otp_is_refused,
        a_folder_that_does_not_exist_is_named,
        without_a_prebuilt_library_cargo_builds,
        the_settings_choose_the_library,
        an_interpreter_without_a_library_is_refused
    ].

%% scripts/dist takes the library that is built already.
init_per_suite(Config) ->
    Dist = filename:join(?config(priv_dir, Config), "dist"),
    Target = os:getenv("CARGO_TARGET_DIR", project:file("target")),
    Env = [{"CARGO_TARGET_DIR", Target}, {"PYTHON", python()}, {"ERLANG_LOOP_PYTHONS", false}],
    {0, _} = run(project:root(), project:file("scripts/dist"), [Dist], Env),
    [{dist, Dist} | Config].

end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    %% The code server finds an application by the name of its folder.
    Copy = filename:join([?config(priv_dir, Config), Case, "erlang_loop"]),
    Names = [
        "native/build", "native/python_env", "native/python_info.py", "native/artifact.py",
        "native/py_nif/Cargo.toml", "erl_src/erlang_loop.app.src"
    ],
    lists:foreach(fun(Name) -> copy(project:file(Name), filename:join(Copy, Name)) end, Names),
    Beams = filelib:wildcard(filename:join(code:lib_dir(erlang_loop, ebin), "*")),
    [copy(Beam, filename:join([Copy, "ebin", filename:basename(Beam)])) || Beam <- Beams],
    ok = file:make_dir(filename:join(Copy, "priv")),
    ok = file:make_symlink(project:file("python"), filename:join(Copy, "priv/python")),
    [{copy, Copy} | Config].

end_per_testcase(_Case, _Config) -> ok.

a_prebuilt_library_needs_no_cargo_and_no_headers(Config) ->
    {0, ""} = build(Config, dist(Config), without_headers(Config)),
    ?assertEqual({0, "4.0"}, sqrt(Config, "")),
    ?assertNotEqual(nomatch, string:find(maps:get(artifact, info(Config)), "-nif2.16-")).

a_prebuilt_library_is_copied_once(Config) ->
    {0, ""} = build(Config, dist(Config), []),
    Before = library(Config),
    {0, ""} = build(Config, dist(Config), []),
    ?assertEqual(Before, library(Config)).

a_url_is_as_good_as_a_folder(Config) ->
    Server = server(Config, dist(Config)),
    {0, ""} = build(Config, Server, []),
    ?assertEqual({0, "4.0"}, sqrt(Config, "")),
    {1, Output} = build(Config, Server ++ "/nowhere", []),
    sentence(Output, "/nowhere/SHA256SUMS cannot be read: .*Not Found|File not found").

a_wrong_checksum_is_refused(Config) ->
    Dist = changed_dist(Config, fun(Sums) -> Sums end),
    [Library] = filelib:wildcard(filename:join(Dist, "*.so")),
    {ok, Bytes} = file:read_file(Library),
    ok = file:write_file(Library, [Bytes, 0]),
    {1, Output} = build(Config, Dist, []),
    sentence(Output, "the checksum of .* is not the one in SHA256SUMS, so it is not used"),
    %% Nothing half made, and the next build works.
    ?assertEqual(["python"], files(Config)),
    {0, ""} = build(Config, dist(Config), []).

a_library_for_another_python_is_refused(Config) ->
    #{tag := Tag} = py_python_choice:build_info(),
    Dist = changed_dist(Config, fun(Sums) -> string:replace(Sums, "-" ++ Tag ++ "-", "-cp39-") end),
    {1, Output} = build(Config, Dist, []),
    sentence(Output, "has no library for .*Python " ++ Tag ++ " and .*it has: erlang_loop-.*-cp39-").

a_library_for_a_newer_otp_is_refused(Config) ->
    Dist = changed_dist(Config, fun(Sums) -> string:replace(Sums, "-nif2.16-", "-nif2.99-") end),
    {1, Output} = build(Config, Dist, []),
    sentence(Output, "has no library for .*that of this Erlang/OTP.*it has: erlang_loop-.*-nif2.99-").

a_folder_that_does_not_exist_is_named(Config) ->
    {1, Output} = build(Config, "/nowhere", []),
    sentence(Output, "/nowhere/SHA256SUMS cannot be read: No such file or directory").

without_a_prebuilt_library_cargo_builds(Config) ->
    Bin = filename:join(?config(copy, Config), "cargo_bin"),
    Fake = "#!/bin/sh\nmkdir -p target/release && echo built >target/release/libpy_nif.so\n",
    ok = filelib:ensure_dir(filename:join(Bin, "cargo")),
    ok = file:write_file(filename:join(Bin, "cargo"), Fake),
    ok = file:change_mode(filename:join(Bin, "cargo"), 8#755),
    Path = Bin ++ ":" ++ os:getenv("PATH"),
    {0, Output} = build(Config, "/nowhere", [{"PATH", Path}, {"CARGO_TARGET_DIR", false}]),
    sentence(Output, "/nowhere/SHA256SUMS cannot be read"),
    {ok, <<"built\n">>} = file:read_file(filename:join(?config(copy, Config), "priv/py_nif.so")).

%% The library in priv/ is for another Python, as its build_info says, and cannot be loaded; that
%% for the interpreter in use has a folder of its own.
the_settings_choose_the_library(Config) ->
    two_libraries(Config),
    ?assertEqual({0, "4.0"}, sqrt(Config, "-erlang_loop python '\"" ++ python() ++ "\"'")),
    %% Without the setting it is the one in priv/.
    ?assertMatch({1, _}, sqrt(Config, "")).

an_interpreter_without_a_library_is_refused(Config) ->
    {0, ""} = build(Config, dist(Config), []),
    Other = filename:join(?config(copy, Config), "python3"),
    ok = file:write_file(Other, "#!/bin/sh\ncase \"$*\" in *cp%*) echo cp39;; *) echo 3.9;; esac\n"),
    ok = file:change_mode(Other, 8#755),
    {1, Output} = sqrt(Config, "-erlang_loop python '\"" ++ Other ++ "\"'"),
    ?assertMatch({match, _}, re:run(Output, "is Python 3.9, but erlang_loop was built with 3\\.")).

%% The pieces

dist(Config) -> ?config(dist, Config).

%% A copy in which names are others, in SHA256SUMS and of the files.
changed_dist(Config, Change) ->
    Dist = filename:join(?config(copy, Config), "dist"),
    lists:foreach(
        fun(File) ->
            Name = lists:flatten(Change(filename:basename(File))),
            copy(File, filename:join(Dist, Name))
        end,
        filelib:wildcard(filename:join(dist(Config), "*"))
    ),
    Sums = filename:join(Dist, "SHA256SUMS"),
    {ok, Text} = file:read_file(Sums),
    ok = file:write_file(Sums, Change(binary_to_list(Text))),
    Dist.

two_libraries(Config) ->
    {0, ""} = build(Config, dist(Config), []),
    Priv = filename:join(?config(copy, Config), "priv"),
    #{tag := Tag} = info(Config),
    Folder = filename:join(Priv, Tag),
    ok = file:make_dir(Folder),
    lists:foreach(
        fun(Name) -> ok = file:rename(filename:join(Priv, Name), filename:join(Folder, Name)) end,
        ["py_nif.so", "build_info"]
    ),
    ok = file:write_file(filename:join(Priv, "py_nif.so"), "not a library"),
    ok = file:write_file(filename:join(Priv, "build_info"),
        "{python, \"/nowhere/python3\"}.\n{python_version, \"3.9.1\"}.\n{tag, \"cp39\"}.\n").

build(Config, Source, Env) ->
    Copy = ?config(copy, Config),
    Defaults = [
        {"ERLANG_LOOP_ARTIFACTS", Source}, {"ERLANG_LOOP_PYTHONS", false}, {"PYTHON", python()},
        {"PATH", without_cargo(Config)}
    ],
    run(Copy, os:find_executable("sh"), ["native/build"], lists:ukeymerge(1, lists:keysort(1, Env), lists:keysort(1, Defaults))).

without_cargo(Config) ->
    Bin = filename:join(?config(copy, Config), "only"),
    Names = ["sh", "dirname", "mkdir", "sed", "rm", "mv", "cmp", "cat", "basename", "erl"],
    _ = [
        begin
            Link = filename:join(Bin, Name),
            ok = filelib:ensure_dir(Link),
            file:make_symlink(os:find_executable(Name), Link)
        end
     || Name <- Names
    ],
    Bin.

%% An interpreter whose headers are not installed.
without_headers(Config) ->
    Folder = filename:join(?config(copy, Config), "headless"),
    ok = filelib:ensure_dir(filename:join(Folder, "any")),
    Site = "import sysconfig\nget_paths = sysconfig.get_paths\n"
        "sysconfig.get_paths = lambda *args: {**get_paths(*args), 'include': '/nowhere'}\n",
    ok = file:write_file(filename:join(Folder, "sitecustomize.py"), Site),
    [{"PYTHONPATH", Folder}].

%% The result of a call, in a node of its own.
sqrt(Config, Flags) ->
    Code =
        "{ok, _} = application:ensure_all_started(erlang_loop),"
        "case py:call(math, sqrt, [16]) of"
        " {ok, Value} -> io:format(\"~p\", [Value]), halt();"
        " {error, Reason} -> io:put_chars(py:format_error(Reason)), halt(1)"
        "end.",
    Ebin = filename:join(?config(copy, Config), "ebin"),
    Command = ["exec erl -noshell -pa '", Ebin, "' ", Flags, " -eval '", Code, "'"],
    Env = [{"LD_LIBRARY_PATH", false}, {"ERL_CRASH_DUMP_SECONDS", "0"}, {"ERL_LIBS", false}],
    run(?config(copy, Config), os:find_executable("sh"), ["-c", lists:flatten(Command)], Env).

%% A web server of the standard library, until the test ends.
server(Config, Folder) ->
    Code =
        "import functools, http.server, sys\n"
        "handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), handler)\n"
        "print(server.server_port, flush=True)\n"
        "import threading; threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "sys.stdin.read()\n",
    Port = open_port({spawn_executable, python()}, [
        {args, ["-c", Code, Folder]}, {cd, ?config(copy, Config)}, {line, 100}, exit_status
    ]),
    receive
        {Port, {data, {eol, Number}}} -> "http://127.0.0.1:" ++ Number
    end.

sentence(Output, Pattern) ->
    Ours = [Line || "erlang_loop: " ++ _ = Line <- string:lexemes(Output, "\n")],
    ?assertMatch({match, _}, re:run(Ours, Pattern), Output),
    ?assertEqual(nomatch, string:find(Output, "Traceback")).

library(Config) ->
    {ok, Info} = file:read_file_info(filename:join(?config(copy, Config), "priv/py_nif.so")),
    {Info#file_info.inode, Info#file_info.mtime}.

files(Config) ->
    {ok, Names} = file:list_dir_all(filename:join(?config(copy, Config), "priv")),
    lists:sort(Names).

info(Config) ->
    {ok, Terms} = file:consult(filename:join(?config(copy, Config), "priv/build_info")),
    maps:from_list(Terms).

copy(From, To) ->
    ok = filelib:ensure_dir(To),
    {ok, #file_info{mode = Mode}} = file:read_file_info(From),
    {ok, _} = file:copy(From, To),
    ok = file:change_mode(To, Mode band 8#777).

python() -> maps:get(python, py_python_choice:build_info()).

run(Folder, Program, Args, Env) ->
    Port = open_port({spawn_executable, Program}, [
        {args, Args}, {cd, Folder}, {env, Env}, exit_status, stderr_to_stdout
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
