//! The native module: `erlang_loop._native` for the package, `py_event_loop` for programs.
//! `python/erlang_loop/_native.pyi` is its contract.

use pyo3::prelude::*;

use super::between;
use super::blocking;
use super::fd_callbacks;
use super::handle::Handle;
#[cfg(not(Py_GIL_DISABLED))]
use super::handle_pool;
use super::loop_class::Loop;
use super::loop_methods;
use super::loop_signals;
use super::loop_traverse;
use super::output;
use super::sleep;
use super::sock_operation::SockOperation;
use super::timer_handle::TimerHandle;
use super::tls;
use super::transports;
use super::weak_set;
use super::{erlang_calls, erlang_mailbox, erlang_messages};

#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Handle>()?;
    module.add_class::<TimerHandle>()?;
    module.add_class::<SockOperation>()?;
    module.add_class::<Loop>()?;
    #[cfg(not(Py_GIL_DISABLED))]
    {
        handle_pool::install::<Handle>(module.py());
        handle_pool::install::<TimerHandle>(module.py());
    }
    loop_traverse::install(module.py());
    loop_methods::add(&module.py().get_type::<Loop>())?;
    module.add_function(wrap_pyfunction!(loop_methods::own_methods, module)?)?;
    weak_set::register(module)?;
    transports::add_classes(module)?;
    tls::add_classes(module)?;
    module.add_function(wrap_pyfunction!(sleep::_erlang_sleep, module)?)?;
    module.add_function(wrap_pyfunction!(transports::ip_family, module)?)?;
    module.add_function(wrap_pyfunction!(transports::connect, module)?)?;
    module.add_function(wrap_pyfunction!(loop_signals::signal_watch, module)?)?;
    module.add_function(wrap_pyfunction!(loop_signals::runs_command, module)?)?;
    module.add_class::<erlang_calls::PyQuestion>()?;
    module.add_class::<erlang_mailbox::PyMailbox>()?;
    module.add_function(wrap_pyfunction!(erlang_calls::_ask, module)?)?;
    module.add_function(wrap_pyfunction!(erlang_calls::_ask_fun, module)?)?;
    module.add_function(wrap_pyfunction!(erlang_calls::_call, module)?)?;
    module.add_function(wrap_pyfunction!(erlang_calls::_cast, module)?)?;
    module.add_function(wrap_pyfunction!(erlang_messages::_send, module)?)?;
    module.add_function(wrap_pyfunction!(between::set_microtask_limit, module)?)?;
    module.add_function(wrap_pyfunction!(between::call_soon_prioritized, module)?)?;
    module.add_function(wrap_pyfunction!(blocking::set_blocking_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(fd_callbacks::watch_fd, module)?)?;
    module.add_function(wrap_pyfunction!(fd_callbacks::rearm_fd, module)?)?;
    module.add_function(wrap_pyfunction!(fd_callbacks::pause_fd, module)?)?;
    output::register(module)?;
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
