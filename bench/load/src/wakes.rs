//! What this machine needs to answer the first request after a rest: two threads that sleep, one
//! asks, the other answers. No program whose request goes to another thread can be faster,
//! because each of the two has to be woken once.

use crate::Failure;
use crate::latency::Latency;
use crate::options::Options;
use crate::report::Meter;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// As long as bench/erlang/round_trips.escript rests.
const REST: Duration = Duration::from_millis(50);

pub fn run(options: &Options) -> Result<String, Failure> {
    let (ask, asked) = mpsc::channel::<u64>();
    let (answer, answered) = mpsc::channel::<u64>();
    let answering = thread::spawn(move || {
        for question in asked {
            if answer.send(question + 1).is_err() {
                break;
            }
        }
    });
    let meter = Meter::start(None)?;
    let mut latency = Latency::new();
    let mut count = 0;
    while count == 0 || meter.elapsed() < options.span {
        thread::sleep(REST);
        let began = Instant::now();
        let reply = ask.send(count).ok().and_then(|()| answered.recv().ok());
        if reply != Some(count + 1) {
            return Err(format!("{reply:?} is no answer to {count}"));
        }
        latency.add(began.elapsed());
        count += 1;
    }
    drop(ask);
    answering
        .join()
        .map_err(|_| "the answering thread panicked")?;
    meter.finish(count, &latency, 1.0)
}
