#!/usr/bin/env escript
%% A program that misbehaves in five ways, and where the node shows each of them: docs/inside.md
%% explains what it prints.
%%
%%   ERL_LIBS=_build/default/lib escript examples/misbehaves.escript
-mode(compile).

main([]) ->
    ok = io:setopts([{encoding, unicode}]),
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, Reports} = py_event_loop:start_link(#{name => reports}),
    {ok, Report} = py_event_loop:submit(Reports, misbehaves, report, []),
    [{ok, none} = py:call(misbehaves, Function, []) || Function <- [forget, lose]],
    {ok, Wait} = py:submit(misbehaves, wait, []),
    {Reader, _} = spawn_monitor(fun reader/0),
    %% As a person would see it after a while.
    Found = found(#{no_yield_ms => 20, long_wait_ms => 100, no_demand_ms => 100}, 20),
    io:format("~ts~n", [[[py_inspect_text:lint(short(Lint)), $\n] || Lint <- Found]]),
    ok = py_inspect:tree(py_default_loop),
    true = exit(Reader, kill),
    [ok = py:cancel(Each) || Each <- [Report, Wait]],
    ok = application:stop(erlang_loop).

%% Takes three items, and does not ask for more.
reader() ->
    {ok, Rows} = py:stream(misbehaves, rows, [], #{}, #{demand => 3}),
    [receive {py_stream, Rows, {data, Row}} -> ok end || Row <- [0, 1, 2]],
    receive stop -> ok end.

%% Until each of the five was seen: the loop of `report' is often between two turns.
found(Options, Times) when Times > 0 ->
    Found = py_lint:watch(500, Options),
    case lists:usort([Kind || #{kind := Kind} <- Found]) of
        [long_wait, never_awaited, never_retrieved, no_demand, no_yield] -> lists:sort(Found);
        _ -> found(Options, Times - 1)
    end.

short(#{file := File} = Lint) ->
    Lint#{file := filename:basename(File)}.
