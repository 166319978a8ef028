%% @doc Loops as Erlang code uses them.
%%
%% A loop that Erlang starts is a process: link to it, supervise it, name it. Coroutines run on
%% the loop's thread, plain functions beside it, so that they never hold it up.
%%
%% ```
%% {ok, Loop} = py_event_loop:start_link(#{init => <<"import asyncio">>}),
%% {ok, <<"done">>} = py_event_loop:run(Loop, asyncio, sleep, [0.01, <<"done">>]),
%% {ok, []} = py_event_loop:stop(Loop).
%% '''
-module(py_event_loop).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, child_spec/1, stop/1, stop/2]).
-export([run/4, run/5, run/6, submit/4, submit/5, stream/4, stream/5, stream/6]).
-export([info/1, tasks/1, which_loops/0]).
-export([get_loop/0, loop_ref/1]).
%% For py.
-export([target/1]).
%% For erlang_loop_app.
-export([create_default/0, destroy_default/0]).

-export_type([loop/0, options/0, task_info/0, lag/0]).

-type loop() :: pid() | atom().
-type options() :: #{
    %% Registers the process.
    name => atom(),
    %% Python code to run on the loop's thread before the loop takes requests. If it raises, the
    %% loop does not start.
    init => unicode:chardata(),
    %% Always `true': the loop has a process of its own, and ends with it.
    isolated => true,
    %% `own': a thread for this loop alone. `shared' (unless given): the first loops have a thread
    %% each, beyond `loop_threads' (8) of them they share. A loop stays on its thread for life; a
    %% thread that is busy gets no more loops.
    thread => own | shared,
    %% How the loop's thread waits before the VM waits for it: microseconds to `spin' at most,
    %% milliseconds to wait by itself (`warm'); `beam': neither. Implies `thread => own'.
    waiting => beam | #{spin => non_neg_integer(), warm => non_neg_integer()},
    %% Requests that may wait for the loop; more are `{error, overload}'. 100,000 unless given.
    max_queue => pos_integer(),
    %% Requests that may be unanswered, also those that run; more are `{error, overload}'.
    %% 1,000,000 unless given.
    max_tasks => pos_integer(),
    %% Milliseconds that tasks have to end when they are cancelled at the loop's end; 5,000
    %% unless given.
    patience => non_neg_integer(),
    %% What to do when it is stuck, if not what the application's `stuck_policy' says.
    stuck_policy => py_watchdog:policy(),
    %% For py_event_loop_sup.
    default => boolean(),
    %% No Python: events go to this process, see py_callback_loop. With `name' only.
    callbacks => pid()
}.
-type task_info() :: #{
    name := binary(),
    state := running | waiting,
    %% The coroutine.
    runs := binary(),
    %% Where it stands, outermost first.
    stack := [#{file := binary(), line := pos_integer(), function := binary()}]
}.

-type lag() :: #{
    turns := non_neg_integer(),
    longest_us := non_neg_integer(),
    histogram := [{UpToUs :: pos_integer() | infinity, Turns :: non_neg_integer()}]
}.

-define(DEFAULT, {?MODULE, default_loop}).

%% @doc Starts a loop, and the process that owns it. An option that is unknown or wrong raises
%% `{bad_option, What, Why}'. Python is not troubled before something is asked of the loop, unless
%% it has init code. With `callbacks' there is neither thread nor Python: the loop's events are
%% messages to a process.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(#{callbacks := _} = Options) ->
    py_callback_loop:start_link(Options);
start_link(Options) ->
    py_event_loop_server:start_link(py_event_loop_options:check(Options)).

%% @doc For your supervisor. A loop that is started again is a fresh one, its init code run. One
%% that is shut down cancels its tasks and waits for them for its `patience'; what does not end is
%% logged.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(Options) ->
    #{
        id => maps:get(name, Options, ?MODULE),
        start => {?MODULE, start_link, [Options]},
        shutdown => maps:get(patience, Options, 5000) + 1000
    }.

