//! The additional state of a stream: items before the end, and the demand for them.
//!
//! Items are `{py_stream, Stream, {data, Item}}`, sent under the request's lock like the reply, so
//! that none follows after the stream was abandoned. The producer sends while there is credit.
//! Without credit it *waits*, and the next demand, or its end, resumes it where it is: on its loop,
//! or set aside without a thread (`requests/plain_streams.rs`).

use event_loop::now_ns;
use rustler::{Env, LocalPid, Term};

use super::{Phase, Request, RunsOn};
use crate::atoms;
use crate::beam::forked;
use crate::beam::own_env::OwnEnv;
use crate::beam::resource::Ref;
use crate::requests::on_loop::loop_requests;
use crate::requests::plain_streams;

/// Guarded by the request's lock.
pub struct Flow {
    /// The process that gets the items.
    to: LocalPid,
    /// Items that were requested and not sent yet.
    credit: u64,
    /// Whether the producer waits for demand, and since when (ns).
    waits: bool,
    waits_since: u64,
    /// How many items were sent, and when the stream began (ns).
    sent: u64,
    began: u64,
}

/// What `py_inspect` shows of a stream.
pub struct StreamReading {
    pub to: LocalPid,
    pub credit: u64,
    pub waits: bool,
    pub waits_since: u64,
    pub sent: u64,
    pub began: u64,
    /// The number of the loop that it runs on.
    pub on_loop: Option<u64>,
}

impl Flow {
    pub fn new(to: LocalPid, credit: u64) -> Self {
        Flow {
            to,
            credit,
            waits: false,
            waits_since: 0,
            sent: 0,
            began: now_ns(),
        }
    }
}

/// What a producer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Produces another item.
    Produce,
    /// Waits for demand.
    Wait,
    /// Ends: there is no consumer any more.
    Stop,
}

impl Request {
    /// Whether it is a stream to this process.
    pub fn is_for(&self, pid: &LocalPid) -> bool {
        let state = self.lock();
        state.flow.as_ref().is_some_and(|flow| flow.to == *pid)
    }

    /// `None`: it has ended, or is not a stream.
    pub fn stream_reading(&self) -> Option<StreamReading> {
        let state = self.lock();
        let on_loop = match &state.phase {
            Phase::Done | Phase::Abandoned { .. } => return None,
            Phase::Running(RunsOn::Loop(id)) => Some(*id),
            Phase::Queued | Phase::Running(_) => None,
        };
        let flow = state.flow.as_ref()?;
        Some(StreamReading {
            to: flow.to,
            credit: flow.credit,
            waits: flow.waits,
            waits_since: flow.waits_since,
            sent: flow.sent,
            began: flow.began,
            on_loop,
        })
    }

    /// The next action, for the producer.
    pub fn next(&self) -> Next {
        self.look(|_| Next::Wait)
    }

    /// As [`next`](Self::next); a producer that has to wait is recorded as waiting.
    pub fn wait_for_demand(&self) -> Next {
        self.look(|flow| {
            if !flow.waits {
                flow.waits = true;
                flow.waits_since = now_ns();
            }
            Next::Wait
        })
    }

    fn look(&self, without_credit: impl FnOnce(&mut Flow) -> Next) -> Next {
        let state = &mut *self.lock();
        match (&state.phase, &mut state.flow) {
            (Phase::Done | Phase::Abandoned { .. }, _) | (_, None) => Next::Stop,
            (_, Some(flow)) if flow.credit > 0 => Next::Produce,
            (_, Some(flow)) => without_credit(flow),
        }
    }

    /// `more` items are wanted. From any thread. No effect when the stream has ended.
    pub fn demand(&self, more: u64) {
        let waits_at = {
            let state = &mut *self.lock();
            let (Some(flow), Phase::Queued | Phase::Running(_)) = (&mut state.flow, &state.phase)
            else {
                return;
            };
            flow.credit = flow.credit.saturating_add(more);
            match (std::mem::take(&mut flow.waits), &state.phase) {
                (true, Phase::Running(place)) => place.clone(),
                _ => return,
            }
        };
        match waits_at {
            RunsOn::Loop(id) => loop_requests::demand(id, self.id),
            RunsOn::NoThread => plain_streams::resume(self.id),
            // It runs, and so does not wait.
            RunsOn::CallThread | RunsOn::LookupThread => {}
        }
    }
}

impl Ref<Request> {
    /// Sends an item for which there was demand, from one of our threads, and returns the next
    /// action. `build` runs without the lock, see [`reply`](Self::reply).
    pub fn send_item<E>(
        &self,
        build: impl for<'a> FnOnce(Env<'a>) -> Result<Term<'a>, E>,
    ) -> Result<Next, E> {
        if forked::is_copy() {
            return Ok(Next::Stop);
        }
        let own = OwnEnv::new();
        let message = own.with(|env| {
            let item = build(env)?;
            Ok(own.keep((atoms::py_stream(), self, (atoms::data(), item))))
        })?;
        let state = &mut *self.lock();
        let (Phase::Running(_), Some(flow)) = (&state.phase, &mut state.flow) else {
            return Ok(Next::Stop);
        };
        flow.credit = flow.credit.saturating_sub(1);
        flow.sent += 1;
        let next = match flow.credit {
            0 => Next::Wait,
            _ => Next::Produce,
        };
        // If the consumer has died, the monitor reports it.
        let _ = own.send(&flow.to, message);
        Ok(next)
    }
}
