%% @doc Formats the stacks of Python's threads, as faulthandler writes them, for reports: first the
%% given thread, then the others that run Python, because one of them may block it.
%%
%% ```
%% Thread 0x00007f53c7fff6c0 (most recent call first):
%%   File "/app/work.py", line 12 in compute
%%   File "/app/work.py", line 20 in main
%% '''
-module(py_stack_dump).

-export([text/2, busy/1, threads/1, stack/2, frames/1]).

-export_type([frame/0]).

-type frame() :: #{file := binary(), line := non_neg_integer(), function := binary()}.

%% Of each thread except the given one.
-define(FRAMES, 6).

%% @doc What to print for thread `Ident'.
-spec text(integer(), {ok, binary()} | {error, term()}) -> unicode:chardata().
text(Ident, {ok, Dump}) ->
    Threads = threads(Dump),
    {Own, Others} = lists:partition(fun({Found, _}) -> Found =:= Ident end, Threads),
    First =
        case Own of
            [{_, Lines} | _] -> ["Its thread, most recent call first:\n", lines(Lines)];
            [] -> "Its thread runs no Python code.\n"
        end,
    [First, [["Another thread:\n", Frames] || Frames <- frames_of_busy(Others)]];
text(_Ident, {error, Reason}) ->
    io_lib:format("Its stack could not be read: ~p", [Reason]).

%% @doc What to print for all threads that run Python code.
-spec busy(Dump :: binary()) -> unicode:chardata().
busy(Dump) ->
    [["A thread, most recent call first:\n", Frames] || Frames <- frames_of_busy(threads(Dump))].

frames_of_busy(Threads) ->
    [
        lines(lists:sublist(Lines, ?FRAMES))
     || {_, [<<"  File", _/binary>> | _] = Lines} <- Threads
    ].

lines(Lines) ->
    [[Line, $\n] || Line <- Lines].

%% @doc The lines of each thread, by Python's number for it.
-spec threads(binary()) -> [{integer(), [binary()]}].
threads(Dump) ->
    Parts = re:split(Dump, "(?:Current thread|Thread) 0x", [{return, binary}]),
    lists:filtermap(fun thread/1, Parts).

%% @doc The lines of thread `Ident', the most recent call first.
-spec stack(integer(), {ok, binary()} | {error, term()}) -> [binary()].
stack(Ident, {ok, Dump}) ->
    proplists:get_value(Ident, threads(Dump), []);
stack(_Ident, {error, _}) ->
    [].

%% @doc The frames in such lines, in the same order.
-spec frames([binary()]) -> [frame()].
frames(Lines) ->
    lists:filtermap(fun frame/1, Lines).

frame(Text) ->
    Pattern = <<"^  File \"(.*)\", line ([0-9]+) in (.*)$">>,
    case re:run(Text, Pattern, [{capture, all_but_first, binary}]) of
        {match, [File, Line, Function]} ->
            {true, #{file => File, line => binary_to_integer(Line), function => Function}};
        nomatch ->
            false
    end.

thread(Part) ->
    case re:run(Part, "^([0-9a-f]+)[^\n]*\n(.*)$", [dotall, {capture, all_but_first, binary}]) of
        {match, [Hex, Rest]} ->
            Lines = [L || <<"  ", _/binary>> = L <- binary:split(Rest, <<"\n">>, [global])],
            {true, {binary_to_integer(Hex, 16), Lines}};
        nomatch ->
            false
    end.
