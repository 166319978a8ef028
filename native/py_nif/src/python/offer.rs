//! The CPU, offered to others by a thread that spins: if somebody takes it, spinning only keeps
//! that one away, perhaps the very one it waits for.

use event_loop::now_ns;
use event_loop::sys::time::switches;

/// A yield that takes longer than this was one to somebody, or the machine itself paused: a virtual
/// one does.
const LONG_NS: u64 = 5_000;

/// Enough for a scheduler of the VM to understand an answer and to ask the next question.
const SHORT_NS: u64 = 50_000;

/// Of one spin.
#[derive(Default)]
pub struct Offer {
    /// Before the first one: to ask takes as long as a spin that ends at once.
    switches: Option<i64>,
}

/// Somebody had the CPU, for so many nanoseconds.
pub struct Taken(u64);

impl Offer {
    /// Returns at once unless somebody else wants this CPU.
    pub fn taken(&mut self) -> Option<Taken> {
        let switched = *self.switches.get_or_insert_with(switches);
        let before = now_ns();
        std::thread::yield_now();
        let away = now_ns().saturating_sub(before);
        (away > LONG_NS && switches() != switched).then_some(Taken(away))
    }
}

impl Taken {
    /// If what the spin waits for came meanwhile, it came from there: the two share a CPU, until
    /// the kernel moves one, and handing it to and fro takes less than to sleep and be woken.
    pub fn is_short(&self) -> bool {
        self.0 < SHORT_NS
    }
}
