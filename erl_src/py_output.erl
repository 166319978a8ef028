%% @doc Takes the group leaders' replies to what Python prints.
%%
%% Python threads send I/O requests straight to the group leader; this process gets the replies.
%% It takes these messages:
%%
%% <ul>
%% <li>`{io_reply, {py_output, Device, Bytes}, ok | {error, Reason}}', from group leaders: these
%%     bytes are no longer in flight. Native code makes `print' wait when too many are.</li>
%% <li>`{forward, Leader, IoRequest}', from native code: for a group leader on another node, to
%%     which Python threads cannot send. When the connection is busy this process blocks, and
%%     after a while Python waits, too.</li>
%% </ul>
%%
%% Native code counts the bytes in flight, and starts from 0 when this process is restarted.
%%
%% With `redirect_output' set to false in the application environment, Python's stdout and stderr
%% are those of the operating system.
-module(py_output).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% Lost output is logged at most this often.
-define(TELL_MS, 1000).

-record(state, {
    %% Bytes that no group leader took, and the last reason one gave.
    lost = 0 :: non_neg_integer(),
    reason = timeout :: term(),
    timer :: undefined | reference()
}).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    %% So that terminate/2 runs when the application stops.
    _ = process_flag(trap_exit, true),
    ok = py_nif:output_started(py_settings:value(redirect_output)),
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_output: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_output: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({io_reply, {py_output, Device, Bytes}, Reply}, State) ->
    Dropped = py_nif:output_done(Device, Bytes),
    {noreply, replied(Reply, Bytes, note_lost(Dropped, timeout, State))};
handle_info({io_reply, {forwarded, Bytes}, Reply}, State) ->
    {noreply, replied(Reply, Bytes, State)};
handle_info({forward, Leader, Request}, State) ->
    {io_request, _, {py_output, Device, Bytes}, Text} = Request,
    Leader ! {io_request, self(), {forwarded, Bytes}, Text},
    {noreply, note_lost(py_nif:output_done(Device, Bytes), timeout, State)};
handle_info({timeout, Timer, tell_lost}, #state{timer = Timer} = State) ->
    {noreply, tell_lost(State)};
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, State) ->
    ?LOG_WARNING("py_output: unknown message ~p", [Message]),
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, State) ->
    ok = py_nif:output_stopped(),
    #state{} = tell_lost(State),
    ok.

replied(ok, _Bytes, State) -> State;
replied({error, Reason}, Bytes, State) -> note_lost(Bytes, Reason, State);
replied(_, _Bytes, State) -> State.

note_lost(0, _Reason, State) ->
    State;
note_lost(Bytes, Reason, #state{lost = Before, timer = undefined} = State) ->
    Timer = erlang:start_timer(?TELL_MS, self(), tell_lost),
    State#state{lost = Before + Bytes, reason = Reason, timer = Timer};
note_lost(Bytes, Reason, #state{lost = Before} = State) ->
    State#state{lost = Before + Bytes, reason = Reason}.

tell_lost(#state{lost = 0} = State) ->
    State#state{timer = undefined};
tell_lost(#state{lost = Bytes, reason = Reason}) ->
    ?LOG_WARNING(
        "~b bytes printed by Python were lost: the group leader did not accept them (~tp)",
        [Bytes, Reason],
        #{domain => [python]}
    ),
    #state{}.
