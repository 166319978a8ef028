%% @doc The native functions: loops, fds, timers, the interpreter.
%%
%% Everything here works in a shell without Python:
%%
%% ```
%% {ok, Loop} = py_nif:event_loop_new(),
%% {ok, {R, W}} = py_nif:create_test_pipe(),
%% {ok, Fd} = py_nif:add_reader(Loop, R, 1),
%% ok = py_nif:write_test_fd(W, <<"x">>),
%% 1 = py_nif:poll_events(Loop, 1000),
%% [{1, read}] = py_nif:get_pending(Loop).
%% '''
%%
%% Arguments of a wrong type raise `badarg'. Functions on a destroyed loop return `{error, closed}'.
-module(py_nif).

-include("py_misuse.hrl").

-export([
    event_loop_new/0,
    event_loop_destroy/1,
    event_loop_set_router/2,
    event_loop_set_worker/2,
    event_loop_wakeup/1,
    event_loop_info/1,
    event_loop_count/0
]).
%% For py_callback_loop.
-export([event_loop_new_for/1]).
-export([
    add_reader/3,
    add_writer/3,
    remove_reader/2,
    remove_writer/2,
    stop_reader/1,
    start_reader/1,
    stop_writer/1,
    start_writer/1,
    close_fd/1
]).
-export([call_later/3, cancel_timer/2]).
-export([poll_events/2, get_pending/1]).
-export([
    create_test_pipe/0,
    write_test_fd/2,
    read_test_fd/2,
    close_test_fd/1,
    create_test_tcp_listener/1,
    connect_test_tcp/2,
    accept_test_tcp/1,
    create_test_udp_socket/1,
    sendto_test_udp/4,
    recvfrom_test_udp/2,
    set_udp_broadcast/2
]).
%% For py and py_event_loop.
-export([
    request_submit/3,
    request_submit/4,
    request_submit_unmonitored/3,
    request_submit_unmonitored/4,
    request_submit_recorded/6,
    end_with_parent/0,
    ledger_create/0,
    ledger_open/1,
    ledger_next/1,
    ledger_ended/1,
    ledger_load/1,
    ledger_has_begun/2,
    memory_listen/1,
    memory_accept/2,
    memory_connect/2,
    memory_close/1,
    memory_share/1,
    memory_send/2,
    memory_take/2,
    memory_counts/1,
    request_monitor/1,
    request_abandon/1,
    request_cancel/1,
    object_type/1,
    request_is_open/1,
    stream_submit/4,
    stream_submit/5,
    stream_demand/2,
    stream_cancel/1,
    calls_started/4,
    calls_info/0,
    calls_monitor/1,
    calls_thread/1,
    calls_interrupt/1,
    python_loop_start/2,
    python_loop_set_default/1,
    python_loop_forget_default/0,
    python_loop_stop/1,
    python_loop_steps/1,
    python_loop_of/1,
    python_loop_least/4,
    python_loop_owners/0,
    loop_lag/1,
    python_loop_threads/1,
    python_loop_runners/0
]).
%% For py_watchdog.
-export([watchdog_prepare/0, watchdog_look/1, watchdog_stacks/2, watchdog_interrupt/2]).
%% For py_status.
-export([status_calls/0, status_loops/0, status_tasks/1]).
%% For py_inspect.
-export([inspect_loops/1, inspect_loop_of/1, inspect_calls/0, inspect_streams/0, inspect_asgi/0]).
-export([inspect_list_tasks/2, inspect_list_from_outside/1, inspect_last_tasks/1]).
-export([profile_start/5, inspect_functions/0]).
%% For py_recorder.
-export([recorder_read/1]).
%% For py_questions.
-export([questions_started/1, question_begin/1, question_reply/2, question_raise/4]).
%% For py_actor.
-export([mailbox_new/0, mailbox_opened/1, mailbox_deliver/2, mailbox_exit/3]).
-export([channel_new/3, channel_send/3, channel_stop_waiting/2]).
-export([channel_close/1, channel_fail/2, channel_info/1]).
%% For py_keeper and its processes.
-export([router_started/0, loop_arm/1, fd_ready/1, timer_fired/1, loop_release/1]).
-export([sleep_done/1]).
%% For py_signals and py_signal_handler.
-export([
    signals_started/0,
    signals_stopped/0,
    signals_wanted/0,
    signals_settled/2,
    signal_take/1,
    signal_give_back/1,
    signal_arrived/1
]).
%% For py_interpreter and py_command.
-export([python_start/6, python_command/4, python_main/4, python_running/0, python_end_at_exit/1]).
%% For py_output, py_logger and processes that own loops.
-export([output_started/1, output_stopped/0, output_done/2]).
-export([logging_started/1, logging_stopped/0, logging_done/0]).
%% For trying conversions: docs/values.md.
-export([value_limits/3, value_none/1, python_echo/2, python_eval/3, python_eval_error/5]).

-export_type([loop_ref/0, fd_ref/0, timer_ref/0, poll_set/0, callback_id/0, event/0, reason/0]).
-export_type([sleeper/0, signal_request/0, os_signal/0]).
-export_type([output_device/0]).
-export_type([memory_listener/0, memory_link/0, memory_share/0]).
-export_type([request/0, ledger/0, request_target/0, call/0, python_loop_options/0]).
-export_type([question/0, erlang_call/0, mailbox/0, channel/0]).

-on_load(init/0).

