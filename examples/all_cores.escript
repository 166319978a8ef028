#!/usr/bin/env escript
%% Python that computes, on all cores: a pool of peers, one for each core, counts primes. In the node itself
%% one GIL would let one core compute at a time.
%%
%%   ERL_LIBS=_build/default/lib escript examples/all_cores.escript
-mode(compile).

-define(PIECE, 5000).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    Cores = erlang:system_info(schedulers_online),
    {ok, _} = py_event_loop_pool:start_link(#{
        name => workers, size => Cores, place => peer, init => <<"import all_cores">>
    }),
    Starts = lists:seq(0, 95_000, ?PIECE),
    %% All pieces are submitted at once; each loop runs its own one after another.
    Tasks = [
        element(2, {ok, _} = py_event_loop_pool:submit(workers, all_cores, primes, [Start, Start + ?PIECE]))
     || Start <- Starts
    ],
    Counts = [element(2, {ok, _} = py:await(Task, 60_000)) || Task <- Tasks],
    io:format("~b primes below 100000~n", [lists:sum([Count || {_, Count} <- Counts])]),
    Processes = length(lists:usort([Process || {Process, _} <- Counts])),
    io:format("counted by one process for each core: ~p~n", [Processes =:= Cores]),
    ok = py_event_loop_pool:stop(workers),
    ok = application:stop(erlang_loop).
