%% @doc Do items reach Python in order, no faster than it reads them? What does each side see of the
%% other's end?
-module(py_channel_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    every_reader_gets_all/1,
    a_slow_sender_is_waited_for/1,
    values_cross_as_in_calls/1,
    an_item_that_cannot_cross_is_an_error/1,
    readers_share/1,
    cancelled_readers_lose_nothing/1,
    a_full_channel_makes_senders_wait/1,
    an_item_larger_than_the_limit/1,
    senders_are_let_in_in_order/1,
    a_sender_that_times_out_has_not_sent/1,
    killed_senders_leave_nothing/1,
    many_senders/1,
    a_loop_runs_its_other_tasks/1,
    close_ends_the_reader_after_the_items/1,
    close_with_a_reason_raises/1,
    the_owners_death_raises/1,
    an_owner_that_closed_may_die/1,
    a_reader_that_raises_closes/1,
    a_failed_task_whose_exception_is_kept_closes/1,
    a_block_reports_its_exception/1,
    a_reader_that_closes/1,
    a_reader_that_drops_the_channel_closes/1,
    a_cancelled_reader_closes/1,
    a_channel_that_comes_back_stays_open/1,
    a_stopped_loop_closes/1,
    timeouts_of_readers/1,
    a_thread_of_a_loop_is_not_blocked/1,
    bytes_are_files/1,
    bytes_cross_as_they_are/1,
    a_channel_of_terms_has_no_file/1,
    a_closed_file_closes/1,
    large_data_in_bounded_memory/1,
    wrong_arguments/1,
    info_says_what_it_holds/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    Started = called:begin_suite(Config),
    {ok, _} = py:call(reading, forget, []),
    %% The thread that posts to asyncio's own loops stays.
    {ok, _} = py:call(reading, post_to_a_foreign_loop, []),
    Started.

end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    {ok, _} = py:call(reading, forget, []),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    called:end_case(Config).

%% Items arrive

every_reader_gets_all(_Config) ->
    Items = lists:seq(1, 1000),
    [
        ?assertEqual({Function, {ok, Items}}, {Function, read(Function, #{limit => Limit}, Items)})
     || Function <- [
            thread_all, task_all, asyncio_all, own_loop_all, receive_all, async_receive_all,
            in_a_thread
        ],
        Limit <- [1, 7, 5000]
    ].

a_slow_sender_is_waited_for(_Config) ->
    [
        begin
            {Channel, Task} = open(Function, #{}, []),
            [
                begin
                    timer:sleep(N),
                    ok = py_channel:send(Channel, N)
                end
             || N <- [0, 1, 5, 20]
            ],
            ok = py_channel:close(Channel),
            ?assertEqual({ok, [0, 1, 5, 20]}, py:await(Task))
        end
     || Function <- [thread_all, task_all, asyncio_all]
    ].

values_cross_as_in_calls(_Config) ->
    Items = [1, a, <<"text">>, [1, 2], {a, #{b => 2.5}}, self(), {date, {2024, 2, 29}}],
    ?assertEqual({ok, Items}, read(thread_all, #{}, Items)),
    ?assertEqual(
        {ok, [<<"bytes">>, <<"memoryview">>]},
        read(types_of, #{}, [{bytes, <<1>>}, {view, <<1>>}])
    ).

an_item_that_cannot_cross_is_an_error(_Config) ->
    {ok, [1, Text, 2]} = read(survives_a_bad_item, #{}, [1, {a, <<255>>}, 2]),
    ?assertMatch(<<"item[1]: a binary becomes a str", _/binary>>, Text).

readers_share(_Config) ->
    Items = lists:seq(1, 2000),
    [
        ?assertEqual({ok, Items}, read(Function, [4], #{limit => Limit}, Items))
     || Function <- [threads_share, tasks_share], Limit <- [1, 10, 4000]
    ].

cancelled_readers_lose_nothing(_Config) ->
    Items = lists:seq(1, 60),
    {Channel, Task} = open(cancelled_readers_lose_nothing, #{limit => 3}, []),
    [
        begin
            timer:sleep(1),
            ok = py_channel:send(Channel, Item)
        end
     || Item <- Items
    ],
    ok = py_channel:close(Channel),
    {ok, Taken} = py:await(Task),
    ?assertEqual(Items, lists:sort(Taken)).

%% Back-pressure

a_full_channel_makes_senders_wait(_Config) ->
    {ok, Channel} = py:channel(#{limit => 2}),
    ok = py_channel:send(Channel, 1),
    ok = py_channel:send(Channel, 2, 0),
    ?assertEqual({error, full}, py_channel:send(Channel, 3, 0)),
    ?assertEqual({error, timeout}, py_channel:send(Channel, 3, 10)),
    Sender = sender(Channel, 3, infinity),
    await_waiting(1, Channel),
    ?assertEqual({ok, [1, 2, 3]}, py:call(reading, takes, [Channel, 3])),
    ?assertEqual(ok, result_of(Sender)).

an_item_larger_than_the_limit(_Config) ->
    {ok, Channel} = py:channel(#{type => bytes, limit => 4}),
    ok = py_channel:send(Channel, <<"1234567890">>, 0),
    ?assertEqual({error, full}, py_channel:send(Channel, <<"x">>, 0)),
    Sender = sender(Channel, <<"abcdefghi">>, 60_000),
    await_waiting(1, Channel),
    {ok, Task} = py:submit(reading, thread_all, [Channel]),
    ?assertEqual(ok, result_of(Sender)),
    ok = py_channel:close(Channel),
    ?assertEqual({ok, [<<"1234567890">>, <<"abcdefghi">>]}, py:await(Task)).

senders_are_let_in_in_order(_Config) ->
    {ok, Channel} = py:channel(#{limit => 1}),
    ok = py_channel:send(Channel, 0),
    Senders = [
        begin
            Sender = sender(Channel, N, infinity),
            await_waiting(N, Channel),
            Sender
        end
     || N <- lists:seq(1, 20)
    ],
    ?assertEqual({ok, lists:seq(0, 20)}, py:call(reading, takes, [Channel, 21])),
    ?assertEqual([ok], lists:usort([result_of(Sender) || Sender <- Senders])).

a_sender_that_times_out_has_not_sent(_Config) ->
    {ok, Channel} = py:channel(#{limit => 1}),
    ok = py_channel:send(Channel, sent),
    [?assertEqual({error, timeout}, py_channel:send(Channel, late, T)) || T <- [1, 2, 5]],
    ok = py_channel:close(Channel),
    ?assertEqual({ok, [sent]}, py:call(reading, thread_all, [Channel])).

killed_senders_leave_nothing(_Config) ->
    {ok, Channel} = py:channel(#{limit => 1}),
    ok = py_channel:send(Channel, 0),
    Kill = fun(N) ->
        {Pid, Monitor} = sender(Channel, N, infinity),
        eventually:is(
            {current_function, {py_channel, wait, 3}},
            fun() -> process_info(Pid, current_function) end
        ),
        exit(Pid, kill),
        receive
            {'DOWN', Monitor, _, Pid, killed} -> ok
        end
    end,
    lists:foreach(Kill, lists:seq(1, 200)),
    #{waiting := Waiting} = py_channel:info(Channel),
    ?assert(Waiting =< 17, Waiting).

many_senders(_Config) ->
    {Channel, Task} = open(task_all, #{limit => 10}, []),
    Senders = [
        spawn_monitor(fun() ->
            [ok = py_channel:send(Channel, {N, I}, infinity) || I <- lists:seq(1, 100)],
            exit(sent)
        end)
     || N <- lists:seq(1, 100)
    ],
    [
        receive
            {'DOWN', Monitor, _, Pid, Reason} -> ?assertEqual(sent, Reason)
        end
     || {Pid, Monitor} <- Senders
    ],
    ok = py_channel:close(Channel),
    {ok, Items} = py:await(Task),
    ?assertEqual([{N, I} || N <- lists:seq(1, 100), I <- lists:seq(1, 100)], lists:sort(Items)),
    %% Each sender's items are in their order.
    InOrder = [I || {7, I} <- Items],
    ?assertEqual(lists:seq(1, 100), InOrder).

a_loop_runs_its_other_tasks(_Config) ->
    {Channel, Task} = open(others_run, #{}, []),
    Fill = fun Fill() ->
        case py_channel:send(Channel, 1) of
            ok -> Fill();
            {error, closed} -> ok
        end
    end,
    ok = Fill(),
    ?assertEqual({ok, true}, py:await(Task)).

%% Erlang's end

close_ends_the_reader_after_the_items(_Config) ->
    [
        begin
            {ok, Channel} = py:channel(#{limit => 2}),
            ok = py_channel:send(Channel, 1),
            ok = py_channel:send(Channel, 2),
            Sender = sender(Channel, 3, infinity),
            await_waiting(1, Channel),
            ok = py_channel:close(Channel),
            ok = py_channel:close(Channel),
            ok = py_channel:close(Channel, too_late),
            ?assertEqual({error, closed}, result_of(Sender)),
            ?assertEqual({error, closed}, py_channel:send(Channel, 3)),
            ?assertEqual({error, closed}, py_channel:send(Channel, 3, 0)),
            ?assertEqual({ok, {[1, 2], <<"end">>, none}}, py:call(reading, Function, [Channel]))
        end
     || Function <- [ends_with, ends_with_later]
    ].

close_with_a_reason_raises(_Config) ->
    [
        begin
            {Channel, Task} = open(Function, #{}, []),
            ok = py_channel:send(Channel, 1),
            ok = py_channel:close(Channel, {lost, <<"peer">>}),
            ?assertEqual({error, closed}, py_channel:send(Channel, 2)),
            ?assertEqual({ok, {[1], <<"exit">>, {lost, <<"peer">>}}}, py:await(Task))
        end
     || Function <- [ends_with, ends_with_later]
    ].

the_owners_death_raises(_Config) ->
    [
        begin
            Test = self(),
            Owner = spawn(fun() ->
                {ok, Channel} = py:channel(),
                Test ! {opened, Channel},
                receive
                    die -> ok
                end
            end),
            Channel = receive {opened, Opened} -> Opened end,
            {ok, Task} = py:submit(reading, Function, [Channel]),
            ok = py_channel:send(Channel, 1),
            %% It reads, or has read.
            eventually:is(0, fun() -> maps:get(used, py_channel:info(Channel)) end),
            Owner ! die,
            ?assertEqual({ok, {[1], <<"exit">>, {owner_down, Owner}}}, py:await(Task)),
            ?assertEqual({error, closed}, py_channel:send(Channel, 2))
        end
     || Function <- [ends_with, ends_with_later]
    ].

an_owner_that_closed_may_die(_Config) ->
    {Owner, Monitor} = spawn_monitor(fun() ->
        {ok, Channel} = py:channel(),
        ok = py_channel:send(Channel, 1),
        ok = py_channel:close(Channel),
        exit({closed, Channel})
    end),
    Channel = receive {'DOWN', Monitor, _, Owner, {closed, Closed}} -> Closed end,
    ?assertEqual({ok, {[1], <<"end">>, none}}, py:call(reading, ends_with, [Channel])).

%% Python's end

a_reader_that_raises_closes(_Config) ->
    [
        begin
            {Channel, Task} = open(Function, #{limit => 1}, [3]),
            ?assertMatch({error, _}, send_all(Channel, lists:seq(1, 100))),
            called:is_error("ValueError", "enough", py:await(Task))
        end
     || Function <- [fails_after, fails_later]
    ].

a_failed_task_whose_exception_is_kept_closes(_Config) ->
    {Channel, Task} = open(failed_task_is_kept, #{limit => 1}, [3]),
    called:is_error("ValueError", "enough", send_all(Channel, lists:seq(1, 100))),
    called:is_error("ValueError", "enough", py_channel:send(Channel, 1)),
    ?assertEqual({ok, <<"ValueError('enough')">>}, py:await(Task)).

a_block_reports_its_exception(_Config) ->
    [
        begin
            {Channel, Task} = open(Function, #{limit => 1}, []),
            called:is_error("ValueError", "in the block", send_all(Channel, lists:seq(1, 100))),
            called:is_error("ValueError", "in the block", py:await(Task))
        end
     || Function <- [with_block, async_with_block]
    ].

a_reader_that_closes(_Config) ->
    {Channel, Task} = open(closes, #{limit => 2}, []),
    ?assertEqual({error, closed}, send_all(Channel, lists:seq(1, 100))),
    ?assertEqual({ok, <<"the channel was closed by its consumer">>}, py:await(Task)),
    ?assertMatch(#{used := 0, waiting := 0, open := false}, py_channel:info(Channel)).

a_reader_that_drops_the_channel_closes(_Config) ->
    {ok, Channel} = py:channel(),
    ok = py_channel:send(Channel, 1),
    {ok, none} = py:call(reading, ignore, [Channel]),
    eventually:is({error, closed}, fun() -> py_channel:send(Channel, 2) end),
    %% It can be passed again; there is nothing in it.
    called:is_error(
        "ValueError", "closed by its consumer", py:call(reading, thread_all, [Channel])
    ).

a_cancelled_reader_closes(_Config) ->
    {Channel, Task} = open(task_all, #{limit => 1}, []),
    ok = py_channel:send(Channel, 1),
    eventually:is(0, fun() -> maps:get(used, py_channel:info(Channel)) end),
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)),
    ?assertEqual({error, closed}, send_all(Channel, lists:seq(1, 100))).

a_channel_that_comes_back_stays_open(_Config) ->
    {ok, Channel} = py:channel(),
    ?assertEqual({ok, Channel}, py:call(reading, give_back, [Channel])),
    {ok, _} = py:call(gc, collect, []),
    ok = py_channel:send(Channel, 1),
    ok = py_channel:close(Channel),
    ?assertEqual({ok, [1]}, py:call(reading, thread_all, [Channel])).

a_stopped_loop_closes(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Channel} = py:channel(#{limit => 1}),
    {ok, Task} = py_event_loop:submit(Loop, reading, task_all, [Channel]),
    ok = py_channel:send(Channel, 1),
    eventually:is(0, fun() -> maps:get(used, py_channel:info(Channel)) end),
    {ok, []} = py_event_loop:stop(Loop),
    ?assertMatch({error, _}, py:await(Task)),
    ?assertEqual({error, closed}, send_all(Channel, lists:seq(1, 100))).

%% Waiting

timeouts_of_readers(_Config) ->
    {ok, Channel} = py:channel(),
    Expected = [<<"no item within 0.01 s">>, <<"timeout must not be negative">>],
    ?assertEqual({ok, Expected ++ Expected}, py:call(reading, times_out, [Channel])).

a_thread_of_a_loop_is_not_blocked(_Config) ->
    {ok, Channel} = py:channel(),
    {ok, Text} = py:call(reading, blocks_the_loop, [Channel]),
    ?assertMatch(<<"this would block the event loop", _/binary>>, Text).

%% Bytes

bytes_are_files(_Config) ->
    Pieces = [<<"one\nt">>, <<>>, <<"wo">>, "\nthree\n", [<<"a">>, $\n, "bc"], <<"d">>],
    Whole = iolist_to_binary(Pieces),
    Lines = [<<"one\n">>, <<"two\n">>, <<"three\n">>, <<"a\n">>, <<"bcd">>],
    Read = fun(Function, Args) -> read(Function, Args, #{type => bytes}, Pieces) end,
    [?assertEqual({ok, Lines}, Read(Function, [])) || Function <- [lines, lines_later]],
    ?assertEqual(
        {ok, [<<"one">>, <<"two">>, <<"three">>, <<"a">>, <<"bcd">>]}, Read(text_lines, [])
    ),
    [?assertEqual({ok, Whole}, Read(Function, [])) || Function <- [whole, whole_later]],
    [
        ?assertEqual({Size, {ok, split(Whole, Size)}}, {Size, Read(Function, [Size])})
     || Function <- [pieces, pieces_later], Size <- [1, 2, 3, 7, 8, 100]
    ],
    [
        ?assertEqual({ok, Whole}, Read(Function, [Size]))
     || Function <- [into, into_later], Size <- [1, 3, 100]
    ].

split(Data, Size) when byte_size(Data) =< Size -> [Data];
split(Data, Size) ->
    {First, Rest} = split_binary(Data, Size),
    [First | split(Rest, Size)].

bytes_cross_as_they_are(_Config) ->
    Pieces = [<<255, 0>>, <<"text">>, binary:copy(<<200>>, 100_000)],
    ?assertEqual({ok, Pieces}, read(thread_all, #{type => bytes}, Pieces)),
    ?assertEqual({ok, Pieces}, read(task_all, #{type => bytes}, Pieces)),
    ?assertEqual(
        {ok, lists:duplicate(3, <<"bytes">>)}, read(types_of, #{type => bytes}, Pieces)
    ),
    {ok, Channel} = py:channel(#{type => bytes}),
    ?assertEqual({ok, <<"<erlang.Channel of bytes>">>}, py:call(reading, keep, [Channel])).

a_channel_of_terms_has_no_file(_Config) ->
    {ok, Channel} = py:channel(),
    ?assertEqual(
        {ok, <<"a channel of terms has no file: open it with type => bytes">>},
        py:call(reading, no_file, [Channel])
    ).

a_closed_file_closes(_Config) ->
    {Channel, Task} = open(closes_the_file, #{type => bytes, limit => 10}, []),
    ?assertEqual({error, closed}, send_all(Channel, lists:duplicate(100, <<"0123456789">>))),
    ?assertEqual({ok, true}, py:await(Task)).

%% 400 MB in pieces of 64 KiB: neither side may hold much of it.
large_data_in_bounded_memory(_Config) ->
    {Channel, Task} = open(count_bytes, #{type => bytes}, []),
    Piece = binary:copy(<<7>>, 65536),
    Before = resident(),
    %% Each a binary of its own.
    [ok = py_channel:send(Channel, <<Piece/binary, N:32>>) || N <- lists:seq(1, 6400)],
    After = resident(),
    ok = py_channel:close(Channel),
    ?assertEqual({ok, 6400 * 65540}, py:await(Task, 60_000)),
    ?assert(After - Before < 150_000_000, {Before, After}).

resident() ->
    {ok, Statm} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = binary:split(Statm, <<" ">>, [global]),
    binary_to_integer(Pages) * 4096.

%% Misuse

wrong_arguments(_Config) ->
    {ok, Channel} = py:channel(#{type => bytes}),
    [
        ?assertError(badarg, py:channel(Options))
     || Options <- [
            a, #{limit => 0}, #{limit => -1}, #{limit => a}, #{limit => 1 bsl 64}, #{type => text},
            #{no_such => 1}, #{owner => a}
        ]
    ],
    {Dead, Monitor} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Monitor, _, Dead, _} -> ok
    end,
    ?assertEqual({error, noproc}, py:channel(#{owner => Dead})),
    [
        ?assertError(badarg, py_channel:send(Channel, Item, Timeout))
     || {Item, Timeout} <- [{a, 0}, {#{}, 10}, {[a], 10}, {<<1:3>>, 10}, {<<"a">>, -1}, {<<"a">>, a}]
    ],
    [
        ?assertError(badarg, Function(Wrong))
     || Wrong <- [make_ref(), a, self()],
        Function <- [
            fun(C) -> py_channel:send(C, <<>>) end,
            fun(C) -> py_channel:send(C, <<>>, 0) end,
            fun py_channel:close/1,
            fun(C) -> py_channel:close(C, reason) end,
            fun py_channel:info/1
        ]
    ],
    ?assertEqual(
        "argument 1: option limit: not a limit: a positive number of items, or of bytes",
        misuse(fun() -> py:channel(#{limit => 0}) end)
    ),
    ?assertEqual(
        "argument 1: not a channel of py:channel/1", misuse(fun() -> py_channel:close(a) end)
    ),
    ?assertEqual(
        "argument 2: not iodata: the channel is of type bytes",
        misuse(fun() -> py_channel:send(Channel, a) end)
    ).

misuse(Fun) ->
    try
        Fun()
    catch
        error:badarg:Stack ->
            [{_, _, _, Location} | _] = Stack,
            #{cause := Wrong} = proplists:get_value(error_info, Location),
            [{Position, Text}] = maps:to_list(Wrong),
            lists:flatten(io_lib:format("argument ~b: ~ts", [Position, Text]))
    end.

info_says_what_it_holds(_Config) ->
    {ok, Channel} = py:channel(#{type => bytes, limit => 10}),
    ok = py_channel:send(Channel, <<"123">>),
    ?assertEqual(
        #{type => bytes, limit => 10, used => 3, waiting => 0, open => true},
        py_channel:info(Channel)
    ),
    {ok, Default} = py:channel(),
    ?assertMatch(#{type := terms, used := 0, open := true}, py_channel:info(Default)).

%% Support

read(Function, Options, Items) ->
    read(Function, [], Options, Items).

read(Function, Args, Options, Items) ->
    {Channel, Task} = open(Function, Options, Args),
    ok = send_all(Channel, Items),
    ok = py_channel:close(Channel),
    py:await(Task, 60_000).

open(Function, Options, Args) ->
    {ok, Channel} = py:channel(Options),
    {ok, Task} = py:submit(reading, Function, [Channel | Args]),
    {Channel, Task}.

send_all(_Channel, []) ->
    ok;
send_all(Channel, [Item | Items]) ->
    case py_channel:send(Channel, Item, 60_000) of
        ok -> send_all(Channel, Items);
        {error, Reason} -> {error, Reason}
    end.

sender(Channel, Item, Timeout) ->
    spawn_monitor(fun() -> exit({sent, py_channel:send(Channel, Item, Timeout)}) end).

result_of({Pid, Monitor}) ->
    receive
        {'DOWN', Monitor, _, Pid, {sent, Result}} -> Result
    end.

await_waiting(Count, Channel) ->
    eventually:is(Count, fun() -> maps:get(waiting, py_channel:info(Channel)) end).
