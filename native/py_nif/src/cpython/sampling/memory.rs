//! Reads memory of this process that other threads change, or that may be gone: the kernel copies
//! it, and returns an error where there is none.
#![allow(unsafe_code)]

use std::mem::size_of_val;

use libc::{c_void, iovec};

pub struct Memory {
    process: libc::pid_t,
}

impl Memory {
    pub fn own() -> Self {
        Memory {
            process: std::process::id().cast_signed(),
        }
    }

    /// Fills `into` from this address. `false`: not all of it exists.
    pub fn read(&self, address: usize, into: &mut [usize]) -> bool {
        let length = size_of_val(into);
        let mut local = [part(into.as_mut_ptr() as usize, length)];
        self.copied(&mut local, &[part(address, length)], length)
    }

    /// As [`read`](Self::read), first the one and then the other.
    pub fn read_both(&self, one: (usize, &mut [usize]), other: (usize, &mut [usize])) -> bool {
        let lengths = (size_of_val(one.1), size_of_val(other.1));
        let mut local = [
            part(one.1.as_mut_ptr() as usize, lengths.0),
            part(other.1.as_mut_ptr() as usize, lengths.1),
        ];
        let remote = [part(one.0, lengths.0), part(other.0, lengths.1)];
        self.copied(&mut local, &remote, lengths.0 + lengths.1)
    }

    pub fn words(&self, address: usize, count: usize) -> Option<Vec<usize>> {
        let mut words = vec![0; count];
        self.read(address, &mut words).then_some(words)
    }

    pub fn bytes(&self, address: usize, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        let mut local = [part(bytes.as_mut_ptr() as usize, count)];
        (count == 0 || self.copied(&mut local, &[part(address, count)], count)).then_some(bytes)
    }

    fn copied(&self, local: &mut [iovec], remote: &[iovec], length: usize) -> bool {
        // SAFETY: the local parts are the callers' mutable slices, with their lengths. The remote
        // ones may be anything: the kernel checks them, as for another process.
        let copied = unsafe {
            libc::process_vm_readv(
                self.process,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        usize::try_from(copied) == Ok(length)
    }
}

fn part(address: usize, length: usize) -> iovec {
    iovec {
        iov_base: address as *mut c_void,
        iov_len: length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_does_not_exist_is_an_error() {
        let memory = Memory::own();
        let words = [1, 2, 3];
        let address = words.as_ptr() as usize;
        assert_eq!(memory.words(address, 3), Some(vec![1, 2, 3]));
        let (mut one, mut other) = ([0; 2], [0; 1]);
        assert!(memory.read_both((address, &mut one), (address + 16, &mut other)));
        assert_eq!((one, other), ([1, 2], [3]));
        for gone in [0, 8, 4096, usize::MAX - 7, 0xdead_beef_0000] {
            assert_eq!(memory.words(gone, 1), None);
            assert_eq!(memory.bytes(gone, 5), None);
            assert!(!memory.read_both((address, &mut one), (gone, &mut other)));
        }
    }
}
