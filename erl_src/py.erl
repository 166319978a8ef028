%% @doc Calls Python from Erlang.
%%
%% ```
%% {ok, 4.0} = py:call(math, sqrt, [16]),
%% {ok, <<"{\"a\": 1}">>} = py:call(json, dumps, [#{<<"a">> => 1}], #{sort_keys => true}),
%% {ok, <<"done">>} = py:call(asyncio, sleep, [0.01, <<"done">>]).
%% '''
%%
%% Modules and functions are named by atoms, UTF-8 binaries or strings; a function's name may be
%% dotted (`"Class.method"'). It may be a plain function, a coroutine function or anything else
%% that can be called. Plain functions run on threads of their own, one after another while they
%% are short, side by side when one takes longer. Coroutines run on the default loop, which is
%% started when it is first needed; `py_event_loop' has loops of your own.
%%
%% An answer is `{ok, Value}' or `{error, Reason}'. An exception of Python is a map, see
%% `docs/values.md'; other reasons are atoms:
%%
%% <ul>
%% <li>`timeout': it took too long. The coroutine is cancelled at its `await'; a plain function
%%     cannot be stopped and is logged instead.</li>
%% <li>`cancelled': by {@link cancel/1}, or it cancelled itself.</li>
%% <li>`loop_down': the loop ended before the coroutine did.</li>
%% <li>`overload': as many requests wait as may.</li>
%% <li>`deadlock': the loop waits, in Python's `erlang.call', for what the calling process
%%     does.</li>
%% <li>`not_started': the application `erlang_loop' is not running.</li>
%% </ul>
%%
%% When the calling process dies, what it asked for is cancelled as after a time-out.
-module(py).

-export([call/3, call/4, call/5]).
-export([eval/1, eval/2, eval/3, exec/1, exec/2]).
-export([submit/3, submit/4, await/1, await/2, yield/1, yield/2, cancel/1]).
-export([cast/3, cast/4]).
-export([value/1, format_error/1]).
-export([stream/3, stream/4, stream/5, demand/2]).
-export([fold/5, fold/6, fold/7, fold_while/5, fold_while/6, fold_while/7]).
%% For py_event_loop and py_stream.
-export([ask/3, submit_to/2, ask_again/1, is_timeout/1]).

-export_type([name/0, code/0, kwargs/0, result/0, reason/0, task/0, stream/0]).

-define(TIMEOUT, 5000).
%% Milliseconds.
-define(AT_ONCE, 2).

%% A module or a function.
-type name() :: atom() | binary() | string().
-type code() :: unicode:chardata().
-type kwargs() :: #{atom() | binary() => term()}.
-type reason() ::
    timeout
    | cancelled
    | loop_down
    | overload
    | deadlock
    | not_started
    | noproc
    %% An exception.
    | map()
    %% Python could not be started, and why.
    | term().
-type result() :: {ok, term()} | {error, reason()}.

