//! What has arrived on a connection, in the order head, body, next head.

use super::head::{self, Framing, Head, Refusal};
use super::preface::{self, Preface};

/// A chunk's first line, with its extensions, or a trailer.
const LONGEST_LINE: usize = 4096;
const MOST_TRAILERS: u32 = 64;

#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// What is before it was taken.
    start: usize,
    /// How far behind `start` the end of the head was searched.
    scanned: usize,
    body: Body,
}

/// What is left of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Body {
    #[default]
    Ended,
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers(u32),
}

/// The next piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Data(&'a [u8]),
    End,
    /// More has to arrive.
    Missing,
}

impl Input {
    pub fn push(&mut self, bytes: &[u8]) {
        self.drop_taken();
        self.bytes.extend_from_slice(bytes);
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub fn clear(&mut self) {
        *self = Input::default();
    }

    /// All that is left, for another protocol.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.drop_taken();
        std::mem::take(&mut self.bytes)
    }

    fn drop_taken(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > 64 * 1024 {
                // One large upload does not keep its memory for as long as the connection lives.
                self.bytes = Vec::new();
            }
        } else if self.start > 0 {
            self.bytes.drain(..self.start);
        }
        self.start = 0;
    }

    /// What a proxy says before the first head; None: it is incomplete.
    pub fn take_preface(&mut self) -> Result<Option<Preface>, Refusal> {
        let taken = preface::parse(&self.bytes[self.start..])?;
        self.start += taken.as_ref().map_or(0, |preface| preface.length);
        Ok(taken)
    }

    /// Passes the next head to `take`, once it is complete. `most`: the size of the largest.
    pub fn take_head<R>(
        &mut self,
        most: usize,
        take: impl FnOnce(Head<'_>) -> R,
    ) -> Result<Option<R>, Refusal> {
        // Some clients send an empty line behind a body.
        while self.scanned == 0 && self.bytes[self.start..].starts_with(b"\r\n") {
            self.start += 2;
        }
        let bytes = &self.bytes[self.start..];
        let end = head::find_end(bytes, &mut self.scanned)?;
        if end.unwrap_or(bytes.len()) > most {
            return Err(Refusal(431, "the head is too large"));
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let mut framing = Framing::Length(0);
        let taken = head::parse(&bytes[..end], |head| {
            framing = head.framing;
            take(head)
        })?;
        self.start += end;
        self.body = match framing {
            Framing::Length(0) => Body::Ended,
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::ChunkSize,
        };
        Ok(Some(taken))
    }

    /// The number of bytes that can go straight to the application, without a copy in between.
    pub fn passes(&self, length: usize) -> bool {
        self.len() == 0 && matches!(self.body, Body::Length(left) if left >= length as u64)
    }

    /// `length` bytes of the body have gone straight to the application. True: these were the last.
    pub fn passed(&mut self, length: usize) -> bool {
        if let Body::Length(left) = self.body {
            self.body = after(left, length as u64);
        }
        self.body == Body::Ended
    }

    /// Takes the next piece of the body.
    pub fn take_piece(&mut self) -> Result<Piece<'_>, Refusal> {
        loop {
            let waiting = self.bytes.len() - self.start;
            match self.body {
                Body::Ended => return Ok(Piece::End),
                Body::Length(left) | Body::Chunk(left) => {
                    let count = waiting.min(usize::try_from(left).unwrap_or(usize::MAX));
                    if count == 0 {
                        return Ok(Piece::Missing);
                    }
                    self.body = match self.body {
                        Body::Chunk(left) if left == count as u64 => Body::ChunkEnd,
                        Body::Chunk(left) => Body::Chunk(left - count as u64),
                        _ => after(left, count as u64),
                    };
                    self.start += count;
                    return Ok(Piece::Data(&self.bytes[self.start - count..self.start]));
                }
                Body::ChunkEnd => {
                    let line = &self.bytes[self.start..];
                    if !b"\r\n".starts_with(&line[..line.len().min(2)]) {
                        return Err(Refusal(400, "a chunk is longer than its size"));
                    }
                    if line.len() < 2 {
                        return Ok(Piece::Missing);
                    }
                    self.start += 2;
                    self.body = Body::ChunkSize;
                }
                Body::ChunkSize => match self.take_line()? {
                    None => return Ok(Piece::Missing),
                    Some(line) => {
                        self.body = match chunk_size(line)? {
                            0 => Body::Trailers(0),
                            size => Body::Chunk(size),
                        };
                    }
                },
                Body::Trailers(count) => match self.take_line()? {
                    None => return Ok(Piece::Missing),
                    Some([]) => self.body = Body::Ended,
                    Some(_) if count >= MOST_TRAILERS => {
                        return Err(Refusal(431, "too many trailers"));
                    }
                    Some(line) => {
                        check_trailer(line)?;
                        self.body = Body::Trailers(count + 1);
                    }
                },
            }
        }
    }

    /// A line without its CRLF.
    fn take_line(&mut self) -> Result<Option<&[u8]>, Refusal> {
        let bytes = &self.bytes[self.start..];
        let end = memchr::memchr(b'\n', bytes);
        if end.unwrap_or(bytes.len()) > LONGEST_LINE {
            return Err(Refusal(400, "a line of a chunked body is too long"));
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let line = match bytes[..end].strip_suffix(b"\r") {
            Some(line) if !line.contains(&b'\r') => line,
            _ => return Err(Refusal(400, "invalid line end in a chunked body")),
        };
        self.start += end + 1;
        Ok(Some(line))
    }
}

fn after(left: u64, count: u64) -> Body {
    match left - count {
        0 => Body::Ended,
        left => Body::Length(left),
    }
}

/// Hexadecimal digits; what follows a semicolon is ignored, if it is text. RFC 9112 (7.1.1) allows
/// space before the semicolon, but h11 and others refuse it: two readers could disagree.
fn chunk_size(line: &[u8]) -> Result<u64, Refusal> {
    const INVALID: Refusal = Refusal(400, "invalid chunk size");
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit());
    let (digits, rest) = line.split_at(end.unwrap_or(line.len()));
    let is_text = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    if !(rest.is_empty() || rest.starts_with(b";") && rest.iter().all(is_text)) {
        return Err(INVALID);
    }
    if digits.is_empty() || digits.len() > 16 {
        return Err(INVALID);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| INVALID)?;
    u64::from_str_radix(digits, 16).map_err(|_| INVALID)
}

/// Trailers are dropped, as ASGI has no place for them, but they have to be headers.
fn check_trailer(line: &[u8]) -> Result<(), Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; 1];
    let mut text = line.to_vec();
    text.extend_from_slice(b"\r\n\r\n");
    match httparse::parse_headers(&text, &mut headers) {
        Ok(httparse::Status::Complete((_, [trailer]))) if !frames(trailer.name) => Ok(()),
        _ => Err(Refusal(400, "invalid trailer")),
    }
}

/// Headers that have a meaning only before the body.
fn frames(name: &str) -> bool {
    let known = ["content-length", "transfer-encoding", "host"];
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
}
