%% @doc A number of loops that share their work.
%%
%% ```
%% {ok, _} = py_event_loop_pool:start_link(#{name => my_pool, size => 4}),
%% {ok, <<"done">>} = py_event_loop_pool:run(my_pool, asyncio, sleep, [0.01, <<"done">>]),
%% ok = py_event_loop_pool:stop(my_pool).
%% '''
%%
%% The pool is a supervisor, simple_one_for_one: its loops know nothing of each other, all are
%% started alike, and all end at the same time, so that the end of a pool takes no longer than
%% that of one loop. A loop that ends is replaced by a fresh one, its init code run; the others
%% go on. They are registered as `my_pool_1', `my_pool_2' and so on.
%%
%% Who asks begins with the loop whose turn it is and looks for one that has nothing to do, or else
%% least, among eight at most. A loop that refuses, because it is full or just being replaced, is
%% passed over.
-module(py_event_loop_pool).

-behaviour(supervisor).

-export([start_link/1, child_spec/1, stop/1, stop/2]).
-export([run/4, run/5, run/6, submit/4, submit/5, stream/4, stream/5, stream/6]).
-export([info/1]).
%% For the supervisor.
-export([start_loop/2, init/1]).

-export_type([pool/0, options/0, loop_info/0]).

-type pool() :: atom().
-type options() :: #{
    name := pool(),
    %% How many loops; 4 unless given.
    size => pos_integer(),
    %% So many loops may be replaced in so many seconds before the pool itself ends, to be started
    %% again by its supervisor; 10 in 10 unless given.
    intensity => non_neg_integer(),
    period => pos_integer(),
    %% What each loop is started with, see `py_event_loop:options()'.
    atom() => term()
}.
-type loop_info() :: #{
    name := atom(),
    %% `undefined' while it is being replaced.
    pid := pid() | undefined,
    queued := non_neg_integer(),
    unanswered := non_neg_integer()
}.

%% What whoever asks has to know, without asking a process: the names of the loops, and whose
%% turn it is.
-define(KEY(Pool), {?MODULE, Pool}).
-define(LOOKS, 8).
%% Milliseconds that a loop may take to notice that its pool was killed.
-define(ORPHANED, 5000).

