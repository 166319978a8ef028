//! Every atom this library makes. Foreign strings never become atoms, so this list is complete.

rustler::atoms! {
    ok,
    error,
    undefined,

    // get_pending
    read,
    write,
    timer,

    // to a loop's keeper (py_event_router, py_event_worker)
    arm,
    loop_closed,
    loop_timer,
    start_worker,

    // to a process that waits in poll_events
    py_poll,
    wait,
    wait_self,

    // from Python's main thread
    py_main,

    // errors
    badfd = "ebadf",
    closed,
    eperm,
    not_alive = "noproc",
    occupied,
    running,
    stale,
}
