%% @doc Several loops that share their work.
%%
%% ```
%% {ok, _} = py_event_loop_pool:start_link(#{name => my_pool, size => 4}),
%% {ok, <<"done">>} = py_event_loop_pool:call(my_pool, asyncio, sleep, [0.01, <<"done">>]),
%% ok = py_event_loop_pool:stop(my_pool).
%% '''
%%
%% The pool is a supervisor, simple_one_for_one: its loops are independent, all are started alike,
%% and all end at the same time, so that a pool ends as fast as one loop. A loop that ends is
%% replaced by a fresh one, which runs its init code; the others go on. They are registered as
%% `my_pool_1', `my_pool_2' and so on.
%%
%% A request starts at the next loop in round-robin order and goes to the first idle one, or else
%% the one with the fewest requests, among eight at most. A loop that refuses, because it is full or
%% being replaced, is skipped. While no loop is up, {@link run/6} waits for one.
%%
%% A pool with `place => {group, Scope}' starts no loops: it uses those of a group, on this and other
%% nodes. See docs/clusters.md.
%%
%% `spare' more loops are started and get no requests, as long as the others are up; a spare stands
%% in for a loop that is being replaced. That is for peers, which take a while to start.
-module(py_event_loop_pool).

-behaviour(supervisor).

-include("py_misuse.hrl").

-export([start_link/1, child_spec/1, stop/1, stop/2]).
-export([call/4, call/5, call/6, eval/2, eval/3, eval/4, exec/2, exec/3, cast/4, cast/5, cast/6]).
-export([run/4, run/5, run/6, submit/4, submit/5, submit/6, stream/4, stream/5, stream/6]).
-export([info/1]).
%% For the supervisor.
-export([start_loop/3, init/1]).

-export_type([pool/0, options/0, loop_info/0]).

