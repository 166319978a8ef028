%% @doc Calls Python from Erlang.
%%
%% ```
%% {ok, 4.0} = py:call(math, sqrt, [16]),
%% {ok, <<"{\"a\": 1}">>} = py:call(json, dumps, [#{<<"a">> => 1}], #{sort_keys => true}),
%% {ok, <<"done">>} = py:call(asyncio, sleep, [0.01, <<"done">>]).
%% '''
%%
%% The names of modules and functions are atoms, UTF-8 binaries or strings; a function's name may be
%% dotted (`"Class.method"'). The function may be a plain function, a coroutine function or any
%% other callable. Plain functions run on call threads: one after another while they are short,
%% concurrently when one takes longer. Coroutines run on the default loop, which is started when it
%% is first needed; `py_event_loop' starts other loops.
%%
%% Calls return `{ok, Value}' or `{error, Reason}'. A Python exception is a map, see
%% `docs/values.md'; other reasons are:
%%
%% <ul>
%% <li>`timeout': the timeout expired. A coroutine is cancelled at its `await'; a plain function
%%     is interrupted at its next bytecode: `erlang.Interrupted' is raised in it.</li>
%% <li>`cancelled': by {@link cancel/1}, or the coroutine cancelled itself.</li>
%% <li>`loop_down': the loop ended before the coroutine did.</li>
%% <li>`overload': the limit of pending requests is reached.</li>
%% <li>`deadlock': the loop is blocked in Python's `erlang.call', waiting for the calling
%%     process.</li>
%% <li>`{no_loop, Name}': no loop has this name; `{no_pool, Name}': no pool.</li>
%% <li>`{peer_down, Why}': the operating system process in which the loop lived has ended, with
%%     `{signal, Name}' or `{exit, Code}'; `noconnection': or its node cannot be reached.</li>
%% <li>`unavailable': no loop of the pool is up, and none came up within the timeout. The call was
%%     not begun.</li>
%% <li>`not_started': the application `erlang_loop' is not running.</li>
%% </ul>
%%
%% When the calling process dies, its requests are cancelled, as after a timeout.
-module(py).

-export([call/3, call/4, call/5]).
-export([eval/1, eval/2, eval/3, eval/4, exec/1, exec/2, exec/3]).
-export([namespace/0, namespace/1, namespaces/0, names/1]).
-export([submit/3, submit/4, submit/5, await/1, await/2, yield/1, yield/2, cancel/1]).
-export([cast/3, cast/4, cast/5]).
-export([method/3, method/4, method/5, attr/2, attr/3, item/2, item/3]).
-export([value/1, value/2, type/1, type/2, repr/1, repr/2]).
-export([format/1, format_error/1]).
-export([stream/3, stream/4, stream/5, demand/2]).
-export([channel/0, channel/1]).
-export([status/0]).
-export([fold/5, fold/6, fold/7, fold_while/5, fold_while/6, fold_while/7]).
%% For py_event_loop and py_stream.
-export([request/3, request_once/3, submit_to/2, retry_started/1, is_timeout/1, text/1]).

-export_type([name/0, code/0, kwargs/0, options/0, submit_options/0, cast_options/0]).
-export_type([eval_options/0, exec_options/0, namespace/0, namespace_options/0, namespace_info/0]).
-export_type([value_options/0, result/0, reason/0, object/0, task/0, stream/0]).

-include("py_misuse.hrl").

-define(TIMEOUT, 5000).
-define(EVAL_OPTIONS, [timeout, loop, return, values, namespace, file, line]).
-define(EXEC_OPTIONS, [timeout, loop, namespace, file, line]).
%% Milliseconds.
-define(AT_ONCE, 2).

