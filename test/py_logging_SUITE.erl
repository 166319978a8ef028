%% @doc Do Python's log records and unhandled exceptions reach `logger'? Does a flood of it
%% do harm?
-module(py_logging_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_record_has_all_that_python_knows/1,
    levels/1,
    a_coroutine_logs/1,
    an_exception_is_data_and_prints_as_a_traceback/1,
    what_has_no_form_in_erlang_is_shown/1,
    a_wrong_record_is_reported_as_python_does/1,
    no_atoms_are_made/1,
    pythons_own_levels_decide_first/1,
    basic_config_sets_the_level/1,
    basic_config_with_a_format_decides_on_the_text/1,
    basic_config_with_a_stream_adds_to_it/1,
    a_callback_that_fails/1,
    a_task_whose_exception_is_not_retrieved/1,
    a_task_that_wants_to_end_the_program/1,
    a_thread_that_fails/1,
    a_finalizer_that_fails/1,
    a_killed_logger_process/1,
    a_handler_that_calls_python/1,
    the_default_handler_shows_them/1,
    it_can_be_turned_off/1,
    a_flood_is_limited_and_logged/1,
    what_was_logged_is_there_when_the_application_stops/1
]).
%% A handler of logger.
-export([log/2]).
%% Called in another node.
-export([flood/0, stop_after_many/0]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) ->
    ok = called:start(),
    {ok, _} = py:call(printing, describe_streams, []),
    Config.

end_per_suite(_Config) ->
    called:stop().

init_per_testcase(_Case, Config) ->
    Checked = leak_check:begin_case(Config),
    ok = log_events:start(),
    Checked.

end_per_testcase(_Case, Config) ->
    ok = log_events:stop(),
    called:end_case(Config).

%% Records

