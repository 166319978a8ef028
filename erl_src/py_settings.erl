%% @doc The settings of the application: their names, defaults and valid values, all in one place.
%% All code that reads a setting reads it here; a test compares `docs/settings.md' with {@link
%% table/0}.
%%
%% The error for a wrong setting is one sentence with its name, its value and what was expected.
%% What it stops depends on when the setting is read:
%%
%% <ul>
%% <li>`application': when the application starts, which then does not.</li>
%% <li>`python': when Python is first needed. Python does not start, and the sentence is the
%%     error that the caller who needed it gets. Fix the setting and retry; no restart is needed.</li>
%% <li>`default_loop': the same, for the default loop.</li>
%% </ul>
%%
%% A setting that does not exist, and a folder of `python_path' that does not, are warnings.
-module(py_settings).

-include_lib("kernel/include/logger.hrl").

-export([check/0, wrong/1, value/1, find/1]).
%% For the test of docs/settings.md.
-export([table/0, must_be/1]).

-export_type([name/0]).

-type name() :: atom().
-type stops() :: application | python | default_loop.
-type kind() ::
    boolean
    | path
    | paths
    | code
    | loop_options
    | dashboard
    | {one_of, [atom()]}
    | {number, number(), number(), Unit :: string()}
    | {integer, non_neg_integer()}
    | {integer_or_infinity, pos_integer()}.

%% The maximum of counts, sizes and times: milliseconds fit a timer, counts the native code.
-define(MOST, 1_000_000_000).

%% @doc Name, default, valid values, and what a wrong value stops. The page says what each setting
%% means.
-spec table() -> [{name(), Default :: term(), kind(), stops()}].
table() ->
    [
        {venv, undefined, path, python},
        {python, undefined, path, python},
        {requirements, undefined, path, python},
        {pyproject, undefined, path, python},
        {environments, undefined, path, python},
        {python_path, [], paths, python},
        {start_python, false, boolean, application},
        {default_event_loop, true, boolean, python},
        {faulthandler, true, boolean, application},
        {exit_timeout, 5000, {integer_or_infinity, 0}, application},
        {switch_interval, undefined, {number, 0.001, 10_000, "milliseconds"}, python},
        {default_loop_init, <<>>, code, default_loop},
        {default_loop_options, #{}, loop_options, default_loop},
        {loop_threads, 8, {integer, 1}, application},
        {call_threads, 64, {integer, 1}, application},
        {call_queue, 100_000, {integer, 0}, application},
        {call_nesting, 1000, {integer, 0}, application},
        {call_warning, 5000, {integer, 0}, application},
        {stuck_after, 1000, {integer_or_infinity, 1}, application},
        {stuck_policy, report, {one_of, [report, interrupt, restart]}, application},
        {dashboard, undefined, dashboard, application},
        {inspect_socket, false, boolean, application},
        {redirect_output, true, boolean, application},
        {logging, true, boolean, application},
        {logging_queue, 10_000, {integer, 0}, application},
        {none, none, {one_of, [none, nil, null, undefined]}, application},
        {max_integer_bytes, 1 bsl 20, {integer, 0}, application},
        {max_value_parts, 30_000_000, {integer, 0}, application},
        {max_new_atoms, 100_000, {integer, 0}, application}
    ].

%% Set by the application itself.
-define(INTERNAL, [runs_command]).

%% @doc Checks the settings at the application's start. Logs every error.
-spec check() -> ok | {error, {bad_settings, [Sentence :: binary()]}}.
check() ->
    _ = [?LOG_WARNING("~ts", [unknown(Name)]) || {Name, _} <- application:get_all_env(erlang_loop),
        lists:keyfind(Name, 1, table()) =:= false, not lists:member(Name, ?INTERNAL)],
    _ = [?LOG_WARNING("~ts", [Text]) || Text <- wrong(python) ++ wrong(default_loop)],
    case wrong(application) of
        [] ->
            ok;
        Texts ->
            _ = [?LOG_ERROR("erlang_loop cannot start: ~ts", [Text]) || Text <- Texts],
            {error, {bad_settings, Texts}}
    end.

%% @doc A sentence for each wrong setting that stops this.
-spec wrong(stops()) -> [Sentence :: binary()].
wrong(Stops) ->
    [Text || {Name, _, _, Is} <- table(), Is =:= Stops, {error, Text} <- [find(Name)]].

%% @doc The value of a setting that {@link check/0} has validated when the application started.
-spec value(name()) -> term().
value(Name) ->
    case find(Name) of
        {ok, Value} -> Value;
        {error, Sentence} -> error({bad_settings, [Sentence]})
    end.

%% @doc The value of a setting, or a sentence that says why it is wrong. Paths are returned as
%% binaries.
-spec find(name()) -> {ok, term()} | {error, Sentence :: binary()}.
find(Name) ->
    {Name, Default, Kind, _} = lists:keyfind(Name, 1, table()),
    case application:get_env(erlang_loop, Name, Default) of
        Default ->
            {ok, Default};
        Value ->
            case checked(Kind, Value) of
                {ok, Good} -> {ok, Good};
                wrong -> {error, wrong(Name, Value, must_be(Kind))};
                {wrong, Why} -> {error, wrong(Name, Value, [must_be(Kind), "; ", Why])}
            end
    end.

wrong(Name, Value, Expected) ->
    unicode:characters_to_binary([
        atom_to_list(Name), " is ", shown(Value), ", and must be ", Expected, "."
    ]).

shown(Value) ->
    io_lib:format("~0tP", [Value, 30], [{chars_limit, 200}]).

%% Valid values

checked(boolean, Value) when is_boolean(Value) -> {ok, Value};
checked(path, Value) -> path(Value);
checked(paths, Value) -> paths(Value);
checked(code, Value) -> text(Value);
checked(loop_options, Value) -> loop_options(Value);
checked(dashboard, Value) when is_map(Value) ->
    right(lists:all(fun is_dashboard_option/1, maps:to_list(Value)), Value);
checked({one_of, Names}, Value) -> right(lists:member(Value, Names), Value);
checked({number, Least, Most, _}, Value) when is_number(Value) ->
    right(Value >= Least andalso Value =< Most, Value);
checked({integer, Least}, Value) when is_integer(Value) ->
    right(Value >= Least andalso Value =< ?MOST, Value);
checked({integer_or_infinity, _}, infinity) -> {ok, infinity};
checked({integer_or_infinity, Least}, Value) -> checked({integer, Least}, Value);
checked(_, _) -> wrong.

is_dashboard_option({port, Port}) -> is_integer(Port) andalso Port >= 0 andalso Port < 65536;
is_dashboard_option({ip, Ip}) -> inet:is_ip_address(Ip);
is_dashboard_option({read_only, Value}) -> is_boolean(Value);
is_dashboard_option({token, Value}) -> is_token(Value);
is_dashboard_option(_) -> false.

%% It is part of a URL and of a cookie.
is_token(Value) when is_list(Value); is_binary(Value) ->
    try
        re:run(Value, "^[A-Za-z0-9_-]{16,256}$", [{capture, none}, dollar_endonly]) =:= match
    catch
        %% A list that is not text.
        error:badarg -> false
    end;
is_token(_) ->
    false.

right(true, Value) -> {ok, Value};
right(false, _) -> wrong.

%% @doc Describes the valid values of a kind.
-spec must_be(kind()) -> unicode:chardata().
must_be(boolean) -> "true or false";
must_be(path) -> "a string, a binary, or {priv, Application, Path}";
must_be(paths) -> "a folder or a list of folders, which are strings, binaries or {priv, Application, Path}";
must_be(code) -> "Python code as text";
must_be(loop_options) -> "a map of options of py_event_loop:start_link/1";
must_be(dashboard) -> "a map with port, ip (a tuple), read_only (true or false) and token (16 letters and digits or more), or undefined";
must_be({one_of, Names}) ->
    [Last | Others] = lists:reverse([atom_to_list(Name) || Name <- Names]),
    [lists:join(", ", lists:reverse(Others)), " or ", Last];
must_be({number, Least, Most, Unit}) -> io_lib:format("~p to ~p ~s", [Least, Most, Unit]);
must_be({integer, Least}) -> io_lib:format("an integer from ~b to ~b", [Least, ?MOST]);
must_be({integer_or_infinity, Least}) -> [must_be({integer, Least}), ", or infinity"].

%% In the priv folder of an application, wherever a release has that.
path({priv, Application, Path}) when is_atom(Application), not is_tuple(Path) ->
    case {code:priv_dir(Application), path(Path)} of
        {{error, bad_name}, _} -> wrong;
        {_, wrong} -> wrong;
        {Folder, {ok, Text}} -> {ok, unicode:characters_to_binary(filename:join(Folder, Text))}
    end;
path([]) ->
    wrong;
path(<<>>) ->
    wrong;
path(Path) ->
    case is_binary(Path) orelse io_lib:char_list(Path) of
        true -> without_zero(text(Path));
        false -> wrong
    end.

%% C would end a path there.
without_zero({ok, Text}) -> right(binary:match(Text, <<0>>) =:= nomatch, Text);
without_zero(wrong) -> wrong.

%% A single folder as a string is a list, too: of characters.
paths([]) ->
    {ok, []};
paths([First | _] = Paths) when is_list(First); is_binary(First); is_tuple(First) ->
    try [path(Path) || Path <- Paths] of
        Checked ->
            case lists:member(wrong, Checked) of
                true -> wrong;
                false -> {ok, [Path || {ok, Path} <- Checked]}
            end
    catch
        %% An improper list.
        error:_ -> wrong
    end;
paths(Path) ->
    case path(Path) of
        {ok, Text} -> {ok, [Text]};
        wrong -> wrong
    end.

text(Value) when is_binary(Value); is_list(Value) ->
    try unicode:characters_to_binary(Value) of
        Text when is_binary(Text) -> {ok, Text};
        _ -> wrong
    catch
        error:badarg -> wrong
    end;
text(_) ->
    wrong.

%% Name and init code of the default loop are not options.
loop_options(Options) when is_map(Options) ->
    case maps:keys(maps:with([name, init, default], Options)) of
        [] ->
            try py_event_loop_options:check(Options) of
                _ -> {ok, Options}
            catch
                error:{bad_option, What, Why} ->
                    {wrong, [shown(What), ": ", Why]}
            end;
        [init | _] ->
            {wrong, "init is a setting of its own, default_loop_init"};
        [Key | _] ->
            {wrong, io_lib:format("~p cannot be chosen", [Key])}
    end;
loop_options(_) ->
    wrong.

%% Unknown names

unknown(Name) ->
    Known = [Known || {Known, _, _, _} <- table()],
    Written = lists:flatten(io_lib:format("~tp", [Name])),
    {Distance, Nearest} = lists:min([{distance(Written, atom_to_list(K)), K} || K <- Known]),
    Hint =
        case Distance * 2 < length(Written) of
            true -> io_lib:format("Is ~ts meant?", [Nearest]);
            false -> "docs/settings.md has those there are."
        end,
    io_lib:format("erlang_loop has no setting ~ts, which is ignored. ~ts", [Written, Hint]).

%% How many characters must be inserted, removed or replaced. Row by row, as Wagner and Fischer do.
distance(One, Other) ->
    Row = lists:foldl(
        fun(Char, [Left | _] = Above) -> next_row(Char, Other, Above, [Left + 1]) end,
        lists:seq(0, length(Other)),
        One
    ),
    lists:last(Row).

next_row(_Char, [], _Above, Row) ->
    lists:reverse(Row);
next_row(Char, [Same | Rest], [Diagonal, Up | Above], [Left | _] = Row) ->
    Cost =
        case Char of
            Same -> Diagonal;
            _ -> 1 + lists:min([Diagonal, Up, Left])
        end,
    next_row(Char, Rest, [Up | Above], [Cost | Row]).
