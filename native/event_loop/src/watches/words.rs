//! The types shared by callers and `watches`: direction, mode, the id of a watch, the result of an
//! event.

use std::os::fd::RawFd;

/// The direction in which a descriptor is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Reported when it can be read.
    Read,
    /// Reported when it can be written.
    Write,
}

/// How often a watch is reported. Where reader and writer of a descriptor differ, the kernel gets
/// the more frequent mode of both (it has one setting per descriptor): an edge watch may then be
/// reported more often, a oneshot watch still only once.
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

/// The id of a watch. Stale as soon as the watch is removed or replaced, even if another watch has
/// the same descriptor number by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId {
    /// The watched descriptor.
    pub fd: RawFd,
    /// The registration it belongs to; reader and writer of a descriptor share it.
    pub generation: u32,
    /// Never reused in a table.
    pub serial: u64,
}

/// The watches that an event concerns, by their keys. Both `None` for a stale event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ready {
    /// The descriptor.
    pub fd: RawFd,
    /// The registration the event belongs to.
    pub generation: u32,
    /// The reader's key, if the event concerns it.
    pub read: Option<u64>,
    /// The writer's key, if the event concerns it.
    pub write: Option<u64>,
}
