%% @doc What does a wrong setting say, and what does it stop?
-module(py_settings_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    every_setting_takes_its_default/1,
    every_wrong_value_is_one_sentence/1,
    what_the_application_reads_stops_it/1,
    what_python_reads_can_be_fixed_and_tried_again/1,
    what_the_default_loop_reads_can_be_fixed_and_tried_again/1,
    one_folder_needs_no_list/1,
    a_folder_that_does_not_exist_is_a_warning/1,
    a_setting_that_does_not_exist_is_a_warning/1,
    the_command_says_what_is_wrong/1
]).

all() -> cases:of_suite(?MODULE).

init_per_testcase(_Case, Config) -> leak_check:begin_case(Config).
end_per_testcase(_Case, Config) -> leak_check:end_case(Config).

every_setting_takes_its_default(_Config) ->
    _ = [?assertEqual({Name, {ok, Default}}, {Name, with(Name, Default)})
        || {Name, Default, _, _} <- py_settings:table()],
    ok.

every_wrong_value_is_one_sentence(_Config) ->
    _ = [
        begin
            ?assertMatch({Name, Value, {error, _}}, {Name, Value, with(Name, Value)}),
            {error, Sentence} = with(Name, Value),
            Pattern = ["^", atom_to_list(Name), " is [^\n]+, and must be [^\n]+\\.$"],
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence),
            ?assert(string:length(Sentence) < 500, Sentence)
        end
     || {Name, _, Kind, _} <- py_settings:table(), Value <- wrong(Kind)
    ],
    ok.

