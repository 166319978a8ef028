%% @doc Chooses the Python to embed: from the settings, and from what the build recorded in
%% `priv/build_info'. Used by `py_interpreter' and by scripts.
%%
%% An application may have libraries for several versions of Python (ERLANG_LOOP_PYTHONS in
%% native/build): `priv' itself has the one for the interpreter of the build, and folders like
%% `priv/cp313' have others. A node loads one of them, the first time that it needs `py_nif'.
-module(py_python_choice).

-include_lib("kernel/include/logger.hrl").

-export([settings/0, for_command/0, build_info/0]).
%% For py_env.
-export([interpreter/0]).
%% For py_doctor.
-export([version/1, build_info/1]).
%% For py_nif.
-export([choose_library/1]).

%% The folder that the library was loaded from.
-define(LIBRARY, {?MODULE, library}).

-type switch_interval() :: float() | undefined.

%% @doc The interpreter to embed, what goes in front of its `sys.path', its switch interval, whether
%% its default event loop is ours, and whether a crash shows its stacks; or a sentence that says which
%% setting is wrong.
-spec settings() ->
    {ok, {binary(), [binary()], switch_interval(), boolean(), boolean()}} | {error, binary()}.
settings() ->
    case {for_command(), executable(), py_settings:find(default_event_loop)} of
        {{ok, {Paths, Interval}}, {ok, Executable}, {ok, Default}} ->
            {ok, {Executable, Paths, Interval, Default, py_settings:value(faulthandler)}};
        {{error, Sentence}, _, _} ->
            {error, Sentence};
        {_, {error, Sentence}, _} ->
            {error, Sentence};
        {_, _, {error, Sentence}} ->
            {error, Sentence}
    end.

%% @doc The same without the interpreter, which `bin/erlang-loop' finds itself.
-spec for_command() -> {ok, {[binary()], switch_interval()}} | {error, binary()}.
for_command() ->
    case {py_settings:find(python_path), py_settings:find(switch_interval)} of
        {{ok, Paths}, {ok, Interval}} -> {ok, {with_own(Paths), seconds(Interval)}};
        {{error, Sentence}, _} -> {error, Sentence};
        {_, {error, Sentence}} -> {error, Sentence}
    end.

executable() ->
    case {py_settings:find(venv), py_settings:find(python)} of
        {{ok, undefined}, {ok, _}} -> with_packages(interpreter());
        {{ok, Venv}, {ok, _}} -> checked(venv, Venv, in_venv(Venv));
        {{error, Sentence}, _} -> {error, Sentence};
        {_, {error, Sentence}} -> {error, Sentence}
    end.

%% @private
%% @doc The interpreter itself, whatever packages it is to have.
-spec interpreter() -> {ok, binary()} | {error, binary()}.
interpreter() ->
    case py_settings:find(python) of
        {ok, undefined} ->
            #{python := Built} = build_info(),
            {ok, unicode:characters_to_binary(Built)};
        {ok, Python} ->
            checked(python, Python, found(Python));
        {error, Sentence} ->
            {error, Sentence}
    end.

%% That of the environment for `requirements' or `pyproject', which is built if it is not there.
with_packages({ok, Python}) ->
    case py_env:source() of
        {ok, undefined} ->
            {ok, Python};
        {ok, Source} ->
            case py_env:build(Source, Python) of
                {ok, Folder} -> {ok, in_venv(Folder)};
                {error, Sentence} -> {error, Sentence}
            end;
        {error, Sentence} ->
            {error, Sentence}
    end;
with_packages({error, Sentence}) ->
    {error, Sentence}.

%% A path, or a command on the PATH.
found(Python) ->
    case os:find_executable(unicode:characters_to_list(Python)) of
        false -> Python;
        Path -> unicode:characters_to_binary(Path)
    end.

