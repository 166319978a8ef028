%% @private
%% @doc What runs in Python now: behind `py:status/0'.
%%
%% What native code knows needs neither Python nor a thread. Stacks are read even while one call keeps
%% the GIL (`py_watchdog'). The tasks of loops are Python objects, which only a thread with the GIL can
%% read; if there is none in time, they are missing, and `missing' says so.
-module(py_status).

-export([status/0]).

-export_type([status/0, call/0, loop_status/0]).

-type status() :: #{
    python := up | down,
    %% What call threads run.
    calls := [call()],
    %% See `py_calls:info/0'.
    queue := #{threads | idle | queued | ended | abandoned => non_neg_integer()},
    loops := [loop_status()],
    %% What could not be read, and why.
    missing := #{stacks | tasks => term()}
}.
-type call() :: #{
    function := binary(),
    caller := pid(),
    age_ms := non_neg_integer(),
    %% Most recent call first, as lines of text.
    stack := [binary()]
}.
-type loop_status() :: #{
    %% Of the native loop; it is in the messages of `py_watchdog', too.
    number := pos_integer(),
    %% `undefined' for a loop that Python has started.
    pid := pid() | undefined,
    name := atom(),
    queued := non_neg_integer(),
    unanswered := non_neg_integer(),
    %% For how long its thread has been in this turn, and where it is; `none' while the loop sleeps.
    turn_ms := non_neg_integer() | none,
    stack := [binary()],
    tasks := [py_event_loop:task_info()]
}.

%% How long to wait for the GIL.
-define(PATIENCE, 250).
%% How long stacks may take after that, if they are read without it.
-define(STACKS, 5000).

-spec status() -> status().
status() ->
    %% A process of its own: a message that comes too late does not reach the caller.
    {Caller, Tag} = {self(), make_ref()},
    {Reader, Monitor} = spawn_monitor(fun() -> Caller ! {Tag, read()} end),
    receive
        {Tag, Status} ->
            true = demonitor(Monitor, [flush]),
            Status;
        {'DOWN', Monitor, process, Reader, Reason} ->
            exit(Reason)
    end.

read() ->
    Token = erlang:unique_integer(),
    Begun = erlang:monotonic_time(millisecond),
    AskedTasks = py_nif:status_tasks(Token),
    AskedStacks = py_nif:watchdog_stacks(Token, ?PATIENCE),
    Stacks = reply(AskedStacks, py_stacks, Token, ?PATIENCE + ?STACKS),
    %% Both have waited for the GIL at the same time.
    Tasks = reply(AskedTasks, py_tasks, Token, ?PATIENCE),
    Threads = threads(Stacks),
    OfLoops = tasks(Tasks),
    Calls = py_nif:status_calls(),
    Took = erlang:monotonic_time(millisecond) - Begun,
    #{
        python => python(AskedTasks),
        calls => [call(Call, Took, Threads) || Call <- Calls],
        queue => py_calls:info(),
        loops => [loop(Loop, Threads, OfLoops) || Loop <- py_nif:status_loops()],
        missing => maps:from_list(missing(stacks, Stacks) ++ missing(tasks, Tasks))
    }.

reply(ok, Tag, Token, Timeout) ->
    receive
        {Tag, Token, Result} -> Result
    after Timeout -> {error, timeout}
    end;
reply({error, Reason}, _, _, _) ->
    {error, Reason}.

python({error, not_started}) -> down;
python(_) -> up.

missing(_, {ok, _}) -> [];
missing(_, {error, not_started}) -> [];
missing(tasks, {error, timeout}) -> [{tasks, <<"one call keeps the GIL">>}];
missing(What, {error, Reason}) -> [{What, Reason}].

threads({ok, Dump}) -> maps:from_list(py_stack_dump:threads(Dump));
threads({error, _}) -> #{}.

tasks({ok, Tasks}) -> maps:from_list(Tasks);
tasks({error, _}) -> #{}.

%% The stack of a call that has begun meanwhile may be that of the call before it.
call({Function, Caller, Age, Thread}, Took, Threads) ->
    Stack = [Line || Age > Took, Line <- stack(Thread, Threads)],
    #{function => Function, caller => Caller, age_ms => Age, stack => Stack}.

loop({Number, Owner, Thread, Queued, Unanswered, Turn}, Threads, Tasks) ->
    #{
        number => Number,
        pid => Owner,
        name => py_event_loop:registered_name(Owner),
        queued => Queued,
        unanswered => Unanswered,
        turn_ms => Turn,
        stack => [Line || Turn =/= none, Line <- stack(Thread, Threads)],
        tasks => [py_event_loop:task_info(Task) || Task <- maps:get(Number, Tasks, [])]
    }.

stack(Thread, Threads) ->
    [string:trim(Line, leading) || Line <- maps:get(Thread, Threads, [])].
