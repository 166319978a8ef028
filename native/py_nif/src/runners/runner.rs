//! The thread of a runner: it runs loops, one turn at a time of each loop that has
//! something to do.
//!
//! While it has one loop, it is that loop's thread: the loop waits by itself, in all the ways
//! of `wait_steps`. With several, it waits for all of them. A loop that has nothing to do rests: a
//! thread that wakes it calls the runner, its epoll set (if it watches anything) is in the runner's
//! set, and its next deadline in the runner's list. A long callback delays the other loops on the
//! same thread.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use event_loop::{Direction, Mode, now_ns};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::placement::Runner;
use super::served_loop::{ServedLoop, Turn};
use crate::asyncio::turn::wait_steps::WaitSteps;
use crate::beam::message::Sender;
use crate::loops::NativeLoop;

/// While loops have something to run, the runner polls the others no more often than this.
const LOOK_EVERY_NS: u64 = 50_000;

/// How often a loop is polled whose epoll set cannot be in the runner's: the program has nested
/// epoll sets of its own as deep as the kernel allows, or the kernel lacks memory for it.
const UNWATCHED_LOOK_NS: u64 = 10_000_000;

struct RunnerThread<'a> {
    runner: &'a Arc<Runner>,
    loops: FxHashMap<u64, ServedLoop>,
    /// Loops that have something to do, in the order in which that was noticed.
    runnable: VecDeque<u64>,
    /// The next deadline of each loop that rests and has one.
    due: BTreeSet<(u64, u64)>,
    /// The loop whose turn was the last: the thread state is still its own.
    entered: Option<u64>,
    wait_steps: Option<WaitSteps>,
    last_look: u64,
    /// The last loop has left.
    done: bool,
}

/// Runs until the last loop has left.
pub fn run(py: Python<'_>, runner: &Arc<Runner>) {
    let mut thread = RunnerThread {
        runner,
        loops: FxHashMap::default(),
        runnable: VecDeque::new(),
        due: BTreeSet::new(),
        entered: None,
        wait_steps: None,
        last_look: 0,
        done: false,
    };
    runner.busy.end_wait(now_ns());
    while !thread.done {
        thread.take_arrivals(py);
        match thread.loops.len() {
            1 => thread.run_alone(py),
            _ if thread.done => {}
            _ => thread.run_round(py),
        }
    }
    if let Some(waits) = &runner.waits {
        py.detach(|| waits.close(Sender::Thread));
    }
}

