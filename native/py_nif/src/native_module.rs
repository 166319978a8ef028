//! The native module: `erlang_loop._native` for the package, `py_event_loop` for programs.
//! `python/erlang_loop/_native.pyi` is its contract.

use crate::io::datagram::transport::DatagramTransport;
use crate::io::pipes::pipe::PipeTransport;
use crate::io::pipes::read_pipe::ReadPipeTransport;
use crate::io::pipes::write_pipe::WritePipeTransport;
use crate::io::stream::transport::StreamTransport;
use crate::io::transports::accept::Acceptor;
use crate::io::transports::base::Transport;
use pyo3::prelude::*;

use super::asyncio::{origin, sleep};
use super::erlang_module::{async_calls, calls, channel, mailbox, messages};
use super::io::tls;
use super::output::python_output;
use crate::asyncio::handles::handle::Handle;
use crate::asyncio::handles::timer_handle::TimerHandle;
use crate::asyncio::loop_class::blocking;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::fd_callbacks;
use crate::asyncio::loop_class::loop_signals;
use crate::asyncio::loop_class::methods;
use crate::asyncio::turn::priorities;
use crate::cpython::objects::finalizer;
use crate::cpython::process::child_processes::ChildProcess;
use crate::io::sock_operation::SockOperation;
use crate::requests::call_threads::interrupts;

#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Loaded once; the first one stays.
    let _ = crate::convert::CALL_FUN.set(crate::erlang_module::calls::call_fun);
    let _ = crate::convert::channels::CHANNELS.set(channel::CONVERSION);
    module.add_class::<Handle>()?;
    module.add_class::<TimerHandle>()?;
    module.add_class::<SockOperation>()?;
    module.add_class::<Loop>()?;
    methods::add(&module.py().get_type::<Loop>())?;
    module.add_function(wrap_pyfunction!(methods::own_methods, module)?)?;
    add_transports(module)?;
    tls::add_classes(module)?;
    crate::http::add_classes(module)?;
    module.add_function(wrap_pyfunction!(sleep::_erlang_sleep, module)?)?;
    module.add_class::<ChildProcess>()?;
    module.add_function(wrap_pyfunction!(
        crate::io::sys::address::ip_family,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        crate::io::transports::connecting::connect,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(loop_signals::signal_watch, module)?)?;
    module.add_function(wrap_pyfunction!(loop_signals::runs_command, module)?)?;
    module.add_class::<async_calls::PyQuestion>()?;
    module.add_class::<mailbox::PyMailbox>()?;
    module.add_class::<channel::PyChannel>()?;
    module.add_class::<channel::ChannelWaiter>()?;
    module.add_function(wrap_pyfunction!(async_calls::_ask, module)?)?;
    module.add_function(wrap_pyfunction!(async_calls::_ask_fun, module)?)?;
    module.add_function(wrap_pyfunction!(calls::_call, module)?)?;
    module.add_function(wrap_pyfunction!(calls::_cast, module)?)?;
    module.add_function(wrap_pyfunction!(messages::_send, module)?)?;
    module.add_function(wrap_pyfunction!(origin::_caller_in, module)?)?;
    module.add_function(wrap_pyfunction!(origin::_caller_trace, module)?)?;
    module.add_function(wrap_pyfunction!(origin::_begin_traces, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::_protect, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::_resume, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::_on_interrupt, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::_unraisable_hook, module)?)?;
    module.add_function(wrap_pyfunction!(priorities::set_microtask_limit, module)?)?;
    module.add_function(wrap_pyfunction!(priorities::call_soon_prioritized, module)?)?;
    module.add_function(wrap_pyfunction!(blocking::set_blocking_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(fd_callbacks::watch_fd, module)?)?;
    module.add_function(wrap_pyfunction!(fd_callbacks::rearm_fd, module)?)?;
    module.add_function(wrap_pyfunction!(fd_callbacks::pause_fd, module)?)?;
    python_output::register(module)?;
    crate::convert::register(module)
}

/// Makes both names importable in this interpreter. There is no file behind them: outside a node
/// the import fails, which is how `erlang_loop` notices.
pub fn install(py: Python<'_>) -> PyResult<()> {
    let module = pyo3::wrap_pymodule!(native)(py);
    let modules = py.import("sys")?.getattr("modules")?;
    modules.set_item("erlang_loop._native", &module)?;
    modules.set_item("py_event_loop", &module)
}

/// Puts the classes into the native module.
fn add_transports(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<Acceptor>()?;
    module.add_class::<Transport>()?;
    module.add_class::<StreamTransport>()?;
    module.add_class::<DatagramTransport>()?;
    module.add_class::<PipeTransport>()?;
    module.add_class::<ReadPipeTransport>()?;
    module.add_class::<WritePipeTransport>()?;
    crate::io::transports::methods::add(py)?;
    finalizer::install::<StreamTransport>(py)?;
    finalizer::install::<DatagramTransport>(py)?;
    finalizer::install::<ReadPipeTransport>(py)?;
    finalizer::install::<WritePipeTransport>(py)
}
