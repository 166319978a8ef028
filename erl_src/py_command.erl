%% @doc The entry point of `bin/erlang-loop': runs python's command line in this node.
%%
%% This module only starts the application and selects the environment. CPython's `Py_RunMain'
%% then gets the arguments as they were typed, and ends the process as it ends python.
-module(py_command).

-export([main/0]).

%% @doc Runs the arguments after `-extra'. Returns at once; the program ends the node.
-spec main() -> ok.
main() ->
    %% The first argument is the name of the program, as in every command line.
    Arguments = arguments(),
    release_signals(),
    %% For py_signals.
    ok = application:set_env(erlang_loop, runs_command, true),
    _ = application:load(erlang_loop),
    case {py_settings:wrong(application), py_python_choice:for_command()} of
        {[], {ok, {Paths, SwitchInterval}}} -> run(Paths, SwitchInterval, Arguments);
        {[Sentence | _], _} -> fail(Sentence);
        {_, {error, Sentence}} -> fail(Sentence)
    end.

run(Paths, SwitchInterval, Arguments) ->
    case application:ensure_all_started(erlang_loop) of
        {ok, _} -> start_python(Paths, SwitchInterval, Arguments);
        {error, Reason} -> fail(io_lib:format("erlang_loop does not start: ~p", [Reason]))
    end.

start_python(Paths, SwitchInterval, Arguments) ->
    case py_nif:python_command(executable(), Paths, SwitchInterval, Arguments) of
        ok -> ok;
        {error, Reason} -> fail(Reason)
    end.

%% init:get_plain_arguments/0 returns text; python needs the original bytes.
arguments() ->
    {ok, Line} = file:read_file("/proc/self/cmdline"),
    [_Program | Words] = binary:split(Line, <<0>>, [global]),
    [<<"-extra">> | Arguments] = lists:dropwhile(fun(Word) -> Word =/= <<"-extra">> end, Words),
    %% Each word ends with a zero, including the last one.
    lists:droplast(Arguments).

%% These signals kill a python process. The VM would stop in order, write a crash dump, or ignore
%% the end of children. SIGINT is not handled by the VM because of +Bd.
release_signals() ->
    Signals = [sigterm, sigusr1, sigquit, sigchld],
    lists:foreach(fun(Signal) -> ok = os:set_signal(Signal, default) end, Signals).

%% The first of these whose Python has the version the library was built with: the active virtual
%% environment, the project's own, the interpreter itself.
executable() ->
    case os:getenv("ERLANG_LOOP_PYTHON") of
        false -> chosen();
        %% The command of a wheel: the interpreter that it is installed in.
        Python -> unicode:characters_to_binary(Python)
    end.

chosen() ->
    #{python := Built, python_version := Version} = py_python_choice:build_info(),
    Active = os:getenv("VIRTUAL_ENV", ""),
    Own = filename:join(os:getenv("ERLANG_LOOP_ROOT", "."), ".venv"),
    case Active =/= "" andalso venv_version(Active) of
        false ->
            own_or_built(Own, Built, Version);
        Found ->
            case minor(Found) =:= minor(Version) of
                true -> python(Active);
                false -> warned(Active, Found, Version, own_or_built(Own, Built, Version))
            end
    end.

own_or_built(Own, Built, Version) ->
    case minor(venv_version(Own)) =:= minor(Version) of
        true -> python(Own);
        false -> unicode:characters_to_binary(Built)
    end.

warned(Active, Found, Version, Executable) ->
    io:put_chars(
        standard_error,
        unicode:characters_to_binary([
            "erlang-loop: VIRTUAL_ENV ", Active, " has Python ", Found,
            " but erlang_loop was built with ", Version, ": using ", Executable, "\n"
        ])
    ),
    Executable.

python(Venv) ->
    unicode:characters_to_binary(filename:join([Venv, "bin", "python"])).

%% Read from the file that venv, virtualenv and uv write; starting the interpreter to ask it would
%% take longer than everything else. "none" for a folder that is not a virtual environment.
venv_version(Venv) ->
    case file:read_file(filename:join(Venv, "pyvenv.cfg")) of
        {ok, Text} ->
            Pattern = "^version(?:_info)?\\s*=\\s*([0-9.]+)",
            case re:run(Text, Pattern, [multiline, {capture, all_but_first, list}]) of
                {match, [Version]} -> Version;
                nomatch -> "none"
            end;
        {error, _} ->
            "none"
    end.

minor(Version) ->
    lists:sublist(string:split(Version, ".", all), 2).

-spec fail(iodata()) -> no_return().
fail(Text) ->
    io:put_chars(standard_error, ["erlang-loop: ", Text, "\n"]),
    halt(1).
