%% @doc Does every request get the right reply under all kinds of load at once?
%%
%% Echo, HTTP, calls, streams and cancels, while processes of the application die. Every byte and
%% every reply is checked. `make test' does it for 10 seconds, `make soak' for 10 minutes (`SOAK'
%% in seconds). Then more connections than others dare, and more than there are fds.
-module(py_soak_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([everything_at_once/1, ten_thousand_connections/1, more_connections_than_fds/1]).
%% Called in the other node.
-export([soak/1]).

%% Milliseconds after which an answer counts as lost.
-define(LOST, 60_000).

suite() -> [{timetrap, {hours, 25}}].

all() -> [everything_at_once, ten_thousand_connections, more_connections_than_fds].

everything_at_once(_Config) ->
    Seconds = list_to_integer(os:getenv("SOAK", "10")),
    Node = node_with_fds(),
    try
        Counts = peer:call(Node, ?MODULE, soak, [Seconds], infinity),
        io:format(user, "~p s: ~p~n~p~n", [Seconds, totals(Counts), Counts])
    after
        other_node:stop(Node)
    end.

%% `told': the process that had it died, and the caller got an error. `refused': a loop had all the
%% requests that it may have waiting.
totals(Counts) ->
    Sum = fun(Kinds) -> lists:sum([maps:get(Kind, Counts, 0) || Kind <- Kinds]) end,
    Totals = #{
        answered => Sum([echoed, http_answered, call_answered, stream_ended]),
        cancelled => Sum([cancelled, caller_died]),
        told => Sum([call_told, stream_told, cancel_told, caller_told]),
        refused => Sum([refused]),
        lost => Sum([lost, wrong])
    },
    Totals#{sent => lists:sum(maps:values(Totals)), deaths => Sum([deaths])}.

%% The clients are in a node of their own: both ends in one would be 20,000 fds.
ten_thousand_connections(_Config) ->
    connected(65_536, 10_000, fun(Server, Ask) ->
        ?assertEqual({ok, 100}, Ask(at_once, [100])),
        Before = other_node:call(Server, leak_check, snapshot, []),
        ?assertEqual({ok, 10_000}, Ask(at_once, [10_000])),
        ok = other_node:call(Server, leak_check, back_to, [Before])
    end).

%% A server that has no fd left logs that and continues with those it has; the others wait in the
%% system's queue, and are served when others have left. None is lost.
more_connections_than_fds(_Config) ->
    connected(300, 600, fun(Server, Ask) ->
        ok = other_node:call(Server, log_watch, start, []),
        %% What a report needs is loaded now: later there is no fd to load code with.
        {ok, _} = other_node:call(Server, py, call, [soaked, report_an_error, []]),
        _ = other_node:call(Server, called, is_logged, ["ZeroDivisionError"]),
        {ok, Served} = Ask(beyond_the_limit, [600]),
        ?assert(Served > 100 andalso Served < 300, Served),
        Logged = other_node:call(Server, log_watch, texts, []),
        Full = [T || T <- Logged, string:find(T, "accept() out of system resource") =/= nomatch],
        ?assertMatch([_ | _], Full),
        ok = other_node:call(Server, log_watch, stop, []),
        %% All of it is there again.
        ?assertEqual({ok, 100}, Ask(at_once, [100]))
    end).