%% The timeouts that `receive' accepts.
-define(IS_TIMEOUT(Timeout),
    (Timeout =:= infinity orelse
        (is_integer(Timeout) andalso Timeout >= 0 andalso Timeout < 1 bsl 32))
).

%% A module or a function.
-type name() :: atom() | binary() | string().
-type code() :: unicode:chardata().
-type kwargs() :: #{atom() | binary() => term()}.
%% A Python object of this node, which the reference keeps alive: from the option `return => ref', or
%% from `erlang.Handle' in Python. As an argument it is the object itself.
-type object() :: reference().
%% How a request is run, and what becomes of its result.
-type options() :: #{
    %% Milliseconds that the caller waits. Default: 5,000.
    timeout => timeout(),
    %% Where coroutines run. Default: the default loop. Not for functions that name a loop or a pool.
    loop => py_event_loop:loop(),
    %% `ref': the result is a reference to the Python object. `each': it is a list, with
    %% `{ok, Value}' or `{error, Reason}' for each item. Default: `value'.
    return => value | ref | each,
    %% The forms of values: `docs/values.md'.
    values => value_options()
}.
%% What `None', infinite floats and namedtuples are for this request.
-type value_options() :: #{
    %% What `None' becomes; this atom becomes `None', too. Default: `none'.
    none => none | nil | null | undefined,
    %% `atoms': `inf', `'-inf'' and `nan'. Default: they cannot be converted.
    non_finite => error | atoms,
    namedtuples => tuples | maps
}.
%% `await/2' has the timeout.
-type submit_options() :: #{
    loop => py_event_loop:loop(),
    return => value | ref | each,
    values => value_options()
}.
-type cast_options() :: #{loop => py_event_loop:loop()}.
-type exec_options() :: #{
    timeout => timeout(),
    loop => py_event_loop:loop(),
    %% Whose names the code uses. Default: the module `erlang_loop_shell', which the node shares.
    namespace => namespace(),
    %% The file and line in which the code begins, for tracebacks: `?FILE' and `?LINE'.
    file => name(),
    line => pos_integer()
}.
-type eval_options() :: #{
    timeout => timeout(),
    loop => py_event_loop:loop(),
    return => value | ref | each,
    values => value_options(),
    namespace => namespace(),
    file => name(),
    line => pos_integer()
}.
%% What {@link namespace/0} returns; or any Python module, by reference.
-type namespace() :: object().
-type namespace_options() :: #{
    %% For lists and tracebacks: Python's `__name__'. Default: `namespace_1' and so on.
    name => name(),
    %% The new namespace has the names that this one has now.
    copy => namespace()
}.
-type namespace_info() :: #{
    namespace := namespace(), name := binary(), names := [binary()], creator := pid()
}.
-type reason() ::
    timeout
    | cancelled
    | loop_down
    | overload
    | deadlock
    | not_started
    | noproc
    %% No process has this name.
    | {no_loop, atom()}
    | {no_pool, atom()}
    %% No loop of the pool is up.
    | unavailable
    %% The process or the node in which the loop lived has ended: docs/peers.md.
    | {peer_down, term()}
    %% The receiver of large data has no memory or file descriptors for it: docs/peers.md.
    | {large_data, Posix :: term()}
    %% An exception.
    | map()
    %% Why Python could not be started.
    | term().
-type result() :: {ok, term()} | {error, reason()}.

-record(py_task, {
    %% The reply is `{py_reply, Token, result()}'.
    token :: reference(),
    owner :: pid(),
    request :: py_nif:request() | py_remote:request()
}).

%% A submitted call. Only the process that submitted it can await it.
-opaque task() :: #py_task{}.
%% A reference, which is part of the stream's messages.
-type stream() :: py_stream:stream().

