%% @doc Batches: many callers, one call of a Python function with a list. For functions that take
%% many items in little more time than one, as models do.
%%
%% ```
%% {ok, _} = py_batch:start_link(#{name => roots, call => {my_models, roots}, size => 32, delay => 5}),
%% {ok, 4.0} = py_batch:call(roots, 16).
%% '''
%%
%% The function gets a list of items and returns a list of results in the same order, one for each
%% item. An exception in it, as an item, is the error of that caller alone, and so is a value that
%% cannot be converted; an exception that the function raises is the error of all. A batch is never
%% run again.
%%
%% Takes calls `{call, Key, Item, Until}'. Each batch is run by a process of its own, so that this one
%% collects the next items meanwhile.
-module(py_batch).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").
-include("py_misuse.hrl").

-export([start_link/1, child_spec/1, stop/1, call/2, call/3, info/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([options/0, call_options/0]).

-type options() :: #{
    name := atom(),
    %% The function, a plain one or a coroutine function.
    call := {py:name(), py:name()},
    %% How many items a batch has at most. Default: 32.
    size => pos_integer(),
    %% Milliseconds that the first item of a batch waits for others. Default: 5.
    delay => non_neg_integer(),
    %% How many batches run at a time. Default: 1.
    concurrent => pos_integer(),
    %% Items that may wait; further ones return `{error, overload}'. Default: 10,000.
    max_queue => pos_integer(),
    %% Milliseconds that a batch may run. Default: 60,000.
    timeout => timeout(),
    %% Where batches run. Default: the default loop.
    loop => py_event_loop:loop(),
    pool => py_event_loop_pool:pool()
}.
-type call_options() :: #{
    %% Milliseconds that the caller waits. Default: 5,000.
    timeout => timeout(),
    %% Only items with equal keys are in one batch. The function gets the keyword argument `key'.
    key => term()
}.

-record(item, {
    from :: gen_server:from(),
    value :: term(),
    until :: integer() | infinity
}).

%% The items of one key that wait, the latest first.
-record(batch, {
    items = [] :: [#item{}],
    count = 0 :: non_neg_integer(),
    timer :: undefined | reference()
}).

-record(state, {
    options :: options(),
    batches = #{} :: #{key() => #batch{}},
    %% Batches that are due and wait because others run.
    due = queue:new() :: queue:queue({key(), [#item{}]}),
    waiting = 0 :: non_neg_integer(),
    running = #{} :: #{reference() => [#item{}]}
}).

-type key() :: none | {key, term()}.

-define(DEFAULTS, #{
    size => 32, delay => 5, concurrent => 1, max_queue => 10_000, timeout => 60_000
}).

%% @doc An unknown or invalid option raises `{bad_option, What, Why}'.
-spec start_link(options()) -> {ok, pid()} | {error, term()}.
start_link(Options) ->
    #{name := Name} = Checked = check(Options),
    case gen_server:start_link({local, Name}, ?MODULE, Checked, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc A child specification for your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(#{name := Name} = Options) ->
    #{id => Name, start => {?MODULE, start_link, [Options]}}.

check(#{name := Name, call := {_, _}} = Options) when is_atom(Name), Name =/= undefined ->
    is_map_key(loop, Options) andalso is_map_key(pool, Options) andalso
        py_event_loop_options:bad({pool, maps:get(pool, Options)}, "there is a loop, too"),
    maps:foreach(fun valid/2, Options),
    maps:merge(?DEFAULTS, Options);
check(Options) ->
    py_event_loop_options:bad(Options, "a batch is a map with a name, and call => {Module, Function}").

valid(name, _) ->
    ok;
valid(call, {Module, Function} = Call) ->
    is_name(Module) andalso is_name(Function) orelse
        py_event_loop_options:bad({call, Call}, "the names of a module and a function");
valid(Key, Value) when Key =:= size; Key =:= concurrent; Key =:= max_queue ->
    is_integer(Value) andalso Value > 0 orelse
        py_event_loop_options:bad({Key, Value}, "a positive number");
valid(delay, Value) ->
    is_integer(Value) andalso py:is_timeout(Value) orelse
        py_event_loop_options:bad({delay, Value}, "milliseconds");
valid(timeout, Value) ->
    py:is_timeout(Value) orelse
        py_event_loop_options:bad({timeout, Value}, "milliseconds, or infinity");
valid(loop, Loop) ->
    is_pid(Loop) orelse is_atom(Loop) orelse
        py_event_loop_options:bad({loop, Loop}, "the name or the pid of a loop");
valid(pool, Pool) ->
    is_atom(Pool) orelse py_event_loop_options:bad({pool, Pool}, "the name of a pool");
valid(Key, Value) ->
    py_event_loop_options:bad({Key, Value}, "no such option of a batch").

is_name(Name) ->
    is_atom(Name) orelse is_binary(Name) orelse io_lib:char_list(Name).

%% @doc Ends it. Callers that wait get `{error, noproc}'.
-spec stop(atom()) -> ok | {error, noproc}.
stop(Name) ->
    try
        gen_server:stop(Name)
    catch
        exit:_ -> {error, noproc}
    end.

%% @equiv call(Name, Item, 5000)
-spec call(atom() | pid(), term()) -> py:result().
call(Name, Item) ->
    call(Name, Item, #{}).

%% @doc Adds an item to a batch and waits for its result. After the timeout an item whose batch has not
%% begun is left out of it.
-spec call(atom() | pid(), term(), timeout() | call_options()) -> py:result().
call(Name, Item, #{} = Options) ->
    {Timeout, Rest} = py_options:take_timeout(Options),
    Key =
        case Rest of
            #{key := Value} when map_size(Rest) =:= 1 -> {key, Value};
            #{} when map_size(Rest) =:= 0 -> none;
            #{} -> error(badarg, [Name, Item, Options])
        end,
    py:is_timeout(Timeout) orelse error(badarg, [Name, Item, Options]),
    call(Name, Item, Key, Timeout);
call(Name, Item, Timeout) ->
    py:is_timeout(Timeout) orelse error(badarg, [Name, Item, Timeout]),
    call(Name, Item, none, Timeout).

call(Name, Item, Key, Timeout) ->
    try
        gen_server:call(Name, {call, Key, Item, until(Timeout)}, Timeout)
    catch
        exit:{timeout, _} -> {error, timeout};
        exit:_ -> {error, noproc}
    end.

until(infinity) -> infinity;
until(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

%% @doc How many items wait, and how many batches run.
-spec info(atom() | pid()) -> {ok, #{waiting | running => non_neg_integer()}} | {error, noproc}.
info(Name) ->
    try
        {ok, gen_server:call(Name, info)}
    catch
        exit:_ -> {error, noproc}
    end.

-spec init(options()) -> {ok, #state{}}.
init(Options) ->
    {ok, #state{options = Options}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}}.
handle_call({call, _, _, _}, _From, #state{waiting = Waiting, options = #{max_queue := Max}} = State) when
    Waiting >= Max
->
    {reply, {error, overload}, State};
handle_call({call, Key, Value, Until}, From, #state{waiting = Waiting} = State) ->
    Item = #item{from = From, value = Value, until = Until},
    {noreply, add(Key, Item, State#state{waiting = Waiting + 1})};
handle_call(info, _From, #state{waiting = Waiting, running = Running} = State) ->
    {reply, #{waiting => Waiting, running => map_size(Running)}, State};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_batch: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_batch: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({timeout, Timer, {due, Key}}, #state{batches = Batches} = State) ->
    case Batches of
        #{Key := #batch{timer = Timer}} -> {noreply, run_due(make_due(Key, State))};
        %% It was full before.
        #{} -> {noreply, State}
    end;
handle_info({'DOWN', Monitor, process, _, Reason}, #state{running = Running} = State) when
    is_map_key(Monitor, Running)
->
    {Items, Rest} = maps:take(Monitor, Running),
    %% It has replied to all, unless it was killed.
    _ = [reply(Item, {error, {batch_failed, Reason}}) || Reason =/= normal, Item <- Items],
    {noreply, run_due(State#state{running = Rest})};
handle_info(Message, State) ->
    ?LOG_WARNING("py_batch: unknown message ~p", [Message]),
    {noreply, State}.

add(Key, Item, #state{batches = Batches, options = #{size := Size, delay := Delay}} = State) ->
    #batch{items = Items, count = Count, timer = Timer} = Batch = maps:get(Key, Batches, #batch{}),
    More = Batch#batch{items = [Item | Items], count = Count + 1},
    case {Count + 1, Timer} of
        {Size, _} ->
            run_due(make_due(Key, State#state{batches = Batches#{Key => More}}));
        {_, undefined} ->
            Started = erlang:start_timer(Delay, self(), {due, Key}),
            State#state{batches = Batches#{Key => More#batch{timer = Started}}};
        _ ->
            State#state{batches = Batches#{Key => More}}
    end.

make_due(Key, #state{batches = Batches, due = Due} = State) ->
    {#batch{items = Items, timer = Timer}, Rest} = maps:take(Key, Batches),
    _ = [erlang:cancel_timer(Timer) || is_reference(Timer)],
    State#state{batches = Rest, due = queue:in({Key, lists:reverse(Items)}, Due)}.

run_due(#state{running = Running, options = #{concurrent := Most}} = State) when
    map_size(Running) >= Most
->
    State;
run_due(#state{due = Due, waiting = Waiting, running = Running, options = Options} = State) ->
    case queue:out(Due) of
        {empty, _} ->
            State;
        {{value, {Key, Items}}, Rest} ->
            Left = State#state{due = Rest, waiting = Waiting - length(Items)},
            case lists:filter(fun is_wanted/1, Items) of
                [] ->
                    run_due(Left);
                Wanted ->
                    {_, Monitor} = spawn_monitor(fun() -> run(Key, Wanted, Options) end),
                    run_due(Left#state{running = Running#{Monitor => Wanted}})
            end
    end.

%% The caller lives and still waits.
is_wanted(#item{from = {Caller, _}, until = Until}) ->
    (Until =:= infinity orelse Until > erlang:monotonic_time(millisecond)) andalso
        (node(Caller) =/= node() orelse is_process_alive(Caller)).

run(Key, Items, #{call := {Module, Function}} = Options) ->
    Args = [[Value || #item{value = Value} <- Items]],
    Kwargs = kwargs(Key),
    How = #{timeout => maps:get(timeout, Options), return => each},
    Result =
        case Options of
            #{pool := Pool} -> py_event_loop_pool:run(Pool, Module, Function, Args, Kwargs, How);
            #{loop := Loop} -> py_event_loop:run(Loop, Module, Function, Args, Kwargs, How);
            #{} -> py:call(Module, Function, Args, Kwargs, How)
        end,
    case Result of
        {ok, Results} when length(Results) =:= length(Items) ->
            lists:foreach(fun({Item, Own}) -> reply(Item, Own) end, lists:zip(Items, Results));
        {ok, Results} ->
            Wrong = {error, {batch_length, length(Results), expected, length(Items)}},
            lists:foreach(fun(Item) -> reply(Item, Wrong) end, Items);
        {error, _} ->
            lists:foreach(fun(Item) -> reply(Item, Result) end, Items)
    end.

kwargs(none) -> #{};
kwargs({key, Key}) -> #{key => Key}.

reply(#item{from = From}, Result) ->
    gen_server:reply(From, Result).