-type pool() :: atom().
-type options() :: #{
    name := pool(),
    %% How many loops. Default: 4.
    size => pos_integer(),
    %% How many more loops are ready to stand in. Default: 0.
    spare => non_neg_integer(),
    %% The supervisor's restart limit: how many loops may be replaced in `period' seconds. Above it
    %% the pool itself ends, and its supervisor restarts it. Default: 10 in 10.
    intensity => non_neg_integer(),
    period => pos_integer(),
    %% Of a pool over a group: `prefer' takes a loop of another node only if it has less than half as
    %% many requests as one of this node. Default: any.
    locality => any | prefer,
    %% The options of each loop, see `py_event_loop:options()'.
    atom() => term()
}.
-type loop_info() :: #{
    name := atom(),
    %% `undefined' while it is being replaced.
    pid := pid() | undefined,
    queued := non_neg_integer(),
    unanswered := non_neg_integer(),
    %% Whether it only stands in for others.
    spare := boolean(),
    %% Of peers and other nodes.
    node => node(),
    os_pid => pos_integer(),
    %% Of a loop in a group: whether its node has reported lately.
    reachable => boolean(),
    lag => py_event_loop:lag()
}.

-define(CALL_ARGUMENTS(Pool, Module, Function, Args, Kwargs, Options), [
    {pool, Pool}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
    {{timeout_or_options, [timeout, return, values, affinity]}, Options}
]).

%% What a caller needs, without asking a process.
-record(pool, {
    %% The spare ones are the last.
    names :: tuple(),
    size :: pos_integer(),
    %% Whether the loops are in this process: one that refuses a request does so at once.
    is_local :: boolean(),
    %% The round-robin counter.
    turns :: atomics:atomics_ref()
}).

-define(KEY(Pool), {?MODULE, Pool}).
-define(LOOKS, 8).
%% Milliseconds that a loop may take to notice that its pool was killed.
-define(ORPHANED, 5000).

%% @doc Starts the loops, and returns when all of them take requests.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(#{name := Pool, place := {group, _}} = Options) when is_atom(Pool), Pool =/= undefined ->
    case py_group_pool:start_link(Options) of
        {ok, Pid, Group} ->
            ok = persistent_term:put(?KEY(Pool), Group),
            {ok, Pid};
        {error, Reason} ->
            {error, Reason}
    end;
start_link(#{name := Pool} = Options) when is_atom(Pool), Pool =/= undefined ->
    Size = maps:get(size, Options, 4),
    ok = at_least(1, size, Size),
    Spare = maps:get(spare, Options, 0),
    ok = at_least(0, spare, Spare),
    ok = at_least(0, intensity, maps:get(intensity, Options, 10)),
    ok = at_least(1, period, maps:get(period, Options, 10)),
    is_map_key(locality, Options) andalso
        py_event_loop_options:bad({locality, maps:get(locality, Options)}, "only for a pool over a group"),
    Names = [loop_name(Pool, N) || N <- lists:seq(1, Size + Spare)],
    case supervisor:start_link({local, Pool}, ?MODULE, Options) of
        {ok, Pid} -> fill(Pool, Pid, Names, Size, not is_map_key(place, Options));
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end;
start_link(Options) ->
    py_event_loop_options:bad(Options, "a pool is a map with a name").

at_least(Least, _Name, Value) when is_integer(Value), Value >= Least ->
    ok;
at_least(0, Name, Value) ->
    py_event_loop_options:bad({Name, Value}, "zero or a positive number");
at_least(1, Name, Value) ->
    py_event_loop_options:bad({Name, Value}, "a positive number").

%% A few atoms, which are never freed.
loop_name(Pool, N) ->
    list_to_atom(atom_to_list(Pool) ++ "_" ++ integer_to_list(N)).

fill(Pool, Pid, Names, Size, IsLocal) ->
    case start_all(Pid, Names) of
        ok ->
            Known = #pool{
                names = list_to_tuple(Names),
                size = Size,
                is_local = IsLocal,
                turns = atomics:new(1, [])
            },
            ok = persistent_term:put(?KEY(Pool), Known),
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
        %% An invalid option raised in the supervisor.
        {error, {'EXIT', {{bad_option, _, _} = Reason, _}}} -> {error, Reason};
        {error, Reason} -> {error, Reason}
    end.

%% @doc A child specification for your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(#{name := Pool, place := {group, _}} = Options) ->
    #{id => Pool, start => {?MODULE, start_link, [Options]}};
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
%% wait for them. Tasks that do not end are logged. After `{error, timeout}' they are still
%% ending. A pool below your own supervisor is ended by `supervisor:terminate_child/2'.
-spec stop(pool(), timeout()) -> ok | {error, timeout | noproc}.
stop(Pool, Timeout) ->
    ?EXPLAINED([{pool, Pool}, {timeout, Timeout}], stop_checked(Pool, Timeout)).

stop_checked(Pool, Timeout) ->
    is_atom(Pool) andalso py:is_timeout(Timeout) orelse error(badarg),
    try gen_server:stop(Pool, normal, Timeout) of
        ok ->
            _ = persistent_term:erase(?KEY(Pool)),
            ok
    catch
        exit:timeout -> {error, timeout};
        exit:_ -> {error, noproc}
    end.

%% @equiv call(Pool, Module, Function, Args, #{}, 5000)
-spec call(pool(), py:name() | py:object(), py:name(), [term()]) -> py:result().
call(Pool, Module, Function, Args) ->
    call(Pool, Module, Function, Args, #{}).

%% @equiv call(Pool, Module, Function, Args, Kwargs, 5000)
-spec call(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs()) -> py:result().
call(Pool, Module, Function, Args, Kwargs) ->
    call(Pool, Module, Function, Args, Kwargs, 5000).

%% @doc As `py:call/5', on one of the loops.
-spec call(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs(), timeout() | py:options()) ->
    py:result().
call(Pool, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        ?CALL_ARGUMENTS(Pool, Module, Function, Args, Kwargs, Options),
        request_call(Pool, {call, Module, Function, Args, Kwargs}, Options)
    ).

