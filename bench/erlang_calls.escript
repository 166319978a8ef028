#!/usr/bin/env escript
%% Calls from Erlang to Python: round trips of one caller, requests a second of many, the first
%% request after a pause, and what thousands of idle loops cost.
%%
%%   ERL_LIBS=_build/default/lib escript bench/erlang_calls.escript [case ...] [seconds=N]
%%
%% Prints a line for each figure: name, value, unit. docs/performance.md has what was learnt.
-mode(compile).

-define(CODE, <<
    "def nothing():\n"
    "    return None\n"
    "async def nothing_later():\n"
    "    return None\n"
    "import asyncio\n"
    "async def next_turn():\n"
    "    await asyncio.sleep(0)\n"
>>).

main(Args) ->
    {Settings, Cases} = lists:partition(fun(Arg) -> lists:member($=, Arg) end, Args),
    Seconds = setting("seconds", Settings, 2),
    {ok, _} = application:ensure_all_started(erlang_loop),
    ok = py:exec(?CODE),
    _ = [run(Case, Seconds, Settings) || Case <- chosen(Cases)],
    ok = logger:set_primary_config(level, none),
    ok = application:stop(erlang_loop).

setting(Name, Settings, Default) ->
    case [Value || Setting <- Settings, [N, Value] <- [string:split(Setting, "=")], N =:= Name] of
        [] -> Default;
        [Value | _] -> list_to_integer(Value)
    end.

chosen([]) -> ["round_trip", "throughput", "casts", "after_idle", "idle_loops"];
chosen(Cases) -> Cases.

run("round_trip", Seconds, _) ->
    [round_trip(Name, Fun, Seconds) || {Name, Fun} <- functions()];
run("throughput", Seconds, Settings) ->
    Callers = case setting("callers", Settings, 0) of 0 -> [1, 10, 100]; N -> [N] end,
    [throughput(Name, Fun, N, Seconds) || {Name, Fun} <- functions(), N <- Callers];
run("call", Seconds, Settings) ->
    throughput("call", nothing, setting("callers", Settings, 100), Seconds);
run("coroutine", Seconds, Settings) ->
    throughput("coroutine", nothing_later, setting("callers", Settings, 100), Seconds);
run("casts", Seconds, _) ->
    casts(Seconds);
run("after_idle", _, _) ->
    [after_idle(Name, Fun) || {Name, Fun} <- functions()];
run("idle_loops", _, Settings) ->
    idle_loops(setting("loops", Settings, 10_000)).

functions() ->
    [{"call", nothing}, {"coroutine", nothing_later}, {"coroutine that waits a turn", next_turn}].

call(Function) ->
    {ok, _} = py:call(erlang_loop_shell, Function, []).

%% One caller, one request after another.
round_trip(Name, Function, Seconds) ->
    _ = [call(Function) || _ <- lists:seq(1, 2000)],
    End = erlang:monotonic_time() + erlang:convert_time_unit(Seconds, second, native),
    Times = lists:sort(timed(Function, End, [])),
    say("~s, one caller: median", [Name], us(nth(Times, 0.5)), "us"),
    say("~s, one caller: p99", [Name], us(nth(Times, 0.99)), "us").

timed(Function, End, Times) ->
    Before = erlang:monotonic_time(),
    call(Function),
    Now = erlang:monotonic_time(),
    case Now > End of
        true -> [Now - Before | Times];
        false -> timed(Function, End, [Now - Before | Times])
    end.

throughput(Name, Function, Callers, Seconds) ->
    call(Function),
    call(Function),
    Count = counters:new(1, [write_concurrency]),
    Pids = [spawn_monitor(fun() -> ask(Function, Count) end) || _ <- lists:seq(1, Callers)],
    timer:sleep(300),
    Cpu = cpu(),
    From = {erlang:monotonic_time(), counters:get(Count, 1)},
    timer:sleep(Seconds * 1000),
    To = {erlang:monotonic_time(), counters:get(Count, 1)},
    Used = 1000 * (cpu() - Cpu) / max(1, element(2, To) - element(2, From)),
    _ = [exit(Pid, kill) || {Pid, _} <- Pids],
    _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || {_, Monitor} <- Pids],
    say("~s, ~p callers", [Name, Callers], rate(From, To), "1/s"),
    say("~s, ~p callers: CPU of one", [Name, Callers], Used, "us").

ask(Function, Count) ->
    call(Function),
    counters:add(Count, 1, 1),
    ask(Function, Count).

rate({T0, N0}, {T1, N1}) ->
    round((N1 - N0) * 1.0e9 / erlang:convert_time_unit(T1 - T0, native, nanosecond)).

casts(Seconds) ->
    ok = py:exec(<<"count = 0\ndef add_one():\n    global count\n    count += 1\n">>),
    Started = erlang:monotonic_time(),
    Sent = cast_until(Started + erlang:convert_time_unit(Seconds, second, native), 0),
    wait_for_casts(Sent),
    say("casts", [], rate({Started, 0}, {erlang:monotonic_time(), Sent}), "1/s").

