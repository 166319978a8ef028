//! A thread, `python-recorder`, that reads the stack of a loop while a turn takes long, for the
//! flight recorder: so a stall that is over can be explained. It waits for no GIL and stops no
//! thread (`cpython::sampling`). While all loops rest it sleeps, and the first one that begins a turn
//! wakes it, as it wakes `py_watchdog`.

use std::sync::{Arc, Once, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use event_loop::{Watcher, now_ns};
use rustc_hash::FxHashMap;

use super::recorder::SlowTurn;
use super::{NativeLoop, registry};
use crate::beam::forked;
use crate::cpython::sampling::Sampler;

/// A turn of that length is slow; its stack is read again when it has lasted twice as long.
const SLOW_NS: u64 = 20_000_000;
/// How often all loops are looked at; less often while they rest, and then not at all.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(80);
const LATEST: Duration = Duration::from_millis(250);
const QUIET: Duration = Duration::from_secs(1);

static WATCHER: Watcher = Watcher::new();
static THREAD: OnceLock<Thread> = OnceLock::new();

/// A loop's thread begins to run it.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let started = thread::Builder::new()
            .name("python-recorder".to_owned())
            .spawn(run);
        if let Ok(handle) = started {
            let _ = THREAD.set(handle.thread().clone());
        }
    });
}

/// A loop has recorded that it is in a turn. After the fence of another watcher, which serves for
/// this one, too.
#[inline]
pub(super) fn loop_awake() {
    if WATCHER.sleeps_after_fence() {
        wake();
    }
}

#[cold]
fn wake() {
    if !forked::is_copy()
        && WATCHER.claim_wake()
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

fn any_awake() -> bool {
    registry::all().iter().any(|native| native.pulse.is_awake())
}

fn run() {
    let Some(mut sampler) = Sampler::new() else {
        return;
    };
    let mut seen = FxHashMap::default();
    let (mut pause, mut quiet_since) = (SHORTEST, Instant::now());
    loop {
        let began = Instant::now();
        if look(&mut sampler, &mut seen) {
            (pause, quiet_since) = (SHORTEST, began);
        } else {
            pause = (2 * pause).min(LONGEST);
        }
        if began.duration_since(quiet_since) > QUIET && WATCHER.may_sleep(any_awake) {
            while WATCHER.sleeps() {
                thread::park();
            }
            (pause, quiet_since) = (SHORTEST, Instant::now());
        }
        // At most a twentieth of a processor, however many loops there are. What it took may be long
        // because other programs ran.
        thread::sleep(pause.max((20 * began.elapsed()).min(LATEST)));
    }
}

/// Whether a loop is in a turn. `seen`: for each loop in a slow turn, that turn, and when it is due
/// again.
fn look(sampler: &mut Sampler, seen: &mut FxHashMap<u64, (u64, u64)>) -> bool {
    let now = now_ns();
    let mut is_awake = false;
    let mut slow = FxHashMap::default();
    for native in registry::all() {
        let Some((turn, lasted)) = native.pulse.awake_for(now) else {
            continue;
        };
        is_awake = true;
        if lasted < SLOW_NS {
            continue;
        }
        let due = match seen.get(&native.id) {
            Some((last, due)) if *last == turn => *due,
            _ => SLOW_NS,
        };
        let next = match lasted >= due {
            true => {
                read(sampler, &native, turn, now - lasted, lasted);
                2 * lasted
            }
            false => due,
        };
        slow.insert(native.id, (turn, next));
    }
    *seen = slow;
    is_awake
}

fn read(sampler: &mut Sampler, native: &Arc<NativeLoop>, turn: u64, began: u64, lasted: u64) {
    let stack = sampler.stack(native.pulse.python_thread());
    // It may have returned from that turn meanwhile, and then the stack is that of another one.
    let still = (native.pulse.awake_for(now_ns())).is_some_and(|(running, _)| running == turn);
    if let (Some(stack), true) = (stack, still) {
        native.recorder.add_slow(SlowTurn {
            turn,
            began,
            lasted,
            stack,
        });
    }
}