%% @equiv run(Pool, Module, Function, Args, #{}, 5000)
-spec run(pool(), py:name() | py:object(), py:name(), [term()]) -> py:result().
run(Pool, Module, Function, Args) ->
    run(Pool, Module, Function, Args, #{}).

%% @equiv run(Pool, Module, Function, Args, Kwargs, 5000)
-spec run(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs()) -> py:result().
run(Pool, Module, Function, Args, Kwargs) ->
    run(Pool, Module, Function, Args, Kwargs, 5000).

%% @doc Another name of {@link call/6}.
-spec run(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs(), timeout() | py:options()) ->
    py:result().
run(Pool, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        ?CALL_ARGUMENTS(Pool, Module, Function, Args, Kwargs, Options),
        request_call(Pool, {call, Module, Function, Args, Kwargs}, Options)
    ).

%% @equiv eval(Pool, Code, #{}, 5000)
-spec eval(pool(), py:code()) -> py:result().
eval(Pool, Code) ->
    eval(Pool, Code, #{}).

%% @equiv eval(Pool, Code, Variables, 5000)
-spec eval(pool(), py:code(), py:kwargs()) -> py:result().
eval(Pool, Code, Variables) ->
    eval(Pool, Code, Variables, 5000).

%% @doc As `py:eval/3', on one of the loops: what the code awaits runs there. A namespace is an option.
-spec eval(pool(), py:code(), py:kwargs(), timeout() | py:eval_options()) -> py:result().
eval(Pool, Code, Variables, Options) ->
    ?EXPLAINED(
        [
            {pool, Pool}, {code, Code}, {variables, Variables},
            {{timeout_or_options, [timeout, return, values, affinity, namespace, file, line]}, Options}
        ],
        request_call(Pool, {eval, py:text(Code), Variables}, Options)
    ).

%% @equiv exec(Pool, Code, 5000)
-spec exec(pool(), py:code()) -> ok | {error, py:reason()}.
exec(Pool, Code) ->
    exec(Pool, Code, 5000).

%% @doc As `py:exec/2', on one of the loops: what the code awaits runs there. A namespace is an option.
-spec exec(pool(), py:code(), timeout() | py:exec_options()) -> ok | {error, py:reason()}.
exec(Pool, Code, Options) ->
    ?EXPLAINED(
        [
            {pool, Pool}, {code, Code},
            {{timeout_or_options, [timeout, affinity, namespace, file, line]}, Options}
        ],
        begin
            %% It has no result.
            ok = py_options:no_result(Options),
            case request_call(Pool, {exec, py:text(Code), #{}}, Options) of
                {ok, _} -> ok;
                {error, Reason} -> {error, Reason}
            end
        end
    ).

%% @equiv cast(Pool, Module, Function, Args, #{})
-spec cast(pool(), py:name() | py:object(), py:name(), [term()]) -> ok | {error, py:reason()}.
cast(Pool, Module, Function, Args) ->
    cast(Pool, Module, Function, Args, #{}).

%% @equiv cast(Pool, Module, Function, Args, Kwargs, #{})
-spec cast(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs()) ->
    ok | {error, py:reason()}.
cast(Pool, Module, Function, Args, Kwargs) ->
    cast(Pool, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:cast/5', on one of the loops. The only option is `affinity'.
-spec cast(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs(), #{affinity => term()}) ->
    ok | {error, py:reason()}.
cast(Pool, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {pool, Pool}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{options, [affinity]}, Options}
        ],
        begin
            {Affinity, Rest} = affinity(Options),
            Rest =:= #{} orelse error(badarg),
            spread(Pool, 0, Affinity, fun(Loop, _) ->
                refused(py_event_loop:cast(Loop, Module, Function, Args, Kwargs))
            end)
        end
    ).

request_call(Pool, Call, Options) ->
    {Timeout, Rest0} = timeout(Options),
    {Affinity, Rest} = affinity(Rest0),
    Sent = py_options:with(Rest, Call),
    spread(Pool, Timeout, Affinity, fun(Loop, Left) -> request(Loop, Sent, Left) end).

affinity(#{affinity := Key} = Options) -> {{key, Key}, maps:remove(affinity, Options)};
affinity(#{} = Options) -> {none, Options};
affinity(_) -> error(badarg).

timeout(#{} = Options) ->
    {Timeout, Rest} = py_options:take_timeout(Options),
    py:is_timeout(Timeout) orelse error(badarg),
    {Timeout, Rest};
timeout(Timeout) ->
    py:is_timeout(Timeout) orelse error(badarg),
    {Timeout, #{}}.

until(Timeout) when is_integer(Timeout) -> {until, erlang:monotonic_time(millisecond) + Timeout};
until(Limit) -> Limit.

left({until, Until}) -> max(0, Until - erlang:monotonic_time(millisecond));
left(Timeout) -> Timeout.

%% A refused request may go to another loop. The reply to one that was started may be
%% `{error, loop_down}', too, and is final.
request(Loop, Call, Timeout) when is_pid(Loop) ->
    py:request_once(Loop, Call, Timeout);
request(Loop, Call, Timeout) ->
    case whereis(Loop) of
        undefined -> {refused, loop_down};
        Pid -> py:request_once(Pid, Call, Timeout)
    end.

%% @equiv submit(Pool, Module, Function, Args, #{})
-spec submit(pool(), py:name() | py:object(), py:name(), [term()]) -> {ok, py:task()} | {error, py:reason()}.
submit(Pool, Module, Function, Args) ->
    submit(Pool, Module, Function, Args, #{}).

%% @equiv submit(Pool, Module, Function, Args, Kwargs, #{})
-spec submit(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs()) ->
    {ok, py:task()} | {error, py:reason()}.
submit(Pool, Module, Function, Args, Kwargs) ->
    submit(Pool, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:submit/5', on one of the loops.
-spec submit(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs(), py:submit_options()) ->
    {ok, py:task()} | {error, py:reason()}.
submit(Pool, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {pool, Pool}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{options, [return, values, affinity]}, Options}
        ],
        begin
            {Affinity, Rest} = affinity(Options),
            spread(Pool, 0, Affinity, fun(Loop, _) ->
                refused(py_event_loop:submit(Loop, Module, Function, Args, Kwargs, Rest))
            end)
        end
    ).

%% @equiv stream(Pool, Module, Function, Args, #{}, #{})
-spec stream(pool(), py:name() | py:object(), py:name(), [term()]) -> {ok, py:stream()} | {error, py:reason()}.
stream(Pool, Module, Function, Args) ->
    stream(Pool, Module, Function, Args, #{}, #{}).

%% @equiv stream(Pool, Module, Function, Args, Kwargs, #{})
-spec stream(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Pool, Module, Function, Args, Kwargs) ->
    stream(Pool, Module, Function, Args, Kwargs, #{}).

%% @doc As `py:stream/5', on one of the loops.
-spec stream(pool(), py:name() | py:object(), py:name(), [term()], py:kwargs(), py_stream:options()) ->
    {ok, py:stream()} | {error, py:reason()}.
stream(Pool, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {pool, Pool}, {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {pool_stream_options, Options}
        ],
        begin
            {Affinity, Rest} = affinity(Options),
            spread(Pool, 0, Affinity, fun(Loop, _) ->
                refused(py_event_loop:stream(Loop, Module, Function, Args, Kwargs, Rest))
            end)
        end
    ).

%% @doc The loops, in the order of their names.
-spec info(pool()) -> {ok, [loop_info()]} | {error, noproc}.
info(Pool) ->
    is_atom(Pool) orelse
        error(badarg, [Pool], py_misuse:info(#{1 => py_misuse:text(pool, Pool)})),
    case is_pid(whereis(Pool)) andalso persistent_term:get(?KEY(Pool), false) of
        false ->
            {error, noproc};
        #{scope := _} = Group ->
            {ok, py_group_pool:info(Group)};
        #pool{names = Names, size = Size} ->
            Numbered = lists:zip(lists:seq(1, tuple_size(Names)), tuple_to_list(Names)),
            {ok, [(loop_info(Name))#{spare => N > Size} || {N, Name} <- Numbered]}
    end.

loop_info(Name) ->
    case py_event_loop:info(Name) of
        {ok, Info} -> Info#{name => Name};
        {error, _} -> #{name => Name, pid => undefined, queued => 0, unanswered => 0}
    end.

%% Whose turn it is

%% Tries one loop, and the others if it refuses. If none is up, waits for one. `Limit': a timeout,
%% which has not begun, or the time when it ends. Nearly all requests go to the first loop, at once:
%% they do without reading the clock.
spread(Pool, Limit, Affinity, Submit) ->
    is_atom(Pool) orelse error(badarg),
    case persistent_term:get(?KEY(Pool), undefined) of
        undefined ->
            {error, {no_pool, Pool}};
        #pool{is_local = true} = Known ->
            placed(Pool, Limit, Affinity, Submit, Known);
        Known ->
            placed(Pool, until(Limit), Affinity, Submit, Known)
    end.

placed(Pool, Limit, Affinity, Submit, Known) ->
    case submit_to_one(Limit, Submit, Known, Affinity) of
        {error, unavailable} -> later(Pool, Limit, Affinity, Submit);
        Result -> Result
    end.

submit_to_one(Limit, Submit, #pool{names = Names} = Known, Affinity) ->
    submit_each(Limit, Submit, Names, first(Known, Affinity), tuple_size(Names), unavailable);
submit_to_one(Limit, Submit, #{scope := Scope} = Group, Affinity) ->
    case py_group_pool:order(Group, Affinity) of
        none -> not_allowed(py_groups:refusal(Scope));
        {First, Others} -> submit_in_group(Limit, Submit, First, Others, unavailable)
    end.

not_allowed(none) -> {error, unavailable};
not_allowed(Text) -> {error, {unavailable, Text}}.

submit_in_group(Limit, Submit, Loop, Others, Refused) ->
    Result =
        case py_group_pool:is_reachable(Loop) of
            true -> Submit(Loop, left(Limit));
            false -> {refused, loop_down}
        end,
    case again(Result, Refused) of
        {yes, Reason} ->
            case Others() of
                [] -> {error, Reason};
                [Next | Rest] -> submit_in_group(Limit, Submit, Next, fun() -> Rest end, Reason)
            end;
        {no, Final} ->
            Final
    end.

submit_each(_Limit, _Submit, _Names, _N, 0, Refused) ->
    {error, Refused};
submit_each(Limit, Submit, Names, N, Left, Refused) ->
    case again(Submit(element(N, Names), left(Limit)), Refused) of
        {yes, Reason} -> submit_each(Limit, Submit, Names, next(N, tuple_size(Names)), Left - 1, Reason);
        {no, Final} -> Final
    end.

%% Whether a request goes to another loop, because it has not begun at this one.
again({refused, overload}, _) -> {yes, overload};
again({refused, loop_down}, Refused) -> {yes, Refused};
again({refused, {peer_down, _}}, Refused) -> {yes, Refused};
again({refused, Reason}, _) -> {no, {error, Reason}};
again(Result, _) -> {no, Result}.

refused({error, {no_loop, _}}) -> {refused, loop_down};
refused({error, Reason}) -> {refused, Reason};
refused(ok) -> ok;
refused({ok, _} = Started) -> Started.

%% The supervisor replies after it has replaced a loop, or ends at its restart limit.
later(_Pool, 0, _Affinity, _Submit) ->
    {error, unavailable};
later(Pool, Limit, Affinity, Submit) ->
    Until = until(Limit),
    try gen_server:call(Pool, count_children, left(Until)) of
        _ ->
            %% It may not have noticed the loop's end before it replied.
            timer:sleep(1),
            case left(Until) of
                0 -> {error, unavailable};
                _ -> spread(Pool, Until, Affinity, Submit)
            end
    catch
        %% The time is over, or the pool has ended.
        exit:_ -> {error, unavailable}
    end.

%% With round-robin alone, a blocked loop goes on getting its share: with 4 loops and one coroutine
%% in 50 that blocks for 20 ms, the 99th percentile of the others was 100 ms, with the better of two
%% loops 62 ms, with the best of all 46 ms. Reading the load of a loop takes time, so the number of
%% loops compared is limited. Preferring loops that have requests in their queue, which
%% are awake, saved a tenth of the processor time, and was not worth it.
first(#pool{names = {_}}, _Affinity) ->
    1;
%% Rendezvous hashing, as in a group.
first(#pool{names = Names, size = Size} = Pool, {key, Key}) ->
    Hashed = [{erlang:phash2({Key, element(N, Names)}), N} || N <- lists:seq(1, Size)],
    {_, N} = lists:min(Hashed),
    {Up, _} = load(N, Pool),
    Up;
first(#pool{names = Names, size = Size, turns = Turns} = Pool, none) ->
    N = atomics:add_get(Turns, 1, 1) rem Size + 1,
    Count = min(?LOOKS, Size),
    case py_nif:python_loop_least(Names, N, Count, Size) of
        0 ->
            {Up, Load} = load(N, Pool),
            better(next(N, Size), Pool, Count - 1, Up, Load);
        Least ->
            Least
    end.

better(_N, _Pool, _Left, Best, 0) ->
    Best;
better(_N, _Pool, 0, Best, _Least) ->
    Best;
better(N, #pool{size = Size} = Pool, Left, Best, Least) ->
    case load(N, Pool) of
        {Up, Less} when Less < Least -> better(next(N, Size), Pool, Left - 1, Up, Less);
        _ -> better(next(N, Size), Pool, Left - 1, Best, Least)
    end.

next(N, Size) ->
    N rem Size + 1.

%% Of the loop, or of the spare one that stands in for it.
load(N, #pool{names = Names, size = Size}) ->
    case {load_of(element(N, Names)), tuple_size(Names) - Size} of
        {down, 0} ->
            {N, infinity};
        {down, Spare} ->
            StandIn = Size + (N - 1) rem Spare + 1,
            case load_of(element(StandIn, Names)) of
                down -> {N, infinity};
                Load -> {StandIn, Load}
            end;
        {Load, _} ->
            {N, Load}
    end.

%% Atoms are more than any number: a loop of another node is taken in its turn.
load_of(Name) ->
    case whereis(Name) of
        undefined ->
            down;
        Pid ->
            case py_nif:python_loop_of(Pid) of
                {ok, _Queued, Unanswered} -> Unanswered;
                {error, loop_down} -> load_of_remote(Pid)
            end
    end.

load_of_remote(Pid) ->
    case py_remote:load(Pid) of
        {ok, Load} -> Load;
        {error, loop_down} -> down
    end.

%% @private
-spec start_loop(py_event_loop:options(), [atom()], atom()) -> {ok, pid()} | {error, term()}.
start_loop(Options, Spares, Name) ->
    case py_event_loop:start_link(own_options(Options, Spares, Name)) of
        {error, {already_started, Pid}} = Refused ->
            %% A loop of a killed pool of this name: it is about to end.
            Monitor = monitor(process, Pid),
            receive
                {'DOWN', Monitor, process, Pid, _} -> start_loop(Options, Spares, Name)
            after ?ORPHANED ->
                true = demonitor(Monitor, [flush]),
                Refused
            end;
        Started ->
            Started
    end.

%% Other nodes do not use the spares.
own_options(Options, Spares, Name) ->
    case lists:member(Name, Spares) of
        true -> maps:remove(group, Options#{name => Name});
        false -> Options#{name => Name}
    end.

%% @private
-spec init(options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(Options) ->
    Flags = #{
        strategy => simple_one_for_one,
        intensity => maps:get(intensity, Options, 10),
        period => maps:get(period, Options, 10)
    },
    LoopOptions = maps:without([name, size, spare, intensity, period], Options),
    #{name := Pool} = Options,
    Size = maps:get(size, Options, 4),
    Spares = [loop_name(Pool, Size + N) || N <- lists:seq(1, maps:get(spare, Options, 0))],
    Spec = py_event_loop:child_spec(LoopOptions),
    {ok, {Flags, [Spec#{start => {?MODULE, start_loop, [LoopOptions, Spares]}}]}}.
