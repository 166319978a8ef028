#!/usr/bin/env escript
%%! -name three_nodes@127.0.0.1 -kernel prevent_overlapping_partitions false
%% A pool over three nodes: each has a loop in the group `words', and this one has a pool over all of them.
%% One node is killed; the pool goes on with the others.
%%
%% Your nodes are on different machines. Here two of them are started with OTP's peer, on this one.
%%
%%   ERL_LIBS=_build/default/lib escript examples/three_nodes.escript
-mode(compile).

main([]) ->
    %% The report of the killed node would only clutter the output.
    ok = logger:set_primary_config(level, none),
    [{Second, _}, _] = [start_node(Name) || Name <- [second_of_three, third_of_three]],
    ok = start_loop(),
    {ok, _} = py_event_loop_pool:start_link(#{name => everywhere, place => {group, words}}),
    Nodes = await_nodes(3),
    io:format("a pool over ~b nodes~n", [length(Nodes)]),
    io:format("30 calls were run by ~b of them~n", [length(run_by(30))]),
    %% All requests of a user go to the same loop, as long as it is there.
    Kept = lists:usort([where(#{affinity => <<"user 42">>}) || _ <- lists:seq(1, 10)]),
    io:format("10 calls with one key by ~b~n", [length(Kept)]),
    ok = peer:stop(Second),
    _ = await_nodes(2),
    io:format("one node is gone: 30 calls were run by ~b~n", [length(run_by(30))]),
    ok = py_event_loop_pool:stop(everywhere).

start_node(Name) ->
    {ok, Peer, Node} = peer:start_link(#{
        name => Name,
        host => "127.0.0.1",
        longnames => true,
        wait_boot => 60_000,
        args => ["-kernel", "prevent_overlapping_partitions", "false"]
    }),
    ok = erpc:call(Node, logger, set_primary_config, [level, none]),
    true = erpc:call(Node, code, add_patha, [code:lib_dir(erlang_loop, ebin)]),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [erlang_loop]),
    %% Your application has this as a child of its supervisor: py_event_loop:child_spec/1.
    {ok, _} = erpc:call(Node, supervisor, start_child, [kernel_safe_sup, worker()]),
    {Peer, Node}.

worker() ->
    #{id => worker, start => {py_event_loop, start_link, [#{name => worker, group => words}]}}.

start_loop() ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, _} = py_event_loop:start_link(#{name => worker, group => words}),
    ok.

await_nodes(Count) ->
    {ok, Loops} = py_event_loop_pool:info(everywhere),
    case [Node || #{node := Node, reachable := true} <- Loops] of
        Nodes when length(Nodes) =:= Count ->
            Nodes;
        _ ->
            %% Nodes report their loops to each other; there is no event to wait for.
            timer:sleep(50),
            await_nodes(Count)
    end.

run_by(Calls) ->
    lists:usort([where(#{}) || _ <- lists:seq(1, Calls)]).

%% The process of the operating system that runs a call.
where(Options) ->
    {ok, Where} = py_event_loop_pool:call(everywhere, os, getpid, [], #{}, Options),
    Where.
