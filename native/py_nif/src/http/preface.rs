//! The PROXY protocol, versions 1 and 2: what a proxy that only passes bytes on says about its client,
//! before the first request of a connection.
//! <https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::head::Refusal;

const VERSION_1: &[u8] = b"PROXY ";
const VERSION_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1.
const LONGEST_LINE: usize = 107;
/// Version 2 may have fields of up to 64 KiB behind the addresses, which are ignored.
const LONGEST_FIELDS: usize = 4096;

pub struct Addresses {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

pub struct Preface {
    pub length: usize,
    /// None: the proxy speaks for itself, or does not know the addresses.
    pub addresses: Option<Addresses>,
}

/// None: more has to arrive.
pub fn parse(bytes: &[u8]) -> Result<Option<Preface>, Refusal> {
    let begins = |start: &[u8]| bytes.iter().zip(start).all(|(one, other)| one == other);
    if begins(VERSION_1) {
        version_1(bytes)
    } else if begins(VERSION_2) {
        version_2(bytes)
    } else {
        Err(Refusal(400, "the header of the PROXY protocol is missing"))
    }
}

fn version_1(bytes: &[u8]) -> Result<Option<Preface>, Refusal> {
    const INVALID: Refusal = Refusal(400, "invalid header of the PROXY protocol");
    let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(LONGEST_LINE)]) else {
        return match bytes.len() < LONGEST_LINE {
            true => Ok(None),
            false => Err(INVALID),
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(INVALID)?;
    let line = std::str::from_utf8(line).map_err(|_| INVALID)?;
    let words: Vec<&str> = line.split(' ').collect();
    let addresses = match words[..] {
        [_, "UNKNOWN", ..] => None,
        [
            _,
            family @ ("TCP4" | "TCP6"),
            client,
            server,
            client_port,
            server_port,
        ] => {
            let address = |ip: &str, port: &str| match ip.parse::<IpAddr>() {
                Ok(ip) if ip.is_ipv4() == (family == "TCP4") => {
                    Some(SocketAddr::new(ip, number(port)?))
                }
                _ => None,
            };
            Some(Addresses {
                client: address(client, client_port).ok_or(INVALID)?,
                server: address(server, server_port).ok_or(INVALID)?,
            })
        }
        _ => return Err(INVALID),
    };
    let length = end + 1;
    Ok(Some(Preface { length, addresses }))
}

/// Digits only: `parse` takes a sign, too.
fn number(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|_| digits)
}

fn version_2(bytes: &[u8]) -> Result<Option<Preface>, Refusal> {
    const INVALID: Refusal = Refusal(400, "invalid header of the PROXY protocol, version 2");
    let Some(&[command, family, high, low]) = bytes.get(VERSION_2.len()..VERSION_2.len() + 4)
    else {
        return Ok(None);
    };
    let size = usize::from(u16::from_be_bytes([high, low]));
    if size > LONGEST_FIELDS {
        return Err(INVALID);
    }
    let start = VERSION_2.len() + 4;
    let Some(fields) = bytes.get(start..start + size) else {
        return Ok(None);
    };
    let addresses = match (command, family) {
        // LOCAL: a health check of the proxy. Addresses are ignored.
        (0x20, _) => None,
        // An unknown family, or a Unix socket of the proxy.
        (0x21, 0x00 | 0x31) => None,
        (0x21, 0x11) => Some(ipv4(fields).ok_or(INVALID)?),
        (0x21, 0x21) => Some(ipv6(fields).ok_or(INVALID)?),
        _ => return Err(INVALID),
    };
    let length = start + size;
    Ok(Some(Preface { length, addresses }))
}

fn ipv4(fields: &[u8]) -> Option<Addresses> {
    let ip = |at| Some(Ipv4Addr::from(*fields.get(at..)?.first_chunk::<4>()?));
    Some(Addresses {
        client: SocketAddr::new(ip(0)?.into(), port(fields, 8)?),
        server: SocketAddr::new(ip(4)?.into(), port(fields, 10)?),
    })
}

fn ipv6(fields: &[u8]) -> Option<Addresses> {
    let ip = |at| Some(Ipv6Addr::from(*fields.get(at..)?.first_chunk::<16>()?));
    Some(Addresses {
        client: SocketAddr::new(ip(0)?.into(), port(fields, 32)?),
        server: SocketAddr::new(ip(16)?.into(), port(fields, 34)?),
    })
}

fn port(fields: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*fields.get(at..)?.first_chunk()?))
}
