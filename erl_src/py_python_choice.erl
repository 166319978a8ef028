%% @doc Which Python is embedded: reads the application environment and what the build noted in
%% `priv/build_info'. Used by `py_interpreter' and by scripts that want to know.
-module(py_python_choice).

-export([settings/0, paths/0, switch_interval/0, build_info/0]).

-type switch_interval() :: float() | undefined.

%% @doc The interpreter to embed, what goes in front of its `sys.path' and its switch interval; or a
%% sentence that says what is wrong with the settings.
-spec settings() -> {ok, {binary(), [binary()], switch_interval()}} | {error, binary()}.
settings() ->
    case {switch_interval(), executable()} of
        {{ok, Interval}, {ok, Executable}} -> {ok, {Executable, paths(), Interval}};
        {{error, Reason}, _} -> {error, Reason};
        {_, {error, Reason}} -> {error, Reason}
    end.

executable() ->
    #{python := Built} = build_info(),
    case {env(venv), env(python)} of
        {undefined, undefined} -> {ok, to_binary(Built)};
        {undefined, Python} -> checked(found(Python));
        {Venv, _} -> checked(to_binary(filename:absname(filename:join([Venv, "bin", "python"]))))
    end.

%% A path, or a command on the PATH.
found(Python) ->
    case os:find_executable(unicode:characters_to_list(Python)) of
        false -> to_binary(Python);
        Path -> to_binary(Path)
    end.

%% @doc What goes in front of `sys.path'.
-spec paths() -> [binary()].
paths() ->
    Own = filename:join(code:priv_dir(erlang_loop), "python"),
    [to_binary(Path) || Path <- application:get_env(erlang_loop, python_path, []) ++ [Own]].

%% @doc In seconds, as Python has it; the setting is in milliseconds.
-spec switch_interval() -> {ok, switch_interval()} | {error, binary()}.
switch_interval() ->
    case env(switch_interval) of
        undefined ->
            {ok, undefined};
        Ms when is_number(Ms), Ms >= 0.001, Ms =< 10_000 ->
            {ok, Ms / 1000};
        Wrong ->
            Text = io_lib:format(
                "switch_interval is ~0p, and must be 0.001 to 10000 milliseconds.", [Wrong]
            ),
            {error, unicode:characters_to_binary(Text)}
    end.

%% @doc What the build noted: `python', `python_version', `libpython'.
-spec build_info() -> #{atom() => string()}.
build_info() ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(erlang_loop), "build_info")),
    maps:from_list(Terms).

%% A libpython can only serve an interpreter of its own version: another one's standard library
%% would be loaded into it and fail in odd places.
checked(Executable) ->
    #{python_version := Built} = build_info(),
    case {version(Executable), minor(Built)} of
        {{ok, Same}, Same} ->
            {ok, Executable};
        {{ok, Other}, Wanted} ->
            {error,
                unicode:characters_to_binary([
                    Executable, " is Python ", Other, ", but erlang_loop was built with ", Wanted,
                    ": build with PYTHON=", Executable, " or choose another."
                ])};
        {error, _} ->
            {error, <<Executable/binary, " cannot be run as a Python interpreter.">>}
    end.

minor(Version) ->
    [Major, Minor | _] = string:split(Version, ".", all),
    lists:flatten([Major, ".", Minor]).

version(Executable) ->
    Code = "import sys; print('%d.%d' % sys.version_info[:2])",
    try open_port({spawn_executable, Executable}, [{args, ["-I", "-c", Code]}, exit_status]) of
        Port -> read_version(Port, "")
    catch
        error:_ -> error
    end.

%% The port answers with data and then its exit status; a Python that hangs is cut off.
read_version(Port, Read) ->
    receive
        {Port, {data, Data}} -> read_version(Port, Read ++ Data);
        {Port, {exit_status, 0}} -> {ok, string:trim(Read)};
        {Port, {exit_status, _}} -> error
    after 20_000 ->
        port_close(Port),
        error
    end.

env(Key) ->
    application:get_env(erlang_loop, Key, undefined).

to_binary(Path) ->
    unicode:characters_to_binary(Path).
