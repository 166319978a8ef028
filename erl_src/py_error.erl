%% @doc Errors of Python as text.
%%
%% ```
%% {error, Reason} = py:call(math, sqrt, [-1]),
%% io:put_chars(py_error:format(Reason)).
%% '''
%% prints
%% ```
%% ValueError: math domain error
%% '''
%% and for code in Python the familiar traceback above it. {@link py:value/1} raises errors that
%% the shell and crash reports print this way.
-module(py_error).

-export([format/1, format_error/2]).

-define(HEADING, "Traceback (most recent call last):\n").
-define(CAUSE, "\nThe above exception was the direct cause of the following exception:\n\n").
-define(CONTEXT, "\nDuring handling of the above exception, another exception occurred:\n\n").

%% @doc The text of the `Reason' in `{error, Reason}', which ends with a newline: Python's own
%% traceback for an exception, a sentence for other reasons.
-spec format(py:reason()) -> unicode:chardata().
format(#{type := _, message := _, traceback := _} = Exception) ->
    {Text, _} = exception(Exception, 0, false),
    Text;
format(timeout) ->
    "there was no answer in time\n";
format(cancelled) ->
    "it was cancelled\n";
format(loop_down) ->
    "the loop ended before the coroutine did\n";
format(overload) ->
    "too many requests wait\n";
format(noproc) ->
    "the task has been awaited before\n";
format(not_started) ->
    "the application erlang_loop is not running\n";
format(Reason) ->
    io_lib:format("~tp~n", [Reason]).

%% @doc For `erl_error': how an error that {@link py:value/1} raised is shown.
-spec format_error(term(), erlang:stacktrace()) -> #{reason => unicode:chardata()}.
format_error({python, Reason}, _Stacktrace) ->
    #{reason => string:trim(format(Reason), trailing)};
format_error(_Reason, _Stacktrace) ->
    #{}.

%% As Python's `traceback' module prints it: what came before an exception is above it, and the
%% members of a group are below it, framed by bars. `Open': the frame of a group ends with this
%% exception, and has no lower edge yet.
exception(Exception, Depth, Open) ->
    {Before, Open1} = before(Exception, Depth, Open),
    {Own, Open2} = own(Exception, Depth, Open1),
    {[Before, Own], Open2}.

before(#{cause := #{} = Cause}, Depth, Open) ->
    {Text, Open1} = exception(Cause, Depth, Open),
    {[Text, framed(Depth, ?CAUSE)], Open1};
before(#{context := #{} = Context}, Depth, Open) ->
    {Text, Open1} = exception(Context, Depth, Open),
    {[Text, framed(Depth, ?CONTEXT)], Open1};
before(#{}, _Depth, Open) ->
    {"", Open}.

own(#{exceptions := []} = Exception, Depth, Open) ->
    Heading = [?HEADING || #{traceback := [_ | _]} <- [Exception]],
    {framed(Depth, [Heading, body(Exception)]), Open};
own(#{exceptions := Members, traceback := Frames} = Exception, Depth, Open) ->
    Inside = max(Depth, 1),
    Heading =
        case {Frames, Depth} of
            {[], _} -> "";
            {_, 0} -> ["  + Exception Group ", ?HEADING];
            _ -> framed(Inside, ["Exception Group ", ?HEADING])
        end,
    {Listed, Open1} = members(Members, 1, Inside, Open),
    {[Heading, framed(Inside, body(Exception)), Listed], Open1}.

body(#{traceback := Frames, notes := Notes} = Exception) ->
    [[frame(Frame) || Frame <- Frames], last_line(Exception), [[Note, $\n] || Note <- Notes]].

members([Member | Rest], Number, Depth, Open) ->
    Corner =
        case Number of
            1 -> "+-";
            _ -> "  "
        end,
    Title = io_lib:format("~s~s+---------------- ~b ----------------~n", [
        indent(Depth), Corner, Number
    ]),
    {Text, Open1} = exception(Member, Depth + 1, Open orelse Rest =:= []),
    case Rest of
        [] when Open1 ->
            Edge = [indent(Depth + 1), "+------------------------------------\n"],
            {[Title, Text, Edge], false};
        [] ->
            {[Title, Text], false};
        _ ->
            {Others, Open2} = members(Rest, Number + 1, Depth, Open1),
            {[Title, Text, Others], Open2}
    end.

frame(#{file := <<>>, function := LeftOut}) ->
    ["  ", LeftOut, $\n];
frame(#{file := File, line := Line, function := Function, source := Source}) ->
    [
        io_lib:format("  File \"~ts\", line ~b, in ~ts~n", [File, Line, Function]),
        [["    ", Source, $\n] || Source =/= <<>>]
    ].

%% `ValueError: text'. Python leaves out where its own exceptions, and those of a program, are
%% from.
last_line(#{type := Type, message := Message}) ->
    Class =
        case Type of
            <<"builtins.", Name/binary>> -> Name;
            <<"__main__.", Name/binary>> -> Name;
            _ -> Type
        end,
    case Message of
        <<>> -> [Class, $\n];
        _ -> [Class, ": ", Message, $\n]
    end.

framed(0, Text) ->
    Text;
framed(Depth, Text) ->
    Lines = string:split(unicode:characters_to_binary(Text), "\n", all),
    [[indent(Depth), "| ", Line, $\n] || Line <- lists:droplast(Lines)].

indent(Depth) ->
    lists:duplicate(2 * Depth, $\s).
