%% @doc What do callers get when a peer dies, and is anything left of it? The rows of the table "When
%% a peer dies" in docs/peers.md.
-module(py_peer_death_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_segmentation_fault/1,
    an_exit_code/1,
    a_kill/1,
    callers_tasks_and_streams_get_the_reason/1,
    a_crash_does_not_affect_other_peers/1,
    a_supervisor_starts_another_one/1,
    a_killed_proxy_ends_its_peer/1,
    a_linked_process_ends_the_peer/1,
    a_killed_proxy_ends_streams/1,
    a_peer_that_dies_while_it_starts/1,
    a_peer_that_dies_in_its_init_code/1,
    a_peer_that_does_not_start_in_time/1,
    a_loop_that_ends_in_its_peer/1,
    a_loop_that_is_killed_in_its_peer/1,
    a_killed_origin_leaves_no_peer/1
]).
-export([init/1]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> cases:of_suite(?MODULE, [init]).

init_per_suite(Config) -> peers:begin_suite(Config).
end_per_suite(_Config) -> peers:end_suite().

init_per_testcase(_Case, Config) ->
    _ = process_flag(trap_exit, true),
    peers:begin_case(Config).
end_per_testcase(_Case, Config) -> peers:end_case(Config).

a_segmentation_fault(_Config) ->
    dies({signal, sigsegv}, ctypes, string_at, [0]).

an_exit_code(_Config) ->
    dies({exit, 3}, os, '_exit', [3]),
    dies({signal, sigabrt}, os, abort, []).

a_kill(_Config) ->
    Loop = peers:start(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    "" = os:cmd("kill -KILL " ++ integer_to_list(peers:os_pid(Loop))),
    ?assertEqual({error, {peer_down, {signal, sigkill}}}, py:await(Task)).

%% The crash is caused by the function itself.
dies(Why, Module, Function, Args) ->
    Loop = peers:start(#{}),
    Monitor = monitor(process, Loop),
    ?assertEqual({error, {peer_down, Why}}, py_event_loop:run(Loop, Module, Function, Args)),
    receive
        {'DOWN', Monitor, process, Loop, Reason} -> ?assertEqual({peer_down, Why}, Reason)
    end,
    ?assertEqual({error, loop_down}, py_event_loop:run(Loop, math, sqrt, [4])).

callers_tasks_and_streams_get_the_reason(_Config) ->
    Loop = peers:start(#{}),
    Down = {error, {peer_down, {signal, sigsegv}}},
    Call = fun() -> exit(py_event_loop:run(Loop, called, wait_forever, [<<"x">>], #{}, infinity)) end,
    Callers = [spawn_monitor(Call) || _ <- lists:seq(1, 20)],
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    {ok, Yielded} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, waits, [<<"x">>], #{}, #{demand => 10}),
    ?assertEqual([0], streams:await_items(Stream, 1)),
    Fold = fun() ->
        Options = #{loop => Loop, timeout => infinity},
        exit(py:fold(fun(_, A) -> A end, a, streamed, waits, [<<"x">>], #{}, Options))
    end,
    Folder = spawn_monitor(Fold),
    %% The callers, the tasks, the stream and the fold.
    eventually:is({ok, 24}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    ?assertEqual(Down, py_event_loop:run(Loop, ctypes, string_at, [0])),
    _ = [
        receive
            {'DOWN', Monitor, process, Pid, Result} -> ?assertEqual(Down, Result)
        end
     || {Pid, Monitor} <- [Folder | Callers]
    ],
    ?assertEqual({value, Down}, py:yield(Yielded)),
    ?assertEqual(Down, py:await(Task)),
    ?assertEqual({[], Down}, streams:rest_of(Stream)),
    ok = py:cancel(Stream),
    ok = py:demand(Stream, 1),
    ok = py:cancel(Task).

a_crash_does_not_affect_other_peers(_Config) ->
    [One, Other] = [peers:start(#{}) || _ <- [1, 2]],
    {ok, Task} = py_event_loop:submit(Other, asyncio, sleep, [0.5, <<"slept">>]),
    {error, {peer_down, _}} = py_event_loop:run(One, ctypes, string_at, [0]),
    ?assertEqual({ok, <<"slept">>}, py:await(Task)),
    peers:stop(Other).

a_supervisor_starts_another_one(_Config) ->
    Options = peers:options(#{name => supervised_peer, init => <<"import called\ncalled.note('init')">>}),
    {ok, Supervisor} = supervisor:start_link(?MODULE, py_event_loop:child_spec(Options)),
    First = whereis(supervised_peer),
    {error, {peer_down, _}} = py_event_loop:run(supervised_peer, ctypes, string_at, [0]),
    eventually:is(true, fun() ->
        is_pid(whereis(supervised_peer)) andalso whereis(supervised_peer) =/= First andalso
            {ok, 4.0} =:= py_event_loop:run(supervised_peer, math, sqrt, [16])
    end, 30_000),
    ?assertEqual({ok, [<<"init">>]}, py_event_loop:run(supervised_peer, called, take_events, [])),
    ok = gen_server:stop(Supervisor).

init(Spec) ->
    {ok, {#{strategy => one_for_one}, [Spec]}}.

a_killed_proxy_ends_its_peer(_Config) ->
    Loop = peers:start(#{}),
    OsPid = peers:os_pid(Loop),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    ok = mortal:kill(Loop),
    ?assertEqual({error, loop_down}, py:await(Task)),
    eventually:is(false, fun() -> peers:is_running(OsPid) end).

a_linked_process_ends_the_peer(_Config) ->
    Self = self(),
    Owner = spawn(fun() ->
        {ok, Loop} = py_event_loop:start_link(peers:options(#{})),
        Self ! {loop, Loop},
        receive
            stop -> exit(on_purpose)
        end
    end),
    Loop =
        receive
            {loop, Started} -> Started
        end,
    OsPid = peers:os_pid(Loop),
    Owner ! stop,
    ?assertEqual(on_purpose, peers:ended(Loop)),
    eventually:is(false, fun() -> peers:is_running(OsPid) end).

a_killed_proxy_ends_streams(_Config) ->
    Loop = peers:start(#{}),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, waits, [<<"x">>], #{}, #{demand => 10}),
    ?assertEqual([0], streams:await_items(Stream, 1)),
    ok = mortal:kill(Loop),
    ?assertEqual({[], {error, loop_down}}, streams:rest_of(Stream)).

a_peer_that_dies_while_it_starts(_Config) ->
    Place = {peer, #{args => ["-no_such_flag", "+no_such_flag"]}},
    ?assertEqual({error, {peer_down, {exit, 1}}}, py_event_loop:start_link(#{place => Place})).

a_peer_that_dies_in_its_init_code(_Config) ->
    ?assertEqual(
        {error, {peer_down, {exit, 4}}},
        py_event_loop:start_link(#{place => peer, init => <<"import os\nos._exit(4)">>})
    ).

a_peer_that_does_not_start_in_time(_Config) ->
    Place = {peer, #{start_timeout => 1}},
    ?assertEqual({error, {peer_down, start_timeout}}, py_event_loop:start_link(#{place => Place})).

a_loop_that_ends_in_its_peer(_Config) ->
    Loop = peers:start(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    {ok, none} = py_event_loop:run(Loop, called, stop_loop, []),
    {error, cancelled} = py:await(Task),
    ?assert(lists:member(peers:ended(Loop), [normal, noproc])).

a_loop_that_is_killed_in_its_peer(_Config) ->
    Loop = peers:start(#{name => killed_over_there}),
    {ok, #{node := Node}} = py_event_loop:info(Loop),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"x">>]),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, called, count_tasks, []) end),
    Monitor = monitor(process, Loop),
    true = exit(erpc:call(Node, erlang, whereis, [killed_over_there]), kill),
    ?assertEqual({error, loop_down}, py:await(Task)),
    receive
        {'DOWN', Monitor, process, Loop, Reason} ->
            ?assertEqual({peer_down, {loop, killed}}, Reason)
    end.

%% Of a node of its own.
a_killed_origin_leaves_no_peer(_Config) ->
    Paths = lists:append([["-pa", Dir] || Dir <- project:ebin_dirs()]),
    Code =
        "{ok, _} = application:ensure_all_started(erlang_loop),"
        "[{ok, _} = py_event_loop:start_link(#{place => peer}) || _ <- [1, 2]],"
        "io:format(\"peers ~w~n\", [peers:running()]).",
    Port = open_port({spawn_executable, os:find_executable("erl")}, [
        {args, ["-noinput" | Paths] ++ ["-eval", Code]}, {line, 1000}, exit_status
    ]),
    {os_pid, Origin} = erlang:port_info(Port, os_pid),
    Peers = await_peers(Port),
    ?assertEqual(2, length(Peers)),
    %% One that is stopped does not notice the end of its input.
    "" = os:cmd("kill -STOP " ++ integer_to_list(hd(Peers))),
    "" = os:cmd("kill -KILL " ++ integer_to_list(Origin)),
    eventually:is([], fun() -> [Peer || Peer <- Peers, peers:is_running(Peer)] end, 2000),
    receive
        {Port, {exit_status, _}} -> ok
    end,
    receive
        {'EXIT', Port, _} -> ok
    after 0 -> ok
    end.

await_peers(Port) ->
    receive
        {Port, {data, {eol, "peers [" ++ Listed}}} ->
            [list_to_integer(Word) || Word <- string:lexemes(Listed, ",]")];
        {Port, {data, _}} ->
            await_peers(Port);
        {Port, {exit_status, Status}} ->
            error({origin_ended, Status})
    end.
