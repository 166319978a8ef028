%% @doc Where things are, for suites that look at the project's own files.
-module(project).

-export([root/0, file/1, ebin_dirs/0, venv/0, section/2]).

%% @doc The project's folder: suites run below its `_build/'.
-spec root() -> file:filename().
root() ->
    root(code:lib_dir(erlang_loop)).

root(Folder) ->
    case filelib:is_regular(filename:join(Folder, "native/build")) of
        true -> Folder;
        false -> root(filename:dirname(Folder))
    end.

-spec file(file:filename()) -> file:filename().
file(Name) ->
    filename:join(root(), Name).

%% @doc Where another node finds the application, the suites and the modules of test/support.
-spec ebin_dirs() -> [file:filename()].
ebin_dirs() ->
    Support = filename:dirname(code:which(?MODULE)),
    [code:lib_dir(erlang_loop, ebin), filename:dirname(Support), Support].

%% @doc The virtual environment with the packages that tests use, if it was made.
-spec venv() -> {ok, file:filename()} | none.
venv() ->
    Venv = file(".venv"),
    case filelib:is_file(filename:join(Venv, "bin/python")) of
        true -> {ok, Venv};
        false -> none
    end.

%% @doc The text below a heading of a page, up to the next heading.
-spec section(file:filename(), unicode:chardata()) -> string().
section(Page, Heading) ->
    {ok, Bytes} = file:read_file(file(Page)),
    Text = unicode:characters_to_list(Bytes),
    [_, Rest] = string:split(Text, ["\n", Heading, "\n"]),
    hd(string:split(Rest, "\n#")).