-nifs([
    types_opened/0,
    event_loop_new/0,
    event_loop_destroy/1,
    event_loop_set_router/2,
    event_loop_set_worker/2,
    event_loop_wakeup/1,
    event_loop_info/1,
    event_loop_count/0,
    event_loop_new_for/1,
    add_reader/3,
    add_writer/3,
    remove_reader/2,
    remove_writer/2,
    stop_reader/1,
    start_reader/1,
    stop_writer/1,
    start_writer/1,
    close_fd/1,
    call_later/3,
    cancel_timer/2,
    get_pending/1,
    poll_nowait/1,
    poll_begin/2,
    poll_end/2,
    create_test_pipe/0,
    write_test_fd/2,
    read_test_fd/2,
    close_test_fd/1,
    create_test_tcp_listener/1,
    connect_test_tcp/2,
    accept_test_tcp/1,
    create_test_udp_socket/1,
    sendto_test_udp/4,
    recvfrom_test_udp/2,
    set_udp_broadcast/2,
    router_started/0,
    loop_arm/1,
    fd_ready/1,
    timer_fired/1,
    loop_release/1,
    sleep_done/1,
    signals_started/0,
    signals_stopped/0,
    signals_wanted/0,
    signals_settled/2,
    signal_take/1,
    signal_give_back/1,
    signal_arrived/1,
    python_start/6,
    python_command/4,
    python_main/5,
    python_running/0,
    python_end_at_exit/1,
    request_submit/4,
    request_submit_unmonitored/4,
    request_submit_recorded/6,
    end_with_parent/0,
    ledger_create/0,
    ledger_open/1,
    ledger_next/1,
    ledger_ended/1,
    ledger_load/1,
    ledger_has_begun/2,
    memory_listen/1,
    memory_accept/2,
    memory_connect/2,
    memory_close/1,
    memory_share/1,
    memory_send/2,
    memory_take/2,
    memory_counts/1,
    request_monitor/1,
    request_abandon/1,
    object_type/1,
    request_cancel/1,
    request_is_open/1,
    stream_submit/5,
    stream_demand/2,
    stream_cancel/1,
    mailbox_new/0,
    mailbox_opened/1,
    mailbox_deliver/2,
    mailbox_exit/3,
    channel_new/3,
    channel_send/3,
    channel_stop_waiting/2,
    channel_close/1,
    channel_fail/2,
    channel_info/1,
    questions_started/1,
    question_begin/1,
    question_reply/2,
    question_raise/4,
    calls_started/4,
    calls_info/0,
    calls_monitor/1,
    calls_thread/1,
    calls_interrupt/1,
    python_loop_start/3,
    python_loop_set_default/1,
    python_loop_forget_default/0,
    python_loop_stop/1,
    python_loop_steps/1,
    python_loop_of/1,
    python_loop_least/4,
    python_loop_owners/0,
    loop_lag/1,
    watchdog_prepare/0,
    watchdog_look/1,
    watchdog_stacks/2,
    status_calls/0,
    status_loops/0,
    status_tasks/1,
    watchdog_interrupt/2,
    inspect_loops/1,
    inspect_loop_of/1,
    inspect_calls/0,
    inspect_asgi/0,
    inspect_streams/0,
    inspect_list_tasks/2,
    inspect_list_from_outside/1,
    inspect_last_tasks/1,
    profile_start/5,
    inspect_functions/0,
    recorder_read/1,
    output_started/1,
    output_stopped/0,
    output_done/2,
    logging_started/1,
    logging_stopped/0,
    logging_done/0,
    python_loop_threads/1,
    python_loop_runners/0,
    value_limits/3,
    value_none/1,
    python_echo/2,
    python_eval/3,
    python_eval_error/5
]).

%% See `py_event_loop:options()'. `spin' and `warm' in microseconds; negative: the default.
-type python_loop_options() :: #{
    name := binary(),
    init := binary(),
    max_queue := pos_integer(),
    max_tasks := pos_integer(),
    patience := non_neg_integer(),
    own := boolean(),
    spin := integer(),
    warm := integer()
}.
%% A native loop. When the last reference is garbage-collected the loop is closed.
-type loop_ref() :: reference().
%% One direction of a watched fd. The watch belongs to the loop: losing this does not end it.
-opaque fd_ref() :: reference().
-opaque timer_ref() :: reference().
%% A loop's epoll set, in messages between a loop and its keeper.
-opaque poll_set() :: reference().
%% A Python thread that sleeps on a timer of the router.
-opaque sleeper() :: reference().
%% A Python thread that waits for py_signals.
-opaque signal_request() :: reference().
%% As in os:set_signal/2; which of them there are depends on the OTP release.
-type os_signal() :: sigabrt | sigalrm | sigchld | sighup | sigquit | sigterm | sigtstp
    | sigusr1 | sigusr2.
%% Chosen by the caller to identify events.
%% A request. Losing the reference does not cancel the request.
-type request() :: reference().
%% Which requests to a peer have begun.
-type ledger() :: reference().
%% Where large data crosses between a node and its peer; what is about to cross.
-type memory_listener() :: reference().
-type memory_link() :: reference().
-type memory_share() :: reference().
%% A process that takes what Python prints.
-type output_device() :: reference().
%% The messages for Python code. Losing it ends the code's pid.
-type mailbox() :: reference().
-type channel() :: reference().
%% A question from Python. Losing it without a reply makes the call fail.
-type question() :: reference().
%% What a question runs.
-type erlang_call() ::
    {traced, py_trace:traceparent(), erlang_call()}
    | {call, module(), atom(), [term()]}
    | {call, node(), module(), atom(), [term()]}
    | {apply, fun(), [term()]}.
%% A process that owns a loop, or `default': a call thread, and the default loop for coroutines.
-type request_target() :: default | pid().
%% `inline' runs on the loop's thread, even if the function is plain.
-type call() ::
    {call, py:name() | py:object(), py:name(), [term()], py:kwargs()}
    | {inline, py:name(), py:name(), [term()], py:kwargs()}
    | {eval | exec, py:name(), py:kwargs()}
    %% See py_options.
    | {with, py_options:sent(), call()}.
-type callback_id() :: non_neg_integer().
-type event() :: {callback_id(), read | write | timer}.
-type reason() :: closed | ebadf | eperm | stale | file:posix() | {errno, integer()} | binary().

init() ->
    File = filename:join(py_python_choice:choose_library(priv_dir()), "py_nif"),
    case erlang:load_nif(File, 0) of
        ok -> types_opened();
        {error, {_, Text}} ->
            %% For py_doctor: nothing of a module that cannot be loaded is left.
            ok = persistent_term:put({?MODULE, not_loaded}, Text),
            {error, {py_nif_not_loaded, File, Text}}
    end.

%% Completes a load: the library cannot use new resource types before load_nif/2 has returned.
types_opened() -> erlang:nif_error(not_loaded).

%% code:priv_dir/1 does not know the application when only its ebin is in the path.
priv_dir() ->
    case code:priv_dir(erlang_loop) of
        {error, bad_name} ->
            Ebin = filename:dirname(code:which(?MODULE)),
            filename:join(filename:dirname(Ebin), "priv");
        Dir ->
            Dir
    end.

%%% Loops

