%% @doc Values to Python and back, and from Python, for suites.
-module(python_values).

-export([in_node/1, run/1]).
-export([start/0, echo/1, eval/1, eval/2, eval_error/4, exec/1, exec/2]).

%% @doc Runs `Work' in a node of its own, with Python up and the packages that tests use.
-spec in_node(fun(() -> term())) -> ok.
in_node(Work) ->
    Env =
        case project:venv() of
            {ok, Venv} -> [{venv, Venv}];
            none -> []
        end,
    Node = other_node:start(Env),
    try
        ok = peer:call(Node, ?MODULE, run, [Work], 240_000)
    after
        other_node:stop(Node)
    end.

%% @private Called in that node.
-spec run(fun(() -> term())) -> ok.
run(Work) ->
    ok = start(),
    _ = Work(),
    ok.

%% @doc Starts Python in this node, unless it is up.
-spec start() -> ok.
start() ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    ok = py_interpreter:ensure_started().

%% @doc The term as Python has it, converted back; or why it cannot cross.
-spec echo(term()) -> {ok, term()} | {error, map()}.
echo(Term) ->
    answer(fun(Token) -> py_nif:python_echo(Token, Term) end).

%% @doc The value of a Python expression.
-spec eval(unicode:chardata()) -> {ok, term()} | {error, map()}.
eval(Source) ->
    eval(Source, #{}).

%% @doc The value of a Python expression with these local names.
-spec eval(unicode:chardata(), #{atom() => term()}) -> {ok, term()} | {error, map()}.
eval(Source, Names) ->
    Text = unicode:characters_to_binary(Source),
    answer(fun(Token) -> py_nif:python_eval(Token, Text, Names) end).

%% @doc The value of an expression about `error', the `erlang.Error' of this exception.
-spec eval_error(unicode:chardata(), atom(), term(), list()) -> {ok, term()} | {error, map()}.
eval_error(Source, Class, Reason, Stacktrace) ->
    Text = unicode:characters_to_binary(Source),
    answer(fun(Token) -> py_nif:python_eval_error(Token, Text, Class, Reason, Stacktrace) end).

%% @doc Runs statements in `__main__', where eval/1 finds what they define.
-spec exec(unicode:chardata()) -> ok.
exec(Source) ->
    exec(Source, #{}).

%% @doc As exec/1, with names that Erlang gives to `__main__' first.
-spec exec(unicode:chardata(), #{atom() => term()}) -> ok.
exec(Source, Names) ->
    {ok, none} = eval("globals().update(names)", #{names => Names}),
    Code = io_lib:format("exec(bytes.fromhex('~s').decode(), globals())", [
        binary:encode_hex(unicode:characters_to_binary(Source))
    ]),
    {ok, none} = eval(Code),
    ok.

answer(Ask) ->
    Token = erlang:unique_integer(),
    ok = Ask(Token),
    receive
        {py_main, Token, Answer} -> Answer
    after 60_000 -> error(no_answer)
    end.
