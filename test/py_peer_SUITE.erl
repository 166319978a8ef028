%% @doc Does a loop in an operating system process of its own, or on another node, work as a local
%% one does? What happens when that process dies is in py_peer_death_SUITE.
-module(py_peer_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_group/2, end_per_group/2]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    functions_and_coroutines/1,
    values_cross_as_they_do_locally/1,
    large_values_cross/1,
    exceptions_are_errors/1,
    misuse_raises/1,
    references_are_refused/1,
    a_timeout_cancels/1,
    tasks_are_awaited_and_cancelled/1,
    tasks_run_side_by_side/1,
    a_dead_caller_is_noticed/1,
    streams_are_consumed/1,
    a_cancelled_stream_is_closed/1,
    another_process_consumes_a_stream/1,
    a_dead_consumer_closes_the_stream/1,
    streams_of_what_fails/1,
    folds/1,
    actors_are_linked/1,
    output_reaches_the_callers_group_leader/1,
    info_and_tasks/1,
    many_callers/1
]).
-export([
    a_peer_is_started_and_stopped/1,
    init_code_runs_first/1,
    init_code_that_fails/1,
    bad_options_raise/1,
    settings_of_its_own/1,
    a_venv_that_is_missing/1,
    a_peer_is_hidden_and_has_no_port/1,
    logs_arrive_with_its_name/1,
    what_it_prints_is_logged/1,
    stop_returns_what_did_not_end/1,
    python_knows_peers_by_name/1,
    a_node_that_is_not_there/1
]).
%% In another node.
-export([forward/1]).

suite() -> [{timetrap, {minutes, 3}}].

all() -> [{group, peer}, {group, node}, {group, pid}, {group, life}].

groups() ->
    Life = [
        a_peer_is_started_and_stopped,
        init_code_runs_first,
        init_code_that_fails,
        bad_options_raise,
        settings_of_its_own,
        a_venv_that_is_missing,
        a_peer_is_hidden_and_has_no_port,
        logs_arrive_with_its_name,
        what_it_prints_is_logged,
        stop_returns_what_did_not_end,
        python_knows_peers_by_name,
        a_node_that_is_not_there
    ],
    Calls = cases:of_suite(?MODULE, [forward | Life]),
    [{peer, [], Calls}, {node, [], Calls}, {pid, [], Calls}, {life, [], Life}].

init_per_suite(Config) -> peers:begin_suite(Config).
end_per_suite(_Config) -> peers:end_suite().

