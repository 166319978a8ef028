%% @doc Starts and uses loops from Erlang.
%%
%% A loop that Erlang starts is a process: link to it, supervise it, name it. Coroutines run on
%% the loop's thread, plain functions on call threads, so that they never block it.
%%
%% ```
%% {ok, Loop} = py_event_loop:start_link(#{init => <<"import asyncio">>}),
%% {ok, <<"done">>} = py_event_loop:call(Loop, asyncio, sleep, [0.01, <<"done">>]),
%% {ok, []} = py_event_loop:stop(Loop).
%% '''
-module(py_event_loop).

-include_lib("kernel/include/logger.hrl").
-include("py_misuse.hrl").

-export([start_link/1, child_spec/1, stop/1, stop/2]).
-export([call/4, call/5, call/6, eval/2, eval/3, eval/4, exec/2, exec/3, cast/4, cast/5, cast/6]).
-export([run/4, run/5, run/6, submit/4, submit/5, submit/6, stream/4, stream/5, stream/6]).
-export([info/1, tasks/1, which_loops/0]).
-export([get_loop/0, loop_ref/1]).
%% For py and py_actor.
-export([target/1, find/1]).
%% For py_status.
-export([registered_name/1, task_info/1]).
%% For erlang_loop_app.
-export([create_node_loop/0, destroy_node_loop/0]).

-export_type([loop/0, options/0, task_info/0, lag/0]).

-type loop() :: pid() | atom().
-type options() :: #{
    %% Registers the process.
    name => atom(),
    %% Python code to run on the loop's thread before the loop takes requests. If it raises, the
    %% loop does not start.
    init => unicode:chardata(),
    %% Always `true': the loop has its own process, and ends with it.
    isolated => true,
    %% `own': a thread for this loop alone. `shared' (default): the first loops get a thread each,
    %% above `loop_threads' (8) loops share threads. A loop stays on its thread for life; a busy
    %% thread gets no more loops.
    thread => own | shared,
    %% How the loop's thread waits before it parks in the VM: at most `spin' microseconds of
    %% spinning, then `warm' milliseconds in the kernel; `beam': neither. Implies `thread => own'.
    waiting => beam | #{spin => non_neg_integer(), warm => non_neg_integer()},
    %% Requests that may wait for the loop; further ones return `{error, overload}'.
    %% Default: 100,000.
    max_queue => pos_integer(),
    %% Requests without a reply, including running ones; further ones return `{error, overload}'.
    %% Default: 1,000,000.
    max_tasks => pos_integer(),
    %% Milliseconds that cancelled tasks have to end when the loop shuts down. Default: 5,000.
    patience => non_neg_integer(),
    %% What to do when the loop is stuck. Default: the application's `stuck_policy'.
    stuck_policy => py_watchdog:policy(),
    %% Where the loop lives: in an operating system process of its own, or on another node. See
    %% docs/peers.md. Default: in this process.
    place => py_peer_options:place(),
    %% Lets pools use the loop that are started with `place => {group, Scope}', on this and other
    %% nodes. See docs/clusters.md.
    group => py_groups:scope(),
    %% For py_event_loop_sup.
    default => boolean(),
    %% Without Python: events are sent to this process, see py_callback_loop. Only with `name'.
    callbacks => pid()
}.
-type task_info() :: #{
    name := binary(),
    state := running | waiting,
    %% The coroutine.
    runs := binary(),
    %% Where it stands: the whole chain of awaits, outermost first. Of more than 200 frames, the
    %% middle is left out.
    stack := [#{file := binary(), line := non_neg_integer(), function := binary()}],
    %% The process that asked for it; before Python 3.12 not of tasks that other tasks have started.
    caller := pid() | undefined,
    %% For how long it has waited, if a process submitted it.
    age_ms := non_neg_integer() | undefined
}.

-type lag() :: #{
    turns := non_neg_integer(),
    longest_us := non_neg_integer(),
    histogram := [{UpToUs :: pos_integer() | infinity, Turns :: non_neg_integer()}]
}.

