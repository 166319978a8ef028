%% @doc Virtual environments with the packages that a list names: the settings `requirements' and
%% `pyproject'.
%%
%% Python's start builds the environment if it is not there: with uv, if that is on the `PATH', else
%% with venv and pip. A release can contain it: {@link main/0} builds it before. The page is
%% `docs/environments.md'; `python/erlang_loop/environments.py' does the work and says how.
-module(py_env).

-include_lib("kernel/include/logger.hrl").

-export([build/0, build/1, list/0, clean/0, main/0]).
%% For py_python_choice.
-export([source/0, build/2]).
%% For other nodes.
-export([identity/0]).

-export_type([source/0, environment/0]).

-type source() :: {requirements | pyproject, File :: file:name_all()}.
-type environment() :: #{
    folder := binary(),
    built := calendar:datetime(),
    %% It is the one of the settings.
    current := boolean()
}.

%% @doc Builds the environment that the settings name, if it is not there, and returns its folder.
%% The error is a sentence that says what is wrong; then nothing is left behind, and the next call
%% tries again. Progress is logged as notices.
-spec build() -> {ok, Folder :: binary()} | {error, Sentence :: binary()}.
build() ->
    case source() of
        {ok, undefined} -> {error, <<"Neither requirements nor pyproject is set.">>};
        {ok, Source} -> build(Source);
        {error, Sentence} -> {error, Sentence}
    end.

%% @doc Builds the environment of a file, which need not be that of the settings.
-spec build(source()) -> {ok, Folder :: binary()} | {error, Sentence :: binary()}.
build({Kind, _File} = Source) when Kind =:= requirements; Kind =:= pyproject ->
    case py_python_choice:interpreter() of
        {ok, Python} -> build(Source, Python);
        {error, Sentence} -> {error, Sentence}
    end;
build(_Source) ->
    error(badarg).

%% @private
-spec build(source(), Python :: binary()) -> {ok, binary()} | {error, binary()}.
build(Source, Python) -> one(for_source("build", Source, Python)).

%% @private
%% @doc The list of packages that the settings name.
-spec source() -> {ok, source() | undefined} | {error, binary()}.
source() ->
    case {py_settings:find(pyproject), py_settings:find(requirements)} of
        {{error, Sentence}, _} -> {error, Sentence};
        {_, {error, Sentence}} -> {error, Sentence};
        {{ok, undefined}, {ok, undefined}} -> {ok, undefined};
        {{ok, File}, {ok, undefined}} -> {ok, {pyproject, File}};
        {{ok, undefined}, {ok, File}} -> {ok, {requirements, File}};
        {{ok, _}, {ok, _}} -> {error, <<"requirements and pyproject are both set: choose one.">>}
    end.

%% @private
%% @doc The name of the environment that the settings name: a hash of the version of Python and of the
%% list of packages. Equal on nodes where the same packages are.
-spec identity() -> {ok, none | binary()} | {error, binary()}.
identity() ->
    case {source(), py_python_choice:interpreter()} of
        {{ok, undefined}, _} ->
            {ok, none};
        {{ok, Source}, {ok, Python}} ->
            case one(for_source("path", Source, Python)) of
                {ok, Place} -> {ok, filename:basename(Place)};
                {error, Sentence} -> {error, Sentence}
            end;
        {{error, Sentence}, _} ->
            {error, Sentence};
        {_, {error, Sentence}} ->
            {error, Sentence}
    end.

%% @doc The environments in the folder of the settings, in the order of their names.
-spec list() -> {ok, [environment()]} | {error, Sentence :: binary()}.
list() ->
    case current() of
        {ok, Current, Folder} ->
            {ok, [
                #{
                    folder => Found,
                    built => filelib:last_modified(filename:join(Found, "pyvenv.cfg")),
                    current => Found =:= Current
                }
             || Name <- lists:sort(filelib:wildcard("cp*-*/pyvenv.cfg", unicode:characters_to_list(Folder))),
                filename:extension(filename:dirname(Name)) =:= "",
                Found <- [filename:join(Folder, unicode:characters_to_binary(filename:dirname(Name)))]
            ]};
        {error, Sentence} ->
            {error, Sentence}
    end.

