//! Socket addresses between the kernel and Python, for the families that a loop supports. Addresses
//! that a loop sends or connects to itself are the standard library's.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use rustix::net::{AddressFamily, SocketAddrAny};

/// An address that the kernel reported.
pub enum Address {
    Internet(SocketAddr),
    /// Empty for a socket without a name.
    Unix(Vec<u8>),
    /// Of another family, or there is none.
    Unknown,
}

impl From<Option<SocketAddrAny>> for Address {
    fn from(reported: Option<SocketAddrAny>) -> Self {
        match reported {
            Some(unix) if unix.address_family() == AddressFamily::UNIX => {
                Address::Unix(unix_name(&unix))
            }
            Some(other) => SocketAddr::try_from(other).map_or(Address::Unknown, Address::Internet),
            None => Address::Unknown,
        }
    }
}

impl Address {
    /// The host and port of an IPv4 address.
    pub fn as_v4(&self) -> Option<(Ipv4Addr, u16)> {
        match self {
            Address::Internet(SocketAddr::V4(address)) => Some((*address.ip(), address.port())),
            _ => None,
        }
    }

    /// As Python's `socket` shows it: `(host, port)`, `(host, port, flowinfo, scope_id)`, or a
    /// path.
    pub fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Address::Internet(SocketAddr::V4(address)) => {
                ipv4_to_python(py, *address.ip(), address.port())
            }
            Address::Internet(SocketAddr::V6(address)) => ipv6_to_python(py, address),
            Address::Unix(name) => unix_name_to_python(py, name),
            Address::Unknown => Ok(py.None().into_bound(py)),
        }
    }
}

/// What follows the family. rustix has this only for names that end with a zero, which those of
/// the longest paths do not.
fn unix_name(address: &SocketAddrAny) -> Vec<u8> {
    let length = address.addr_len() as usize;
    // SAFETY: an address is initialized up to its length.
    let bytes = unsafe { std::slice::from_raw_parts(address.as_ptr().cast::<u8>(), length) };
    bytes[size_of::<libc::sa_family_t>()..].to_vec()
}

/// A file name is text, an abstract name bytes, no name is ''.
fn unix_name_to_python<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    if name.first() == Some(&0) {
        return Ok(PyBytes::new(py, name).into_any());
    }
    let path = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let decode = py.import("os")?.getattr("fsdecode")?;
    decode.call1((PyBytes::new(py, path),))
}

/// An IPv4 address from `("1.2.3.4", port)`. `None`: something else, which Python's own socket
/// understands (names, other families) or rejects.
pub fn from_python_v4(address: &Bound<'_, PyAny>) -> Option<SocketAddr> {
    let tuple = address.cast::<PyTuple>().ok()?;
    if tuple.len() != 2 {
        return None;
    }
    let host = tuple.get_item(0).ok()?;
    let host: Ipv4Addr = host.cast::<PyString>().ok()?.to_str().ok()?.parse().ok()?;
    let port: u16 = tuple.get_item(1).ok()?.extract().ok()?;
    Some(SocketAddr::new(host.into(), port))
}

/// `(host, port)`.
pub fn ipv4_to_python(py: Python<'_>, host: Ipv4Addr, port: u16) -> PyResult<Bound<'_, PyAny>> {
    let tuple = (host.to_string(), port);
    Ok(tuple.into_pyobject(py)?.into_any())
}

/// `(host, port, flowinfo, scope_id)`.
fn ipv6_to_python<'py>(py: Python<'py>, address: &SocketAddrV6) -> PyResult<Bound<'py, PyAny>> {
    let scope = address.scope_id();
    let host = v6_text(address.ip(), scope);
    let tuple = (host, address.port(), address.flowinfo(), scope);
    Ok(tuple.into_pyobject(py)?.into_any())
}

/// A link-local address is shown with its interface, as `getnameinfo` does.
fn v6_text(host: &Ipv6Addr, scope: u32) -> String {
    if scope == 0 {
        return host.to_string();
    }
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call requires; a name that was found is terminated
    // by a zero within it.
    let name = unsafe {
        match libc::if_indextoname(scope, name.as_mut_ptr()).is_null() {
            true => return format!("{host}%{scope}"),
            false => std::ffi::CStr::from_ptr(name.as_ptr()),
        }
    };
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
