//! The Python objects of the addresses that datagrams come from: the same peers send repeatedly,
//! and most get a reply. So the object is created for the first datagram of a peer, and converted
//! back without parsing.

use std::net::{Ipv4Addr, SocketAddr};

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use crate::cpython::cells::gil_cell::GilCell;
use crate::io::sys::address::{Address, ipv4_to_python};

/// How many are cached at most: the last one for each slot.
const PLACES: usize = 64;

struct Peer {
    host: Ipv4Addr,
    port: u16,
    /// `(host, port)`. Immutable.
    object: Py<PyAny>,
}

/// By port. Empty before the first datagram.
#[derive(Default)]
pub struct Peers(GilCell<Vec<Option<Peer>>>);

impl Peers {
    /// The address as Python's `socket` shows it.
    pub fn object<'py>(&self, py: Python<'py>, from: &Address) -> PyResult<Bound<'py, PyAny>> {
        let Some((host, port)) = from.as_v4() else {
            return from.to_python(py);
        };
        let known = self.0.with(py, |peers| {
            let peer = peers.get(place(port))?.as_ref()?;
            (peer.host == host && peer.port == port).then(|| peer.object.clone_ref(py))
        });
        if let Some(known) = known {
            return Ok(known.into_bound(py));
        }
        let object = ipv4_to_python(py, host, port)?;
        let peer = Peer {
            host,
            port,
            object: object.clone().unbind(),
        };
        let before = self.0.with(py, |peers| {
            if peers.is_empty() {
                peers.resize_with(PLACES, || None);
            }
            peers[place(port)].replace(peer)
        });
        drop(before);
        Ok(object)
    }

    /// The address of `object`, if it is one of these.
    pub fn address(&self, object: &Bound<'_, PyAny>) -> Option<SocketAddr> {
        let py = object.py();
        let tuple = object.cast_exact::<PyTuple>().ok()?;
        let port = tuple.get_borrowed_item(1).ok()?;
        let port: u16 = port.cast_exact::<PyInt>().ok()?.extract().ok()?;
        self.0.with(py, |peers| {
            let peer = peers.get(place(port))?.as_ref()?;
            let same = peer.object.is(object);
            same.then(|| SocketAddr::new(peer.host.into(), peer.port))
        })
    }
}

fn place(port: u16) -> usize {
    usize::from(port) % PLACES
}
