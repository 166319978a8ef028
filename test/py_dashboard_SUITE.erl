%% @doc Does the web page show what runs, and refuse all who must not see it?
-module(py_dashboard_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    without_the_setting_there_is_none/1,
    the_variable_is_a_port/1,
    a_port_in_use_is_logged_and_the_node_runs/1,
    the_token_becomes_a_cookie/1,
    a_wrong_token_is_refused/1,
    every_reply_has_strict_headers/1,
    foreign_hosts_and_origins_are_refused/1,
    other_paths_are_not_found/1,
    malformed_requests_are_refused/1,
    loops_and_tasks_are_shown/1,
    the_tree_is_searched_and_paged/1,
    markup_in_a_name_is_text/1,
    a_stuck_loop_has_its_line/1,
    a_task_is_cancelled_and_that_is_logged/1,
    only_that_task_is_cancelled/1,
    a_loop_is_interrupted_and_restarted/1,
    profiles_and_traces_are_sent/1,
    read_only_cancels_nothing/1,
    a_browser_that_goes_away_leaves_nothing/1,
    a_hundred_browsers/1,
    it_is_restarted_on_its_port/1,
    metrics_need_the_token/1,
    the_token_can_be_chosen/1,
    loops_of_peers_are_shown/1,
    a_node_that_dies_is_gone/1
]).
%% Called by logger.
-export([log/2]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    Begun = called:begin_suite(Config),
    %% For peers; its processes stay.
    ok = py_peer_node:ensure_distributed(),
    Begun.

end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).

end_per_testcase(_Case, Config) ->
    closed(),
    called:end_case(Config).

%% Whether there is one

without_the_setting_there_is_none(_Config) ->
    ?assertEqual(undefined, py_dashboard:url()),
    ?assertEqual(ignore, py_dashboard:start_link()).

the_variable_is_a_port(_Config) ->
    true = os:putenv("ERLANG_LOOP_DASHBOARD", "0"),
    try
        {ok, _} = restarted(),
        ?assertMatch(<<"http://127.0.0.1:", _/binary>>, py_dashboard:url()),
        closed(),
        ok = log_watch:start(),
        true = os:putenv("ERLANG_LOOP_DASHBOARD", "many"),
        ?assertEqual(ignore, py_dashboard:start_link()),
        called:is_logged("ERLANG_LOOP_DASHBOARD is \"many\", and must be a port")
    after
        os:unsetenv("ERLANG_LOOP_DASHBOARD"),
        log_watch:stop()
    end.

