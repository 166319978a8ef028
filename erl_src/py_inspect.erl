%% @doc What loops, tasks, calls and streams of this node are doing, as maps, also while a thread
%% keeps the GIL.
%%
%% All functions except {@link tasks/1} only read numbers that the native library has anyway: no
%% thread takes part, and none is woken. Tasks are listed by their loop's own thread, at the
%% beginning of its next turn. If it does not reply, another thread tries, if it gets the GIL. If
%% neither does, the last list is returned, with its age.
%%
%% ```
%% [#{name := py_default_loop, lag := #{p99_us := _}} | _] = py_inspect:loops(),
%% {ok, #{tasks := Tasks, age_ms := _}} = py_inspect:tasks(py_default_loop).
%% '''
-module(py_inspect).

-include("py_misuse.hrl").

-compile({no_auto_import, [node/0]}).

-export([loops/0, loop/1, tasks/1, calls/0, streams/0, node/0]).
-export([last_tasks/1]).
-export([ps/0, ps/1, tree/0, tree/1]).
-export([profile/2, functions/0]).
%% For py_inspect_text.
-export([all_as_text/1, as_text/2]).
%% A process of its own.
-export([ask_and_exit/1]).

-export_type([timed_function/0]).
-export_type([which/0, loop/0, lag/0, task/0, frame/0, tasks/0, call/0, stream/0, node_view/0]).

%% A loop by its process, its name or its number, which logs show.
-type which() :: py_event_loop:loop() | pos_integer().

-type lag() :: #{
    %% Upper bounds of the durations of turns: of half of all turns, of 99 %, and the longest one.
    p50_us := non_neg_integer(),
    p99_us := non_neg_integer() | infinity,
    longest_us := non_neg_integer(),
    turns := non_neg_integer(),
    histogram := [{UpToUs :: pos_integer() | infinity, Turns :: non_neg_integer()}]
}.

-type loop() :: #{
    id := pos_integer(),
    %% The process that started it. `undefined': Python did.
    pid := pid() | undefined,
    name := atom(),
    %% `erlang': it is driven from Erlang, without a thread.
    kind := python | erlang,
    %% Python's number of its thread; loops with the same one share a thread. 0: it has not run yet.
    thread := non_neg_integer(),
    state := idle | running | stuck,
    %% For how long it has been in its current turn.
    in_turn_ms := non_neg_integer() | undefined,
    %% Of a stuck loop: where, as its last report had it, the most recent call first.
    stack := [frame()],
    lag := lag(),
    %% The time that all turns took together. Its growth in a second is the share of this loop.
    busy_us := non_neg_integer(),
    %% The share of the last 100 ms in which its thread was not waiting, from 0 to 1. `undefined':
    %% the loop has no thread yet, or Python started it.
    busy_share := float() | undefined,
    %% Callbacks that the last turn began with, and timers that are set, cancelled ones included.
    ready := non_neg_integer(),
    timers := non_neg_integer(),
    %% Descriptors that are watched.
    fds := non_neg_integer(),
    %% Requests that the loop has not taken yet, and all without a reply.
    queued := non_neg_integer(),
    unanswered := non_neg_integer(),
    %% The options `max_queue' and `max_tasks' of the loop. `undefined': it takes no requests.
    max_queued := pos_integer() | undefined,
    max_unanswered := pos_integer() | undefined,
    %% How long its thread has waited for the GIL after it was woken: altogether, and at most.
    gil_wait_us := non_neg_integer(),
    longest_gil_wait_us := non_neg_integer(),
    keeper := pid() | undefined,
    %% As `py_nif:event_loop_info/1' has them.
    counters := #{atom() => non_neg_integer()}
}.

-type frame() :: py_stack_dump:frame().

-type task() :: #{
    id := pos_integer(),
    name := binary(),
    %% `ready': it runs in the next turn.
    state := running | waiting | ready,
    %% How often it was cancelled without having ended.
    cancelling := non_neg_integer(),
    coroutine := binary(),
    %% Its coroutine and what this one awaits, outermost first.
    stack := [frame()],
    %% Tasks that await it, by their `id': also through `gather', `shield', `wait', a `TaskGroup'.
    awaited_by := [pos_integer()],
    %% The process that it works for. On Python 3.11 it is known of tasks that a request started and
    %% of those that they await.
    caller := pid() | undefined,
    caller_name := atom(),
    %% What the caller says that it is: `proc_lib:set_label/1' of OTP 27.
    caller_label := term(),
    %% The number of the request that started it.
    request := pos_integer() | undefined,
    %% For how long it has existed; of tasks that no request started, since it was listed first.
    age_ms := non_neg_integer(),
    age_is_exact := boolean(),
    %% For how long lists have shown it where it is.
    waits_ms := non_neg_integer(),
    %% The HTTP request or WebSocket that it serves, with its client: `<<"GET /path 127.0.0.1:50000">>'.
    serves := binary() | undefined
}.

