//! CPython's C API made safe: the interpreter and its threads, callbacks in their contexts,
//! arguments, and state that the GIL guards. It uses `beam` and knows neither loops nor requests.
//!
//! | module | contents |
//! |---|---|
//! | [`process`] | Python in this process: start, main thread, end, forked copies |
//! | [`cells`] | fields of Python objects that Rust changes |
//! | [`context`], [`context_variable`] | calling a callback in its `contextvars` context; variables |
//! | [`arguments`], [`fast_method`], [`method_calls`] | calls in both directions without tuples and bound methods |
//! | [`errors`], [`interrupt`] | exceptions; raising one in another thread's call |
//! | [`sampling`] | the stack of a thread that runs, without the GIL |
//! | [`objects`] | objects and their memory, as far as PyO3 leaves them out |
//! | [`spin_wait`], [`cpu_yield`] | spinning before sleeping |

pub mod arguments;
pub mod cells;
pub mod context;
pub mod context_variable;
pub mod cpu_yield;
pub mod errors;
pub mod fast_method;
pub mod interrupt;
pub mod method_calls;
pub mod objects;
pub mod process;
pub mod sampling;
pub mod spin_wait;
