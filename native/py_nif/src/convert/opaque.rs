//! Terms that Python holds and passes back but cannot inspect: pids, references, ports, funs.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use rustler::{Encoder, Env, LocalPid, Term};

use crate::beam::own_env::OwnEnv;
use crate::beam::terms::KeptTerm;

/// Defines one Python class. Instances are equal if the terms are (`=:=`), and convert back to the
/// same term.
macro_rules! opaque {
    ($name:ident, $what:literal, $prefix:literal, { $($methods:tt)* }) => {
        #[doc = $what]
        #[pyclass(frozen, module = "erlang")]
        pub struct $name(KeptTerm);

        impl $name {
            pub fn keep(term: Term<'_>) -> Self {
                $name(KeptTerm::new(term))
            }

            #[inline]
            pub fn in_env<'a>(&self, env: Env<'a>) -> Term<'a> {
                self.0.in_env(env)
            }
        }

        #[pymethods]
        impl $name {
            fn __eq__(&self, other: &Self) -> bool {
                self.0 == other.0
            }

            fn __hash__(&self) -> u64 {
                self.0.with(|term| term.hash_internal(0))
            }

            /// As Erlang prints it: `Pid<0.85.0>`, `Ref<0.1.2.3>`.
            fn __repr__(&self) -> String {
                let text = self.0.with(|term| format!("{term:?}"));
                let name = stringify!($name);
                match text.strip_prefix("fun ") {
                    Some(external) => format!("{name}<{external}>"),
                    None => format!("{name}{}", text.strip_prefix($prefix).unwrap_or(&text)),
                }
            }

            fn __copy__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (memo, /))]
            fn __deepcopy__(slf: Py<Self>, memo: &Bound<'_, PyAny>) -> Py<Self> {
                let _ = memo;
                slf
            }

            $($methods)*
        }
    };
}

/// Calls an Erlang fun. `erlang_module` sets it.
pub type CallFun =
    for<'py> fn(&Bound<'py, Fun>, &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>>;
pub static CALL_FUN: OnceLock<CallFun> = OnceLock::new();

opaque!(Pid, "An Erlang process, of this node or another.", "", {});
impl Pid {
    /// From any thread.
    pub fn of(pid: &LocalPid) -> Self {
        OwnEnv::new().with(|env| Pid::keep(pid.encode(env)))
    }
}

opaque!(Ref, "An Erlang reference.", "#Ref", {});
opaque!(Port, "An Erlang port.", "#Port", {});
opaque!(
    Fun,
    "An Erlang fun. Calling it runs it in Erlang, as `erlang.call` does.",
    "#Fun",
    {
        #[pyo3(signature = (*args))]
        fn __call__<'py>(
            slf: &Bound<'py, Self>,
            args: &Bound<'py, PyTuple>,
        ) -> PyResult<Bound<'py, PyAny>> {
            match CALL_FUN.get() {
                Some(call) => call(slf, args),
                None => Err(PyRuntimeError::new_err("Erlang cannot be called yet")),
            }
        }

        /// The same for coroutines: `await fun.async_call(...)`.
        #[pyo3(signature = (*args))]
        fn async_call<'py>(
            slf: &Bound<'py, Self>,
            args: &Bound<'py, PyTuple>,
        ) -> PyResult<Bound<'py, PyAny>> {
            static ASYNC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            ASYNC
                .import(slf.py(), "erlang.calls", "_async_apply")?
                .call1((slf, args))
        }
    }
);
