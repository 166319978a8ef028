%% @doc Channels: Erlang processes send items, Python code reads them, and a limit keeps the senders
%% from being faster than the reader.
%%
%% ```
%% {ok, Channel} = py:channel(#{limit => 100}),
%% {ok, Task} = py:submit(builtins, sum, [Channel]),
%% [ok = py_channel:send(Channel, N) || N <- lists:seq(1, 1000)],
%% ok = py_channel:close(Channel),
%% {ok, 500500} = py:await(Task).
%% '''
%%
%% In Python the channel is an `erlang.Channel': `for item in channel' on a thread, `async for item
%% in channel' on any loop, and with `type => bytes' a file, `channel.file()'.
%%
%% The process that opens a channel owns it. When the owner ends without {@link close/1}, the reader
%% gets an exception after the last item, because the items may be incomplete. When the reader ends,
%% senders get `{error, closed}'. See `docs/channels.md'.
-module(py_channel).

-export([open/1, send/2, send/3, close/1, close/2, info/1]).

-export_type([channel/0, options/0, info/0]).

-include("py_misuse.hrl").

-define(TIMEOUT, 5000).
-define(ITEMS, 1024).
-define(BYTES, 1048576).

%% A reference. Any process of this node can send with it.
-type channel() :: py_nif:channel().
-type options() :: #{
    %% What is sent: any terms (the default), or binaries.
    type => terms | bytes,
    %% How many items the channel holds, or how many bytes. Default: 1,024 items, 1 MiB.
    limit => pos_integer(),
    %% The process whose death ends the channel. Default: the caller.
    owner => pid()
}.
-type info() :: #{
    type := terms | bytes,
    limit := pos_integer(),
    %% The items, or bytes, that the reader has not taken yet.
    used := non_neg_integer(),
    %% Senders that wait for room.
    waiting := non_neg_integer(),
    open := boolean()
}.

%% @private
%% @doc See py:channel/1.
-spec open(options()) -> {ok, channel()} | {error, noproc}.
open(Options) ->
    is_map(Options) andalso maps:size(maps:without([type, limit, owner], Options)) =:= 0 orelse
        error(badarg),
    Type = maps:get(type, Options, terms),
    Limit = maps:get(limit, Options, default_limit(Type)),
    py_nif:channel_new(Type, Limit, maps:get(owner, Options, self())).

default_limit(bytes) -> ?BYTES;
default_limit(_) -> ?ITEMS.

%% @equiv send(Channel, Item, 5000)
-spec send(channel(), term()) -> ok | {error, full | timeout | closed | py:reason()}.
send(Channel, Item) ->
    send(Channel, Item, ?TIMEOUT).

%% @doc Sends an item. Into a channel of bytes, `iodata()'.
%%
%% If the channel is full, this waits at most `Timeout' milliseconds, and then returns `{error,
%% timeout}'. With 0 it does not wait: `{error, full}'. In both cases the item is not sent. `{error,
%% closed}': the channel was closed, or its reader has ended. A reader that ends with an exception
%% may say so: then the error is that exception, as for {@link py:call/5}.
-spec send(channel(), term(), timeout()) -> ok | {error, full | timeout | closed | py:reason()}.
send(Channel, Item, Timeout) ->
    ?EXPLAINED(
        [{channel, Channel}, {any, Item}, {timeout, Timeout}],
        begin
            py:is_timeout(Timeout) orelse error(badarg),
            send_checked(Channel, Item, Timeout)
        end
    ).

send_checked(Channel, Item, 0) ->
    case py_nif:channel_send(Channel, Item, undefined) of
        full -> {error, full};
        not_binary -> send_checked(Channel, binary(Item), 0);
        Result -> Result
    end;
send_checked(Channel, Item, Timeout) ->
    Token = make_ref(),
    case py_nif:channel_send(Channel, Item, Token) of
        wait -> wait(Channel, Token, Timeout);
        not_binary -> send_checked(Channel, binary(Item), Timeout);
        Result -> Result
    end.

%% The reader lets the item in, or the channel ends: one message in each case.
wait(Channel, Token, Timeout) ->
    receive
        {py_channel, Token, Result} -> Result
    after Timeout ->
        case py_nif:channel_stop_waiting(Channel, Token) of
            true -> {error, timeout};
            false -> receive {py_channel, Token, Result} -> Result end
        end
    end.

binary(Item) ->
    try
        iolist_to_binary(Item)
    catch
        error:badarg ->
            Text = "not iodata: the channel is of type bytes",
            error(badarg, none, py_misuse:info(#{2 => Text}))
    end.

%% @doc Closes a channel. The reader gets the items that are in it, and then its loop, or file, ends.
%% Senders get `{error, closed}'. Any process may close a channel, any number of times.
-spec close(channel()) -> ok.
close(Channel) ->
    ?EXPLAINED([{channel, Channel}], py_nif:channel_close(Channel)).

%% @doc As {@link close/1}, for items that are incomplete: after the last one, the reader gets an
%% `erlang.Error' of the kind `exit' with this reason.
-spec close(channel(), Reason :: term()) -> ok.
close(Channel, Reason) ->
    ?EXPLAINED([{channel, Channel}, {any, Reason}], py_nif:channel_fail(Channel, Reason)).

%% @doc What a channel holds.
-spec info(channel()) -> info().
info(Channel) ->
    ?EXPLAINED([{channel, Channel}], describe(py_nif:channel_info(Channel))).

describe({Type, Limit, Used, Waiting, IsOpen}) ->
    #{type => Type, limit => Limit, used => Used, waiting => Waiting, open => IsOpen}.
