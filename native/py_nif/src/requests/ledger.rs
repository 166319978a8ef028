//! Which requests to a peer have begun, in memory that the peer shares with its origin. When the
//! peer has died, the origin still reads there what may have run, and what certainly has not.
//!
//! The origin numbers the requests that it sends. A request has the slot of its number modulo
//! [`SLOTS`]; the slot contains the largest number that has begun. So when two requests with the
//! same slot are open at a time, both may count as begun, but a request that has begun always does.

use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::shared_words::SharedWords;

const SLOTS: usize = 8192;
/// Before the slots: how many requests were sent, and how many have ended.
const COUNTS: usize = 2;

pub struct Ledger(SharedWords);

impl Ledger {
    pub fn create() -> io::Result<Self> {
        SharedWords::create(COUNTS + SLOTS).map(Ledger)
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        SharedWords::open(path, COUNTS + SLOTS).map(Ledger)
    }

    pub fn fd(&self) -> i32 {
        self.0.fd()
    }

    fn sent(&self) -> &AtomicU64 {
        &self.0.words()[0]
    }

    fn ended(&self) -> &AtomicU64 {
        &self.0.words()[1]
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.0.words()[COUNTS + number as usize % SLOTS]
    }

    /// The number of the next request. Relaxed: only uniqueness matters.
    pub fn next(&self) -> u64 {
        self.sent().fetch_add(1, Ordering::Relaxed) + 1
    }

    /// In the peer: a request was replied to or abandoned.
    pub fn count_ended(&self) {
        self.ended().fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests are open. A hint: the two counts are read one after the other.
    pub fn load(&self) -> u64 {
        let ended = self.ended().load(Ordering::Relaxed);
        self.sent().load(Ordering::Relaxed).saturating_sub(ended)
    }

    /// Relaxed: it is read after the peer has died.
    fn begin(&self, number: u64) {
        self.slot(number).fetch_max(number, Ordering::Relaxed);
    }

    pub fn has_begun(&self, number: u64) -> bool {
        self.slot(number).load(Ordering::Relaxed) >= number
    }
}

impl Resource for Ledger {
    const NAME: &'static CStr = c"erlang_loop.ledger";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// The entry of one request.
pub struct Entry {
    pub ledger: Ref<Ledger>,
    pub number: u64,
}

impl Entry {
    /// Before any code of the request runs.
    pub fn begin(&self) {
        self.ledger.begin(self.number);
    }
}
