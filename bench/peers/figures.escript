#!/usr/bin/env escript
%% -*- erlang -*-
%%! -hidden
%% Figures of peers, in one run: round trips, large data, spares, memory. `make bench-peers'.
%%
%%   bench/peers/figures.escript [round_trips] [large_data] [spares] [cores] [memory]
%%
%% Times are medians and the best of all rounds; other programs on the machine make them larger.
-mode(compile).

main([]) ->
    main(["round_trips", "large_data", "spares", "cores", "memory"]);
main(Names) ->
    Root = filename:dirname(filename:dirname(filename:dirname(filename:absname(escript:script_name())))),
    true = code:add_patha(filename:join(Root, "_build/default/lib/erlang_loop/ebin")),
    ok = application:load(erlang_loop),
    Folder = unicode:characters_to_binary(filename:join(Root, "bench/peers")),
    ok = application:set_env(erlang_loop, python_path, [Folder]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    _ = logger:set_primary_config(level, critical),
    process_flag(trap_exit, true),
    lists:foreach(fun(Name) -> figures(list_to_existing_atom(Name)) end, Names).

figures(round_trips) ->
    Loop = start(#{}),
    Local = element(2, py_event_loop:start_link(#{})),
    show("trivial coroutine, one caller, in this process", rounds(2000, fun() -> {ok, 2} = run(Local, increment_later, [1]) end)),
    show("trivial coroutine, one caller, in a peer", rounds(2000, fun() -> {ok, 2} = run(Loop, increment_later, [1]) end)),
    show("trivial function, one caller, in a peer", rounds(2000, fun() -> {ok, 2} = run(Loop, increment, [1]) end)),
    rate("coroutines a second, 100 callers, in this process", 100, fun() -> {ok, 2} = run(Local, increment_later, [1]) end),
    rate("coroutines a second, 100 callers, in a peer", 100, fun() -> {ok, 2} = run(Loop, increment_later, [1]) end),
    stop(Loop);
figures(large_data) ->
    Loop = start(#{}),
    Other = start(#{}),
    lists:foreach(fun(Kilobytes) -> sizes(Loop, Kilobytes) end, [512, 2048, 4096]),
    {ok, {ndarray, _, _, Elements} = Array} = run(Loop, filled_array, [25_000_000]),
    show("200 MB array from Erlang to another peer and its first element back", rounds(10, fun() ->
        {ok, 1.0} = run(Other, first, [Array])
    end)),
    io:format("    ~b bytes; copies: ~p~n", [byte_size(Elements), [copies(L) || L <- [Loop, Other]]]),
    stop(Loop),
    stop(Other);
figures(spares) ->
    Options = #{name => spares, size => 2, spare => 1, place => peer, intensity => 1000},
    Times = [spare(Options) || _ <- lists:seq(1, 3)],
    io:format("a spare has replied, after the crash: ~b to ~b us~n", [lists:min(Times), lists:max(Times)]);
figures(cores) ->
    [One, Two] = [computed(Peers) || Peers <- [1, 2]],
    io:format("computing calls of 1 ms a second: one peer ~b, two peers ~b (~.2f times)~n", [One, Two, Two / One]);
figures(memory) ->
    lists:foreach(fun memory/1, [1, 10, 50]).

start(Options) ->
    {ok, Loop} = py_event_loop:start_link(Options#{place => peer}),
    Loop.

stop(Loop) ->
    _ = py_event_loop:stop(Loop),
    ok.

run(Loop, Function, Args) ->
    py_event_loop:run(Loop, work, Function, Args, #{}, 60_000).

rounds(Count, Do) ->
    _ = [Do() || _ <- lists:seq(1, Count div 10 + 1)],
    lists:sort([element(1, timer:tc(Do)) || _ <- lists:seq(1, Count)]).

show(What, Sorted) ->
    io:format("~ts: p50 ~b us, best ~b us~n", [What, lists:nth(length(Sorted) div 2, Sorted), hd(Sorted)]).

rate(What, Callers, Do) ->
    Counter = counters:new(1, []),
    Pids = [spawn_link(fun() -> again(Do, Counter) end) || _ <- lists:seq(1, Callers)],
    timer:sleep(500),
    Before = counters:get(Counter, 1),
    timer:sleep(3000),
    After = counters:get(Counter, 1),
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Pids],
    io:format("~ts: ~b~n", [What, (After - Before) div 3]).

again(Do, Counter) ->
    Do(),
    counters:add(Counter, 1, 1),
    again(Do, Counter).

sizes(Loop, Kilobytes) ->
    Bytes = binary:copy(<<0>>, Kilobytes * 1024),
    Rounds = min(300, 100_000 div Kilobytes),
    {ok, Shared} = run(Loop, identity, [{view, Bytes}]),
    show(integer_to_list(Kilobytes) ++ " KiB there and back, ordinary binary", rounds(Rounds, fun() ->
        {ok, _} = run(Loop, identity, [{view, Bytes}])
    end)),
    show(integer_to_list(Kilobytes) ++ " KiB there and back, came from a peer", rounds(Rounds, fun() ->
        {ok, _} = run(Loop, identity, [{view, Shared}])
    end)).

copies(Loop) ->
    {ok, #{large_data := #{to_peer := #{copied_bytes := To}, from_peer := #{copied_bytes := From}}}} =
        py_event_loop:info(Loop),
    {To, From}.

spare(Options) ->
    {ok, Pool} = py_event_loop_pool:start_link(Options),
    {error, {peer_down, _}} = py_event_loop_pool:run(spares, ctypes, string_at, [0]),
    {Time, _} = timer:tc(fun() ->
        [{ok, 2} = py_event_loop_pool:run(spares, work, increment, [1]) || _ <- lists:seq(1, 3)]
    end),
    ok = py_event_loop_pool:stop(spares),
    receive {'EXIT', Pool, _} -> Time after 0 -> Time end.

computed(Peers) ->
    {ok, _} = py_event_loop_pool:start_link(#{name => cores, size => Peers, place => peer}),
    Counter = counters:new(1, []),
    Do = fun() -> {ok, _} = py_event_loop_pool:run(cores, work, compute, [1.0], #{}, 60_000) end,
    Pids = [spawn_link(fun() -> again(Do, Counter) end) || _ <- lists:seq(1, 2 * Peers)],
    timer:sleep(1000),
    Before = counters:get(Counter, 1),
    timer:sleep(4000),
    After = counters:get(Counter, 1),
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Pids],
    ok = py_event_loop_pool:stop(cores),
    (After - Before) div 4.

memory(Count) ->
    Before = available(),
    Started = erlang:monotonic_time(millisecond),
    Loops = [start(#{}) || _ <- lists:seq(1, Count)],
    Ended = erlang:monotonic_time(millisecond),
    _ = [{ok, 2} = run(Loop, increment, [1]) || Loop <- Loops],
    Pss = [pss(Loop) || Loop <- Loops],
    io:format("~b peers: ~.1f MB each (proportional), ~.1f MB of the machine's memory each; started in ~b ms~n", [
        Count, lists:sum(Pss) / Count / 1024, (Before - available()) / Count / 1024, Ended - Started
    ]),
    lists:foreach(fun stop/1, Loops).

%% Kilobytes.
available() ->
    number("/proc/meminfo", "MemAvailable:\\s*(\\d+)").

pss(Loop) ->
    {ok, #{os_pid := OsPid}} = py_event_loop:info(Loop),
    number("/proc/" ++ integer_to_list(OsPid) ++ "/smaps_rollup", "Pss:\\s*(\\d+)").

number(File, Pattern) ->
    {ok, Text} = file:read_file(File),
    {match, [Digits]} = re:run(Text, Pattern, [{capture, all_but_first, list}]),
    list_to_integer(Digits).
