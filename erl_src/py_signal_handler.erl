%% @doc Replaces OTP's signal handler while loops want signals.
%%
%% A handler of `erl_signal_server', which passes each signal to all its handlers. OTP's own one,
%% `erl_signal_handler', stops the node on SIGTERM even if another handler handles it. This module
%% replaces it, and passes it the signals that no loop wants. If the node's owner has already
%% replaced OTP's handler by another, that one stays and receives all signals.
-module(py_signal_handler).

-behaviour(gen_event).

-export([enter/0, leave/0]).
-export([init/1, handle_event/2, handle_call/2, handle_info/2, terminate/2]).

-define(SERVER, erl_signal_server).
-define(OTP, erl_signal_handler).

-type state() :: {replaces, term()} | replaces_none.

%% @doc Takes the place of OTP's handler, if it is there.
-spec enter() -> ok.
enter() ->
    Handlers = gen_event:which_handlers(?SERVER),
    case lists:member(?MODULE, Handlers) of
        true ->
            ok;
        false ->
            Old = lists:member(?OTP, Handlers),
            ok = gen_event:swap_handler(?SERVER, {?OTP, replaced}, {?MODULE, Old})
    end.

%% @doc Puts OTP's handler back, if it was there.
-spec leave() -> ok.
leave() ->
    case gen_event:delete_handler(?SERVER, ?MODULE, left) of
        {replaces, _} -> ok = gen_event:add_handler(?SERVER, ?OTP, []);
        replaces_none -> ok;
        {error, module_not_found} -> ok
    end.

%% The second element is what OTP's handler returned when it was removed; it is not needed.
-spec init({boolean(), term()}) -> {ok, state()}.
init({true, _}) ->
    {ok, State} = ?OTP:init([]),
    {ok, {replaces, State}};
init({false, _}) ->
    {ok, replaces_none}.

-spec handle_event(term(), state()) -> {ok, state()}.
handle_event(Signal, State) ->
    case is_atom(Signal) andalso py_nif:signal_arrived(Signal) of
        true -> {ok, State};
        false -> unwanted(Signal, State)
    end.

unwanted(_Signal, replaces_none) ->
    {ok, replaces_none};
unwanted(Signal, {replaces, Old}) ->
    {ok, New} = ?OTP:handle_event(Signal, Old),
    {ok, {replaces, New}}.

-spec handle_call(term(), state()) -> {ok, {error, unknown_call}, state()}.
handle_call(_Call, State) ->
    {ok, {error, unknown_call}, State}.

-spec handle_info(term(), state()) -> {ok, state()}.
handle_info(_Message, State) ->
    %% Meant for other handlers: all of them see every message.
    {ok, State}.

-spec terminate(term(), state()) -> state().
terminate(_Reason, State) ->
    State.
