%% @doc The stacks of Python's threads as faulthandler writes them, for reports: the thread that
%% is asked for first, then those that run Python too, for one of them may hold it up.
%%
%% ```
%% Thread 0x00007f53c7fff6c0 (most recent call first):
%%   File "/app/work.py", line 12 in compute
%%   File "/app/work.py", line 20 in main
%% '''
-module(py_stack_dump).

-export([text/2, threads/1]).

%% Of each thread but the one that is asked for.
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
    Busy = [Lines || {_, [<<"  File", _/binary>> | _] = Lines} <- Others],
    [First, [["Another thread:\n", lines(lists:sublist(Lines, ?FRAMES))] || Lines <- Busy]];
text(_Ident, {error, Reason}) ->
    io_lib:format("Its stack cannot be had: ~p", [Reason]).

lines(Lines) ->
    [[Line, $\n] || Line <- Lines].

%% @doc The lines of each thread, by Python's number for it.
-spec threads(binary()) -> [{integer(), [binary()]}].
threads(Dump) ->
    Parts = re:split(Dump, "(?:Current thread|Thread) 0x", [{return, binary}]),
    lists:filtermap(fun thread/1, Parts).

thread(Part) ->
    case re:run(Part, "^([0-9a-f]+)[^\n]*\n(.*)$", [dotall, {capture, all_but_first, binary}]) of
        {match, [Hex, Rest]} ->
            Lines = [L || <<"  ", _/binary>> = L <- binary:split(Rest, <<"\n">>, [global])],
            {true, {binary_to_integer(Hex, 16), Lines}};
        nomatch ->
            false
    end.
