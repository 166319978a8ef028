//! Unfinished lines of each thread: lines are sent whole, so that those of several threads, or of
//! several callers on one thread, do not mix.

use std::cell::RefCell;

use super::device;
use super::device::Sent;
use crate::loops::Target;

/// Which of Python's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Error,
}

/// A line longer than this is sent before it ends.
const LONGEST: usize = 64 << 10;

struct Line {
    target: Target,
    stream: Stream,
    bytes: Vec<u8>,
}

struct Lines(Vec<Line>);

thread_local! {
    static LINES: RefCell<Lines> = const { RefCell::new(Lines(Vec::new())) };
}

/// Adds to a line. Returns what is to be sent now: everything up to the last newline.
pub fn add(target: &Target, stream: Stream, bytes: &[u8]) -> Option<String> {
    LINES.with_borrow_mut(|lines| {
        let place = lines.0.iter().position(|line| line.is_of(target, stream));
        let end = bytes.iter().rposition(|&byte| byte == b'\n');
        let mut line = match place {
            Some(place) => lines.0.swap_remove(place).bytes,
            None => Vec::new(),
        };
        let whole = match end {
            Some(end) => {
                line.extend_from_slice(&bytes[..=end]);
                let whole = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                line.extend_from_slice(&bytes[end + 1..]);
                Some(whole)
            }
            None => {
                line.extend_from_slice(bytes);
                (line.len() > LONGEST).then(|| take_text(&mut line))
            }
        };
        if !line.is_empty() {
            lines.0.push(Line {
                target: target.clone(),
                stream,
                bytes: line,
            });
        }
        whole
    })
}

/// Takes the unfinished line, without the first bytes of an incomplete character.
pub fn take(target: &Target, stream: Stream) -> Option<String> {
    LINES.with_borrow_mut(|lines| {
        let place = lines.0.iter().position(|line| line.is_of(target, stream))?;
        let text = take_text(&mut lines.0[place].bytes);
        if lines.0[place].bytes.is_empty() {
            lines.0.swap_remove(place);
        }
        Some(text)
    })
}

/// A request has ended: sends the unfinished lines of this thread for a target.
pub fn end(target: &Target) {
    let rest = LINES.with_borrow_mut(|lines| {
        if lines.0.is_empty() {
            return Vec::new();
        }
        let (ended, kept) = std::mem::take(&mut lines.0)
            .into_iter()
            .partition(|line| line.target == *target);
        lines.0 = kept;
        ended
    });
    rest.into_iter().for_each(Line::send);
}

impl Line {
    fn is_of(&self, target: &Target, stream: Stream) -> bool {
        self.stream == stream && self.target == *target
    }

    fn send(self) {
        let text = String::from_utf8_lossy(&self.bytes);
        if device::send_anyway(&self.target, &text) == Sent::No
            && let Some(user) = Target::user()
        {
            device::send_anyway(&user, &text);
        }
    }
}

fn take_text(bytes: &mut Vec<u8>) -> String {
    let kept = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.split_off(error.valid_up_to()),
        _ => Vec::new(),
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = kept;
    text
}

/// The thread ends.
impl Drop for Lines {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(Line::send);
    }
}