a_port_in_use_is_logged_and_the_node_runs(_Config) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = log_watch:start(),
    ?assertEqual({ok, undefined}, opened(#{port => Port})),
    called:is_logged("address already in use"),
    ?assertEqual(undefined, py_dashboard:url()),
    log_watch:stop(),
    gen_tcp:close(Socket).

%% Who may see it

the_token_becomes_a_cookie(_Config) ->
    {Port, Token} = started(#{}),
    {303, Headers, <<>>} = get(Port, ["/?token=", Token], []),
    ?assertEqual("/", proplists:get_value("location", Headers)),
    Cookie = proplists:get_value("set-cookie", Headers),
    [Pair | Rest] = string:split(Cookie, "; ", all),
    ?assertEqual(["Path=/", "HttpOnly", "SameSite=Strict"], Rest),
    {200, _, Page} = get(Port, "/", [{"Cookie", ["other=1; ", Pair]}]),
    ?assertMatch({_, _}, binary:match(Page, <<"/app.js">>)).

a_wrong_token_is_refused(_Config) ->
    {Port, Token} = started(#{}),
    Almost = [string:slice(Token, 0, 47), "g"],
    Name = ["erlang_loop_", integer_to_list(Port)],
    Refused = [
        get(Port, Path, Headers)
     || {Path, Headers} <- [
            {"/", []},
            {["/?token=", Almost], []},
            {"/?token=", []},
            {"/style.css", []},
            {"/api/view", [{"Cookie", [Name, "=", Almost]}]},
            {"/api/events", [{"Cookie", [Name, "="]}]},
            {"/api/view", [{"Cookie", ["erlang_loop_1=", Token]}]},
            {["/?token=", Almost], [{"Cookie", [Name, "=", Token]}]}
        ]
    ],
    [?assertMatch({401, _, _}, Each) || Each <- Refused],
    %% The token in a URL opens the page only; no other path accepts it.
    ?assertMatch({400, _, _}, get(Port, ["/api/view?token=", Token], [])),
    ?assertMatch({401, _, _}, request(Port, "POST", "/api/cancel", [{"Origin", origin(Port)}])).

every_reply_has_strict_headers(_Config) ->
    {Port, _} = Access = started(#{}),
    [
        begin
            {Status, Headers, _} = get(Port, Path, [cookie(Access)]),
            Policy = proplists:get_value("content-security-policy", Headers),
            ?assertMatch("default-src 'none'; script-src 'self'; " ++ _, Policy),
            ?assertEqual(nomatch, string:find(Policy, "unsafe")),
            ?assertEqual("DENY", proplists:get_value("x-frame-options", Headers)),
            ?assertEqual("nosniff", proplists:get_value("x-content-type-options", Headers)),
            ?assertEqual("no-store", proplists:get_value("cache-control", Headers))
        end
     || {Path, Status} <- [{"/", 200}, {"/app.js", 200}, {"/api/view", 200}, {"/none", 404}, {"/?token=x", 401}]
    ].

foreign_hosts_and_origins_are_refused(_Config) ->
    {Port, _} = Access = started(#{}),
    [
        ?assertMatch({421, _, _}, talk(Port, ["GET / HTTP/1.1\r\nHost: ", Host, "\r\n\r\n"]))
     || Host <- ["evil.example", "127.0.0.1.evil.example:4040", "localhost.evil.example", "", "127.1"]
    ],
    ?assertMatch({421, _, _}, talk(Port, "GET / HTTP/1.1\r\n\r\n")),
    [
        ?assertMatch({401, _, _}, talk(Port, ["GET / HTTP/1.1\r\nHost: ", Host, "\r\n\r\n"]))
     || Host <- ["localhost", "localhost:1", "[::1]:4040", "10.0.0.1"]
    ],
    [
        ?assertMatch({403, _, _}, request(Port, "POST", "/api/cancel?loop=1&task=1", [cookie(Access) | Origin]))
     || Origin <- [[], [{"Origin", "http://evil.example"}], [{"Origin", "null"}], [{"Origin", "http://127.0.0.1:1"}]]
    ].

other_paths_are_not_found(_Config) ->
    {Port, _} = Access = started(#{}),
    [
        ?assertMatch({404, _, _}, get(Port, Path, [cookie(Access)]))
     || Path <- [
            "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..%5c..%5cx", "/style.css/",
            "/./style.css", "/style.css%00", "/index.html/..", "/.gitkeep", "/py_nif.so"
        ]
    ],
    [
        ?assertMatch({405, _, _}, request(Port, Method, "/", [cookie(Access)]))
     || Method <- ["POST", "PUT", "DELETE", "OPTIONS", "BREW"]
    ],
    ?assertMatch({404, _, _}, get(Port, "/api/cancel", [cookie(Access)])).

malformed_requests_are_refused(_Config) ->
    {Port, _} = started(#{}),
    Many = [["X-", integer_to_list(N), ": 1\r\n"] || N <- lists:seq(1, 100)],
    [
        ?assertMatch({Status, _, _}, talk(Port, Text))
     || {Status, Text} <- [
            {400, "hello\r\n\r\n"},
            {400, "GET http://other.example/ HTTP/1.1\r\n\r\n"},
            {400, "GET /?search=%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n"},
            {400, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"},
            {431, ["GET / HTTP/1.1\r\n", Many, "\r\n"]}
        ]
    ],
    {ok, Socket} = connected(Port),
    _ = gen_tcp:send(Socket, ["GET /", binary:copy(<<"x">>, 100_000)]),
    _ = gen_tcp:shutdown(Socket, write),
    _ = received(Socket, <<>>),
    ?assertMatch({401, _, _}, get(Port, "/", [])).

%% What it shows

loops_and_tasks_are_shown(_Config) ->
    Access = started(#{}),
    with_loop(#{name => shown}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, parent, []),
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        #{<<"child">> := Child, <<"inspected.parent">> := Parent} = named(Loop, 2),
        {200, _, Overview} = get(Access, "/api/view"),
        is_shown(["\"name\":\"shown\"", "\"loops\":[", "\"read_only\":false", atom_to_list(node())], Overview),
        {200, _, One} = get(Access, ["/api/view?loop=", integer_to_list(Id)]),
        is_shown(["\"name\":\"child\"", "\"depth\":1", "\"histogram\":[["], One),
        {200, _, Full} = get(Access, ["/api/view?loop=", integer_to_list(Id), "&task=", integer_to_list(Child)]),
        is_shown(["\"awaited_by\":[{", integer_to_list(Parent), "inspected.py", tl(pid_to_list(self()))], Full),
        {200, _, NoTask} = get(Access, ["/api/view?task=1&loop=", integer_to_list(Id)]),
        is_shown(["\"error\":\"no_task\""], NoTask),
        {200, _, Event} = first_event(Access, ["/api/events?loop=", integer_to_list(Id)]),
        ?assertMatch(<<"data: {", _/binary>>, Event),
        stopped(Task)
    end),
    {200, _, Gone} = get(Access, "/api/view?loop=999999999"),
    is_shown(["\"error\":\"no_loop\""], Gone).

the_tree_is_searched_and_paged(_Config) ->
    Access = started(#{}),
    with_loop(#{}, fun(Loop) ->
        Tasks = [element(2, {ok, _} = py_event_loop:submit(Loop, inspected, child, [])) || _ <- lists:seq(1, 70)],
        {ok, Other} = py_event_loop:submit(Loop, asyncio, sleep, [3600]),
        eventually:is(71, fun() -> {ok, #{total := Total}} = py_inspect:tasks(Loop), Total end),
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        Rows = fun(Query) ->
            {200, _, Text} = get(Access, ["/api/view?loop=", integer_to_list(Id), Query]),
            length(binary:matches(Text, <<"\"depth\":">>))
        end,
        ?assertEqual(
            [60, 11, 0, 1, 10, 0, 60],
            [Rows(Query) || Query <- ["", "&from=60", "&from=1000", "&search=SLEEP", "&search=child&from=60", "&search=%3Cx", "&from=-1"]]
        ),
        [stopped(Task) || Task <- [Other | Tasks]]
    end).

markup_in_a_name_is_text(_Config) ->
    Access = started(#{}),
    Name = <<"</script><img src=x onerror=alert(1)>\"'&\\\n">>,
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, named_child, [Name]),
        #{Name := Id} = named(Loop, 2),
        {ok, #{id := LoopId}} = py_inspect:loop(Loop),
        Task2 = ["&task=", integer_to_list(Id)],
        [
            begin
                {200, Headers, Text} = get(Access, ["/api/view?loop=", integer_to_list(LoopId), Query]),
                ?assertEqual("application/json", proplists:get_value("content-type", Headers)),
                is_shown(["\"\\u003c/script>\\u003cimg src=x onerror=alert(1)>\\\"'&\\\\\\u000a\""], Text),
                ?assertEqual(nomatch, binary:match(Text, [<<"<">>, <<"\n">>]))
            end
         || Query <- ["", Task2]
        ],
        stopped(Task)
    end),
    %% Nothing in the page turns text into markup.
    [
        begin
            {ok, Script} = file:read_file(File),
            ?assertEqual({File, nomatch}, {File, binary:match(Script, [<<"innerHTML">>, <<"outerHTML">>,
                <<"insertAdjacentHTML">>, <<"document.write">>, <<"eval(">>])})
        end
     || File <- filelib:wildcard(project:file("priv/dashboard/*.js"))
    ].

a_stuck_loop_has_its_line(_Config) ->
    Access = started(#{}),
    with_loop(#{name => held}, fun(Loop) ->
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, called, block_loop, []),
        Shown = eventually:passes(
            fun(Text) -> binary:match(Text, <<"\"function\":\"block_loop\"">>) =/= nomatch end,
            fun() -> timer:sleep(50), {200, _, Text} = get(Access, "/api/view"), Text end
        ),
        is_shown(["\"state\":\"stuck\"", "\"stuck\":1", "called.py"], Shown),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, <<"released">>}, py:await(Task))
    end).

%% What it changes

a_task_is_cancelled_and_that_is_logged(_Config) ->
    Access = started(#{}),
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, child, []),
        Query = query(Loop, <<"inspected.child">>),
        ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
        try
            ?assertMatch({200, _, <<"{\"result\":\"cancelled\"}">>}, cancel(Access, Query)),
            ?assertEqual({error, cancelled}, py:await(Task)),
            receive
                {logged, "dashboard: cancel task " ++ _} -> ok
            after 5000 -> error(not_logged)
            end
        after
            logger:remove_handler(?MODULE)
        end,
        ?assertMatch({200, _, <<"{\"result\":\"no_task\"}">>}, cancel(Access, Query))
    end).

log(#{msg := {Format, Arguments}}, #{config := Pid}) when is_list(Format) ->
    Pid ! {logged, lists:flatten(io_lib:format(Format, Arguments))};
log(_, _) ->
    ok.

%% Another task may have the id of one that has ended.
only_that_task_is_cancelled(_Config) ->
    Access = started(#{}),
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, child, []),
        Query = query(Loop, <<"inspected.child">>),
        [
            ?assertMatch({200, _, <<"{\"result\":\"no_task\"}">>}, cancel(Access, Wrong))
         || Wrong <- [
                Query#{name := <<"other">>},
                Query#{request := <<"1">>},
                Query#{loop := <<"999999">>},
                Query#{task := <<"x">>},
                #{}
            ]
        ],
        ?assertEqual(1, map_size(named(Loop, 1))),
        stopped(Task)
    end).

a_loop_is_interrupted_and_restarted(_Config) ->
    Access = {Port, _} = started(#{}),
    Do = fun(Action, Id) ->
        Path = ["/api/", Action, "?loop=", integer_to_list(Id)],
        {200, _, Text} = request(Port, "POST", Path, [cookie(Access), {"Origin", origin(Port)}]),
        Text
    end,
    with_loop(#{}, fun(Loop) ->
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        ?assertEqual(<<"{\"result\":\"idle\"}">>, Do("interrupt", Id)),
        {ok, _} = py:call(called, hold, []),
        {ok, Task} = py_event_loop:submit(Loop, profiled, both_later_at_once, []),
        eventually:is(<<"{\"result\":\"interrupted\"}">>, fun() -> Do("interrupt", Id) end),
        {error, Raised} = py:await(Task),
        ?assertNotEqual(nomatch, string:find(io_lib:format("~p", [Raised]), "LoopStuckError")),
        {ok, _} = py:call(called, release, []),
        ?assertEqual({ok, 1}, py_event_loop:run(Loop, asyncio, sleep, [0, 1]))
    end),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, _} = py_event_loop:start_link(#{name => restarted}),
        receive stop -> ok end
    end),
    eventually:is(true, fun() -> is_pid(whereis(restarted)) end),
    {ok, #{id := Id}} = py_inspect:loop(restarted),
    ?assertEqual(<<"{\"result\":\"restarted\"}">>, Do("restart", Id)),
    receive {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual({restarted, py_dashboard}, Reason) end,
    eventually:is(<<"{\"result\":\"no_loop\"}">>, fun() -> Do("restart", Id) end),
    {ok, LoopRef} = py_nif:event_loop_new(),
    {ok, #{id := Ours}} = py_nif:event_loop_info(LoopRef),
    ?assertEqual(<<"{\"result\":\"no_process\"}">>, Do("restart", Ours)),
    ok = py_nif:event_loop_destroy(LoopRef).

profiles_and_traces_are_sent(_Config) ->
    Access = {Port, _} = started(#{}),
    Profile = fun(Query, Origin) -> request(Port, "POST", ["/api/profile?", Query], [cookie(Access) | Origin]) end,
    with_loop(#{}, fun(Loop) ->
        {ok, _} = py_event_loop:run(Loop, asyncio, sleep, [0]),
        {ok, #{id := Id}} = py_inspect:loop(Loop),
        Number = integer_to_list(Id),
        {200, _, Taken} = Profile(["seconds=1&loop=", Number], [{"Origin", origin(Port)}]),
        is_shown(["\"stacks\":", "\"speedscope\":", "\"idle\":"], Taken),
        {200, _, Gone} = Profile("seconds=1&loop=999999", [{"Origin", origin(Port)}]),
        is_shown(["\"error\":\"no_loop\""], Gone),
        ?assertMatch({403, _, _}, Profile("seconds=1", [{"Origin", "http://evil.example"}])),
        true = register(py_dashboard_profile, self()),
        {200, _, Busy} = Profile("seconds=1", [{"Origin", origin(Port)}]),
        true = unregister(py_dashboard_profile),
        is_shown(["\"error\":\"busy\""], Busy),
        {200, Headers, Trace} = get(Access, ["/api/trace?loop=", Number]),
        ?assertMatch("attachment;" ++ _, proplists:get_value("content-disposition", Headers)),
        is_shown(["\"traceEvents\":["], Trace),
        {200, _, Recorder} = get(Access, ["/api/view?page=recorder&loop=", Number]),
        is_shown(["\"kind\":\"request_in\"", "\"slow\":["], Recorder),
        {200, _, Calls} = get(Access, "/api/view?page=calls"),
        is_shown(["\"functions\":[", "\"streams\":["], Calls)
    end),
    ?assertMatch({404, _, _}, get(Access, "/api/trace?loop=999999")).

read_only_cancels_nothing(_Config) ->
    Access = started(#{read_only => true}),
    with_loop(#{}, fun(Loop) ->
        {ok, Task} = py_event_loop:submit(Loop, inspected, child, []),
        ?assertMatch({403, _, <<"The dashboard is read-only.\n">>}, cancel(Access, query(Loop, <<"inspected.child">>))),
        [
            ?assertMatch({403, _, <<"The dashboard is read-only.\n">>},
                request(element(1, Access), "POST", ["/api/", Action, "?loop=1"], [cookie(Access), {"Origin", origin(element(1, Access))}]))
         || Action <- ["interrupt", "restart"]
        ],
        {200, _, Text} = get(Access, "/api/view"),
        is_shown(["\"read_only\":true"], Text),
        ?assertEqual(1, map_size(named(Loop, 1))),
        stopped(Task)
    end).

%% Browsers and deaths

a_browser_that_goes_away_leaves_nothing(_Config) ->
    {Port, _} = Access = started(#{}),
    Before = connections(),
    Sockets = [watching(Access) || _ <- [1, 2, 3]],
    eventually:is(Before + 3, fun connections/0),
    [gen_tcp:close(Socket) || Socket <- Sockets],
    {ok, Silent} = connected(Port),
    gen_tcp:close(Silent),
    eventually:is(Before, fun connections/0).

a_hundred_browsers(_Config) ->
    Access = started(#{}),
    Sockets = [watching(Access) || _ <- lists:seq(1, 100)],
    ?assertMatch({200, _, _}, get(Access, "/api/view")),
    [gen_tcp:close(Socket) || Socket <- Sockets],
    eventually:is(1, fun connections/0).

it_is_restarted_on_its_port(_Config) ->
    {Port, Token} = started(#{}),
    ok = application:set_env(erlang_loop, dashboard, #{port => Port}),
    Socket = watching({Port, Token}),
    _ = mortal:kill_registered(py_dashboard),
    _ = received(Socket, <<>>),
    {Port, NewToken} = address(),
    ?assertNotEqual(Token, NewToken),
    ?assertMatch({401, _, _}, get({Port, Token}, "/")),
    ?assertMatch({200, _, _}, get({Port, NewToken}, "/")).

%% The process that accepts, and one for each connection.
connections() ->
    {links, Links} = process_info(whereis(py_dashboard), links),
    length([Pid || Pid <- Links, is_pid(Pid)]) - 1.

watching({Port, _} = Access) ->
    {ok, Socket} = connected(Port),
    ok = gen_tcp:send(Socket, head(Port, "GET", "/api/events", [cookie(Access)])),
    {ok, _} = gen_tcp:recv(Socket, 0, 5000),
    Socket.

%% Starting it

started(Options) ->
    {ok, Pid} = opened(maps:merge(#{port => 0}, Options)),
    true = is_pid(Pid),
    address().

address() ->
    #{port := Port, query := "token=" ++ Token} = uri_string:parse(binary_to_list(py_dashboard:url())),
    {Port, Token}.

opened(Options) ->
    ok = application:set_env(erlang_loop, dashboard, Options),
    restarted().

restarted() ->
    _ = supervisor:terminate_child(erlang_loop_sup, py_dashboard),
    supervisor:restart_child(erlang_loop_sup, py_dashboard).

closed() ->
    _ = supervisor:terminate_child(erlang_loop_sup, py_dashboard),
    application:set_env(erlang_loop, dashboard, undefined).

%% Metrics

metrics_need_the_token(_Config) ->
    {Port, Token} = Access = started(#{}),
    {200, Headers, Text} = get(Access, "/metrics"),
    ?assertEqual("text/plain; version=0.0.4; charset=utf-8", proplists:get_value("content-type", Headers)),
    is_shown(["\nerlang_loop_peers 0\n", "erlang_loop_streams 0\n"], Text),
    Bearer = fun(Value) -> element(1, get(Port, "/metrics", [{"Authorization", ["Bearer ", Value]}])) end,
    ?assertEqual([200, 401, 401], lists:map(Bearer, [Token, ["x", Token], ""])),
    ?assertMatch({401, _, _}, get(Port, "/metrics", [])),
    %% The header opens nothing else.
    ?assertMatch({401, _, _}, get(Port, "/api/view", [{"Authorization", ["Bearer ", Token]}])).

the_token_can_be_chosen(_Config) ->
    {Port, "a-token-of_16-chars"} = started(#{token => <<"a-token-of_16-chars">>}),
    ?assertMatch({200, _, _}, get(Port, "/metrics", [{"Authorization", "Bearer a-token-of_16-chars"}])),
    [
        begin
            ok = application:set_env(erlang_loop, dashboard, #{token => Wrong}),
            ?assertMatch({error, _}, py_settings:find(dashboard))
        end
     || Wrong <- ["short", "with spaces in it", "a-token-of_16-chars\n", <<255, 0:200>>, [1114112, a], 7]
    ].

%% Other nodes

loops_of_peers_are_shown(_Config) ->
    Access = started(#{}),
    {Peer, Node} = peer(),
    {ok, Sleep} = py_event_loop:submit(Peer, asyncio, sleep, [3600]),
    {200, _, Overview} = get(Access, "/api/view"),
    Name = atom_to_binary(Node),
    is_shown(["\"nodes\":[", ["\"node\":\"", Name, "\""]], Overview),
    [Id] = [Each || #{id := Each, unanswered := 1} <- erpc:call(Node, py_inspect, loops, [])],
    Query = ["/api/view?", uri_string:compose_query([{"node", Name}, {"loop", integer_to_list(Id)}])],
    {200, _, OfLoop} = get(Access, Query),
    is_shown(["asyncio.sleep", ["\"node_name\":\"", Name, "\""]], OfLoop),
    {ok, #{tasks := [#{id := Task, name := TaskName, request := Request}]}} = erpc:call(Node, py_inspect, tasks, [Id]),
    Cancel = #{
        node => Name, loop => integer_to_binary(Id), task => integer_to_binary(Task),
        name => TaskName, request => integer_to_binary(Request)
    },
    {200, _, <<"{\"result\":\"cancelled\"}">>} = cancel(Access, Cancel),
    ?assertEqual({error, cancelled}, py:await(Sleep)),
    {ok, []} = py_event_loop:stop(Peer).

a_node_that_dies_is_gone(_Config) ->
    Access = started(#{}),
    {Peer, Node} = peer(),
    true = unlink(Peer),
    Monitor = monitor(process, Peer),
    _ = erpc:cast(Node, erlang, halt, [1]),
    Query = ["/api/view?node=", uri_string:quote(atom_to_list(Node))],
    %% While it dies, and after that.
    [?assertMatch({200, _, _}, get(Access, Path)) || _ <- lists:seq(1, 5), Path <- ["/api/view", Query]],
    receive {'DOWN', Monitor, process, Peer, _} -> ok end,
    eventually:is(false, fun() -> lists:member(Node, nodes(connected)) end),
    {200, _, Gone} = get(Access, Query),
    is_shown(["\"error\":\"no_node\""], Gone),
    %% A name of a node creates no atom.
    {200, _, Unknown} = get(Access, "/api/view?node=no_such_node_at_all@nowhere"),
    is_shown(["\"error\":\"no_node\""], Unknown),
    ?assertError(badarg, list_to_existing_atom("no_such_node_at_all@" ++ "nowhere")).

peer() ->
    {ok, Peer} = py_event_loop:start_link(#{place => peer}),
    {ok, #{node := Node}} = py_event_loop:info(Peer),
    {Peer, Node}.

%% Loops and tasks

with_loop(Options, Fun) ->
    {ok, Loop} = py_event_loop:start_link(Options),
    try
        Fun(Loop)
    after
        {ok, _} = py_event_loop:stop(Loop)
    end.

%% Their ids by their names, when there are so many.
named(Loop, Count) ->
    {ok, #{tasks := Tasks}} = eventually:passes(
        fun({ok, #{tasks := Tasks}}) -> length(Tasks) =:= Count end,
        fun() -> py_inspect:tasks(Loop) end
    ),
    maps:from_list([{Name, Id} || #{name := Name, id := Id} <- Tasks]).

stopped(Task) ->
    ok = py:cancel(Task),
    ?assertEqual({error, cancelled}, py:await(Task)).

query(Loop, Name) ->
    {ok, #{id := LoopId}} = py_inspect:loop(Loop),
    #{Name := Id} = named(Loop, 1),
    {ok, #{tasks := [#{request := Request}]}} = py_inspect:tasks(Loop),
    #{loop => integer_to_binary(LoopId), task => integer_to_binary(Id), name => Name, request => integer_to_binary(Request)}.

cancel({Port, _} = Access, Query) ->
    Text = uri_string:compose_query([{atom_to_binary(Key), Value} || {Key, Value} <- maps:to_list(Query)]),
    request(Port, "POST", ["/api/cancel?", Text], [cookie(Access), {"Origin", origin(Port)}]).

is_shown(Texts, In) ->
    [?assertMatch({_, _}, binary:match(In, list_to_binary(Text)), {Text, In}) || Text <- Texts].

%% HTTP

origin(Port) -> ["http://127.0.0.1:", integer_to_list(Port)].

cookie({Port, Token}) -> {"Cookie", ["erlang_loop_", integer_to_list(Port), "=", Token]}.

get({Port, _} = Access, Path) -> get(Port, Path, [cookie(Access)]).

get(Port, Path, Headers) -> request(Port, "GET", Path, Headers).

request(Port, Method, Path, Headers) -> talk(Port, head(Port, Method, Path, Headers)).

head(Port, Method, Path, Headers) ->
    Host = {"Host", ["127.0.0.1:", integer_to_list(Port)]},
    [Method, $\s, Path, " HTTP/1.1\r\n", [[Name, ": ", Value, "\r\n"] || {Name, Value} <- [Host | Headers]], "\r\n"].

connected(Port) -> gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]).

talk(Port, Text) ->
    {ok, Socket} = connected(Port),
    ok = gen_tcp:send(Socket, Text),
    ok = gen_tcp:shutdown(Socket, write),
    parsed(received(Socket, <<>>)).

received(Socket, Done) ->
    case gen_tcp:recv(Socket, 0, 10_000) of
        {ok, Data} -> received(Socket, <<Done/binary, Data/binary>>);
        {error, _} -> gen_tcp:close(Socket), Done
    end.

first_event({Port, _} = Access, Path) ->
    {ok, Socket} = connected(Port),
    ok = gen_tcp:send(Socket, head(Port, "GET", Path, [cookie(Access)])),
    Text = until_event(Socket, <<>>),
    gen_tcp:close(Socket),
    parsed(Text).

until_event(Socket, Done) ->
    case binary:match(Done, <<"}\n\n">>) of
        nomatch ->
            {ok, Data} = gen_tcp:recv(Socket, 0, 5000),
            until_event(Socket, <<Done/binary, Data/binary>>);
        _ ->
            Done
    end.

parsed(Text) ->
    [Head, Body] = binary:split(Text, <<"\r\n\r\n">>),
    [<<"HTTP/1.1 ", Status:3/binary, _/binary>> | Lines] = binary:split(Head, <<"\r\n">>, [global]),
    Headers = [
        {string:lowercase(binary_to_list(Name)), binary_to_list(Value)}
     || Line <- Lines, [Name, Value] <- [binary:split(Line, <<": ">>)]
    ],
    {binary_to_integer(Status), Headers, Body}.