%% @doc Creates a loop. The node's `py_event_router' keeps it, if the application runs.
-spec event_loop_new() -> {ok, loop_ref()} | {error, reason()}.
event_loop_new() -> erlang:nif_error(not_loaded).

%% @doc Closes a loop: its watches and timers end, and waiting {@link poll_events/2} calls return.
%% The watched fds stay open. Also returns `ok' the second time.
-spec event_loop_destroy(loop_ref()) -> ok.
event_loop_destroy(_LoopRef) -> erlang:nif_error(not_loaded).

%% @doc Makes `Pid' (a `py_event_router') keep the loop. If it dies, the node's router takes over.
-spec event_loop_set_router(loop_ref(), pid()) -> ok | {error, closed | noproc}.
event_loop_set_router(_LoopRef, _Pid) -> erlang:nif_error(not_loaded).

%% @doc Makes `Pid' (a `py_event_worker') own the loop. If it dies, the loop is closed.
-spec event_loop_set_worker(loop_ref(), pid()) -> ok | {error, closed | noproc}.
event_loop_set_worker(_LoopRef, _Pid) -> erlang:nif_error(not_loaded).

%% @doc Makes a waiting {@link poll_events/2} return; if no process waits, the next one does not
%% wait.
-spec event_loop_wakeup(loop_ref()) -> ok | {error, closed}.
event_loop_wakeup(_LoopRef) -> erlang:nif_error(not_loaded).

%% @doc What the loop watches and has done, as numbers, and its keeper.
-spec event_loop_info(loop_ref()) ->
    {ok, #{
        id := pos_integer(),
        keeper := pid() | undefined,
        fds := non_neg_integer(),
        pending => non_neg_integer(),
        timers => non_neg_integer(),
        atom() => non_neg_integer()
    }}
    | {error, closed}.
event_loop_info(_LoopRef) -> erlang:nif_error(not_loaded).

%% @doc How many loops this node has.
-spec event_loop_count() -> non_neg_integer().
event_loop_count() -> erlang:nif_error(not_loaded).

%% A loop whose events are sent to a process: see py_callback_loop.
%% @private
-spec event_loop_new_for(Receiver :: pid()) -> {ok, loop_ref()} | {error, reason()}.
event_loop_new_for(_Receiver) -> erlang:nif_error(not_loaded).

%%% File descriptors

%% @doc Reports `{CallbackId, read}' while `Fd' is readable (level-triggered). Watching an fd
%% again replaces its callback and makes the earlier reference stale. An fd can be in several
%% loops; each reports it. Regular files cannot be watched: `{error, eperm}'.
-spec add_reader(loop_ref(), Fd :: integer(), callback_id()) ->
    {ok, fd_ref()} | {error, reason()}.
add_reader(_LoopRef, _Fd, _CallbackId) -> erlang:nif_error(not_loaded).

%% @doc As {@link add_reader/3}, for writing.
-spec add_writer(loop_ref(), Fd :: integer(), callback_id()) ->
    {ok, fd_ref()} | {error, reason()}.
add_writer(_LoopRef, _Fd, _CallbackId) -> erlang:nif_error(not_loaded).

%% @doc Ends a watch; nothing is reported for it any more. Also returns `ok' if it has ended before.
%% A reference of another loop, or of a writer, returns `{error, stale}'.
-spec remove_reader(loop_ref(), fd_ref()) -> ok | {error, closed | stale}.
remove_reader(_LoopRef, _FdRef) -> erlang:nif_error(not_loaded).

-spec remove_writer(loop_ref(), fd_ref()) -> ok | {error, closed | stale}.
remove_writer(_LoopRef, _FdRef) -> erlang:nif_error(not_loaded).

%% @doc Pauses a watch. If it has ended, returns `{error, stale}'.
-spec stop_reader(fd_ref()) -> ok | {error, closed | stale}.
stop_reader(_FdRef) -> erlang:nif_error(not_loaded).

%% @doc Resumes a paused watch.
-spec start_reader(fd_ref()) -> ok | {error, closed | stale}.
start_reader(_FdRef) -> erlang:nif_error(not_loaded).

-spec stop_writer(fd_ref()) -> ok | {error, closed | stale}.
stop_writer(_FdRef) -> erlang:nif_error(not_loaded).

-spec start_writer(fd_ref()) -> ok | {error, closed | stale}.
start_writer(_FdRef) -> erlang:nif_error(not_loaded).

%% @doc Ends the watches of the fd in this loop and closes it, once. Through a second reference, or
%% one that was replaced, or if the number belongs to another file by now, nothing is closed.
-spec close_fd(fd_ref()) -> ok.
close_fd(_FdRef) -> erlang:nif_error(not_loaded).

%%% Timers

%% @doc Reports `{CallbackId, timer}' once, `DelayMs' from now or a little later, never earlier.
-spec call_later(loop_ref(), DelayMs :: non_neg_integer(), callback_id()) ->
    {ok, timer_ref()} | {error, closed}.
call_later(_LoopRef, _DelayMs, _CallbackId) -> erlang:nif_error(not_loaded).

