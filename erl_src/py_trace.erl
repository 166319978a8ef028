%% @doc The trace that a process works for, as the header `traceparent' of the W3C. What the process
%% calls in Python belongs to the same trace, and so does what Python calls in Erlang.
%%
%% ```
%% Header = <<"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01">>,
%% {ok, Header} = py_trace:with(Header, fun() ->
%%     py:call('erlang_loop.tracing', traceparent, [])
%% end).
%% '''
%%
%% `docs/inside.md' shows it with OpenTelemetry. The trace is a property of the process, as the
%% metadata of logger is: processes that it starts do not have it.
-module(py_trace).

-export([with/2, put/1, current/0]).
%% For py_nif, py_remote.
-export([origin/0]).

-export_type([traceparent/0, origin/0]).

-type traceparent() :: binary().
%% The group leader of a process, and its trace if it has one.
-type origin() :: pid() | {pid(), traceparent()}.

-define(KEY, '$py_traceparent').

%% @doc Runs a function within a trace. `undefined': in none.
-spec with(traceparent() | undefined, fun(() -> Result)) -> Result.
with(Header, Fun) when is_function(Fun, 0) ->
    Before = current(),
    ok = put(Header),
    try
        Fun()
    after
        restored(Before)
    end;
with(_, _) ->
    error(badarg).

%% @doc The calling process belongs to this trace from now on. `undefined': to none. So does a
%% malformed header: it comes from outside, and the standard says to ignore it.
-spec put(traceparent() | undefined) -> ok.
put(undefined) ->
    restored(undefined);
put(Header) when is_binary(Header) ->
    case is_valid(Header) of
        true -> restored(Header);
        false -> restored(undefined)
    end;
put(_) ->
    error(badarg).

restored(undefined) ->
    _ = erase(?KEY),
    ok;
restored(Header) ->
    _ = erlang:put(?KEY, Header),
    ok.

%% @doc The trace of the calling process. A function that Python calls with `erlang.call' has that
%% of the span that Python was in.
-spec current() -> traceparent() | undefined.
current() ->
    get(?KEY).

%% @private
-spec origin() -> origin().
origin() ->
    case get(?KEY) of
        undefined -> group_leader();
        Header -> {group_leader(), Header}
    end.

%% Later versions may have further fields.
is_valid(<<"ff-", _/binary>>) ->
    false;
is_valid(<<Version:2/binary, $-, Trace:32/binary, $-, Span:16/binary, $-, Flags:2/binary, Rest/binary>>) ->
    lists:all(fun is_hex/1, [Version, Trace, Span, Flags]) andalso
        not is_zero(Trace) andalso not is_zero(Span) andalso is_end(Version, Rest);
is_valid(_) ->
    false.

is_hex(Digits) ->
    lists:all(fun(Digit) -> Digit >= $0 andalso Digit =< $9 orelse Digit >= $a andalso Digit =< $f end, binary_to_list(Digits)).

is_zero(Digits) ->
    lists:all(fun(Digit) -> Digit =:= $0 end, binary_to_list(Digits)).

is_end(_, <<>>) -> true;
is_end(Version, <<$-, Rest/binary>>) -> Version =/= <<"00">> andalso is_text(Rest) andalso byte_size(Rest) =< 200;
is_end(_, _) -> false.

is_text(Rest) ->
    lists:all(fun(Char) -> Char > 32 andalso Char < 127 end, binary_to_list(Rest)).
