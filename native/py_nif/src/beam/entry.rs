//! How the VM loads this library: the NIF table, resource types, and staying loaded.
//!
//! `rustler::init!` makes an entry without an upgrade callback, and with it `l(py_nif)` in a
//! running node would fail; so the entry is put together here.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use rustler::codegen_runtime::{inventory, ErlNifEntry};
use rustler::sys::{ErlNifEnv, ErlNifTerm};

use super::{forked, resource};
use crate::{convert, loops, mailboxes, output, questions, tasks};

struct Entry(ErlNifEntry);
// SAFETY: written once, then only read by the VM; its pointers are to leaked or static memory.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// The symbol the VM looks up in every NIF library.
///
/// Also reached a second time when the module is loaded anew: the same entry serves.
#[no_mangle]
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
    pin_library();
    forked::notice();
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

fn open_types(env: *mut ErlNifEnv) -> c_int {
    let opened = resource::open::<loops::LoopRef>(env)
        && resource::open::<loops::PollSet>(env)
        && resource::open::<loops::FdRef>(env)
        && resource::open::<loops::TimerRef>(env)
        && resource::open::<loops::signals::Request>(env)
        && resource::open::<loops::sleeps::Sleeper>(env)
        && resource::open::<loops::WatchdogTimer>(env)
        && resource::open::<output::device::Device>(env)
        && resource::open::<tasks::Task>(env)
        && resource::open::<questions::QuestionRef>(env)
        && resource::open::<mailboxes::MailboxRef>(env)
        && resource::open::<convert::PythonObject>(env)
        && resource::open::<convert::SharedBytes>(env);
    c_int::from(!opened)
}

/// Threads of ours run in this library, and libpython cannot be loaded twice: `code:purge` must
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