a_record_has_all_that_python_knows(_Config) ->
    Begun = logger:timestamp(),
    {ok, none} = py:call(printing, log_record, [30, <<"full disk €"/utf8>>, #{<<"free">> => 0}]),
    #{level := warning, msg := {string, Text}, meta := Meta} = log_events:next(),
    ?assertEqual(<<"full disk €"/utf8>>, Text),
    #{
        domain := [python],
        logger_name := <<"app.db">>,
        module := <<"printing">>,
        function := <<"log_record">>,
        file := File,
        line := Line,
        time := Time,
        thread := <<_/binary>>,
        extra := #{<<"free">> := 0},
        pid := _
    } = Meta,
    ?assert(lists:suffix("/printing.py", File)),
    ?assert(is_integer(Line) andalso Line > 0),
    ?assert(Time >= Begun andalso Time =< logger:timestamp()),
    ?assertNot(is_map_key(task, Meta) andalso not has_task_names()).

%% From Python 3.12 on.
has_task_names() ->
    {ok, Has} = py:eval("__import__('sys').version_info >= (3, 12)"),
    Has.

levels(_Config) ->
    _ = [
        begin
            {ok, none} = py:call(printing, log_record, [Python, <<"x">>]),
            #{level := Found} = log_events:next(),
            ?assertEqual({Python, Erlang}, {Python, Found})
        end
     || {Python, Erlang} <- [
            {60, critical}, {50, critical}, {49, error}, {40, error}, {30, warning},
            {29, notice}, {25, notice}, {20, info}, {19, debug}, {10, debug}, {5, debug}
        ]
    ].

a_coroutine_logs(_Config) ->
    {ok, none} = py:call(printing, log_in_task, [<<"in a task">>]),
    #{msg := {string, <<"in a task">>}, meta := Meta} = log_events:next(),
    case has_task_names() of
        true -> ?assertMatch(#{task := <<"printing.log_in_task">>}, Meta);
        false -> ok
    end.

an_exception_is_data_and_prints_as_a_traceback(_Config) ->
    {ok, none} = py:call(printing, log_exception, [<<"it failed">>]),
    #{level := error, msg := {report, Report}} = Event = log_events:next(),
    #{
        message := <<"it failed">>,
        exception := #{
            type := <<"builtins.ValueError">>,
            message := <<"no value">>,
            cause := #{type := <<"builtins.KeyError">>},
            traceback := [#{function := <<"log_exception">>}]
        }
    } = Report,
    Printed = printed(Event),
    _ = [
        ?assertNotEqual(nomatch, string:find(Printed, Part), {Part, Printed})
     || Part <- [
            "it failed\nTraceback (most recent call last):\n  File \"",
            "KeyError: 'missing'\n\nThe above exception was the direct cause of",
            "raise ValueError(\"no value\") from error\nValueError: no value"
        ]
    ].

what_has_no_form_in_erlang_is_shown(_Config) ->
    {ok, none} = py:call(printing, log_strange, []),
    #{msg := {string, Text}, meta := #{extra := Extra}} = log_events:next(),
    ?assertNotEqual(nomatch, string:find(Text, "lone ")),
    ?assertMatch(#{<<"object">> := <<"<object object", _/binary>>, <<"nan">> := <<"nan">>}, Extra).

%% logging itself prints it to stderr, and so to the caller's group leader.
a_wrong_record_is_reported_as_python_does(_Config) ->
    Leader = fake_leader:start(),
    {ok, none} = fake_leader:as_leader(Leader, fun() -> py:call(printing, log_badly, []) end),
    eventually:is(true, fun() ->
        string:find(fake_leader:text(Leader), "--- Logging error ---") =/= nomatch
    end),
    fake_leader:stop(Leader).

no_atoms_are_made(_Config) ->
    Log = fun(N) ->
        Name = integer_to_list(N),
        Code = ["import logging\nlogging.getLogger('logger_", Name, "').error('text', extra={'key_",
            Name, "': 1})"],
        ok = py:exec(Code),
        #{level := error} = log_events:next()
    end,
    Log(0),
    Before = erlang:system_info(atom_count),
    lists:foreach(Log, lists:seq(1, 50)),
    ?assertEqual(Before, erlang:system_info(atom_count)).

%% Python's settings

pythons_own_levels_decide_first(_Config) ->
    ok = py:exec("import logging\nlogging.getLogger('quiet').info('not sent')"),
    ok = py:exec("logging.getLogger('quiet').warning('sent')"),
    #{msg := {string, <<"sent">>}} = log_events:next().

basic_config_sets_the_level(_Config) ->
    ok = py:exec("import logging\nlogging.basicConfig(level='INFO')"),
    ok = py:exec("logging.getLogger('x').info('now sent')"),
    #{msg := {string, <<"now sent">>}} = log_events:next(),
    called:is_error("ValueError", "nonsense", py:exec("logging.basicConfig(nonsense=1)")),
    ok = py:exec("logging.basicConfig(level='WARNING')\nlogging.warning('still there')"),
    #{msg := {string, <<"still there">>}} = log_events:next().

basic_config_with_a_format_decides_on_the_text(_Config) ->
    ok = py:exec("import logging\nlogging.basicConfig(format='<%(message)s>')"),
    ok = py:exec("logging.warning('text')"),
    #{msg := {string, <<"<text>">>}} = log_events:next(),
    ok = py:exec("logging.getLogger().handlers[0].setFormatter(None)").

basic_config_with_a_stream_adds_to_it(_Config) ->
    ok = py:exec("import io, logging\nkept = io.StringIO()\nlogging.basicConfig(stream=kept)"),
    ok = py:exec("logging.warning('twice')"),
    #{msg := {string, <<"twice">>}} = log_events:next(),
    ?assertEqual({ok, <<"WARNING:root:twice\n">>}, py:eval("kept.getvalue()")),
    ok = py:exec("root = logging.getLogger()\n"
        "[root.removeHandler(h) for h in list(root.handlers) if type(h) is logging.StreamHandler]").

%% Unhandled exceptions

a_callback_that_fails(_Config) ->
    {ok, none} = py:call(printing, fail_in_callback, []),
    #{level := error, msg := {report, #{exception := Exception}}, meta := #{logger_name := Name}} =
        log_events:next("Exception in callback"),
    ?assertMatch(
        #{type := <<"builtins.ZeroDivisionError">>, traceback := [_ | _]}, Exception
    ),
    ?assertEqual(<<"asyncio">>, Name).

a_task_whose_exception_is_not_retrieved(_Config) ->
    {ok, none} = py:call(printing, fail_in_forgotten_task, []),
    #{level := error, msg := {report, #{exception := #{message := Message}}}} =
        log_events:next("Task exception was never retrieved"),
    ?assertEqual(<<"unasked">>, Message).

a_task_that_wants_to_end_the_program(_Config) ->
    {ok, none} = py:call(printing, leave_in_task, []),
    #{level := error, msg := {report, #{exception := #{type := Type}}}} =
        log_events:next("A task wanted to end the program"),
    ?assertEqual(<<"builtins.SystemExit">>, Type),
    ?assertEqual({ok, 3}, py:call(called, add_later, [1, 2])).

a_thread_that_fails(_Config) ->
    {ok, none} = py:call(printing, leave_in_thread, []),
    {ok, none} = py:call(printing, fail_in_thread, []),
    %% A thread that ended by itself is not logged.
    #{level := error, msg := {report, Report}, meta := Meta} = log_events:next(),
    #{message := <<"Exception in thread worker-7">>, exception := Exception} = Report,
    ?assertMatch(#{type := <<"builtins.LookupError">>, message := <<"in a thread">>}, Exception),
    ?assertMatch(#{function := <<"work">>, thread := <<"worker-7">>, module := <<"printing">>}, Meta).

a_finalizer_that_fails(_Config) ->
    {ok, none} = py:call(printing, fail_in_finalizer, []),
    #{level := error, msg := {report, Report}, meta := Meta} = log_events:next(),
    %% What follows differs between versions of Python.
    ?assertMatch(#{message := <<"Exception ignored ", _/binary>>}, Report),
    ?assertMatch(#{exception := #{message := <<"in a finalizer">>}}, Report),
    ?assertMatch(#{function := <<"__del__">>, logger_name := <<"sys.unraisablehook">>}, Meta).

%% What goes wrong

a_killed_logger_process(_Config) ->
    Killed = whereis(py_logger),
    exit(Killed, kill),
    eventually:is(true, fun() -> not lists:member(whereis(py_logger), [Killed, undefined]) end),
    {ok, none} = py:call(printing, log_many, [3]),
    ?assertEqual(
        [<<"record 0">>, <<"record 1">>, <<"record 2">>],
        [Text || _ <- [1, 2, 3], #{msg := {string, Text}} <- [log_events:next()]]
    ).

%% What Python logs on behalf of the handler is printed instead: it would come back forever.
a_handler_that_calls_python(_Config) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => #{pid => self()}}),
    {ok, none} = py:call(printing, log_many, [1]),
    #{msg := {string, <<"record 0">>}} = log_events:next(),
    receive
        {handler, Answer} -> ?assertEqual({ok, none}, Answer)
    end,
    ok = logger:remove_handler(?MODULE),
    {ok, none} = py:call(printing, log_record, [30, <<"the next one">>]),
    #{msg := {string, <<"the next one">>}} = log_events:next().

%% @private Called by logger.
log(#{meta := #{domain := [python]}}, #{config := #{pid := Pid}}) ->
    Pid ! {handler, py:call(printing, log_many, [2])},
    ok;
log(_Event, _Config) ->
    ok.

%% In nodes of their own

the_default_handler_shows_them(_Config) ->
    {0, Text} = called:run_in_node("{ok, none} = py:call(printing, log_many, [1])"),
    ?assertNotEqual(nomatch, string:find(Text, "record 0"), Text).

%% It is as in Python without a handler: a warning is a line on stderr.
it_can_be_turned_off(_Config) ->
    {0, Text} = called:run_in_node(
        "application:set_env(erlang_loop, logging, false)",
        "{ok, none} = py:call(printing, log_many, [1])"
    ),
    ?assertEqual("record 0\n", Text).

a_flood_is_limited_and_logged(_Config) ->
    called:in_node([{logging_queue, 100}], flood, ?MODULE).

flood() ->
    ok = log_events:start(),
    {ok, _} = py:call(printing, log_many, [1]),
    _ = log_events:next(),
    ok = sys:suspend(py_logger),
    {ok, none} = py:call(printing, log_many, [1000], #{}, 60_000),
    {message_queue_len, Length} = process_info(whereis(py_logger), message_queue_len),
    ?assert(Length =< 101, Length),
    ok = sys:resume(py_logger),
    #{level := warning, msg := {"~b log records" ++ _, [Dropped]}} =
        log_events:next("log records of Python were dropped"),
    ?assertEqual(900, Dropped),
    %% Those that follow come.
    {ok, none} = py:call(printing, log_record, [30, <<"after the flood">>]),
    _ = log_events:next("after the flood"),
    log_events:stop().

what_was_logged_is_there_when_the_application_stops(_Config) ->
    called:in_node([], stop_after_many, ?MODULE).

stop_after_many() ->
    ok = log_events:start(),
    {ok, none} = py:call(printing, log_many, [1000], #{}, 60_000),
    ok = application:stop(erlang_loop),
    _ = [
        begin
            Text = iolist_to_binary(["record ", integer_to_list(N)]),
            #{msg := {string, Text}} = log_events:next()
        end
     || N <- lists:seq(0, 999)
    ],
    log_events:stop().

printed(Event) ->
    Line = logger_formatter:format(Event, #{single_line => false, template => [msg]}),
    lists:flatten(unicode:characters_to_list(Line)).
