//! permessage-deflate (RFC 7692): each message is compressed by itself or with the ones before it.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// What the extension leaves out at the end of a message.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// Output is made in pieces of this size.
const PIECE: usize = 16 * 1024;
/// Of a client: it may use less.
const WINDOW: u8 = 15;

pub enum Inflated {
    Data(Vec<u8>),
    TooLarge,
    Invalid,
}

pub struct Inflater {
    /// Created when it is first needed: many connections never send anything.
    stream: Option<Decompress>,
    forgets: bool,
}

impl Inflater {
    /// `forgets`: messages do not refer to the ones before.
    pub fn new(forgets: bool) -> Self {
        Inflater {
            stream: None,
            forgets,
        }
    }

    /// At most `max_size` bytes; 0: any number.
    pub fn inflate(&mut self, data: &[u8], max_size: usize) -> Inflated {
        let stream = self
            .stream
            .get_or_insert_with(|| Decompress::new_with_window_bits(false, WINDOW));
        let mut out = Vec::with_capacity(data.len().saturating_mul(3).clamp(128, PIECE));
        for mut part in [data, &TAIL] {
            loop {
                if out.len() == out.capacity() {
                    out.reserve(PIECE);
                }
                let before = stream.total_in();
                let made = stream.total_out();
                let done = stream.decompress_vec(part, &mut out, FlushDecompress::Sync);
                let Ok(status) = done else {
                    return Inflated::Invalid;
                };
                if max_size > 0 && out.len() > max_size {
                    return Inflated::TooLarge;
                }
                part = &part[(stream.total_in() - before) as usize..];
                let has_room = out.len() < out.capacity();
                match status {
                    // A final block: the next one begins a new stream.
                    Status::StreamEnd => {
                        stream.reset(false);
                        if part.is_empty() {
                            break;
                        }
                    }
                    _ if part.is_empty() && has_room => break,
                    // Neither input nor output has moved.
                    _ if has_room && stream.total_in() == before && stream.total_out() == made => {
                        return Inflated::Invalid;
                    }
                    _ => {}
                }
            }
        }
        if self.forgets {
            self.stream = None;
        }
        Inflated::Data(out)
    }
}

pub struct Deflater {
    stream: Option<Compress>,
    forgets: bool,
    window: u8,
}

impl Deflater {
    pub fn new(forgets: bool, window: u8) -> Self {
        Deflater {
            stream: None,
            forgets,
            window,
        }
    }

    /// `None`: it failed, and the message is sent as it is.
    pub fn deflate(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let window = self.window;
        let stream = self.stream.get_or_insert_with(|| {
            Compress::new_with_window_bits(Compression::default(), false, window)
        });
        let mut out = Vec::with_capacity((data.len() / 2).clamp(64, PIECE));
        let mut rest = data;
        loop {
            if out.capacity() - out.len() < 16 {
                out.reserve(PIECE);
            }
            let before = stream.total_in();
            stream
                .compress_vec(rest, &mut out, FlushCompress::Sync)
                .ok()?;
            rest = &rest[(stream.total_in() - before) as usize..];
            // Room that is left means that everything has been flushed.
            if rest.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        if out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        } else if out.is_empty() {
            // There was nothing to flush. An empty block, whose length is in TAIL.
            out.push(0);
        }
        if self.forgets {
            self.stream = None;
        }
        Some(out)
    }
}