wrong(boolean) -> [yes, 1, "true"];
wrong(path) -> [srv, 1, "", <<>>, <<255>>, "a\0b", ["/srv"], [1 | 2]];
wrong(paths) -> [srv, 1, <<>>, [srv], ["/srv", srv], ["/srv" | "/x"], [""], [-1], ["/srv", $x]];
wrong(code) -> [1, print, <<255>>, [print]];
wrong(loop_options) ->
    [[], [{thread, own}], #{thread => mine}, #{threads => own}, #{init => <<>>}, #{name => x},
        #{patience => lists:duplicate(10_000, x)}];
wrong(dashboard) ->
    [4040, [], #{port => 65536}, #{port => "4040"}, #{ip => "127.0.0.1"}, #{read_only => yes}, #{prot => 1}];
wrong({one_of, _}) -> [true, "report", ignore];
wrong({number, _, _, _}) -> [0, 10_001, -1.0, "5", many];
wrong({integer, Least}) -> [Least - 1, 1 bsl 70, 1.5, "64", <<"64">>, many, undefined];
wrong({integer_or_infinity, Least}) -> [never | wrong({integer, Least})].

with(Name, Value) ->
    with(Name, Value, fun() -> py_settings:find(Name) end).

with(Name, Value, Fun) ->
    Before = application:get_env(erlang_loop, Name),
    ok = application:set_env(erlang_loop, Name, Value),
    try
        Fun()
    after
        case Before of
            {ok, Old} -> application:set_env(erlang_loop, Name, Old);
            undefined -> application:unset_env(erlang_loop, Name)
        end
    end.

what_the_application_reads_stops_it(_Config) ->
    in_node([{call_threads, many}, {stuck_after, 0}], fun(Call) ->
        {error, {erlang_loop, {{bad_settings, Sentences}, _}}} =
            Call(application, ensure_all_started, [erlang_loop]),
        ?assertEqual(
            [
                <<"call_threads is many, and must be an integer from 1 to 1000000000.">>,
                <<"stuck_after is 0, and must be an integer from 1 to 1000000000, or infinity.">>
            ],
            Sentences
        ),
        _ = [ok = Call(application, unset_env, [erlang_loop, S]) || S <- [call_threads, stuck_after]],
        ?assertMatch({ok, _}, Call(application, ensure_all_started, [erlang_loop]))
    end).

what_python_reads_can_be_fixed_and_tried_again(_Config) ->
    in_node([{python_path, [srv]}], fun(Call) ->
        ok = Call(log_watch, start, []),
        {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
        Sentence =
            <<"python_path is [srv], and must be a folder or a list of folders, which are "
                "strings, binaries or {priv, Application, Path}.">>,
        logged(Call, Sentence),
        ?assertEqual({error, Sentence}, Call(py, call, [math, sqrt, [16]])),
        ok = Call(application, set_env, [erlang_loop, python_path, []]),
        ok = Call(application, set_env, [erlang_loop, venv, "/nowhere"]),
        ?assertEqual(
            {error,
                <<"venv is /nowhere, and must be the folder of a virtual environment: "
                    "/nowhere/bin/python cannot be run as a Python interpreter.">>},
            Call(py, call, [math, sqrt, [16]])
        ),
        ok = Call(application, set_env, [erlang_loop, venv, undefined]),
        ?assertEqual({ok, 4.0}, Call(py, call, [math, sqrt, [16]]))
    end).

what_the_default_loop_reads_can_be_fixed_and_tried_again(_Config) ->
    in_node([{default_loop_options, #{thread => mine}}], fun(Call) ->
        {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
        ?assertEqual(
            {error,
                <<"default_loop_options is #{thread => mine}, and must be a map of options of "
                    "py_event_loop:start_link/1; {thread,mine}: own or shared.">>},
            Call(py, call, [asyncio, sleep, [0]])
        ),
        ok = Call(application, set_env, [erlang_loop, default_loop_options, #{thread => own}]),
        ?assertEqual({ok, none}, Call(py, call, [asyncio, sleep, [0]]))
    end).

one_folder_needs_no_list(_Config) ->
    Folder = project:file("test/support/python"),
    _ = [
        ?assertEqual({ok, [unicode:characters_to_binary(Folder)]}, with(python_path, Path))
     || Path <- [Folder, unicode:characters_to_binary(Folder), [Folder]]
    ],
    in_node([{python_path, Folder}], fun(Call) ->
        {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
        ?assertEqual({ok, 3}, Call(py, call, [called, add, [1, 2]]))
    end).

a_folder_that_does_not_exist_is_a_warning(_Config) ->
    in_node([{python_path, ["/nowhere/at/all"]}], fun(Call) ->
        ok = Call(log_watch, start, []),
        {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
        ?assertEqual({ok, 4.0}, Call(py, call, [math, sqrt, [16]])),
        logged(Call, "python_path has /nowhere/at/all, which does not exist")
    end).

a_setting_that_does_not_exist_is_a_warning(_Config) ->
    in_node([{call_thread, 4}, {pythonpath, []}, {'grün', true}], fun(Call) ->
        ok = Call(log_watch, start, []),
        {ok, _} = Call(application, ensure_all_started, [erlang_loop]),
        logged(Call, "no setting call_thread, which is ignored. Is call_threads meant?"),
        logged(Call, "no setting pythonpath, which is ignored. Is python_path meant?"),
        logged(Call, "no setting grün, which is ignored. docs/settings.md has those")
    end).

the_command_says_what_is_wrong(_Config) ->
    Command = project:file("bin/erlang-loop") ++ " -c 'print(1)' 2>&1; echo $?",
    Flags = fun(Text) -> os:cmd("ERL_FLAGS=\"-erlang_loop " ++ Text ++ "\" " ++ Command) end,
    ?assertEqual(
        "erlang-loop: call_threads is many, and must be an integer from 1 to 1000000000.\n1\n",
        Flags("call_threads many")
    ),
    ?assertEqual(
        "erlang-loop: python_path is 1, and must be a folder or a list of folders, which are "
        "strings, binaries or {priv, Application, Path}.\n1\n",
        Flags("python_path 1")
    ).

%% The pieces

in_node(Env, Fun) ->
    Node = other_node:start(Env),
    try
        Fun(fun(Module, Function, Args) -> other_node:call(Node, Module, Function, Args) end)
    after
        ok = other_node:stop(Node)
    end.

logged(Call, Text) ->
    Has = fun() ->
        [] =/= [T || T <- Call(log_watch, texts, []), string:find(T, Text) =/= nomatch]
    end,
    eventually:is(true, Has).
