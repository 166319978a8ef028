//! The CPU, offered to others by a thread that spins: if somebody takes it, spinning only keeps
//! that one away, perhaps the very one it waits for.

use event_loop::now_ns;
use event_loop::sys::time::switches;

/// A yield that takes longer than this was one to somebody, or the machine itself paused: a virtual
/// one does.
const LONG_NS: u64 = 5_000;

/// Of one spin.
#[derive(Default)]
pub struct Offer {
    /// Before the first one: to ask takes as long as a spin that ends at once.
    switches: Option<i64>,
}

impl Offer {
    /// Returns at once unless somebody else wants this CPU. `true`: somebody did.
    pub fn is_taken(&mut self) -> bool {
        let switched = *self.switches.get_or_insert_with(switches);
        let before = now_ns();
        std::thread::yield_now();
        now_ns().saturating_sub(before) > LONG_NS && switches() != switched
    }
}