%% @doc Starts the loops, and returns when all of them take requests.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(#{name := Pool} = Options) when is_atom(Pool), Pool =/= undefined ->
    Size = maps:get(size, Options, 4),
    is_integer(Size) andalso Size > 0 orelse error({bad_option, {size, Size}, "a positive number"}),
    Names = [loop_name(Pool, N) || N <- lists:seq(1, Size)],
    case supervisor:start_link({local, Pool}, ?MODULE, Options) of
        {ok, Pid} -> fill(Pool, Pid, Names);
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end;
start_link(Options) ->
    error({bad_option, Options, "a pool is a map with a name"}).

%% A handful of atoms, for as long as the node is up.
loop_name(Pool, N) ->
    list_to_atom(atom_to_list(Pool) ++ "_" ++ integer_to_list(N)).

fill(Pool, Pid, Names) ->
    case start_all(Pid, Names) of
        ok ->
            ok = persistent_term:put(?KEY(Pool), {list_to_tuple(Names), atomics:new(1, [])}),
            {ok, Pid};
        {error, Reason} ->
            ok = gen_server:stop(Pid),
            {error, Reason}
    end.

start_all(_Pid, []) ->
    ok;
start_all(Pid, [Name | Names]) ->
    case supervisor:start_child(Pid, [Name]) of
        {ok, _} -> start_all(Pid, Names);
        {error, Reason} -> {error, Reason}
    end.

%% @doc For your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(#{name := Pool} = Options) ->
    #{
        id => Pool,
        start => {?MODULE, start_link, [Options]},
        type => supervisor,
        shutdown => infinity
    }.

%% @equiv stop(Pool, infinity)
-spec stop(pool()) -> ok | {error, timeout | noproc}.
stop(Pool) ->
    stop(Pool, infinity).

%% @doc Ends all loops as a supervisor does: they take no more requests, cancel their tasks and
%% give them their time. What does not end is logged. After `{error, timeout}' they are still at
%% it. A pool below your own supervisor is ended by `supervisor:terminate_child/2'.
-spec stop(pool(), timeout()) -> ok | {error, timeout | noproc}.
stop(Pool, Timeout) ->
    try gen_server:stop(Pool, normal, Timeout) of
        ok ->
            _ = persistent_term:erase(?KEY(Pool)),
            ok
    catch
        exit:timeout -> {error, timeout};
        exit:_ -> {error, noproc}
    end.

%% @equiv run(Pool, Module, Function, Args, #{}, 5000)
-spec run(pool(), py:name(), py:name(), [term()]) -> py:result().
run(Pool, Module, Function, Args) ->
    run(Pool, Module, Function, Args, #{}).

%% @equiv run(Pool, Module, Function, Args, Kwargs, 5000)
-spec run(pool(), py:name(), py:name(), [term()], py:kwargs()) -> py:result().
run(Pool, Module, Function, Args, Kwargs) ->
    run(Pool, Module, Function, Args, Kwargs, 5000).

%% @doc As `py:call/5', on one of the loops.
-spec run(pool(), py:name(), py:name(), [term()], py:kwargs(), timeout()) -> py:result().
run(Pool, Module, Function, Args, Kwargs, Timeout) ->
    py:is_timeout(Timeout) orelse error(badarg),
    case submit(Pool, Module, Function, Args, Kwargs) of
        {ok, Task} -> py:await(Task, Timeout);
        {error, Reason} -> {error, Reason}
    end.

%% @equiv submit(Pool, Module, Function, Args, #{})
-spec submit(pool(), py:name(), py:name(), [term()]) -> {ok, py:task()} | {error, py:reason()}.
submit(Pool, Module, Function, Args) ->
    submit(Pool, Module, Function, Args, #{}).

%% @doc As `py:submit/4', on one of the loops.
-spec submit(pool(), py:name(), py:name(), [term()], py:kwargs()) ->
    {ok, py:task()} | {error, py:reason()}.
submit(Pool, Module, Function, Args, Kwargs) ->
    spread(Pool, fun(Loop) -> py_event_loop:submit(Loop, Module, Function, Args, Kwargs) end).

%% @equiv stream(Pool, Module, Function, Args, #{}, #{})
-spec stream(pool(), py:name(), py:name(), [term()]) -> {ok, py:stream()} | {error, py:reason()}.
stream(Pool, Module, Function, Args) ->
    stream(Pool, Module, Function, Args, #{}, #{}).

%% @equiv stream(Pool, Module, Function, Args, Kwargs, #{})
-spec stream(pool(), py:name(), py:name(), [term()], py:kwargs()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Pool, Module, Function, Args, Kwargs) ->
    stream(Pool, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:stream/5', on one of the loops.
-spec stream(pool(), py:name(), py:name(), [term()], py:kwargs(), py_stream:options()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Pool, Module, Function, Args, Kwargs, Options) ->
    spread(Pool, fun(Loop) ->
        py_event_loop:stream(Loop, Module, Function, Args, Kwargs, Options)
    end).

%% @doc The loops, in the order of their names.
-spec info(pool()) -> {ok, [loop_info()]} | {error, noproc}.
info(Pool) ->
    case is_pid(whereis(Pool)) andalso persistent_term:get(?KEY(Pool), false) of
        false -> {error, noproc};
        {Names, _} -> {ok, [loop_info(Name) || Name <- tuple_to_list(Names)]}
    end.

loop_info(Name) ->
    case py_event_loop:info(Name) of
        {ok, Info} -> Info#{name => Name};
        {error, loop_down} -> #{name => Name, pid => undefined, queued => 0, unanswered => 0}
    end.

%% Whose turn it is

%% Asks one loop, and the others if that refuses.
spread(Pool, Ask) ->
    case persistent_term:get(?KEY(Pool), undefined) of
        {Names, Turns} ->
            First = first(Names, atomics:add_get(Turns, 1, 1)),
            ask_each(Ask, Names, First, tuple_size(Names), {error, loop_down});
        undefined ->
            {error, loop_down}
    end.

ask_each(_Ask, _Names, _N, 0, Refused) ->
    Refused;
ask_each(Ask, Names, N, Left, Refused) ->
    case Ask(element(N, Names)) of
        {error, overload} -> ask_each(Ask, Names, next(N, Names), Left - 1, {error, overload});
        {error, loop_down} -> ask_each(Ask, Names, next(N, Names), Left - 1, Refused);
        Answer -> Answer
    end.

%% By turns alone, a loop that is held up goes on getting its share, and those who get it wait:
%% with 4 loops, and one task in 50 that blocks for 20 ms, the slowest hundredth of the others
%% took 100 ms by turns, 62 ms by the better of two, 46 ms by the best of all. A look costs some
%% 300 ns, so there is a limit.
first(Names, Turn) ->
    N = Turn rem tuple_size(Names) + 1,
    better(next(N, Names), Names, min(?LOOKS, tuple_size(Names)) - 1, N, load(N, Names)).

better(_N, _Names, _Left, Best, 0) ->
    Best;
better(_N, _Names, 0, Best, _Least) ->
    Best;
better(N, Names, Left, Best, Least) ->
    case load(N, Names) of
        Less when Less < Least -> better(next(N, Names), Names, Left - 1, N, Less);
        _ -> better(next(N, Names), Names, Left - 1, Best, Least)
    end.

next(N, Names) ->
    N rem tuple_size(Names) + 1.

load(N, Names) ->
    case py_event_loop:info(element(N, Names)) of
        {ok, #{unanswered := Unanswered}} -> Unanswered;
        %% Being replaced. Atoms are more than any number.
        {error, loop_down} -> infinity
    end.

%% @private
-spec start_loop(py_event_loop:options(), atom()) -> {ok, pid()} | {error, term()}.
start_loop(Options, Name) ->
    case py_event_loop:start_link(Options#{name => Name}) of
        {error, {already_started, Pid}} = Refused ->
            %% Of a pool by this name that was killed: it is about to end.
            Monitor = monitor(process, Pid),
            receive
                {'DOWN', Monitor, process, Pid, _} -> start_loop(Options, Name)
            after ?ORPHANED ->
                true = demonitor(Monitor, [flush]),
                Refused
            end;
        Started ->
            Started
    end.

%% @private
-spec init(options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(Options) ->
    Flags = #{
        strategy => simple_one_for_one,
        intensity => maps:get(intensity, Options, 10),
        period => maps:get(period, Options, 10)
    },
    LoopOptions = maps:without([name, size, intensity, period], Options),
    Spec = py_event_loop:child_spec(LoopOptions),
    {ok, {Flags, [Spec#{start => {?MODULE, start_loop, [LoopOptions]}}]}}.
