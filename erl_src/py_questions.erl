%% @doc Runs Python's calls to Erlang: `erlang.call', `erlang.async_call', `erlang.cast' and calls
%% of funs. Each one runs in its own process, so that a slow or failing call does not affect others.
%%
%% Takes these messages:
%%
%% <ul>
%% <li>`{'$py_question', Question, Call}', from a Python thread: start a process that runs the call
%%     and replies.</li>
%% <li>`{'$py_cast', Call}', from a Python thread: the same without a reply.</li>
%% <li>`{abandoned, Pid}', from a Python thread: its caller timed out or was cancelled; kill the
%%     process.</li>
%% <li>`{{died, Question}, Monitor, process, Pid, Reason}', from the VM: the process of this
%%     question has ended. If it has not replied before, its exit reason is the reply.</li>
%% </ul>
%%
%% It has no state. If it dies, questions that it had not started fail at once: they are destroyed
%% with its mailbox, which Python notices. The others still get their replies.
-module(py_questions).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% For the processes that run the calls.
-export([run/2, cast/1]).

-type state() :: [].

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    %% It has no state: the arguments of a call must not stay behind in an old heap.
    Options = [{spawn_opt, [{fullsweep_after, 0}]}],
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], Options) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, state()}.
init([]) ->
    ok = py_nif:questions_started(self()),
    {ok, []}.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, {error, unknown_call}, state()}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_questions: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_questions: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({'$py_question', Question, Call}, State) ->
    Options = [{monitor, [{tag, {died, Question}}]}],
    _ = spawn_opt(?MODULE, run, [Question, Call], Options),
    {noreply, State};
handle_info({'$py_cast', Call}, State) ->
    _ = spawn(?MODULE, cast, [Call]),
    {noreply, State};
handle_info({{died, _}, _, process, _, normal}, State) ->
    {noreply, State};
handle_info({{died, Question}, _, process, _, Reason}, State) ->
    ok = py_nif:question_raise(Question, exit, Reason, []),
    {noreply, State};
handle_info({abandoned, Pid}, State) ->
    exit(Pid, kill),
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_questions: unknown message ~p", [Message]),
    {noreply, State}.

%% @private
%% @doc Runs the call of a question in the calling process and sends the reply.
-spec run(py_nif:question(), py_nif:erlang_call()) -> ok.
run(Question, Call) ->
    case py_nif:question_begin(Question) of
        ok ->
            try py_telemetry:question(Call, fun() -> perform(Call) end) of
                Value -> py_nif:question_reply(Question, Value)
            catch
                Class:Reason:Stack -> fail(Question, Class, Reason, Stack)
            end;
        abandoned ->
            ok
    end.

%% @private
%% @doc Runs a call without a reply in the calling process.
-spec cast(py_nif:erlang_call()) -> ok.
cast(Call) ->
    try
        _ = py_telemetry:question(Call, fun() -> perform(Call) end),
        ok
    catch
        Class:Reason:Stack ->
            ?LOG_ERROR("erlang.cast to ~ts failed: ~p", [
                described(Call), {Class, Reason, without_ours(Stack)}
            ])
    end.

perform({traced, Header, Call}) ->
    ok = py_trace:put(Header),
    perform(Call);
perform({call, Module, Function, Args}) ->
    apply(Module, Function, Args);
perform({apply, Fun, Args}) ->
    apply(Fun, Args);
perform({call, Node, Module, Function, Args}) ->
    erpc:call(py_remote:node_of(Node), Module, Function, Args).

%% erpc wraps exceptions of the other node; this unwraps them, as if they had been raised here.
fail(Question, error, {exception, Reason, Stack}, [{erpc, _, _, _} | _]) ->
    py_nif:question_raise(Question, error, Reason, Stack);
fail(Question, exit, {exception, Reason}, [{erpc, _, _, _} | _]) ->
    py_nif:question_raise(Question, exit, Reason, []);
fail(Question, Class, Reason, Stack) ->
    py_nif:question_raise(Question, Class, Reason, without_ours(Stack)).

without_ours(Stack) ->
    [Frame || Frame <- Stack, element(1, Frame) =/= ?MODULE, element(1, Frame) =/= py_telemetry].

described({traced, _, Call}) ->
    described(Call);
described({call, Module, Function, Args}) ->
    io_lib:format("~tp:~tp/~p", [Module, Function, length(Args)]);
described({call, Node, Module, Function, Args}) ->
    io_lib:format("~tp:~tp/~p on ~tp", [Module, Function, length(Args), Node]);
described({apply, Fun, _}) ->
    io_lib:format("~tp", [Fun]).
