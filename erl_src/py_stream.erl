%% @private
%% @doc Streams, below `py', `py_event_loop' and `py_event_loop_pool': starts one, ends it, folds.
%%
%% Python threads send the consumer any number of `{py_stream, Stream, {data, Item}}', no more than
%% its demand, and then either `{py_stream, Stream, done}' or
%% `{py_stream, Stream, {error, Reason}}'.
-module(py_stream).

-export([start/3, demand/2, cancel/1, fold/5]).

-export_type([stream/0, options/0, event/0, step/0]).

%% Opaque to users, though a reference: it is in the messages.
-type stream() :: py_nif:request() | py_remote:stream().
-type options() :: #{
    %% Initial demand. Default: 0.
    demand => non_neg_integer(),
    %% The consumer, a process of this node. Default: the caller.
    to => pid(),
    %% Where asynchronous generators run. Default: the default loop.
    loop => py_event_loop:loop(),
    %% What an item is, as for `py:call/5'.
    return => value | ref,
    values => py:value_options()
}.
-type fold_options() :: #{
    %% How many items may be in flight. Default: 32.
    demand => pos_integer(),
    %% Milliseconds that the next item may take. Default: 5,000.
    timeout => timeout(),
    loop => py_event_loop:loop(),
    return => value | ref,
    values => py:value_options()
}.
-type event() :: {data, term()} | done | {error, py:reason()}.
-type step() :: fun((Item :: term(), Acc :: term()) -> {cont | halt, Acc :: term()}).

-export_type([fold_options/0]).

%% @doc `Target' is the process of a loop, or `default'.
-spec start(py_nif:request_target(), py_nif:call(), options()) ->
    {ok, stream()} | {error, py:reason()}.
start(Target, Call0, Options) ->
    To = maps:get(to, Options, self()),
    Demand = maps:get(demand, Options, 0),
    Call = py_options:with(maps:without([demand, to], Options), Call0),
    ok = py_telemetry:submitted(stream, Target, Call),
    submit(Target, Call, To, Demand).

submit(Target, Call, To, Demand) when is_pid(Target), node(Target) =/= node() ->
    py_remote:stream(Target, Call, To, Demand);
submit(Target, Call, To, Demand) ->
    case py_nif:stream_submit(Target, Call, To, Demand) of
        {error, Reason} ->
            not_here(Reason, Target, Call, To, Demand);
        Started ->
            Started
    end.

%% The loop may live in another operating system process.
not_here(Reason, Target, Call, To, Demand) ->
    case {py_remote:is_proxy(Target), Reason} of
        {true, _} ->
            py_remote:stream(Target, Call, To, Demand);
        {false, not_started} ->
            py:retry_started(fun() -> py_nif:stream_submit(Target, Call, To, Demand) end);
        {false, _} ->
            {error, Reason}
    end.

-spec demand(stream(), pos_integer()) -> ok.
demand(Stream, Count) when is_reference(Stream) ->
    py_nif:stream_demand(Stream, Count);
demand(Stream, Count) ->
    py_remote:demand(Stream, Count).

-spec cancel(stream()) -> ok.
cancel(Stream) ->
    Cancelled =
        case is_reference(Stream) of
            true -> py_nif:stream_cancel(Stream);
            false -> py_remote:cancel_stream(Stream)
        end,
    case Cancelled of
        %% No message arrives after those in the mailbox.
        taken -> forget(Stream);
        %% Another process is the consumer.
        ok -> ok
    end.

forget(Stream) ->
    receive
        {py_stream, Stream, _} -> forget(Stream)
    after 0 -> ok
    end.

%% @doc When this returns or raises, the stream has ended.
-spec fold(step(), term(), py_nif:request_target(), py_nif:call(), fold_options()) ->
    {ok, Acc :: term()} | {error, py:reason()}.
fold(Step, Acc, Target, Call, Options) ->
    is_function(Step, 2) orelse error(badarg),
    is_map_key(to, Options) andalso error(badarg),
    Window = maps:get(demand, Options, 32),
    {Timeout, Rest} = py_options:take_timeout(Options),
    is_integer(Window) andalso Window > 0 orelse error(badarg),
    py:is_timeout(Timeout) orelse error(badarg),
    case start(Target, Call, Rest#{demand => Window}) of
        {ok, Stream} ->
            try
                take(Stream, Step, Acc, Window, Window, Timeout)
            after
                cancel(Stream)
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% `Left' of the `Window' items are in flight. New ones are requested half a window at a time,
%% because a message to Python for each item would cost more than the item.
take(Stream, Step, Acc, Left, Window, Timeout) ->
    receive
        {py_stream, Stream, {data, Item}} ->
            case Step(Item, Acc) of
                {cont, Next} when Left - 1 =< Window div 2 ->
                    ok = demand(Stream, Window - Left + 1),
                    take(Stream, Step, Next, Window, Window, Timeout);
                {cont, Next} ->
                    take(Stream, Step, Next, Left - 1, Window, Timeout);
                {halt, Last} ->
                    {ok, Last}
            end;
        {py_stream, Stream, done} ->
            {ok, Acc};
        {py_stream, Stream, {error, Reason}} ->
            {error, Reason}
    after Timeout -> {error, timeout}
    end.