-type tasks() :: #{
    tasks := [task()],
    %% At most 10,000 are listed.
    total := non_neg_integer(),
    %% How old the list is.
    age_ms := non_neg_integer(),
    %% `false': the loop did not reply, and this is the last list there was.
    is_fresh := boolean()
}.

-type call() :: #{
    id := pos_integer(),
    name := binary(),
    caller := pid(),
    caller_name := atom(),
    caller_label := term(),
    age_ms := non_neg_integer(),
    thread := integer(),
    %% It waits for Erlang (`erlang.call').
    is_outside := boolean(),
    %% Its caller has timed out, cancelled or died.
    is_abandoned := boolean()
}.

-type stream() :: #{
    id := pos_integer(),
    name := binary(),
    caller := pid(),
    consumer := pid(),
    %% The number of the loop it runs on. `undefined': on call threads.
    loop := pos_integer() | undefined,
    age_ms := non_neg_integer(),
    %% Items sent so far, and items that the consumer wants in addition.
    sent := non_neg_integer(),
    demand := non_neg_integer(),
    %% The producer waits for demand, and for how long.
    waits := boolean(),
    waits_ms := non_neg_integer()
}.

-type node_view() :: #{
    node := node(),
    os_pid := string(),
    python := boolean(),
    uptime_ms := non_neg_integer(),
    schedulers := pos_integer(),
    memory := #{erlang := non_neg_integer(), process := non_neg_integer()},
    loops := non_neg_integer(),
    %% The number of loops that each shared thread runs.
    runners := [non_neg_integer()],
    calls := #{threads | idle | queued | ended | abandoned => non_neg_integer()},
    stuck_after := timeout()
}.

-type timed_function() :: #{
    name := binary(),
    calls := pos_integer(),
    total_ms := float(),
    p99_ms := float(),
    longest_ms := float()
}.

%% How long a loop has for its list, and another thread after that.
-define(PATIENCE_MS, 200).

%% @doc All loops of this node, by their numbers.
-spec loops() -> [loop()].
loops() ->
    views(py_nif:inspect_loops(0)).

%% @doc One loop.
-spec loop(which()) -> {ok, loop()} | {error, {no_loop, which()}}.
loop(Which) ->
    case ?EXPLAINED([{loop, Which}], id(Which)) of
        undefined ->
            {error, {no_loop, Which}};
        Id ->
            case views(py_nif:inspect_loops(Id)) of
                [Loop] -> {ok, Loop};
                [] -> {error, {no_loop, Which}}
            end
    end.

id(Id) when is_integer(Id), Id > 0, Id < 1 bsl 64 ->
    Id;
id(Loop) ->
    case py_event_loop:find(Loop) of
        {ok, Pid} -> py_nif:inspect_loop_of(Pid);
        {error, _} -> undefined
    end.

views(Readings) ->
    After = py_settings:value(stuck_after),
    Stuck = [stuck || #{in_turn := Ns} <- Readings, is_stuck(Ns, After)],
    Stacks =
        case Stuck of
            [] -> #{};
            [_ | _] -> stacks()
        end,
    [view(Reading, After, Stacks) || Reading <- Readings].

is_stuck(Ns, After) ->
    is_integer(Ns) andalso is_integer(After) andalso Ns div 1_000_000 >= After.

%% The watchdog may be restarting.
stacks() ->
    try
        py_watchdog:stuck()
    catch
        exit:_ -> #{}
    end.

view(#{id := Id, owner := Owner, in_turn := InTurn} = Reading, After, Stacks) ->
    #{
        turns := Turns,
        longest := Longest,
        histogram := Counts,
        busy := Busy,
        busy_share := Share,
        gil_waited := GilWaited,
        gil_longest := GilLongest
    } = Reading,
    State =
        case {InTurn, is_stuck(InTurn, After)} of
            {undefined, _} -> idle;
            {_, true} -> stuck;
            {_, false} -> running
        end,
    Stack = [py_stack_dump:frames(maps:get(Id, Stacks, [])) || State =:= stuck],
    Kept = maps:with([id, kind, thread, ready, timers, fds, queued, unanswered, max_queued, max_unanswered, keeper, counters], Reading),
    Kept#{
        pid => Owner,
        name => name(Owner),
        state => State,
        in_turn_ms => in_ms(InTurn),
        stack => lists:append(Stack),
        lag => lag(Turns, Longest, Counts),
        busy_us => Busy div 1000,
        busy_share => share(Share),
        gil_wait_us => GilWaited div 1000,
        longest_gil_wait_us => GilLongest div 1000
    }.

in_ms(undefined) -> undefined;
in_ms(Ns) -> Ns div 1_000_000.

share(undefined) -> undefined;
share(Thousandths) -> Thousandths / 1000.

lag(Turns, Longest, Counts) ->
    Bounds = [1 bsl N || N <- lists:seq(0, length(Counts) - 2)] ++ [infinity],
    Histogram = lists:zip(Bounds, Counts),
    LongestUs = Longest div 1000,
    #{
        turns => Turns,
        longest_us => LongestUs,
        p50_us => bounded(quantile(Histogram, 0.5), LongestUs),
        p99_us => bounded(quantile(Histogram, 0.99), LongestUs),
        histogram => Histogram
    }.

%% No turn took longer than the longest one, whatever the bound of its class.
bounded(Bound, Longest) -> min(Bound, Longest).

%% The bound of the class in which that share of all turns is reached.
quantile(Histogram, Share) ->
    All = lists:sum([Count || {_, Count} <- Histogram]),
    reached(Histogram, All * Share).

reached([{Bound, Count} | _], Wanted) when Count >= Wanted -> Bound;
reached([{_, Count} | Rest], Wanted) -> reached(Rest, Wanted - Count);
reached([], _) -> infinity.

name(Pid) when is_pid(Pid), node(Pid) =:= erlang:node() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> Name;
        _ -> undefined
    end;
name(_) ->
    undefined.

%% Before OTP 27 processes have no labels.
label(Pid) when is_pid(Pid), node(Pid) =:= erlang:node() ->
    try process_info(Pid, label) of
        {label, Label} -> Label;
        undefined -> undefined
    catch
        error:badarg -> undefined
    end;
label(_) ->
    undefined.

%% @doc The tasks of a loop. `{error, timeout}': the loop is stuck, and its tasks were never listed
%% before.
-spec tasks(which()) -> {ok, tasks()} | {error, {no_loop, which()} | timeout}.
tasks(Which) ->
    case ?EXPLAINED([{loop, Which}], id(Which)) of
        undefined -> {error, {no_loop, Which}};
        Id -> listed(Which, Id)
    end.