%% Our entries come last of those in front of `sys.path'.
with_own(Paths) ->
    lists:foreach(fun warn_unless_there/1, Paths),
    Own = filename:join(code:priv_dir(erlang_loop), "python"),
    %% A wheel has them where pip puts packages.
    Paths ++ [unicode:characters_to_binary(Own) || filelib:is_dir(Own)].

%% Passed to Python unchanged: the folder may be created later, and an archive is valid, too.
warn_unless_there(Path) ->
    filelib:is_file(Path) orelse
        ?LOG_WARNING("python_path has ~ts, which does not exist: Python imports nothing from there", [
            Path
        ]),
    ok.

%% In Python's unit; the setting is in milliseconds.
seconds(undefined) -> undefined;
seconds(Milliseconds) -> Milliseconds / 1000.

%% @doc What the build recorded: `python', `python_version', `libpython'.
-spec build_info() -> #{atom() => string()}.
build_info() ->
    Folder = persistent_term:get(?LIBRARY, code:priv_dir(erlang_loop)),
    {ok, Info} = build_info(Folder),
    Info.

%% @private
-spec build_info(file:filename()) -> {ok, #{atom() => string()}} | {error, term()}.
build_info(Folder) ->
    case file:consult(filename:join(Folder, "build_info")) of
        {ok, Terms} -> {ok, with_interpreter(maps:from_list(Terms))};
        {error, Reason} -> {error, Reason}
    end.

%% A wheel is built for no particular interpreter: its command names the one that it belongs to.
with_interpreter(Info) ->
    case os:getenv("ERLANG_LOOP_PYTHON") of
        false -> Info;
        Python -> Info#{python => Python}
    end.

%% @private
%% @doc The folder of the library for the interpreter that the settings name, or the command line's
%% environment. If there is none, or no interpreter is named, that of the build.
-spec choose_library(file:filename()) -> file:filename().
choose_library(Priv) ->
    Chosen =
        case filelib:wildcard("cp*/build_info", Priv) of
            [] ->
                Priv;
            Others ->
                Folders = [Priv | [filename:join(Priv, filename:dirname(Info)) || Info <- Others]],
                Known = [{Tag, Folder} || Folder <- Folders, {ok, #{tag := Tag}} <- [build_info(Folder)]],
                first_known([tag(Python) || Python <- named_interpreters()], Known, Priv)
        end,
    ok = persistent_term:put(?LIBRARY, Chosen),
    Chosen.

first_known([], _Known, Priv) ->
    Priv;
first_known([Tag | Tags], Known, Priv) ->
    case lists:keyfind(Tag, 1, Known) of
        {Tag, Folder} -> Folder;
        false -> first_known(Tags, Known, Priv)
    end.

%% A wrong setting names none; starting Python reports it.
named_interpreters() ->
    Set =
        case {py_settings:find(venv), py_settings:find(python)} of
            {{ok, Venv}, _} when Venv =/= undefined -> [in_venv(Venv)];
            {_, {ok, Python}} when Python =/= undefined -> [found(Python)];
            _ -> []
        end,
    case application:get_env(erlang_loop, runs_command, false) of
        true -> [in_venv(Venv) || Venv <- [os:getenv("VIRTUAL_ENV")], Venv =/= false] ++ Set;
        false -> Set
    end.

in_venv(Venv) ->
    filename:absname(filename:join([Venv, "bin", "python"])).

%% What the build calls an interpreter: "cp313t".
tag(Executable) ->
    Code =
        "import sys, sysconfig; print('cp%d%d' % sys.version_info[:2]"
        " + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))",
    printed(Executable, Code).

%% A libpython only works with an interpreter of its own version: it would load another version's
%% standard library and fail in unexpected places.
checked(Setting, Value, Executable) ->
    #{python_version := Built} = build_info(),
    case {version(Executable), minor(Built)} of
        {{ok, Same}, Same} ->
            {ok, Executable};
        {{ok, Other}, Wanted} ->
            {error,
                sentence([
                    Executable, " is Python ", Other, ", but erlang_loop was built with ", Wanted,
                    ": build with PYTHON=", Executable, " or choose another."
                ])};
        {error, _} when Setting =:= venv ->
            {error,
                sentence([
                    "venv is ", Value, ", and must be the folder of a virtual environment: ",
                    Executable, " cannot be run as a Python interpreter."
                ])};
        {error, _} ->
            {error,
                sentence([
                    "python is ", Value, ", and must be a path or a command on the PATH: ",
                    Executable, " cannot be run as a Python interpreter."
                ])}
    end.

sentence(Parts) ->
    unicode:characters_to_binary(Parts).

minor(Version) ->
    [Major, Minor | _] = string:split(Version, ".", all),
    lists:flatten([Major, ".", Minor]).

%% @private
%% @doc The major and minor version of an interpreter, which is run for that.
-spec version(file:name_all()) -> {ok, string()} | error.
version(Executable) ->
    case printed(Executable, "import sys; print('%d.%d' % sys.version_info[:2])") of
        error -> error;
        Version -> {ok, Version}
    end.

%% What the interpreter prints for this code.
printed(Executable, Code) ->
    try open_port({spawn_executable, Executable}, [{args, ["-I", "-c", Code]}, exit_status]) of
        Port -> read(Port, "")
    catch
        error:_ -> error
    end.

%% The port sends data and then the exit status; a Python that hangs is stopped.
read(Port, Read) ->
    receive
        {Port, {data, Data}} -> read(Port, Read ++ Data);
        {Port, {exit_status, 0}} -> string:trim(Read);
        {Port, {exit_status, _}} -> error
    after 20_000 ->
        port_close(Port),
        error
    end.
