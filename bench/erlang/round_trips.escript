#!/usr/bin/env escript
%% -*- erlang -*-
%% Erlang asks Python: one sample of one case. CASE CONTENDER SECONDS SCALE, as bench/worker.py,
%% and the reply is printed as there. The VM runs with its default flags, as a user's would.
%%
%% By hand, for any number of callers or loops (PYTHONPATH: what is asked is in bench.erlang):
%%
%%   PYTHONPATH=. bench/erlang/round_trips.escript coroutine_1000 erlang_loop 2 1
-mode(compile).

-define(ASKED, <<"bench.erlang.asked">>).

main([Case, _Contender, Seconds, Scale]) ->
    Root = filename:dirname(filename:dirname(filename:dirname(
        filename:absname(escript:script_name())))),
    true = code:add_patha(filename:join(Root, "_build/default/lib/erlang_loop/ebin")),
    {ok, _} = application:ensure_all_started(erlang_loop),
    Answer =
        try run(Case, number(Seconds), number(Scale)) of
            {unavailable, Reason} -> field("unavailable", quoted(Reason));
            Fields -> field("sample", "{" ++ lists:join(", ", Fields) ++ "}")
        catch
            Class:Reason:Stack ->
                Text = io_lib:format("~p:~0p ~0p", [Class, Reason, hd(Stack)]),
                field("failed", quoted(Text))
        end,
    io:format("@bench {~ts}~n", [Answer]).

%% --- the cases -----------------------------------------------------------------------------

run("loop_" ++ Figure, _Seconds, Scale) ->
    loops(Figure, max(1, round(10_000 * Scale)));
run(Case, Seconds, _Scale) ->
    run(Case, Seconds).

run("call_" ++ Callers, Seconds) ->
    ask(fun(N) -> py:call(?ASKED, increment, [N]) end, list_to_integer(Callers), Seconds);
run("coroutine_" ++ Callers, Seconds) ->
    ask(fun(N) -> py:call(?ASKED, increment_later, [N]) end, list_to_integer(Callers), Seconds);
run("suspending_" ++ Callers, Seconds) ->
    ask(fun(N) -> py:call(?ASKED, increment_in_a_turn, [N]) end, list_to_integer(Callers), Seconds);
run("submitted_" ++ Callers, Seconds) ->
    Ask = fun(N) ->
        {ok, Task} = py:submit(?ASKED, increment_in_a_turn, [N]),
        py:await(Task)
    end,
    ask(Ask, list_to_integer(Callers), Seconds);
run("own_loop_" ++ Callers, Seconds) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    Ask = fun(N) -> py_event_loop:run(Loop, ?ASKED, increment_later, [N]) end,
    ask(Ask, list_to_integer(Callers), Seconds);