%% @doc The last list of a loop's tasks, with its age, without asking for a new one.
-spec last_tasks(which()) -> {ok, tasks()} | {error, {no_loop, which()} | timeout}.
last_tasks(Which) ->
    case ?EXPLAINED([{loop, Which}], id(Which)) of
        undefined -> {error, {no_loop, Which}};
        Id -> last(Id, false)
    end.

listed(Which, Id) ->
    case ask(Id) of
        closed -> {error, {no_loop, Which}};
        never -> {ok, #{tasks => [], total => 0, age_ms => 0, is_fresh => true}};
        IsFresh when is_boolean(IsFresh) -> last(Id, IsFresh)
    end.

last(Id, IsFresh) ->
    case py_nif:inspect_last_tasks(Id) of
        undefined ->
            {error, timeout};
        {Age, {Total, Listed}} ->
            Tasks = callers([task(Task) || Task <- Listed]),
            {ok, #{
                tasks => lists:sort(fun is_older/2, Tasks),
                total => Total,
                age_ms => Age div 1_000_000,
                is_fresh => IsFresh
            }}
    end.

is_older(#{age_ms := One, id := OneId}, #{age_ms := Other, id := OtherId}) ->
    {-One, OneId} =< {-Other, OtherId}.

%% In a process of its own: a list that comes late must not be a message to the caller.
ask(Id) ->
    {Pid, Monitor} = spawn_monitor(?MODULE, ask_and_exit, [Id]),
    receive
        {'DOWN', Monitor, process, Pid, {?MODULE, Result}} -> Result;
        {'DOWN', Monitor, process, Pid, _} -> false
    end.

%% @private
-spec ask_and_exit(pos_integer()) -> no_return().
ask_and_exit(Id) ->
    exit({?MODULE, asked(Id)}).

asked(Id) ->
    case py_nif:inspect_list_tasks(Id, Id) of
        ok -> arrives(Id, fun() -> arrives_from_outside(Id) end);
        Other -> Other
    end.

%% A message means that the list was attempted: it may have failed, then the last one stays.
arrives(Id, Otherwise) ->
    receive
        {py_task_list, Id} -> is_new(Id)
    after ?PATIENCE_MS -> Otherwise()
    end.

arrives_from_outside(Id) ->
    _ = py_nif:inspect_list_from_outside(Id),
    arrives(Id, fun() -> false end).

is_new(Id) ->
    case py_nif:inspect_last_tasks(Id) of
        {Age, _} -> Age < 2 * ?PATIENCE_MS * 1_000_000;
        undefined -> false
    end.

task({Id, Name, State, Cancelling, Coroutine, Stack, AwaitedBy, Caller, Request, Age, IsExact, Waits, Serves}) ->
    #{
        id => Id,
        name => Name,
        state => binary_to_existing_atom(State),
        cancelling => Cancelling,
        coroutine => Coroutine,
        stack => [#{file => F, line => L, function => Fun} || {F, L, Fun} <- Stack],
        awaited_by => AwaitedBy,
        caller => or_undefined(Caller),
        caller_name => undefined,
        caller_label => undefined,
        request => or_undefined(Request),
        age_ms => Age,
        age_is_exact => IsExact,
        waits_ms => Waits,
        serves => or_undefined(Serves)
    }.

or_undefined(none) -> undefined;
or_undefined(Value) -> Value.

%% A task without a known caller works for that of a task that awaits it.
callers(Tasks) ->
    ById = maps:from_list([{Id, Task} || #{id := Id} = Task <- Tasks]),
    [
        begin
            Caller = caller([Id], ById, #{}),
            Task#{caller := Caller, caller_name := name(Caller), caller_label := label(Caller)}
        end
     || #{id := Id} = Task <- Tasks
    ].

%% Tasks may await each other.
caller([], _, _) ->
    undefined;
caller([Id | Ids], ById, Seen) ->
    case ById of
        #{Id := #{caller := undefined, awaited_by := Awaiters}} when not is_map_key(Id, Seen) ->
            caller(Ids ++ Awaiters, ById, Seen#{Id => seen});
        #{Id := #{caller := Caller}} when Caller =/= undefined ->
            Caller;
        #{} ->
            caller(Ids, ById, Seen)
    end.

%% @doc The calls that run on call threads, the oldest first.
-spec calls() -> [call()].
calls() ->
    Calls = [
        #{
            id => Id,
            name => Name,
            caller => Caller,
            caller_name => name(Caller),
            caller_label => label(Caller),
            age_ms => Age div 1_000_000,
            thread => Thread,
            is_outside => IsOutside,
            is_abandoned => IsAbandoned
        }
     || {Id, Name, Caller, Age, Thread, IsOutside, IsAbandoned} <- py_nif:inspect_calls()
    ],
    lists:sort(fun(#{age_ms := One}, #{age_ms := Other}) -> One >= Other end, Calls).

%% @doc The streams that have not ended. A stream of a plain generator that is between two threads
%% at this moment is missing.
-spec streams() -> [stream()].
streams() ->
    [
        #{
            id => Id,
            name => Name,
            caller => Caller,
            consumer => Consumer,
            loop => Loop,
            age_ms => Age div 1_000_000,
            sent => Sent,
            demand => Demand,
            waits => Waits,
            waits_ms => Waited div 1_000_000
        }
     || {Id, Name, Caller, Consumer, Loop, Age, {Sent, Demand, Waits, Waited}} <- py_nif:inspect_streams()
    ].

%% @doc The functions that Erlang has called, by the time that their calls took together: from the
%% beginning of each to its end, waiting included. Calls of less than 0.1 ms are left out. `p99_ms' may
%% be a quarter too long.
-spec functions() -> [timed_function()].
functions() ->
    Times = [
        #{name => Name, calls => Calls, total_ms => Total / 1.0e6, p99_ms => P99 / 1.0e6, longest_ms => Longest / 1.0e6}
     || {Name, Calls, Total, P99, Longest} <- py_nif:inspect_functions()
    ],
    lists:sort(fun(#{total_ms := One}, #{total_ms := Other}) -> One >= Other end, Times).

%% @doc Takes a profile of a loop, of the call threads (`calls'), or of all (`all'): reads their stacks
%% at intervals, also while one thread keeps the GIL. {@link py_profile} has the options, the result
%% and other formats.
%%
%% `unsupported': this Python keeps its frames where they were not found, or the system does not let
%% the process read its own memory (`process_vm_readv').
-spec profile(which() | all | calls, py_profile:options()) ->
    {ok, py_profile:profile()} | {error, {no_loop, which()} | not_started | unsupported | timeout}.
profile(Which, Options) ->
    Checked = ?EXPLAINED([{any, Which}, {profile_options, Options}], py_profile:checked(Options)),
    case Which of
        all -> py_profile:take(all, Checked);
        calls -> py_profile:take(calls, Checked);
        _ -> profile_of(loop(Which), Checked)
    end.

profile_of({ok, #{id := Id}}, Options) -> py_profile:take([Id], Options);
profile_of({error, Reason}, _) -> {error, Reason}.

%% @doc As {@link ps/1}, for all loops.
-spec ps() -> ok.
ps() ->
    io:put_chars(all_as_text(ps)).

%% @doc Prints a table of the tasks of a loop, as `python -m asyncio ps' does.
-spec ps(which()) -> ok | {error, {no_loop, which()} | timeout}.
ps(Which) ->
    maybe_print(as_text(ps, Which)).

%% @doc As {@link tree/1}, for all loops that have tasks.
-spec tree() -> ok.
tree() ->
    io:put_chars(all_as_text(tree)).

%% @doc Prints which task of a loop awaits which, as `python -m asyncio pstree' does.
-spec tree(which()) -> ok | {error, {no_loop, which()} | timeout}.
tree(Which) ->
    maybe_print(as_text(tree, Which)).

maybe_print({ok, Text}) -> io:put_chars(Text);
maybe_print({error, Reason}) -> {error, Reason}.

%% @private
-spec all_as_text(ps | tree) -> unicode:chardata().
all_as_text(ps) ->
    py_inspect_text:table([{Thread, Tasks} || {#{thread := Thread}, #{tasks := Tasks}} <- all()]);
all_as_text(tree) ->
    [[title(Loop, Listed), py_inspect_text:tree(Tasks)] || {Loop, #{tasks := [_ | _] = Tasks} = Listed} <- all()].

%% @private
-spec as_text(ps | tree, which()) -> {ok, unicode:chardata()} | {error, {no_loop, which()} | timeout}.
as_text(What, Which) ->
    case {loop(Which), tasks(Which)} of
        {{ok, #{thread := Thread}}, {ok, #{tasks := Tasks}}} when What =:= ps ->
            {ok, py_inspect_text:table([{Thread, Tasks}])};
        {{ok, _}, {ok, #{tasks := Tasks}}} ->
            {ok, py_inspect_text:tree(Tasks)};
        {{error, Reason}, _} ->
            {error, Reason};
        {_, {error, Reason}} ->
            {error, Reason}
    end.

%% Loops that end meanwhile, or whose tasks were never listed, are left out.
all() ->
    [{Loop, Listed} || #{kind := python, id := Id} = Loop <- loops(), {ok, Listed} <- [tasks(Id)]].

title(#{id := Id, name := Name, pid := Pid}, Listed) ->
    [io_lib:format("loop ~b (~p, ~p)~ts~n", [Id, Name, Pid, age(Listed)])].

age(#{is_fresh := true}) -> "";
age(#{age_ms := Age}) -> io_lib:format(", listed ~b ms ago", [Age]).

%% @doc This node.
-spec node() -> node_view().
node() ->
    {Uptime, _} = statistics(wall_clock),
    #{
        node => erlang:node(),
        os_pid => os:getpid(),
        python => py_nif:python_running(),
        uptime_ms => Uptime,
        schedulers => erlang:system_info(schedulers_online),
        memory => #{erlang => erlang:memory(total), process => process_memory()},
        loops => py_nif:event_loop_count(),
        runners => py_nif:python_loop_runners(),
        calls => py_calls:info(),
        stuck_after => py_settings:value(stuck_after)
    }.

%% What the operating system says that the process occupies; 0 if it does not say.
process_memory() ->
    case file:read_file("/proc/self/statm") of
        {ok, Text} ->
            [_, Pages | _] = binary:split(Text, <<" ">>, [global]),
            binary_to_integer(Pages) * 4096;
        {error, _} ->
            0
    end.
