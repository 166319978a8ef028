//! Replaces a function that one shared library imports from another, for that library only.
//!
//! A library calls imported functions through a table of addresses, which the dynamic linker fills.
//! [`redirect`] writes another address into the table of one library; every other library, ours
//! included, still calls the original. (Defining a function of the same name here would not work:
//! the linker looks in the VM and in libc first.)
//!
//! It is used for two functions: one ends threads, the other ends the process. With three runtimes
//! in one process, code does not survive their usual behavior: `finalizing` and `process_end` give
//! the reasons.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An entry of a library's dynamic section (`Elf64_Dyn`).
#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// Where the linker writes the address of which symbol (`Elf64_Rela`).
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;

struct Wanted<'a> {
    /// An address in the library.
    inside: u64,
    name: &'a CStr,
    function: *mut c_void,
    is_redirected: bool,
}

/// Makes the library that contains the address `inside` call `function` instead of the function
/// `name` that it imports. Returns `false` if the library does not import such a function, or not
/// in a way known here.
///
/// # Safety
/// `function` must do what the library may expect of `name`, with the same arguments, and stay
/// loaded as long as the library is.
pub unsafe fn redirect(inside: *const c_void, name: &CStr, function: *const c_void) -> bool {
    let mut wanted = Wanted {
        inside: inside as u64,
        name,
        function: function.cast_mut(),
        is_redirected: false,
    };
    // SAFETY: `look_at` is called before this returns, with `wanted` as it expects it.
    unsafe { libc::dl_iterate_phdr(Some(look_at), ptr::from_mut(&mut wanted).cast()) };
    wanted.is_redirected
}

/// Called for each library. Returning 1 ends the search.
unsafe extern "C" fn look_at(
    library: *mut libc::dl_phdr_info,
    _size: usize,
    wanted: *mut c_void,
) -> c_int {
    // SAFETY: both are valid for this call; the linker keeps the library's headers mapped.
    unsafe {
        let (library, wanted) = (&*library, &mut *wanted.cast::<Wanted<'_>>());
        let headers = std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into());
        let contains = |header: &libc::Elf64_Phdr, address: u64| {
            let start = library.dlpi_addr + header.p_vaddr;
            (start..start + header.p_memsz).contains(&address)
        };
        let is_it = headers
            .iter()
            .any(|header| header.p_type == libc::PT_LOAD && contains(header, wanted.inside));
        if !is_it {
            return 0;
        }
        let dynamic = headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC);
        let Some(dynamic) = dynamic else { return 1 };
        let tables = Tables::read(library.dlpi_addr, dynamic.p_vaddr);
        let read_only = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_RELRO);
        for slot in tables.slots(wanted.name) {
            let is_read_only = read_only.is_some_and(|part| contains(part, slot as u64));
            wanted.is_redirected |= write(slot, wanted.function, is_read_only);
        }
        1
    }
}

/// The parts of a library that say what it imports.
struct Tables {
    base: u64,
    names: *const c_char,
    symbols: *const libc::Elf64_Sym,
    /// Address and size in bytes: one table of functions, one of everything else.
    relocations: [(u64, u64); 2],
}

impl Tables {
    /// # Safety
    /// The addresses are those of a loaded library and its dynamic section.
    unsafe fn read(base: u64, section: u64) -> Self {
        let mut values = [0; 24];
        let mut entry = (base + section) as *const Dynamic;
        // SAFETY: the section ends with DT_NULL.
        unsafe {
            while (*entry).tag != DT_NULL {
                if let Some(value) = values.get_mut((*entry).tag as usize) {
                    *value = (*entry).value;
                }
                entry = entry.add(1);
            }
        }
        // glibc has replaced the offsets of the file by addresses; other linkers leave them.
        let address = |tag: u64| match values[tag as usize] {
            offset if offset < base => base + offset,
            address => address,
        };
        Tables {
            base,
            names: address(DT_STRTAB) as *const c_char,
            symbols: address(DT_SYMTAB) as *const libc::Elf64_Sym,
            relocations: [
                (address(DT_JMPREL), values[DT_PLTRELSZ as usize]),
                (address(DT_RELA), values[DT_RELASZ as usize]),
            ],
        }
    }

    /// Where the library keeps the address of the symbol `name`.
    ///
    /// # Safety
    /// The library is still loaded.
    unsafe fn slots(&self, name: &CStr) -> Vec<*mut *mut c_void> {
        let mut slots = Vec::new();
        for (table, bytes) in self.relocations {
            let count = bytes as usize / size_of::<Relocation>();
            for index in 0..count {
                // SAFETY: within the table; a symbol's index and its name's offset are valid, or
                // the linker had not loaded the library.
                unsafe {
                    let relocation = &*(table as *const Relocation).add(index);
                    let symbol = (relocation.info >> 32) as usize;
                    let text = (*self.symbols.add(symbol)).st_name as usize;
                    // Symbol 0 means none: such entries concern the library's own addresses.
                    if symbol != 0 && CStr::from_ptr(self.names.add(text)) == name {
                        slots.push((self.base + relocation.offset) as *mut *mut c_void);
                    }
                }
            }
        }
        slots
    }
}

/// # Safety
/// `slot` is where a loaded library keeps an address.
unsafe fn write(slot: *mut *mut c_void, function: *mut c_void, is_read_only: bool) -> bool {
    // SAFETY: the page is the library's own, and keeps the protection it had; other threads read
    // the old address or the new one.
    unsafe {
        let size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let page = (slot as usize & !(size - 1)) as *mut c_void;
        if is_read_only && libc::mprotect(page, size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        (*slot.cast::<AtomicPtr<c_void>>()).store(function, Ordering::Release);
        if is_read_only {
            // It was read-only a moment ago; if this fails, the page stays writable.
            libc::mprotect(page, size, libc::PROT_READ);
        }
    }
    true
}
