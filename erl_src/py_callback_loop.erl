%% @doc A loop whose callbacks are messages to a process, without Python. Started by
%% `py_event_loop:start_link/1' with the option `callbacks'.
%%
%% The receiver gets `{py_event, Loop, CallbackId, read | write | timer}'. `Loop' is the pid of
%% this process; `CallbackId' is the number passed to `py_nif:add_reader/3', `py_nif:add_writer/3'
%% or `py_nif:call_later/3' together with the loop's reference. Each watch reports one event:
%% `py_nif:start_reader/1' or `py_nif:start_writer/1' requests the next one, as `{active, once}'
%% does for sockets.
%%
%% It is the owner and keeper of the loop: when it ends, so does the loop. It ends with its receiver.
%% Takes the messages of {@link py_keeper}, the receiver's `DOWN', and the calls below.
-module(py_callback_loop).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/1, ref/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(state, {
    receiver :: reference(),
    loop :: py_nif:loop_ref(),
    timers = py_keeper:new() :: py_keeper:timers()
}).

%% @doc `callbacks' is the receiver, `name' registers the process.
-spec start_link(#{callbacks := pid(), name => atom()}) -> {ok, pid()} | {error, term()}.
start_link(#{callbacks := Receiver, name := Name}) when
    is_pid(Receiver), node(Receiver) =:= node(), is_atom(Name), Name =/= undefined
->
    started(gen_server:start_link({local, Name}, ?MODULE, Receiver, []));
start_link(#{callbacks := Receiver} = Options) when
    is_pid(Receiver), node(Receiver) =:= node(), map_size(Options) =:= 1
->
    started(gen_server:start_link(?MODULE, Receiver, []));
start_link(Options) ->
    Why = "a loop with callbacks takes the pid of a process of this node, a name, and nothing else",
    error(badarg, [Options], py_misuse:info(#{1 => Why})).

started({ok, Pid}) -> {ok, Pid};
started({error, Reason}) -> {error, Reason};
started(ignore) -> {error, ignore}.

%% @doc Returns the loop's reference, for `py_nif'.
-spec ref(pid() | atom()) -> {ok, py_nif:loop_ref()}.
ref(Loop) ->
    gen_server:call(Loop, ref, infinity).

-spec init(pid()) -> {ok, #state{}} | {stop, term()}.
init(Receiver) ->
    %% So that terminate/2 runs when the supervisor stops us.
    _ = process_flag(trap_exit, true),
    case py_nif:event_loop_new_for(Receiver) of
        {ok, Loop} ->
            ok = py_nif:event_loop_set_worker(Loop, self()),
            {ok, #state{receiver = monitor(process, Receiver), loop = Loop}};
        {error, Reason} ->
            {stop, Reason}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {stop, normal, {ok, []}, #state{}}.
handle_call(ref, _From, #state{loop = Loop} = State) ->
    {reply, {ok, Loop}, State};
%% From py_event_loop:stop/2. There are no tasks that could remain.
handle_call(stop, _From, State) ->
    {stop, normal, {ok, []}, State};
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_callback_loop: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_callback_loop: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({'DOWN', Monitor, process, _, _}, #state{receiver = Monitor} = State) ->
    {stop, normal, State};
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
%% py_nif:event_loop_destroy/1 was called.
handle_info({loop_closed, _, _} = Message, #state{timers = Timers} = State) ->
    {stop, normal, State#state{timers = py_keeper:handle(Message, Timers)}};
handle_info(Message, #state{timers = Timers} = State) ->
    case py_keeper:is_message(Message) of
        true ->
            {noreply, State#state{timers = py_keeper:handle(Message, Timers)}};
        false ->
            ?LOG_WARNING("py_callback_loop: unknown message ~p", [Message]),
            {noreply, State}
    end.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{loop = Loop}) ->
    py_nif:event_loop_destroy(Loop).
