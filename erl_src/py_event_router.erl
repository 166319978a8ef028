%% @doc The process that keeps loops while they sleep.
%%
%% The application starts one, registered as `py_event_router', for every loop that has no other
%% keeper. Start more by hand for your own loops:
%%
%% ```
%% {ok, LoopRef} = py_nif:event_loop_new(),
%% {ok, Router} = py_event_router:start_link(LoopRef).
%% '''
%%
%% In addition to the messages of {@link py_keeper} the registered one takes these:
%%
%% <ul>
%% <li>`{start_worker, LoopRef}', from Python: an isolated loop was created and needs its own
%%     `py_event_worker'.</li>
%% <li>`{sleep, Sleeper, Ms}', from a Python thread that sleeps.</li>
%% <li>`{sleep_over, Sleeper}', from the timer of that sleep.</li>
%% </ul>
-module(py_event_router).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, start_link/1, start_link/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {
    %% Kept so that the loop lives as long as its router.
    loop :: undefined | py_nif:loop_ref(),
    timers = py_keeper:new() :: py_keeper:timers()
}).

%% @doc The router of the node; started by the application.
-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    started(gen_server:start_link({local, ?MODULE}, ?MODULE, node, [])).

%% @doc A router for one loop, which it takes over.
-spec start_link(py_nif:loop_ref()) -> {ok, pid()} | {error, term()}.
start_link(LoopRef) ->
    start_link(LoopRef, []).

%% @doc As {@link start_link/1}; `{name, Name}' registers the process.
-spec start_link(py_nif:loop_ref(), [{name, atom()}]) -> {ok, pid()} | {error, term()}.
start_link(LoopRef, []) when is_reference(LoopRef) ->
    started(gen_server:start_link(?MODULE, {loop, LoopRef}, []));
start_link(LoopRef, [{name, Name}]) when is_reference(LoopRef), is_atom(Name) ->
    started(gen_server:start_link({local, Name}, ?MODULE, {loop, LoopRef}, [])).

started({ok, Pid}) -> {ok, Pid};
started({error, Reason}) -> {error, Reason};
started(ignore) -> {error, ignore}.

%% @doc Ends a router. Its loops go to the node's router, if the application runs.
-spec stop(pid() | atom()) -> ok.
stop(Router) ->
    gen_server:stop(Router).

-spec init(node | {loop, py_nif:loop_ref()}) -> {ok, #state{}} | {stop, term()}.
init(node) ->
    ok = py_nif:router_started(),
    {ok, #state{}};
init({loop, LoopRef}) ->
    case py_nif:event_loop_set_router(LoopRef, self()) of
        ok -> {ok, #state{loop = LoopRef}};
        {error, Reason} -> {stop, Reason}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, unknown_call}, #state{}}.
handle_call(Call, {From, _}, State) ->
    ?LOG_WARNING("py_event_router: unknown call ~p from ~p", [Call, From]),
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Cast, State) ->
    ?LOG_WARNING("py_event_router: unknown cast ~p", [Cast]),
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({start_worker, LoopRef}, State) ->
    start_worker(LoopRef),
    {noreply, State};
handle_info({sleep, Sleeper, Ms}, State) ->
    _ = erlang:send_after(Ms, self(), {sleep_over, Sleeper}),
    {noreply, State};
handle_info({sleep_over, Sleeper}, State) ->
    ok = py_nif:sleep_done(Sleeper),
    {noreply, State};
handle_info(Message, #state{timers = Timers} = State) ->
    case py_keeper:is_message(Message) of
        true ->
            {noreply, State#state{timers = py_keeper:handle(Message, Timers)}};
        false ->
            ?LOG_WARNING("py_event_router: unknown message ~p", [Message]),
            {noreply, State}
    end.

%% A closed loop needs no worker. While the application stops there is no supervisor, and the
%% loop's thread waits without the VM.
start_worker(LoopRef) ->
    try py_event_worker_sup:start_worker(LoopRef) of
        {ok, _} -> ok;
        {error, closed} -> ok;
        {error, Reason} -> ?LOG_ERROR("cannot start a py_event_worker for ~p: ~p", [LoopRef, Reason])
    catch
        exit:{Reason, _} -> ?LOG_NOTICE("cannot start a py_event_worker for ~p: ~p", [LoopRef, Reason])
    end.
