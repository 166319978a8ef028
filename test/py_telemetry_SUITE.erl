%% @doc Do handlers of `telemetry' see what happens, and does a trace go to Python and back?
-module(py_telemetry_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    without_the_application_there_are_no_events/1,
    a_request_starts_and_stops/1,
    a_request_fails/1,
    submitted_requests/1,
    code_is_not_shown/1,
    questions_start_and_stop/1,
    questions_raise/1,
    a_loop_starts_and_stops/1,
    a_loop_is_stuck_and_goes_on/1,
    a_peer_starts_and_stops/1,
    handlers_that_raise_are_logged/1,
    the_page_has_every_event/1,
    a_trace_reaches_python_and_comes_back/1,
    a_trace_ends_with_its_function/1,
    a_trace_reaches_a_peer/1,
    malformed_traces_are_ignored/1
]).
%% Called in another node, or by Python.
-export([stuck/0, asked_by_python/0, fails/0]).

-define(HEADER, <<"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01">>).

suite() -> [{timetrap, {minutes, 1}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    Begun = called:begin_suite(Config),
    %% For peers; its processes stay.
    ok = py_peer_node:ensure_distributed(),
    Begun.
end_per_suite(_Config) -> called:stop().

init_per_testcase(Case, Config) ->
    Begun = called:begin_case(Config),
    case lists:member(Case, silent()) of
        true -> Begun;
        false -> true = telemetry:listen(), Begun
    end.

end_per_testcase(Case, Config) ->
    _ = lists:member(Case, silent()) orelse telemetry:stop(),
    called:end_case(Config).

silent() ->
    [
        without_the_application_there_are_no_events,
        a_loop_is_stuck_and_goes_on,
        the_page_has_every_event,
        a_trace_reaches_python_and_comes_back,
        a_trace_ends_with_its_function,
        a_trace_reaches_a_peer,
        malformed_traces_are_ignored
    ].

%% Events

without_the_application_there_are_no_events(_Config) ->
    ?assertNot(py_telemetry:is_on()),
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])),
    ok = py_telemetry:execute([erlang_loop, loop, start], #{}, #{}).

a_request_starts_and_stops(_Config) ->
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])),
    Request = #{target => default, module => called, function => add, arity => 2},
    {#{system_time := _, monotonic_time := Start}, Request} = event([request, start]),
    {#{duration := Duration, monotonic_time := End}, Stopped} = event([request, stop]),
    ?assertEqual(Request#{result => ok}, Stopped),
    ?assertEqual(Duration, End - Start).

a_request_fails(_Config) ->
    {error, #{type := _}} = py:call(called, fail, [<<"on purpose">>]),
    _ = event([request, start]),
    ?assertMatch({_, #{result := error, reason := #{type := _}}}, event([request, stop])),
    {ok, _} = py:call(called, hold, []),
    _ = event([request, start]),
    _ = event([request, stop]),
    ?assertEqual({error, timeout}, py:call(called, compute_until_released, [], #{}, 0)),
    _ = event([request, start]),
    ?assertMatch({_, #{result := error, reason := timeout}}, event([request, stop])).

submitted_requests(_Config) ->
    {ok, Task} = py:submit(called, add, [1, 2]),
    ?assertMatch({#{system_time := _}, #{how := submit, module := called, arity := 2}}, event([request, submit])),
    {ok, 3} = py:await(Task),
    ok = py:cast(called, hold, []),
    ?assertMatch({_, #{how := cast, function := hold}}, event([request, submit])),
    {ok, Stream} = py:stream(inspected, numbers, [], #{}, #{return => value}),
    ?assertMatch({_, #{how := stream, module := inspected}}, event([request, submit])),
    ok = py:cancel(Stream).

code_is_not_shown(_Config) ->
    {ok, 7} = py:eval("3 + 4"),
    {_, Metadata} = event([request, start]),
    ?assertEqual(#{target => default, code => eval}, Metadata),
    _ = event([request, stop]).

questions_start_and_stop(_Config) ->
    {ok, [3, 2, 1]} = py:eval("__import__('erlang').call('lists', 'reverse', [[1, 2, 3]])"),
    Question = #{module => lists, function => reverse, arity => 1},
    {#{system_time := _}, Question} = event([question, start]),
    ?assertMatch({#{duration := _}, Question}, event([question, stop])),
    others().

questions_raise(_Config) ->
    {error, #{type := _}} = py:eval(["__import__('erlang').call('", atom_to_list(?MODULE), "', 'fails')"]),
    _ = event([question, start]),
    {#{duration := _}, Failed} = event([question, exception]),
    ?assertMatch(#{kind := error, reason := on_purpose, stacktrace := [_ | _], function := fails}, Failed),
    others().

fails() -> error(on_purpose).

a_loop_starts_and_stops(_Config) ->
    {ok, Loop} = py_event_loop:start_link(#{name => telemetered}),
    {#{system_time := _}, #{loop := Loop, name := telemetered}} = event([loop, start]),
    {ok, []} = py_event_loop:stop(Loop),
    ?assertMatch({_, #{loop := Loop, reason := normal}}, event([loop, stop])).

a_loop_is_stuck_and_goes_on(_Config) ->
    called:in_node([{stuck_after, 100}], stuck, ?MODULE).

stuck() ->
    true = telemetry:listen(),
    {ok, Loop} = py_event_loop:start_link(#{}),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, Task} = py_event_loop:submit(Loop, called, wait_in_c, [Read]),
    {#{duration := _}, Stuck} = event([loop, stuck]),
    ?assertMatch(#{loop := Loop, id := _, policy := report, stack := [#{function := <<"wait_in_c">>} | _]}, Stuck),
    ok = py_nif:write_test_fd(Write, <<"x">>),
    ?assertMatch({#{duration := _}, #{loop := Loop}}, event([loop, resume])),
    ?assertEqual({ok, 1}, py:await(Task)),
    ok.

a_peer_starts_and_stops(_Config) ->
    {ok, Peer} = py_event_loop:start_link(#{name => telemetered, place => peer}),
    {_, #{loop := Peer, name := telemetered, node := Node}} = event([peer, start]),
    {ok, []} = py_event_loop:stop(Peer),
    ?assertMatch({_, #{loop := Peer, node := Node, reason := normal}}, event([peer, stop])).

handlers_that_raise_are_logged(_Config) ->
    ok = log_watch:start(),
    ok = telemetry:fail(true),
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])),
    {ok, [1]} = py:eval("__import__('erlang').call('lists', 'reverse', [[1]])"),
    called:is_logged("A handler of [erlang_loop,request,stop] failed"),
    log_watch:stop().

%% A row for each, and none for others.
the_page_has_every_event(_Config) ->
    {ok, Page} = file:read_file(project:file("docs/inside.md")),
    {match, Rows} = re:run(Page, "^\\| `\\[(erlang_loop, [a-z, ]+)\\]`", [global, multiline, {capture, all_but_first, binary}]),
    Shown = [[binary_to_existing_atom(Word) || Word <- binary:split(Row, <<", ">>, [global])] || [Row] <- Rows],
    ?assertEqual(py_telemetry:events(), Shown).

%% The event of this name that comes next.
event(Name) ->
    Event = [erlang_loop | Name],
    receive
        {telemetry, Event, Measurements, Metadata} -> {Measurements, Metadata}
    after 20_000 -> error({no_event, Event, process_info(self(), messages)})
    end.

others() ->
    _ = event([request, start]),
    _ = event([request, stop]),
    ok.

%% Traces

a_trace_reaches_python_and_comes_back(_Config) ->
    In = fun(Run) -> py_trace:with(?HEADER, Run) end,
    Traceparent = fun() -> py:call('erlang_loop.tracing', traceparent, []) end,
    ?assertEqual({ok, ?HEADER}, In(Traceparent)),
    Asks = fun(Function) -> In(fun() -> py:call(erlang, Function, [?MODULE, asked_by_python, []]) end) end,
    %% The Erlang function calls Python once more, within the same trace.
    ?assertEqual({ok, [?HEADER, {ok, ?HEADER}]}, Asks(call)),
    ?assertEqual({ok, [?HEADER, {ok, ?HEADER}]}, Asks(async_call)),
    ?assertEqual({ok, none}, Traceparent()),
    {ok, Task} = In(fun() -> py:submit(erlang, async_call, [py_trace, current, []]) end),
    ?assertEqual({ok, ?HEADER}, py:await(Task)),
    ?assertEqual({ok, none}, py:call(erlang, call, [py_trace, current, []])).

asked_by_python() ->
    [py_trace:current(), py:call('erlang_loop.tracing', traceparent, [])].

a_trace_ends_with_its_function(_Config) ->
    ok = py_trace:put(?HEADER),
    ?assertEqual(inner, py_trace:with(undefined, fun() -> undefined = py_trace:current(), inner end)),
    ?assertError(on_purpose, py_trace:with(undefined, fun() -> error(on_purpose) end)),
    ?assertEqual(?HEADER, py_trace:current()),
    ok = py_trace:put(undefined),
    ?assertEqual(undefined, py_trace:current()).

a_trace_reaches_a_peer(_Config) ->
    {ok, Peer} = py_event_loop:start_link(#{place => peer}),
    Run = fun() -> py_event_loop:call(Peer, 'erlang_loop.tracing', traceparent, []) end,
    ?assertEqual({ok, ?HEADER}, py_trace:with(?HEADER, Run)),
    ?assertEqual({ok, none}, Run()),
    {ok, []} = py_event_loop:stop(Peer).

%% Headers come from outside.
malformed_traces_are_ignored(_Config) ->
    Zero = binary:copy(<<"0">>, 32),
    Malformed = [
        <<>>, <<"00">>, <<?HEADER/binary, "-01">>, <<?HEADER/binary, "\r\n">>, string:uppercase(?HEADER),
        <<"00-", Zero/binary, "-b7ad6b7169203331-01">>,
        <<"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01">>,
        <<"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01">>,
        binary:copy(<<"0">>, 100_000), <<0, 255, 200>>
    ],
    [
        py_trace:with(Each, fun() ->
            ?assertEqual(undefined, py_trace:current()),
            ?assertEqual({ok, none}, py:call('erlang_loop.tracing', traceparent, []))
        end)
     || Each <- Malformed
    ],
    Later = <<"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more">>,
    ?assertEqual(Later, py_trace:with(Later, fun py_trace:current/0)),
    [?assertError(badarg, py_trace:put(Wrong)) || Wrong <- ["00", 1, none, {}]],
    ?assertError(badarg, py_trace:with(?HEADER, not_a_fun)).
