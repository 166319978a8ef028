//! Takes a profile: a thread of its own reads the stacks of loops and call threads at intervals,
//! without the GIL (`cpython::sampling`), and sends what it has found. `py_inspect:profile/2`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use event_loop::now_ns;
use rustc_hash::FxHashMap;
use rustler::{Encoder, LocalPid};

use super::call_threads;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::cpython::sampling::{Frame, Sampler};
use crate::loops::{profiled, registry};

/// What is looked at.
pub struct Threads {
    /// `None`: all loops.
    pub loops: Option<Vec<u64>>,
    pub calls: bool,
}

pub struct Times {
    pub duration: Duration,
    pub interval: Duration,
}

/// More are not kept, and end the profile.
const MAX_SAMPLES: usize = 500_000;

/// Where samples were taken: the loop, 0 for a call thread; its task or function; the numbers of the
/// frames, outermost first.
type Stack = (u64, Option<Arc<str>>, Vec<u32>);

#[derive(Default)]
struct Profile {
    frames: Vec<Frame>,
    frame_numbers: FxHashMap<Frame, u32>,
    stacks: Vec<Stack>,
    stack_numbers: FxHashMap<Stack, u32>,
    /// When (us from the beginning), and which stack.
    samples: Vec<(u64, u32)>,
    /// How often loops were found at rest, and how often no stack could be read.
    idle: u64,
    missed: u64,
}

/// Sends `to` `{py_profile, Token, {ok, Profile} | {error, unsupported}}`. Ends early if that process
/// does.
pub fn start(to: LocalPid, token: i64, threads: Threads, times: Times) -> std::io::Result<()> {
    thread::Builder::new()
        .name("python-profile".to_owned())
        .spawn(move || match Sampler::new() {
            Some(sampler) => {
                if let Some(profile) = taken(sampler, &to, &threads, &times) {
                    let result = (atoms::ok(), profile);
                    message::send(Sender::Thread, &to, (atoms::py_profile(), token, result));
                }
            }
            None => {
                let result = (atoms::error(), atoms::unsupported());
                message::send(Sender::Thread, &to, (atoms::py_profile(), token, result));
            }
        })
        .map(drop)
}

fn taken(
    mut sampler: Sampler,
    to: &LocalPid,
    threads: &Threads,
    times: &Times,
) -> Option<impl Encoder + use<>> {
    let _names = profiled::Wanted::begin();
    let mut profile = Profile::default();
    let interval = times.interval.as_nanos() as u64;
    let began = now_ns();
    let end = began + times.duration.as_nanos() as u64;
    let mut next = began;
    let mut ticks = 0;
    let mut now = began;
    while now < end && profile.samples.len() < MAX_SAMPLES {
        if ticks % 64 == 0 && !message::is_alive(to) {
            return None;
        }
        profile.look(&mut sampler, threads, (now - began) / 1000);
        ticks += 1;
        let took = now_ns() - now;
        // Not in step with what the program does at intervals of its own; and what is late is not made
        // up for.
        let step = interval - interval / 8 + now % (interval / 4).max(1);
        next = (next + step).max(now);
        // At most half of a processor, however many threads there are.
        let pause = next.saturating_sub(now + took).max(took);
        thread::sleep(Duration::from_nanos(pause));
        now = now_ns();
    }
    let lasted = (now - began) / 1000;
    let frames: Vec<_> = (profile.frames.iter())
        .map(|one| (one.function.to_string(), one.file.to_string(), one.line))
        .collect();
    let stacks: Vec<_> = (profile.stacks.into_iter())
        .map(|(id, name, frames)| (id, name.map(|name| name.to_string()), frames))
        .collect();
    let counts = (lasted, ticks as u64, profile.idle, profile.missed);
    Some((frames, stacks, profile.samples, counts))
}

impl Profile {
    fn look(&mut self, sampler: &mut Sampler, threads: &Threads, time: u64) {
        let loops = match &threads.loops {
            None => registry::all(),
            Some(ids) => ids.iter().filter_map(|id| registry::get(*id)).collect(),
        };
        for native in loops {
            match native.pulse.is_awake() {
                false => self.idle += 1,
                true => {
                    let task = native.pulse.task.get();
                    let stack = sampler.stack(native.pulse.python_thread());
                    self.add(time, native.id, task, stack);
                }
            }
        }
        if threads.calls {
            for (request, thread) in call_threads::profiled() {
                let stack = sampler.stack(thread);
                self.add(time, 0, Some(Arc::from(&*request.name)), stack);
            }
        }
    }

    fn add(&mut self, time: u64, id: u64, task: Option<Arc<str>>, stack: Option<Vec<Frame>>) {
        let Some(stack) = stack else {
            self.missed += 1;
            return;
        };
        let frames = (stack.into_iter().rev())
            .map(|frame| number(&mut self.frames, &mut self.frame_numbers, frame))
            .collect();
        let stack = number(
            &mut self.stacks,
            &mut self.stack_numbers,
            (id, task, frames),
        );
        self.samples.push((time, stack));
    }
}

/// Its place in the list, to which it is added if it is new.
fn number<T: Clone + Eq + std::hash::Hash>(
    all: &mut Vec<T>,
    numbers: &mut FxHashMap<T, u32>,
    one: T,
) -> u32 {
    if let Some(number) = numbers.get(&one) {
        return *number;
    }
    let number = all.len() as u32;
    all.push(one.clone());
    numbers.insert(one, number);
    number
}
