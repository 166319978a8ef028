%% @doc Does what Python prints reach its caller's group leader, whole and in order?
-module(py_output_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    print_goes_to_the_callers_group_leader/1,
    every_caller_has_its_own/1,
    what_was_printed_comes_before_the_reply/1,
    an_unfinished_line_arrives_before_the_reply/1,
    flush_sends_a_line_that_has_no_end/1,
    tasks_and_their_threads_inherit_it/1,
    threads_print_whole_lines/1,
    a_thread_that_ends_sends_its_line/1,
    what_a_cast_prints_outlives_its_caller/1,
    a_stream_prints_to_its_consumers_group_leader/1,
    a_program_on_the_main_thread/1,
    a_loop_prints_to_its_owners_group_leader/1,
    text_is_utf8/1,
    the_streams_are_as_python_has_them/1,
    a_great_many_lines_come_in_order/1,
    a_slow_group_leader_blocks_printing_code/1,
    a_group_leader_that_does_not_reply_loses_text_and_that_is_logged/1,
    a_dead_group_leader_is_ignored/1,
    a_killed_output_process_loses_nothing/1,
    without_a_caller_it_goes_to_user/1,
    it_can_be_turned_off/1,
    a_forked_copy_prints_to_the_nodes_stdout/1,
    a_group_leader_on_another_node/1
]).
%% Called in another node.
-export([print_from/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE, [print_from]).

init_per_suite(Config) ->
    ok = called:start(),
    {ok, _} = py:call(printing, print_in_threads, [0, 0]),
    Config.

end_per_suite(_Config) ->
    called:stop().

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> called:end_case(Config).

%% Where it goes

print_goes_to_the_callers_group_leader(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(builtins, print, [<<"a">>, 1]) end),
    fake_leader:has(Leader, <<"a 1\n">>),
    ok = printed(Leader, fun() -> py:exec("import sys\nprint('b', file=sys.stderr)") end),
    fake_leader:has(Leader, <<"a 1\nb\n">>),
    ok = printed(Leader, fun() -> py:call(printing, print_later, [<<"c">>, 2]) end),
    fake_leader:has(Leader, <<"a 1\nb\nc 0\nc 1\n">>),
    fake_leader:stop(Leader).

%% Two coroutines in pieces on one loop, and two functions on call threads.
every_caller_has_its_own(_Config) ->
    Leaders = [{N, fake_leader:start()} || N <- [<<"1">>, <<"2">>]],
    Tasks = [
        spawn_monitor(fun() ->
            fake_leader:as_leader(Leader, fun() ->
                {ok, none} = py:call(printing, print_later, [N, 100]),
                {ok, none} = py:call(printing, print_lines, [10, 3])
            end)
        end)
     || {N, Leader} <- Leaders
    ],
    _ = [
        receive
            {'DOWN', Monitor, _, _, Reason} -> ?assertEqual(normal, Reason)
        end
     || {_, Monitor} <- Tasks
    ],
    _ = [
        begin
            Lines = [[N, " ", integer_to_list(I), "\n"] || I <- lists:seq(0, 99)],
            fake_leader:has(Leader, iolist_to_binary([Lines, numbers(10, 3)])),
            fake_leader:stop(Leader)
        end
     || {N, Leader} <- Leaders
    ].

%% The caller is its own group leader, and finds the text in its mailbox when it gets the reply: so
%% what it prints itself comes after.
what_was_printed_comes_before_the_reply(_Config) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        true = group_leader(self(), self()),
        _ = [
            begin
                {ok, none} = py:call(Module, Function, Args),
                receive
                    {io_request, From, As, {put_chars, unicode, Text}} ->
                        From ! {io_reply, As, ok},
                        Self ! {text, Text}
                after 0 -> error({not_there, Function})
                end
            end
         || {Module, Function, Args} <- [
                {builtins, print, [<<"a">>]}, {printing, print_later, [<<"b">>, 1]}
            ],
            _ <- [1, 2]
        ]
    end),
    receive
        {'DOWN', Monitor, _, Pid, Reason} -> ?assertEqual(normal, Reason)
    end,
    ?assertEqual([<<"a\n">>, <<"a\n">>, <<"b 0\n">>, <<"b 0\n">>], texts()).

