%% @doc Does a supervised ASGI server reload, drain and replace its workers without losing requests?
-module(py_asgi_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
%% A handler, and a handler of logger.
-export([health/1, log/2]).
-export([
    serves_and_reloads/1,
    no_request_fails_during_reloads/1,
    a_reload_that_fails_changes_nothing/1,
    a_dead_worker_is_replaced/1,
    a_stuck_start_ends/1,
    a_worker_is_renewed_after_its_requests/1,
    a_worker_is_renewed_after_its_lifetime/1,
    drain_waits_for_requests/1,
    a_supervisor_drains_it/1,
    listens_at_a_path/1,
    erlang_handles_some_paths/1,
    several_applications_have_prefixes/1,
    two_servers_share_a_port/1,
    serves_wsgi/1,
    workers_in_processes_of_their_own/1,
    a_worker_that_needs_too_much_memory_is_replaced/1,
    handles_requests_of_another_server/1,
    bodies_wait_for_the_other_side/1,
    the_other_server_ends/1,
    a_mounted_request_outlives_a_reload/1,
    the_access_log_goes_to_logger/1,
    requests_are_in_lists_of_tasks_and_metrics/1,
    starts_that_fail/1,
    bad_options_raise/1
]).

suite() -> [{timetrap, {minutes, list_to_integer(os:getenv("RELOADS_MINUTES", "2"))}}].

all() -> cases:of_suite(?MODULE, [health, log]).

init_per_suite(Config) ->
    Begun = called:begin_suite(Config),
    %% The first peer starts distribution, which stays.
    ok = py_peer_node:ensure_distributed(),
    Begun.
end_per_suite(_Config) -> called:stop().

init_per_testcase(_Case, Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    ok = write(Folder, <<"one">>),
    called:begin_case([{folder, list_to_binary(Folder)} | Config]).

end_per_testcase(_Case, Config) -> called:end_case(Config).

serves_and_reloads(Config) ->
    with_server(#{workers => 2}, Config, fun(Server, Port) ->
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        ok = write(folder(Config), <<"other">>),
        Before = [Pid || #{pid := Pid} <- maps:get(workers, py_asgi:info(Server))],
        ok = py_asgi:reload(Server),
        eventually:is({200, <<"other">>}, fun() -> asgi_load:get(Port, "/") end),
        eventually:is(2, fun() -> length(maps:get(workers, py_asgi:info(Server))) end),
        #{workers := After, state := serving} = py_asgi:info(Server),
        ?assertEqual([], [Pid || #{pid := Pid} <- After, lists:member(Pid, Before)])
    end).

%% `make reloads' runs this with larger numbers.
no_request_fails_during_reloads(Config) ->
    Reloads = list_to_integer(os:getenv("RELOADS", "3")),
    Clients = list_to_integer(os:getenv("RELOADS_CLIENTS", "20")),
    WebSockets = list_to_integer(os:getenv("RELOADS_WEBSOCKETS", "5")),
    Pause = 1000 * list_to_integer(os:getenv("RELOADS_SECONDS", "0")) div Reloads,
    with_server(#{}, Config, fun(Server, Port) ->
        Load = asgi_load:start(Port, Clients, WebSockets),
        _ = [
            begin
                timer:sleep(Pause),
                ok = py_asgi:reload(Server),
                eventually:is(1, fun() -> length(maps:get(workers, py_asgi:info(Server))) end)
            end
         || _ <- lists:seq(1, Reloads)
        ],
        Counts = asgi_load:stop(Load),
        #{failed := Failed, announced := Announced, restarted := Restarted} = Counts,
        ct:pal("~b reloads: ~p", [Reloads, Counts]),
        ?assertEqual(0, Failed),
        %% A client that was between two connections meets the new worker.
        ?assert(Announced >= Reloads),
        ?assert(Restarted >= WebSockets)
    end).

a_reload_that_fails_changes_nothing(Config) ->
    with_server(#{}, Config, fun(Server, Port) ->
        ok = file:write_file(filename:join(folder(Config), "asgi_served.py"), <<"1 / 0\n">>),
        {error, {app, #{type := <<"builtins.ZeroDivisionError">>}}} = py_asgi:reload(Server),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        ?assertMatch(#{workers := [#{state := serving}]}, py_asgi:info(Server))
    end).

a_dead_worker_is_replaced(Config) ->
    with_server(#{}, Config, fun(Server, Port) ->
        #{workers := [#{pid := Pid, loop := Loop}]} = py_asgi:info(Server),
        true = exit(Loop, kill),
        eventually:is(true, fun() ->
            case py_asgi:info(Server) of
                #{workers := [#{pid := New}]} -> New =/= Pid;
                _ -> false
            end
        end),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
    end).

a_stuck_start_ends(Config) ->
    process_flag(trap_exit, true),
    Options = options(#{app => <<"asgi_served:never">>, start_timeout => 100}, Config),
    ?assertEqual({error, {app, timeout}}, py_asgi:start_link(Options)).

a_worker_is_renewed_after_its_requests(Config) ->
    with_server(#{limit_max_requests => 2}, Config, fun(Server, Port) ->
        #{workers := [#{pid := Pid}]} = py_asgi:info(Server),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        is_renewed(Server, Pid),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
    end).

a_worker_is_renewed_after_its_lifetime(Config) ->
    with_server(#{lifetime => 100}, Config, fun(Server, Port) ->
        #{workers := [#{pid := Pid} | _]} = py_asgi:info(Server),
        is_renewed(Server, Pid),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
    end).

is_renewed(Server, Pid) ->
    eventually:is(true, fun() ->
        #{workers := Workers} = py_asgi:info(Server),
        Workers =/= [] andalso not lists:member(Pid, [One || #{pid := One} <- Workers])
    end).

drain_waits_for_requests(Config) ->
    with_server(#{}, Config, fun(Server, Port) ->
        Test = self(),
        _ = spawn_link(fun() -> Test ! {slow, asgi_load:get(Port, "/slow")} end),
        eventually:is(1, fun() -> active(Server) end),
        ok = py_asgi:drain(Server, 10_000),
        receive
            {slow, Response} -> ?assertEqual({200, <<"one">>}, Response)
        end,
        ?assertMatch(#{state := drained, workers := []}, py_asgi:info(Server)),
        ?assertEqual({error, drained}, py_asgi:reload(Server)),
        ?assertEqual({error, econnrefused}, asgi_load:get(Port, "/")),
        ok = py_asgi:drain(Server, 0)
    end).

active(Server) ->
    lists:sum([Active || #{active := Active} <- maps:get(workers, py_asgi:info(Server))]).

a_supervisor_drains_it(Config) ->
    Spec = py_asgi:child_spec(options(#{name => asgi_supervised}, Config)),
    ?assertMatch(#{id := asgi_supervised, shutdown := 35_000}, Spec),
    {ok, Supervisor} = supervisor:start_link(supervisor_of, {#{}, [Spec]}),
    #{address := {_, Port}} = py_asgi:info(asgi_supervised),
    Test = self(),
    _ = spawn_link(fun() -> Test ! {slow, asgi_load:get(Port, "/slow")} end),
    eventually:is(1, fun() -> active(asgi_supervised) end),
    ok = gen_server:stop(Supervisor),
    receive
        {slow, Response} -> ?assertEqual({200, <<"one">>}, Response)
    end.

listens_at_a_path(Config) ->
    Path = iolist_to_binary(["/tmp/asgi-", os:getpid(), ".sock"]),
    with_server(#{uds => Path}, Config, fun(Server, _) ->
        #{address := Path} = py_asgi:info(Server),
        {ok, Socket} = gen_tcp:connect({local, Path}, 0, [binary, local, {active, false}]),
        ok = gen_tcp:send(Socket, <<"GET / HTTP/1.0\r\n\r\n">>),
        {ok, <<"HTTP/1.1 200", _/binary>>} = gen_tcp:recv(Socket, 0),
        ok = gen_tcp:close(Socket)
    end),
    ?assertNot(filelib:is_file(Path)).

erlang_handles_some_paths(Config) ->
    Handlers = #{
        <<"/health">> => {?MODULE, health},
        <<"/about">> => fun(Request) ->
            #{method := <<"GET">>, path := Path, query := Query, headers := Headers} = Request,
            {<<"host">>, Host} = lists:keyfind(<<"host">>, 1, Headers),
            {201, [{"x-one", <<"1">>}], [Path, $?, Query, $ , Host, 255]}
        end,
        <<"/broken">> => fun(_) -> not_a_response end
    },
    with_server(#{handlers => Handlers}, Config, fun(_Server, Port) ->
        ?assertEqual({200, <<"well">>}, asgi_load:get(Port, "/health")),
        ?assertEqual({201, <<"/about/x?y=z x", 255>>}, asgi_load:get(Port, "/about/x?y=z")),
        ?assertEqual({500, <<"Internal Server Error">>}, asgi_load:get(Port, "/broken")),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/healthy")),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
    end).

several_applications_have_prefixes(Config) ->
    Apps = #{<<"/">> => <<"asgi_served:app">>, <<"/plain">> => <<"asgi_served:second">>},
    with_server(#{app => Apps}, Config, fun(Server, Port) ->
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        ?assertEqual({200, <<"second">>}, asgi_load:get(Port, "/plain/x")),
        ok = py_asgi:reload(Server),
        ?assertEqual({200, <<"second">>}, asgi_load:get(Port, "/plain")),
        {200, _, <<"second">>} = py_asgi:handle(Server, #{method => <<"GET">>, path => <<"/plain">>}),
        ?assertMatch(#{app := Apps}, py_asgi:info(Server))
    end),
    Missing = Apps#{<<"/missing">> => <<"asgi_served:missing">>},
    process_flag(trap_exit, true),
    {error, {app, #{message := Text}}} = py_asgi:start_link(options(#{app => Missing}, Config)),
    ?assertMatch({match, _}, re:run(Text, "has no attribute 'missing'")).

two_servers_share_a_port(Config) ->
    with_server(#{reuse_port => true}, Config, fun(_, Port) ->
        with_server(#{reuse_port => true, port => Port}, Config, fun(_, Port2) ->
            ?assertEqual(Port, Port2),
            ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
        end)
    end).

serves_wsgi(Config) ->
    with_server(#{app => <<"asgi_served:wsgi">>, interface => wsgi}, Config, fun(_Server, Port) ->
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
    end).

workers_in_processes_of_their_own(Config) ->
    Options = #{place => peer, workers => 2, handlers => #{<<"/node">> => fun node_name/1}},
    with_server(Options, Config, fun(Server, Port) ->
        Pids = [Pid || #{pid := Pid} <- maps:get(workers, py_asgi:info(Server))],
        ?assertMatch([_, _], Pids),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        {200, _, <<"one">>} = py_asgi:handle(Server, #{method => <<"GET">>, path => <<"/">>}),
        %% Handlers run in this node.
        ?assertEqual({200, atom_to_binary(node())}, asgi_load:get(Port, "/node")),
        ?assertEqual({error, closed}, asgi_load:get(Port, "/die")),
        eventually:is([1], fun() ->
            Now = [Pid || #{pid := Pid} <- maps:get(workers, py_asgi:info(Server))],
            [length(Pids -- Now) || length(Now) =:= 2]
        end),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        ok = write(folder(Config), <<"other">>),
        ok = py_asgi:reload(Server),
        %% For a moment the old workers accept, too.
        eventually:is({200, <<"other">>}, fun() -> asgi_load:get(Port, "/") end)
    end).

node_name(_Request) -> {200, [], atom_to_binary(node())}.

a_worker_that_needs_too_much_memory_is_replaced(Config) ->
    with_server(#{place => peer, max_rss => 1}, Config, fun(Server, Port) ->
        #{workers := [#{pid := Pid} | _]} = py_asgi:info(Server),
        is_renewed(Server, Pid),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/"))
    end).

handles_requests_of_another_server(Config) ->
    with_server(#{listen => false}, Config, fun(Server, none) ->
        Request = #{method => <<"PUT">>, path => <<"/echo/a%20b">>},
        ?assertEqual({200, [], <<>>}, py_asgi:handle(Server, Request)),
        ?assertEqual({200, [], <<"hello">>}, py_asgi:handle(Server, Request#{body => <<"hello">>})),
        {200, [], Seen} = py_asgi:handle(Server, #{
            method => <<"GET">>,
            path => <<"/below/scope/a%20b">>,
            root_path => <<"/below">>,
            query => <<"q=1">>,
            headers => [{<<"X-Name">>, <<255>>}],
            client => {{10, 0, 0, 1}, 77},
            scheme => https
        }),
        ?assertEqual(
            <<"/below /below/scope/a b b'q=1' [(b'x-name', b'\\xff')] ('10.0.0.1', 77) https">>, Seen
        ),
        Raises = Request#{path => <<"/raise">>},
        ?assertMatch({500, _, <<"Internal Server Error">>}, py_asgi:handle(Server, Raises)),
        Breaks = Request#{path => <<"/half">>},
        ?assertEqual({error, incomplete}, py_asgi:handle(Server, Breaks)),
        ?assertEqual({error, {no_server, nowhere}}, py_asgi:handle(nowhere, Request)),
        _ = [
            ?assertError({bad_option, _, _}, py_asgi:handle(Server, maps:merge(Request, Bad)))
         || Bad <- [
                #{path => <<"echo">>},
                #{method => get},
                #{body => []},
                #{headers => [{"x", <<"y">>}]},
                #{root_path => <<"/other">>},
                #{client => <<"10.0.0.1">>},
                #{unknown => 1}
            ]
        ],
        ok = py_asgi:drain(Server, 0),
        ?assertEqual({error, no_worker}, py_asgi:handle(Server, Request))
    end).

%% The application echoes piece by piece: it reads the next one when the last one was taken.
bodies_wait_for_the_other_side(Config) ->
    with_server(#{listen => false}, Config, fun(Server, none) ->
        Self = self(),
        Pieces = atomics:new(1, []),
        Body = fun() ->
            case atomics:add_get(Pieces, 1, 1) of
                5 -> {last, <<"end">>};
                N -> {more, integer_to_binary(N)}
            end
        end,
        Reply = fun(Part) ->
            Self ! {atomics:get(Pieces, 1), Part},
            ok
        end,
        Request = #{method => <<"POST">>, path => <<"/echo">>, body => Body, reply => Reply},
        ?assertEqual(ok, py_asgi:handle(Server, Request)),
        ?assertEqual(
            [{1, {start, 200, []}}]
                ++ [{N, {more, integer_to_binary(N)}} || N <- lists:seq(1, 4)]
                ++ [{5, {more, <<"end">>}}, {5, {last, <<>>}}],
            received()
        )
    end).

received() ->
    receive
        Message -> [Message | received()]
    after 0 -> []
    end.

the_other_server_ends(Config) ->
    with_server(#{listen => false}, Config, fun(Server, none) ->
        Request = #{method => <<"POST">>, path => <<"/echo">>},
        %% Its client has gone: while it sends, while it receives.
        Gone = Request#{reply => fun(_) -> {error, closed} end},
        ?assertEqual({error, incomplete}, py_asgi:handle(Server, Gone)),
        Lost = Request#{body => fun() -> closed end, reply => fun(_) -> ok end},
        ?assertEqual({error, incomplete}, py_asgi:handle(Server, Lost)),
        %% It raises, and it dies.
        ?assertError(broken, py_asgi:handle(Server, Request#{reply => fun(_) -> error(broken) end})),
        eventually:is(0, fun() -> active(Server) end),
        Self = self(),
        Waits = Request#{body => fun() -> Self ! asked, timer:sleep(infinity) end},
        Other = spawn(fun() -> py_asgi:handle(Server, Waits) end),
        receive
            asked -> ok
        end,
        ?assertEqual(1, active(Server)),
        true = exit(Other, kill),
        eventually:is(0, fun() -> active(Server) end)
    end).

a_mounted_request_outlives_a_reload(Config) ->
    with_server(#{listen => false}, Config, fun(Server, none) ->
        Self = self(),
        Slow = #{method => <<"GET">>, path => <<"/slow">>},
        _ = spawn_link(fun() -> Self ! {slow, py_asgi:handle(Server, Slow)} end),
        eventually:is(1, fun() -> active(Server) end),
        ok = py_asgi:reload(Server),
        receive
            {slow, Response} -> ?assertEqual({200, [], <<"one">>}, Response)
        end,
        eventually:is(1, fun() -> length(maps:get(workers, py_asgi:info(Server))) end)
    end).

the_access_log_goes_to_logger(Config) ->
    ok = logger:add_handler(?FUNCTION_NAME, ?MODULE, #{config => self()}),
    try
        with_server(#{access_log => true}, Config, fun(_Server, Port) ->
            ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/x?y")),
            receive
                {access, Level, Extra} ->
                    ?assertEqual(notice, Level),
                    ?assertMatch(
                        #{
                            <<"client">> := <<"127.0.0.1:", _/binary>>,
                            <<"method">> := <<"GET">>,
                            <<"target">> := <<"/x?y">>,
                            <<"status">> := 200,
                            <<"milliseconds">> := _
                        },
                        Extra
                    )
            end
        end)
    after
        ok = logger:remove_handler(?FUNCTION_NAME)
    end.

requests_are_in_lists_of_tasks_and_metrics(Config) ->
    with_server(#{}, Config, fun(Server, Port) ->
        #{workers := [#{loop := Loop}]} = py_asgi:info(Server),
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        Metric = fun(Name, More) ->
            Line = io_lib:format("erlang_loop_asgi_~s{loop=\"~b\"~s} ([0-9]+)", [Name, Id, More]),
            {match, [Value]} = re:run(py_metrics:prometheus(), Line, [{capture, all_but_first, list}]),
            list_to_integer(Value)
        end,
        {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
        {ok, {_, ClientPort}} = inet:sockname(Client),
        ok = gen_tcp:send(Client, <<"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n">>),
        Serves = iolist_to_binary(io_lib:format("GET /wait 127.0.0.1:~b", [ClientPort])),
        eventually:is([Serves], fun() ->
            {ok, #{tasks := Tasks}} = py_inspect:tasks(Loop),
            [Request || #{serves := Request} <- Tasks, Request =/= undefined]
        end),
        ?assertEqual({1, 1, 1}, {Metric("connections", ""), Metric("active_requests", ""), Metric("requests_total", "")}),
        ok = gen_tcp:close(Client),
        eventually:is(0, fun() -> Metric("active_requests", "") end),
        ?assertEqual({400, <<"no Host header">>}, asgi_load:ask(Port, <<"GET / HTTP/1.1\r\n\r\n">>)),
        ?assertEqual({200, <<"one">>}, asgi_load:get(Port, "/")),
        ?assertEqual({1, 1}, {Metric("responses_total", ",status=\"4xx\""), Metric("responses_total", ",status=\"2xx\"")})
    end).

log(#{level := Level, meta := #{logger_name := <<"erlang_loop.asgi.access">>} = Meta}, #{config := To}) ->
    To ! {access, Level, maps:get(extra, Meta)};
log(_Event, _Handler) ->
    ok.

health(#{body := <<>>}) -> {200, [], <<"well">>}.

starts_that_fail(Config) ->
    process_flag(trap_exit, true),
    Start = fun(Options) -> py_asgi:start_link(options(Options, Config)) end,
    ?assertMatch(
        {error, {app, #{message := <<"there is no module 'asgi_missing'", _/binary>>}}},
        Start(#{app => <<"asgi_missing:app">>})
    ),
    ?assertMatch(
        {error, {app, #{type := <<"builtins.ValueError">>, message := <<"no database">>}}},
        Start(#{app => <<"asgi_served:failing">>, lifespan => <<"on">>})
    ),
    ?assertMatch({error, {app, #{message := <<"lifespan must be", _/binary>>}}}, Start(#{lifespan => <<"x">>})),
    ?assertMatch(
        {error, {app, #{message := <<"forwarded_allow_ips: 'proxy' does not appear", _/binary>>}}},
        Start(#{proxy_headers => true, forwarded_allow_ips => [<<"::1">>, <<"proxy">>]})
    ),
    ?assertMatch({error, {app, _}}, Start(#{ssl => #{certfile => <<"/missing.pem">>}})),
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ?assertEqual({error, {listen, {{127, 0, 0, 1}, Port}, eaddrinuse}}, Start(#{port => Port})),
    ok = gen_tcp:close(Socket).

bad_options_raise(Config) ->
    Bad = [
        #{port => 70_000},
        #{host => <<"not an address">>},
        #{workers => 0},
        #{app => main},
        #{app => #{}},
        #{app => #{<<"api">> => <<"main:app">>}},
        #{app => #{<<"/">> => main}},
        #{unknown => 1},
        #{lifetime => 0},
        #{reuse_port => yes},
        #{max_rss => 1_000_000},
        #{place => elsewhere},
        #{place => 'other@127.0.0.1'},
        #{listen => false, port => 0},
        #{reuse_port => true, uds => <<"/tmp/never">>},
        #{ssl => true},
        #{handlers => #{<<"/">> => health}},
        #{handlers => #{"/" => fun health/1}}
    ],
    _ = [
        ?assertError({bad_option, {_, _}, _}, py_asgi:start_link(options(Options, Config)))
     || Options <- Bad
    ],
    ?assertError({bad_option, nothing, _}, py_asgi:start_link(nothing)),
    ?assertError({bad_option, {timeout, soon}, _}, py_asgi:drain(self(), soon)).

%% Helpers

with_server(Options, Config, Test) ->
    {ok, Server} = py_asgi:start_link(options(Options, Config)),
    #{address := Address} = py_asgi:info(Server),
    try
        Test(Server, port(Address))
    after
        ok = py_asgi:stop(Server)
    end.

port({_, Port}) -> Port;
port(_Path) -> none.

options(#{listen := false, port := _} = Options, _Config) ->
    Options#{app => <<"asgi_served:app">>};
options(#{listen := false} = Options, Config) ->
    maps:merge(#{app => <<"asgi_served:app">>, app_dir => folder(Config)}, Options);
options(Options, Config) ->
    maps:merge(#{app => <<"asgi_served:app">>, app_dir => folder(Config), port => 0}, Options).

folder(Config) -> proplists:get_value(folder, Config).

%% An application that responds with this text.
write(Folder, Text) ->
    file:write_file(filename:join(Folder, "asgi_served.py"), [
        "import asyncio, os\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'websocket':\n"
        "        await send({'type': 'websocket.accept'})\n"
        "        while (message := await receive())['type'] != 'websocket.disconnect':\n"
        "            if message['type'] == 'websocket.receive':\n"
        "                await send({'type': 'websocket.send', 'text': message['text']})\n"
        "        return\n"
        "    assert scope['type'] == 'http'\n"
        "    if scope['path'] == '/slow':\n"
        "        await asyncio.sleep(0.3)\n"
        "    if scope['path'] == '/wait':\n"
        "        await receive()\n"
        "        return await receive()\n"
        "    if scope['path'] == '/die':\n"
        "        os._exit(3)\n"
        "    if scope['path'] == '/raise':\n"
        "        raise ValueError('raised')\n"
        "    await send({'type': 'http.response.start', 'status': 200})\n"
        "    if scope['path'] == '/half':\n"
        "        await send({'type': 'http.response.body', 'body': b'x', 'more_body': True})\n"
        "        return\n"
        "    if scope['path'].startswith('/echo'):\n"
        "        more = True\n"
        "        while more:\n"
        "            message = await receive()\n"
        "            if message['type'] == 'http.disconnect':\n"
        "                return\n"
        "            more = message['more_body']\n"
        "            body = message['body']\n"
        "            await send({'type': 'http.response.body', 'body': body, 'more_body': True})\n"
        "        await send({'type': 'http.response.body'})\n"
        "        return\n"
        "    if '/scope' in scope['path']:\n"
        "        names = 'root_path path query_string headers client scheme'.split()\n"
        "        seen = ' '.join(str(scope[name]) for name in names).encode()\n"
        "        await send({'type': 'http.response.body', 'body': seen})\n"
        "        return\n"
        "    await send({'type': 'http.response.body', 'body': b'", Text, "'})\n"
        "async def failing(scope, receive, send):\n"
        "    await receive()\n"
        "    raise ValueError('no database')\n"
        "async def second(scope, receive, send):\n"
        "    assert scope['type'] == 'http'\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "    await send({'type': 'http.response.body', 'body': b'second'})\n"
        "\n"
        "def wsgi(environ, start_response):\n"
        "    start_response('200 OK', [('content-length', '3')])\n"
        "    return [b'one']\n"
        "async def never(scope, receive, send):\n"
        "    await asyncio.sleep(60)\n"
    ]).