%% @doc Cancels a timer; also returns `ok' if it has fired. An event that is pending already stays.
-spec cancel_timer(loop_ref(), timer_ref()) -> ok | {error, closed | stale}.
cancel_timer(_LoopRef, _TimerRef) -> erlang:nif_error(not_loaded).

%%% Events

%% @doc Waits until something is pending, at most `TimeoutMs', and returns the number of pending
%% events; 0 after a timeout or {@link event_loop_wakeup/1}. The calling process waits as in
%% `receive': it blocks no scheduler. Any number of processes may wait for the same loop.
-spec poll_events(loop_ref(), timeout()) -> non_neg_integer() | {error, closed | callbacks}.
poll_events(LoopRef, TimeoutMs) ->
    ?EXPLAINED([{loop_ref, LoopRef}, {timeout, TimeoutMs}], poll(LoopRef, TimeoutMs)).

poll(LoopRef, 0) ->
    poll_nowait(LoopRef);
poll(LoopRef, infinity) ->
    poll_until(LoopRef, infinity);
poll(LoopRef, TimeoutMs) when is_integer(TimeoutMs), TimeoutMs > 0, TimeoutMs < 1 bsl 32 ->
    Wait = erlang:convert_time_unit(TimeoutMs, millisecond, native),
    poll_until(LoopRef, erlang:monotonic_time() + Wait);
poll(_LoopRef, _TimeoutMs) ->
    error(badarg).

poll_until(LoopRef, Deadline) ->
    Token = erlang:unique_integer(),
    case poll_begin(LoopRef, Token) of
        wait -> poll_wait(LoopRef, Token, none, Deadline);
        %% The loop has no keeper, so this process keeps it while it waits, as py_keeper describes.
        {keep, PollSet} -> poll_wait(LoopRef, Token, PollSet, Deadline);
        Answer -> Answer
    end.

poll_wait(LoopRef, Token, PollSet, Deadline) ->
    Why =
        receive
            %% `look': there are events, or another keeper, or the loop was closed.
            %% `woken': event_loop_wakeup/1 was called.
            {py_poll, Token, Told} ->
                Told;
            {select, PollSet, undefined, ready_input} ->
                ok = fd_ready(PollSet),
                look
        after time_left(Deadline) -> timeout
        end,
    poll_leave(LoopRef, Token, PollSet),
    case poll_nowait(LoopRef) of
        0 when Why =:= look -> poll_until(LoopRef, Deadline);
        Answer -> Answer
    end.

%% Leaves nothing in the mailbox: messages may have been sent just before the timeout.
poll_leave(LoopRef, Token, PollSet) ->
    Wait =
        case poll_end(LoopRef, Token) of
            ok -> 0;
            %% A thread of the VM is sending it.
            select_sent -> infinity
        end,
    receive
        {select, PollSet, undefined, ready_input} -> fd_ready(PollSet)
    after Wait -> ok
    end,
    receive
        {py_poll, Token, _} -> ok
    after 0 -> ok
    end.

%% In milliseconds, rounded up: a timeout is never early.
time_left(infinity) ->
    infinity;
time_left(Deadline) ->
    Left = max(0, Deadline - erlang:monotonic_time()),
    -erlang:convert_time_unit(-Left, native, millisecond).

-spec poll_nowait(loop_ref()) -> non_neg_integer() | {error, closed | callbacks}.
poll_nowait(_LoopRef) -> erlang:nif_error(not_loaded).

-spec poll_begin(loop_ref(), integer()) ->
    non_neg_integer() | wait | {keep, poll_set()} | {error, closed | callbacks}.
poll_begin(_LoopRef, _Token) -> erlang:nif_error(not_loaded).

-spec poll_end(loop_ref(), integer()) -> ok | select_sent.
poll_end(_LoopRef, _Token) -> erlang:nif_error(not_loaded).

%% @doc Returns all pending events and empties the queue: fds that are ready now, then timers in the
%% order of their deadlines. An fd that stays ready is reported again; one that was read meanwhile
%% is not.
-spec get_pending(loop_ref()) -> [event()] | {error, closed | callbacks}.
get_pending(_LoopRef) -> erlang:nif_error(not_loaded).

%%% Pipes and sockets for tests. The functions accept only fds created here: others return `{error,
%%% ebadf}'. All are non-blocking: they return `{error, eagain}' instead of waiting.

-spec create_test_pipe() -> {ok, {Read :: integer(), Write :: integer()}} | {error, reason()}.
create_test_pipe() -> erlang:nif_error(not_loaded).

-spec write_test_fd(Fd :: integer(), binary()) -> ok | {error, reason()}.
write_test_fd(_Fd, _Data) -> erlang:nif_error(not_loaded).

%% @doc Reads at most `Max' bytes; `{ok, <<>>}' at the end of the data.
-spec read_test_fd(Fd :: integer(), Max :: non_neg_integer()) ->
    {ok, binary()} | {error, reason()}.
read_test_fd(_Fd, _Max) -> erlang:nif_error(not_loaded).

-spec close_test_fd(Fd :: integer()) -> ok | {error, ebadf}.
close_test_fd(_Fd) -> erlang:nif_error(not_loaded).

%% @doc Listens on the loopback address; with port 0 the system chooses one.
-spec create_test_tcp_listener(inet:port_number()) ->
    {ok, {Fd :: integer(), inet:port_number()}} | {error, reason()}.
create_test_tcp_listener(_Port) -> erlang:nif_error(not_loaded).

-spec connect_test_tcp(Host :: binary(), inet:port_number()) ->
    {ok, Fd :: integer()} | {error, reason()}.
connect_test_tcp(_Host, _Port) -> erlang:nif_error(not_loaded).

-spec accept_test_tcp(Fd :: integer()) -> {ok, Fd :: integer()} | {error, reason()}.
accept_test_tcp(_Fd) -> erlang:nif_error(not_loaded).

%% @doc Bound to all IPv4 addresses, so that broadcasts arrive.
-spec create_test_udp_socket(inet:port_number()) ->
    {ok, {Fd :: integer(), inet:port_number()}} | {error, reason()}.
create_test_udp_socket(_Port) -> erlang:nif_error(not_loaded).

-spec sendto_test_udp(Fd :: integer(), binary(), Host :: binary(), inet:port_number()) ->
    ok | {error, reason()}.
sendto_test_udp(_Fd, _Data, _Host, _Port) -> erlang:nif_error(not_loaded).

-spec recvfrom_test_udp(Fd :: integer(), Max :: non_neg_integer()) ->
    {ok, {binary(), {Host :: binary(), inet:port_number()}}} | {error, reason()}.
recvfrom_test_udp(_Fd, _Max) -> erlang:nif_error(not_loaded).

-spec set_udp_broadcast(Fd :: integer(), boolean() | 0..1) -> ok | {error, reason()}.
set_udp_broadcast(_Fd, _On) -> erlang:nif_error(not_loaded).

%%% For keepers: see py_keeper

%% @private
-spec router_started() -> ok.
router_started() -> erlang:nif_error(not_loaded).

%% @private
-spec loop_arm(poll_set()) -> ok.
loop_arm(_PollSet) -> erlang:nif_error(not_loaded).

%% @private
-spec fd_ready(poll_set()) -> ok.
fd_ready(_PollSet) -> erlang:nif_error(not_loaded).

%% @private
-spec timer_fired(pos_integer()) -> ok.
timer_fired(_LoopId) -> erlang:nif_error(not_loaded).

%% @private
-spec loop_release(poll_set()) -> ok.
loop_release(_PollSet) -> erlang:nif_error(not_loaded).

