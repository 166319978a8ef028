%% @doc Suites that call Python: its module `called' (test/support/python/called.py).
-module(called).

-include_lib("stdlib/include/assert.hrl").

-export([begin_suite/1, begin_case/1, end_case/1]).
-export([start/0, settle/0, stop/0, in_node/3, run_in_node/1, run_in_node/2]).
-export([counts/1, is_error/3, has_noted/1, dies_at_once/1, is_blocked/0, is_logged/1]).

%% @doc For init_per_suite/1; stop/0 is for end_per_suite/1.
-spec begin_suite(Config) -> Config when Config :: [{atom(), term()}].
begin_suite(Config) ->
    ok = start(),
    Config.

%% @doc For init_per_testcase/2: nothing was noted so far.
-spec begin_case(Config) -> Config when Config :: [{atom(), term()}].
begin_case(Config) ->
    {ok, _} = py:call(?MODULE, take_events, []),
    leak_check:begin_case(Config).

%% @doc The result of end_per_testcase/2.
-spec end_case([{atom(), term()}]) -> ok | {fail, term()}.
end_case(Config) ->
    ok = settle(),
    leak_check:end_case(Config).

%% @doc Starts the application with the module on Python's path.
-spec start() -> ok.
start() ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    %% Python may be up already, from a suite before this one.
    Folder = unicode:characters_to_binary(folder()),
    ok = py:exec(["import sys\nif '", Folder, "' not in sys.path: sys.path.insert(0, '", Folder, "')"]),
    %% The threads that stay: of calls, and of the default loop.
    {ok, 3} = py:call(?MODULE, add, [1, 2], #{}, 60_000),
    {ok, 3} = py:call(?MODULE, add_later, [1, 2], #{}, 60_000),
    %% And the thread that interrupts calls.
    {ok, _} = py:call(?MODULE, hold, []),
    {error, timeout} = py:call(?MODULE, compute_until_released, [], #{}, 20),
    %% And the fds of that loop, which it makes when it first watches something.
    {ok, _} = py:call(?MODULE, watch_something, [], #{}, 60_000),
    ok.

%% @doc Ends what a case left blocked. A closed loop gives back its fds when Python's collector
%% finds it: tasks that were cancelled hold it in cycles.
-spec settle() -> ok.
settle() ->
    {ok, _} = py:call(?MODULE, release, []),
    %% Threads of loops that end; the default loop stays, and who shares a thread.
    eventually:is(true, fun() -> loop_threads() =< 1 + length(py_nif:python_loop_runners()) end),
    {ok, _} = py:call(gc, collect, []),
    ok.

loop_threads() ->
    Names = [file:read_file(Path) || Path <- filelib:wildcard("/proc/self/task/*/comm")],
    length([Name || {ok, <<"python-loop", _/binary>> = Name} <- Names]).

-spec stop() -> ok.
stop() ->
    application:stop(erlang_loop).

folder() ->
    project:file("test/support/python").

%% @doc Calls `Module:Function()' in a node of its own with these settings.
-spec in_node([{atom(), term()}], atom(), module()) -> ok.
in_node(Env, Function, Module) ->
    Node = other_node:start([{python_path, [folder()]} | Env]),
    {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
    try
        ok = other_node:call(Node, Module, Function, [])
    after
        ok = other_node:stop(Node)
    end.

%% @doc Runs code in a node that ends by itself and returns its exit status and all it printed.
-spec run_in_node(iodata()) -> {non_neg_integer(), string()}.
run_in_node(Code) ->
    run_in_node("ok", Code).

%% @doc As above, with code that comes before the application is started.
-spec run_in_node(iodata(), iodata()) -> {non_neg_integer(), string()}.
run_in_node(Before, Code) ->
    other_node:run(lists:flatten([
        "ok = application:load(erlang_loop), ", Before,
        io_lib:format(", ok = application:set_env(erlang_loop, python_path, [~p]), ", [folder()]),
        "{ok, _} = application:ensure_all_started(erlang_loop), ", Code, ", init:stop()."
    ])).

%% @doc The answer is an exception of this type whose message has this text.
-spec is_error(string(), string(), py:result()) -> ok.
is_error(Type, Text, {error, #{type := Found, message := Message}}) ->
    ?assertNotEqual(nomatch, string:find(Found, Type), {Type, Found}),
    ?assertNotEqual(nomatch, string:find(Message, Text), {Text, Message}),
    ok.

%% @doc Waits until Python's `called.events' has this one; takes those that came.
-spec has_noted(binary()) -> ok.
has_noted(Event) ->
    eventually:is(true, fun() ->
        {ok, Events} = py:call(?MODULE, take_events, []),
        lists:member(Event, Events)
    end).

%% @doc A caller dies as soon as its coroutine waits on this loop, before that is monitored, and the
%% coroutine is still cancelled.
-spec dies_at_once(py_event_loop:loop()) -> ok.
dies_at_once(Loop) ->
    Self = self(),
    Ask = fun() ->
        py_event_loop:run(Loop, ?MODULE, tell_and_wait, [Self, <<"x">>], #{}, infinity)
    end,
    {Pid, Monitor} = spawn_monitor(Ask),
    receive
        waits -> exit(Pid, kill)
    end,
    receive
        {'DOWN', Monitor, process, Pid, killed} -> ok
    end,
    has_noted(<<"x cancelled">>).

%% @doc Waits until a thread is in block() or block_loop().
-spec is_blocked() -> ok.
is_blocked() ->
    eventually:is({ok, true}, fun() -> py:call(?MODULE, is_blocked, []) end).

%% @doc Waits until log_watch has seen this text.
-spec is_logged(string()) -> ok.
is_logged(Text) ->
    eventually:is(true, fun() ->
        lists:any(fun(Line) -> string:find(Line, Text) =/= nomatch end, log_watch:texts())
    end).

%% @doc What py_event_loop:info/1 answers, without how long turns took.
-spec counts(py_event_loop:loop()) -> {ok, map()} | {error, loop_down}.
counts(Loop) ->
    case py_event_loop:info(Loop) of
        {ok, Info} -> {ok, maps:remove(lag, Info)};
        {error, Reason} -> {error, Reason}
    end.
