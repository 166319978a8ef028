%% @doc Does large data cross between a node and its peers without copies, and is it given back,
%% whatever happens in between?
-module(py_large_data_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    one_copy_then_none/1,
    from_peer_to_peer/1,
    arrays_of_numpy/1,
    parts_of_what_is_shared/1,
    a_buffer_that_is_written_after_it_was_sent/1,
    views_of_binaries_come_back_in_this_process/1,
    many_deep_in_one_value/1,
    streams/1,
    small_data_goes_through_the_connection/1,
    memory_is_given_back/1,
    a_peer_that_dies_gives_all_back/1,
    a_caller_that_dies_gives_all_back/1,
    a_peer_without_fds/1,
    a_peer_without_memory/1,
    files_that_must_not_be_mapped/1,
    strangers_are_not_accepted/1
]).

-define(SIZE, (1 bsl 20)).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE, []).

init_per_suite(Config) ->
    Begun = peers:begin_suite(Config),
    [{loop, peers:start(#{name => large_data})} | Begun].

end_per_suite(Config) ->
    ok = peers:stop(loop(Config)),
    peers:end_suite().

init_per_testcase(_Case, Config) ->
    _ = process_flag(trap_exit, true),
    peers:begin_case(Config).

end_per_testcase(_Case, Config) -> peers:end_case(Config).

loop(Config) -> proplists:get_value(loop, Config).

run(Loop, Function, Args) ->
    py_event_loop:run(Loop, large_data, Function, Args, #{}, 60_000).

counts(Loop) ->
    {ok, #{large_data := #{to_peer := To, from_peer := From}}} = py_event_loop:info(Loop),
    {To, From}.

binary() -> binary:copy(<<"0123456789abcdef">>, ?SIZE div 16).

%% Without copies

one_copy_then_none(Config) ->
    Loop = loop(Config),
    Bytes = binary(),
    {#{copies := Before}, #{copies := BeforeThere}} = counts(Loop),
    {ok, Shared} = run(Loop, identity, [{view, Bytes}]),
    ?assertEqual(Bytes, Shared),
    {ok, Again} = run(Loop, identity, [{view, Shared}]),
    ?assertEqual(Bytes, Again),
    {#{copies := Copies, binaries := Binaries}, #{copies := CopiesThere}} = counts(Loop),
    ?assertEqual({1, 0}, {Copies - Before, CopiesThere - BeforeThere}),
    ?assert(Binaries >= 2).

from_peer_to_peer(Config) ->
    Other = peers:start(#{name => large_data_2}),
    {_, #{copies := Before}} = counts(loop(Config)),
    {ok, Made} = run(loop(Config), shared, [16 * ?SIZE, 7]),
    ?assertEqual({ok, 7 * 16 * ?SIZE div 4096}, run(Other, total, [{view, Made}])),
    {_, #{copies := After}} = counts(loop(Config)),
    ?assertEqual(Before, After),
    ?assertMatch({#{binaries := 1, copies := 0, copied_bytes := 0, bytes := 16#1000000}, _}, counts(Other)),
    %% What was sent lives on.
    ok = peers:stop(Other),
    ?assertEqual(7, binary:last(Made)).

arrays_of_numpy(_Config) ->
    Loop = peers:start(#{place => {peer, #{settings => #{venv => project:file(".venv")}}}}),
    {ok, {ndarray, <<"<f8">>, {512, 512}, Elements}} = run(Loop, ones, [512, 512]),
    ?assertEqual(8 * 512 * 512, byte_size(Elements)),
    {#{copies := Before}, _} = counts(Loop),
    {ok, {ndarray, <<"<f8">>, {512, 512}, Back}} =
        run(Loop, identity, [{ndarray, <<"<f8">>, {512, 512}, Elements}]),
    ?assertEqual(Elements, Back),
    ?assertMatch({#{copies := Before}, _}, counts(Loop)),
    peers:stop(Loop).

parts_of_what_is_shared(Config) ->
    Loop = loop(Config),
    {ok, Shared} = run(Loop, identity, [{view, binary()}]),
    {#{copies := Before}, _} = counts(Loop),
    <<_:5000/binary, Part:500000/binary, _/binary>> = Shared,
    {ok, Back} = run(Loop, identity, [{view, Part}]),
    ?assertEqual(Part, Back),
    ?assertMatch({#{copies := Before}, _}, counts(Loop)).

a_buffer_that_is_written_after_it_was_sent(Config) ->
    Expected = {ok, {<<1, 1>>, <<2, 1>>}},
    ?assertEqual(Expected, py:call(large_data, written_after_it_was_sent, [?SIZE])),
    ?assertEqual(Expected, run(loop(Config), written_after_it_was_sent, [?SIZE])),
    {error, #{type := <<"builtins.MemoryError">>}} = py:call(erlang, 'SharedBuffer', [1 bsl 60]),
    ?assertMatch({error, _}, py:call(erlang, 'SharedBuffer', [-1])),
    ?assertEqual({ok, 0}, py:eval("import erlang\nlen(memoryview(erlang.SharedBuffer(0)))", #{})).

views_of_binaries_come_back_in_this_process(_Config) ->
    Bytes = binary(),
    ?assertEqual({ok, Bytes}, py:call(large_data, identity, [{view, Bytes}])),
    %% A view with gaps is copied.
    {ok, Half} = py:eval("view[::2]", #{view => {view, Bytes}}),
    ?assertEqual(<<"02468ace">>, binary:part(Half, 0, 8)).

many_deep_in_one_value(Config) ->
    Bytes = binary(),
    Many = [{bytes, <<N, Bytes/binary>>} || N <- lists:seq(1, 100)],
    Deep = lists:foldl(fun(N, Inner) -> #{<<"n">> => N, <<"in">> => [Inner]} end, Many, lists:seq(1, 500)),
    Back = lists:foldl(
        fun(N, Inner) -> #{<<"n">> => N, <<"in">> => [Inner]} end,
        [Each || {bytes, Each} <- Many],
        lists:seq(1, 500)
    ),
    ?assertEqual({ok, Back}, run(loop(Config), identity, [Deep])).

streams(Config) ->
    {ok, Items} = py:fold(
        fun(Item, All) -> [{binary:first(Item), byte_size(Item)} | All] end,
        [], large_data, views, [5, ?SIZE], #{}, #{loop => loop(Config)}
    ),
    ?assertEqual([{N, ?SIZE} || N <- [4, 3, 2, 1, 0]], Items).

small_data_goes_through_the_connection(Config) ->
    Loop = loop(Config),
    Before = counts(Loop),
    Small = binary:part(binary(), 0, 200_000),
    ?assertEqual({ok, Small}, run(Loop, identity, [{view, Small}])),
    ?assertEqual(Before, counts(Loop)).

%% Given back

memory_is_given_back(Config) ->
    Loop = loop(Config),
    Pids = [list_to_integer(os:getpid()), peers:os_pid(Loop)],
    _ = garbage_collect(),
    Before = [mapped(Pid) || Pid <- Pids],
    in_a_process(fun() ->
        [{ok, _} = run(Loop, identity, [{view, binary()}]) || _ <- lists:seq(1, 20)]
    end),
    {ok, none} = run(Loop, keep, [{view, binary()}]),
    {ok, none} = run(Loop, forget, []),
    eventually:is(true, fun() -> lists:all(fun is_less/1, lists:zip(Before, [mapped(Pid) || Pid <- Pids])) end).

is_less({Before, Now}) -> Now =< Before.

in_a_process(Do) ->
    {Pid, Monitor} = spawn_monitor(Do),
    receive
        {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
    end.

%% Bytes of large data that a process has mapped, and its files.
mapped(OsPid) ->
    Folder = "/proc/" ++ integer_to_list(OsPid),
    {ok, Maps} = file:read_file(Folder ++ "/maps"),
    Lines = [
        Line
     || Line <- binary:split(Maps, <<"\n">>, [global]), binary:match(Line, <<"memfd:erlang_loop_data">>) =/= nomatch
    ],
    {ok, Fds} = file:list_dir(Folder ++ "/fd"),
    Files = [
        Fd
     || Fd <- Fds, {ok, "/memfd:erlang_loop_data" ++ _} <- [file:read_link(Folder ++ "/fd/" ++ Fd)]
    ],
    length(Lines) + length(Files).

a_peer_that_dies_gives_all_back(_Config) ->
    Here = list_to_integer(os:getpid()),
    Bytes = binary(),
    _ = garbage_collect(),
    Before = mapped(Here),
    Loop = peers:start(#{name => large_data_3}),
    OsPid = peers:os_pid(Loop),
    Self = self(),
    Callers = [
        spawn_monitor(fun() ->
            Self ! begun,
            calls_until_it_is_down(Loop, Bytes)
        end)
     || _ <- lists:seq(1, 20)
    ],
    _ = [receive begun -> ok end || _ <- Callers],
    {ok, _} = run(Loop, keep, [{view, Bytes}]),
    %% A crash report has the messages that were not taken, among them parcels, and log handlers keep it.
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    _ = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    _ = [receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason) end || {_, Monitor} <- Callers],
    eventually:is(true, fun() ->
        _ = [garbage_collect(Pid) || Pid <- processes()],
        mapped(Here) =< Before
    end),
    ok = logger:set_primary_config(level, Level).

calls_until_it_is_down(Loop, Bytes) ->
    case run(Loop, identity, [{view, Bytes}]) of
        {ok, Bytes} -> calls_until_it_is_down(Loop, Bytes);
        {error, {peer_down, {signal, sigkill}}} -> ok;
        {error, loop_down} -> ok
    end.

a_caller_that_dies_gives_all_back(Config) ->
    Loop = loop(Config),
    Pids = [list_to_integer(os:getpid()), peers:os_pid(Loop)],
    Bytes = binary(),
    {ok, _} = run(Loop, identity, [{view, Bytes}]),
    _ = garbage_collect(),
    Before = [mapped(Pid) || Pid <- Pids],
    [
        begin
            {Pid, Monitor} = spawn_monitor(fun() -> run(Loop, identity, [{view, Bytes}]) end),
            _ = [erlang:yield() || _ <- lists:seq(1, rand:uniform(200))],
            true = exit(Pid, kill),
            receive {'DOWN', Monitor, process, Pid, _} -> ok end
        end
     || _ <- lists:seq(1, 50)
    ],
    {ok, 1} = run(Loop, identity, [1]),
    eventually:is(true, fun() -> lists:all(fun is_less/1, lists:zip(Before, [mapped(Pid) || Pid <- Pids])) end).

a_peer_without_fds(_Config) ->
    Loop = peers:start(#{name => large_data_4}),
    Bytes = binary(),
    {ok, _} = run(Loop, use_all_fds, []),
    %% What arrives takes the place of a reserve; what is sent goes through the connection.
    ?assertEqual({ok, Bytes}, run(Loop, identity, [{view, Bytes}])),
    ?assertEqual({ok, Bytes}, run(Loop, identity, [{bytes, Bytes}])),
    {ok, none} = run(Loop, close_fds, []),
    ?assertEqual({ok, Bytes}, run(Loop, identity, [{bytes, Bytes}])),
    peers:stop(Loop).

a_peer_without_memory(_Config) ->
    Loop = peers:start(#{name => large_data_5}),
    {ok, none} = run(Loop, limit_memory, [16 bsl 20]),
    ?assertMatch(
        {error, {large_data, enomem}}, run(Loop, total, [{view, binary:copy(binary(), 256)}])
    ),
    ?assertEqual({ok, 1}, run(Loop, identity, [1])),
    peers:stop(Loop).

%% Whatever the other side sends, reading it must not end this node.
files_that_must_not_be_mapped(_Config) ->
    {ok, Listener, {Name, Secret} = Address} = py_peer_memory:listen(),
    Kinds = [
        {<<"writable">>, eperm}, {<<"shrinks">>, eperm}, {<<"short">>, einval}, {<<"gaps">>, einval},
        {<<"device">>, einval}, {<<"overflow">>, einval}, {<<"none">>, einval}, {<<"many">>, emfile}
    ],
    {ok, _} = py:call(large_data, send_files, [{bytes, Name}, {bytes, Secret}, [K || {K, _} <- Kinds]], #{}, #{return => ref}),
    {ok, Link} = py_peer_memory:accept(Listener, Address),
    _ = [
        ?assertEqual({Kind, true}, {Kind, is_refused(py_nif:memory_take(Link, N), Error)})
     || {N, {Kind, Error}} <- lists:enumerate(0, Kinds)
    ],
    %% The socket has no more.
    ?assertEqual({error, eagain}, py_nif:memory_take(Link, 1000)),
    {ok, none} = py:call(large_data, forget, []),
    ok.

is_refused({error, eperm}, eperm) -> true;
is_refused({error, {errno, 1}}, eperm) -> true;
is_refused({error, Error}, Error) -> true;
is_refused({ok, Bytes}, emfile) -> is_binary(Bytes);
is_refused(_, _) -> false.

strangers_are_not_accepted(_Config) ->
    {ok, Listener, {Name, Secret} = Address} = py_peer_memory:listen(),
    {ok, _} = py_nif:memory_connect(Name, <<"wrong">>),
    {ok, _} = py_nif:memory_connect(Name, <<Secret/binary, "longer">>),
    {ok, _} = py_nif:memory_connect(Name, <<>>),
    {ok, _} = py_nif:memory_connect(Name, Secret),
    ?assertMatch({ok, _}, py_peer_memory:accept(Listener, Address)),
    %% No process can connect any more.
    ?assertEqual({error, enotconn}, py_peer_memory:accept(Listener, Address)),
    ?assertEqual({error, econnrefused}, py_nif:memory_connect(Name, Secret)),
    {ok, Other, {OtherName, _} = There} = py_peer_memory:listen(),
    {ok, _} = py_nif:memory_connect(OtherName, <<"wrong">>),
    ?assertEqual({error, eagain}, py_peer_memory:accept(Other, There)),
    ?assertEqual({error, econnrefused}, py_nif:memory_connect(<<"erlang_loop.none">>, Secret)).