texts() ->
    receive
        {text, Text} -> [Text | texts()]
    after 0 -> []
    end.

an_unfinished_line_arrives_before_the_reply(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(builtins, print, [<<"begun">>], #{'end' => <<>>}) end),
    fake_leader:has(Leader, <<"begun">>),
    ok = printed(Leader, fun() -> py:eval("__import__('asyncio').sleep(0, print('x', end=''))") end),
    fake_leader:has(Leader, <<"begunx">>),
    fake_leader:stop(Leader).

flush_sends_a_line_that_has_no_end(_Config) ->
    Leader = fake_leader:start(),
    {ok, _} = py:call(called, hold, []),
    Asked = spawn(fun() ->
        true = group_leader(Leader, self()),
        py:exec("import called\nprint('ready?', end='', flush=True)\ncalled.block()\nprint(' yes')", 60_000)
    end),
    fake_leader:has(Leader, <<"ready?">>),
    {ok, _} = py:call(called, release, []),
    fake_leader:has(Leader, <<"ready? yes\n">>),
    eventually:is(false, fun() -> is_process_alive(Asked) end),
    fake_leader:stop(Leader).

tasks_and_their_threads_inherit_it(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(printing, print_in_subtask, [<<"a">>]) end),
    fake_leader:has(Leader, <<"a task\na thread\n">>),
    %% Of asyncio.to_thread.
    ok = py:exec("import asyncio\nasync def end_threads():\n"
        "    await asyncio.get_running_loop().shutdown_default_executor()\n"
        "    asyncio.get_running_loop()._executor_shutdown_called = False\n"
        "    asyncio.get_running_loop()._default_executor = None\n"),
    {ok, none} = py:eval("end_threads()"),
    fake_leader:stop(Leader).

threads_print_whole_lines(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(printing, print_in_threads, [8, 50]) end),
    eventually:is(8 * 50, fun() -> length(fake_leader:requests(Leader)) end),
    Lines = string:split(fake_leader:text(Leader), "\n", all),
    Expected = lists:sort([<<>> | [binary:copy(<<(N + $0)>>, 8) || N <- lists:seq(0, 7), _ <- lists:seq(1, 50)]]),
    ?assertEqual(Expected, lists:sort(Lines)),
    fake_leader:stop(Leader).

a_thread_that_ends_sends_its_line(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(printing, begin_line_in_thread, [<<"unended">>]) end),
    fake_leader:has(Leader, <<"unended">>),
    fake_leader:stop(Leader).

what_a_cast_prints_outlives_its_caller(_Config) ->
    Leader = fake_leader:start(),
    {ok, _} = py:call(called, hold, []),
    ok = fake_leader:as_leader(Leader, fun() ->
        ok = py:cast(called, block, []),
        py:cast(builtins, print, [<<"cast">>])
    end),
    {ok, _} = py:call(called, release, []),
    fake_leader:has(Leader, <<"cast\n">>),
    fake_leader:stop(Leader).

a_stream_prints_to_its_consumers_group_leader(_Config) ->
    Leader = fake_leader:start(),
    Sum = fun(Function) ->
        fake_leader:as_leader(Leader, fun() ->
            py:fold(fun(Item, Sum) -> Item + Sum end, 0, printing, Function, [2])
        end)
    end,
    ?assertEqual({ok, 1}, Sum(generate)),
    fake_leader:has(Leader, <<"plain 0\nplain 1\nend">>),
    ?assertEqual({ok, 1}, Sum(generate_later)),
    fake_leader:has(Leader, <<"plain 0\nplain 1\nendlater 0\nlater 1\nend">>),
    fake_leader:stop(Leader).

a_program_on_the_main_thread(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py_interpreter:run(<<"builtins">>, <<"print">>, [<<"main">>]) end),
    fake_leader:has(Leader, <<"main\n">>),
    fake_leader:stop(Leader).

%% Its init code, what that started, and callbacks without a caller; a caller's text still
%% goes to the caller.
a_loop_prints_to_its_owners_group_leader(_Config) ->
    [Owner, Caller] = [fake_leader:start(), fake_leader:start()],
    Init = "import asyncio\nprint('init')\nloop = asyncio.get_event_loop()\n"
        "loop.call_soon(print, 'callback')\n"
        "async def task():\n    print('task')\nloop.create_task(task())\n",
    Self = self(),
    Pid = spawn(fun() ->
        true = group_leader(Owner, self()),
        {ok, Loop} = py_event_loop:start_link(#{init => Init}),
        Self ! {loop, Loop},
        receive
            stop -> {ok, []} = py_event_loop:stop(Loop)
        end
    end),
    Loop =
        receive
            {loop, Started} -> Started
        end,
    fake_leader:has(Owner, <<"init\ncallback\ntask\n">>),
    {ok, none} = fake_leader:as_leader(Caller, fun() ->
        py_event_loop:run(Loop, printing, print_later, [<<"asked">>, 1])
    end),
    fake_leader:has(Caller, <<"asked 0\n">>),
    Pid ! stop,
    eventually:is(false, fun() -> is_process_alive(Loop) end),
    fake_leader:has(Owner, <<"init\ncallback\ntask\n">>),
    lists:foreach(fun fake_leader:stop/1, [Owner, Caller]).

%% What it is

text_is_utf8(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(builtins, print, [<<"häßlich €"/utf8>>]) end),
    fake_leader:has(Leader, <<"häßlich €\n"/utf8>>),
    ok = printed(Leader, fun() -> py:call(printing, print_split_character, []) end),
    %% Half a character is not sent; invalid bytes are replaced.
    fake_leader:has(Leader, <<"häßlich €\na€ �\n"/utf8>>),
    called:is_error(
        "UnicodeEncodeError", "surrogates", py:exec("print('\\ud800')")
    ),
    ok = printed(Leader, fun() -> py:exec("import sys\nprint('\\ud800', file=sys.stderr)") end),
    fake_leader:has(Leader, <<"häßlich €\na€ �\n\\ud800\n"/utf8>>),
    fake_leader:stop(Leader).

the_streams_are_as_python_has_them(_Config) ->
    ?assertEqual(
        {ok, [
            [<<"utf-8">>, false, true, false, <<"<stdout>">>],
            [<<"utf-8">>, false, true, false, <<"<stderr>">>]
        ]},
        py:call(printing, describe_streams, [])
    ),
    ?assertEqual({ok, [1, 2, 0]}, py:call(printing, give_streams_to_a_child, [])),
    called:is_error("TypeError", "", py:eval("__import__('sys').stdout.write(1)")),
    called:is_error("TypeError", "", py:eval("__import__('sys').stdout.buffer.write('x')")),
    ?assertEqual({ok, 0}, py:eval("__import__('sys').stdout.buffer.write(b'')")).

%% How much

a_great_many_lines_come_in_order(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(printing, print_lines, [20_000, 100], #{}, 60_000) end),
    fake_leader:has(Leader, numbers(20_000, 100)),
    fake_leader:stop(Leader).

a_slow_group_leader_blocks_printing_code(_Config) ->
    Leader = fake_leader:start(),
    ok = fake_leader:hold(Leader),
    Self = self(),
    _ = spawn_link(fun() ->
        Self ! {printed, printed(Leader, fun() ->
            py:call(printing, print_lines, [40_000, 99], #{}, 60_000)
        end)}
    end),
    %% 4 MB are to be printed, and 1 MiB may be in flight.
    eventually:is(true, fun() -> queued(Leader) > 10_000 end),
    eventually:is(true, fun() -> is_quiet(Leader) end),
    ?assert(queued(Leader) < 11_000),
    %% Others print meanwhile.
    Other = fake_leader:start(),
    ok = printed(Other, fun() -> py:call(builtins, print, [<<"other">>]) end),
    fake_leader:has(Other, <<"other\n">>),
    ok = fake_leader:release(Leader),
    receive
        {printed, Answer} -> ?assertEqual(ok, Answer)
    end,
    fake_leader:has(Leader, numbers(40_000, 99)),
    lists:foreach(fun fake_leader:stop/1, [Leader, Other]).

%% This takes as long as native code waits: five seconds.
a_group_leader_that_does_not_reply_loses_text_and_that_is_logged(_Config) ->
    ok = log_watch:start(),
    Leader = fake_leader:start(),
    ok = fake_leader:hold(Leader),
    ok = printed(Leader, fun() -> py:call(printing, print_lines, [40_000, 99], #{}, 60_000) end),
    ?assert(queued(Leader) < 11_000),
    ok = fake_leader:release(Leader),
    called:is_logged("bytes printed by Python were lost"),
    %% It takes text again.
    ok = printed(Leader, fun() -> py:call(builtins, print, [<<"again">>]) end),
    eventually:is(<<"again\n">>, fun() -> lists:last(fake_leader:requests(Leader)) end),
    ok = log_watch:stop(),
    fake_leader:stop(Leader).

%% What goes wrong

a_dead_group_leader_is_ignored(_Config) ->
    Leader = fake_leader:start(),
    ok = printed(Leader, fun() -> py:call(builtins, print, [<<"alive">>]) end),
    ok = fake_leader:stop(Leader),
    %% Its text goes to user, which prints it where the suite's output goes.
    ?assertEqual(ok, printed(Leader, fun() -> py:call(builtins, print, [<<"(for user)">>]) end)).

a_killed_output_process_loses_nothing(_Config) ->
    Leader = fake_leader:start(),
    ok = fake_leader:hold(Leader),
    ok = printed(Leader, fun() -> py:call(printing, print_lines, [100, 99]) end),
    Killed = whereis(py_output),
    exit(Killed, kill),
    eventually:is(true, fun() -> not lists:member(whereis(py_output), [Killed, undefined]) end),
    ok = fake_leader:release(Leader),
    ok = printed(Leader, fun() -> py:call(printing, print_lines, [40_000, 99], #{}, 60_000) end),
    fake_leader:has(Leader, <<(numbers(100, 99))/binary, (numbers(40_000, 99))/binary>>),
    fake_leader:stop(Leader).

%% In nodes of their own, whose stdout this process reads

without_a_caller_it_goes_to_user(_Config) ->
    {0, Text} = called:run_in_node("{ok, none} = py:call(printing, print_in_bare_thread, [<<\"bare\">>])"),
    ?assertEqual("bare\n", Text).

it_can_be_turned_off(_Config) ->
    {0, Text} = called:run_in_node(
        "application:set_env(erlang_loop, redirect_output, false)",
        "true = group_leader(spawn(fun() -> timer:sleep(infinity) end), self()),"
        "{ok, none} = py:call(builtins, print, [<<\"raw\">>])"
    ),
    ?assertEqual("raw\n", Text).

a_forked_copy_prints_to_the_nodes_stdout(_Config) ->
    {0, Text} = called:run_in_node("{ok, 0} = py:call(printing, fork_and_print, [])"),
    ?assertNotEqual(nomatch, string:find(Text, "printed in the copy\n"), Text).

%% A shell on one node calls Python on another.
a_group_leader_on_another_node(_Config) ->
    [Shell, Node] = [
        other_node:start([], ["-sname", Name ++ os:getpid(), "-setcookie", "output"])
     || Name <- ["shell", "python"]
    ],
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    ok = other_node:call(Shell, ?MODULE, print_from, [other_node:call(Node, erlang, node, [])]),
    lists:foreach(fun other_node:stop/1, [Node, Shell]).

print_from(Node) ->
    Leader = fake_leader:start(),
    {ok, none} = fake_leader:as_leader(Leader, fun() ->
        erpc:call(Node, py, call, [builtins, print, [<<"far away">>]])
    end),
    fake_leader:has(Leader, <<"far away\n">>),
    fake_leader:stop(Leader).

printed(Leader, Fun) ->
    case fake_leader:as_leader(Leader, Fun) of
        ok -> ok;
        {ok, none} -> ok;
        {ok, undefined} -> ok
    end.

numbers(Count, Width) ->
    iolist_to_binary([io_lib:format("~*..0b~n", [Width, N]) || N <- lists:seq(0, Count - 1)]).

queued(Pid) ->
    {message_queue_len, Length} = process_info(Pid, message_queue_len),
    Length.

%% Nothing more comes: the thread that prints waits.
is_quiet(Pid) ->
    Before = queued(Pid),
    timer:sleep(50),
    queued(Pid) =:= Before.
