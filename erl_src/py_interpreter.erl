%% @doc Starts Python, once, when somebody first needs it or with the application.
%%
%% Which one, with which packages, is in the application environment: `docs/settings.md'.
%%
%% An interpreter cannot be started twice in one process: it stays up when this process or the
%% application ends, and the next start finds it.
-module(py_interpreter).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, ensure_started/0, run/3]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2]).

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

%% @doc Returns when Python is up.
-spec ensure_started() -> ok | {error, term()}.
ensure_started() ->
    %% infinity: it answers when Python came up or failed to, and dies with its node otherwise.
    gen_server:call(?MODULE, ensure_started, infinity).

%% @doc Calls `Module.Function(*Arguments)' with strings on Python's main thread, where programs
%% run one after another, and waits for its answer: an integer, a string (as a binary) or
%% `undefined' for None. An exception is answered as its traceback. In a node that runs a program
%% of the command line, that program has the main thread: `{error, occupied}'.
-spec run(binary(), binary(), [binary()]) ->
    {ok, integer() | binary() | undefined} | {error, term()}.
run(Module, Function, Arguments) ->
    case ensure_started() of
        ok ->
            Token = erlang:unique_integer(),
            case py_nif:python_main(Token, Module, Function, Arguments) of
                ok ->
                    %% The program may run for ever; the main thread answers when it ends.
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
    case py_nif:python_running() of
        true ->
            {ok, up};
        false ->
            case application:get_env(erlang_loop, start_python, false) of
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
handle_info(Message, State) ->
    ?LOG_WARNING("py_interpreter: unknown message ~p", [Message]),
    {noreply, State}.

start(Waiting) ->
    case py_python_choice:settings() of
        {ok, {Executable, Paths, SwitchInterval}} ->
            %% The VM ignores SIGCHLD, and with that every child of Python seems to exit with 0.
            %% Ports do not need it ignored: the VM has a process of its own to start them.
            ok = os:set_signal(sigchld, default),
            Token = erlang:unique_integer(),
            case py_nif:python_start(Token, Executable, Paths, SwitchInterval) of
                ok -> {starting, Token, Waiting};
                {error, Reason} -> finish({error, Reason}, Waiting)
            end;
        {error, Reason} ->
            %% Settings can be mended and tried again: Python has not been touched.
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