%% @equiv call(Module, Function, Args, #{}, 5000)
-spec call(name() | object(), name(), [term()]) -> result().
call(Module, Function, Args) ->
    call(Module, Function, Args, #{}, ?TIMEOUT).

%% @equiv call(Module, Function, Args, Kwargs, 5000)
-spec call(name() | object(), name(), [term()], kwargs()) -> result().
call(Module, Function, Args, Kwargs) ->
    call(Module, Function, Args, Kwargs, ?TIMEOUT).

%% @doc Calls a Python function and waits for its result, at most 5,000 milliseconds or the given
%% timeout. A map has the timeout and other options:
%%
%% ```
%% {ok, Random} = py:call(random, 'Random', [1], #{}, #{return => ref, timeout => 1000}).
%% '''
-spec call(name() | object(), name(), [term()], kwargs(), timeout() | options()) -> result().
call(Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{timeout_or_options, [timeout, loop, return, values]}, Options}
        ],
        request(default, {call, Module, Function, Args, Kwargs}, Options)
    ).

%% @equiv eval(Code, #{}, 5000)
-spec eval(code()) -> result().
eval(Code) ->
    eval(Code, #{}, ?TIMEOUT).

%% @doc As `eval(Code, Variables, 5000)' or `eval(Namespace, Code, #{}, 5000)'.
-spec eval(code(), kwargs()) -> result();
          (namespace(), code()) -> result().
eval(Namespace, Code) when is_reference(Namespace) ->
    eval(Namespace, Code, #{}, ?TIMEOUT);
eval(Code, Variables) ->
    eval(Code, Variables, ?TIMEOUT).

%% @doc Runs code and returns the value of its last expression, `none' if it ends with something else.
%% The code can use `Variables' and the names of a namespace; what it assigns is in that namespace
%% afterwards. Callers who name no namespace share `erlang_loop_shell'. `await' works outside of
%% functions, too; a coroutine is awaited.
%%
%% ```
%% {ok, 42} = py:eval("base = 6\nbase * n", #{n => 7}, #{file => ?FILE, line => ?LINE}),
%% {ok, 6} = py:eval("base").
%% '''
%%
%% With a namespace first: `eval(Namespace, Code, Variables, 5000)'.
-spec eval(code(), kwargs(), timeout() | eval_options()) -> result();
          (namespace(), code(), kwargs()) -> result().
eval(Namespace, Code, Variables) when is_reference(Namespace) ->
    eval(Namespace, Code, Variables, ?TIMEOUT);
eval(Code, Variables, Options) ->
    ?EXPLAINED(
        [{code, Code}, {variables, Variables}, {{timeout_or_options, ?EVAL_OPTIONS}, Options}],
        request(default, {eval, text(Code), Variables}, Options)
    ).

%% @doc As {@link eval/3}, in a namespace.
-spec eval(namespace(), code(), kwargs(), timeout() | eval_options()) -> result().
eval(Namespace, Code, Variables, Options) ->
    ?EXPLAINED(
        [
            {object, Namespace}, {code, Code}, {variables, Variables},
            {{timeout_or_options, ?EVAL_OPTIONS -- [namespace]}, Options}
        ],
        request(default, {eval, text(Code), Variables}, py_options:within(Namespace, Options))
    ).

%% @equiv exec(Code, 5000)
-spec exec(code()) -> ok | {error, reason()}.
exec(Code) ->
    exec(Code, ?TIMEOUT).

%% @doc Runs code like {@link eval/3}, and returns no value. With a namespace first:
%% `exec(Namespace, Code, 5000)'.
-spec exec(code(), timeout() | exec_options()) -> ok | {error, reason()};
          (namespace(), code()) -> ok | {error, reason()}.
exec(Namespace, Code) when is_reference(Namespace) ->
    exec(Namespace, Code, ?TIMEOUT);
exec(Code, Options) ->
    ?EXPLAINED(
        [{code, Code}, {{timeout_or_options, ?EXEC_OPTIONS}, Options}], run_statements(Code, Options)
    ).

%% @doc As {@link exec/2}, in a namespace.
-spec exec(namespace(), code(), timeout() | exec_options()) -> ok | {error, reason()}.
exec(Namespace, Code, Options) ->
    ?EXPLAINED(
        [
            {object, Namespace}, {code, Code},
            {{timeout_or_options, ?EXEC_OPTIONS -- [namespace]}, Options}
        ],
        run_statements(Code, py_options:within(Namespace, Options))
    ).

run_statements(Code, Options) ->
    %% They have no result.
    ok = py_options:no_result(Options),
    case request(default, {exec, text(Code), #{}}, Options) of
        {ok, _} -> ok;
        {error, Reason} -> {error, Reason}
    end.

%% @equiv namespace(#{})
-spec namespace() -> {ok, namespace()} | {error, reason()}.
namespace() ->
    namespace(#{}).

%% @doc Creates a namespace, in which {@link exec/3} and {@link eval/4} run code: a Python module of
%% its own. It is an object like others ({@link call/3} calls its functions), and lives as long as a
%% process has the reference, or its code runs. See `docs/namespaces.md'.
-spec namespace(namespace_options()) -> {ok, namespace()} | {error, reason()}.
namespace(Options) ->
    ?EXPLAINED(
        [{{options, [name, copy]}, Options}],
        begin
            is_map(Options) andalso maps:size(maps:without([name, copy], Options)) =:= 0 orelse
                error(badarg),
            Arguments = maps:map(fun namespace_option/2, Options),
            Call = {call, <<"erlang.namespaces">>, create, [self()], Arguments},
            request(default, Call, #{return => ref})
        end
    ).

namespace_option(name, Name) ->
    name_text(Name);
namespace_option(copy, Namespace) ->
    _ = py_nif:object_type(Namespace),
    Namespace.

%% @doc Returns the namespaces of this node, with the names in them and the processes that created
%% them.
-spec namespaces() -> {ok, [namespace_info()]} | {error, reason()}.
namespaces() ->
    case call(<<"erlang.namespaces">>, existing, []) of
        {ok, Found} ->
            {ok, [
                #{namespace => Namespace, name => Name, names => Names, creator => Creator}
             || {Namespace, Name, Names, Creator} <- Found
            ]};
        {error, Reason} ->
            {error, Reason}
    end.

%% @doc Returns the names in a namespace, in order, without those that every module has.
-spec names(namespace()) -> {ok, [binary()]} | {error, reason()}.
names(Namespace) ->
    ?EXPLAINED(
        [{object, Namespace}],
        begin
            _ = py_nif:object_type(Namespace),
            request(default, {call, <<"erlang.namespaces">>, names, [Namespace], #{}}, ?TIMEOUT)
        end
    ).

%% @private
%% @doc Code as a binary.
-spec text(code()) -> binary().
text(Code) ->
    case unicode:characters_to_binary(Code) of
        Text when is_binary(Text) -> Text;
        _ -> error(badarg)
    end.

%% @equiv submit(Module, Function, Args, #{})
-spec submit(name() | object(), name(), [term()]) -> {ok, task()} | {error, reason()}.
submit(Module, Function, Args) ->
    submit(Module, Function, Args, #{}).

%% @equiv submit(Module, Function, Args, Kwargs, #{})
-spec submit(name() | object(), name(), [term()], kwargs()) -> {ok, task()} | {error, reason()}.
submit(Module, Function, Args, Kwargs) ->
    submit(Module, Function, Args, Kwargs, #{}).

%% @doc Starts a call and returns a task at once, for {@link await/2}, {@link yield/2} and
%% {@link cancel/1}.
-spec submit(name() | object(), name(), [term()], kwargs(), submit_options()) ->
    {ok, task()} | {error, reason()}.
submit(Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{options, [loop, return, values]}, Options}
        ],
        case py_event_loop:target(Options) of
            {error, Reason} ->
                {error, Reason};
            {Target, Rest} ->
                Call = {call, Module, Function, Args, Kwargs},
                submit_to(Target, py_options:with(Rest, Call))
        end
    ).

%% @equiv await(Task, 5000)
-spec await(task()) -> result().
await(Task) ->
    await(Task, ?TIMEOUT).

%% @doc Waits for a task's result. After `Timeout' milliseconds the task is cancelled. A task that
%% was awaited before, even if that timed out, returns `{error, noproc}'.
-spec await(task(), timeout()) -> result().
await(#py_task{token = Token, owner = Owner, request = Request}, Timeout) when
    Owner =:= self(), ?IS_TIMEOUT(Timeout), not is_reference(Request)
->
    py_remote:await(Token, Request, Timeout);
await(#py_task{token = Token, owner = Owner, request = Request}, Timeout) when
    Owner =:= self(), ?IS_TIMEOUT(Timeout)
->
    %% An open task replies, times out or fails. Otherwise its reply is already in the mailbox, or
    %% it was awaited before.
    case py_nif:request_is_open(Request) of
        true -> wait(Token, Request, Timeout);
        false -> taken(Token, {error, noproc})
    end;
await(Task, Timeout) ->
    error(badarg, [Task, Timeout], py_misuse:info(not_awaitable(Task, Timeout))).

%% @equiv yield(Task, 0)
-spec yield(task()) -> {value, result()} | timeout.
yield(Task) ->
    yield(Task, 0).

%% @doc Waits for a task's result, as `rpc:nb_yield/2' does: if there is none after `Timeout'
%% milliseconds, the task continues.
-spec yield(task(), timeout()) -> {value, result()} | timeout.
yield(#py_task{token = Token, owner = Owner, request = Request}, Timeout) when
    Owner =:= self(), ?IS_TIMEOUT(Timeout), not is_reference(Request)
->
    py_remote:yield(Token, Request, Timeout);
yield(#py_task{token = Token, owner = Owner, request = Request}, Timeout) when
    Owner =:= self(), ?IS_TIMEOUT(Timeout)
->
    case py_nif:request_is_open(Request) of
        true ->
            receive
                {py_reply, Token, Result} -> {value, Result}
            after Timeout -> timeout
            end;
        false ->
            {value, taken(Token, {error, noproc})}
    end;
yield(Task, Timeout) ->
    error(badarg, [Task, Timeout], py_misuse:info(not_awaitable(Task, Timeout))).

not_awaitable(#py_task{owner = Owner}, _) when Owner =/= self() ->
    #{1 => io_lib:format("a task that ~p submitted: only that process can await it", [Owner])};
not_awaitable(#py_task{}, Timeout) ->
    #{2 => py_misuse:text(timeout, Timeout)};
not_awaitable(Task, _) ->
    #{1 => py_misuse:text(task, Task)}.

%% @doc Cancels a task. A coroutine gets `CancelledError' at its `await'; the task's result is then
%% `{error, cancelled}', unless the coroutine catches the exception. A call that has not started is
%% never started. A running plain function is interrupted. Any process may cancel a task,
%% any number of times.
%%
%% A stream ends in the same way; a plain generator is closed at its `yield'. When its
%% consumer cancels it, its mailbox contains no message of the stream afterwards, and none arrives
%% later. When another process cancels it, the consumer gets `{error, cancelled}'.
-spec cancel(task() | stream()) -> ok.
cancel(#py_task{request = Request}) when is_reference(Request) ->
    py_nif:request_cancel(Request);
cancel(#py_task{token = Token, request = Request}) ->
    py_remote:cancel(Token, Request);
cancel(Stream) when is_reference(Stream) ->
    ?EXPLAINED([{stream, Stream}], py_stream:cancel(Stream));
cancel(Task) ->
    case py_remote:is_stream(Task) of
        true -> py_stream:cancel(Task);
        false -> error(badarg, [Task], py_misuse:info(#{1 => py_misuse:text(task_or_stream, Task)}))
    end.

%% @equiv cast(Module, Function, Args, #{})
-spec cast(name() | object(), name(), [term()]) -> ok | {error, reason()}.
cast(Module, Function, Args) ->
    cast(Module, Function, Args, #{}).

%% @equiv cast(Module, Function, Args, Kwargs, #{})
-spec cast(name() | object(), name(), [term()], kwargs()) -> ok | {error, reason()}.
cast(Module, Function, Args, Kwargs) ->
    cast(Module, Function, Args, Kwargs, #{}).

%% @doc Calls a function asynchronously and discards the result. The call continues if the calling
%% process dies. An exception is logged.
-spec cast(name() | object(), name(), [term()], kwargs(), cast_options()) -> ok | {error, reason()}.
cast(Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs},
            {{options, [loop]}, Options}
        ],
        case py_event_loop:target(Options) of
            {error, Reason} ->
                {error, Reason};
            {Target, Rest} ->
                map_size(Rest) =:= 0 orelse error(badarg),
                cast_to(Target, {call, Module, Function, Args, Kwargs})
        end
    ).

cast_to(Target, Call) ->
    ok = py_telemetry:submitted(cast, Target, Call),
    case submit_request(undefined, Target, Call) of
        ok -> ok;
        {ok, _} -> ok;
        {error, Reason} -> {error, Reason}
    end.

%% @equiv method(Object, Name, Args, #{}, 5000)
-spec method(object(), name(), [term()]) -> result().
method(Object, Name, Args) ->
    method(Object, Name, Args, #{}, ?TIMEOUT).

%% @equiv method(Object, Name, Args, Kwargs, 5000)
-spec method(object(), name(), [term()], kwargs()) -> result().
method(Object, Name, Args, Kwargs) ->
    method(Object, Name, Args, Kwargs, ?TIMEOUT).

%% @doc Calls a method of an object. `Name' may be dotted: a method of an attribute. A coroutine is
%% awaited on the loop.
%%
%% ```
%% {ok, List} = py:call(builtins, list, [[3, 1, 2]], #{}, #{return => ref}),
%% {ok, none} = py:method(List, sort, []),
%% {ok, [1, 2, 3]} = py:value(List).
%% '''
%%
%% The other functions for calls take an object instead of a module, too: `py:call/5', `py:submit/5',
%% `py:stream/5' and so on.
-spec method(object(), name(), [term()], kwargs(), timeout() | options()) -> result().
method(Object, Name, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {object, Object}, {name, Name}, {args, Args}, {kwargs, Kwargs},
            {{timeout_or_options, [timeout, loop, return, values]}, Options}
        ],
        begin
            is_reference(Object) orelse error(badarg),
            request(default, {call, Object, Name, Args, Kwargs}, Options)
        end
    ).

%% @equiv attr(Object, Name, 5000)
-spec attr(object(), name()) -> result().
attr(Object, Name) ->
    attr(Object, Name, ?TIMEOUT).

%% @doc Returns an attribute of an object. `Name' may be dotted: an attribute of an attribute.
-spec attr(object(), name(), timeout() | options()) -> result().
attr(Object, Name, Options) ->
    ?EXPLAINED(
        [{object, Object}, {name, Name}, {{timeout_or_options, [timeout, loop, return, values]}, Options}],
        of_object(attribute, Object, [name_text(Name)], Options)
    ).

%% @equiv item(Object, Key, 5000)
-spec item(object(), term()) -> result().
item(Object, Key) ->
    item(Object, Key, ?TIMEOUT).

%% @doc Returns `object[key]': the item of a list, the value of a dictionary.
-spec item(object(), term(), timeout() | options()) -> result().
item(Object, Key, Options) ->
    ?EXPLAINED(
        [{object, Object}, {any, Key}, {{timeout_or_options, [timeout, loop, return, values]}, Options}],
        of_object(item, Object, [Key], Options)
    ).

%% @doc Of a result, the value: returns `Value' for `{ok, Value}', and raises `{python, Reason}' for
%% `{error, Reason}'. The shell and crash reports print such an error with Python's traceback.
%%
%% ```
%% 4.0 = py:value(py:call(math, sqrt, [16])).
%% '''
%%
%% Of an object, a result: its value, converted like the result of any call.
%%
%% ```
%% {ok, Counter} = py:call(collections, 'Counter', [<<"abca">>], #{}, #{return => ref}),
%% {ok, #{<<"a">> := 2}} = py:value(Counter).
%% '''
-spec value(result()) -> term();
           (object()) -> result().
value({ok, Value}) ->
    Value;
value({error, Reason}) ->
    erlang:error({python, Reason}, none, [{error_info, #{module => py_error}}]);
value(Object) ->
    value(Object, ?TIMEOUT).

%% @doc As {@link value/1} of an object.
-spec value(object(), timeout() | options()) -> result().
value(Object, Options) ->
    ?EXPLAINED(
        [{object, Object}, {{timeout_or_options, [timeout, loop, return, values]}, Options}],
        of_object(value, Object, [], Options)
    ).

%% @equiv type(Object, 5000)
-spec type(object()) -> {ok, binary()} | {error, reason()}.
type(Object) ->
    type(Object, ?TIMEOUT).

%% @doc Returns the name of an object's type: `<<"builtins.list">>'.
-spec type(object(), timeout() | options()) -> result().
type(Object, Options) ->
    ?EXPLAINED(
        [{object, Object}, {{timeout_or_options, [timeout, loop, return, values]}, Options}],
        of_object(type_name, Object, [], Options)
    ).

%% @equiv repr(Object, 5000)
-spec repr(object()) -> {ok, binary()} | {error, reason()}.
repr(Object) ->
    repr(Object, ?TIMEOUT).

%% @doc Returns an object as Python prints it.
-spec repr(object(), timeout() | options()) -> result().
repr(Object, Options) ->
    ?EXPLAINED(
        [{object, Object}, {{timeout_or_options, [timeout, loop, return, values]}, Options}],
        begin
            _ = py_nif:object_type(Object),
            request(default, {call, builtins, repr, [Object], #{}}, Options)
        end
    ).

of_object(Function, Object, Args, Options) ->
    %% Raises `badarg' for other references, which Python would take for its own `erlang.Ref'.
    _ = py_nif:object_type(Object),
    request(default, {call, <<"erlang.objects">>, Function, [Object | Args], #{}}, Options).

name_text(Name) when is_atom(Name) -> atom_to_binary(Name);
name_text(Name) -> text(Name).

%% @doc Formats any term, with `#py{type}' for each reference to a Python object. Does not wait for
%% Python.
%%
%% ```
%% {ok, Random} = py:call(random, 'Random', [1], #{}, #{return => ref}),
%% "{ok,#py{random.Random}}" = lists:flatten(py:format({ok, Random})).
%% '''
-spec format(term()) -> string().
format(Term) ->
    py_object:format(Term).

%% @doc Formats the `Reason' of `{error, Reason}' as text: Python's traceback for an exception.
-spec format_error(reason()) -> unicode:chardata().
format_error(Reason) ->
    py_error:format(Reason).

%% @equiv stream(Module, Function, Args, #{}, #{})
-spec stream(name() | object(), name(), [term()]) -> {ok, stream()} | {error, reason()}.
stream(Module, Function, Args) ->
    stream(Module, Function, Args, #{}, #{}).

%% @equiv stream(Module, Function, Args, Kwargs, #{})
-spec stream(name() | object(), name(), [term()], kwargs()) -> {ok, stream()} | {error, reason()}.
stream(Module, Function, Args, Kwargs) ->
    stream(Module, Function, Args, Kwargs, #{}).

%% @doc Calls a function and sends the items it yields, as far as there is demand, to the calling
%% process: `{py_stream, Stream, {data, Item}}', and at the end `{py_stream, Stream, done}' or
%% `{py_stream, Stream, {error, Reason}}'.
%%
%% The function may be an asynchronous generator, a coroutine function that returns one, a plain
%% generator, or any function that returns an iterable. Asynchronous generators run on a loop,
%% plain ones on call threads, which they occupy only while they produce items.
%%
%% Options: `demand', the initial demand (0 by default); `to', the consumer, if that is not the
%% calling process; `loop'; `return', for each item, as for {@link call/5}. When the consumer dies,
%% the stream is cancelled.
-spec stream(name() | object(), name(), [term()], kwargs(), py_stream:options()) ->
    {ok, stream()} | {error, reason()}.
stream(Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [{module_or_object, Module}, {name, Function}, {args, Args}, {kwargs, Kwargs}, {stream_options, Options}],
        case py_event_loop:target(Options) of
            {error, Reason} -> {error, Reason};
            {Target, Rest} -> py_stream:start(Target, {call, Module, Function, Args, Kwargs}, Rest)
        end
    ).

%% @doc Adds demand for more items. The end of a stream is reported only when there is demand for an
%% item after the last one. No effect on a stream that has ended.
-spec demand(stream(), pos_integer()) -> ok.
demand(Stream, Count) ->
    ?EXPLAINED([{stream, Stream}, {demand, Count}], py_stream:demand(Stream, Count)).

%% @equiv fold(Fun, Acc, Module, Function, Args, #{}, #{})
-spec fold(fun((term(), Acc) -> Acc), Acc, name() | object(), name(), [term()]) ->
    {ok, Acc} | {error, reason()}.
fold(Fun, Acc, Module, Function, Args) ->
    fold(Fun, Acc, Module, Function, Args, #{}, #{}).

%% @equiv fold(Fun, Acc, Module, Function, Args, Kwargs, #{})
-spec fold(fun((term(), Acc) -> Acc), Acc, name() | object(), name(), [term()], kwargs()) ->
    {ok, Acc} | {error, reason()}.
fold(Fun, Acc, Module, Function, Args, Kwargs) ->
    fold(Fun, Acc, Module, Function, Args, Kwargs, #{}).

%% @doc Folds over the items of a stream, as `lists:foldl/3'. If `Fun' raises, the stream is
%% cancelled.
%%
%% Options: `timeout', the milliseconds that the next item may take (5,000); `demand', how many
%% items may be in flight (32); `loop'; `return'.
-spec fold(
    fun((term(), Acc) -> Acc), Acc, name() | object(), name(), [term()], kwargs(), py_stream:fold_options()
) -> {ok, Acc} | {error, reason()}.
fold(Fun, Acc, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {{function, 2}, Fun}, {any, Acc}, {module_or_object, Module}, {name, Function},
            {args, Args}, {kwargs, Kwargs}, {fold_options, Options}
        ],
        begin
            is_function(Fun, 2) orelse error(badarg),
            Step = fun(Item, Before) -> {cont, Fun(Item, Before)} end,
            fold_while(Step, Acc, Module, Function, Args, Kwargs, Options)
        end
    ).

%% @equiv fold_while(Fun, Acc, Module, Function, Args, #{}, #{})
-spec fold_while(fun((term(), Acc) -> {cont | halt, Acc}), Acc, name() | object(), name(), [term()]) ->
    {ok, Acc} | {error, reason()}.
fold_while(Fun, Acc, Module, Function, Args) ->
    fold_while(Fun, Acc, Module, Function, Args, #{}, #{}).

%% @equiv fold_while(Fun, Acc, Module, Function, Args, Kwargs, #{})
-spec fold_while(
    fun((term(), Acc) -> {cont | halt, Acc}), Acc, name() | object(), name(), [term()], kwargs()
) -> {ok, Acc} | {error, reason()}.
fold_while(Fun, Acc, Module, Function, Args, Kwargs) ->
    fold_while(Fun, Acc, Module, Function, Args, Kwargs, #{}).

%% @doc Like {@link fold/7}; for each item `Fun' returns `{cont, Acc}' to continue, or `{halt, Acc}'
%% to cancel the stream.
-spec fold_while(
    fun((term(), Acc) -> {cont | halt, Acc}),
    Acc,
    name() | object(),
    name(),
    [term()],
    kwargs(),
    py_stream:fold_options()
) -> {ok, Acc} | {error, reason()}.
fold_while(Fun, Acc, Module, Function, Args, Kwargs, Options) ->
    ?EXPLAINED(
        [
            {{function, 2}, Fun}, {any, Acc}, {module_or_object, Module}, {name, Function},
            {args, Args}, {kwargs, Kwargs}, {fold_options, Options}
        ],
        case py_event_loop:target(Options) of
            {error, Reason} ->
                {error, Reason};
            {Target, Rest} ->
                py_stream:fold(Fun, Acc, Target, {call, Module, Function, Args, Kwargs}, Rest)
        end
    ).

%% @equiv channel(#{})
-spec channel() -> {ok, py_channel:channel()}.
channel() ->
    channel(#{}).

%% @doc Opens a channel: this and other processes send items, and Python code, to which the channel
%% is passed as an argument, reads them. See {@link py_channel}.
-spec channel(py_channel:options()) -> {ok, py_channel:channel()} | {error, noproc}.
channel(Options) ->
    ?EXPLAINED([{channel_options, Options}], py_channel:open(Options)).

%% @doc Returns what runs in Python now: the calls on call threads with their callers, ages and stacks,
%% the queue, and the loops with their tasks and the chain of awaits of each. Needs no call thread. While
%% one call into C keeps the GIL, the tasks are missing, and `missing' says so; everything else is there.
-spec status() -> py_status:status().
status() ->
    py_status:status().

%% @private
-spec request(py_nif:request_target(), py_nif:call(), timeout() | eval_options()) -> result().
request(default, Call, #{loop := _} = Options) ->
    case py_event_loop:target(Options) of
        {error, Reason} -> {error, Reason};
        {Target, Rest} -> request(Target, Call, Rest)
    end;
request(Target, Call, Options) ->
    case request_once(Target, Call, Options) of
        {refused, Reason} -> {error, Reason};
        Result -> Result
    end.

%% @private
%% @doc As request/3. `refused': the request has not been started, and never will be.
-spec request_once(py_nif:request_target(), py_nif:call(), timeout() | eval_options()) ->
    result() | {refused, reason()}.
request_once(Target, Call, #{} = Options) ->
    {Timeout, Rest} = py_options:take_timeout(Options),
    is_map(Timeout) andalso error(badarg),
    request_once(Target, py_options:with(Rest, Call), Timeout);
request_once(Target, Call, Timeout) ->
    %% Checked before the request is sent: otherwise no process would take the reply.
    is_timeout(Timeout) orelse error(badarg),
    case py_telemetry:is_on() of
        false -> requested(Target, Call, Timeout);
        true -> py_telemetry:request(Target, Call, fun() -> requested(Target, Call, Timeout) end)
    end.

requested(Target, Call, Timeout) when is_pid(Target), node(Target) =/= node() ->
    py_remote:request_once(Target, Call, Timeout);
requested(Target, Call, Timeout) ->
    %% Created here, so that `receive' skips the messages that are already in the mailbox.
    Token = make_ref(),
    case py_nif:request_submit_unmonitored(Token, Target, Call) of
        {ok, Request} when Timeout > ?AT_ONCE ->
            %% Nearly all replies arrive at once. Only a longer call monitors its caller.
            receive
                {py_reply, Token, Result} -> Result
            after ?AT_ONCE ->
                ok = py_nif:request_monitor(Request),
                wait(Token, Request, left(Timeout))
            end;
        {ok, Request} ->
            wait(Token, Request, Timeout);
        {error, Reason} ->
            not_here(Reason, Token, Target, Call, Timeout)
    end.

%% The loop may live in another operating system process.
not_here(Reason, Token, Target, Call, Timeout) ->
    case {py_remote:is_proxy(Target), Reason} of
        {true, _} ->
            py_remote:request_once(Target, Call, Timeout);
        {false, not_started} ->
            case retry_started(fun() -> py_nif:request_submit(Token, Target, Call) end) of
                {ok, Request} -> wait(Token, Request, Timeout);
                {error, Refused} -> {refused, Refused}
            end;
        {false, _} ->
            {refused, Reason}
    end.

%% @private
%% @doc After `{error, not_started}': starts Python and the default loop, and retries once.
-spec retry_started(fun(() -> {ok, Request} | {error, reason()})) -> {ok, Request} | {error, reason()}.
retry_started(Submit) ->
    case ensure_started() of
        ok ->
            case Submit() of
                %% The default loop exists, and is just ending.
                {error, not_started} -> {error, loop_down};
                Other -> Other
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% @private
%% @doc Whether `receive' accepts the timeout.
-spec is_timeout(term()) -> boolean().
is_timeout(Timeout) -> ?IS_TIMEOUT(Timeout).

left(infinity) -> infinity;
left(Timeout) -> Timeout - ?AT_ONCE.

%% @private
-spec submit_to(py_nif:request_target(), py_nif:call()) -> {ok, task()} | {error, reason()}.
submit_to(Target, Call) ->
    Token = make_ref(),
    ok = py_telemetry:submitted(submit, Target, Call),
    case submit_request(Token, Target, Call) of
        {ok, Request} ->
            {ok, #py_task{token = Token, owner = self(), request = Request}};
        {error, Reason} ->
            {error, Reason};
        {remote, {ok, Monitor, Request}} ->
            {ok, #py_task{token = Monitor, owner = self(), request = Request}};
        {remote, {error, Reason}} ->
            {error, Reason}
    end.

submit_request(undefined, Target, Call) when is_pid(Target), node(Target) =/= node() ->
    py_remote:cast(Target, Call);
submit_request(_Token, Target, Call) when is_pid(Target), node(Target) =/= node() ->
    {remote, py_remote:submit(Target, Call)};
submit_request(Token, Target, Call) ->
    case py_nif:request_submit(Token, Target, Call) of
        {error, Reason} ->
            case {py_remote:is_proxy(Target), Reason} of
                {true, _} when Token =:= undefined ->
                    py_remote:cast(Target, Call);
                {true, _} ->
                    {remote, py_remote:submit(Target, Call)};
                {false, not_started} ->
                    retry_started(fun() -> py_nif:request_submit(Token, Target, Call) end);
                {false, _} ->
                    {error, Reason}
            end;
        Submitted ->
            Submitted
    end.

%% The task replies, or fails when its loop ends: one message in every case.
wait(Token, Request, Timeout) ->
    receive
        {py_reply, Token, Result} -> Result
    after Timeout -> abandon(Token, Request)
    end.

abandon(Token, Request) ->
    case py_nif:request_abandon(Request) of
        %% No message will come.
        ok -> {error, timeout};
        %% It has just arrived.
        done -> taken(Token, {error, timeout})
    end.

taken(Token, Otherwise) ->
    receive
        {py_reply, Token, Result} -> Result
    after 0 -> Otherwise
    end.

%% Starts Python and the default loop, when they are first needed.
-spec ensure_started() -> ok | {error, reason()}.
ensure_started() ->
    case py_interpreter:ensure_started() of
        ok -> py_event_loop_sup:ensure_default();
        {error, Reason} -> {error, Reason}
    end.
