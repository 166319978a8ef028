//! A loop's pulse, as its thread writes it. While all loops rest, `py_watchdog` sleeps too: the
//! first that does not calls it.

use std::ops::Deref;

use super::watchdog;

#[derive(Default)]
pub struct Pulse(event_loop::Pulse);

impl Pulse {
    #[inline]
    pub fn begins(&self, now: u64) {
        if self.0.begins(now) {
            watchdog::loop_got_up();
        }
    }

    #[inline]
    pub fn turned(&self, now: u64) {
        if self.0.turned(now) {
            watchdog::loop_got_up();
        }
    }

    #[inline]
    pub fn rests(&self) {
        self.0.rests();
    }
}

impl Deref for Pulse {
    type Target = event_loop::Pulse;

    fn deref(&self) -> &event_loop::Pulse {
        &self.0
    }
}
