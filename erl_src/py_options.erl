%% @private
%% @doc The options of requests, for `py', `py_event_loop', `py_event_loop_pool' and `py_stream'.
%%
%% `timeout' and `loop', and what a stream has besides, are used in Erlang. All others go to Rust
%% with the call, as `{with, Options, Call}'. Rust reads them (`requests/options.rs'), and raises
%% `badarg' for those that it does not know; `py_misuse' says which one is wrong.
-module(py_options).

-export([take_timeout/1, with/2, within/2, no_result/1]).

-export_type([sent/0]).

-define(TIMEOUT, 5000).

-type sent() :: #{
    return => value | ref | each,
    values => py:value_options(),
    %% Only for code.
    namespace => py:namespace(),
    file => py:name(),
    line => pos_integer()
}.

%% @doc The timeout, and the other options.
-spec take_timeout(#{atom() => term()}) -> {timeout(), #{atom() => term()}}.
take_timeout(Options) ->
    case maps:take(timeout, Options) of
        {Timeout, Rest} -> {Timeout, Rest};
        error -> {?TIMEOUT, Options}
    end.

%% @doc A call with its options. A call without options is sent as it is.
-spec with(#{atom() => term()}, py_nif:call()) -> py_nif:call().
with(Options, Call) when map_size(Options) =:= 0 -> Call;
with(Options, Call) -> {with, Options, Call}.

%% @doc The options of a request for code in this namespace.
-spec within(py:namespace(), timeout() | #{atom() => term()}) -> #{atom() => term()}.
within(Namespace, #{} = Options) when not is_map_key(namespace, Options) ->
    Options#{namespace => Namespace};
within(_, #{}) ->
    error(badarg);
within(Namespace, Timeout) ->
    #{namespace => Namespace, timeout => Timeout}.

%% @doc For requests without a result: options for one are `badarg'.
-spec no_result(timeout() | #{atom() => term()}) -> ok.
no_result(#{return := _}) -> error(badarg);
no_result(#{values := _}) -> error(badarg);
no_result(_) -> ok.
