%% @private
%% @doc What `py_doctor' looks at: a function for each thing, which returns findings. None of them
%% needs another to have succeeded, none changes anything.
-module(py_doctor_checks).

-export([all/0, call/0]).

%% Below these, programs fail sooner or later.
-define(FEWEST_FDS, 256).
-define(LEAST_MEGABYTES, 256).
%% The VM reserves two gigabytes of addresses for its allocators, and Python's threads 8 MB each.
-define(LEAST_ADDRESSES, 4096).

-spec all() -> [fun(() -> [py_doctor:finding()])].
all() ->
    [
        fun otp/0, fun build_info/0, fun interpreter/0, fun library/0, fun packages/0,
        fun settings/0, fun venv/0, fun tools/0, fun descriptors/0, fun memory/0
    ].

otp() ->
    Release = erlang:system_info(otp_release),
    Text = ["Erlang/OTP ", Release, ", erts ", erlang:system_info(version)],
    case list_to_integer(Release) >= 25 of
        true -> [{ok, Text}];
        false -> [{fault, [Text, " is too old"], "install Erlang/OTP 25 or newer"}]
    end.

%% What native/build has recorded

build_info() ->
    case info() of
        {ok, #{python_version := Version}} ->
            [{ok, ["built for Python ", Version]}];
        error ->
            [{fault, [priv("build_info"), " is missing or damaged: there is no complete build"], build()}]
    end.

interpreter() ->
    case info() of
        {ok, #{python := Python, python_version := Built}} ->
            case py_python_choice:version(Python) of
                {ok, Version} ->
                    same_version(Python, Version, Built);
                error ->
                    [{fault,
                        ["the interpreter of the build, ", Python, ", does not exist or does not run"],
                        ["install it again, or build with another one: PYTHON=/path/to/python3 ",
                            build()]}]
            end;
        error ->
            []
    end.

same_version(Python, Version, Built) ->
    case string:prefix(Built, [Version, "."]) of
        nomatch ->
            [{fault,
                [Python, " is Python ", Version, " now, and the library was built for ", Built],
                ["build again: PYTHON=", Python, " ", build()]}];
        _ ->
            [{ok, ["interpreter ", Python]}]
    end.

%% The native library and what it is linked with

library() ->
    File = priv("py_nif.so"),
    case {is_whole(File), code:is_loaded(py_nif) =/= false orelse code:which(py_nif)} of
        {_, true} -> [{ok, ["library ", File]}];
        {_, non_existing} -> [{fault, ["the Erlang code of ", root(), " is not compiled"], build()}];
        {missing, _} -> [{fault, ["the native library ", File, " is missing"], build()}];
        %% The loader would end the process with SIGBUS.
        {false, _} -> [damaged(File, "the file is shorter than it says")];
        {true, _} -> load(File)
    end.

load(File) ->
    case code:ensure_loaded(py_nif) of
        {module, py_nif} -> [{ok, ["library ", File]}];
        {error, _} -> [not_loaded(File, persistent_term:get({py_nif, not_loaded}, ""))]
    end.

%% The table of sections comes last in a file of the format ELF.
is_whole(File) ->
    case {file:open(File, [read, binary, raw]), filelib:file_size(File)} of
        {{ok, Opened}, Size} ->
            Header = file:read(Opened, 64),
            ok = file:close(Opened),
            case Header of
                {ok, <<16#7f, "ELF", 2, 1, _:34/binary, Offset:64/little, _:10/binary, Each:16/little,
                       Count:16/little, _/binary>>} ->
                    Offset + Each * Count =< Size;
                {ok, <<16#7f, "ELF", _/binary>>} ->
                    false;
                _ ->
                    %% Of another operating system, or damaged: the loader says which.
                    true
            end;
        {{error, _}, _} ->
            missing
    end.

damaged(File, Why) ->
    {fault,
        ["the native library ", File, " is damaged, or of another version than the Erlang code: ", Why],
        ["rm ", File, " && ", build()]}.

not_loaded(File, Text) ->
    Kinds = [
        {"libpython[^ ]*: cannot open shared object", fun no_libpython/1},
        {"GLIBC_[0-9.]+' not found", fun newer_glibc/1}
    ],
    case [What || {Pattern, What} <- Kinds, re:run(Text, Pattern) =/= nomatch] of
        [What | _] ->
            What(File);
        [] ->
            damaged(File, string:trim(Text))
    end.

no_libpython(File) ->
    Name =
        case info() of
            {ok, #{libpython := Libpython}} -> Libpython;
            error -> "libpython"
        end,
    {fault, [File, " cannot be loaded: it does not find ", Name],
        ["install that Python with its shared library (Debian: apt-get install ", package(),
            "), or build for another one: PYTHON=/path/to/python3 ", build()]}.

newer_glibc(File) ->
    {fault, [File, " was built on a system with a newer glibc than this one"], ["build here: ", build()]}.

package() ->
    case info() of
        {ok, #{python_version := Version}} ->
            [Major, Minor | _] = string:split(Version, ".", all),
            ["libpython", Major, ".", Minor];
        error ->
            "libpython3"
    end.

packages() ->
    Folder = priv("python"),
    Wheel = os:getenv("ERLANG_LOOP_PYTHON") =/= false,
    case filelib:is_regular(filename:join(Folder, "erlang_loop/__init__.py")) of
        true ->
            [{ok, ["Python packages ", Folder]}];
        %% There they are where pip puts packages.
        false when Wheel ->
            [];
        false ->
            [{fault, ["the Python packages of erlang_loop are not in ", Folder],
                "copy the whole project: priv/python is a link to its folder python"}]
    end.

%% Settings and environments

settings() ->
    Wrong = lists:append([py_settings:wrong(Stops) || Stops <- [application, python, default_loop]]),
    case Wrong of
        [] -> [{ok, "settings"}];
        _ -> [{fault, Text, "correct the setting: docs/settings.md"} || Text <- Wrong]
    end.

venv() ->
    case py_settings:find(venv) of
        {ok, Venv} when Venv =/= undefined -> venv(unicode:characters_to_list(Venv));
        %% Not set, or wrong: settings/0 says so.
        _ -> []
    end.

venv(Venv) ->
    Python = filename:join([filename:absname(Venv), "bin", "python"]),
    Create = [interpreter_name(), " -m venv --clear ", Venv, ", and install its packages again"],
    case {file:read_link_info(Python), py_python_choice:version(Python), info()} of
        {{error, _}, _, _} ->
            %% Not with --clear: it may be any folder.
            [{fault, ["venv is ", Venv, ", which is not a virtual environment"],
                ["correct the setting, or create it: ", interpreter_name(), " -m venv ", Venv]}];
        {_, error, _} ->
            [{fault, ["the interpreter of the virtual environment, ", Python, ", does not run: the one "
                    "it was created with has been removed or is damaged"],
                Create}];
        {_, {ok, Version}, {ok, #{python_version := Built}}} ->
            case string:prefix(Built, [Version, "."]) of
                nomatch ->
                    [{fault, ["the virtual environment ", Venv, " has Python ", Version, ", and the "
                            "library was built for ", Built],
                        [Create, "; or build for it: PYTHON=", Python, " ",
                            build()]}];
                _ ->
                    [{ok, ["virtual environment ", Venv]}]
            end;
        {_, {ok, _}, error} ->
            []
    end.

interpreter_name() ->
    case info() of
        {ok, #{python := Python}} -> Python;
        error -> "python3"
    end.

%% What a build needs: nothing that a node needs.

tools() ->
    case filelib:is_regular(filename:join(root(), "native/python_info.py")) of
        true -> cargo(os:find_executable("cargo")) ++ headers();
        false -> []
    end.

cargo(false) ->
    [{note, "cargo is not on the PATH: the native library cannot be built here", "install Rust: https://rustup.rs"}];
cargo(_) ->
    [].

%% native/build's own program says what is missing, and how to install it.
headers() ->
    Script = filename:join(root(), "native/python_info.py"),
    case python_to_build_with() of
        false ->
            [{fault, "there is no Python 3 to build with on the PATH", "install Python 3.11 or newer, or set PYTHON"}];
        Python ->
            case run(Python, [Script]) of
                {0, _} -> [{ok, ["headers and libpython of ", Python]}];
                {_, Text} -> cannot_build(string:trim(Text))
            end
    end.

%% As native/python_env has it, or else the one of the build.
python_to_build_with() ->
    case {os:getenv("PYTHON"), info()} of
        {false, {ok, #{python := Python}}} -> os:find_executable(Python);
        {false, error} -> os:find_executable("python3");
        {Python, _} -> os:find_executable(Python)
    end.

cannot_build("erlang_loop: " ++ Text) ->
    {What, Fix} =
        case string:split(Text, ": ", trailing) of
            [Before, After] -> {Before, After};
            [All] -> {All, "choose another with PYTHON=/path/to/python3"}
        end,
    [{note, ["the native library cannot be built here: ", What], Fix}];
cannot_build(Text) ->
    [{note, ["the native library cannot be built here: ", Text], "choose another with PYTHON=/path/to/python3"}].

%% Limits of the process

descriptors() ->
    case limit("ulimit -n") of
        Limit when is_integer(Limit), Limit < ?FEWEST_FDS ->
            [{fault, io_lib:format("the process may open ~b files; each loop and connection takes some", [Limit]),
                "ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit"}];
        Limit ->
            [{ok, io_lib:format("~tp open files at most", [Limit])}]
    end.

memory() ->
    addresses(limit("ulimit -v")) ++ megabytes(least_memory()).

addresses(KiB) when is_integer(KiB), KiB div 1024 < ?LEAST_ADDRESSES ->
    [{fault, io_lib:format("the process may have ~b MB of addresses (ulimit -v), of which the VM alone reserves "
            "two gigabytes", [KiB div 1024]),
        "ulimit -v unlimited, and limit the memory with MemoryMax= in the systemd unit"}];
addresses(_) ->
    [].

megabytes({MB, Whose}) when MB < ?LEAST_MEGABYTES ->
    [{fault, io_lib:format("~ts is ~b MB; the VM and Python need ~b", [Whose, MB, ?LEAST_MEGABYTES]),
        "give the machine or the container more memory: docker run --memory=1g, MemoryMax=1G"}];
megabytes({MB, Whose}) ->
    [{ok, io_lib:format("~ts: ~b MB", [Whose, MB])}];
megabytes(unknown) ->
    [].

%% The smaller one of the free memory and the limit of the control group (version 2 or 1).
least_memory() ->
    Free =
        case file:read_file("/proc/meminfo") of
            {ok, Text} ->
                case re:run(Text, "MemAvailable: +(\\d+)", [{capture, all_but_first, list}]) of
                    {match, [KiB]} -> [{list_to_integer(KiB) div 1024, "available memory"}];
                    nomatch -> []
                end;
            {error, _} ->
                []
        end,
    Limits = [
        {Bytes div 1048576, "the control group's memory limit"}
     || File <- cgroup_files(), {ok, Bytes} <- [number_in(File)]
    ],
    case Free ++ Limits of
        [] -> unknown;
        Known -> lists:min(Known)
    end.

cgroup_files() ->
    Root = "/sys/fs/cgroup",
    Own =
        case file:read_file("/proc/self/cgroup") of
            {ok, Text} ->
                case re:run(Text, "^0::/(.*)$", [multiline, {capture, all_but_first, list}]) of
                    {match, [Path]} -> [filename:join([Root, Path, "memory.max"])];
                    nomatch -> []
                end;
            {error, _} ->
                []
        end,
    Own ++ [filename:join(Root, "memory.max"), filename:join(Root, "memory/memory.limit_in_bytes")].

number_in(File) ->
    case file:read_file(File) of
        {ok, Text} ->
            try
                {ok, binary_to_integer(string:trim(Text))}
            catch
                %% "max".
                error:badarg -> error
            end;
        {error, _} ->
            error
    end.

%% A shell has the limits of this process.
limit(Command) ->
    Text = string:trim(os:cmd(Command)),
    try
        list_to_integer(Text)
    catch
        error:badarg -> list_to_atom(Text)
    end.

%% The proof

%% @doc A call of a function and of a coroutine, if the application is running.
-spec call() -> [py_doctor:finding()].
call() ->
    case lists:keymember(erlang_loop, 1, application:which_applications()) of
        true -> [called(py:call(platform, python_version, [])), called(py:call(asyncio, sleep, [0, <<"a loop runs">>]))];
        false -> []
    end.

called({ok, Text}) ->
    {ok, ["Python was called: ", Text]};
called({error, Reason}) ->
    {fault, ["Python cannot be called: ", string:trim(py:format_error(Reason))],
        "see the log, and docs/faults.md"}.

%% The pieces

info() ->
    case py_python_choice:build_info(priv("")) of
        {ok, #{python := _, python_version := _, libpython := _} = Info} -> {ok, Info};
        _ -> error
    end.

priv(Name) -> filename:join([root(), "priv", Name]).

%% The application's folder. Below _build/, priv is a link to that of the source.
root() ->
    case os:getenv("ERLANG_LOOP_ROOT") of
        false -> filename:dirname(filename:dirname(code:which(?MODULE)));
        Root -> Root
    end.

build() ->
    Root = root(),
    case filelib:is_regular(filename:join(Root, "Makefile")) of
        true -> ["make -C ", Root, " build"];
        false -> "rebar3 compile (mix: mix deps.compile erlang_loop --force)"
    end.

%% The program writes, then ends; one that hangs is left behind.
run(Program, Args) ->
    try open_port({spawn_executable, Program}, [{args, Args}, exit_status, stderr_to_stdout]) of
        Port -> collect(Port, "")
    catch
        error:Reason -> {1, atom_to_list(Reason)}
    end.

collect(Port, Output) ->
    receive
        {Port, {data, Data}} -> collect(Port, Output ++ Data);
        {Port, {exit_status, Status}} -> {Status, Output}
    after 20_000 ->
        port_close(Port),
        {1, "it does not end"}
    end.
