%% @doc The process of one isolated loop. It owns the loop: when it ends, so does the loop, and
%% when the loop is closed it ends normally.
%%
%% Takes the messages of {@link py_keeper}.
-module(py_event_worker).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).

-record(state, {
    id :: term(),
    loop :: py_nif:loop_ref(),
    timers = py_keeper:new() :: py_keeper:timers()
}).

%% @doc Starts the worker of `LoopRef', which it takes over. `Id' names it in reports.
-spec start_link(term(), py_nif:loop_ref()) -> {ok, pid()} | {error, term()}.
start_link(Id, LoopRef) when is_reference(LoopRef) ->
    case gen_server:start_link(?MODULE, {Id, LoopRef}, []) of
        {ok, Pid} -> {ok, Pid};
        {error, {shutdown, Reason}} -> {error, Reason};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Ends the worker and its loop.
-spec stop(pid()) -> ok.
stop(Worker) ->
    gen_server:stop(Worker).

-spec init({term(), py_nif:loop_ref()}) -> {ok, #state{}} | {stop, term()}.
init({Id, LoopRef}) ->
    %% So that terminate/2 runs when the supervisor stops us.
    _ = process_flag(trap_exit, true),
    ok = py_observed:label({?MODULE, Id}),
    case py_nif:event_loop_set_worker(LoopRef, self()) of
        ok -> {ok, #state{id = Id, loop = LoopRef}};
        %% A loop that was closed before its worker started is not a crash.
        {error, Reason} -> {stop, {shutdown, Reason}}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, #state{id = Id} = State) ->
    ?LOG_WARNING("py_event_worker ~p: unknown call ~p from ~p", [Id, Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, #state{id = Id} = State) ->
    ?LOG_WARNING("py_event_worker ~p: unknown cast ~p", [Id, Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({loop_closed, _, _} = Message, #state{timers = Timers} = State) ->
    {stop, normal, State#state{timers = py_keeper:handle(Message, Timers)}};
handle_info(Message, #state{id = Id, timers = Timers} = State) ->
    case py_keeper:is_message(Message) of
        true ->
            {noreply, State#state{timers = py_keeper:handle(Message, Timers)}};
        false ->
            ?LOG_WARNING("py_event_worker ~p: unknown message ~p", [Id, Message]),
            {noreply, State}
    end.

%% With the loop and its tasks.
-spec format_status(gen_server:format_status()) -> gen_server:format_status().
format_status(#{state := #state{id = Id, loop = LoopRef}} = Status) ->
    Shown =
        case py_nif:event_loop_info(LoopRef) of
            {ok, #{id := Number}} -> py_observed:loop(Number, Status);
            _ -> #{loop => gone, tasks => unknown}
        end,
    Status#{state => Shown#{id => Id}};
format_status(Status) ->
    Status.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{loop = LoopRef}) ->
    py_nif:event_loop_destroy(LoopRef).
