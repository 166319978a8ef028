//! Starts the embedded CPython: once in the life of the node, on a thread of its own that then
//! becomes Python's main thread. Called by [`super::main_thread`] only.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{finalizing, process_end, stacks};
use crate::cpython::sampling::stack;

/// The settings of the application that concern Python.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The interpreter whose `sys.prefix` and packages are used: a venv's, or the one that the
    /// library was built with. It also becomes `sys.executable`, for subprocesses.
    pub executable: CString,
    /// Inserted at the front of `sys.path`.
    pub paths: Vec<String>,
    /// In seconds. `None`: Python's default.
    pub switch_interval: Option<f64>,
    /// Makes the native module importable.
    pub install: fn(Python<'_>) -> PyResult<()>,
    /// Whether our loop becomes asyncio's default loop.
    pub default_event_loop: bool,
    /// Whether a crash writes the stacks of Python's threads to stderr.
    pub faulthandler: bool,
}

/// Starts Python on the calling thread and leaves the thread detached (without the GIL).
pub fn start(settings: &Settings) -> Result<(), String> {
    make_libpython_global();
    finalizing::park_instead_of_ending_threads();
    process_end::install();
    initialize(&settings.executable, None).map_err(|status| message(&status))?;
    // SAFETY: `initialize` left this thread attached; from here on, everything on this thread
    // attaches through PyO3.
    unsafe { ffi::PyEval_SaveThread() };
    finalizing::attach(|py| {
        prepare(py, settings)?;
        stacks::prepare_here(py);
        // In an Erlang node, what Python prints and logs goes to Erlang. A command line keeps its
        // own streams.
        let defaults = py.import("erlang_loop_default")?;
        if settings.faulthandler {
            defaults.call_method0("show_crashes")?;
        }
        defaults.call_method0("redirect_output").map(drop)
    })
    .map_err(|error: PyErr| error.to_string())
}

/// As [`start`], for `python arguments...`: options and signals are Python's. Leaves the thread
/// attached. `--help`, a bad option and a broken installation end the process, as in python.
pub fn start_command(settings: &Settings, arguments: &[CString]) {
    make_libpython_global();
    finalizing::park_instead_of_ending_threads();
    process_end::install();
    if let Err(status) = initialize(&settings.executable, Some(arguments)) {
        // SAFETY: `initialize` says that the status is an error or an exit; this prints it and
        // exits.
        unsafe { ffi::Py_ExitStatusException(status) }
    }
    // SAFETY: `initialize` left this thread attached.
    let py = unsafe { Python::assume_attached() };
    if let Err(error) = prepare(py, settings) {
        error.print(py);
        // SAFETY: on the main thread, as `main` would return.
        unsafe { libc::exit(1) }
    }
}

/// Extension modules of the standard library and of packages resolve `Py...` symbols against the
/// global scope, but the VM loads NIF libraries (and so libpython) with local scope.
fn make_libpython_global() {
    // SAFETY: libpython is loaded (we are linked to it); this only widens its visibility.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(ffi::Py_IsInitialized as *const c_void, &mut info) != 0 {
            libc::dlopen(
                info.dli_fname,
                libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_GLOBAL,
            );
        }
    }
}

/// With `command` Python takes its options from there and installs its usual signal handlers.
fn initialize(executable: &CStr, command: Option<&[CString]>) -> Result<(), ffi::PyStatus> {
    // SAFETY: the documented order: init, set, initialize, clear. `config` lives on this frame
    // and is cleared on every way out; strings are copied by Python.
    unsafe {
        let mut config = std::mem::MaybeUninit::<ffi::PyConfig>::zeroed().assume_init();
        ffi::PyConfig_InitPythonConfig(&mut config);
        let at: *mut ffi::PyConfig = &mut config;
        let mut status = match command {
            None => {
                // The VM handles signals and the command line.
                (*at).install_signal_handlers = 0;
                (*at).parse_argv = 0;
                ffi::PyStatus_Ok()
            }
            // Before any other string: the options it reads say how strings are decoded.
            Some(words) => {
                let mut words: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
                let count = words.len() as ffi::Py_ssize_t;
                ffi::PyConfig_SetBytesArgv(at, count, words.as_mut_ptr())
            }
        };
        if ffi::PyStatus_Exception(status) == 0 {
            let name = &mut (*at).program_name;
            status = ffi::PyConfig_SetBytesString(at, name, executable.as_ptr());
        }
        if ffi::PyStatus_Exception(status) == 0 {
            let name = &mut (*at).executable;
            status = ffi::PyConfig_SetBytesString(at, name, executable.as_ptr());
        }
        if ffi::PyStatus_Exception(status) == 0 {
            status = ffi::Py_InitializeFromConfig(at);
        }
        let failed = ffi::PyStatus_Exception(status) != 0;
        ffi::PyConfig_Clear(at);
        match failed {
            true => Err(status),
            false => Ok(()),
        }
    }
}

fn message(status: &ffi::PyStatus) -> String {
    match status.err_msg.is_null() {
        true => "Python did not start".to_owned(),
        // SAFETY: Python's messages are literals.
        false => unsafe {
            CStr::from_ptr(status.err_msg)
                .to_string_lossy()
                .into_owned()
        },
    }
}

/// Sets up what every program in the node relies on: our modules, the configured paths, the
/// defaults of a node.
fn prepare(py: Python<'_>, settings: &Settings) -> PyResult<()> {
    stack::prepare(py);
    let sys = py.import("sys")?;
    let path = sys.getattr("path")?.cast_into::<PyList>()?;
    for (index, entry) in settings.paths.iter().enumerate() {
        path.insert(index, entry)?;
    }
    if let Some(seconds) = settings.switch_interval {
        sys.call_method1("setswitchinterval", (seconds,))?;
    }
    (settings.install)(py)?;
    let defaults = py.import("erlang_loop_default")?;
    defaults.call_method0("prepare")?;
    if settings.default_event_loop {
        defaults.call_method0("install")?;
    }
    Ok(())
}
