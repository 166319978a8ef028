//! How the VM loads this library: the NIF table, resource types, and staying loaded.
//!
//! `rustler::init!` creates an entry without an upgrade callback, and with it `l(py_nif)` in a
//! running node would fail. So the entry is built here.
//!
//! The VM calls `load` when it loads the module for the first time and after `code:delete` and
//! `code:purge`, and `upgrade` when an older version of the module is still there. The library is
//! mapped once and keeps its state through all of them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::{Once, OnceLock};

use rustler::Atom;
use rustler::codegen_runtime::{ErlNifEntry, inventory};
use rustler::sys::{ErlNifEnv, ErlNifTerm};

use super::beam::forked;
use super::beam::resource;
use crate::beam::resource::Resource;
use crate::{atoms, convert, loops, mailboxes, output, questions, requests};

struct Entry(ErlNifEntry);
// SAFETY: written once, then only read by the VM; its pointers refer to leaked or static memory.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// The symbol that the VM looks up in every NIF library.
///
/// Called at every load of the module: all loads share one entry.
#[unsafe(no_mangle)]
extern "C" fn nif_init() -> *const ErlNifEntry {
    static ENTRY: OnceLock<Entry> = OnceLock::new();
    let entry = ENTRY.get_or_init(|| {
        // SAFETY: fills rustler's table of VM functions (macOS; elsewhere they are linked).
        unsafe { rustler::codegen_runtime::internal_write_symbols() };
        let table: Vec<_> = inventory::iter::<rustler::Nif>()
            .map(rustler::Nif::get_def)
            .collect();
        let mut entry = ErlNifEntry::new(c"py_nif", table.leak(), load);
        entry.upgrade = Some(upgrade);
        Entry(entry)
    });
    &entry.0
}

/// # Safety
/// Called by the VM.
unsafe extern "C" fn load(
    env: *mut ErlNifEnv,
    _private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        pin_library();
        forked::notice();
    });
    open_types(env)
}

/// # Safety
/// Called by the VM.
unsafe extern "C" fn upgrade(
    env: *mut ErlNifEnv,
    _private: *mut *mut c_void,
    _old_private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    open_types(env)
}

/// The last step of a load, called by `py_nif`: the first moment at which the VM creates objects of
/// new types.
#[rustler::nif]
fn types_opened() -> Atom {
    TYPES.iter().for_each(|each| (each.keep)());
    atoms::ok()
}

/// A resource type, for both steps of a load.
struct Type {
    open: fn(*mut ErlNifEnv) -> bool,
    keep: fn(),
}

const fn resource_type<T: Resource>() -> Type {
    Type {
        open: resource::open::<T>,
        keep: resource::keep::<T>,
    }
}

static TYPES: [Type; 18] = [
    resource_type::<loops::LoopRef>(),
    resource_type::<loops::PollSet>(),
    resource_type::<loops::FdRef>(),
    resource_type::<loops::TimerRef>(),
    resource_type::<loops::signals::SignalRequest>(),
    resource_type::<loops::sleeps::Sleeper>(),
    resource_type::<output::device::Device>(),
    resource_type::<requests::request::Request>(),
    resource_type::<requests::ledger::Ledger>(),
    resource_type::<requests::memory_link::MemoryListener>(),
    resource_type::<requests::memory_link::MemoryLink>(),
    resource_type::<requests::memory_link::Share>(),
    resource_type::<super::beam::sealed_memory::Mapped>(),
    resource_type::<questions::QuestionRef>(),
    resource_type::<mailboxes::MailboxRef>(),
    resource_type::<mailboxes::Channel>(),
    resource_type::<convert::PythonObject>(),
    resource_type::<super::cpython::objects::shared_bytes::SharedBytes>(),
];

fn open_types(env: *mut ErlNifEnv) -> c_int {
    let opened = TYPES.iter().all(|each| (each.open)(env));
    c_int::from(!opened)
}

/// Our threads run code of this library, and libpython cannot be loaded twice: `code:purge` must
/// not unmap it.
fn pin_library() {
    // SAFETY: `dladdr` and `dlopen` with the library's own path and NOLOAD only change its
    // flags.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(pin_library as *const c_void, &mut info) != 0 {
            libc::dlopen(
                info.dli_fname,
                libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            );
        }
    }
}
