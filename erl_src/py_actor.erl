%% @doc A pid for Python code: a process that represents a Python coroutine or thread. Python reads
%% the messages sent to it (`erlang.mailbox()'). The process ends when the code does, so it can be
%% linked and monitored; when it is killed, the coroutine is cancelled.
%%
%% Python creates one with `erlang.spawn' and `erlang.self'. Erlang starts a coroutine function as
%% an actor below any supervisor:
%%
%% ```
%% {ok, Actor} = py_actor:start_link(my_module, my_actor, [1, 2]),
%% Actor ! hello.
%% '''
%%
%% It exits with `normal', with `{py_exception, Exception}' (see `docs/values.md'), with
%% `{shutdown, cancelled}' if the task was cancelled in Python, with `loop_down' if its loop ended,
%% or with the reason of an `erlang.Error' of kind `exit'.
%%
%% Takes any message and passes it on to Python, except for these:
%%
%% <ul>
%% <li>`{'$py_end', Reason}', from Python: the code has ended.</li>
%% <li>`{'$py_question', Question, Call}', from Python: run it in this process (monitor, link).</li>
%% <li>`{py_reply, Token, Result}', from the loop: the coroutine that Erlang started has ended.</li>
%% <li>`{'EXIT', Pid, Reason}': raised as an exception in Python if Python linked to `Pid' itself.
%%     If not, this process exits with `Reason', unless that is `normal'.</li>
%% <li>`{'$gen_call', From, Request}', of `gen_server:call/2,3': Python gets a fun in place of
%%     `From', and calls it with the reply.</li>
%% <li>`{system, From, Request}': for `sys'.</li>
%% </ul>
-module(py_actor).

-export([start_link/3, start_link/4, child_spec/1]).
%% For Python.
-export([adopt/1, spawn_on_default/1, spawn_on/4]).
%% For other nodes.
-export([begin_at/4]).
%% For Python, in the process itself.
-export([monitor/1, demonitor/2, link/1, unlink/1]).
%% For py_actor_sup, proc_lib and sys.
-export([begin_link/1, init/2, init_linked/2]).
-export([system_continue/3, system_terminate/4, system_get_state/1, system_code_change/4]).

-include("py_misuse.hrl").

-compile({no_auto_import, [monitor/1, demonitor/2, link/1, unlink/1]}).

-export_type([beginning/0, options/0]).

%% How it begins: the Python code is already running, or is to be started.
-type beginning() ::
    {adopt, py_nif:mailbox()}
    | {run, py_nif:request_target(), fun((py_nif:mailbox()) -> py_nif:call())}.
-type options() :: #{
    %% Of the child.
    id => term(),
    %% The loop it runs on. Default: the default loop.
    loop => py_event_loop:loop(),
    module := py:name(),
    function := py:name(),
    args => [term()]
}.

-record(state, {
    parent :: pid(),
    mailbox :: py_nif:mailbox(),
    %% Of the reply of a coroutine that Erlang started.
    token :: undefined | reference()
}).

%% @doc Starts a Python coroutine function as an actor on the default loop, linked to the calling
%% process. Returns `{error, {py_exception, _}}' if the module or the function does not exist.
-spec start_link(py:name(), py:name(), [term()]) -> {ok, pid()} | {error, py:reason()}.
start_link(Module, Function, Args) ->
    ?EXPLAINED(
        [{name, Module}, {name, Function}, {args, Args}],
        found_link(default, Module, Function, Args)
    ).

%% @doc Like {@link start_link/3}, on a loop that Erlang started.
-spec start_link(py_event_loop:loop(), py:name(), py:name(), [term()]) ->
    {ok, pid()} | {error, py:reason()}.
start_link(Loop, Module, Function, Args) ->
    ?EXPLAINED(
        [{loop, Loop}, {name, Module}, {name, Function}, {args, Args}],
        case py_event_loop:find(Loop) of
            {ok, Pid} -> linked_to(Pid, Module, Function, Args);
            {error, Reason} -> {error, Reason}
        end
    ).

%% The process is on the loop's node.
linked_to(Loop, Module, Function, Args) ->
    case py_remote:loop_there(Loop) of
        {ok, Loop} when node(Loop) =:= node() ->
            found_link(Loop, Module, Function, Args);
        {ok, There} ->
            is_list(Args) orelse error(badarg),
            begin_at(There, self(), [name(Module), name(Function)], Args);
        {error, Reason} ->
            {error, Reason}
    end.

%% @private
%% @doc Starts an actor on the node of this loop. It is linked to `Parent', if there is one.
-spec begin_at(pid(), pid() | none, [binary()], [term()]) -> {ok, pid()} | {error, term()}.
begin_at(Loop, Parent, Name, Args) ->
    case py_remote:loop_there(Loop) of
        {ok, Loop} when node(Loop) =:= node() -> begin_here(Loop, Parent, Name, Args);
        {ok, There} -> begin_there(There, Parent, Name, Args);
        {error, Reason} -> {error, Reason}
    end.

begin_there(Loop, Parent, Name, Args) ->
    try
        erpc:call(node(Loop), ?MODULE, begin_at, [Loop, Parent, Name, Args])
    catch
        error:{erpc, noconnection} -> {error, {peer_down, noconnection}};
        error:{exception, Reason, _} -> error(Reason)
    end.

begin_here(Loop, Parent, Name, Args) ->
    true = group_leader(py_relay:leader(group_leader()), self()),
    case checked(Name) of
        ok ->
            Beginning = {run, Loop, work(<<"_run_function">>, Name, #{args => Args})},
            case Parent of
                none -> py_actor_sup:start_actor(Beginning);
                _ -> proc_lib:start(?MODULE, init_linked, [Parent, Beginning])
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% @doc A child specification for your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(#{module := Module, function := Function} = Options) ->
    Args = maps:get(args, Options, []),
    Start =
        case Options of
            #{loop := Loop} -> [Loop, Module, Function, Args];
            #{} -> [Module, Function, Args]
        end,
    #{id => maps:get(id, Options, Function), start => {?MODULE, start_link, Start}}.

%% The module is imported on a call thread, where that blocks no loop.
found_link(Target, Module, Function, Args) ->
    is_list(Args) orelse error(badarg),
    Name = [name(Module), name(Function)],
    case checked(Name) of
        ok -> begin_link({run, Target, work(<<"_run_function">>, Name, #{args => Args})});
        {error, Reason} -> {error, Reason}
    end.

checked(Name) ->
    %% infinity: an import may take any time.
    case py:call(<<"erlang.actors">>, <<"_check">>, Name, #{}, infinity) of
        {ok, _} -> ok;
        {error, Exception} when is_map(Exception) -> {error, {py_exception, Exception}};
        {error, Reason} -> {error, Reason}
    end.

work(Function, Args, Kwargs) ->
    fun(Mailbox) -> {call, <<"erlang.actors">>, Function, [Mailbox | Args], Kwargs} end.

name(Name) when is_binary(Name) -> Name;
name(Name) when is_atom(Name) -> atom_to_binary(Name);
name(Name) when is_list(Name) -> unicode:characters_to_binary(Name);
name(_) -> error(badarg).

%% @private
%% @doc Starts the process of running Python code.
-spec adopt(py_nif:mailbox()) -> pid().
adopt(Mailbox) ->
    started(py_actor_sup:start_actor({adopt, Mailbox})).

%% @private
%% @doc Starts an actor for a Python thread: `Actor' is a Python object.
-spec spawn_on_default(Actor :: reference()) -> pid().
spawn_on_default(Actor) ->
    %% Here, not while the supervisor waits: a loop's init code may need a pid.
    ok = py_interpreter:ensure_started(),
    ok = py_event_loop_sup:ensure_default(),
    started(py_actor_sup:start_actor({run, default, work(<<"_run_object">>, [Actor], #{})})).

%% @private
%% @doc Starts an actor on the loop with this name or pid, which may live elsewhere.
-spec spawn_on(py_event_loop:loop(), binary(), binary(), [term()]) -> pid().
spawn_on(Loop, Module, Function, Args) ->
    case py_event_loop:find(Loop) of
        {ok, Pid} -> started(begin_at(Pid, none, [Module, Function], Args));
        {error, Reason} -> error(Reason)
    end.

started({ok, Pid}) -> Pid;
started({error, Reason}) -> error(Reason).

%% @private
-spec begin_link(beginning()) -> {ok, pid()} | {error, term()}.
begin_link(Beginning) ->
    proc_lib:start_link(?MODULE, init, [self(), Beginning]).

%% @private
-spec init_linked(pid(), beginning()) -> no_return().
init_linked(Parent, Beginning) ->
    true = erlang:link(Parent),
    init(Parent, Beginning).

%% @private
-spec init(pid(), beginning()) -> no_return().
init(Parent, Beginning) ->
    _ = process_flag(trap_exit, true),
    case begun(Beginning) of
        {ok, Mailbox, Token} ->
            ok = proc_lib:init_ack({ok, self()}),
            loop(#state{parent = Parent, mailbox = Mailbox, token = Token});
        {error, Reason} ->
            %% So that the parent gets no exit signal of a process that never started.
            true = erlang:unlink(Parent),
            proc_lib:init_ack({error, Reason})
    end.

begun({adopt, Mailbox}) ->
    ok = py_nif:mailbox_opened(Mailbox),
    {ok, Mailbox, undefined};
begun({run, Target, Call}) ->
    Mailbox = py_nif:mailbox_new(),
    ok = py_nif:mailbox_opened(Mailbox),
    Token = make_ref(),
    case py_nif:request_submit(Token, Target, Call(Mailbox)) of
        {ok, _} -> {ok, Mailbox, Token};
        {error, Reason} -> {error, Reason}
    end.

-spec loop(#state{}) -> no_return().
loop(#state{parent = Parent, mailbox = Mailbox, token = Token} = State) ->
    %% Any message at all, in the order they came.
    receive
        {'$py_question', Question, Call} ->
            ok = py_questions:run(Question, Call),
            loop(State);
        {'$py_end', Reason} ->
            exit(Reason);
        {py_reply, Token, Result} ->
            exit(reason(Result));
        {'EXIT', Parent, Reason} ->
            exit(Reason);
        {'EXIT', Pid, Reason} ->
            case py_nif:mailbox_exit(Mailbox, Pid, Reason) orelse Reason =:= normal of
                true -> loop(State);
                false -> exit(Reason)
            end;
        {system, From, Request} ->
            sys:handle_system_msg(Request, From, Parent, ?MODULE, [], State);
        {'$gen_call', From, Request} ->
            Reply = fun(Value) -> gen_server:reply(From, Value) end,
            ok = py_nif:mailbox_deliver(Mailbox, {'$gen_call', Reply, Request}),
            loop(State);
        Message ->
            ok = py_nif:mailbox_deliver(Mailbox, Message),
            loop(State)
    end.

reason({ok, _}) -> normal;
reason({error, cancelled}) -> {shutdown, cancelled};
reason({error, Exception}) when is_map(Exception) -> {py_exception, Exception};
reason({error, Reason}) -> Reason.

%% @private
-spec monitor(pid() | atom() | {atom(), node()}) -> reference().
monitor(Process) ->
    Monitor = erlang:monitor(process, Process),
    %% The VM delays the monitor signal until this process does something else. Python must not get
    %% its reply before that: its next request could overtake the monitor.
    true = erlang:yield(),
    Monitor.

%% @private
-spec demonitor(reference(), [flush]) -> true.
demonitor(Monitor, Options) ->
    erlang:demonitor(Monitor, Options).

%% @private
-spec link(pid()) -> true.
link(Pid) ->
    erlang:link(Pid).

%% Discards an exit signal of the process that is already in the mailbox.
%% @private
-spec unlink(pid()) -> true.
unlink(Pid) ->
    true = erlang:unlink(Pid),
    receive
        {'EXIT', Pid, _} -> true
    after 0 -> true
    end.

%% @private
-spec system_continue(pid(), [sys:dbg_opt()], #state{}) -> no_return().
system_continue(_Parent, _Debug, State) ->
    loop(State).

%% @private
-spec system_terminate(term(), pid(), [sys:dbg_opt()], #state{}) -> no_return().
system_terminate(Reason, _Parent, _Debug, _State) ->
    exit(Reason).

%% @private
-spec system_get_state(#state{}) -> {ok, #state{}}.
system_get_state(State) ->
    {ok, State}.

%% @private
-spec system_code_change(#state{}, module(), term(), term()) -> {ok, #state{}}.
system_code_change(State, _Module, _Old, _Extra) ->
    {ok, State}.