%% A node with a server and so many fds, and one that calls functions of `soaked' with its port.
connected(Fds, Clients, Test) ->
    Server = node_with_fds(Fds),
    Client = node_with_fds(2 * Clients),
    Serve = fun(Function) ->
        {ok, Answer} = other_node:call(Server, py, call, [soaked, Function, []]),
        Answer
    end,
    try
        {Port, _} = Serve(start_servers),
        Test(Server, fun(Function, Args) ->
            peer:call(Client, py, call, [soaked, Function, [Port | Args], #{}, infinity], infinity)
        end),
        Serve(stop_servers)
    after
        other_node:stop(Client),
        other_node:stop(Server)
    end.

node_with_fds() ->
    node_with_fds(65_536).

node_with_fds(Count) ->
    Node = other_node:start_with_fds(Count, [
        {python_path, [project:file("test/support/python")]}
    ]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    Node.

%% In the other node

soak(Seconds) ->
    ok = logger:set_primary_config(level, none),
    {ok, Server} = py_event_loop:start_link(#{thread => own}),
    {ok, {Echo, Http}} = py_event_loop:run(Server, soaked, start_servers, []),
    %% What is made once and stays is made in the first second.
    _ = load(Echo, Http, 1),
    {ok, _} = py:call(called, watch_something, []),
    Before = footprint:measure(),
    Counts = load(Echo, Http, Seconds),
    ?assertEqual(0, maps:get(lost, Counts, 0)),
    ?assertEqual(0, maps:get(wrong, Counts, 0)),
    %% A default loop that has died left its fds; the new one makes its own.
    {ok, _} = py:call(called, watch_something, []),
    Growth = footprint:back_to(Before, 100_000_000),
    {ok, _} = py_event_loop:run(Server, soaked, stop_servers, []),
    {ok, []} = py_event_loop:stop(Server),
    Counts#{lost => 0, wrong => 0, grown_bytes => Growth}.

load(Echo, Http, Seconds) ->
    End = erlang:monotonic_time(millisecond) + Seconds * 1000,
    Kinds =
        lists:duplicate(20, fun() -> echo(Echo) end) ++
            lists:duplicate(10, fun() -> http(Http) end) ++
            lists:duplicate(10, fun call/0) ++
            lists:duplicate(5, fun stream/0) ++
            lists:duplicate(5, fun cancel/0) ++
            lists:duplicate(3, fun die/0),
    Workers = [spawn_monitor(fun() -> exit({counts, work(Work, End)}) end) || Work <- Kinds],
    Deaths = kill_until(End, 0),
    lists:foldl(fun collect/2, #{deaths => Deaths}, Workers).

collect({Pid, Monitor}, Sum) ->
    receive
        {'DOWN', Monitor, _, Pid, {counts, Counts}} ->
            maps:merge_with(fun(_, A, B) -> A + B end, Sum, Counts);
        {'DOWN', Monitor, _, Pid, Reason} ->
            error({worker, Reason})
    end.

%% A worker makes one of its kind after another: each is a fun that answers what came of it.
work(Make, End) ->
    work(Make(), End, #{}).

work(Step, End, Counts) ->
    case erlang:monotonic_time(millisecond) < End of
        false -> Counts;
        true -> work(Step, End, maps:update_with(Step(), fun(N) -> N + 1 end, 1, Counts))
    end.

echo(Port) ->
    {ok, Socket} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}]),
    fun() ->
        Sent = rand:bytes(rand:uniform(20_000)),
        ok = gen_tcp:send(Socket, Sent),
        case gen_tcp:recv(Socket, byte_size(Sent), ?LOST) of
            {ok, Sent} -> echoed;
            {ok, _} -> wrong;
            {error, _} -> lost
        end
    end.

http(Port) ->
    {ok, Socket} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}]),
    fun() ->
        Path = <<"/", (integer_to_binary(rand:uniform(1 bsl 60)))/binary>>,
        Request = <<"GET ", Path/binary, " HTTP/1.1\r\nHost: x\r\n\r\n">>,
        Size = integer_to_binary(byte_size(Path)),
        Answer = <<"HTTP/1.1 200 OK\r\nContent-Length: ", Size/binary, "\r\n\r\n", Path/binary>>,
        ok = gen_tcp:send(Socket, Request),
        case gen_tcp:recv(Socket, byte_size(Answer), ?LOST) of
            {ok, Answer} -> http_answered;
            {ok, _} -> wrong;
            {error, _} -> lost
        end
    end.

call() ->
    fun() ->
        A = rand:uniform(1 bsl 40),
        Function = any_term:pick([add, add_later]),
        case py:call(called, Function, [A, 1], #{}, ?LOST) of
            {ok, Sum} when Sum =:= A + 1 -> call_answered;
            {ok, _} -> wrong;
            {error, timeout} -> lost;
            {error, Reason} -> refused(Reason, call_told)
        end
    end.

stream() ->
    fun() ->
        Limit = rand:uniform(200),
        Function = any_term:pick([count, count_later]),
        Add = fun(Item, Items) -> [Item | Items] end,
        case py:fold(Add, [], soaked, Function, [Limit], #{}, #{timeout => ?LOST}) of
            {ok, Items} ->
                case lists:reverse(Items) =:= lists:seq(0, Limit - 1) of
                    true -> stream_ended;
                    false -> wrong
                end;
            {error, timeout} -> lost;
            {error, Reason} -> refused(Reason, stream_told)
        end
    end.

%% At once, or when it has probably begun.
cancel() ->
    fun() ->
        case py:submit(soaked, wait_long, []) of
            {ok, Task} ->
                _ = rand:uniform(2) =:= 1 orelse timer:sleep(rand:uniform(3)),
                ok = py:cancel(Task),
                case py:await(Task, ?LOST) of
                    {error, cancelled} -> cancelled;
                    {error, loop_down} -> cancel_told;
                    {error, timeout} -> lost;
                    _ -> wrong
                end;
            {error, Reason} -> refused(Reason, cancel_told)
        end
    end.

%% The default loop has just been killed, or is being restarted. Or callers that cancel at once have
%% filled the queue: their requests stay there until the loop takes them, and new ones are refused.
refused(loop_down, Told) ->
    Told;
refused(not_started, Told) ->
    Told;
refused(overload, _) ->
    timer:sleep(10),
    refused.

%% A caller that dies with its task.
die() ->
    fun() ->
        Ask = fun() -> exit({answer, py:call(soaked, wait_long, [], #{}, infinity)}) end,
        {Pid, Monitor} = spawn_monitor(Ask),
        receive
            {'DOWN', Monitor, _, Pid, Reason} -> died(Reason)
        after rand:uniform(5) ->
            exit(Pid, kill),
            receive
                {'DOWN', Monitor, _, Pid, Reason} -> died(Reason)
            end
        end
    end.

died(killed) -> caller_died;
died({answer, {error, Reason}}) -> refused(Reason, caller_told);
died(_) -> wrong.

kill_until(End, Deaths) ->
    %% Ten in two seconds: below what ends a supervisor.
    timer:sleep(500),
    case erlang:monotonic_time(millisecond) < End of
        false ->
            Deaths;
        true ->
            Victims = [
                py_event_router, py_calls, py_signals, py_interpreter, py_watchdog, py_default_loop
            ],
            case whereis(any_term:pick(Victims)) of
                undefined -> kill_until(End, Deaths);
                Pid -> exit(Pid, kill), kill_until(End, Deaths + 1)
            end
    end.
