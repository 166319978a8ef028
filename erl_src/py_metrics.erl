%% @doc The numbers of {@link py_inspect} as Prometheus reads them.
%%
%% ```
%% <<"# HELP erlang_loop_turn_duration_seconds", _/binary>> = py_metrics:prometheus().
%% '''
-module(py_metrics).

-export([prometheus/0]).

-type labels() :: [{string(), unicode:chardata()}].
-type sample() :: {Suffix :: string(), labels(), number()}.

%% @doc All metrics in the text format 0.0.4 of Prometheus, for a handler of `/metrics'. It needs
%% neither the GIL nor any thread of Python.
-spec prometheus() -> binary().
prometheus() ->
    Loops = [Loop || #{kind := python} = Loop <- py_inspect:loops()],
    OfLoops = lists:map(fun(Of) -> of_loops(Of, Loops) end, loop_metrics()),
    unicode:characters_to_binary([turns(Loops), OfLoops, calls(), node_metrics(), asgi(Loops)]).

turns(Loops) ->
    metric("erlang_loop_turn_duration_seconds", "histogram", "How long the turns of a loop take.", [
        Sample
     || Loop <- Loops, Sample <- histogram(labels(Loop), Loop)
    ]).

-spec histogram(labels(), py_inspect:loop()) -> [sample()].
histogram(Labels, #{lag := #{histogram := Classes}, busy_us := Busy}) ->
    {Buckets, Count} = lists:mapfoldl(
        fun({Bound, Turns}, Below) ->
            {{"_bucket", Labels ++ [{"le", bound(Bound)}], Below + Turns}, Below + Turns}
        end,
        0,
        Classes
    ),
    Buckets ++ [{"_sum", Labels, Busy / 1.0e6}, {"_count", Labels, Count}].

%% The native library takes a microsecond as 1024 ns.
bound(infinity) -> "+Inf";
bound(Us) -> number(Us * 1024 / 1.0e9).

loop_metrics() ->
    [
        {"erlang_loop_gil_wait_seconds_total", "counter",
            "How long the thread of a loop has waited for the GIL after it was woken.",
            fun(#{gil_wait_us := Us}) -> Us / 1.0e6 end},
        {"erlang_loop_longest_gil_wait_seconds", "gauge", "The longest of these times.",
            fun(#{longest_gil_wait_us := Us}) -> Us / 1.0e6 end},
        {"erlang_loop_stuck", "gauge", "1 while a loop is in one turn for longer than stuck_after.", fun
            (#{state := stuck}) -> 1;
            (#{}) -> 0
        end},
        {"erlang_loop_ready_callbacks", "gauge", "Callbacks that the last turn began with.", fun(#{ready := N}) -> N end},
        {"erlang_loop_timers", "gauge", "Timers that are set.", fun(#{timers := N}) -> N end},
        {"erlang_loop_watched_fds", "gauge", "Descriptors that are watched.", fun(#{fds := N}) -> N end},
        {"erlang_loop_queued_requests", "gauge", "Requests that the loop has not taken yet.", fun(#{queued := N}) -> N end},
        {"erlang_loop_unanswered_requests", "gauge", "Requests without a reply.", fun(#{unanswered := N}) -> N end}
    ].

of_loops({Name, Type, Help, Value}, Loops) ->
    metric(Name, Type, Help, [{"", labels(Loop), Value(Loop)} || Loop <- Loops]).

labels(#{id := Id, name := undefined}) -> [{"loop", integer_to_list(Id)}];
labels(#{id := Id, name := Name}) -> [{"loop", integer_to_list(Id)}, {"name", atom_to_binary(Name)}].

calls() ->
    Info = py_calls:info(),
    [
        metric(Name, Type, Help, [{"", [], maps:get(Key, Info)}])
     || {Key, Name, Type, Help} <- [
            {threads, "erlang_loop_call_threads", "gauge", "Threads for plain functions."},
            {idle, "erlang_loop_idle_call_threads", "gauge", "Those of them that have nothing to do."},
            {queued, "erlang_loop_queued_calls", "gauge", "Calls that wait for a thread."},
            {abandoned, "erlang_loop_abandoned_calls", "gauge", "Calls that run although their callers have gone."},
            {ended, "erlang_loop_calls_total", "counter", "Calls that have ended."}
        ]
    ].

node_metrics() ->
    Streams = py_inspect:streams(),
    #{memory := #{erlang := Erlang, process := Process}} = py_inspect:node(),
    Waiting = length([waits || #{waits := true} <- Streams]),
    [
        metric(Name, "gauge", Help, [{"", [], Value}])
     || {Name, Help, Value} <- [
            {"erlang_loop_peers", "Peers, and loops on other nodes, that are up.", length(py_remote:proxies())},
            {"erlang_loop_streams", "Streams that have not ended.", length(Streams)},
            {"erlang_loop_waiting_streams", "Those of them whose producers wait for demand.", Waiting},
            {"erlang_loop_erlang_memory_bytes", "What the Erlang VM has allocated.", Erlang},
            {"erlang_loop_resident_memory_bytes", "What the operating system process occupies.", Process}
        ]
    ].

%% Of servers that exist.
asgi(Loops) ->
    case py_nif:inspect_asgi() of
        [] -> [];
        Servers -> of_servers([{server(Id, Loops), Numbers} || {Id, _, _, _, _} = Numbers <- Servers])
    end.

server(Id, Loops) ->
    case [Loop || #{id := Of} = Loop <- Loops, Of =:= Id] of
        [Loop] -> labels(Loop);
        [] -> [{"loop", integer_to_list(Id)}]
    end.

of_servers(Servers) ->
    Classes = ["1xx", "2xx", "3xx", "4xx", "5xx"],
    [
        metric("erlang_loop_asgi_connections", "gauge", "Connections of ASGI servers.", [
            {"", Labels, Open} || {Labels, {_, Open, _, _, _}} <- Servers
        ]),
        metric("erlang_loop_asgi_active_requests", "gauge", "Requests in progress.", [
            {"", Labels, Active} || {Labels, {_, _, Active, _, _}} <- Servers
        ]),
        metric("erlang_loop_asgi_requests_total", "counter", "Requests that have begun.", [
            {"", Labels, Served} || {Labels, {_, _, _, Served, _}} <- Servers
        ]),
        metric("erlang_loop_asgi_responses_total", "counter", "Responses by status, refusals of invalid requests included.", [
            {"", Labels ++ [{"status", Class}], Count}
         || {Labels, {_, _, _, _, Counts}} <- Servers, {Class, Count} <- lists:zip(Classes, Counts), Count > 0
        ])
    ].

-spec metric(string(), string(), string(), [sample()]) -> unicode:chardata().
metric(Name, Type, Help, Samples) ->
    [
        ["# HELP ", Name, $\s, Help, $\n, "# TYPE ", Name, $\s, Type, $\n],
        [[Name, Suffix, braces(Labels), $\s, number(Value), $\n] || {Suffix, Labels, Value} <- Samples]
    ].

braces([]) -> "";
braces(Labels) -> [${, lists:join($,, [[Key, "=\"", escaped(Value), $"] || {Key, Value} <- Labels]), $}].

escaped(Value) ->
    lists:foldl(
        fun({From, To}, Text) -> string:replace(Text, From, To, all) end,
        Value,
        [{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}]
    ).

number(Value) when is_integer(Value) -> integer_to_list(Value);
number(Value) -> io_lib:format("~w", [Value]).
