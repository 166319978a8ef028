%% @doc Formats Python errors as text.
%%
%% ```
%% {error, Reason} = py:call(math, sqrt, [-1]),
%% io:put_chars(py_error:format(Reason)).
%% '''
%% prints
%% ```
%% ValueError: math domain error
%% '''
%% and for Python code the usual traceback above it. {@link py:value/1} raises errors that the shell
%% and crash reports print in this way.
-module(py_error).

-export([format/1, format_error/2]).

-define(HEADING, "Traceback (most recent call last):\n").
-define(CAUSE, "\nThe above exception was the direct cause of the following exception:\n\n").
-define(CONTEXT, "\nDuring handling of the above exception, another exception occurred:\n\n").

%% @doc Formats the `Reason' of `{error, Reason}': Python's own traceback for an exception, a
%% sentence for other reasons. The text ends with a newline.
-spec format(py:reason()) -> unicode:chardata().
format(#{type := _, message := _, traceback := _} = Exception) ->
    {Text, _} = exception(Exception, 0, false),
    Text;
format(Text) when is_binary(Text) ->
    [Text, $\n];
format({init_failed, Exception}) ->
    ["the loop does not start, because its init code raised:\n", format(Exception)];
format({loop_failed, Exception}) ->
    ["the loop failed:\n", format(Exception)];
format({py_exception, Exception}) ->
    format(Exception);
format({bad_option, What, Why}) ->
    io_lib:format("wrong option ~0tP: ~ts~n", [What, 30, Why]);
format({bad_settings, Sentences}) ->
    [[Sentence, $\n] || Sentence <- Sentences];
format({no_loop, Name}) ->
    io_lib:format(
        "no loop is registered as ~tp; py_event_loop:which_loops/0 lists the loops~n", [Name]
    );
format({no_pool, Name}) ->
    io_lib:format("no pool is registered as ~tp~n", [Name]);
format({peer_down, Why}) ->
    ["the operating system process of the loop ended: ", peer_down(Why), $\n];
format({no_erlang_loop, Node}) ->
    io_lib:format("~tp does not have the application erlang_loop~n", [Node]);
format({no_reference, remote}) ->
    "a loop in another process or node returns values: a reference is valid where its object is\n";
format({large_data, Why}) ->
    io_lib:format("the receiver has no room for large data: ~tp~n", [Why]);
format({not_distributed, Why}) ->
    io_lib:format("the node cannot connect to peers: ~tp~n", [Why]);
format({already_started, Pid}) ->
    io_lib:format("the name is already registered by ~p~n", [Pid]);
format(Reason) when is_atom(Reason) ->
    [sentence(Reason), $\n];
format(Reason) ->
    io_lib:format("~tp~n", [Reason]).

peer_down({signal, Signal}) -> io_lib:format("signal ~tp", [Signal]);
peer_down({exit, Code}) -> io_lib:format("exit code ~b", [Code]);
peer_down(noconnection) -> "the connection to its node was lost";
peer_down(hung) -> "it did not respond, and was killed after kill_after";
peer_down({limit, max_rss}) -> "it used more memory than max_rss";
peer_down(start_timeout) -> "it was not up within start_timeout";
peer_down(Why) -> io_lib:format("~tp", [Why]).

sentence(timeout) ->
    "there was no reply in time";
sentence(cancelled) ->
    "it was cancelled, by py:cancel/1 or by Python code";
sentence(loop_down) ->
    "the loop ended before it replied, or the process is not a loop";
sentence(unavailable) ->
    "no loop of the pool is up, and none came up within the timeout: the call was not begun";
sentence(overload) ->
    "too many requests wait, or have no reply yet: \"Limits\" in docs/calls.md has the settings";
sentence(deadlock) ->
    "the loop waits, in erlang.call, for the process that calls it, and neither would ever reply: "
    "coroutines use erlang.async_call";
sentence(noproc) ->
    "the task has been awaited before, or the process does not exist";
sentence(not_started) ->
    "the application is not running: application:ensure_all_started(erlang_loop) starts it";
sentence(panicked) ->
    "the native library failed, which is a fault of erlang_loop: please report it";
sentence(occupied) ->
    "a program of the command line has Python's main thread";
sentence(closed) ->
    "the loop has been closed";
sentence(stale) ->
    "the reference is of another loop, or its watch or timer has ended or was replaced";
sentence(callbacks) ->
    "the loop sends its events to a process, and cannot be polled";
sentence(Reason) ->
    %% Errors of the operating system: ebadf, eperm.
    case file:format_error(Reason) of
        "unknown POSIX error" ++ _ -> atom_to_list(Reason);
        Text -> io_lib:format("~ts (~ts)", [Text, Reason])
    end.

%% @doc For `erl_error': how an error that {@link py:value/1} raised, or a wrong option, is shown.
-spec format_error(term(), erlang:stacktrace()) -> #{reason => unicode:chardata()}.
format_error({python, Reason}, _Stacktrace) ->
    #{reason => string:trim(format(Reason), trailing)};
format_error({bad_option, _, _} = Reason, _Stacktrace) ->
    #{reason => string:trim(format(Reason), trailing)};
format_error(_Reason, _Stacktrace) ->
    #{}.

%% As Python's `traceback' module prints it: an exception's cause or context is above it, and the
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

%% Python's own text includes the line, with carets below the position, and the notes.
body(#{traceback := Frames, syntax := #{text := Text}}) ->
    [[frame(Frame) || Frame <- Frames], Text];
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

%% `ValueError: text'. Python omits the module of its own exceptions and of those in `__main__'.
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