%% @private
-spec sleep_done(sleeper()) -> ok.
sleep_done(_Sleeper) -> erlang:nif_error(not_loaded).

%%% Signals of the operating system: see py_signals

%% @private
-spec signals_started() -> ok.
signals_started() -> erlang:nif_error(not_loaded).

%% @private
-spec signals_stopped() -> ok.
signals_stopped() -> erlang:nif_error(not_loaded).

%% @private
-spec signals_wanted() -> {Wanted :: [os_signal()], Taken :: [os_signal()]}.
signals_wanted() -> erlang:nif_error(not_loaded).

%% @private
-spec signals_settled(signal_request(), Refused :: [os_signal()]) -> ok.
signals_settled(_Request, _Refused) -> erlang:nif_error(not_loaded).

%% @private
-spec signal_take(os_signal()) -> ok.
signal_take(_Signal) -> erlang:nif_error(not_loaded).

%% @private
-spec signal_give_back(os_signal()) -> default | ignore | handle.
signal_give_back(_Signal) -> erlang:nif_error(not_loaded).

%% @private
-spec signal_arrived(atom()) -> boolean().
signal_arrived(_Signal) -> erlang:nif_error(not_loaded).

%%% For py_interpreter: results arrive as `{py_main, Token, Result}'

%% @private
-spec python_start(
    integer(),
    Executable :: binary(),
    Paths :: [binary()],
    SwitchInterval :: float() | undefined,
    DefaultEventLoop :: boolean(),
    Faulthandler :: boolean()
) -> ok | {error, binary()}.
python_start(_Token, _Executable, _Paths, _SwitchInterval, _DefaultEventLoop, _Faulthandler) ->
    erlang:nif_error(not_loaded).

%% @private
-spec python_command(
    Executable :: binary(),
    Paths :: [binary()],
    SwitchInterval :: float() | undefined,
    Arguments :: [binary()]
) -> ok | {error, binary()}.
python_command(_Executable, _Paths, _SwitchInterval, _Arguments) -> erlang:nif_error(not_loaded).

%% @private
-spec python_main(integer(), Module :: binary(), Function :: binary(), [binary()]) ->
    ok | {error, occupied}.
python_main(Token, Module, Function, Arguments) ->
    python_main(Token, Module, Function, Arguments, group_leader()).

%% With the group leader that the program prints to.
-spec python_main(integer(), binary(), binary(), [binary()], pid()) -> ok | {error, occupied}.
python_main(_Token, _Module, _Function, _Arguments, _Leader) -> erlang:nif_error(not_loaded).

%% @private
-spec python_running() -> boolean().
python_running() -> erlang:nif_error(not_loaded).

%% Sets whether Python is ended (`erlang_loop_end.run()') when the operating system process ends,
%% and how many milliseconds that may take. `undefined', the default: it is not ended then.
%% @private
-spec python_end_at_exit(timeout() | undefined) -> ok.
python_end_at_exit(_Timeout) -> erlang:nif_error(not_loaded).

%%% For trying conversions (docs/values.md): results arrive as `{py_main, Token, {ok, Term} |
%%% {error, Exception}}'

%% For py_calls: see docs/security.md.
%% @private
-spec value_limits(IntegerBytes :: pos_integer(), Parts :: pos_integer(), Atoms :: integer()) -> ok.
value_limits(_IntegerBytes, _Parts, _Atoms) -> erlang:nif_error(not_loaded).

