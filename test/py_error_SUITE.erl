%% @doc Is an error of Python printed as Python prints it?
-module(py_error_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([
    exceptions_print_as_in_python/1,
    other_reasons_are_sentences/1,
    the_value_of_a_reply/1,
    the_shell_prints_a_traceback/1,
    a_crash_report_has_the_traceback/1,
    a_long_traceback_says_what_is_left_out/1
]).

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().
init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).

end_per_testcase(_Case, Config) -> called:end_case(Config).

exceptions_print_as_in_python(_Config) ->
    {ok, Names} = py:call(failing, names, []),
    ?assert(length(Names) >= 8),
    _ = [
        begin
            {ok, Expected} = py:call(failing, printed, [Name]),
            {error, Reason} = py:call(failing, Name, []),
            ?assertEqual({Name, lines(Expected)}, {Name, lines(py:format_error(Reason))})
        end
     || Name <- Names
    ].

lines(Text) ->
    string:split(unicode:characters_to_list(Text), "\n", all).

other_reasons_are_sentences(_Config) ->
    _ = [
        ?assertEqual({Reason, Text}, {Reason, unicode:characters_to_list(py:format_error(Reason))})
     || {Reason, Text} <- [
            {timeout, "there was no reply in time\n"},
            {cancelled, "it was cancelled, by py:cancel/1 or by Python code\n"},
            {loop_down, "the loop ended before it replied, or the process is not a loop\n"},
            {overload,
                "too many requests wait, or have no reply yet: \"Limits\" in docs/calls.md has the "
                "settings\n"},
            {deadlock,
                "the loop waits, in erlang.call, for the process that calls it, and neither would "
                "ever reply: coroutines use erlang.async_call\n"},
            {noproc, "the task has been awaited before, or the process does not exist\n"},
            {not_started,
                "the application is not running: application:ensure_all_started(erlang_loop) starts "
                "it\n"},
            {{no_loop, my_lop},
                "no loop is registered as my_lop; py_event_loop:which_loops/0 lists the "
                "loops\n"},
            {{no_pool, my_pol}, "no pool is registered as my_pol\n"},
            {{bad_option, {thread, mine}, "own or shared"},
                "wrong option {thread,mine}: own or shared\n"},
            {ebadf, "bad file number (ebadf)\n"},
            {closed, "the loop has been closed\n"},
            {no_such_reason, "no_such_reason\n"},
            {<<"python_path is 1, ...">>, "python_path is 1, ...\n"},
            {{other, <<"x">>}, "{other,<<\"x\">>}\n"}
        ]
    ].

the_value_of_a_reply(_Config) ->
    ?assertEqual(4.0, py:value(py:call(math, sqrt, [16]))),
    ?assertError(
        {python, #{type := <<"builtins.ValueError">>}}, py:value(py:call(math, sqrt, [-1]))
    ),
    ?assertError({python, timeout}, py:value(py:call(asyncio, sleep, [60], #{}, 1))),
    ?assertError(badarg, py:value(4.0)).

%% The shell and rebar3 use this function.
the_shell_prints_a_traceback(_Config) ->
    try py:value(py:call(failing, with_cause, [])) of
        _ -> error(no_error)
    catch
        Class:Reason:Stack ->
            Text = unicode:characters_to_list(erl_error:format_exception(Class, Reason, Stack)),
            has(Text, ["raise TypeError(\"because of that\") from error\nTypeError: because of that\n",
                "ValueError: no value\n\nThe above exception was", "in function  py:value/1"])
    end.

a_crash_report_has_the_traceback(_Config) ->
    ok = logger:add_handler(?MODULE, log_events, #{config => #{pid => self()}}),
    Pid = proc_lib:spawn(fun() -> py:value(py:call(failing, plain, [])) end),
    Report = crash_report(Pid),
    has(Report, ["raise ValueError(\"no value\")\nValueError: no value", "py:value/1"]),
    ok = logger:remove_handler(?MODULE).

crash_report(Pid) ->
    receive
        {log_event, #{meta := #{pid := Pid}} = Event} ->
            Config = #{single_line => false, template => [msg]},
            lists:flatten(unicode:characters_to_list(logger_formatter:format(Event, Config)))
    after 10_000 -> error(no_crash_report)
    end.

a_long_traceback_says_what_is_left_out(_Config) ->
    ok = py:exec("def deep(n):\n    return deep(n - 1) if n else 1 / 0"),
    {error, Reason} = py:eval("deep(300)"),
    Text = lists:flatten(unicode:characters_to_list(py:format_error(Reason))),
    has(Text, ["more calls ...\n", "ZeroDivisionError: division by zero\n"]).

has(Text, Parts) ->
    _ = [?assertNotEqual(nomatch, string:find(Text, Part), {Part, Text}) || Part <- Parts],
    ok.
