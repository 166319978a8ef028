//! What CPython does with objects and their memory, and PyO3 leaves out.
//!
//! | module | contents |
//! |---|---|
//! | [`slots`] | slots of types, the code of functions, attributes |
//! | [`buffers`], [`shared_bytes`], [`arrays`] | memory of Python's objects, and of Erlang's binaries |
//! | [`shared_buffer`] | memory that other processes can map |
//! | [`socket_object`] | the fd of a socket object |
//! | [`finalizer`] | `__del__` |
//! | [`collector`], [`release`] | pausing the garbage collector; dropping objects without the GIL |

pub mod arrays;
pub mod buffers;
pub mod collector;
pub mod finalizer;
pub mod release;
pub mod shared_buffer;
pub mod shared_bytes;
pub mod slots;
pub mod socket_object;
