//! Callbacks that wait for their turn or their time.
//!
//! | module | contents |
//! |---|---|
//! | [`handle`], [`timer_handle`] | asyncio's `Handle` and `TimerHandle` |
//! | `thread_safe_handle` | a handle with a lock, from Python 3.14 on |
//! | [`io_object`] | what `io` puts into the tables and queues of a loop |
//! | [`ready`] | the ready queue: callbacks and ready fds |
//! | [`chains`] | freeing handles that hold each other |

pub mod chains;
pub mod handle;
pub mod io_object;
pub mod ready;
#[cfg(Py_3_14)]
pub mod thread_safe_handle;
pub mod timer_handle;
