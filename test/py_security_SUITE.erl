%% @doc Does input stay data? Values, exceptions and settings that would like to be atoms, terms or
%% code. The other boundaries of docs/security.md have their tests elsewhere; the page names them.
-module(py_security_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    foreign_text_makes_no_atoms/1,
    bytes_are_not_decoded/1,
    settings_are_not_evaluated/1,
    names_are_not_evaluated/1,
    every_boundary_has_its_test/1
]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> cases:of_suite(?MODULE).

init_per_suite(Config) -> called:begin_suite(Config).
end_per_suite(_Config) -> called:stop().

%% Texts, keys, names of exceptions and of modules, of loops, of log records, all of them new.
foreign_text_makes_no_atoms(_Config) ->
    Code =
        "def made(n):\n"
        "    import logging\n"
        "    logging.getLogger(f'new logger {n}').warning(f'new text {n}')\n"
        "    return {f'new key {n}': f'new value {n}', (f'new {n}',): {f'newer {n}'}}\n"
        "def failed(n):\n"
        "    raise type(f'NewError{n}', (Exception,), {'__module__': f'new.module{n}'})(f'new {n}')\n",
    ok = py:exec(Code),
    Ask = fun(N) ->
        {ok, _} = py:eval("made(n)", #{n => N}),
        {error, #{type := <<"new.module", _/binary>>}} = py:eval("failed(n)", #{n => N}),
        {error, _} = py:call(<<"no_such_module", (integer_to_binary(N))/binary>>, <<"f">>, [])
    end,
    ok = logger:set_primary_config(level, none),
    _ = [Ask(N) || N <- lists:seq(1, 20)],
    Before = erlang:system_info(atom_count),
    _ = [Ask(N) || N <- lists:seq(21, 300)],
    After = erlang:system_info(atom_count),
    ok = logger:set_primary_config(level, notice),
    %% Something of the node itself may be loaded meanwhile.
    ?assert(After - Before < 100, After - Before),
    _ = [
        ?assertError(badarg, binary_to_existing_atom(Text))
     || Text <- [<<"new key 100">>, <<"NewError100">>, <<"new.module100">>, <<"no_such_module100">>]
    ],
    ok.

%% The external format of an atom that does not exist, as bytes of Python and as bytes of Erlang.
bytes_are_not_decoded(_Config) ->
    Encoded = <<131, 119, 20, "never_seen_atom_7431">>,
    ?assertEqual({ok, Encoded}, py:eval("x", #{x => {bytes, Encoded}})),
    ?assertEqual({ok, Encoded}, py:eval("bytes(x)", #{x => binary_to_list(Encoded)})),
    ?assertError(badarg, binary_to_existing_atom(<<"never_seen_atom_7431">>)).

%% They look like Python code, like a shell's and like Erlang's: they are folders and names.
settings_are_not_evaluated(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Evil = filename:join(Folder, "evil"),
    Texts = [
        "'); open('" ++ Evil ++ "', 'w'); ('",
        "$(touch " ++ Evil ++ ")",
        "`touch " ++ Evil ++ "`; touch " ++ Evil,
        "file:write_file(\"" ++ Evil ++ "\", <<>>)."
    ],
    Node = other_node:start([{python_path, Texts}]),
    try
        {ok, _} = other_node:call(Node, application, ensure_all_started, [erlang_loop]),
        {ok, Path} = other_node:call(Node, py, eval, [<<"__import__('sys').path">>]),
        Seen = [unicode:characters_to_list(Each) || Each <- Path],
        ?assertEqual([], Texts -- Seen)
    after
        other_node:stop(Node)
    end,
    _ = [
        begin
            Other = other_node:start([{python, Text}]),
            {ok, _} = other_node:call(Other, application, ensure_all_started, [erlang_loop]),
            ?assertMatch({error, _}, other_node:call(Other, py, eval, [<<"1">>])),
            other_node:stop(Other)
        end
     || Text <- tl(Texts)
    ],
    ?assertEqual(false, filelib:is_file(Evil)).

%% Names of modules and functions are looked up, not run.
names_are_not_evaluated(_Config) ->
    _ = [
        ?assertMatch({error, #{type := _}}, py:call(Module, Function, []))
     || {Module, Function} <- [
            {<<"os; raise SystemExit">>, <<"getpid">>},
            {<<"os">>, <<"getpid() or exit">>},
            {<<"builtins">>, <<"__import__('os')._exit">>},
            {<<"..called">>, <<"add">>},
            {<<>>, <<>>}
        ]
    ],
    ?assertEqual({ok, 3}, py:call(called, add, [1, 2])).

%% The page names suites and cases that are there.
every_boundary_has_its_test(_Config) ->
    ?assert(named_tests:check("docs/security.md") > 20).
