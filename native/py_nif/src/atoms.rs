//! Every atom this library makes. Foreign strings never become atoms, so this list is complete.

rustler::atoms! {
    ok,
    error,
    undefined,

    // get_pending
    read,
    write,
    timer,

    // a loop whose events go to a process
    callbacks,
    py_event,

    // to a loop's keeper (py_event_router, py_event_worker)
    arm,
    loop_closed,
    loop_timer,
    sleep,
    start_worker,

    // poll_events
    keep,
    look,
    py_poll,
    select_sent,
    wait,
    woken,

    // event_loop_info
    events,
    fds,
    id,
    keeper,
    parks,
    pending,
    polls,
    stale_events,
    timers,
    timers_fired,
    turns,
    wakeups,

    // to py_signals, and the names of signals in Erlang
    signals_changed,
    default,
    handle,
    ignore,
    sigabrt,
    sigalrm,
    sigchld,
    sigcont,
    sighup,
    sigint,
    sigquit,
    sigterm,
    sigtstp,
    sigusr1,
    sigusr2,
    sigwinch,

    // from Python's main thread
    py_main,

    // requests (py, py_event_loop) and their answers
    call,
    cast_failed,
    call_ended,
    call_given_up,
    done,
    eval,
    exec,
    idle,
    inline,
    py_loop,
    py_reply,
    py_stream,
    data,
    late_failure,
    stream_ended,
    taken,
    queued,
    ready,
    ended,
    failed,
    threads,
    waiting,

    // values
    bytes,
    complex,
    date,
    datetime,
    decimal,
    false_ = "false",
    ndarray,
    nil,
    none,
    set,
    time,
    timedelta,
    true_ = "true",
    uuid,

    // exceptions
    cause,
    context,
    exceptions,
    file,
    function,
    line,
    message,
    notes,
    source,
    traceback,
    type_ = "type",

    // errors
    cancelled,
    loop_down,
    not_started,
    overload,
    panicked,
    badfd = "ebadf",
    closed,
    eperm,
    not_alive = "noproc",
    occupied,
    running,
    stale,
}
