%% @doc Runs Python's calls to Erlang: `erlang.call', `erlang.async_call', `erlang.cast' and calls
%% of funs. Each one runs in its own process, so that a slow or failing call does not affect others.
%%
%% Takes these messages:
%%
%% <ul>
%% <li>`{'$py_question', Question}', from a Python thread: start a process for it.</li>
%% <li>`{given_up, Pid}', from a Python thread: its caller timed out or was cancelled; kill the
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
-export([answer/1]).

-type state() :: [].

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
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
handle_info({'$py_question', Question}, State) ->
    Options = [{monitor, [{tag, {died, Question}}]}],
    _ = spawn_opt(?MODULE, answer, [Question], Options),
    {noreply, State};
handle_info({{died, _}, _, process, _, normal}, State) ->
    {noreply, State};
handle_info({{died, Question}, _, process, _, Reason}, State) ->
    ok = py_nif:question_raise(Question, exit, Reason, []),
    {noreply, State};
handle_info({given_up, Pid}, State) ->
    exit(Pid, kill),
    {noreply, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_questions: unknown message ~p", [Message]),
    {noreply, State}.

%% @private
%% @doc Runs a question in the calling process and sends the reply.
-spec answer(py_nif:question()) -> ok.
answer(Question) ->
    case py_nif:question_take(Question) of
        {ask, What} ->
            try perform(What) of
                Value -> py_nif:question_answer(Question, Value)
            catch
                Class:Reason:Stack -> fail(Question, Class, Reason, Stack)
            end;
        {tell, What} ->
            try
                _ = perform(What),
                ok
            catch
                Class:Reason:Stack ->
                    ?LOG_ERROR("erlang.cast to ~ts failed: ~p", [
                        described(What), {Class, Reason, without_ours(Stack)}
                    ])
            end;
        given_up ->
            ok
    end.

perform({call, Module, Function, Args}) ->
    apply(Module, Function, Args);
perform({apply, Fun, Args}) ->
    apply(Fun, Args);
perform({call, Node, Module, Function, Args}) ->
    erpc:call(Node, Module, Function, Args).

%% erpc wraps exceptions of the other node; this unwraps them, as if they had been raised here.
fail(Question, error, {exception, Reason, Stack}, [{erpc, _, _, _} | _]) ->
    py_nif:question_raise(Question, error, Reason, Stack);
fail(Question, exit, {exception, Reason}, [{erpc, _, _, _} | _]) ->
    py_nif:question_raise(Question, exit, Reason, []);
fail(Question, Class, Reason, Stack) ->
    py_nif:question_raise(Question, Class, Reason, without_ours(Stack)).

without_ours(Stack) ->
    [Frame || Frame <- Stack, element(1, Frame) =/= ?MODULE].

described({call, Module, Function, Args}) ->
    io_lib:format("~tp:~tp/~p", [Module, Function, length(Args)]);
described({call, Node, Module, Function, Args}) ->
    io_lib:format("~tp:~tp/~p on ~tp", [Module, Function, length(Args), Node]);
described({apply, Fun, _}) ->
    io_lib:format("~tp", [Fun]).
