%% @doc Finds mistakes of asyncio programs in a running node, each with its line.
%%
%% ```
%% [#{kind := never_awaited, file := File, line := Line} | _] = py_lint:find().
%% '''
%%
%% Most are read from {@link py_inspect} when a process asks: nothing is checked otherwise. What
%% only Python notices, when an object is collected, arrives by {@link noted/6} and is kept here:
%% the last place of each kind and line, and how often. It also works while a thread keeps the GIL.
-module(py_lint).

-export([find/0, find/1, watch/1, watch/2, print/0, forget/0]).
%% For erlang_loop_sup, and for python/erlang_loop/lints.py.
-export([create_table/0, noted/6]).
%% A process of its own.
-export([stacks_and_exit/0]).

-export_type([lint/0, kind/0, options/0]).

-type kind() ::
    %% A callback or a task that has not yielded for `no_yield_ms'.
    no_yield
    %% A task that has waited at one place for `long_wait_ms'.
    | long_wait
    %% A coroutine that was never awaited, and an exception that was never retrieved.
    | never_awaited
    | never_retrieved
    %% A producer that has waited for demand for `no_demand_ms'.
    | no_demand
    %% A loop, or the queue of the call threads, that has `near' of the requests that it accepts.
    | near_limit.

-type lint() :: #{
    kind := kind(),
    %% Of the loop, task, coroutine, exception or stream.
    name := binary() | atom(),
    %% The number of the loop; `undefined': none, or unknown.
    loop := pos_integer() | undefined,
    %% `undefined': there is no line, as of a limit.
    file := binary() | undefined,
    line := non_neg_integer() | undefined,
    function := binary() | undefined,
    %% For how long, if it lasts.
    for_ms := non_neg_integer() | undefined,
    %% How often it was found: 1, if Python does not count it.
    count := pos_integer()
}.

-type options() :: #{
    %% Default: all. `long_wait' has each loop list its tasks, `no_yield' reads the stacks of threads.
    kinds => [kind()],
    no_yield_ms => pos_integer(),
    long_wait_ms => pos_integer(),
    no_demand_ms => pos_integer(),
    near => float()
}.

