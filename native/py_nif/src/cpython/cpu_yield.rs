//! Yields the CPU while a thread spins: if another thread takes it, spinning only keeps that thread
//! off the CPU, and it may be the one that the spin waits for.

use event_loop::now_ns;
use event_loop::sys::time::switches;

/// If a yield takes longer than this, another thread ran, or the machine itself paused, as virtual
/// machines do.
const LONG_NS: u64 = 5_000;

/// Enough for a scheduler of the VM to process a reply and to make the next call.
const SHORT_NS: u64 = 50_000;

/// The yields of one spin.
#[derive(Default)]
pub struct CpuYield {
    /// How often the kernel has switched this thread. None before the first yield: reading it takes
    /// as long as a spin that ends at once.
    switches: Option<i64>,
}

/// Another thread had the CPU, for this many nanoseconds.
pub struct Away(u64);

impl CpuYield {
    /// Yields; returns at once, with `None`, unless another thread wants this CPU.
    pub fn yield_now(&mut self) -> Option<Away> {
        let switched = *self.switches.get_or_insert_with(switches);
        let before = now_ns();
        std::thread::yield_now();
        let away = now_ns().saturating_sub(before);
        (away > LONG_NS && switches() != switched).then_some(Away(away))
    }
}

impl Away {
    /// If what the spin waits for arrived meanwhile, that thread sent it: the two share a CPU until
    /// the kernel moves one of them, and passing it back and forth takes less time than sleeping
    /// and being woken.
    pub fn is_short(&self) -> bool {
        self.0 < SHORT_NS
    }
}
