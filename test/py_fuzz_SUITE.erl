%% @doc Can any input end the node, or take something from it?
%%
%% Each case runs in a node of its own and prints its seed: `FUZZ_SEED=Seed' repeats it.
%% `make test' makes some ten thousand inputs of each kind, `make fuzz' millions (`FUZZ_INPUTS').
-module(py_fuzz_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([
    any_term_in_any_argument_of_any_nif/1,
    any_term_to_python/1,
    any_python_value_to_erlang/1
]).
%% Called in the other node.
-export([nifs/3, terms/2, values/2]).

%% Calls of one process.
-define(BATCH, 1000).

suite() -> [{timetrap, {hours, 12}}].

all() ->
    [
        any_term_in_any_argument_of_any_nif,
        any_term_to_python,
        any_python_value_to_erlang
    ].

any_term_in_any_argument_of_any_nif(_Config) ->
    there(nifs, [nif_signatures:all()], 40_000).

any_term_to_python(_Config) ->
    there(terms, [], 20_000).

any_python_value_to_erlang(_Config) ->
    there(values, [], 20_000).

%% In the other node

nifs(Seed, Inputs, Signatures) ->
    %% Else a batch would start it, with anything as its command line.
    ok = py_interpreter:ensure_started(),
    {ok, 3} = py:call(called, add_later, [1, 2]),
    %% The first batches create everything that stays.
    _ = batches(Seed, 0, 5, Signatures),
    settled(),
    Before = footprint:measure(),
    Outcome = batches(Seed, 5, max(1, Inputs div ?BATCH), Signatures),
    settled(),
    _ = back_to(Before, Inputs),
    %% All of it still works.
    {ok, 3} = py:eval("1 + 2"),
    {ok, 3} = py:call(called, add_later, [1, 2]),
    Outcome.

batches(Seed, From, Count, Signatures) ->
    lists:foldl(
        fun(Number, Sum) ->
            Outcome = nif_fuzz:batch({Seed, Number}, ?BATCH, Signatures),
            maps:merge_with(fun(_, One, Other) -> One + Other end, Sum, Outcome)
        end,
        #{},
        lists:seq(From, From + Count - 1)
    ).

%% The fuzzer has registered itself as the router and others: the real ones take over again.
settled() ->
    Names = [py_event_router, py_signals, py_calls, py_default_loop],
    _ = [mortal:kill_registered(Name) || Name <- Names],
    eventually:is(true, fun() -> py:call(called, add_later, [1, 2]) =:= {ok, 3} end),
    %% The new default loop has its fds from now on.
    {ok, _} = py:call(called, watch_something, []).

terms(Seed, Inputs) ->
    _ = rand:seed(exsss, Seed),
    ok = python_values:start(),
    Crossed = fun(Count) ->
        [crossed(any_term:make(rand:uniform(40))) || _ <- lists:seq(1, Count)]
    end,
    %% Starts the default loop and call threads, which stay.
    {ok, 3} = py:call(called, add_later, [1, 2]),
    _ = Crossed(2000),
    Before = footprint:measure(),
    Outcome = lists:foldl(
        fun(_, Sum) -> tally(Crossed(?BATCH), Sum) end, #{}, lists:seq(1, max(1, Inputs div ?BATCH))
    ),
    _ = back_to(Before, Inputs),
    Outcome.

%% What comes back is what goes out again, or there is a reason why it cannot cross.
crossed(Term) ->
    case python_values:echo(Term) of
        {ok, Back} ->
            ?assertEqual({ok, Back}, python_values:echo(marked(Back))),
            ok;
        {error, #{type := <<"erlang.ConversionError">>, message := <<_, _/binary>>}} ->
            error
    end.

%% Bytes come back as a binary, which goes out as text unless it is marked.
marked(Binary) when is_binary(Binary) -> {bytes, Binary};
marked([Head | Tail]) -> [marked(Head) | marked(Tail)];
marked(Tuple) when is_tuple(Tuple) -> list_to_tuple(marked(tuple_to_list(Tuple)));
marked(Map) when is_map(Map) ->
    maps:from_list([{marked(Key), marked(Value)} || {Key, Value} <- maps:to_list(Map)]);
marked(Other) -> Other.

values(Seed, Inputs) ->
    {ok, _} = py:call(strange_values, cross, [Seed, 2000], #{}, 600_000),
    Before = footprint:measure(),
    Outcome = lists:foldl(
        fun(Number, Sum) ->
            {ok, Counts} = py:call(strange_values, cross, [Seed + Number, ?BATCH], #{}, 600_000),
            maps:merge_with(fun(_, One, Other) -> One + Other end, Sum, Counts)
        end,
        #{},
        lists:seq(1, max(1, Inputs div ?BATCH))
    ),
    _ = back_to(Before, Inputs),
    Outcome.

tally(Outcomes, Sum) ->
    lists:foldl(
        fun(Outcome, Counts) -> maps:update_with(Outcome, fun(N) -> N + 1 end, 1, Counts) end,
        Sum,
        Outcomes
    ).

%% A lost object for every tenth input would be more than this. Free-threaded Python has another
%% allocator, whose memory goes up and down by much more than the other's, though not on and on.
back_to(Before, Inputs) ->
    {ok, HasGil} = py:eval("not __import__('sysconfig').get_config_var('Py_GIL_DISABLED')"),
    Slack =
        case HasGil of
            true -> 30_000_000;
            false -> 120_000_000
        end,
    footprint:back_to(Before, Slack + 10 * Inputs).

%% The node

there(Function, Args, Inputs) ->
    Seed = setting("FUZZ_SEED", erlang:system_time(microsecond)),
    Wanted = setting("FUZZ_INPUTS", Inputs),
    io:format(user, "~p: seed ~p~n", [Function, Seed]),
    %% A name that cannot be found fails at once.
    true = os:putenv("RES_OPTIONS", "timeout:1 attempts:1"),
    Node = other_node:start([{python_path, [project:file("test/support/python")]}]),
    try
        {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
        ok = other_node:call(Node, logger, set_primary_config, [level, none]),
        Outcome = peer:call(Node, ?MODULE, Function, [Seed, Wanted | Args], infinity),
        io:format(user, "~p: ~p~n", [Function, Outcome]),
        ok = other_node:call(Node, application, stop, [erlang_loop])
    after
        other_node:stop(Node)
    end.

setting(Name, Default) ->
    case os:getenv(Name) of
        false -> Default;
        Text -> list_to_integer(Text)
    end.
