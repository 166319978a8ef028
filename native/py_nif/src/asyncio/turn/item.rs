//! Runs one item of the ready queue: a callback, or what a ready fd calls for.

use event_loop::Direction;
use pyo3::prelude::*;

use crate::asyncio::handles::handle::Handle;
use crate::asyncio::handles::ready::Item;
use crate::asyncio::loop_class::blocking;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::fd_table::Watcher;
use crate::cpython::process::forked;
use crate::io::sock_operation::SockOperation;
use crate::io::stream::transport::StreamTransport;
use crate::io::transports::base::Transport;

/// Runs one item, and sends what it wrote. `limit`: nanoseconds after which it is reported.
#[inline]
pub fn run(slf: &Bound<'_, Loop>, item: Item, limit: Option<u64>) -> PyResult<()> {
    let result = match limit {
        None => run_untimed(slf, item),
        Some(limit) => blocking::run_timed(slf, item, limit),
    };
    if slf.get().served {
        forked::end_if_copy_after_callback(slf.py(), &result);
    }
    send_unsent(slf)?;
    result
}

#[inline(always)]
pub fn run_untimed(slf: &Bound<'_, Loop>, item: Item) -> PyResult<()> {
    match item {
        Item::Callback(handle) => run_callback(slf, &handle.into_bound(slf.py())),
        Item::Io(watcher, direction) => run_io(slf, watcher, direction),
        Item::Start(transport, waiter, alone) => start(slf, transport, waiter, alone),
    }
}

#[inline(always)]
fn run_callback(slf: &Bound<'_, Loop>, handle: &Bound<'_, Handle>) -> PyResult<()> {
    if handle.get().is_cancelled() {
        Ok(())
    } else if slf.get().debug.get(slf.py()) {
        slf.call_method1("_run_handle_debug", (handle,)).map(drop)
    } else {
        (slf.get()).callback(slf.py(), || Handle::run(handle, false))
    }
}

/// Each object is bound before it is dropped: that is faster in code known to be attached.
fn run_io(slf: &Bound<'_, Loop>, watcher: Watcher, direction: Direction) -> PyResult<()> {
    let py = slf.py();
    match watcher {
        Watcher::Transport(transport) => {
            let transport = transport.into_bound(py);
            run_transport(slf, &transport, || Transport::ready(&transport, direction))
        }
        Watcher::Operation(operation) => SockOperation::ready(&operation.into_bound(py)),
        Watcher::Callback(handle) => {
            let handle = handle.into_bound(py);
            slf.get().callback(py, || Handle::run(&handle, false))
        }
    }
}

fn start(
    slf: &Bound<'_, Loop>,
    transport: Py<Transport>,
    waiter: Option<Py<PyAny>>,
    alone: bool,
) -> PyResult<()> {
    let transport = transport.into_bound(slf.py());
    let waiter = waiter.map(|waiter| waiter.into_bound(slf.py()));
    run_transport(slf, &transport, || {
        Transport::start(&transport, waiter.as_ref(), alone)
    })
}

/// The operations of a transport for which asyncio has callbacks.
#[inline(always)]
fn run_transport(
    slf: &Bound<'_, Loop>,
    transport: &Bound<'_, Transport>,
    action: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let result = match this.debug.get(py) {
        false => this.callback(py, action),
        true => blocking::run_debugged(slf, transport, || this.callback(py, action)),
    };
    result.or_else(|error| Loop::callback_failed(slf, transport, error))
}

/// Sends what the callback wrote in several pieces.
#[inline]
pub fn send_unsent(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let unflushed = &slf.get().unflushed;
    match unflushed.with(slf.py(), |unflushed| unflushed.is_empty()) {
        true => Ok(()),
        false => send_all_unsent(slf),
    }
}

#[inline(never)]
fn send_all_unsent(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    while let Some(stream) = this.unflushed.with(py, |unflushed| unflushed.pop()) {
        StreamTransport::flush_deferred(&stream.into_bound(py))?;
    }
    Ok(())
}