-record(py_task, {
    %% The answer comes as `{py_reply, Token, result()}'.
    token :: reference(),
    owner :: pid(),
    task :: py_nif:task()
}).

%% Something that was submitted. Only the process that submitted it can await it.
-opaque task() :: #py_task{}.
%% A reference, which is in the messages of the stream.
-type stream() :: py_stream:stream().

%% @equiv call(Module, Function, Args, #{}, 5000)
-spec call(name(), name(), [term()]) -> result().
call(Module, Function, Args) ->
    call(Module, Function, Args, #{}, ?TIMEOUT).

%% @equiv call(Module, Function, Args, Kwargs, 5000)
-spec call(name(), name(), [term()], kwargs()) -> result().
call(Module, Function, Args, Kwargs) ->
    call(Module, Function, Args, Kwargs, ?TIMEOUT).

%% @doc Calls a Python function and waits for its answer, at most `Timeout' milliseconds.
-spec call(name(), name(), [term()], kwargs(), timeout()) -> result().
call(Module, Function, Args, Kwargs, Timeout) ->
    ask(default, {call, Module, Function, Args, Kwargs}, Timeout).

%% @equiv eval(Code, #{}, 5000)
-spec eval(code()) -> result().
eval(Code) ->
    eval(Code, #{}, ?TIMEOUT).

%% @equiv eval(Code, Variables, 5000)
-spec eval(code(), kwargs()) -> result().
eval(Code, Variables) ->
    eval(Code, Variables, ?TIMEOUT).

%% @doc The value of an expression, which sees `Variables' and what {@link exec/1} left in the
%% node's one shell module, `erlang_loop_shell'. A coroutine is awaited.
-spec eval(code(), kwargs(), timeout()) -> result().
eval(Code, Variables, Timeout) ->
    ask(default, {eval, text(Code), Variables}, Timeout).

%% @equiv exec(Code, 5000)
-spec exec(code()) -> ok | {error, reason()}.
exec(Code) ->
    exec(Code, ?TIMEOUT).

%% @doc Runs statements in the node's one shell module, `erlang_loop_shell': what they define is
%% there for later calls, of all processes.
-spec exec(code(), timeout()) -> ok | {error, reason()}.
exec(Code, Timeout) ->
    case ask(default, {exec, text(Code), #{}}, Timeout) of
        {ok, _} -> ok;
        {error, Reason} -> {error, Reason}
    end.

text(Code) ->
    case unicode:characters_to_binary(Code) of
        Text when is_binary(Text) -> Text;
        _ -> error(badarg)
    end.

%% @equiv submit(Module, Function, Args, #{})
-spec submit(name(), name(), [term()]) -> {ok, task()} | {error, reason()}.
submit(Module, Function, Args) ->
    submit(Module, Function, Args, #{}).

%% @doc Starts a call and does not wait; {@link await/2}, {@link yield/2} and {@link cancel/1}
%% take the task.
-spec submit(name(), name(), [term()], kwargs()) -> {ok, task()} | {error, reason()}.
submit(Module, Function, Args, Kwargs) ->
    submit_to(default, {call, Module, Function, Args, Kwargs}).

%% @equiv await(Task, 5000)
-spec await(task()) -> result().
await(Task) ->
    await(Task, ?TIMEOUT).

%% @doc Waits for a task's answer. After `Timeout' milliseconds the task is cancelled. A task that
%% was awaited before, also in vain, is `{error, noproc}'.
-spec await(task(), timeout()) -> result().
await(#py_task{token = Token, owner = Owner, task = Task}, Timeout) when Owner =:= self() ->
    %% An open task answers, gives up or fails; one that is not has its answer in the mailbox
    %% already, or was awaited before.
    case py_nif:task_is_open(Task) of
        true -> wait(Token, Task, Timeout);
        false -> taken(Token, {error, noproc})
    end.

%% @equiv yield(Task, 0)
-spec yield(task()) -> {value, result()} | timeout.
yield(Task) ->
    yield(Task, 0).

%% @doc As `rpc:nb_yield/2': waits for a task's answer, and the task goes on after `Timeout'
%% milliseconds without one.
-spec yield(task(), timeout()) -> {value, result()} | timeout.
yield(#py_task{token = Token, owner = Owner, task = Task}, Timeout) when Owner =:= self() ->
    case py_nif:task_is_open(Task) of
        true ->
            receive
                {py_reply, Token, Result} -> {value, Result}
            after Timeout -> timeout
            end;
        false ->
            {value, taken(Token, {error, noproc})}
    end.

%% @doc Cancels a task: a coroutine gets `CancelledError' at its `await', and its end is the
%% answer (`{error, cancelled}', unless it catches that); what has not begun will not begin; a
%% plain function that runs is left alone and logged. Any process may do it, any number of times.
%%
%% A stream ends in the same way, and a plain generator is closed after the item that it is at.
%% When its consumer cancels it, no message of it is in the mailbox afterwards, nor comes later;
%% when another process does, the consumer gets `{error, cancelled}'.
-spec cancel(task() | stream()) -> ok.
cancel(#py_task{task = Task}) ->
    py_nif:task_cancel(Task);
cancel(Stream) when is_reference(Stream) ->
    py_stream:cancel(Stream).

%% @equiv cast(Module, Function, Args, #{})
-spec cast(name(), name(), [term()]) -> ok | {error, reason()}.
cast(Module, Function, Args) ->
    cast(Module, Function, Args, #{}).

%% @doc Has a function called and does not want its answer. It goes on when the calling process
%% dies. An exception is logged.
-spec cast(name(), name(), [term()], kwargs()) -> ok | {error, reason()}.
cast(Module, Function, Args, Kwargs) ->
    case hand_in(undefined, default, {call, Module, Function, Args, Kwargs}) of
        {ok, _} -> ok;
        {error, Reason} -> {error, Reason}
    end.

%% @doc The value of an answer; raises `{python, Reason}' for an error. The shell and crash reports
%% print such an error with Python's traceback.
%%
%% ```
%% 4.0 = py:value(py:call(math, sqrt, [16])).
%% '''
-spec value(result()) -> term().
value({ok, Value}) ->
    Value;
value({error, Reason}) ->
    erlang:error({python, Reason}, none, [{error_info, #{module => py_error}}]).

%% @doc The `Reason' of `{error, Reason}' as text: Python's traceback for an exception.
-spec format_error(reason()) -> unicode:chardata().
format_error(Reason) ->
    py_error:format(Reason).

%% @equiv stream(Module, Function, Args, #{}, #{})
-spec stream(name(), name(), [term()]) -> {ok, stream()} | {error, reason()}.
stream(Module, Function, Args) ->
    stream(Module, Function, Args, #{}, #{}).

%% @equiv stream(Module, Function, Args, Kwargs, #{})
-spec stream(name(), name(), [term()], kwargs()) -> {ok, stream()} | {error, reason()}.
stream(Module, Function, Args, Kwargs) ->
    stream(Module, Function, Args, Kwargs, #{}).

%% @doc Has a function called and sends what it yields, as it is demanded, to the calling process:
%% `{py_stream, Stream, {data, Item}}', and at the end `{py_stream, Stream, done}' or
%% `{py_stream, Stream, {error, Reason}}'.
%%
%% It may be an asynchronous generator, a coroutine function that answers one, a plain generator,
%% or anything else whose answer can be iterated over. Asynchronous ones run on a loop; plain ones
%% on the threads of plain functions, which they hold only while they make items.
%%
%% Options: `demand', the items that are wanted from the beginning (none unless given); `to', the
%% consumer, if that is not the calling process; `loop'. When the consumer dies, the stream is
%% cancelled.
-spec stream(name(), name(), [term()], kwargs(), py_stream:options()) ->
    {ok, stream()} | {error, reason()}.
stream(Module, Function, Args, Kwargs, Options) ->
    case py_event_loop:target(Options) of
        {error, Reason} -> {error, Reason};
        {Target, Rest} -> py_stream:start(Target, {call, Module, Function, Args, Kwargs}, Rest)
    end.

%% @doc So many more items are wanted. The end of a stream is found when an item after the last
%% one is wanted. Without effect on a stream that has ended.
-spec demand(stream(), pos_integer()) -> ok.
demand(Stream, Count) ->
    py_stream:demand(Stream, Count).

%% @equiv fold(Fun, Acc, Module, Function, Args, #{}, #{})
-spec fold(fun((term(), Acc) -> Acc), Acc, name(), name(), [term()]) ->
    {ok, Acc} | {error, reason()}.
fold(Fun, Acc, Module, Function, Args) ->
    fold(Fun, Acc, Module, Function, Args, #{}, #{}).

%% @equiv fold(Fun, Acc, Module, Function, Args, Kwargs, #{})
-spec fold(fun((term(), Acc) -> Acc), Acc, name(), name(), [term()], kwargs()) ->
    {ok, Acc} | {error, reason()}.
fold(Fun, Acc, Module, Function, Args, Kwargs) ->
    fold(Fun, Acc, Module, Function, Args, Kwargs, #{}).

%% @doc As `lists:foldl/3' over the items of a stream. If `Fun' raises, the stream is cancelled.
%%
%% Options: `timeout', the milliseconds that the next item may take (5,000); `demand', how many
%% items may be under way (32); `loop'.
-spec fold(
    fun((term(), Acc) -> Acc), Acc, name(), name(), [term()], kwargs(), py_stream:fold_options()
) -> {ok, Acc} | {error, reason()}.
fold(Fun, Acc, Module, Function, Args, Kwargs, Options) when is_function(Fun, 2) ->
    Step = fun(Item, Before) -> {cont, Fun(Item, Before)} end,
    fold_while(Step, Acc, Module, Function, Args, Kwargs, Options).

%% @equiv fold_while(Fun, Acc, Module, Function, Args, #{}, #{})
-spec fold_while(fun((term(), Acc) -> {cont | halt, Acc}), Acc, name(), name(), [term()]) ->
    {ok, Acc} | {error, reason()}.
fold_while(Fun, Acc, Module, Function, Args) ->
    fold_while(Fun, Acc, Module, Function, Args, #{}, #{}).

%% @equiv fold_while(Fun, Acc, Module, Function, Args, Kwargs, #{})
-spec fold_while(
    fun((term(), Acc) -> {cont | halt, Acc}), Acc, name(), name(), [term()], kwargs()
) -> {ok, Acc} | {error, reason()}.
fold_while(Fun, Acc, Module, Function, Args, Kwargs) ->
    fold_while(Fun, Acc, Module, Function, Args, Kwargs, #{}).

%% @doc As {@link fold/7}; `Fun' says with each item whether to go on: `{cont, Acc}', or to cancel
%% the stream: `{halt, Acc}'.
-spec fold_while(
    fun((term(), Acc) -> {cont | halt, Acc}),
    Acc,
    name(),
    name(),
    [term()],
    kwargs(),
    py_stream:fold_options()
) -> {ok, Acc} | {error, reason()}.
fold_while(Fun, Acc, Module, Function, Args, Kwargs, Options) when is_function(Fun, 2) ->
    case py_event_loop:target(Options) of
        {error, Reason} ->
            {error, Reason};
        {Target, Rest} ->
            py_stream:fold(Fun, Acc, Target, {call, Module, Function, Args, Kwargs}, Rest)
    end.

%% @private
-spec ask(py_nif:task_target(), py_nif:task_work(), timeout()) -> result().
ask(Target, Work, Timeout) ->
    %% Before it is asked: nobody would take the answer.
    is_timeout(Timeout) orelse error(badarg),
    %% Made here, so that `receive' skips what was in the mailbox before.
    Token = make_ref(),
    case py_nif:task_ask(Token, Target, Work) of
        {ok, Task} when Timeout > ?AT_ONCE ->
            %% Nearly all answers come at once. What takes longer hears of the caller's death.
            receive
                {py_reply, Token, Result} -> Result
            after ?AT_ONCE ->
                ok = py_nif:task_watch(Task),
                wait(Token, Task, left(Timeout))
            end;
        {ok, Task} ->
            wait(Token, Task, Timeout);
        {error, not_started} ->
            case ask_again(fun() -> py_nif:task_submit(Token, Target, Work) end) of
                {ok, Task} -> wait(Token, Task, Timeout);
                {error, Reason} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% @private
%% @doc After `{error, not_started}': starts Python and the default loop, and asks once more.
-spec ask_again(fun(() -> {ok, Task} | {error, reason()})) -> {ok, Task} | {error, reason()}.
ask_again(Ask) ->
    case ensure_started() of
        ok ->
            case Ask() of
                %% There is a default loop, and it is just ending.
                {error, not_started} -> {error, loop_down};
                Answer -> Answer
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% @private
%% @doc Whether `receive' takes it.
-spec is_timeout(term()) -> boolean().
is_timeout(infinity) -> true;
is_timeout(Timeout) -> is_integer(Timeout) andalso Timeout >= 0 andalso Timeout < 1 bsl 32.

left(infinity) -> infinity;
left(Timeout) -> Timeout - ?AT_ONCE.

%% @private
-spec submit_to(py_nif:task_target(), py_nif:task_work()) -> {ok, task()} | {error, reason()}.
submit_to(Target, Work) ->
    Token = make_ref(),
    case hand_in(Token, Target, Work) of
        {ok, Task} -> {ok, #py_task{token = Token, owner = self(), task = Task}};
        {error, Reason} -> {error, Reason}
    end.

hand_in(Token, Target, Work) ->
    case py_nif:task_submit(Token, Target, Work) of
        {error, not_started} ->
            ask_again(fun() -> py_nif:task_submit(Token, Target, Work) end);
        Answer ->
            Answer
    end.

%% The task answers, or fails when its loop ends: one message in every case.
wait(Token, Task, Timeout) ->
    receive
        {py_reply, Token, Result} -> Result
    after Timeout -> give_up(Token, Task)
    end.

give_up(Token, Task) ->
    case py_nif:task_give_up(Task) of
        %% No message will come.
        ok -> {error, timeout};
        %% It came this moment.
        done -> taken(Token, {error, timeout})
    end.

taken(Token, Otherwise) ->
    receive
        {py_reply, Token, Result} -> Result
    after 0 -> Otherwise
    end.

%% Python and the default loop, when they are first needed.
-spec ensure_started() -> ok | {error, reason()}.
ensure_started() ->
    try py_interpreter:ensure_started() of
        ok -> py_event_loop_sup:ensure_default();
        {error, Reason} -> {error, Reason}
    catch
        %% It is not there, or was killed or shut down meanwhile.
        exit:{_, {gen_server, call, _}} -> {error, not_started}
    end.