-define(CALL_ARGUMENTS(Loop, Module, Function, Args, Kwargs, Options), [
    {loop, Loop}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
    {{timeout_or_options, [timeout, return, values]}, Options}
]).
-define(NODE_LOOP, {?MODULE, node_loop}).

%% @doc Starts a loop and the process that owns it. An unknown or invalid option raises
%% `{bad_option, What, Why}'. The loop gets a thread and Python objects with its first request, or
%% at once if it has init code. With `callbacks' there is neither thread nor Python: the loop's
%% events are messages to a process.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(#{callbacks := _} = Options) when not is_map_key(place, Options) ->
    py_callback_loop:start_link(Options);
start_link(#{place := _} = Options) ->
    py_peer:start_link(Options);
start_link(Options) ->
    py_event_loop_server:start_link(py_event_loop_options:check(Options)).

%% @doc A child specification for your supervisor. A restarted loop is a fresh one, which runs its
%% init code. A loop that is shut down cancels its tasks and waits for them, for at most `patience';
%% tasks that do not end are logged.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(Options) ->
    #{
        id => maps:get(name, Options, ?MODULE),
        start => {?MODULE, start_link, [Options]},
        shutdown => shutdown(Options)
    }.

shutdown(#{place := _} = Options) -> py_peer:shutdown(maps:get(patience, Options, 5000));
shutdown(#{} = Options) -> maps:get(patience, Options, 5000) + 1000.

%% @equiv stop(Loop, infinity)
-spec stop(loop()) -> {ok, [task_info()]} | {error, timeout | noproc}.
stop(Loop) ->
    stop(Loop, infinity).

%% @doc Shuts a loop down: it takes no more requests, cancels its tasks and waits for them, runs
%% the finalizers of asynchronous generators and closes. Returns the tasks that did not end. If the
%% loop's thread does not return from Python code within `Timeout' milliseconds, the loop's process
%% ends and `{error, timeout}' is returned.
-spec stop(loop(), timeout()) -> {ok, [task_info()]} | {error, timeout | noproc}.
stop(Loop, Timeout) ->
    ?EXPLAINED([{loop, Loop}, {timeout, Timeout}], stop_checked(Loop, Timeout)).

stop_checked(Loop, Timeout) ->
    py:is_timeout(Timeout) orelse error(badarg),
    case find(Loop) of
        {ok, Pid} -> stop_process(Pid, Timeout);
        {error, {no_loop, _}} -> {error, noproc}
    end.

stop_process(Loop, Timeout) ->
    try py_event_loop_server:stop(Loop, Timeout) of
        {ok, Left} -> {ok, lists:map(fun task_info/1, Left)}
    catch
        exit:{timeout, _} ->
            ?LOG_WARNING("~p is left behind: it did not end within ~p ms", [Loop, Timeout]),
            true = exit(Loop, kill),
            {error, timeout};
        exit:_ ->
            {error, noproc}
    end.

%% @equiv call(Loop, Module, Function, Args, #{}, 5000)
-spec call(loop(), py:name() | py:object(), py:name(), [term()]) -> py:result().
call(Loop, Module, Function, Args) ->
    call(Loop, Module, Function, Args, #{}).

%% @equiv call(Loop, Module, Function, Args, Kwargs, 5000)
-spec call(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs()) -> py:result().
call(Loop, Module, Function, Args, Kwargs) ->
    call(Loop, Module, Function, Args, Kwargs, 5000).

%% @doc As `py:call/5', on this loop.
-spec call(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs(), timeout() | py:options()) ->
    py:result().
call(Loop, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        ?CALL_ARGUMENTS(Loop, Module, Function, Args, Kwargs, Options),
        request_call(Loop, {call, Module, Function, Args, Kwargs}, Options)
    ).

%% @equiv run(Loop, Module, Function, Args, #{}, 5000)
-spec run(loop(), py:name() | py:object(), py:name(), [term()]) -> py:result().
run(Loop, Module, Function, Args) ->
    run(Loop, Module, Function, Args, #{}).

%% @equiv run(Loop, Module, Function, Args, Kwargs, 5000)
-spec run(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs()) -> py:result().
run(Loop, Module, Function, Args, Kwargs) ->
    run(Loop, Module, Function, Args, Kwargs, 5000).

%% @doc Another name of {@link call/6}.
-spec run(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs(), timeout() | py:options()) ->
    py:result().
run(Loop, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        ?CALL_ARGUMENTS(Loop, Module, Function, Args, Kwargs, Options),
        request_call(Loop, {call, Module, Function, Args, Kwargs}, Options)
    ).

%% @equiv eval(Loop, Code, #{}, 5000)
-spec eval(loop(), py:code()) -> py:result().
eval(Loop, Code) ->
    eval(Loop, Code, #{}).

%% @equiv eval(Loop, Code, Variables, 5000)
-spec eval(loop(), py:code(), py:kwargs()) -> py:result().
eval(Loop, Code, Variables) ->
    eval(Loop, Code, Variables, 5000).

%% @doc As `py:eval/3', on this loop: what the code awaits runs there. A namespace is an option.
-spec eval(loop(), py:code(), py:kwargs(), timeout() | py:eval_options()) -> py:result().
eval(Loop, Code, Variables, Options) ->
    ?EXPLAINED(
        [
            {loop, Loop}, {code, Code}, {variables, Variables},
            {{timeout_or_options, [timeout, return, values, namespace, file, line]}, Options}
        ],
        request_call(Loop, {eval, py:text(Code), Variables}, Options)
    ).

%% @equiv exec(Loop, Code, 5000)
-spec exec(loop(), py:code()) -> ok | {error, py:reason()}.
exec(Loop, Code) ->
    exec(Loop, Code, 5000).

%% @doc As `py:exec/2', on this loop: what the code awaits runs there. A namespace is an option.
-spec exec(loop(), py:code(), timeout() | py:exec_options()) -> ok | {error, py:reason()}.
exec(Loop, Code, Options) ->
    ?EXPLAINED(
        [
            {loop, Loop}, {code, Code},
            {{timeout_or_options, [timeout, namespace, file, line]}, Options}
        ],
        begin
            %% It has no result.
            ok = py_options:no_result(Options),
            case request_call(Loop, {exec, py:text(Code), #{}}, Options) of
                {ok, _} -> ok;
                {error, Reason} -> {error, Reason}
            end
        end
    ).

%% @equiv cast(Loop, Module, Function, Args, #{})
-spec cast(loop(), py:name() | py:object(), py:name(), [term()]) -> ok | {error, py:reason()}.
cast(Loop, Module, Function, Args) ->
    cast(Loop, Module, Function, Args, #{}).

%% @equiv cast(Loop, Module, Function, Args, Kwargs, #{})
-spec cast(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs()) ->
    ok | {error, py:reason()}.
cast(Loop, Module, Function, Args, Kwargs) ->
    cast(Loop, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:cast/5', on this loop. There are no options.
-spec cast(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs(), #{}) ->
    ok | {error, py:reason()}.
cast(Loop, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {loop, Loop}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{options, []}, Options}
        ],
        begin
            Options =:= #{} orelse error(badarg),
            py:cast(Module, Function, Args, Kwargs, #{loop => Loop})
        end
    ).

request_call(Loop, Call, Options) ->
    case find(Loop) of
        {ok, Pid} -> py:request(Pid, Call, Options);
        {error, Reason} -> {error, Reason}
    end.

%% @equiv submit(Loop, Module, Function, Args, #{})
-spec submit(loop(), py:name() | py:object(), py:name(), [term()]) -> {ok, py:task()} | {error, py:reason()}.
submit(Loop, Module, Function, Args) ->
    submit(Loop, Module, Function, Args, #{}).

%% @equiv submit(Loop, Module, Function, Args, Kwargs, #{})
-spec submit(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs()) ->
    {ok, py:task()} | {error, py:reason()}.
submit(Loop, Module, Function, Args, Kwargs) ->
    submit(Loop, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:submit/5', on this loop; `py:await/2', `py:yield/2' and `py:cancel/1' take the
%% task.
-spec submit(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs(), py:submit_options()) ->
    {ok, py:task()} | {error, py:reason()}.
submit(Loop, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {loop, Loop}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{options, [return, values]}, Options}
        ],
        begin
            is_map(Options) orelse error(badarg),
            Call = py_options:with(Options, {call, Module, Function, Args, Kwargs}),
            case find(Loop) of
                {ok, Pid} -> py:submit_to(Pid, Call);
                {error, Reason} -> {error, Reason}
            end
        end
    ).

%% @equiv stream(Loop, Module, Function, Args, #{}, #{})
-spec stream(loop(), py:name() | py:object(), py:name(), [term()]) -> {ok, py:stream()} | {error, py:reason()}.
stream(Loop, Module, Function, Args) ->
    stream(Loop, Module, Function, Args, #{}, #{}).

%% @equiv stream(Loop, Module, Function, Args, Kwargs, #{})
-spec stream(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Loop, Module, Function, Args, Kwargs) ->
    stream(Loop, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:stream/5', on this loop; `py:demand/2' and `py:cancel/1' take the stream.
-spec stream(loop(), py:name() | py:object(), py:name(), [term()], py:kwargs(), py_stream:options()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Loop, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {loop, Loop}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {loop_stream_options, Options}
        ],
        begin
            is_map(Options) andalso not is_map_key(loop, Options) orelse error(badarg),
            py:stream(Module, Function, Args, Kwargs, Options#{loop => Loop})
        end
    ).

%% Splits the options into the loop and the rest.
%% @private
-spec target(#{loop => loop(), atom() => term()}) ->
    {py_nif:request_target(), #{atom() => term()}} | {error, {no_loop, atom()}}.
target(#{loop := Loop} = Options) ->
    case find(Loop) of
        {ok, Pid} -> {Pid, maps:remove(loop, Options)};
        {error, Reason} -> {error, Reason}
    end;
target(#{} = Options) ->
    {default, Options};
target(_) ->
    error(badarg).

%% @doc Returns the number of requests that wait for the loop, of all requests without a reply, and
%% how long the loop's turns take, which delays events that become ready meanwhile. `lag' has the
%% number of turns, the longest one in microseconds, and a histogram: how many turns took at most
%% this many microseconds but more than the previous bound; the last bound is `infinity'. The
%% current turn is not included.
-spec info(loop()) ->
    {ok, #{
        pid := pid(),
        queued := non_neg_integer(),
        unanswered := non_neg_integer(),
        lag := lag(),
        %% Of a loop that lives elsewhere.
        node => node(),
        os_pid => pos_integer()
    }}
    | {error, loop_down | {no_loop, atom()}}.
info(Loop) ->
    case ?EXPLAINED([{loop, Loop}], find(Loop)) of
        {error, Reason} ->
            {error, Reason};
        {ok, Pid} when node(Pid) =/= node() ->
            py_remote:info(Pid);
        {ok, Pid} ->
            case {py_nif:python_loop_of(Pid), py_nif:loop_lag(Pid)} of
                {{ok, Queued, Unanswered}, {ok, Turns, Longest, Counts}} ->
                    {ok, #{
                        pid => Pid,
                        queued => Queued,
                        unanswered => Unanswered,
                        lag => lag(Turns, Longest, Counts)
                    }};
                _ ->
                    py_remote:info(Pid)
            end
    end.

lag(Turns, LongestNs, Counts) ->
    Bounds = [1 bsl N || N <- lists:seq(0, length(Counts) - 2)] ++ [infinity],
    #{
        turns => Turns,
        longest_us => LongestNs div 1000,
        histogram => lists:zip(Bounds, Counts)
    }.

%% @doc Returns the tasks of the loop. The loop itself replies, so a stuck loop returns
%% `{error, timeout}'.
-spec tasks(loop()) -> {ok, [task_info()]} | {error, py:reason()}.
tasks(Loop) ->
    case ?EXPLAINED([{loop, Loop}], find(Loop)) of
        {error, Reason} ->
            {error, Reason};
        {ok, Pid} ->
            Call = {inline, <<"erlang_loop.tasks">>, <<"of_running_loop">>, [], #{}},
            %% `none', whatever the setting of this name says.
            case py:request(Pid, Call, #{timeout => 5000, values => #{none => none}}) of
                {ok, Tasks} -> {ok, lists:map(fun task_info/1, Tasks)};
                {error, Why} -> {error, Why}
            end
    end.

%% @private
-spec task_info(tuple()) -> task_info().
task_info({Name, State, Runs, Stack, Caller, Age}) ->
    #{
        caller => defined(Caller),
        age_ms => defined(Age),
        name => Name,
        state => binary_to_existing_atom(State),
        runs => Runs,
        stack => [#{file => F, line => L, function => Fun} || {F, L, Fun} <- Stack]
    }.

defined(none) -> undefined;
defined(Value) -> Value.

%% @doc Returns the loops that Erlang processes own, including the default loop if it exists.
-spec which_loops() -> [{Name :: atom(), pid()}].
which_loops() ->
    Pids = py_nif:python_loop_owners() ++ py_remote:proxies(),
    [{registered_name(Pid), Pid} || Pid <- Pids].

%% @private
-spec registered_name(pid() | undefined) -> atom().
registered_name(undefined) ->
    undefined;
registered_name(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> Name;
        _ -> undefined
    end.

%% A name may belong to a loop that its supervisor is replacing: that is not an error of the caller.
%% @private
-spec find(loop()) -> {ok, pid()} | {error, {no_loop, atom()}}.
find(Loop) when is_pid(Loop) ->
    {ok, Loop};
find(Loop) when is_atom(Loop) ->
    case whereis(Loop) of
        Pid when is_pid(Pid) -> {ok, Pid};
        _ -> {error, {no_loop, Loop}}
    end;
find(_) ->
    error(badarg).

%% @doc The reference of a loop that was started with `callbacks', for `py_nif' calls.
-spec loop_ref(loop()) -> {ok, py_nif:loop_ref()} | {error, loop_down | {no_loop, atom()}}.
loop_ref(Loop) ->
    case ?EXPLAINED([{loop, Loop}], find(Loop)) of
        {ok, Pid} -> ref_of(Pid);
        {error, Reason} -> {error, Reason}
    end.

ref_of(Pid) ->
    try
        py_callback_loop:ref(Pid)
    catch
        exit:_ -> {error, loop_down}
    end.

%% @doc The node's own loop, for `py_nif' calls. It lives as long as the application runs. No Python
%% code runs on it: coroutines of `py:call' run on the default loop, `py_default_loop'.
-spec get_loop() -> {ok, py_nif:loop_ref()} | {error, not_started}.
get_loop() ->
    case persistent_term:get(?NODE_LOOP, undefined) of
        undefined -> {error, not_started};
        LoopRef -> {ok, LoopRef}
    end.

%% @private
-spec create_node_loop() -> ok | {error, term()}.
create_node_loop() ->
    case py_nif:event_loop_new() of
        {ok, LoopRef} -> persistent_term:put(?NODE_LOOP, LoopRef);
        {error, Reason} -> {error, Reason}
    end.

%% @private
-spec destroy_node_loop() -> ok.
destroy_node_loop() ->
    case get_loop() of
        {ok, LoopRef} ->
            ok = py_nif:event_loop_destroy(LoopRef),
            _ = persistent_term:erase(?NODE_LOOP),
            ok;
        {error, not_started} ->
            ok
    end.
