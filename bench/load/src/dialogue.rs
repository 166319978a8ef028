//! The requests, and which replies are right. One for each connection; `steady` runs it.

use crate::Failure;
use crate::socket::{Socket, broken, ended};
use std::io::{Read, Write};

/// The bytes of a request, and whether a reply to it is right.
pub enum Dialogue {
    /// The same bytes come back.
    Echo { message: Vec<u8>, turn: u64 },
    /// A GET or a POST on a kept connection; the reply's body must be this.
    Http { request: Vec<u8>, body: Vec<u8> },
    /// The same message comes back, unmasked.
    Websocket { frame: Vec<u8>, reply: Vec<u8> },
}

impl Dialogue {
    /// `number` makes the messages of one connection differ from another's.
    pub fn echo(size: usize, number: usize) -> Result<Self, Failure> {
        if size < 16 {
            return Err("--size must be at least 16".into());
        }
        let mut message = noise(size, number);
        message[8..16].copy_from_slice(&(number as u64).to_le_bytes());
        Ok(Self::Echo { message, turn: 0 })
    }

    /// A GET if there is no body to `send`.
    pub fn http(path: &str, send: &str, body: &str) -> Self {
        let headers = "Host: bench\r\nAccept: */*\r\n";
        let request = match send.len() {
            0 => format!("GET {path} HTTP/1.1\r\n{headers}\r\n"),
            size => {
                format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {size}\r\n\r\n{send}")
            }
        };
        Self::Http {
            request: request.into_bytes(),
            body: body.as_bytes().to_vec(),
        }
    }

    /// A binary message. Its mask is fixed: the server has to undo it anyway.
    pub fn websocket(size: usize, number: usize) -> Result<Self, Failure> {
        let length = u16::try_from(size).map_err(|_| "--size must be below 65536")?;
        let payload = noise(size, number);
        let mut frame = websocket_head(length, 0x80);
        let mut reply = websocket_head(length, 0);
        let mask = [0x12, 0x34, 0x56, 0x78];
        frame.extend(mask);
        frame.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        reply.extend(payload);
        Ok(Self::Websocket { frame, reply })
    }

    /// The handshake, on a socket that still blocks.
    pub fn greet(&self, socket: &mut Socket, path: &str) -> Result<(), Failure> {
        if !matches!(self, Self::Websocket { .. }) {
            return Ok(());
        }
        let upgrade = format!(
            "GET {path} HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        socket
            .write_all(upgrade.as_bytes())
            .map_err(|error| broken(&error))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match socket.read(&mut byte).map_err(|error| broken(&error))? {
                0 => return Err(ended()),
                _ => head.push(byte[0]),
            }
        }
        if head.starts_with(b"HTTP/1.1 101 ") {
            return Ok(());
        }
        Err(format!("no websocket: {}", String::from_utf8_lossy(&head)))
    }

    /// Makes the next request differ from the last one, so that a stale reply is noticed.
    pub fn advance(&mut self) {
        if let Self::Echo { message, turn } = self {
            *turn += 1;
            message[..8].copy_from_slice(&turn.to_le_bytes());
        }
    }

    pub fn request(&self) -> &[u8] {
        match self {
            Self::Echo { message, .. } => message,
            Self::Http { request, .. } => request,
            Self::Websocket { frame, .. } => frame,
        }
    }

    /// Room that any reply fits in, and a byte more, to notice what is too much.
    pub fn room(&self) -> usize {
        match self {
            Self::Echo { message, .. } => message.len() + 1,
            Self::Http { body, .. } => body.len() + 4096,
            Self::Websocket { reply, .. } => reply.len() + 1,
        }
    }

    /// Whether `received` is the whole, right reply; `false` if more has to come.
    pub fn is_complete(&self, received: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Echo { message, .. } => same(received, message),
            Self::Http { body, .. } => http_answered(received, body),
            Self::Websocket { reply, .. } => same(received, reply),
        }
    }
}

fn same(received: &[u8], wanted: &[u8]) -> Result<bool, Failure> {
    if received.len() < wanted.len() {
        return Ok(false);
    }
    if received == wanted {
        return Ok(true);
    }
    Err("the reply is not what was sent".into())
}

/// Enough of HTTP/1.1 for servers that reply with Content-Length.
fn http_answered(received: &[u8], body: &[u8]) -> Result<bool, Failure> {
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(false);
    };
    let head = String::from_utf8_lossy(&received[..end]);
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("not a 200: {head}"));
    }
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok());
    if length != Some(body.len()) {
        return Err(format!("Content-Length is {length:?}, not {}", body.len()));
    }
    same(&received[end + 4..], body)
}

fn websocket_head(length: u16, masked: u8) -> Vec<u8> {
    let mut head = vec![0x82];
    match u8::try_from(length) {
        Ok(short) if short < 126 => head.push(masked | short),
        _ => {
            head.push(masked | 126);
            head.extend(length.to_be_bytes());
        }
    }
    head
}

/// Bytes without a pattern (xorshift), the same in every run.
fn noise(size: usize, number: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1);
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(size)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_right_only_when_whole_and_of_this_turn() {
        let mut echo = Dialogue::echo(32, 1).unwrap();
        let first = echo.request().to_vec();
        assert_eq!(echo.is_complete(&first[..31]), Ok(false));
        assert_eq!(echo.is_complete(&first), Ok(true));
        echo.advance();
        assert!(echo.is_complete(&first).is_err());
        let other = Dialogue::echo(32, 2).unwrap();
        assert!(other.is_complete(&first).is_err());
    }

    #[test]
    fn http_replies() {
        let http = Dialogue::http("/", "", "hi");
        let right = b"HTTP/1.1 200 OK\r\nserver: x\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(http.is_complete(right), Ok(true));
        assert_eq!(http.is_complete(&right[..right.len() - 1]), Ok(false));
        assert!(
            http.is_complete(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nho")
                .is_err()
        );
        assert!(
            http.is_complete(b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nhi")
                .is_err()
        );
        assert!(http.is_complete(b"HTTP/1.1 200 OK\r\n\r\nhi").is_err());
    }

    #[test]
    fn websocket_frames_are_masked_one_way() {
        for size in [5, 125, 126, 1024] {
            let Dialogue::Websocket { frame, reply } = Dialogue::websocket(size, 0).unwrap() else {
                unreachable!()
            };
            assert_eq!(frame.len(), reply.len() + 4);
            assert_ne!(frame[frame.len() - size..], reply[reply.len() - size..]);
        }
        assert!(Dialogue::websocket(70_000, 0).is_err());
    }
}