-define(KINDS, [no_yield, long_wait, never_awaited, never_retrieved, no_demand, near_limit]).
-define(DEFAULTS, #{no_yield_ms => 50, long_wait_ms => 600_000, no_demand_ms => 10_000, near => 0.8}).
%% Places that are kept.
-define(MOST, 200).
%% Between two readings of watch/2.
-define(EVERY_MS, 10).
%% How long to wait for the GIL before the stacks are read without it.
-define(PATIENCE_MS, 20).

%% @equiv find(#{})
-spec find() -> [lint()].
find() ->
    find(#{}).

%% @doc What is wrong now, and what Python has noted so far.
-spec find(options()) -> [lint()].
find(Options) ->
    #{kinds := Kinds} = Checked = checked(Options),
    Loops = py_inspect:loops(),
    Found = [
        {no_yield, fun() -> no_yield(Loops, Checked) end},
        {near_limit, fun() -> near_limit(Loops, Checked) end},
        {long_wait, fun() -> long_wait(Loops, Checked) end},
        {no_demand, fun() -> no_demand(Checked) end}
    ],
    Notes = [Note || #{kind := Kind} = Note <- notes(), lists:member(Kind, Kinds)],
    lists:append([Find() || {Kind, Find} <- Found, lists:member(Kind, Kinds)]) ++ Notes.

%% @equiv watch(Ms, #{})
-spec watch(Ms :: pos_integer()) -> [lint()].
watch(Ms) ->
    watch(Ms, #{}).

%% @doc As {@link find/1}, and watches the turns of all loops for `Ms' milliseconds meanwhile:
%% of each line that does not yield, the longest time.
-spec watch(Ms :: pos_integer(), options()) -> [lint()].
watch(Ms, Options) when is_integer(Ms), Ms > 0, Ms =< 600_000 ->
    Checked = checked(Options),
    Seen = watched(erlang:monotonic_time(millisecond) + Ms, Checked, #{}),
    maps:values(Seen) ++ [Lint || #{kind := Kind} = Lint <- find(Options), Kind =/= no_yield];
watch(_, _) ->
    error(badarg).

watched(End, Options, Seen) ->
    Found = no_yield(py_inspect:loops(), Options),
    Now = lists:foldl(fun longest/2, Seen, Found),
    case erlang:monotonic_time(millisecond) >= End of
        true ->
            Now;
        false ->
            timer:sleep(?EVERY_MS),
            watched(End, Options, Now)
    end.

longest(#{loop := Loop, file := File, line := Line, for_ms := For} = Lint, Seen) ->
    maps:update_with(
        {Loop, File, Line},
        fun(#{for_ms := Before, count := Count} = Known) ->
            Known#{for_ms := max(For, Before), count := Count + (case For < Before of true -> 1; false -> 0 end)}
        end,
        Lint,
        Seen
    ).

%% @doc Prints what {@link find/0} returns, a line each.
-spec print() -> ok.
print() ->
    io:put_chars([[py_inspect_text:lint(Lint), $\n] || Lint <- find()]).

%% @doc Forgets what Python has noted so far.
-spec forget() -> ok.
forget() ->
    true = ets:delete_all_objects(?MODULE),
    ok.

checked(Options) when is_map(Options) ->
    maps:foreach(
        fun
            (kinds, Kinds) when is_list(Kinds) -> Kinds -- ?KINDS =:= [] orelse error({bad_option, {kinds, Kinds}});
            (near, Share) when is_number(Share), Share > 0, Share =< 1 -> ok;
            (Key, Ms) when is_map_key(Key, ?DEFAULTS), Key =/= near, Key =/= kinds, is_integer(Ms), Ms > 0 -> ok;
            (Key, Value) -> error({bad_option, {Key, Value}})
        end,
        Options
    ),
    maps:merge(?DEFAULTS#{kinds => ?KINDS}, Options);
checked(_) ->
    error(badarg).

%% A turn that lasts, and the line that it is at.

no_yield(Loops, #{no_yield_ms := Least}) ->
    Busy = [Loop || #{in_turn_ms := Ms} = Loop <- Loops, is_integer(Ms), Ms >= Least],
    Dump =
        case lists:any(fun(#{stack := Stack}) -> Stack =:= [] end, Busy) of
            true -> stacks();
            false -> {error, not_needed}
        end,
    lists:append([of_turn(Loop, Dump, Least) || Loop <- Busy]).

of_turn(#{id := Id, in_turn_ms := Ms, thread := Thread, stack := Known} = Loop, Dump, Least) ->
    Stack =
        case Known of
            [] -> py_stack_dump:frames(py_stack_dump:stack(Thread, Dump));
            _ -> Known
        end,
    %% The turn may have ended while the stacks were read: then they show another one.
    case {py_inspect:loop(Id), Stack} of
        {{ok, #{in_turn_ms := Now}}, [_ | _]} when is_integer(Now), Now >= Least ->
            [placed(own(Stack), lint(no_yield, name(Loop), Id, Ms))];
        _ ->
            []
    end.

%% In a process of its own: stacks that come late must not be a message to the caller.
stacks() ->
    {Pid, Monitor} = spawn_monitor(?MODULE, stacks_and_exit, []),
    receive
        {'DOWN', Monitor, process, Pid, {?MODULE, Result}} -> Result;
        {'DOWN', Monitor, process, Pid, Reason} -> {error, Reason}
    end.

%% @private
-spec stacks_and_exit() -> no_return().
stacks_and_exit() ->
    Token = erlang:unique_integer(),
    Result =
        case py_nif:watchdog_stacks(Token, ?PATIENCE_MS) of
            ok ->
                receive
                    {py_stacks, Token, Stacks} -> Stacks
                after 1000 -> {error, timeout}
                end;
            {error, Reason} ->
                {error, Reason}
        end,
    exit({?MODULE, Result}).

%% The innermost frame of the program: the mistake is not in the library that it waits in.
own([]) ->
    none;
own([Innermost | _] = Stack) ->
    hd([Frame || Frame <- Stack, not is_library(Frame)] ++ [Innermost]).

%% The standard library, and this one.
is_library(#{file := File}) ->
    Library = "/python3\\.[0-9]+t?/(?!site-packages/|dist-packages/)|/priv/python/erlang|^<frozen ",
    re:run(File, Library, [{capture, none}]) =:= match.

%% Limits

near_limit(Loops, #{near := Share}) ->
    Near = fun(Count, Limit) -> is_integer(Limit) andalso Limit > 0 andalso Count >= Share * Limit end,
    OfLoops = [
        lint(near_limit, name(Loop), Id, undefined)
     || #{id := Id, queued := Queued, max_queued := Queue, unanswered := Open, max_unanswered := Most} = Loop <- Loops,
        Near(Queued, Queue) orelse Near(Open, Most)
    ],
    #{queued := Waiting} = py_calls:info(),
    OfLoops ++ [lint(near_limit, call_threads, undefined, undefined) || Near(Waiting, py_settings:value(call_queue))].

%% Tasks

long_wait(Loops, #{long_wait_ms := Least}) ->
    %% Producers that wait for demand are another kind.
    Producers = [Id || #{id := Id, waits := true} <- py_inspect:streams()],
    [
        placed(own(lists:reverse(Stack)), lint(long_wait, Name, Id, Waits))
     || #{kind := python, id := Id} <- Loops,
        {ok, #{tasks := Tasks}} <- [py_inspect:tasks(Id)],
        #{name := Name, state := waiting, waits_ms := Waits, stack := Stack, request := Request} <- Tasks,
        Waits >= Least,
        not lists:member(Request, Producers)
    ].

%% The line of a stream is where its consumer is.

no_demand(#{no_demand_ms := Least}) ->
    [
        placed(place(Consumer), lint(no_demand, Name, Loop, Waits))
     || #{name := Name, loop := Loop, waits := true, waits_ms := Waits, consumer := Consumer} <- py_inspect:streams(),
        Waits >= Least
    ].

place(Pid) when node(Pid) =:= node() ->
    case process_info(Pid, current_stacktrace) of
        {current_stacktrace, Frames} -> frame(Frames);
        undefined -> none
    end;
place(_) ->
    none.

%% The first one that has a line: built-in functions have none.
frame(Frames) ->
    Own = [
        #{file => unicode:characters_to_binary(File), line => Line, function => function(Module, Function, Arity)}
     || {Module, Function, Arity, Info} <- Frames,
        %% The consumer may be the process that asks.
        Module =/= ?MODULE,
        {file, File} <- [lists:keyfind(file, 1, Info)],
        {line, Line} <- [lists:keyfind(line, 1, Info)]
    ],
    hd(Own ++ [none]).

function(Module, Function, Arity) ->
    unicode:characters_to_binary(io_lib:format("~tw:~tw/~b", [Module, Function, Arity])).

%% What Python notes

%% @private
-spec create_table() -> ok.
create_table() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, ordered_set]),
    ok.

%% @private
%% @doc Called by Python, for the first time and then whenever the count has doubled.
-spec noted(binary(), binary(), binary(), non_neg_integer(), binary(), pos_integer()) -> ok.
noted(Kind, Name, File, Line, Function, Count) ->
    Known = kind(Kind),
    Lint = placed(#{file => File, line => Line, function => Function}, lint(Known, Name, undefined, undefined)),
    Key = {Known, Name, File, Line},
    _ = (ets:info(?MODULE, size) < ?MOST orelse ets:member(?MODULE, Key)) andalso
        put_largest(Key, Count, Lint),
    ok.

%% Each note is a process of its own, so one may overtake the next.
put_largest(Key, Count, Lint) ->
    ets:insert_new(?MODULE, {Key, Count, Lint}) orelse
        ets:select_replace(?MODULE, [
            {{Key, '$1', '_'}, [{'<', '$1', Count}], [{{{element, 1, '$_'}, Count, {const, Lint}}}]}
        ]).

kind(<<"never_awaited">>) -> never_awaited;
kind(<<"never_retrieved">>) -> never_retrieved.

notes() ->
    [Lint#{count := Count} || {_, Count, Lint} <- ets:tab2list(?MODULE)].

%% Lints

lint(Kind, Name, Loop, For) ->
    #{
        kind => Kind, name => Name, loop => Loop, for_ms => For, count => 1,
        file => undefined, line => undefined, function => undefined
    }.

placed(none, Lint) -> Lint;
placed(#{file := File, line := Line, function := Function}, Lint) -> Lint#{file := File, line := Line, function := Function}.

name(#{name := undefined, id := Id}) -> <<"loop ", (integer_to_binary(Id))/binary>>;
name(#{name := Name}) -> Name.