run("pool_of_" ++ Size, Seconds) ->
    {ok, _} = py_event_loop_pool:start_link(#{name => asked, size => list_to_integer(Size)}),
    Ask = fun(N) -> py_event_loop_pool:run(asked, ?ASKED, increment_later, [N]) end,
    ask(Ask, 100, Seconds);
run("after_idle", Seconds) ->
    after_rest(fun increment_later/0, 50, Seconds);
run("after_pause", Seconds) ->
    after_rest(fun increment_later/0, 10, Seconds);
run("port_after_idle", Seconds) ->
    Port = open_port({spawn_executable, os:find_executable("cat")}, [binary]),
    after_rest(fun() -> echoed(Port) end, 50, Seconds);
run("beside_computing", Seconds) ->
    beside_computing(Seconds);
run("beside_computing_500us", Seconds) ->
    ok = application:set_env(erlang_loop, switch_interval, 0.5),
    beside_computing(Seconds);
run("cast", Seconds) ->
    casts(Seconds);
run("stream", Seconds) ->
    if_exported(stream, 5, fun() -> streams(fun stream/1, Seconds) end);
run("fold", Seconds) ->
    if_exported(fold, 5, fun() -> streams(fun fold/1, Seconds) end).

%% The application may be older than this program.
if_exported(Name, Arity, Run) ->
    {module, py} = code:ensure_loaded(py),
    case erlang:function_exported(py, Name, Arity) of
        true -> Run();
        false -> {unavailable, io_lib:format("there is no py:~s/~b", [Name, Arity])}
    end.

%% Callers that make one request after the other, each as soon as it has the reply.
ask(Ask, Callers, Seconds) ->
    %% The first call starts Python and imports the module.
    {ok, 1} = Ask(0),
    _ = asked(Ask, Callers, Seconds / 5),
    Before = cpu(),
    Began = now_ns(),
    {Count, Taken} = asked(Ask, Callers, Seconds),
    Passed = now_ns() - Began,
    [
        field("value", float(Count * 1.0e9 / Passed)),
        field("cpu_us", float((cpu() - Before) * 1.0e6 / Count))
        | latencies(Taken)
    ].

asked(Ask, Callers, Seconds) ->
    End = now_ns() + round(Seconds * 1.0e9),
    Caller = fun() -> exit({asked, ask_until(Ask, End, 0, [])}) end,
    Monitors = [element(2, spawn_monitor(Caller)) || _ <- lists:seq(1, Callers)],
    Asked = [
        receive
            {'DOWN', Monitor, process, _, {asked, CountAndTaken}} -> CountAndTaken;
            {'DOWN', Monitor, process, _, Reason} -> error(Reason)
        end
     || Monitor <- Monitors
    ],
    {Counts, Taken} = lists:unzip(Asked),
    {lists:sum(Counts), lists:append(Taken)}.

%% One of these is timed: two looks at the clock take as long as a part of what is measured.
-define(TIMED_OF, 16).

ask_until(Ask, End, N, Taken) ->
    Began = now_ns(),
    Next = ask_times(Ask, N, 1),
    Now = now_ns(),
    Timed = [Now - Began | Taken],
    case Now < End of
        true -> ask_until(Ask, End, ask_times(Ask, Next, ?TIMED_OF - 1), Timed);
        false -> {Next, Timed}
    end.

ask_times(_Ask, N, 0) ->
    N;
ask_times(Ask, N, Times) ->
    Expected = N + 1,
    {ok, Expected} = Ask(N),
    ask_times(Ask, Expected, Times - 1).

%% The loop and the VM have gone to sleep before each.
after_rest(Ask, Ms, Seconds) ->
    ok = Ask(),
    Taken = [
        begin
            timer:sleep(Ms),
            Began = now_ns(),
            ok = Ask(),
            now_ns() - Began
        end
     || _ <- lists:seq(1, max(3, round(Seconds * 40)))
    ],
    [field("value", float(quantile(Taken, 0.5) / 1000)) | latencies(Taken)].

%% Computes on a call thread until it is stopped.
beside_computing(Seconds) ->
    {ok, Task} = py:submit(?ASKED, compute, []),
    Figures = after_rest(fun increment_later/0, 1, Seconds),
    {ok, true} = py:call(?ASKED, stop_computing, []),
    {ok, _} = py:await(Task),
    Figures.

increment_later() ->
    {ok, 8} = py:call(?ASKED, increment_later, [7]),
    ok.

echoed(Port) ->
    true = port_command(Port, <<"x">>),
    receive
        {Port, {data, <<"x">>}} -> ok
    end.

%% Bounded batches: a cast does not wait, so nothing else would bound the queue.
casts(Seconds) ->
    {ok, 0} = py:call(?ASKED, noted, []),
    Began = now_ns(),
    Count = cast_until(Began + round(Seconds * 1.0e9), 0),
    [field("value", float(Count * 1.0e9 / (now_ns() - Began)))].

cast_until(End, Count) ->
    Batch = 1000,
    _ = [ok = py:cast(?ASKED, note, []) || _ <- lists:seq(1, Batch)],
    ok = wait_for_notes(Count + Batch),
    case now_ns() < End of
        true -> cast_until(End, Count + Batch);
        false -> Count + Batch
    end.

%% Several threads may run casts, so the last one's end is not the end of all.
wait_for_notes(Count) ->
    case py:call(?ASKED, noted, []) of
        {ok, Count} -> ok;
        {ok, Fewer} when Fewer < Count -> wait_for_notes(Count)
    end.

%% Items per second from an asynchronous generator, a thousand each.
streams(Take, Seconds) ->
    Length = 1000,
    %% The first one starts Python and imports the module.
    _ = Take(Length),
    Began = now_ns(),
    Count = stream_until(Take, Length, Began + round(Seconds * 1.0e9), 0),
    [field("value", float(Count * 1.0e9 / (now_ns() - Began)))].

stream_until(Take, Length, End, Count) ->
    Wanted = lists:seq(0, Length - 1),
    Wanted = Take(Length),
    case now_ns() < End of
        true -> stream_until(Take, Length, End, Count + Length);
        false -> Count + Length
    end.

%% All items are wanted at once; the end is found behind the last.
stream(Length) ->
    {ok, Stream} = py:stream(?ASKED, count_to, [Length], #{}, #{demand => Length + 1}),
    items(Stream, []).

items(Stream, Items) ->
    receive
        {py_stream, Stream, {data, Item}} -> items(Stream, [Item | Items]);
        {py_stream, Stream, done} -> lists:reverse(Items);
        {py_stream, Stream, {error, Reason}} -> error(Reason)
    after 10000 -> error({stream_stopped_after, length(Items)})
    end.

%% With unlimited demand.
fold(Length) ->
    {ok, Items} = py:fold(fun(Item, Items) -> [Item | Items] end, [], ?ASKED, count_to, [Length]),
    lists:reverse(Items).

%% Loops without a supervisor, all of them at once.
loops(Figure, Count) ->
    %% Python and its default loop are up before.
    {ok, 1} = py:call(?ASKED, increment_later, [0]),
    Before = resident(),
    Began = now_ns(),
    Loops = [element(2, {ok, _} = py_event_loop:start_link(#{})) || _ <- lists:seq(1, Count)],
    Started = now_ns() - Began,
    Idle = resident() - Before,
    Asked =
        case lists:member(Figure, ["asked", "end"]) of
            true -> asked_once(Loops, Before);
            false -> 0
        end,
    Ended = ended(Loops),
    Value =
        case Figure of
            "start" -> Started / 1000;
            "idle" -> Idle;
            "asked" -> Asked;
            "end" -> Ended / 1000
        end,
    [field("value", float(Value / Count))].

asked_once(Loops, Before) ->
    _ = [{ok, 1} = py_event_loop:run(Loop, ?ASKED, increment_later, [0]) || Loop <- Loops],
    resident() - Before.

ended(Loops) ->
    Began = now_ns(),
    Monitors = [
        begin
            unlink(Loop),
            exit(Loop, shutdown),
            monitor(process, Loop)
        end
     || Loop <- Loops
    ],
    _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || Monitor <- Monitors],
    now_ns() - Began.

%% KiB.
resident() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Text]} = re:run(Status, "VmRSS:\\s+(\\d+)", [{capture, all_but_first, list}]),
    list_to_integer(Text).

%% --- figures -------------------------------------------------------------------------------

latencies(Taken) ->
    [
        field("p50_us", float(quantile(Taken, 0.5) / 1000)),
        field("p99_us", float(quantile(Taken, 0.99) / 1000))
    ].

quantile(Taken, Share) ->
    Sorted = lists:sort(Taken),
    lists:nth(max(1, ceil(Share * length(Sorted))), Sorted).

cpu() ->
    {ok, Seconds} = py:call(time, process_time, []),
    Seconds.

now_ns() ->
    erlang:monotonic_time(nanosecond).

number(Text) ->
    try
        list_to_float(Text)
    catch
        error:badarg -> float(list_to_integer(Text))
    end.

field(Name, Value) when is_float(Value) ->
    field(Name, io_lib:format("~.4f", [Value]));
field(Name, Value) ->
    ["\"", Name, "\": ", Value].

quoted(Text) ->
    Escaped = lists:flatmap(
        fun
            (C) when C =:= $"; C =:= $\\ -> [$\\, C];
            (C) when C < 32 -> " ";
            (C) -> [C]
        end,
        lists:flatten(Text)
    ),
    ["\"", Escaped, "\""].
