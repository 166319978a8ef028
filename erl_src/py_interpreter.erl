%% @doc Starts Python, once, on first use or with the application.
%%
%% The settings choose the interpreter and its packages: `docs/settings.md'.
%%
%% An interpreter cannot be started twice in one process: it keeps running when this process or the
%% application ends, and the next start finds it.
%%
%% When the node stops, this process ends Python in an orderly way, while output, logging and
%% `erlang.call' still work: its non-daemon threads are joined and its `atexit' functions are called
%% (`python/erlang_loop_end.py'). When only the application stops, Python may be needed again; then
%% native code does this at the end of the operating system process.
-module(py_interpreter).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, ensure_started/0, run/3]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-type state() ::
    down
    %% Waiting for `{py_main, Token, ok | {error, Text}}' from Python's main thread.
    | {starting, Token :: integer(), Waiting :: [gen_server:from()]}
    | up
    | {failed, Reason :: term()}.

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Returns when Python is running. `{error, not_started}': the application is not.
-spec ensure_started() -> ok | {error, term()}.
ensure_started() ->
    %% infinity: it replies when Python has started or failed to, and dies only with its node.
    try
        gen_server:call(?MODULE, ensure_started, infinity)
    catch
        %% The process is not running, or was killed or shut down meanwhile.
        exit:{_, {gen_server, call, _}} -> {error, not_started}
    end.

%% @doc Calls `Module.Function(*Arguments)' with strings on Python's main thread, where programs run
%% one after another, and waits for its result: an integer, a string (as a binary) or `undefined'
%% for None. An exception is returned as its traceback. In a node that runs a program of the command
%% line, that program has the main thread: `{error, occupied}'.
-spec run(binary(), binary(), [binary()]) ->
    {ok, integer() | binary() | undefined} | {error, term()}.
run(Module, Function, Arguments) ->
    case ensure_started() of
        ok ->
            Token = erlang:unique_integer(),
            case py_nif:python_main(Token, Module, Function, Arguments) of
                ok ->
                    %% The program may run forever; the main thread replies when it ends.
                    receive
                        {py_main, Token, Result} -> Result
                    end;
                {error, Reason} ->
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-spec init([]) -> {ok, state()} | {ok, state(), {continue, start}}.
init([]) ->
    %% For terminate/2.
    _ = process_flag(trap_exit, true),
    ok = py_nif:python_end_at_exit(undefined),
    case py_nif:python_running() of
        true ->
            {ok, up};
        false ->
            case py_settings:value(start_python) of
                true -> {ok, down, {continue, start}};
                false -> {ok, down}
            end
    end.

-spec handle_continue(start, state()) -> {noreply, state()}.
handle_continue(start, down) ->
    {noreply, start([])}.

-spec handle_call(term(), gen_server:from(), state()) ->
    {noreply, state()} | {reply, term(), state()}.
handle_call(ensure_started, _From, up) ->
    {reply, ok, up};
handle_call(ensure_started, _From, {failed, Reason} = State) ->
    {reply, {error, Reason}, State};
handle_call(ensure_started, From, {starting, Token, Waiting}) ->
    {noreply, {starting, Token, [From | Waiting]}};
handle_call(ensure_started, From, down) ->
    {noreply, start([From])};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_interpreter: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_interpreter: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({py_main, Token, Result}, {starting, Token, Waiting}) ->
    {noreply, finish(Result, Waiting)};
%% A port, from py_python_choice.
handle_info({'EXIT', _From, normal}, State) ->
    {noreply, State};
%% Not from the supervisor, whose exit signals the gen_server takes itself.
handle_info({'EXIT', _From, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_interpreter: unknown message ~p", [Message]),
    {noreply, State}.

-spec terminate(term(), state()) -> ok.
terminate(shutdown, up) ->
    Timeout = py_settings:value(exit_timeout),
    case init:get_status() of
        {stopping, _} -> end_python(Timeout);
        {_, _} -> py_nif:python_end_at_exit(at_exit(Timeout))
    end;
terminate(_Reason, _State) ->
    ok.

%% 0 disables it.
at_exit(0) -> undefined;
at_exit(Timeout) -> Timeout.

end_python(0) ->
    ok;
end_python(Timeout) ->
    Token = erlang:unique_integer(),
    case py_nif:python_main(Token, <<"erlang_loop_end">>, <<"run">>, []) of
        ok ->
            receive
                {py_main, Token, {ok, undefined}} ->
                    ok;
                {py_main, Token, {error, Traceback}} ->
                    ?LOG_ERROR("Ending Python raised an exception:~n~ts", [Traceback])
            after Timeout ->
                ?LOG_WARNING(
                    "Python did not end within ~b ms (exit_timeout). Non-daemon threads or atexit "
                    "functions still run, or a program has Python's main thread:~n~ts",
                    [Timeout, running_code()]
                )
            end;
        {error, occupied} ->
            ?LOG_WARNING(
                "The node stops while Python's main thread runs a command: its atexit functions "
                "are not called"
            )
    end.

%% The stacks of threads that run Python code.
running_code() ->
    Token = erlang:unique_integer(),
    case py_nif:watchdog_stacks(Token, 1000) of
        ok ->
            %% It takes about a second at most, even if the GIL is not available.
            receive
                {py_stacks, Token, {ok, Dump}} -> py_stack_dump:busy(Dump);
                {py_stacks, Token, {error, Reason}} -> no_stacks(Reason)
            end;
        {error, Reason} ->
            no_stacks(Reason)
    end.

no_stacks(Reason) ->
    io_lib:format("Their stacks cannot be read: ~p", [Reason]).

start(Waiting) ->
    case py_python_choice:settings() of
        {ok, {Executable, Paths, SwitchInterval, DefaultEventLoop, Faulthandler}} ->
            %% The VM ignores SIGCHLD, which makes every child of Python seem to exit with 0. Ports
            %% do not need it to be ignored: the VM starts them in a separate process.
            ok = os:set_signal(sigchld, default),
            Token = erlang:unique_integer(),
            Started = py_nif:python_start(
                Token, Executable, Paths, SwitchInterval, DefaultEventLoop, Faulthandler
            ),
            case Started of
                ok -> {starting, Token, Waiting};
                {error, Reason} -> finish({error, Reason}, Waiting)
            end;
        {error, Reason} ->
            %% Python has not been touched: fix the settings, and the next caller tries again.
            ?LOG_ERROR("Python cannot be started: ~ts", [Reason]),
            reply({error, Reason}, Waiting),
            down
    end.

finish(ok, Waiting) ->
    reply(ok, Waiting),
    up;
finish({error, Reason}, Waiting) ->
    ?LOG_ERROR("Python did not start: ~ts", [Reason]),
    reply({error, Reason}, Waiting),
    {failed, Reason}.

reply(Answer, Waiting) ->
    lists:foreach(fun(From) -> gen_server:reply(From, Answer) end, Waiting).
