#!/usr/bin/env escript
%% A large upload goes through a Python parser while it arrives, in bounded memory.
%%
%%   ERL_LIBS=_build/default/lib escript examples/upload.escript [MEGABYTES]
%%
%% Here a process makes up the rows. In a server, `send' is called where a piece of the body
%% arrives: as long as the parser is busy, no more of it is read from the socket.
-mode(compile).

main([]) -> main(["100"]);
main([Megabytes]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    Bytes = list_to_integer(Megabytes) * 1_000_000,
    %% The parser starts, and has nothing to read yet.
    {ok, Upload} = py:channel(#{type => bytes}),
    {ok, Parser} = py:submit(upload, total_by_country, [Upload]),
    Before = resident(),
    {Rows, Peak} = send(Upload, piece(), Bytes, 0, Before),
    ok = py_channel:close(Upload),
    {ok, Totals} = py:await(Parser, infinity),
    Rows = lists:sum([Count || {Count, _} <- maps:values(Totals)]),
    io:format("~p rows of ~p countries~n", [Rows, map_size(Totals)]),
    true = Peak - Before < 60_000_000,
    io:format("the upload needed less than 60 MB~n"),
    broken_upload(),
    ok = application:stop(erlang_loop).

send(_Upload, _Piece, Bytes, Rows, Peak) when Bytes =< 0 ->
    {Rows, Peak};
send(Upload, {Piece, RowsInIt} = Made, Bytes, Rows, Peak) ->
    %% Waits while the channel is full.
    ok = py_channel:send(Upload, Piece, infinity),
    send(Upload, Made, Bytes - byte_size(Piece), Rows + RowsInIt, max(Peak, resident())).

%% Some 64 KiB of rows.
piece() ->
    Countries = [<<"no">>, <<"se">>, <<"dk">>],
    Note = binary:copy(<<"a note ">>, 30),
    Rows = [
        [lists:nth(1 + N rem 3, Countries), ",", integer_to_list(N rem 100), ",", Note, "\n"]
     || N <- lists:seq(1, 300)
    ],
    {iolist_to_binary(Rows), 300}.

%% The connection is lost: the parser must not take the rest for the end.
broken_upload() ->
    {ok, Upload} = py:channel(#{type => bytes}),
    {ok, Parser} = py:submit(upload, total_by_country, [Upload]),
    ok = py_channel:send(Upload, <<"no,1,\nno,">>),
    ok = py_channel:close(Upload, connection_lost),
    {error, Error} = py:await(Parser),
    <<"erlang.Error">> = maps:get(type, Error),
    io:format("a broken upload: ~ts~n", [maps:get(message, Error)]).

resident() ->
    {ok, Statm} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = binary:split(Statm, <<" ">>, [global]),
    binary_to_integer(Pages) * 4096.