%% For py_calls: the setting `none'.
%% @private
-spec value_none(none | nil | null | undefined) -> ok.
value_none(_None) -> erlang:nif_error(not_loaded).

%% Converts the term to Python and back.
%% @private
-spec python_echo(Token :: integer(), term()) -> ok | {error, occupied}.
python_echo(_Token, _Term) -> erlang:nif_error(not_loaded).

%% The value of an expression in `__main__', with local names.
%% @private
-spec python_eval(Token :: integer(), binary(), Names :: #{binary() | atom() => term()}) ->
    ok | {error, occupied}.
python_eval(_Token, _Source, _Names) -> erlang:nif_error(not_loaded).

%% As python_eval/3, with this exception as `error' (an `erlang.Error').
%% @private
-spec python_eval_error(
    Token :: integer(), binary(), error | exit | throw, Reason :: term(), Stacktrace :: term()
) -> ok | {error, occupied}.
python_eval_error(_Token, _Source, _Class, _Reason, _Stacktrace) -> erlang:nif_error(not_loaded).

%%% Requests: see py, py_calls, py_event_loop_server

%% The reply arrives as `{py_reply, Token, Result}', unless the request is abandoned before.
%% @private
-spec request_submit_unmonitored(Token :: reference(), request_target(), call()) ->
    {ok, request()} | {error, not_started | overload | loop_down | deadlock}.
request_submit_unmonitored(Token, Target, Call) ->
    request_submit_unmonitored(Token, Target, Call, py_trace:origin()).

%% With the group leader that the code prints to.
-spec request_submit_unmonitored(reference(), request_target(), call(), py_trace:origin()) ->
    {ok, request()} | {error, not_started | overload | loop_down | deadlock}.
request_submit_unmonitored(_Token, _Target, _Call, _Leader) -> erlang:nif_error(not_loaded).

%%% Ledgers: which requests to a peer have begun, in memory shared with it. See py_remote

%% The request has this number in the ledger of its origin.
%% @private
-spec request_submit_recorded(reference(), request_target(), call(), py_trace:origin(), ledger(), pos_integer()) ->
    {ok, request()} | {error, not_started | overload | loop_down | deadlock}.
request_submit_recorded(_Token, _Target, _Call, _Leader, _Ledger, _Number) ->
    erlang:nif_error(not_loaded).

%% The kernel kills this operating system process when its parent ends.
%% @private
-spec end_with_parent() -> ok.
end_with_parent() -> erlang:nif_error(not_loaded).

%% With the fd that the peer opens in /proc.
%% @private
-spec ledger_create() -> {ok, ledger(), Fd :: non_neg_integer()} | {error, term()}.
ledger_create() -> erlang:nif_error(not_loaded).

%% @private
-spec ledger_open(Path :: binary()) -> {ok, ledger()} | {error, term()}.
ledger_open(_Path) -> erlang:nif_error(not_loaded).

%% @private
-spec ledger_next(ledger()) -> pos_integer().
ledger_next(_Ledger) -> erlang:nif_error(not_loaded).

%% A request was replied to or abandoned.
%% @private
-spec ledger_ended(ledger()) -> ok.
ledger_ended(_Ledger) -> erlang:nif_error(not_loaded).

%% How many requests are open.
%% @private
-spec ledger_load(ledger()) -> non_neg_integer().
ledger_load(_Ledger) -> erlang:nif_error(not_loaded).

%% @private
-spec ledger_has_begun(ledger(), pos_integer()) -> boolean().
ledger_has_begun(_Ledger, _Number) -> erlang:nif_error(not_loaded).

%%% Large data from and to a peer, in memory that no process can change. See py_peer_memory

%% @private
-spec memory_listen(Name :: binary()) -> {ok, memory_listener()} | {error, term()}.
memory_listen(_Name) -> erlang:nif_error(not_loaded).

%% The connection of the process that has sent this secret.
%% @private
-spec memory_accept(memory_listener(), Secret :: binary()) -> {ok, memory_link()} | {error, term()}.
memory_accept(_Listener, _Secret) -> erlang:nif_error(not_loaded).

%% @private
-spec memory_connect(Name :: binary(), Secret :: binary()) -> {ok, memory_link()} | {error, term()}.
memory_connect(_Name, _Secret) -> erlang:nif_error(not_loaded).

%% Logs may keep references to it for long.
%% @private
-spec memory_close(memory_link()) -> ok.
memory_close(_Link) -> erlang:nif_error(not_loaded).

%% Copies the binary, if it does not come from such memory.
%% @private
-spec memory_share(binary()) -> {ok, memory_share()} | {error, term()}.
memory_share(_Binary) -> erlang:nif_error(not_loaded).

%% With the number that the other side takes it by.
%% @private
-spec memory_send(memory_link(), memory_share()) -> {ok, non_neg_integer()} | {error, term()}.
memory_send(_Link, _Share) -> erlang:nif_error(not_loaded).

%% @private
-spec memory_take(memory_link(), non_neg_integer()) -> {ok, binary()} | {error, term()}.
memory_take(_Link, _Number) -> erlang:nif_error(not_loaded).

%% Binaries and bytes: sent, those of them that were copied, received.
%% @private
-spec memory_counts(memory_link()) -> {Count, Count, Count} when
    Count :: {non_neg_integer(), non_neg_integer()}.
memory_counts(_Link) -> erlang:nif_error(not_loaded).

%% @private
-spec request_monitor(request()) -> ok.
request_monitor(_Request) -> erlang:nif_error(not_loaded).

%% @private
-spec request_submit(Token :: reference() | undefined, request_target(), call()) ->
    {ok, request()} | {error, not_started | overload | loop_down | deadlock}.
request_submit(Token, Target, Call) ->
    request_submit(Token, Target, Call, py_trace:origin()).

%% With the group leader that the code prints to.
-spec request_submit(reference() | undefined, request_target(), call(), py_trace:origin()) ->
    {ok, request()} | {error, not_started | overload | loop_down | deadlock}.
request_submit(_Token, _Target, _Call, _Leader) -> erlang:nif_error(not_loaded).

%% `ok': no reply will come; `done': it is in the mailbox.
%% @private
-spec request_abandon(request()) -> ok | done.
request_abandon(_Request) -> erlang:nif_error(not_loaded).

%% @private
-spec request_cancel(request()) -> ok.
request_cancel(_Request) -> erlang:nif_error(not_loaded).

%% The type of a Python object when the reference to it was created.
%% @private
-spec object_type(py:object()) -> binary().
object_type(_Object) -> erlang:nif_error(not_loaded).

%% Whether a reply may still come.
%% @private
-spec request_is_open(request()) -> boolean().
request_is_open(_Request) -> erlang:nif_error(not_loaded).

%% The process `To' gets `{py_stream, Stream, Event}', the first `Demand' items without asking for
%% more.
%% @private
-spec stream_submit(request_target(), call(), To :: pid(), Demand :: non_neg_integer()) ->
    {ok, request()} | {error, not_started | overload | loop_down | noproc}.
stream_submit(Target, Call, To, Demand) ->
    stream_submit(Target, Call, To, Demand, py_trace:origin()).

%% With the group leader that the code prints to.
-spec stream_submit(request_target(), call(), pid(), non_neg_integer(), py_trace:origin()) ->
    {ok, request()} | {error, not_started | overload | loop_down | noproc}.
stream_submit(_Target, _Call, _To, _Demand, _Leader) -> erlang:nif_error(not_loaded).

%% @private
-spec stream_demand(request(), pos_integer()) -> ok.
stream_demand(_Stream, _Count) -> erlang:nif_error(not_loaded).

%% `taken': no message will come; `ok': the consumer, which is not the caller, is notified.
%% @private
-spec stream_cancel(request()) -> taken | ok.
stream_cancel(_Stream) -> erlang:nif_error(not_loaded).

%% @private
-spec calls_started(
    pid(),
    MaxThreads :: pos_integer(),
    MaxQueue :: non_neg_integer(),
    MaxNesting :: non_neg_integer()
) -> ok.
calls_started(_Pid, _MaxThreads, _MaxQueue, _MaxNesting) -> erlang:nif_error(not_loaded).

%% @private
-spec calls_info() -> #{threads | idle | queued | ended | abandoned => non_neg_integer()}.
calls_info() -> erlang:nif_error(not_loaded).

%% Monitors the callers of the calls that run. `true': later calls send `calls_begun' again.
%% @private
-spec calls_monitor(boolean()) -> ok.
calls_monitor(_ReportLater) -> erlang:nif_error(not_loaded).

%% Python's number for the thread that runs the request with this id.
%% @private
-spec calls_thread(pos_integer()) -> integer() | none.
calls_thread(_Id) -> erlang:nif_error(not_loaded).

%% Interrupts a function that runs although its caller has gone.
%% @private
-spec calls_interrupt(pos_integer()) -> ok.
calls_interrupt(_Id) -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_start(integer(), python_loop_options()) ->
    {ok, ready | starting, loop_ref()} | {error, not_started | reason()}.
python_loop_start(Token, Options) ->
    python_loop_start(Token, Options, group_leader()).

%% With the group leader that the loop itself prints to.
-spec python_loop_start(integer(), python_loop_options(), Leader :: pid()) ->
    {ok, ready | starting, loop_ref()} | {error, not_started | reason()}.
python_loop_start(_Token, _Options, _Leader) -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_set_default(loop_ref()) -> ok | {error, closed}.
python_loop_set_default(_LoopRef) -> erlang:nif_error(not_loaded).

%% The application stops: requests without a loop return `not_started' until there is a default
%% loop.
%% @private
-spec python_loop_forget_default() -> ok.
python_loop_forget_default() -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_stop(loop_ref()) -> ok | ended | {error, closed}.
python_loop_stop(_LoopRef) -> erlang:nif_error(not_loaded).

%% Grows as long as the loop's thread is not stuck, whichever of its loops runs. `undefined': the
%% loop has ended.
%% @private
-spec python_loop_steps(loop_ref()) -> non_neg_integer() | undefined.
python_loop_steps(_LoopRef) -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_of(pid()) ->
    {ok, Queued :: non_neg_integer(), Waiting :: non_neg_integer()} | {error, loop_down}.
python_loop_of(_Owner) -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_least(
    Names :: tuple(), First :: pos_integer(), Count :: non_neg_integer(), Size :: pos_integer()
) -> non_neg_integer().
python_loop_least(_Names, _First, _Count, _Size) -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_owners() -> [pid()].
python_loop_owners() -> erlang:nif_error(not_loaded).

%%% What Python prints and logs: see py_output, py_logger

%% The calling process is py_output; `Wanted': Python's output goes to group leaders.
%% @private
-spec output_started(Wanted :: boolean()) -> ok.
output_started(_Wanted) -> erlang:nif_error(not_loaded).

%% @private
-spec output_stopped() -> ok.
output_stopped() -> erlang:nif_error(not_loaded).

%% A device has replied. Returns how many bytes were dropped since the last time.
%% @private
-spec output_done(output_device(), Bytes :: non_neg_integer()) -> Dropped :: non_neg_integer().
output_done(_Device, _Bytes) -> erlang:nif_error(not_loaded).

%% The calling process is py_logger; at most this many events may wait for it.
%% @private
-spec logging_started(Limit :: non_neg_integer()) -> ok.
logging_started(_Limit) -> erlang:nif_error(not_loaded).

%% @private
-spec logging_stopped() -> ok.
logging_stopped() -> erlang:nif_error(not_loaded).

%% An event was handled. Returns how many were dropped since the last time.
%% @private
-spec logging_done() -> Dropped :: non_neg_integer().
logging_done() -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_threads(Threads :: pos_integer()) -> ok.
python_loop_threads(_Threads) -> erlang:nif_error(not_loaded).

%% @private
-spec python_loop_runners() -> [Loops :: pos_integer()].
python_loop_runners() -> erlang:nif_error(not_loaded).

%%% Questions from Python: see py_questions

%% @private
-spec questions_started(pid()) -> ok.
questions_started(_Pid) -> erlang:nif_error(not_loaded).

%% @private
-spec question_begin(question()) -> ok | abandoned.
question_begin(_Question) -> erlang:nif_error(not_loaded).

%% @private
-spec question_reply(question(), term()) -> ok.
question_reply(_Question, _Value) -> erlang:nif_error(not_loaded).

%% @private
-spec question_raise(question(), error | exit | throw, Reason :: term(), Stacktrace :: term()) ->
    ok.
question_raise(_Question, _Class, _Reason, _Stacktrace) -> erlang:nif_error(not_loaded).

%%% Mailboxes of Python code: see py_actor

%% @private
-spec mailbox_new() -> mailbox().
mailbox_new() -> erlang:nif_error(not_loaded).

%% The calling process represents the code from now on.
%% @private
-spec mailbox_opened(mailbox()) -> ok.
mailbox_opened(_Mailbox) -> erlang:nif_error(not_loaded).

%% @private
-spec mailbox_deliver(mailbox(), Message :: term()) -> ok.
mailbox_deliver(_Mailbox, _Message) -> erlang:nif_error(not_loaded).

%% Whether Python asked to be notified of the death of this linked process.
%% @private
-spec mailbox_exit(mailbox(), pid(), Reason :: term()) -> boolean().
mailbox_exit(_Mailbox, _Pid, _Reason) -> erlang:nif_error(not_loaded).

%%% Channels: see py_channel

%% The limit counts items, or bytes.
%% @private
-spec channel_new(terms | bytes, Limit :: pos_integer(), Owner :: pid()) ->
    {ok, channel()} | {error, noproc}.
channel_new(_Type, _Limit, _Owner) -> erlang:nif_error(not_loaded).

%% `wait': the result follows as `{py_channel, Token, Result}'. Without a token: `full'.
%% @private
-spec channel_send(channel(), term(), Token :: reference() | undefined) ->
    ok | wait | full | not_binary | {error, closed | py:reason()}.
channel_send(_Channel, _Item, _Token) -> erlang:nif_error(not_loaded).

%% `false': the message with this token is on its way.
%% @private
-spec channel_stop_waiting(channel(), Token :: reference()) -> boolean().
channel_stop_waiting(_Channel, _Token) -> erlang:nif_error(not_loaded).

%% @private
-spec channel_close(channel()) -> ok.
channel_close(_Channel) -> erlang:nif_error(not_loaded).

%% @private
-spec channel_fail(channel(), Reason :: term()) -> ok.
channel_fail(_Channel, _Reason) -> erlang:nif_error(not_loaded).

%% @private
-spec channel_info(channel()) ->
    {
        terms | bytes,
        Limit :: pos_integer(),
        Used :: non_neg_integer(),
        Waiting :: non_neg_integer(),
        IsOpen :: boolean()
    }.
channel_info(_Channel) -> erlang:nif_error(not_loaded).

%% How many turns have taken less than 1, 2, 4, ... microseconds, and the longest in nanoseconds.
%% @private
-spec loop_lag(pid()) ->
    {ok, Turns :: non_neg_integer(), Longest :: non_neg_integer(), [non_neg_integer()]}
    | {error, loop_down}.
loop_lag(_Owner) -> erlang:nif_error(not_loaded).

%%% Loops that are stuck: see py_watchdog

%% Prepares Python for reading its stacks; it must be running.
%% @private
-spec watchdog_prepare() -> ok | {error, not_started | binary()}.
watchdog_prepare() -> erlang:nif_error(not_loaded).

%% The loops that have been in one turn for at least that many milliseconds, and the number of
%% milliseconds until the next one may have. Wakes no loop. `sleep': no loop is in a turn; check again
%% some time after `loop_awake'.
%% @private
-spec watchdog_look(non_neg_integer()) ->
    {Next :: pos_integer() | sleep, [
        {Id :: pos_integer(), Owner :: pid() | undefined, Thread :: integer(), Turn :: integer(),
            Milliseconds :: non_neg_integer(), Callback :: non_neg_integer(),
            SeenFor :: non_neg_integer()}
    ]}.
watchdog_look(_Threshold) -> erlang:nif_error(not_loaded).

%% The stacks of Python's threads arrive as `{py_stacks, Token, {ok, Text} | {error, Text}}'.
%% @private
-spec watchdog_stacks(Token :: integer(), PatienceMs :: non_neg_integer()) ->
    ok | {error, not_started | binary()}.
watchdog_stacks(_Token, _Patience) -> erlang:nif_error(not_loaded).

%% Raises LoopStuckError in this callback of the loop, if it still runs Python code.
%% @private
-spec watchdog_interrupt(Id :: non_neg_integer(), Callback :: non_neg_integer()) ->
    ok | {error, closed | binary()}.
watchdog_interrupt(_Id, _Callback) -> erlang:nif_error(not_loaded).

%%% What runs now: see py_status

%% The calls that run on call threads.
%% @private
-spec status_calls() ->
    [{Function :: binary(), Caller :: pid(), Milliseconds :: non_neg_integer(), Thread :: integer()}].
status_calls() -> erlang:nif_error(not_loaded).

%% The loops that Python's threads run, and for how long each has been in its turn.
%% @private
-spec status_loops() ->
    [
        {Number :: pos_integer(), Owner :: pid() | undefined, Thread :: integer(),
            Queued :: non_neg_integer(), Unanswered :: non_neg_integer(),
            Milliseconds :: non_neg_integer() | none}
    ].
status_loops() -> erlang:nif_error(not_loaded).

%% The tasks of all loops arrive as `{py_tasks, Token, {ok, [{Number, [Task]}]} | {error, Exception}}', as
%% soon as a thread gets the GIL.
%% @private
-spec status_tasks(Token :: integer()) -> ok | {error, not_started | binary()}.
status_tasks(_Token) -> erlang:nif_error(not_loaded).

%%% For py_inspect. Times are in nanoseconds.

%% The loop of this number; 0: all loops.
%% @private
-spec inspect_loops(non_neg_integer()) -> [map()].
inspect_loops(_Id) -> erlang:nif_error(not_loaded).

%% @private
-spec inspect_loop_of(Owner :: pid()) -> pos_integer() | undefined.
inspect_loop_of(_Owner) -> erlang:nif_error(not_loaded).

%% `ok': `{py_task_list, Token}' arrives when the loop has listed its tasks; `never': it has not run.
%% @private
-spec inspect_list_tasks(pos_integer(), Token :: integer()) -> ok | never | closed.
inspect_list_tasks(_Id, _Token) -> erlang:nif_error(not_loaded).

%% The same by another thread, for processes that wait for the loop already.
%% @private
-spec inspect_list_from_outside(pos_integer()) -> ok | closed.
inspect_list_from_outside(_Id) -> erlang:nif_error(not_loaded).

%% @private
-spec inspect_last_tasks(pos_integer()) ->
    {Age :: non_neg_integer(), {Total :: non_neg_integer(), [tuple()]}} | undefined.
inspect_last_tasks(_Id) -> erlang:nif_error(not_loaded).

%% Times of calls of at least 0.1 ms, in nanoseconds.
%% @private
-spec inspect_functions() ->
    [
        {
            binary(),
            Calls :: pos_integer(),
            Total :: non_neg_integer(),
            P99 :: non_neg_integer(),
            Longest :: non_neg_integer()
        }
    ].
inspect_functions() -> erlang:nif_error(not_loaded).

%% The caller gets `{py_profile, Token, {ok, {Frames, Stacks, Samples, Counts}}}', or
%% `{py_profile, Token, {error, unsupported}}'. A stack has its loop, 0 for a call thread, its task or
%% function, and the places of its frames, outermost first; a sample its time in microseconds and the
%% place of its stack. Places count from 0.
%% @private
-spec profile_start(Token :: integer(), [pos_integer()] | all, Calls :: boolean(), Ms :: pos_integer(),
    IntervalUs :: pos_integer()) -> ok | {error, not_started | term()}.
profile_start(_Token, _Loops, _Calls, _Ms, _IntervalUs) -> erlang:nif_error(not_loaded).

%% The last events of a loop and the stacks of its last slow turns, the oldest first. Times
%% are in nanoseconds, of the same clock as `Now'.
%% @private
-spec recorder_read(Loop :: pos_integer()) ->
    undefined
    | {
        Now :: non_neg_integer(),
        [{Time :: non_neg_integer(), Kind :: atom(), Value :: non_neg_integer()}],
        [
            {Turn :: non_neg_integer(), Began :: non_neg_integer(), Lasted :: non_neg_integer(), [
                {Function :: binary(), File :: binary(), Line :: non_neg_integer()}
            ]}
        ]
    }.
recorder_read(_Loop) -> erlang:nif_error(not_loaded).

%% @private
-spec inspect_asgi() ->
    [
        {
            Loop :: pos_integer(),
            Connections :: non_neg_integer(),
            Active :: non_neg_integer(),
            Served :: non_neg_integer(),
            Responses :: [non_neg_integer()]
        }
    ].
inspect_asgi() -> erlang:nif_error(not_loaded).

%% @private
-spec inspect_calls() ->
    [{Id :: pos_integer(), binary(), pid(), Time :: non_neg_integer(), Thread :: integer(), boolean(), boolean()}].
inspect_calls() -> erlang:nif_error(not_loaded).

%% @private
-spec inspect_streams() ->
    [
        {
            Id :: pos_integer(),
            binary(),
            Caller :: pid(),
            Consumer :: pid(),
            Loop :: pos_integer() | undefined,
            Time :: non_neg_integer(),
            {
                Sent :: non_neg_integer(),
                Demand :: non_neg_integer(),
                Waits :: boolean(),
                WaitedNs :: non_neg_integer()
            }
        }
    ].
inspect_streams() -> erlang:nif_error(not_loaded).
