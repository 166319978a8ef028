%% @doc When something goes wrong unexpectedly: does every caller get a reply, does it say
%% so, and does the rest go on?
%%
%% Faults that belong to one feature are in its own suite.
-module(py_failing_code_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_panic_in_a_function/1,
    a_panic_in_a_coroutine/1,
    a_panic_in_a_stream/1,
    a_panic_beside_a_loop/1,
    a_panic_on_the_main_thread/1,
    an_exception_in_a_finalizer_is_the_reply/1,
    an_exception_in_a_finalizer_without_a_caller_is_logged/1,
    an_exception_in_a_finalizer_at_the_loops_end/1,
    a_coroutine_that_is_never_awaited/1,
    a_coroutine_inside_a_result_is_refused/1,
    a_future_that_cannot_be_cancelled/1,
    notes_that_always_raise/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    Started = streams:begin_suite(Config),
    %% Native code knows of its own exception when it has seen any.
    called:is_error("ValueError", "x", py:call(called, fail, [<<"x">>])),
    Started.

end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> called:begin_case(Config).
end_per_testcase(_Case, Config) -> streams:end_case(Config).

%% Panics in native code. None is known, so Python code raises them here, as they would arrive
%% after crossing it.

a_panic_in_a_function(_Config) ->
    ?assertEqual({error, panicked}, py:call(called, panic, [])),
    ?assertEqual({error, panicked}, py:eval(<<"__import__('called').panic()">>)),
    ok = log_watch:start(),
    ok = py:cast(called, panic, []),
    called:is_logged("A cast to Python function called.panic failed"),
    called:is_logged("a fault of erlang_loop"),
    ok = log_watch:stop(),
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])).

a_panic_in_a_coroutine(_Config) ->
    _ = [?assertEqual({error, panicked}, py:call(called, panic_later, [])) || _ <- [1, 2]],
    {ok, Loop} = py_event_loop:start_link(#{}),
    ?assertEqual({error, panicked}, py_event_loop:run(Loop, called, panic_later, [])),
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    eventually:is(
        {ok, #{pid => Loop, queued => 0, unanswered => 0}}, fun() -> called:counts(Loop) end
    ),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])).

a_panic_in_a_stream(_Config) ->
    Keep = fun(Item, Items) -> [Item | Items] end,
    _ = [
        ?assertEqual({error, panicked}, py:fold(Keep, [], streamed, Function, []))
     || Function <- [panics, plain_panics]
    ],
    ?assertEqual({ok, [1, 0]}, py:fold(Keep, [], streamed, count, [2])).

%% Previously the loop continued to count them as pending.
a_panic_beside_a_loop(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    ?assertEqual({error, panicked}, py_event_loop:run(Loop, called, panic, [])),
    Keep = fun(Item, Items) -> [Item | Items] end,
    Options = #{loop => Loop},
    ?assertEqual({error, panicked}, py:fold(Keep, [], streamed, plain_panics, [], #{}, Options)),
    eventually:is(
        {ok, #{pid => Loop, queued => 0, unanswered => 0}}, fun() -> called:counts(Loop) end
    ),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

a_panic_on_the_main_thread(_Config) ->
    {error, Text} = py_interpreter:run(<<"called">>, <<"panic">>, []),
    ?assertNotEqual(nomatch, string:find(Text, "a panic in native code: on purpose")),
    {ok, _} = py_interpreter:run(<<"threading">>, <<"active_count">>, []).

%% Finalizers

an_exception_in_a_finalizer_is_the_reply(_Config) ->
    {ok, Task} = py:submit(called, fail_at_the_end, [<<"x">>]),
    called:has_noted(<<"x started">>),
    ok = py:cancel(Task),
    called:is_error("KeyError", "in a finalizer", py:await(Task)).

an_exception_in_a_finalizer_without_a_caller_is_logged(_Config) ->
    ok = log_watch:start(),
    ?assertEqual({error, timeout}, py:call(called, fail_at_the_end, [<<"x">>], #{}, 50)),
    called:is_logged("called.fail_at_the_end failed after its caller timed out, cancelled or died"),
    called:is_logged("in a finalizer"),
    ok = log_watch:stop(),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])).

an_exception_in_a_finalizer_at_the_loops_end(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Task} = py_event_loop:submit(Loop, called, fail_at_the_end, [<<"x">>]),
    called:has_noted(<<"x started">>),
    {ok, _} = py_event_loop:run(Loop, called, leave_failing_generator, []),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)),
    called:is_error("KeyError", "in a finalizer", py:await(Task)).

%% Coroutines

a_coroutine_that_is_never_awaited(_Config) ->
    ?assertEqual({ok, <<"forgotten">>}, py:call(called, forget_coroutine, [])),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])).

a_coroutine_inside_a_result_is_refused(_Config) ->
    called:is_error("ConversionError", "result[0]", py:call(called, hide_coroutine, [])),
    Streamed = py:fold(fun(Item, _) -> Item end, none, called, hide_coroutine, []),
    called:is_error("ConversionError", "item", Streamed).

%% Objects of unusual classes

%% Previously its exception ended the loop, with everything that ran there.
a_future_that_cannot_be_cancelled(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, Other} = py_event_loop:submit(Loop, called, add_later, [1, 2]),
    {ok, _} = py_event_loop:run(Loop, called, make_stubborn_future, []),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_for_stubborn_future, []),
    eventually:is({ok, true}, fun() -> py:call(called, is_awaited, []) end),
    ok = log_watch:start(),
    ok = py:cancel(Task),
    called:is_logged("Exception when Erlang cancelled a future"),
    ok = log_watch:stop(),
    ?assertEqual({ok, 3}, py:await(Other)),
    ?assertEqual({ok, 3}, py_event_loop:run(Loop, called, add_later, [1, 2])),
    {ok, _} = py_event_loop:run(Loop, called, end_stubborn_future, [<<"ended">>]),
    ?assertEqual({ok, <<"ended">>}, py:await(Task)),
    ?assertEqual({ok, []}, py_event_loop:stop(Loop)).

%% Previously callers waited forever: the errors were skipped, one after another.
notes_that_always_raise(_Config) ->
    called:is_error("ValueError", "noted", py:call(called, fail_with_notes, [<<"noted">>])).
