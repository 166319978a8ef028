%% @doc Is Python code with a pid a process like others: does it get its messages, is its end
%% seen, does killing it end it, can it be supervised?
-module(py_actor_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    messages_in_order/1,
    it_ends_normally/1,
    an_exception_is_its_reason/1,
    an_exit_reason_of_its_own/1,
    a_cancelled_one_is_shut_down/1,
    a_missing_function_does_not_start/1,
    what_is_not_a_coroutine_function_is_refused/1,
    killing_it_cancels_the_coroutine/1,
    an_exit_signal_ends_it/1,
    the_death_of_its_parent_ends_it/1,
    a_supervisor_restarts_it/1,
    a_call_of_gen_server/1,
    sys_can_look_at_it/1,
    it_runs_on_a_loop_of_your_own/1,
    its_loop_ends/1,
    a_thread_spawns_on_the_default_loop/1,
    the_pid_of_a_call_ends_with_the_call/1,
    the_pid_of_a_task_ends_with_the_task/1,
    killing_the_pid_of_a_task_cancels_it/1,
    a_plain_function_receives/1,
    python_monitors/1,
    python_links/1,
    python_dies_linked/1,
    a_link_ends_with_its_block/1,
    a_thousand/1,
    a_message_that_is_not_a_value/1,
    the_application_stops/1
]).
%% Called in another node, or by a supervisor.
-export([stop_application/0, init/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE, [init]).

init_per_suite(Config) ->
    ok = called:start(),
    ok = logger:set_primary_config(level, none),
    Config.

end_per_suite(_Config) ->
    ok = logger:set_primary_config(level, notice),
    called:stop().

init_per_testcase(_Case, Config) ->
    _ = process_flag(trap_exit, true),
    leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> called:end_case(Config).

server() ->
    {ok, Actor} = py_actor:start_link(acting, server, []),
    Actor.

%% The reason of a linked process's end. The suite traps exits.
ended(Actor) ->
    receive
        {'EXIT', Actor, Reason} -> Reason
    end.

received(Message) ->
    receive
        Message -> ok
    end.

%% Its life

messages_in_order(_Config) ->
    Actor = server(),
    _ = [Actor ! {<<"echo">>, self(), N} || N <- lists:seq(1, 1000)],
    ?assertEqual(lists:seq(1, 1000), [receive {Actor, N} -> N end || _ <- lists:seq(1, 1000)]),
    Actor ! stop,
    ?assertEqual(normal, ended(Actor)).

it_ends_normally(_Config) ->
    Actor = server(),
    Monitor = monitor(process, Actor),
    Actor ! stop,
    receive
        {'DOWN', Monitor, process, Actor, Reason} -> ?assertEqual(normal, Reason)
    end,
    normal = ended(Actor).

an_exception_is_its_reason(_Config) ->
    Actor = server(),
    Actor ! {raise, <<"no luck">>},
    {py_exception, #{type := Type, message := Message, traceback := Traceback}} = ended(Actor),
    ?assertEqual({<<"builtins.ValueError">>, <<"no luck">>}, {Type, Message}),
    ?assertMatch(#{function := <<"server">>}, lists:last(Traceback)).

an_exit_reason_of_its_own(_Config) ->
    Actor = server(),
    Actor ! {exit, {shutdown, [why]}},
    ?assertEqual({shutdown, [why]}, ended(Actor)).

a_cancelled_one_is_shut_down(_Config) ->
    Actor = server(),
    Actor ! {cancel},
    ?assertEqual({shutdown, cancelled}, ended(Actor)).

a_missing_function_does_not_start(_Config) ->
    ?assertMatch(
        {error, {py_exception, #{type := <<"builtins.AttributeError">>}}},
        py_actor:start_link(acting, nope, [])
    ),
    ?assertMatch(
        {error, {py_exception, #{type := <<"builtins.ModuleNotFoundError">>}}},
        py_actor:start_link("no_such_module", <<"nope">>, [])
    ),
    ?assertEqual({error, {no_loop, no_such_loop}}, py_actor:start_link(no_such_loop, acting, server, [])).

what_is_not_a_coroutine_function_is_refused(_Config) ->
    {ok, Actor} = py_actor:start_link(acting, plain, []),
    {py_exception, #{type := Type, message := Message}} = ended(Actor),
    ?assertEqual(<<"builtins.TypeError">>, Type),
    ?assertNotEqual(nomatch, string:find(Message, "must be a coroutine function")).

killing_it_cancels_the_coroutine(_Config) ->
    {ok, Actor} = py_actor:start_link(acting, until_cancelled, [self()]),
    ok = received(started),
    exit(Actor, kill),
    ?assertEqual(killed, ended(Actor)),
    ok = received(was_cancelled).

an_exit_signal_ends_it(_Config) ->
    {ok, Actor} = py_actor:start_link(acting, until_cancelled, [self()]),
    ok = received(started),
    exit(Actor, shutdown),
    ?assertEqual(shutdown, ended(Actor)),
    ok = received(was_cancelled),
    %% As for any process, a normal end of another is no reason.
    Other = server(),
    spawn_link(fun() -> link(Other) end),
    Other ! {<<"echo">>, self(), still_here},
    ok = received({Other, still_here}),
    Other ! stop,
    ?assertEqual(normal, ended(Other)).

the_death_of_its_parent_ends_it(_Config) ->
    Self = self(),
    Parent = spawn(fun() ->
        {ok, Actor} = py_actor:start_link(acting, until_cancelled, [Self]),
        Self ! {actor, Actor},
        receive
            never -> ok
        end
    end),
    Actor = receive {actor, Pid} -> Pid end,
    Monitor = monitor(process, Actor),
    ok = received(started),
    exit(Parent, out_of_luck),
    ok = received({'DOWN', Monitor, process, Actor, out_of_luck}),
    ok = received(was_cancelled).

init(Spec) ->
    {ok, {#{strategy => one_for_one}, [Spec]}}.

a_supervisor_restarts_it(_Config) ->
    Options = #{id => greeter, module => acting, function => server, args => [<<"Ada">>]},
    {ok, Supervisor} = supervisor:start_link(?MODULE, py_actor:child_spec(Options)),
    [{greeter, First, worker, _}] = supervisor:which_children(Supervisor),
    First ! {raise, <<"no luck">>},
    Second = eventually_another(Supervisor, First),
    Second ! {name, self()},
    ok = received(<<"Ada">>),
    unlink(Supervisor),
    Monitor = monitor(process, Second),
    exit(Supervisor, shutdown),
    ok = received({'DOWN', Monitor, process, Second, shutdown}).

eventually_another(Supervisor, First) ->
    eventually:is(true, fun() ->
        [{_, Pid, _, _}] = supervisor:which_children(Supervisor),
        is_pid(Pid) andalso Pid =/= First
    end),
    [{_, Second, _, _}] = supervisor:which_children(Supervisor),
    Second.

a_call_of_gen_server(_Config) ->
    Actor = server(),
    ?assertEqual({answer, [question]}, gen_server:call(Actor, [question])),
    Actor ! stop,
    ?assertEqual(normal, ended(Actor)).

sys_can_look_at_it(_Config) ->
    Actor = server(),
    ?assertEqual(state, element(1, sys:get_state(Actor))),
    ok = sys:suspend(Actor),
    Actor ! {<<"echo">>, self(), 1},
    ok = sys:resume(Actor),
    ok = received({Actor, 1}),
    ok = sys:terminate(Actor, normal),
    ?assertEqual(normal, ended(Actor)).

%% Loops and threads

it_runs_on_a_loop_of_your_own(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{name => actors_loop}),
    {ok, Actor} = py_actor:start_link(actors_loop, acting, server, []),
    Actor ! {<<"echo">>, self(), 1},
    ok = received({Actor, 1}),
    {ok, [#{name := Name}]} = py_event_loop:tasks(Loop),
    ?assertEqual(<<"server">>, Name),
    Actor ! stop,
    ?assertEqual(normal, ended(Actor)),
    {ok, []} = py_event_loop:stop(Loop),
    normal = ended(Loop).

its_loop_ends(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Actor} = py_actor:start_link(Loop, acting, until_cancelled, [self()]),
    ok = received(started),
    {ok, []} = py_event_loop:stop(Loop),
    ?assertEqual({shutdown, cancelled}, ended(Actor)),
    normal = ended(Loop),
    {ok, Second} = py_event_loop:start_link(#{}),
    {ok, Other} = py_actor:start_link(Second, acting, until_cancelled, [self()]),
    ok = received(started),
    exit(Second, kill),
    killed = ended(Second),
    ?assert(lists:member(ended(Other), [loop_down, {shutdown, cancelled}])),
    _ = [ok = received(was_cancelled) || _ <- [1, 2]].

a_thread_spawns_on_the_default_loop(_Config) ->
    {ok, Actor} = py:call(acting, spawn, [self()]),
    ok = received(started),
    ?assert(lists:member(Actor, [Pid || {_, Pid, _, _} <- supervisor:which_children(py_actor_sup)])),
    exit(Actor, kill),
    ok = received(was_cancelled).

the_pid_of_a_call_ends_with_the_call(_Config) ->
    {ok, Pid} = py:call(acting, own_pid, []),
    eventually:is(false, fun() -> is_process_alive(Pid) end),
    {ok, Other} = py:call(acting, own_pid, []),
    ?assertNotEqual(Pid, Other).

the_pid_of_a_task_ends_with_the_task(_Config) ->
    {ok, Pid} = py:call(acting, own_pid_later, []),
    eventually:is(false, fun() -> is_process_alive(Pid) end).

killing_the_pid_of_a_task_cancels_it(_Config) ->
    {ok, Task} = py:submit(acting, own_pid_later, [self()]),
    exit(receive Pid when is_pid(Pid) -> Pid end, kill),
    ?assertEqual({error, cancelled}, py:await(Task)).

a_plain_function_receives(_Config) ->
    {ok, Task} = py:submit(acting, 'receive', [self()]),
    receive
        Pid when is_pid(Pid) -> Pid ! {<<"hello">>, 1}
    end,
    ?assertEqual({ok, {<<"hello">>, 1}}, py:await(Task)),
    %% A thread cannot be stopped, but it is notified.
    {ok, Second} = py:submit(acting, 'receive', [self()]),
    receive
        Killed when is_pid(Killed) -> exit(Killed, kill)
    end,
    ok = called:is_error("erlang.Error", "was killed", py:await(Second)).

%% Monitors and links

python_monitors(_Config) ->
    Watched = spawn(fun() -> receive Reason -> exit(Reason) end end),
    {ok, Task} = py:submit(acting, watch, [Watched, self()]),
    ok = received(watching),
    Watched ! {out, [luck]},
    ?assertEqual({ok, {true, 'DOWN', {process, Watched, {out, [luck]}}}}, py:await(Task)),
    %% A dead process.
    {ok, Dead} = py:submit(acting, watch, [Watched, self()]),
    ok = received(watching),
    ?assertEqual({ok, {true, 'DOWN', {process, Watched, noproc}}}, py:await(Dead)).

python_links(_Config) ->
    Other = spawn(fun() -> receive Reason -> exit(Reason) end end),
    {ok, Task} = py:submit(acting, linked, [Other, self()]),
    _ = receive Pid when is_pid(Pid) -> Pid end,
    Other ! crash,
    ?assertEqual({ok, <<"exit crash">>}, py:await(Task)),
    {ok, Dead} = py:submit(acting, linked, [Other, self()]),
    ?assertEqual({ok, <<"exit noproc">>}, py:await(Dead)),
    ok = received_pid().

%% It may have sent its pid before it received the death.
received_pid() ->
    receive
        Pid when is_pid(Pid) -> ok
    after 0 -> ok
    end.

python_dies_linked(_Config) ->
    Other = spawn(fun() -> receive never -> ok end end),
    Monitor = monitor(process, Other),
    {error, #{message := <<"while linked">>}} = py:call(acting, fails_while_linked, [Other]),
    %% The block was left before the task ended: the link is gone.
    ?assert(is_process_alive(Other)),
    {ok, Task} = py:submit(acting, linked, [Other, self()]),
    Pid = receive Found when is_pid(Found) -> Found end,
    exit(Pid, kill),
    receive
        {'DOWN', Monitor, process, Other, Reason} -> ?assertEqual(killed, Reason)
    end,
    ?assertEqual({error, cancelled}, py:await(Task)).

a_link_ends_with_its_block(_Config) ->
    Other = spawn(fun() -> receive Reason -> exit(Reason) end end),
    {ok, Task} = py:submit(acting, is_linked_no_more, [Other, self()]),
    Pid = receive Found when is_pid(Found) -> Found end,
    Monitor = monitor(process, Other),
    Other ! crash,
    ok = received({'DOWN', Monitor, process, Other, crash}),
    Pid ! <<"alive">>,
    ?assertEqual({ok, <<"alive">>}, py:await(Task)).

%% Many, and wrong ones

a_thousand(_Config) ->
    {ok, Actors} = py:call(acting, spawn_later, [1000], #{}, 60_000),
    _ = [Actor ! {<<"echo">>, self(), N} || {N, Actor} <- lists:enumerate(Actors)],
    _ = [ok = received({Actor, N}) || {N, Actor} <- lists:enumerate(Actors)],
    Monitors = [monitor(process, Actor) || Actor <- Actors],
    _ = [Actor ! stop || Actor <- Actors],
    _ = [receive {'DOWN', Monitor, _, _, normal} -> ok end || Monitor <- Monitors],
    ?assertEqual([], supervisor:which_children(py_actor_sup)).

%% It is an exception where it is read.
a_message_that_is_not_a_value(_Config) ->
    Actor = server(),
    Actor ! [improper | list],
    {py_exception, #{type := Type, message := Message}} = ended(Actor),
    ?assertEqual(<<"erlang.ConversionError">>, Type),
    ?assertEqual(<<"message: an improper list has no form in Python">>, Message).

%% The application

the_application_stops(_Config) ->
    called:in_node([], stop_application, ?MODULE).

stop_application() ->
    ok = logger:set_primary_config(level, none),
    {ok, Actor} = py:call(acting, spawn, [self()]),
    ok = received(started),
    Monitor = monitor(process, Actor),
    ok = application:stop(erlang_loop),
    ok = received(was_cancelled),
    receive
        {'DOWN', Monitor, process, Actor, _} -> ok
    end,
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, Second} = py:call(acting, spawn, [self()]),
    ok = received(started),
    exit(Second, kill),
    ok = received(was_cancelled).
