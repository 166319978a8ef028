%% @doc Does a node reply at its Unix socket, and to its own user only?
-module(py_inspect_socket_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    without_the_setting_there_is_none/1,
    every_command_has_a_reply/1,
    it_replies_while_the_gil_is_held/1,
    only_its_owner_may_open_it/1,
    a_folder_of_another_user_is_refused/1,
    a_path_in_use_is_left_alone/1,
    a_file_at_its_path_is_left_alone/1,
    a_socket_that_was_left_behind_is_replaced/1,
    strange_clients_do_not_matter/1,
    its_file_goes_with_it/1
]).
%% Called in another node.
-export([gil_is_held/0]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().

%% Paths of Unix sockets are short, and the folder of a test is not.
init_per_testcase(_Case, Config) ->
    Folder = string:trim(os:cmd("mktemp -d")),
    true = os:putenv("XDG_RUNTIME_DIR", Folder),
    called:begin_case([{folder, Folder} | Config]).

end_per_testcase(_Case, Config) ->
    closed(),
    true = os:unsetenv("XDG_RUNTIME_DIR"),
    _ = file:del_dir_r(proplists:get_value(folder, Config)),
    called:end_case(Config).

without_the_setting_there_is_none(_Config) ->
    ?assertEqual(undefined, py_inspect_socket:path()),
    ?assertEqual(ignore, py_inspect_socket:start_link()),
    true = os:putenv("ERLANG_LOOP_INSPECT", "1"),
    try
        {ok, _} = restarted(),
        ?assert(is_list(py_inspect_socket:path()))
    after
        os:unsetenv("ERLANG_LOOP_INSPECT")
    end.

every_command_has_a_reply(_Config) ->
    Path = opened(),
    {ok, Loop} = py_event_loop:start_link(#{name => socketed}),
    {ok, Task} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
    {ok, #{id := Id}} = py_inspect:loop(Loop),
    %% The loop takes the request a moment later.
    eventually:is(1, fun() -> {ok, #{tasks := Tasks}} = py_inspect:tasks(Loop), length(Tasks) end),
    [
        ?assertMatch({Command, {_, _}}, {Command, binary:match(ask(Path, Command), Text)})
     || {Command, Text} <- [
            {"pstree", <<"(T) asyncio.sleep">>},
            {"ps", <<"asyncio.sleep">>},
            {["pstree ", integer_to_list(Id)], <<"(T) asyncio.sleep">>},
            {"ps socketed", <<"asyncio.sleep">>},
            {"loops", <<" socketed idle, turns of ">>},
            {"node", <<"os_pid">>},
            {"metrics", <<"erlang_loop_peers 0">>}
        ]
    ],
    [?assertMatch(<<"ok\n", _/binary>>, ask(Path, Command)) || Command <- ["calls", "streams", "lints"]],
    [
        ?assertMatch({Command, <<"error\n", _/binary>>}, {Command, ask(Path, Command)})
     || Command <- ["", "rm", "ps 0", "ps 99999999999999999999999", "ps no_such_loop_anywhere", "ps a b", <<255, 254>>]
    ],
    ?assertError(badarg, list_to_existing_atom("no_such_loop_" ++ "anywhere")),
    ok = py:cancel(Task),
    {error, cancelled} = py:await(Task),
    {ok, []} = py_event_loop:stop(Loop).

it_replies_while_the_gil_is_held(Config) ->
    Node = other_node:start([{python_path, [project:file("test/support/python")]}, {inspect_socket, true}, {stuck_after, 200}]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    try
        Fds = other_node:call(Node, ?MODULE, gil_is_held, []),
        Path = other_node:call(Node, py_inspect_socket, path, []),
        ?assertEqual(proplists:get_value(folder, Config), filename:dirname(filename:dirname(Path))),
        eventually:passes(
            fun(Text) -> binary:match(Text, <<" stuck, ">>) =/= nomatch andalso binary:match(Text, <<"wait_in_c">>) =/= nomatch end,
            fun() -> ask(Path, "loops") end
        ),
        {_, Write} = Fds,
        ok = other_node:call(Node, py_nif, write_test_fd, [Write, <<"x">>])
    after
        ok = other_node:stop(Node)
    end.

gil_is_held() ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    Started = self(),
    _ = spawn(fun() ->
        {ok, Loop} = py_event_loop:start_link(#{name => holder}),
        {ok, Task} = py_event_loop:submit(Loop, called, wait_in_c, [Read]),
        Started ! submitted,
        {ok, 1} = py:await(Task, infinity)
    end),
    receive submitted -> {Read, Write} end.

only_its_owner_may_open_it(_Config) ->
    Path = opened(),
    {ok, #file_info{mode = Socket}} = file:read_file_info(Path),
    {ok, #file_info{mode = Folder}} = file:read_file_info(filename:dirname(Path)),
    ?assertEqual({8#600, 8#700}, {Socket band 8#777, Folder band 8#777}),
    %% Only root can become another user.
    case {string:trim(os:cmd("id -u")), os:find_executable("setpriv")} of
        {"0", Setpriv} when is_list(Setpriv) ->
            ok = file:change_mode(filename:dirname(filename:dirname(Path)), 8#755),
            Printed = os:cmd("setpriv --reuid 65534 --regid 65534 --clear-groups cat " ++ Path ++ " 2>&1"),
            ?assertNotEqual(nomatch, string:find(Printed, "Permission denied"), Printed);
        _ ->
            ok
    end.

a_folder_of_another_user_is_refused(Config) ->
    Folder = filename:join(proplists:get_value(folder, Config), "erlang_loop"),
    ok = file:make_dir(Folder),
    ok = file:change_mode(Folder, 8#777),
    refused("belongs to another user, or others may write to it"),
    ok = file:del_dir(Folder),
    ok = file:make_symlink("/tmp", Folder),
    refused("belongs to another user").

a_path_in_use_is_left_alone(Config) ->
    Path = path(Config),
    ok = filelib:ensure_dir(Path),
    {ok, Other} = gen_tcp:listen(0, [{ifaddr, {local, Path}}]),
    refused("another process listens there"),
    ?assertMatch({ok, _}, file:read_link_info(Path)),
    gen_tcp:close(Other).

a_file_at_its_path_is_left_alone(Config) ->
    Path = path(Config),
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, <<"mine">>),
    refused("file already exists"),
    ?assertEqual({ok, <<"mine">>}, file:read_file(Path)).

a_socket_that_was_left_behind_is_replaced(Config) ->
    Path = path(Config),
    ok = filelib:ensure_dir(Path),
    {ok, Other} = gen_tcp:listen(0, [{ifaddr, {local, Path}}]),
    ok = gen_tcp:close(Other),
    ?assertEqual(Path, opened()),
    ?assertMatch(<<"ok\n", _/binary>>, ask(Path, "node")).

%% They send nothing, too much, or go away; many at once.
strange_clients_do_not_matter(_Config) ->
    Path = opened(),
    Silent = [connected(Path) || _ <- lists:seq(1, 30)],
    [ok = gen_tcp:close(Socket) || Socket <- Silent],
    Long = connected(Path),
    _ = gen_tcp:send(Long, binary:copy(<<"x">>, 100_000)),
    case gen_tcp:recv(Long, 0, 10_000) of
        {ok, <<"error\n", _/binary>>} -> ok;
        {error, _} -> ok
    end,
    gen_tcp:close(Long),
    Self = self(),
    Clients = [spawn_link(fun() -> Self ! {self(), ask(Path, "loops")} end) || _ <- lists:seq(1, 100)],
    [receive {Client, Reply} -> ?assertMatch(<<"ok\n", _/binary>>, Reply) end || Client <- Clients].

its_file_goes_with_it(_Config) ->
    Path = opened(),
    closed(),
    ?assertEqual({error, enoent}, file:read_link_info(Path)),
    %% A crash leaves nothing in the way of the next one.
    Path = opened(),
    exit(whereis(py_inspect_socket), kill),
    eventually:is(Path, fun() -> try py_inspect_socket:path() catch exit:_ -> down end end),
    ?assertMatch(<<"ok\n", _/binary>>, ask(Path, "node")).

%% The node runs without it, and says why.
refused(Why) ->
    ok = log_watch:start(),
    ok = application:set_env(erlang_loop, inspect_socket, true),
    ?assertEqual({ok, undefined}, restarted()),
    called:is_logged(Why),
    log_watch:stop(),
    closed().

path(Config) ->
    filename:join([proplists:get_value(folder, Config), "erlang_loop", os:getpid() ++ ".sock"]).

opened() ->
    ok = application:set_env(erlang_loop, inspect_socket, true),
    {ok, Pid} = restarted(),
    true = is_pid(Pid),
    py_inspect_socket:path().

restarted() ->
    _ = supervisor:terminate_child(erlang_loop_sup, py_inspect_socket),
    supervisor:restart_child(erlang_loop_sup, py_inspect_socket).

closed() ->
    _ = supervisor:terminate_child(erlang_loop_sup, py_inspect_socket),
    application:set_env(erlang_loop, inspect_socket, false).

connected(Path) ->
    {ok, Socket} = gen_tcp:connect({local, Path}, 0, [binary, {active, false}]),
    Socket.

ask(Path, Command) ->
    Socket = connected(Path),
    ok = gen_tcp:send(Socket, [Command, $\n]),
    received(Socket, <<>>).

received(Socket, Before) ->
    case gen_tcp:recv(Socket, 0, 30_000) of
        {ok, Bytes} -> received(Socket, <<Before/binary, Bytes/binary>>);
        {error, closed} -> gen_tcp:close(Socket), Before
    end.