impl RunnerThread<'_> {
    fn take_arrivals(&mut self, py: Python<'_>) {
        for arrival in self.runner.arrivals.take() {
            // Init code runs without a running loop, as in a thread of its own.
            self.leave(py);
            let id = arrival.native.id;
            if let Some(assignment) = &arrival.native.assignment {
                assignment.runs_on(self.runner.clone());
            }
            self.runner.step();
            match ServedLoop::begin(py, arrival, &self.runner.busy) {
                Some(served_loop) => {
                    self.loops.insert(id, served_loop);
                    self.note_runnable(id);
                }
                None => self.done = self.runner.left(),
            }
        }
    }

    /// The only loop: its turns wait by themselves.
    fn run_alone(&mut self, py: Python<'_>) {
        let Some((&id, served_loop)) = self.loops.iter().next() else {
            return;
        };
        let native = served_loop.native.clone();
        self.runner.set_alone(Some(native.clone()));
        self.enter(py, id);
        self.end_rest(id);
        let mut turn = Turn::Again;
        while turn != Turn::Ended && self.runner.arrivals.is_empty() {
            let Some(served_loop) = self.loops.get_mut(&id) else {
                break;
            };
            turn = served_loop.turn(py, true);
            self.runner.step();
        }
        self.runner.set_alone(None);
        match turn {
            Turn::Ended => self.end(py, id),
            _ => self.note_runnable(id),
        }
    }

    /// One turn of every loop that has something to do, or a wait for the first that has.
    fn run_round(&mut self, py: Python<'_>) {
        for id in self.runner.woken.take() {
            self.note_runnable(id);
        }
        self.take_due();
        let now = now_ns();
        if self.runnable.is_empty() {
            self.wait(py, true);
            return;
        }
        if now - self.last_look > LOOK_EVERY_NS {
            self.wait(py, false);
        }
        for _ in 0..self.runnable.len() {
            if let Some(id) = self.runnable.pop_front() {
                self.run_turn(py, id);
            }
        }
    }

    fn run_turn(&mut self, py: Python<'_>, id: u64) {
        self.end_rest(id);
        self.enter(py, id);
        let Some(served_loop) = self.loops.get_mut(&id) else {
            // It was called, and ended before its turn.
            return;
        };
        served_loop.is_runnable = false;
        // This turn handles what it was woken for.
        served_loop.native.core.parking.take_notified();
        let turn = served_loop.turn(py, false);
        self.runner.step();
        match turn {
            Turn::Ended => self.end(py, id),
            Turn::Again => self.note_runnable(id),
            Turn::Nothing => self.begin_rest(py, id),
        }
    }

    /// The loop has nothing to do for now: from here on, threads that wake it call the runner.
    fn begin_rest(&mut self, py: Python<'_>, id: u64) {
        let Some(served_loop) = self.loops.get_mut(&id) else {
            return;
        };
        served_loop.native.monitor_callers();
        let watches = served_loop.native.core.watched_len() > 0;
        let heard = !watches || served_loop.is_watched || watch(self.runner, served_loop);
        let next_look = (!heard).then(|| now_ns() + UNWATCHED_LOOK_NS);
        let deadlines = [served_loop.next_deadline(py), next_look];
        served_loop.deadline = deadlines.into_iter().flatten().min();
        if let Some(deadline) = served_loop.deadline {
            self.due.insert((deadline, id));
        }
        if !served_loop.native.core.parking.rest() {
            // It was woken at this moment.
            self.note_runnable(id);
        }
    }

    /// The loop is awake. A wake that was not taken yet prevents its next wait, so that the turn
    /// checks everything.
    fn end_rest(&mut self, id: u64) {
        let Some(served_loop) = self.loops.get_mut(&id) else {
            return;
        };
        if let Some(deadline) = served_loop.deadline.take() {
            self.due.remove(&(deadline, id));
        }
        // If not, a wake was first.
        let _ = served_loop.native.core.parking.rise();
    }

    fn note_runnable(&mut self, id: u64) {
        if let Some(served_loop) = self.loops.get_mut(&id)
            && !std::mem::replace(&mut served_loop.is_runnable, true)
        {
            self.runnable.push_back(id);
        }
    }

    fn take_due(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = now_ns();
        let later = self.due.split_off(&(now + 1, 0));
        for (_, id) in std::mem::replace(&mut self.due, later) {
            if let Some(served_loop) = self.loops.get_mut(&id) {
                served_loop.deadline = None;
            }
            self.note_runnable(id);
        }
    }

    /// Waits for events of any loop, until a call or a deadline; without `block`, only polls.
    fn wait(&mut self, py: Python<'_>, block: bool) {
        let Some(native) = &self.runner.waits else {
            return;
        };
        let busy = &self.runner.busy;
        let steps = self
            .wait_steps
            .get_or_insert_with(|| WaitSteps::new(native).recording(busy.clone()));
        let deadline = self.due.first().map(|(deadline, _)| *deadline);
        let result = match block {
            true => py.detach(|| steps.wait(native, deadline)),
            false => steps.poll(native),
        };
        // Our set can only fail for lack of kernel memory; its events are taken after the next
        // wait.
        debug_assert!(result.is_ok(), "{result:?}");
        let ready: Vec<u64> = steps.ready.drain(..).filter_map(|one| one.read).collect();
        for id in ready {
            self.note_runnable(id);
        }
        self.last_look = now_ns();
    }

    /// Switches the thread to this loop.
    fn enter(&mut self, py: Python<'_>, id: u64) {
        if self.entered == Some(id) {
            return;
        }
        self.leave(py);
        if let Some(served_loop) = self.loops.get(&id) {
            served_loop.enter(py);
            self.entered = Some(id);
        }
    }

    fn leave(&mut self, py: Python<'_>) {
        let before = self.entered.take().and_then(|id| self.loops.get(&id));
        if let Some(served_loop) = before {
            served_loop.leave(py);
        }
    }

    fn end(&mut self, py: Python<'_>, id: u64) {
        self.leave(py);
        if let Some(served_loop) = self.loops.remove(&id) {
            unwatch(self.runner, &served_loop.native);
            served_loop.end(py);
        }
        self.runner.step();
        self.done = self.runner.left();
    }
}

/// Adds the loop's fds to the runner's set. Level-triggered: a set that has events is reported
/// until its loop has taken them.
fn watch(runner: &Runner, served_loop: &mut ServedLoop) -> bool {
    let (Some(waits), Some(fd)) = (&runner.waits, served_loop.native.core.raw_fd()) else {
        return false;
    };
    let key = served_loop.native.id;
    served_loop.is_watched = waits
        .core
        .watch(fd, Direction::Read, key, Mode::LEVEL)
        .is_ok();
    served_loop.is_watched
}

fn unwatch(runner: &Runner, native: &NativeLoop) {
    if let (Some(waits), Some(fd)) = (&runner.waits, native.core.raw_fd()) {
        waits.core.unwatch_fd(fd, Direction::Read);
    }
}
