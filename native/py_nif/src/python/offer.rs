//! The CPU, offered to others by a thread that spins: if somebody takes it, spinning only keeps
//! that one away, perhaps the very one it waits for.

use event_loop::now_ns;
use event_loop::sys::time::switches;

/// A yield that takes longer than this was one to somebody, or the machine itself paused: a virtual
/// one does.
const LONG_NS: u64 = 5_000;

pub struct Offer {
    /// Those before.
    switches: i64,
}

impl Offer {
    /// For a spin that begins.
    pub fn new() -> Self {
        Offer {
            switches: switches(),
        }
    }

    /// Returns at once unless somebody else wants this CPU. `true`: somebody did.
    pub fn is_taken(&self) -> bool {
        let before = now_ns();
        std::thread::yield_now();
        now_ns().saturating_sub(before) > LONG_NS && switches() != self.switches
    }
}
