%% @doc Does anything stay behind when something is done very often?
%%
%% `make test' does a hundredth of it, `make leaks' all (`LEAKS=100' per cent). Each case has a
%% node of its own, in which all is done once before it is measured.
-module(py_leaks_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([a_million_calls/1, a_million_references/1, a_million_timers/1, hundred_thousand_connections/1]).
-export([hundred_thousand_loops/1, hundred_thousand_loops_of_erlang/1]).
%% Called in the other node.
-export([calls/1, references/1, timers/1, connections/1, loops/1, loops_of_erlang/1]).

suite() -> [{timetrap, {hours, 3}}].

all() ->
    [Case || {Case, 1} <- ?MODULE:module_info(exports), is_case(Case)].

is_case(Case) ->
    lists:member(hd(string:split(atom_to_list(Case), "_")), ["a", "hundred"]).

a_million_calls(_Config) -> there(calls, 1_000_000).
a_million_references(_Config) -> there(references, 1_000_000).
a_million_timers(_Config) -> there(timers, 1_000_000).
hundred_thousand_connections(_Config) -> there(connections, 100_000).
hundred_thousand_loops(_Config) -> there(loops, 100_000).
hundred_thousand_loops_of_erlang(_Config) -> there(loops_of_erlang, 100_000).

%% Of plain functions and coroutines, some of which raise, by ten callers.
calls(Count) ->
    Each = Count div 10,
    Callers = [spawn_monitor(fun() -> call(Each) end) || _ <- lists:seq(1, 10)],
    _ = [
        receive
            {'DOWN', Monitor, _, Pid, Reason} -> ?assertEqual(normal, Reason)
        end
     || {Pid, Monitor} <- Callers
    ],
    ok.

call(0) ->
    ok;
call(Left) ->
    _ =
        case Left rem 3 of
            0 -> {ok, Left} = py:call(called, add, [Left, 0], #{}, 60_000);
            1 -> {ok, Left} = py:call(asyncio, sleep, [0, Left], #{}, 60_000);
            2 -> {error, #{message := <<"on purpose">>}} = py:call(called, fail, [<<"on purpose">>])
        end,
    call(Left - 1).

%% To objects made by plain functions and by coroutines; some are used and come back. At the end
%% the objects are gone, too.
references(Count) ->
    {Pid, Monitor} = spawn_monitor(fun() -> refer(Count) end),
    receive
        {'DOWN', Monitor, _, Pid, Reason} -> ?assertEqual(normal, Reason)
    end,
    eventually:is({ok, 0}, fun() -> py:call(referred, living, []) end).

refer(0) ->
    ok;
refer(Left) ->
    By = #{return => ref, timeout => 60_000},
    Function =
        case Left rem 2 of
            0 -> counted;
            1 -> counted_later
        end,
    {ok, Ref} = py:call(referred, Function, [], #{}, By),
    _ = Left rem 10 =:= 0 andalso py:call(referred, is_same, [Ref, [Ref]], #{}, By),
    refer(Left - 1).

timers(Count) ->
    Parts = max(1, Count div 100_000),
    Each = Count div Parts,
    _ = [
        ?assertEqual({ok, (Each + 1) div 2}, py:call(soaked, timers, [Each], #{}, 600_000))
     || _ <- lists:seq(1, Parts)
    ],
    ok.

connections(Count) ->
    {ok, {Echo, _}} = py:call(soaked, start_servers, []),
    {ok, Count} = py:call(soaked, connections, [Echo, Count], #{}, infinity),
    {ok, _} = py:call(soaked, stop_servers, []),
    ok.

loops(Count) ->
    {ok, Count} = py:call(soaked, loops, [Count], #{}, infinity),
    ok.

loops_of_erlang(0) ->
    ok;
loops_of_erlang(Left) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Left} = py_event_loop:run(Loop, asyncio, sleep, [0, Left], #{}, 60_000),
    {ok, []} = py_event_loop:stop(Loop),
    loops_of_erlang(Left - 1).

there(Function, All) ->
    Percent = list_to_integer(os:getenv("LEAKS", "1")),
    Count = All * Percent div 100,
    Node = other_node:start([{python_path, [project:file("test/support/python")]}]),
    try
        {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
        %% The default loop makes its descriptors when it first watches or sleeps: now, not somewhere
        %% below.
        {ok, _} = other_node:call(Node, py, call, [called, watch_something, [], #{}, 60_000]),
        %% Half as much before: what grows with use and stays has been allocated by then.
        ok = peer:call(Node, ?MODULE, Function, [Count div 2], infinity),
        Before = other_node:call(Node, footprint, measure, []),
        ok = peer:call(Node, ?MODULE, Function, [Count], infinity),
        %% 20 bytes for each would be more than this.
        Allowed = 16_000_000 + 20 * Count,
        Growth = peer:call(Node, footprint, back_to, [Before, Allowed], infinity),
        io:format(user, "~p ~p: ~p bytes more~n", [Count, Function, Growth])
    after
        other_node:stop(Node)
    end.