%% @equiv stop(Loop, infinity)
-spec stop(loop()) -> {ok, [task_info()]} | {error, timeout | noproc}.
stop(Loop) ->
    stop(Loop, infinity).

%% @doc Ends a loop: it takes no more requests, cancels its tasks, gives them their time, runs
%% the finalizers of asynchronous generators and closes. Answers the tasks that did not end. A
%% loop whose thread does not come back from some Python code is left to itself after `Timeout'
%% milliseconds: its process ends, and `{error, timeout}' is the answer.
-spec stop(loop(), timeout()) -> {ok, [task_info()]} | {error, timeout | noproc}.
stop(Loop, Timeout) ->
    try py_event_loop_server:stop(Loop, Timeout) of
        {ok, Left} -> {ok, lists:map(fun task_info/1, Left)}
    catch
        exit:{timeout, _} ->
            ?LOG_WARNING("~p is left behind: it did not end within ~p ms", [Loop, Timeout]),
            _ = [exit(Pid, kill) || Pid <- [pid(Loop)], is_pid(Pid)],
            {error, timeout};
        exit:_ ->
            {error, noproc}
    end.

%% @equiv run(Loop, Module, Function, Args, #{}, 5000)
-spec run(loop(), py:name(), py:name(), [term()]) -> py:result().
run(Loop, Module, Function, Args) ->
    run(Loop, Module, Function, Args, #{}).

%% @equiv run(Loop, Module, Function, Args, Kwargs, 5000)
-spec run(loop(), py:name(), py:name(), [term()], py:kwargs()) -> py:result().
run(Loop, Module, Function, Args, Kwargs) ->
    run(Loop, Module, Function, Args, Kwargs, 5000).

%% @doc As `py:call/5', on this loop.
-spec run(loop(), py:name(), py:name(), [term()], py:kwargs(), timeout()) -> py:result().
run(Loop, Module, Function, Args, Kwargs, Timeout) ->
    case pid(Loop) of
        undefined -> {error, loop_down};
        Pid -> py:ask(Pid, {call, Module, Function, Args, Kwargs}, Timeout)
    end.

%% @equiv submit(Loop, Module, Function, Args, #{})
-spec submit(loop(), py:name(), py:name(), [term()]) -> {ok, py:task()} | {error, py:reason()}.
submit(Loop, Module, Function, Args) ->
    submit(Loop, Module, Function, Args, #{}).

%% @doc As `py:submit/4', on this loop; `py:await/2', `py:yield/2' and `py:cancel/1' take the
%% task.
-spec submit(loop(), py:name(), py:name(), [term()], py:kwargs()) ->
    {ok, py:task()} | {error, py:reason()}.
submit(Loop, Module, Function, Args, Kwargs) ->
    case pid(Loop) of
        undefined -> {error, loop_down};
        Pid -> py:submit_to(Pid, {call, Module, Function, Args, Kwargs})
    end.

%% @equiv stream(Loop, Module, Function, Args, #{}, #{})
-spec stream(loop(), py:name(), py:name(), [term()]) -> {ok, py:stream()} | {error, py:reason()}.
stream(Loop, Module, Function, Args) ->
    stream(Loop, Module, Function, Args, #{}, #{}).

%% @equiv stream(Loop, Module, Function, Args, Kwargs, #{})
-spec stream(loop(), py:name(), py:name(), [term()], py:kwargs()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Loop, Module, Function, Args, Kwargs) ->
    stream(Loop, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:stream/5', on this loop; `py:demand/2' and `py:cancel/1' take the stream.
-spec stream(loop(), py:name(), py:name(), [term()], py:kwargs(), py_stream:options()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Loop, Module, Function, Args, Kwargs, Options) ->
    py:stream(Module, Function, Args, Kwargs, Options#{loop => Loop}).

%% The loop that options name, and the other options.
%% @private
-spec target(#{loop => loop(), atom() => term()}) ->
    {py_nif:task_target(), #{atom() => term()}} | {error, loop_down}.
target(Options) ->
    case maps:take(loop, Options) of
        error ->
            {default, Options};
        {Loop, Rest} ->
            case pid(Loop) of
                undefined -> {error, loop_down};
                Pid -> {Pid, Rest}
            end
    end.

%% @doc The requests that wait for the loop, all that are not answered yet, and how long its
%% turns take: what is ready waits for the turn before it. `lag' has the number of turns, the
%% longest in microseconds, and how many took less than so many microseconds but more than the
%% entry before; a bound of `infinity' comes last. The turn that runs now is not in it.
-spec info(loop()) ->
    {ok, #{
        pid := pid(),
        queued := non_neg_integer(),
        unanswered := non_neg_integer(),
        lag := lag()
    }}
    | {error, loop_down}.
info(Loop) ->
    case pid(Loop) of
        undefined ->
            {error, loop_down};
        Pid ->
            case {py_nif:python_loop_of(Pid), py_nif:loop_lag(Pid)} of
                {{ok, Queued, Unanswered}, {ok, Turns, Longest, Counts}} ->
                    {ok, #{
                        pid => Pid,
                        queued => Queued,
                        unanswered => Unanswered,
                        lag => lag(Turns, Longest, Counts)
                    }};
                _ ->
                    {error, loop_down}
            end
    end.

lag(Turns, LongestNs, Counts) ->
    Bounds = [1 bsl N || N <- lists:seq(0, length(Counts) - 2)] ++ [infinity],
    #{
        turns => Turns,
        longest_us => LongestNs div 1000,
        histogram => lists:zip(Bounds, Counts)
    }.

%% @doc What runs on the loop. The loop itself answers, so one that is stuck does not:
%% `{error, timeout}'.
-spec tasks(loop()) -> {ok, [task_info()]} | {error, py:reason()}.
tasks(Loop) ->
    case pid(Loop) of
        undefined ->
            {error, loop_down};
        Pid ->
            Work = {inline, <<"erlang_loop.served">>, <<"describe_tasks">>, [], #{}},
            case py:ask(Pid, Work, 5000) of
                {ok, Tasks} -> {ok, lists:map(fun task_info/1, Tasks)};
                {error, Reason} -> {error, Reason}
            end
    end.

task_info({Name, State, Runs, Stack}) ->
    #{
        name => Name,
        state => binary_to_existing_atom(State),
        runs => Runs,
        stack => [#{file => F, line => L, function => Fun} || {F, L, Fun} <- Stack]
    }.

%% @doc The loops that Erlang processes own, the default loop among them if there is one.
-spec which_loops() -> [{Name :: atom(), pid()}].
which_loops() ->
    [{registered_name(Pid), Pid} || Pid <- py_nif:python_loop_owners()].

registered_name(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> Name;
        _ -> undefined
    end.

pid(Loop) when is_pid(Loop), node(Loop) =:= node() -> Loop;
pid(Loop) when is_atom(Loop) -> whereis(Loop).

%% @doc The reference of a loop that was started with `callbacks', for `py_nif' calls.
-spec loop_ref(loop()) -> {ok, py_nif:loop_ref()} | {error, loop_down}.
loop_ref(Loop) ->
    try
        py_callback_loop:ref(Loop)
    catch
        exit:_ -> {error, loop_down}
    end.

%% @doc The node's default loop, for `py_nif' calls. It lives as long as the application runs.
-spec get_loop() -> {ok, py_nif:loop_ref()} | {error, not_started}.
get_loop() ->
    case persistent_term:get(?DEFAULT, undefined) of
        undefined -> {error, not_started};
        LoopRef -> {ok, LoopRef}
    end.

%% @private
-spec create_default() -> ok | {error, term()}.
create_default() ->
    case py_nif:event_loop_new() of
        {ok, LoopRef} -> persistent_term:put(?DEFAULT, LoopRef);
        {error, Reason} -> {error, Reason}
    end.

%% @private
-spec destroy_default() -> ok.
destroy_default() ->
    case get_loop() of
        {ok, LoopRef} ->
            ok = py_nif:event_loop_destroy(LoopRef),
            _ = persistent_term:erase(?DEFAULT),
            ok;
        {error, not_started} ->
            ok
    end.
