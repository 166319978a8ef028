//! Frames of RFC 6455, from a client: bytes in, messages out. No input or output of its own.
//!
//! No crate of the field has a core without streams and with permessage-deflate, so it is written
//! here; tests compare it with the packages websockets and wsproto.

use super::deflate::{Inflated, Inflater};

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// The client's close frame. 1005: it has no code.
    Close(u16, String),
    /// The client broke the rules: the code to close with, and why. Nothing follows.
    Failed(u16, &'static str),
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

const PROTOCOL_ERROR: u16 = 1002;
const INVALID_DATA: u16 = 1007;
const TOO_BIG: u16 = 1009;
const NO_CODE: u16 = 1005;

struct Failure(u16, &'static str);

fn broken(why: &'static str) -> Failure {
    Failure(PROTOCOL_ERROR, why)
}

/// The message whose frames are arriving.
struct Message {
    is_text: bool,
    compressed: bool,
    data: Vec<u8>,
}

pub struct Decoder {
    input: Vec<u8>,
    message: Option<Message>,
    inflater: Option<Inflater>,
    /// Of a message; 0: no limit.
    max_size: usize,
    /// After a close frame or a failure nothing more is read.
    ended: bool,
}

/// A frame's header.
struct Header {
    fin: bool,
    compressed: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Of the header itself.
    size: usize,
    length: usize,
}

impl Decoder {
    pub fn new(max_size: usize, inflater: Option<Inflater>) -> Self {
        Decoder {
            input: Vec::new(),
            message: None,
            inflater,
            max_size,
            ended: false,
        }
    }

    pub fn receive(&mut self, data: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        if self.ended {
            return events;
        }
        self.input.extend_from_slice(data);
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        while !self.ended {
            match self.frame(&mut input[at..], &mut events) {
                Ok(0) => break,
                Ok(size) => at += size,
                Err(Failure(code, why)) => {
                    self.ended = true;
                    events.push(Event::Failed(code, why));
                }
            }
        }
        if !self.ended {
            match at == input.len() {
                // The memory of a large message is given back.
                true if input.capacity() > 64 * 1024 => {}
                true => {
                    input.clear();
                    self.input = input;
                }
                false => {
                    input.drain(..at);
                    self.input = input;
                }
            }
        }
        events
    }

    /// Takes one frame. Its size; 0 if it is not complete.
    fn frame(&mut self, input: &mut [u8], events: &mut Vec<Event>) -> Result<usize, Failure> {
        let Some(header) = self.header(input)? else {
            return Ok(0);
        };
        let end = header.size + header.length;
        let Some(payload) = input.get_mut(header.size..end) else {
            return Ok(0);
        };
        unmask(payload, header.mask);
        match header.opcode {
            CLOSE => {
                self.ended = true;
                let (code, reason) = close(payload)?;
                events.push(Event::Close(code, reason));
            }
            PING => events.push(Event::Ping(payload.to_vec())),
            PONG => events.push(Event::Pong(payload.to_vec())),
            _ => self.data(&header, payload, events)?,
        }
        Ok(end)
    }

    fn header(&self, input: &[u8]) -> Result<Option<Header>, Failure> {
        let &[first, second, ..] = input else {
            return Ok(None);
        };
        let opcode = first & 0x0f;
        let fin = first & 0x80 != 0;
        let compressed = first & 0x40 != 0;
        if first & 0x30 != 0 || (compressed && self.inflater.is_none()) {
            return Err(broken("reserved bits are set"));
        }
        match opcode {
            CONTINUATION if self.message.is_none() => return Err(broken("nothing to continue")),
            CONTINUATION | CLOSE | PING | PONG if compressed => {
                return Err(broken("reserved bits are set"));
            }
            TEXT | BINARY if self.message.is_some() => {
                return Err(broken("the last message is incomplete"));
            }
            CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG => {}
            _ => return Err(broken("unknown opcode")),
        }
        if second & 0x80 == 0 {
            return Err(broken("the frame is not masked"));
        }
        let short = usize::from(second & 0x7f);
        if opcode >= CLOSE && (!fin || short > 125) {
            return Err(broken("a control frame is long or in fragments"));
        }
        let more = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let size = 2 + more + 4;
        let (Some(extended), Some(mask)) = (input.get(2..2 + more), input.get(2 + more..size))
        else {
            return Ok(None);
        };
        let length = match more {
            0 => short as u64,
            _ => extended
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        let before = self
            .message
            .as_ref()
            .map_or(0, |message| message.data.len());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > isize::MAX as usize || self.is_too_big(before.saturating_add(length)) {
            return Err(Failure(TOO_BIG, "the message is too large"));
        }
        let mask = [mask[0], mask[1], mask[2], mask[3]];
        Ok(Some(Header {
            fin,
            compressed,
            opcode,
            mask,
            size,
            length,
        }))
    }

    fn is_too_big(&self, size: usize) -> bool {
        self.max_size > 0 && size > self.max_size
    }

    fn data(
        &mut self,
        header: &Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let message = match self.message.take() {
            Some(mut message) => {
                message.data.extend_from_slice(payload);
                message
            }
            None => Message {
                is_text: header.opcode == TEXT,
                compressed: header.compressed,
                data: payload.to_vec(),
            },
        };
        if !header.fin {
            self.message = Some(message);
            return Ok(());
        }
        let data = match (message.compressed, &mut self.inflater) {
            (true, Some(inflater)) => match inflater.inflate(&message.data, self.max_size) {
                Inflated::Data(data) => data,
                Inflated::TooLarge => return Err(Failure(TOO_BIG, "the message is too large")),
                Inflated::Invalid => return Err(broken("invalid compressed data")),
            },
            _ => message.data,
        };
        events.push(match message.is_text {
            false => Event::Binary(data),
            true => match String::from_utf8(data) {
                Ok(text) => Event::Text(text),
                Err(_) => return Err(Failure(INVALID_DATA, "invalid UTF-8")),
            },
        });
        Ok(())
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let mut words = payload.chunks_exact_mut(8);
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        word.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
    }
    let rest = words.into_remainder().iter_mut();
    for (byte, mask) in rest.zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

fn close(payload: &[u8]) -> Result<(u16, String), Failure> {
    let (code, reason) = match payload {
        [] => return Ok((NO_CODE, String::new())),
        [_] => return Err(broken("half a close code")),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
    };
    if !is_valid(code) {
        return Err(broken("invalid close code"));
    }
    match std::str::from_utf8(reason) {
        Ok(reason) => Ok((code, reason.to_owned())),
        Err(_) => Err(Failure(INVALID_DATA, "invalid UTF-8")),
    }
}

/// Codes that a close frame may have.
pub fn is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// A frame of a server, which is not masked.
pub fn encode(opcode: u8, compressed: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 10);
    frame.push(0x80 | u8::from(compressed) << 6 | opcode);
    match payload.len() {
        size @ 0..=125 => frame.push(size as u8),
        size @ 126..=0xffff => {
            frame.push(126);
            frame.extend_from_slice(&(size as u16).to_be_bytes());
        }
        size => {
            frame.push(127);
            frame.extend_from_slice(&(size as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

pub fn data_opcode(is_text: bool) -> u8 {
    match is_text {
        true => TEXT,
        false => BINARY,
    }
}