%% `node': the node of a peer is as good as any other one.
init_per_group(peer, Config) ->
    [{loop, peers:start(#{name => peer_suite})} | Config];
init_per_group(node, Config) ->
    Host = peers:start(#{name => peer_suite_host}),
    {ok, #{node := Node}} = py_event_loop:info(Host),
    [{loop, peers:start(#{place => Node})}, {host, Host} | Config];
%% A loop that another node has started, which has no process here.
init_per_group(pid, Config) ->
    Host = peers:start(#{name => peer_suite_host}),
    {ok, #{node := Node}} = py_event_loop:info(Host),
    [{peer_suite_host, Loop}] = erpc:call(Node, py_event_loop, which_loops, []),
    [{loop, Loop}, {host, Host} | Config];
init_per_group(life, Config) ->
    Config.

end_per_group(pid, Config) ->
    peers:stop(proplists:get_value(host, Config));
end_per_group(_, Config) ->
    _ = [peers:stop(Loop) || {Key, Loop} <- Config, Key =:= loop orelse Key =:= host],
    ok.

init_per_testcase(_Case, Config) ->
    %% A loop that cannot start ends the processes that are linked to it.
    _ = process_flag(trap_exit, true),
    peers:begin_case(Config).
end_per_testcase(_Case, Config) -> peers:end_case(Config).

loop(Config) -> proplists:get_value(loop, Config).

%% Calls

functions_and_coroutines(Config) ->
    Loop = loop(Config),
    ?assertEqual({ok, 4.0}, py_event_loop:run(Loop, math, sqrt, [16])),
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add, [1], #{b => 2})),
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add, [1, 2], #{}, infinity)),
    ?assertEqual({ok, 4}, py:call(operator, add, [2, 2], #{}, #{loop => Loop})),
    ?assertEqual({ok, 42}, py:eval("6 * 7", #{}, #{loop => Loop})),
    {ok, Pid} = py_event_loop:run(Loop, os, getpid, []),
    ?assertNotEqual(os:getpid(), integer_to_list(Pid)).

values_cross_as_they_do_locally(Config) ->
    Values = [
        1, -1 bsl 100, 1.5, true, none, <<"text">>, {bytes, <<1, 255>>}, [1, [2]], {1, <<"x">>},
        #{<<"a">> => [1]}
    ],
    {ok, Local} = py:call(called, arguments, Values),
    ?assertEqual({ok, Local}, py_event_loop:run(loop(Config), called, arguments, Values)).

large_values_cross(Config) ->
    Bytes = binary:copy(<<"0123456789abcdef">>, 1 bsl 18),
    ?assertEqual(
        {ok, byte_size(Bytes)}, py_event_loop:run(loop(Config), builtins, len, [{bytes, Bytes}], #{}, 60_000)
    ),
    ?assertEqual({ok, Bytes}, py_event_loop:run(loop(Config), builtins, str, [Bytes], #{}, 60_000)).

exceptions_are_errors(Config) ->
    Loop = loop(Config),
    ?assertEqual(
        py:call(math, sqrt, [-1]), py_event_loop:run(Loop, math, sqrt, [-1])
    ),
    called:is_error("ValueError", "x", py_event_loop:run(Loop, called, fail_later, [<<"x">>])),
    called:is_error("ModuleNotFoundError", "No module named 'nowhere'", py_event_loop:run(Loop, nowhere, f, [])).

misuse_raises(Config) ->
    Loop = loop(Config),
    ?assertError(badarg, py_event_loop:run(Loop, math, sqrt, 16)),
    ?assertError(badarg, py_event_loop:run(Loop, math, sqrt, [16 | 17])),
    ?assertError(badarg, py_event_loop:run(Loop, 1, sqrt, [16])),
    ?assertError(badarg, py_event_loop:run(Loop, <<255>>, sqrt, [16])),
    ?assertError(badarg, py_event_loop:run(Loop, math, sqrt, [16], [])),
    ?assertError(badarg, py_event_loop:run(Loop, math, sqrt, [16], #{}, -1)),
    ?assertError(badarg, py_event_loop:submit(Loop, math, sqrt, 16)),
    ?assertError(badarg, py_event_loop:stream(Loop, math, sqrt, 16)),
    ?assertError(badarg, py_event_loop:stream(Loop, math, <<255>>, [16])),
    {ok, Stream} = py_event_loop:stream(Loop, builtins, iter, [[1]]),
    ?assertError(badarg, py:demand(Stream, 0)),
    ?assertError(badarg, py:demand(Stream, 1 bsl 64)),
    ok = py:cancel(Stream).

references_are_refused(Config) ->
    ?assertEqual(
        {error, {no_reference, remote}},
        py_event_loop:run(loop(Config), builtins, object, [], #{}, #{return => ref})
    ),
    %% Nor is a method of an object in this node called there.
    {ok, List} = py:call(builtins, list, [], #{}, #{return => ref}),
    [
        ?assertEqual({error, {no_reference, remote}}, py_event_loop:Word(loop(Config), List, append, [1]))
     || Word <- [call, submit, cast, stream]
    ],
    ?assertError(badarg, py_event_loop:call(loop(Config), make_ref(), append, [1])),
    ?assertEqual({ok, []}, py:value(List)).

a_timeout_cancels(Config) ->
    Loop = loop(Config),
    ?assertEqual({error, timeout}, py_event_loop:run(Loop, called, wait_forever, [<<"late">>], #{}, 50)),
    eventually:is(true, fun() -> has_noted(Loop, <<"late cancelled">>) end),
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% Tasks

tasks_are_awaited_and_cancelled(Config) ->
    Loop = loop(Config),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"task">>]),
    ?assertEqual(timeout, py:yield(Task)),
    ?assertEqual(timeout, py:yield(Task, 10)),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    ?assertEqual({error, noproc}, py:await(Task)),
    ok = py:cancel(Task),
    {ok, Short} = py_event_loop:submit(Loop, called, add_later, [1, 2]),
    ?assertEqual({value, {ok, 3}}, py:yield(Short, 5000)),
    ?assertEqual({value, {error, noproc}}, py:yield(Short)),
    {ok, Late} = py_event_loop:submit(Loop, called, wait_forever, [<<"given_up">>]),
    ?assertEqual({error, timeout}, py:await(Late, 20)),
    ?assertEqual({error, noproc}, py:await(Late, 20)),
    eventually:is(true, fun() -> has_noted(Loop, <<"given_up cancelled">>) end),
    Self = self(),
    spawn_link(fun() -> Self ! {task, py_event_loop:submit(Loop, math, sqrt, [4])} end),
    receive
        {task, {ok, Foreign}} -> ?assertError(badarg, py:await(Foreign))
    end.

tasks_run_side_by_side(Config) ->
    Tasks = [py_event_loop:submit(loop(Config), asyncio, sleep, [0.2, N]) || N <- lists:seq(1, 100)],
    Results = [py:await(Task, 20_000) || {ok, Task} <- lists:reverse(Tasks)],
    ?assertEqual([{ok, N} || N <- lists:seq(100, 1, -1)], Results).

a_dead_caller_is_noticed(Config) ->
    Loop = loop(Config),
    Caller = spawn(fun() ->
        py_event_loop:run(Loop, called, wait_forever, [<<"orphan">>], #{}, infinity)
    end),
    eventually:is(true, fun() -> runs(Loop, <<"wait_forever">>) end),
    ok = mortal:kill(Caller),
    eventually:is(true, fun() -> has_noted(Loop, <<"orphan cancelled">>) end).

%% Streams

streams_are_consumed(Config) ->
    Loop = loop(Config),
    {ok, Stream} = py_event_loop:stream(Loop, builtins, range, [3]),
    ok = py:demand(Stream, 2),
    ?assertEqual([0, 1], streams:await_items(Stream, 2)),
    ok = py:demand(Stream, 10),
    ?assertEqual({[2], done}, streams:rest_of(Stream)),
    ok = py:demand(Stream, 1),
    ok = py:cancel(Stream),
    {ok, Later} = py_event_loop:stream(Loop, streamed, count, [3], #{}, #{demand => 10}),
    ?assertEqual({[0, 1, 2], done}, streams:rest_of(Later)).

a_cancelled_stream_is_closed(Config) ->
    Loop = loop(Config),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, waits, [<<"s">>], #{}, #{demand => 10}),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end),
    ok = py:cancel(Stream),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    eventually:is({ok, 0}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end),
    ok = py:cancel(Stream).

another_process_consumes_a_stream(Config) ->
    Loop = loop(Config),
    Self = self(),
    Consumer = spawn_link(fun() -> forward(Self) end),
    {ok, Stream} = py_event_loop:stream(Loop, streamed, waits, [<<"s">>], #{}, #{demand => 10, to => Consumer}),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end),
    ok = py:cancel(Stream),
    receive
        {forwarded, {py_stream, Stream, {error, cancelled}}} -> ok
    after 10_000 -> error(no_end)
    end,
    unlink(Consumer),
    ok = mortal:kill(Consumer).

forward(To) ->
    receive
        Message ->
            To ! {forwarded, Message},
            forward(To)
    end.

a_dead_consumer_closes_the_stream(Config) ->
    Loop = loop(Config),
    Consumer = spawn(fun() -> forward(self()) end),
    {ok, _} = py_event_loop:stream(Loop, streamed, waits, [<<"s">>], #{}, #{demand => 10, to => Consumer}),
    eventually:is({ok, 1}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end),
    ok = mortal:kill(Consumer),
    eventually:is({ok, 0}, fun() -> py_event_loop:run(Loop, streamed, count_open, []) end).

streams_of_what_fails(Config) ->
    Dead = spawn(fun() -> ok end),
    eventually:is(false, fun() -> is_process_alive(Dead) end),
    ?assertEqual({error, noproc}, py_event_loop:stream(loop(Config), builtins, range, [3], #{}, #{to => Dead})),
    {ok, Stream} = py_event_loop:stream(loop(Config), math, sqrt, [-1], #{}, #{demand => 1}),
    {[], End} = streams:rest_of(Stream),
    called:is_error("ValueError", "math domain error", End).

folds(Config) ->
    Options = #{loop => loop(Config)},
    Sum = fun(Item, Acc) -> Item + Acc end,
    ?assertEqual({ok, 499_500}, py:fold(Sum, 0, builtins, range, [1000], #{}, Options)),
    First = fun(Item, _) -> {halt, Item} end,
    ?assertEqual({ok, 0}, py:fold_while(First, none, builtins, range, [1000], #{}, Options)),
    ?assertEqual({messages, []}, process_info(self(), messages)).

actors_are_linked(Config) ->
    Loop = loop(Config),
    {ok, Actor} = py_actor:start_link(Loop, acting, server, []),
    ?assertNotEqual(node(), node(Actor)),
    Actor ! {<<"echo">>, self(), 1},
    receive
        {Actor, 1} -> ok
    end,
    Actor ! {raise, <<"no luck">>},
    receive
        {'EXIT', Actor, {py_exception, #{message := <<"no luck">>}}} -> ok
    end,
    {ok, Plain} = py_actor:start_link(Loop, acting, plain, []),
    receive
        {'EXIT', Plain, {py_exception, #{type := <<"builtins.TypeError">>}}} -> ok
    end,
    ?assertMatch(
        {error, {py_exception, #{type := <<"builtins.AttributeError">>}}},
        py_actor:start_link(Loop, acting, nope, [])
    ),
    %% The death of the process that has started it ends it.
    Self = self(),
    Owner = spawn(fun() ->
        {ok, Linked} = py_actor:start_link(Loop, acting, until_cancelled, [Self]),
        Self ! {linked, Linked},
        receive
            stop -> ok
        end
    end),
    receive
        {linked, Linked} ->
            Monitor = monitor(process, Linked),
            ok = mortal:kill(Owner),
            receive
                {'DOWN', Monitor, process, Linked, Reason} -> ?assertEqual(killed, Reason)
            end
    end,
    peers:flush_all().

%% Around

output_reaches_the_callers_group_leader(Config) ->
    Loop = loop(Config),
    Leader = fake_leader:start(),
    {ok, none} = fake_leader:as_leader(Leader, fun() ->
        py_event_loop:run(Loop, builtins, print, [<<"written over there">>])
    end),
    ok = fake_leader:has(Leader, <<"written over there\n">>),
    fake_leader:stop(Leader).

info_and_tasks(Config) ->
    Loop = loop(Config),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_forever, [<<"shown">>]),
    eventually:is(true, fun() -> runs(Loop, <<"wait_forever">>) end),
    {ok, #{pid := Loop, unanswered := 1, node := Node, lag := _}} = py_event_loop:info(Loop),
    ?assertNotEqual(node(), Node),
    ?assert(node(Loop) =/= node() orelse lists:keymember(Loop, 2, py_event_loop:which_loops())),
    ok = py:cancel(Task),
    {error, cancelled} = py:await(Task).

%% More than the connection's buffers take.
many_callers(Config) ->
    Loop = loop(Config),
    Calls = fun(N) -> [py_event_loop:run(Loop, called, add_later, [N, M], #{}, 60_000) || M <- lists:seq(1, 50)] end,
    Callers = [spawn_monitor(fun() -> exit({results, Calls(N)}) end) || N <- lists:seq(1, 50)],
    lists:foreach(
        fun({N, {Pid, Monitor}}) ->
            receive
                {'DOWN', Monitor, process, Pid, {results, Results}} ->
                    ?assertEqual([{ok, N + M} || M <- lists:seq(1, 50)], Results)
            end
        end,
        lists:zip(lists:seq(1, 50), Callers)
    ).

has_noted(Loop, Event) ->
    {ok, Events} = py:eval("__import__('called').events", #{}, #{loop => Loop}),
    lists:member(Event, Events).

runs(Loop, Function) ->
    {ok, Tasks} = py_event_loop:tasks(Loop),
    lists:any(fun(#{runs := Runs}) -> binary:match(Runs, Function) =/= nomatch end, Tasks).

%% Life

a_peer_is_started_and_stopped(_Config) ->
    Loop = peers:start(#{name => started_peer}),
    ?assertEqual(Loop, whereis(started_peer)),
    {ok, #{os_pid := OsPid}} = py_event_loop:info(started_peer),
    ?assert(peers:is_running(OsPid)),
    ?assertEqual({ok, []}, py_event_loop:stop(started_peer)),
    ?assertNot(peers:is_running(OsPid)),
    ?assertEqual({error, {no_loop, started_peer}}, py_event_loop:run(started_peer, math, sqrt, [4])),
    ?assertEqual({error, loop_down}, py_event_loop:run(Loop, math, sqrt, [4])),
    ?assertEqual({error, noproc}, py_event_loop:stop(Loop)).

init_code_runs_first(_Config) ->
    Loop = peers:start(#{init => <<"import called\ncalled.note('init')">>}),
    ?assertEqual({ok, [<<"init">>]}, py_event_loop:run(Loop, called, take_events, [])),
    peers:stop(Loop).

init_code_that_fails(_Config) ->
    {error, {init_failed, #{type := <<"builtins.ZeroDivisionError">>}}} =
        py_event_loop:start_link(#{place => peer, init => <<"1 / 0">>}).

bad_options_raise(_Config) ->
    Bad = fun(Place) ->
        ?assertError({bad_option, _, _}, py_event_loop:start_link(#{place => Place}))
    end,
    lists:foreach(Bad, [
        1, elsewhere, 'x@', {peer, []}, {peer, #{colour => blue}}, {peer, #{settings => []}},
        {peer, #{settings => #{no_such => 1}}}, {peer, #{env => [1]}}, {peer, #{args => "x"}},
        {peer, #{start_timeout => -1}}
    ]),
    ?assertError({bad_option, {max_queue, 0}, _}, py_event_loop:start_link(#{place => peer, max_queue => 0})),
    ?assertError({bad_option, _, _}, py_event_loop:start_link(#{place => peer, callbacks => self()})),
    ?assertError({bad_option, _, _}, py_event_loop:start_link(#{place => node()})).

settings_of_its_own(_Config) ->
    Loop = peers:start(#{
        place => {peer, #{settings => #{switch_interval => 20}, env => [{"MARK", "of a peer"}]}}
    }),
    ?assertEqual({ok, 0.02}, py_event_loop:run(Loop, sys, getswitchinterval, [])),
    ?assertEqual({ok, <<"of a peer">>}, py_event_loop:run(Loop, os, getenv, [<<"MARK">>])),
    peers:stop(Loop).

a_venv_that_is_missing(_Config) ->
    Place = {peer, #{settings => #{venv => "/nowhere/venv"}}},
    {error, Sentence} = py_event_loop:start_link(#{place => Place}),
    ?assertMatch({match, _}, re:run(Sentence, "/nowhere/venv")).

a_peer_is_hidden_and_has_no_port(_Config) ->
    Loop = peers:start(#{}),
    {ok, #{node := Node, os_pid := OsPid}} = py_event_loop:info(Loop),
    ?assertNot(lists:member(Node, nodes())),
    ?assert(lists:member(Node, nodes(hidden))),
    ?assertEqual([], peers:listening(OsPid)),
    {ok, Arguments} = file:read_file(io_lib:format("/proc/~b/cmdline", [OsPid])),
    ?assertEqual(nomatch, binary:match(Arguments, atom_to_binary(erlang:get_cookie(Node)))),
    peers:stop(Loop).

logs_arrive_with_its_name(_Config) ->
    Loop = peers:start(#{name => logging_peer}),
    ok = log_events:start(),
    {ok, none} = py_event_loop:run(Loop, logging, warning, [<<"watch out">>]),
    receive
        {log_event, #{level := warning, msg := Message, meta := #{peer := logging_peer}}} ->
            ?assertEqual({string, <<"watch out">>}, Message)
    after 10_000 -> error(no_event)
    end,
    ok = log_events:stop(),
    peers:stop(Loop).

%% What is no valid UTF-8, too.
what_it_prints_is_logged(_Config) ->
    Loop = peers:start(#{name => printing_peer}),
    ok = log_events:start(),
    {ok, _} = py_event_loop:run(Loop, os, write, [1, {bytes, <<"said ", 195, 188, 255, "\n">>}]),
    receive
        {log_event, #{meta := #{peer := printing_peer}, msg := {Format, Args}}} ->
            ?assertMatch("printing_peer: said " ++ _, lists:flatten(io_lib:format(Format, Args)))
    after 10_000 -> error(no_event)
    end,
    ?assertEqual({ok, 4.0}, py_event_loop:run(Loop, math, sqrt, [16])),
    ok = log_events:stop(),
    peers:stop(Loop).

stop_returns_what_did_not_end(_Config) ->
    Loop = peers:start(#{patience => 50}),
    {ok, _} = py_event_loop:submit(Loop, called, refuse_to_end, []),
    eventually:is(true, fun() -> runs(Loop, <<"refuse_to_end">>) end),
    {ok, [#{runs := Runs}]} = py_event_loop:stop(Loop),
    ?assertMatch({_, _}, binary:match(Runs, <<"refuse_to_end">>)),
    peers:flush().

python_knows_peers_by_name(_Config) ->
    Loop = peers:start(#{name => named_peer}),
    {ok, #{node := Node}} = py_event_loop:info(Loop),
    Ask = "import erlang\nerlang.call('erlang', 'node', node='named_peer')",
    ?assertEqual({ok, Node}, py:eval(Ask)),
    Spawn = "import acting, erlang\nerlang.spawn_on('named_peer', acting.server)",
    {ok, Actor} = py:eval(Spawn),
    ?assertEqual(Node, node(Actor)),
    Actor ! {<<"echo">>, self(), 2},
    receive
        {Actor, 2} -> ok
    end,
    Actor ! stop,
    called:is_error("TypeError", "cannot be imported", py:eval("import erlang\nerlang.spawn_on('named_peer', lambda: 1)")),
    peers:stop(Loop).

a_node_that_is_not_there(_Config) ->
    ?assertEqual(
        {error, {peer_down, noconnection}}, py_event_loop:start_link(#{place => 'nowhere@127.0.0.1'})
    ).
