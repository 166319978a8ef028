%% @doc For suites of streams: their items and ends, and that each case ends those it began. Python's
%% generators are in test/support/python/streamed.py.
-module(streams).

-include_lib("stdlib/include/assert.hrl").

-export([begin_suite/1, end_case/1]).
-export([all_of/3, rest_of/1, await_items/2, items/1, settle/0]).

%% @doc For init_per_suite/1, in place of `called:begin_suite/1': Python's module is imported, too.
-spec begin_suite(Config) -> Config when Config :: [{atom(), term()}].
begin_suite(Config) ->
    Started = called:begin_suite(Config),
    {ok, 0} = py:call(streamed, count_open, []),
    Started.

%% @doc The result of end_per_testcase/2: no task, no generator and no message is left.
-spec end_case([{atom(), term()}]) -> ok | {fail, term()}.
end_case(Config) ->
    ok = called:settle(),
    eventually:is({ok, 0}, fun() -> py:call(called, count_tasks, []) end),
    eventually:is({ok, 0}, fun() -> py:call(streamed, count_open, []) end),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    leak_check:end_case(Config).

%% @doc All items of a stream, and its end.
-spec all_of(py:name(), py:name(), [term()]) -> {[term()], term()}.
all_of(Module, Function, Args) ->
    {ok, Stream} = py:stream(Module, Function, Args, #{}, #{demand => 1000}),
    rest_of(Stream).

%% @doc The items that come, and how it ends.
-spec rest_of(py:stream()) -> {[term()], term()}.
rest_of(Stream) ->
    rest_of(Stream, []).

rest_of(Stream, Items) ->
    receive
        {py_stream, Stream, {data, Item}} -> rest_of(Stream, [Item | Items]);
        {py_stream, Stream, End} -> {lists:reverse(Items), End}
    after 10_000 -> error({no_end, lists:reverse(Items)})
    end.

%% @doc Waits for this many items.
-spec await_items(py:stream(), non_neg_integer()) -> [term()].
await_items(_Stream, 0) ->
    [];
await_items(Stream, Count) ->
    receive
        {py_stream, Stream, {data, Item}} -> [Item | await_items(Stream, Count - 1)];
        {py_stream, Stream, End} -> error({ended, End})
    after 10_000 -> error({no_item, Count})
    end.

%% @doc Those that are there.
-spec items(py:stream()) -> [term()].
items(Stream) ->
    receive
        {py_stream, Stream, {data, Item}} -> [Item | items(Stream)];
        {py_stream, Stream, End} -> [End | items(Stream)]
    after 0 -> []
    end.

%% @doc Long enough for something that must not come: a round trip to the loop and to call threads.
-spec settle() -> ok.
settle() ->
    _ = [{ok, 3} = py:call(called, Function, [1, 2]) || Function <- [add, add_later], _ <- [1, 2, 3]],
    ok.
