//! Socket addresses between the kernel and Python, for the families that a loop supports.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

/// A `sockaddr` of any family, with its length.
pub struct Address {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Address {
    /// Space for the kernel to write an address into.
    pub fn empty() -> Self {
        Address {
            // SAFETY: all zeroes is a valid `sockaddr_storage` (family AF_UNSPEC).
            storage: unsafe { MaybeUninit::zeroed().assume_init() },
            length: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    pub fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }

    pub fn length(&self) -> libc::socklen_t {
        self.length
    }

    pub fn length_mut(&mut self) -> &mut libc::socklen_t {
        &mut self.length
    }

    /// The host and port of an IPv4 address.
    pub fn as_v4(&self) -> Option<(Ipv4Addr, u16)> {
        if self.family() != libc::AF_INET {
            return None;
        }
        // SAFETY: the family says what the storage holds.
        let inet = unsafe { &*self.as_ptr().cast::<libc::sockaddr_in>() };
        let host = Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr));
        Some((host, u16::from_be(inet.sin_port)))
    }

    /// As Python's `socket` shows it: `(host, port)`, `(host, port, flowinfo, scope_id)`, or a
    /// path.
    pub fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some((host, port)) = self.as_v4() {
            return ipv4_to_python(py, host, port);
        }
        match self.family() {
            libc::AF_INET6 => {
                // SAFETY: the family says what the storage holds.
                let inet = unsafe { &*self.as_ptr().cast::<libc::sockaddr_in6>() };
                let host = Ipv6Addr::from(inet.sin6_addr.s6_addr);
                let port = u16::from_be(inet.sin6_port);
                let flow = u32::from_be(inet.sin6_flowinfo);
                let tuple = (
                    v6_text(&host, inet.sin6_scope_id),
                    port,
                    flow,
                    inet.sin6_scope_id,
                );
                Ok(tuple.into_pyobject(py)?.into_any())
            }
            libc::AF_UNIX => self.unix_path(py),
            _ => Ok(py.None().into_bound(py)),
        }
    }

    /// A file name is text, an abstract name bytes, no name is ''.
    fn unix_path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the family says what the storage holds.
        let unix = unsafe { &*self.as_ptr().cast::<libc::sockaddr_un>() };
        let used = (self.length as usize).saturating_sub(size_of::<libc::sa_family_t>());
        let name: Vec<u8> = unix
            .sun_path
            .iter()
            .take(used)
            .map(|&byte| byte as u8)
            .collect();
        if name.first() == Some(&0) {
            return Ok(PyBytes::new(py, &name).into_any());
        }
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        let decode = py.import("os")?.getattr("fsdecode")?;
        decode.call1((PyBytes::new(py, &name[..end]),))
    }

    /// An IPv4 address from `("1.2.3.4", port)`. `None`: something else, which Python's own socket
    /// understands (names, other families) or rejects.
    pub fn from_python_v4(address: &Bound<'_, PyAny>) -> Option<Self> {
        let tuple = address.cast::<PyTuple>().ok()?;
        if tuple.len() != 2 {
            return None;
        }
        let host = tuple.get_item(0).ok()?;
        let host: Ipv4Addr = host.cast::<PyString>().ok()?.to_str().ok()?.parse().ok()?;
        let port: u16 = tuple.get_item(1).ok()?.extract().ok()?;
        Some(Address::of_v4(host, port))
    }

    pub fn of(host: IpAddr, port: u16) -> Self {
        match host {
            IpAddr::V4(host) => Address::of_v4(host, port),
            IpAddr::V6(host) => Address::of_v6(host, port),
        }
    }

    fn of_v4(host: Ipv4Addr, port: u16) -> Self {
        let mut made = Address::empty();
        // SAFETY: the storage is large enough and aligned for any address.
        let inet = unsafe { &mut *made.as_mut_ptr().cast::<libc::sockaddr_in>() };
        inet.sin_family = libc::AF_INET as libc::sa_family_t;
        inet.sin_port = port.to_be();
        inet.sin_addr.s_addr = u32::from(host).to_be();
        made.length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        made
    }

    fn of_v6(host: Ipv6Addr, port: u16) -> Self {
        let mut made = Address::empty();
        // SAFETY: as in `of_v4`.
        let inet = unsafe { &mut *made.as_mut_ptr().cast::<libc::sockaddr_in6>() };
        inet.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        inet.sin6_port = port.to_be();
        inet.sin6_addr.s6_addr = host.octets();
        made.length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        made
    }

    pub fn family(&self) -> libc::c_int {
        i32::from(self.storage.ss_family)
    }
}

/// `(host, port)`.
pub fn ipv4_to_python(py: Python<'_>, host: Ipv4Addr, port: u16) -> PyResult<Bound<'_, PyAny>> {
    let tuple = (host.to_string(), port);
    Ok(tuple.into_pyobject(py)?.into_any())
}

/// A link-local address is shown with its interface, as `getnameinfo` does.
fn v6_text(host: &Ipv6Addr, scope: u32) -> String {
    if scope == 0 {
        return host.to_string();
    }
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call requires; the result is checked.
    let found = unsafe { libc::if_indextoname(scope, name.as_mut_ptr()) };
    if found.is_null() {
        return format!("{host}%{scope}");
    }
    // SAFETY: a name that was found is terminated by a zero within the buffer.
    let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) };
    format!("{host}%{}", name.to_string_lossy())
}

/// The family of an address that needs no lookup, else 0.
#[pyfunction]
pub fn ip_family(host: &str) -> libc::c_int {
    match host.parse() {
        Ok(IpAddr::V4(_)) => libc::AF_INET,
        Ok(IpAddr::V6(_)) => libc::AF_INET6,
        Err(_) => 0,
    }
}
