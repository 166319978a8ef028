%% @doc Does a list of packages become an environment, once, and never half of one?
%%
%% The packages come from a folder: no case needs a network.
-module(py_env_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    it_is_built_once_and_found_again/1,
    python_starts_with_it/1,
    two_builds_at_once_are_one/1,
    what_is_wrong_is_one_sentence_and_the_next_try_works/1,
    an_interrupted_build_leaves_no_lock/1,
    a_command_builds_it_for_a_release/1
]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    %% One more attempt without a network, which pip reports.
    true = os:putenv("PIP_RETRIES", "1"),
    true = os:putenv("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    _ = application:load(erlang_loop),
    Config.

end_per_suite(_Config) ->
    true = os:unsetenv("PIP_RETRIES"),
    true = os:unsetenv("PIP_DISABLE_PIP_VERSION_CHECK").

init_per_testcase(Case, Config) ->
    Folder = filename:join(?config(priv_dir, Config), Case),
    ok = filelib:ensure_path(Folder),
    package(Folder),
    requires(Folder, "--no-index\n--find-links .\ngreeting==1.0\n"),
    set(#{requirements => in(Folder, "requirements.txt"), environments => in(Folder, "made")}),
    [{folder, Folder} | Config].

end_per_testcase(_Case, _Config) ->
    set(#{requirements => undefined, pyproject => undefined, environments => undefined}).

it_is_built_once_and_found_again(Config) ->
    Folder = ?config(folder, Config),
    ?assertEqual({ok, []}, py_env:list()),
    {ok, Place} = py_env:build(),
    ?assertMatch([_], filelib:wildcard(str(Place) ++ "/lib/python3*/site-packages/greeting.py")),
    ?assertMatch({ok, [#{folder := Place, current := true}]}, py_env:list()),
    %% The package index is gone.
    ok = file:delete(in(Folder, "greeting-1.0-py3-none-any.whl")),
    ?assertEqual({ok, Place}, py_env:build()),
    %% Scripts name the place where the environment is, not where it was built.
    {ok, Script} = file:read_file(in(str(Place), "bin/greet")),
    ?assertNotEqual(nomatch, binary:match(Script, <<Place/binary, "/bin/python">>)),
    requires(Folder, "--no-index\n"),
    {ok, Other} = py_env:build(),
    ?assertNotEqual(Place, Other),
    {ok, Both} = py_env:list(),
    ?assertEqual(lists:sort([{Place, false}, {Other, true}]),
        lists:sort([{F, C} || #{folder := F, current := C} <- Both])),
    ?assertEqual({ok, [Place]}, py_env:clean()),
    ?assertMatch({ok, [#{folder := Other}]}, py_env:list()).

python_starts_with_it(Config) ->
    Folder = ?config(folder, Config),
    ok = file:write_file(in(Folder, "pyproject.toml"), [
        "[project]\nname = 'program'\nversion = '1'\n",
        "dependencies = ['greeting @ file://", Folder, "/greeting-1.0-py3-none-any.whl']\n"
    ]),
    Env = [{pyproject, in(Folder, "pyproject.toml")}, {environments, in(Folder, "made")}],
    Node = other_node:start(Env),
    try
        {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
        ?assertEqual({ok, <<"hello">>}, other_node:call(Node, py, call, [greeting, hello, [], #{}, infinity]))
    after
        other_node:stop(Node)
    end.

two_builds_at_once_are_one(_Config) ->
    Builds = [spawn_monitor(fun() -> exit({built, py_env:build()}) end) || _ <- [1, 2]],
    Results = [
        receive
            {'DOWN', Monitor, process, _, Reason} -> Reason
        end
     || {_, Monitor} <- Builds
    ],
    {ok, [#{folder := Place}]} = py_env:list(),
    ?assertEqual([{built, {ok, Place}}, {built, {ok, Place}}], Results).

what_is_wrong_is_one_sentence_and_the_next_try_works(Config) ->
    Folder = ?config(folder, Config),
    Good = "--no-index\n--find-links .\ngreeting==1.0\n",
    Wrong = fun(Pattern) ->
        {error, Sentence} = py_env:build(),
        Expected = "^[^\n]*" ++ Pattern ++ "[^\n]*\\.$",
        ?assertMatch({match, _}, re:run(Sentence, Expected), Sentence),
        ?assertEqual([], filelib:wildcard(in(Folder, "made/*.unfinished")))
    end,
    %% Packages that are not there, and an index that is not.
    requires(Folder, "--no-index\ngreeting==7.0\n"),
    Wrong("requirements.txt cannot be installed: .*greeting==7.0"),
    requires(Folder, "--index-url http://127.0.0.1:9/\ngreeting==1.0\n"),
    Wrong("cannot be installed: the package index cannot be reached"),
    requires(Folder, "not a requirement\n"),
    Wrong("requirements.txt cannot be installed: .*not a requirement"),
    %% Files and folders.
    ok = file:delete(in(Folder, "requirements.txt")),
    Wrong("requirements.txt: No such file or directory"),
    requires(Folder, Good),
    set(#{environments => in(Folder, "requirements.txt/made")}),
    Wrong("Not a directory"),
    set(#{environments => "/proc/made"}),
    Wrong("/proc/made: No such file or directory"),
    set(#{environments => in(Folder, "made")}),
    %% Settings and pyproject.toml.
    set(#{pyproject => in(Folder, "pyproject.toml")}),
    Wrong("both set"),
    set(#{requirements => undefined}),
    ok = file:write_file(in(Folder, "pyproject.toml"), "[project\n"),
    Wrong("pyproject.toml is not valid TOML"),
    ok = file:write_file(in(Folder, "pyproject.toml"), "[project]\ndynamic = ['dependencies']\n"),
    Wrong("dependencies are dynamic"),
    set(#{pyproject => undefined}),
    Wrong("Neither"),
    set(#{requirements => {priv, no_such_application, "requirements.txt"}}),
    Wrong("requirements is {priv,no_such_application"),
    set(#{requirements => in(Folder, "requirements.txt")}),
    ?assertMatch({ok, _}, py_env:build()).

%% The index accepts the connection and never replies. The process that builds is killed meanwhile.
an_interrupted_build_leaves_no_lock(Config) ->
    Folder = ?config(folder, Config),
    {ok, Listener} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    Address = "http://127.0.0.1:" ++ integer_to_list(Port) ++ "/",
    requires(Folder, ["--index-url ", Address, "\ngreeting==1.0\n"]),
    {Builder, Monitor} = spawn_monitor(fun() -> py_env:build() end),
    {ok, Asks} = gen_tcp:accept(Listener),
    ?assertMatch([_], filelib:wildcard(in(Folder, "made/*.unfinished"))),
    exit(Builder, kill),
    receive
        {'DOWN', Monitor, process, _, killed} -> ok
    end,
    %% pip is ended, too: it would wait for a reply.
    receive
        {tcp_closed, Asks} -> ok
    end,
    ok = gen_tcp:close(Listener),
    {error, Sentence} = py_env:build(),
    ?assertMatch({match, _}, re:run(Sentence, "cannot be reached")),
    ?assertEqual([], filelib:wildcard(in(Folder, "made/*.unfinished"))).

a_command_builds_it_for_a_release(Config) ->
    Folder = ?config(folder, Config),
    Command = fun(Arguments) ->
        other_node:run("py_env:main().", ["--" | Arguments])
    end,
    {Code, Printed} = Command(["requirements", in(Folder, "requirements.txt"), in(Folder, "made")]),
    {ok, Place} = py_env:build(),
    ?assertEqual(0, Code, Printed),
    ?assertNotEqual(nomatch, string:find(Printed, Place)),
    ?assertNotEqual(nomatch, string:find(Printed, "py_env: building the environment of")),
    ?assertMatch({1, "erlang_loop: The arguments are" ++ _}, Command(["requirements"])).

%% Files

in(Folder, Name) -> filename:join(Folder, Name).

str(Binary) -> unicode:characters_to_list(Binary).

requires(Folder, Lines) ->
    ok = file:write_file(in(Folder, "requirements.txt"), Lines).

set(Settings) ->
    maps:foreach(fun(Key, Value) -> application:set_env(erlang_loop, Key, Value) end, Settings).

%% A wheel.
package(Folder) ->
    Info = "greeting-1.0.dist-info/",
    Files = [
        {"greeting.py", "def hello():\n    return 'hello'\n"},
        {Info ++ "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"},
        {Info ++ "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
        {Info ++ "entry_points.txt", "[console_scripts]\ngreet = greeting:hello\n"},
        {Info ++ "RECORD", ""}
    ],
    {ok, _} = zip:create(
        in(Folder, "greeting-1.0-py3-none-any.whl"),
        [{Name, list_to_binary(Text)} || {Name, Text} <- Files]
    ),
    ok.
