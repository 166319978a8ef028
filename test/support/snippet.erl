%% @doc Runs Erlang code from pages of the documentation, as a shell would.
%%
%% A line `%% => Pattern' below an expression says what its value must match.
-module(snippet).

-export([blocks/1, run/2, split/1]).

-type bindings() :: erl_eval:binding_struct().

%% @doc The ```erlang blocks of a page with their line numbers. A block that is not to be run
%% is fenced as ```erlang no-run.
-spec blocks(file:filename()) -> [{pos_integer(), string()}].
blocks(Page) ->
    {ok, Bytes} = file:read_file(Page),
    Lines = string:split(unicode:characters_to_list(Bytes), "\n", all),
    blocks(lists:zip(lists:seq(1, length(Lines)), Lines), []).

blocks([], Found) ->
    lists:reverse(Found);
blocks([{Number, Line} | Rest], Found) ->
    case string:trim(Line) of
        "```erlang" ->
            {Block, After} = lists:splitwith(fun({_, L}) -> string:trim(L) =/= "```" end, Rest),
            Text = lists:flatten(lists:join("\n", [L || {_, L} <- Block])),
            blocks(After, [{Number + 1, Text} | Found]);
        _ ->
            blocks(Rest, Found)
    end.

%% @doc Evaluates a text expression by expression and returns the bindings.
-spec run(string(), bindings()) -> bindings().
run(Text, Bindings) ->
    lists:foldl(fun evaluate/2, Bindings, split(Text)).

evaluate({Code, Expected}, Bindings) ->
    try
        {value, Value, Bound} = erl_eval:exprs(parse(Code), Bindings),
        check(Value, Expected),
        Bound
    catch
        Class:Reason:Stack ->
            erlang:raise(error, {in_snippet, Code, Class, Reason}, Stack)
    end.

check(_Value, none) ->
    ok;
check(Value, Pattern) ->
    Match = parse(Pattern ++ " = Value__."),
    {value, Value, _} = erl_eval:exprs(Match, #{'Value__' => Value}),
    ok.

parse(Code) ->
    {ok, Tokens, _} = erl_scan:string(Code),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    Exprs.

%% @doc The expressions of a text, each with the pattern for its value.
-spec split(string()) -> [{Code :: string(), Pattern :: string() | none}].
split(Text) ->
    split(string:split(Text, "\n", all), "", []).

split([], Code, Done) ->
    "" = string:trim(Code),
    lists:reverse(Done);
split(["%% => " ++ Pattern | Rest], _, [{Code, none} | Done]) ->
    split(Rest, "", [{Code, Pattern} | Done]);
split([Line | Rest], Before, Done) ->
    Code = Before ++ "\n" ++ Line,
    {ok, Tokens, _} = erl_scan:string(Code),
    case Tokens =/= [] andalso lists:last(Tokens) of
        {dot, _} -> split(Rest, "", [{Code, none} | Done]);
        false -> split(Rest, "", Done);
        _ -> split(Rest, Code, Done)
    end.