%% @doc Removes all environments in the folder of the settings but the one that the settings name, and
%% returns their folders. Do not call it while other nodes use one of them.
-spec clean() -> {ok, Removed :: [binary()]} | {error, Sentence :: binary()}.
clean() ->
    case {current(), py_python_choice:interpreter()} of
        {{ok, Current, Folder}, {ok, Python}} -> run(Python, ["clean", Folder, Current]);
        {{error, Sentence}, _} -> {error, Sentence};
        {_, {error, Sentence}} -> {error, Sentence}
    end.

%% @doc Builds an environment from a command line, for a release:
%%
%% ```
%% erl -noshell -pa _build/default/lib/erlang_loop/ebin -s py_env main \
%%     -extra requirements priv/requirements.txt priv/environments
%% '''
-spec main() -> ok.
main() ->
    _ = application:load(erlang_loop),
    Built =
        case init:get_plain_arguments() of
            [Kind, File, Folder] when Kind =:= "requirements"; Kind =:= "pyproject" ->
                ok = application:set_env(erlang_loop, environments, Folder),
                build({list_to_existing_atom(Kind), File});
            _ ->
                {error, <<"The arguments are: requirements or pyproject, a file, a folder.">>}
        end,
    case Built of
        {ok, Place} ->
            io:format("~ts~n", [Place]),
            init:stop(0);
        {error, Sentence} ->
            io:format(standard_error, "erlang_loop: ~ts~n", [Sentence]),
            init:stop(1)
    end.

current() ->
    case {source(), folder(), py_python_choice:interpreter()} of
        {{ok, undefined}, {ok, Folder}, _} ->
            {ok, <<>>, Folder};
        {{ok, Source}, {ok, Folder}, {ok, Python}} ->
            case one(for_source("path", Source, Python)) of
                {ok, Place} -> {ok, Place, Folder};
                {error, Sentence} -> {error, Sentence}
            end;
        {{error, Sentence}, _, _} ->
            {error, Sentence};
        {_, {error, Sentence}, _} ->
            {error, Sentence};
        {_, _, {error, Sentence}} ->
            {error, Sentence}
    end.

folder() ->
    case py_settings:find(environments) of
        {ok, undefined} ->
            Cache = filename:basedir(user_cache, <<"erlang_loop">>),
            {ok, filename:join(Cache, <<"environments">>)};
        {ok, Folder} ->
            {ok, filename:absname(Folder)};
        {error, Sentence} ->
            {error, Sentence}
    end.

for_source(Command, {Kind, File}, Python) ->
    case folder() of
        {ok, Folder} -> run(Python, [Command, atom_to_list(Kind), File, Folder]);
        {error, Sentence} -> {error, Sentence}
    end.

one({ok, [Place]}) -> {ok, Place};
one({error, Sentence}) -> {error, Sentence}.

%% Runs the program with these arguments: the results that it prints, or the sentence.
run(Python, Arguments) ->
    Program = filename:join([code:priv_dir(erlang_loop), "python", "erlang_loop", "environments.py"]),
    Options = [
        {args, ["-I", Program | Arguments]}, {line, 65536}, binary, exit_status, stderr_to_stdout
    ],
    try open_port({spawn_executable, Python}, Options) of
        Port -> read(Port, [], none)
    catch
        error:Reason ->
            {error, sentence([Python, " cannot be run: ", atom_to_list(Reason), "."])}
    end.

%% Installing takes as long as it takes. The port ends when the program does.
read(Port, Results, Fault) ->
    receive
        {Port, {data, {_, <<"= ", Result/binary>>}}} ->
            read(Port, [Result | Results], Fault);
        {Port, {data, {_, <<"! ", Sentence/binary>>}}} ->
            read(Port, Results, Sentence);
        {Port, {data, {_, Line}}} ->
            ?LOG_NOTICE("py_env: ~ts", [Line]),
            read(Port, Results, Fault);
        {Port, {exit_status, 0}} ->
            {ok, lists:reverse(Results)};
        {Port, {exit_status, Status}} when Fault =:= none ->
            Text = ["The program that builds environments ended with exit code "],
            {error, sentence([Text, integer_to_list(Status), ": the log has its output."])};
        {Port, {exit_status, _}} ->
            {error, Fault}
    end.

sentence(Parts) -> unicode:characters_to_binary(Parts).