cast_until(End, Sent) ->
    case erlang:monotonic_time() > End of
        true -> Sent;
        false ->
            case py:cast(erlang_loop_shell, add_one, []) of
                ok -> cast_until(End, Sent + 1);
                {error, overload} -> timer:sleep(1), cast_until(End, Sent)
            end
    end.

wait_for_casts(Sent) ->
    case py:eval(<<"count">>) of
        {ok, Sent} -> ok;
        {ok, _} -> timer:sleep(10), wait_for_casts(Sent)
    end.

%% Long enough that loop and call thread are asleep.
after_idle(Name, Function) ->
    call(Function),
    Times = lists:sort([begin timer:sleep(50), element(1, timer:tc(fun() -> call(Function) end)) end
        || _ <- lists:seq(1, 50)]),
    say("~s, first after 50 ms: median", [Name], nth(Times, 0.5), "us").

idle_loops(Count) ->
    call(nothing_later),
    Before = memory(),
    {Micros, Loops} = timer:tc(fun() ->
        [element(2, {ok, _} = py_event_loop:start_link(#{})) || _ <- lists:seq(1, Count)]
    end),
    After = memory(),
    say("~p idle loops: start of one", [Count], Micros / Count, "us"),
    say("~p idle loops: memory of one", [Count], (maps:get(rss, After) - maps:get(rss, Before)) / Count, "KiB"),
    say("~p idle loops: threads", [Count], maps:get(threads, After) - maps:get(threads, Before), ""),
    say("~p idle loops: fds of one", [Count], (maps:get(fds, After) - maps:get(fds, Before)) / Count, ""),
    Shuffled = [Loop || {_, Loop} <- lists:sort([{rand:uniform(), Loop} || Loop <- Loops])],
    Asked = lists:sublist(Shuffled, 200),
    First = lists:sort([first(Loop) || Loop <- Asked]),
    say("~p idle loops: first request", [Count], nth(First, 0.5), "us"),
    timer:sleep(100),
    Second = lists:sort([first(Loop) || Loop <- Asked]),
    say("~p idle loops: second request, after a pause", [Count], nth(Second, 0.5), "us"),
    Cpu0 = cpu(),
    timer:sleep(2000),
    say("~p idle loops: CPU while idle", [Count], (cpu() - Cpu0) / 2000 * 100, "%"),
    {Used, _} = timer:tc(fun() -> lists:foreach(fun first/1, Loops) end),
    Busy = memory(),
    say("~p loops asked once: one, the first time", [Count], Used / Count, "us"),
    say("~p loops asked once: memory of one", [Count], (maps:get(rss, Busy) - maps:get(rss, Before)) / Count, "KiB"),
    say("~p loops asked once: threads", [Count], maps:get(threads, Busy) - maps:get(threads, Before), ""),
    say("~p loops asked once: fds of one", [Count], (maps:get(fds, Busy) - maps:get(fds, Before)) / Count, ""),
    timer:sleep(200),
    Third = lists:sort([first(Loop) || Loop <- Asked]),
    say("~p loops asked once: a request, one loop after another", [Count], nth(Third, 0.5), "us"),
    Cpu1 = cpu(),
    timer:sleep(2000),
    say("~p loops asked once: CPU while idle", [Count], (cpu() - Cpu1) / 2000 * 100, "%"),
    {Stop, _} = timer:tc(fun() -> stop(Loops) end),
    say("~p idle loops: end of one", [Count], Stop / Count, "us").

stop(Loops) ->
    Monitors = [begin unlink(Loop), exit(Loop, shutdown), monitor(process, Loop) end || Loop <- Loops],
    [receive {'DOWN', Monitor, _, _, _} -> ok end || Monitor <- Monitors].

first(Loop) ->
    {Micros, {ok, _}} = timer:tc(fun() ->
        py_event_loop:run(Loop, erlang_loop_shell, nothing_later, [], #{}, 60_000)
    end),
    Micros.

memory() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    Value = fun(Key) ->
        {match, [Text]} = re:run(Status, [Key, ":\\s+(\\d+)"], [{capture, all_but_first, list}]),
        list_to_integer(Text)
    end,
    {ok, Fds} = file:list_dir("/proc/self/fd"),
    #{rss => Value("VmRSS"), threads => Value("Threads"), fds => length(Fds)}.

%% Milliseconds.
cpu() ->
    {ok, Stat} = file:read_file("/proc/self/stat"),
    [_, Rest] = string:split(Stat, ")", trailing),
    Fields = string:lexemes(Rest, " "),
    (binary_to_integer(lists:nth(12, Fields)) + binary_to_integer(lists:nth(13, Fields))) * 10.

nth(Sorted, Share) ->
    lists:nth(max(1, round(length(Sorted) * Share)), Sorted).

us(Native) ->
    erlang:convert_time_unit(Native, native, nanosecond) / 1000.

say(Format, Args, Value, Unit) when is_float(Value) ->
    say(Format, Args, float_to_list(Value, [{decimals, 1}]), Unit);
say(Format, Args, Value, Unit) when is_integer(Value) ->
    say(Format, Args, integer_to_list(Value), Unit);
say(Format, Args, Value, Unit) ->
    io:format("~-55s ~10s ~s~n", [io_lib:format(Format, Args), Value, Unit]).
