//! The words callers and `watches` speak in: which side, how often, which watch, who is told.

use std::os::fd::RawFd;

/// Which side of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Told when it can be read.
    Read,
    /// Told when it can be written.
    Write,
}

/// How often a watch is told. On a descriptor where reader and writer differ, the kernel gets
/// the more talkative of both (it has one setting per descriptor): an edge watch may then be
/// told more often, a oneshot watch still only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode {
    /// Once per change instead of as long as it lasts.
    pub edge: bool,
    /// Once, then the watch is paused.
    pub oneshot: bool,
}

impl Mode {
    /// As long as it lasts: what asyncio expects.
    pub const LEVEL: Self = Self {
        edge: false,
        oneshot: false,
    };
    /// Once per change.
    pub const EDGE: Self = Self {
        edge: true,
        oneshot: false,
    };
    /// Once, until resumed.
    pub const ONESHOT: Self = Self {
        edge: false,
        oneshot: true,
    };
}

/// One watch. Stale as soon as the watch is removed or replaced, also when another watch has
/// the same descriptor number since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId {
    /// The watched descriptor.
    pub fd: RawFd,
    /// The registration it belongs to; reader and writer of a descriptor share it.
    pub generation: u32,
    /// Never used twice in a table.
    pub serial: u64,
}

/// What an event means: the keys of the watches to tell. Both `None` for a stale event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ready {
    /// The descriptor.
    pub fd: RawFd,
    /// The registration the event belongs to.
    pub generation: u32,
    /// The reader's key, if it is to be told.
    pub read: Option<u64>,
    /// The writer's key, if it is to be told.
    pub write: Option<u64>,
}
