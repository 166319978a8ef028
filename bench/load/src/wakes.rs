//! What this machine needs for the first request after a pause: two threads that sleep; one sends a
//! request, the other replies. No program whose request goes to another thread can be faster,
//! because each of the two has to be woken once.

use crate::Failure;
use crate::latency::Latency;
use crate::options::Options;
use crate::report::Meter;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// As long as bench/erlang/round_trips.escript waits.
const PAUSE: Duration = Duration::from_millis(50);

pub fn run(options: &Options) -> Result<String, Failure> {
    let (request, requests) = mpsc::channel::<u64>();
    let (reply, replies) = mpsc::channel::<u64>();
    let replying = thread::spawn(move || {
        for number in requests {
            if reply.send(number + 1).is_err() {
                break;
            }
        }
    });
    let meter = Meter::start(None)?;
    let mut latency = Latency::new();
    let mut count = 0;
    while count == 0 || meter.elapsed() < options.span {
        thread::sleep(PAUSE);
        let began = Instant::now();
        let received = request.send(count).ok().and_then(|()| replies.recv().ok());
        if received != Some(count + 1) {
            return Err(format!("{received:?} is not the reply to {count}"));
        }
        latency.add(began.elapsed());
        count += 1;
    }
    drop(request);
    replying
        .join()
        .map_err(|_| "the replying thread panicked")?;
    meter.finish(count, &latency, 1.0)
}
