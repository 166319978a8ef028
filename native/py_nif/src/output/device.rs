//! A process that takes text: a group leader, or `user`. It implements the I/O protocol.
//!
//! A thread sends its request directly to the process, so the text is in that mailbox before the
//! thread continues and, for example, replies to its caller: what the caller prints next comes
//! after it. The replies go to `py_output`, which counts them. A device that is far behind blocks
//! the threads that print, as a full pipe does; one that takes nothing at all for a while loses
//! text, and `py_output` logs how much.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustler::{Encoder, Env, LocalPid, OwnedEnv};

use crate::atoms;
use crate::beam::forked;
use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::loops::Target;

/// Bytes in flight to one device before printing threads wait.
const ROOM: usize = 1 << 20;
/// How long a device may take nothing before text is dropped.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Device {
    state: Mutex<State>,
    /// There is room again, or no reason to wait any more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes sent and not replied to.
    under_way: usize,
    /// Bytes lost since the last report.
    dropped: u64,
    /// It took nothing for the whole PATIENCE: no thread waits for it until it does.
    stuck: bool,
    dead: bool,
}

/// The state of all devices; the lock is held for a few instructions.
#[derive(Default)]
struct Devices {
    /// `py_output`. None: the application is not running, or Python's output is not redirected.
    listener: Option<LocalPid>,
    local: HashMap<LocalPid, Ref<Device>>,
    /// One device for all leaders on other nodes: `py_output` forwards their text.
    remote: Option<Ref<Device>>,
}

fn devices() -> MutexGuard<'static, Devices> {
    static DEVICES: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);
    // Single insertions and removals: consistent also after a panic.
    DEVICES
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// `pid` receives replies from now on; replies to its predecessor are lost, so all counts restart.
pub fn listen(pid: Option<LocalPid>) {
    let mut devices = devices();
    devices.listener = pid;
    for device in devices.local.values().chain(&devices.remote) {
        device.change(|state| {
            state.under_way = 0;
            state.stuck = false;
        });
    }
}

/// Whether text can be sent at all.
pub fn is_open() -> bool {
    !forked::is_copy() && devices().listener.is_some()
}

/// What happened to a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the process's mailbox.
    Yes,
    /// There is no room: the caller may wait, see [`send_waiting`].
    Full,
    /// The process is dead, or there is no `py_output`.
    No,
}

/// Sends, unless there is no room. From any thread except a scheduler's; never waits.
pub fn send(target: &Target, text: &str) -> Sent {
    deliver(target, text, |device| match device.has_room() {
        true => Sent::Yes,
        false => Sent::Full,
    })
}

/// Sends when there is room; drops the text if there is none for too long. The caller must not hold
/// the GIL.
pub fn send_waiting(target: &Target, text: &str) -> Sent {
    deliver(target, text, |device| {
        if !device.wait_for_room(text.len()) {
            // Dropped and counted.
            return Sent::Full;
        }
        Sent::Yes
    })
}

/// Sends even without room: for a thread that cannot wait and has little to send.
pub fn send_anyway(target: &Target, text: &str) -> Sent {
    deliver(target, text, |_| Sent::Yes)
}

fn deliver(target: &Target, text: &str, admit: impl FnOnce(&Device) -> Sent) -> Sent {
    if forked::is_copy() {
        return Sent::No;
    }
    let Some((device, listener)) = find(target) else {
        return Sent::No;
    };
    let admitted = admit(&device);
    if admitted != Sent::Yes {
        return admitted;
    }
    device.change(|state| state.under_way += text.len());
    let sent = match target {
        Target::Local(pid) => OwnedEnv::new()
            .send_and_clear(pid, |env| request(env, listener, &device, text))
            .is_ok(),
        Target::Remote(origin) => OwnedEnv::new()
            .send_and_clear(&listener, |env| {
                let request = request(env, listener, &device, text);
                (atoms::forward(), origin.leader(env), request)
            })
            .is_ok(),
    };
    match sent {
        true => Sent::Yes,
        false => {
            device.taken(text.len());
            Sent::No
        }
    }
}

/// `{io_request, PyOutput, {py_output, Device, Bytes}, {put_chars, unicode, Text}}`
fn request<'a>(
    env: Env<'a>,
    listener: LocalPid,
    device: &Ref<Device>,
    text: &str,
) -> impl Encoder + use<'a> {
    (
        atoms::io_request(),
        listener,
        (atoms::py_output(), device.encode(env), text.len()),
        (atoms::put_chars(), atoms::unicode(), text.encode(env)),
    )
}

fn find(target: &Target) -> Option<(Ref<Device>, LocalPid)> {
    let mut devices = devices();
    let listener = devices.listener?;
    let known = match target {
        Target::Local(pid) => devices.local.get(pid).cloned(),
        Target::Remote(_) => Some(devices.remote.get_or_insert_with(Device::create).clone()),
    };
    if let Some(device) = known {
        return Some((device, listener));
    }
    let Target::Local(pid) = target else {
        return None;
    };
    let device = Device::create();
    devices.local.insert(*pid, device.clone());
    drop(devices);
    // Without the lock: if the process is dead already, `down` is called at once.
    if device.monitor(Sender::Thread, pid).is_none() {
        self::devices().local.remove(pid);
        return None;
    }
    Some((device, listener))
}

impl Device {
    fn create() -> Ref<Device> {
        Ref::new(Device {
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Plain numbers: consistent also after a panic.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn has_room(&self) -> bool {
        let state = self.lock();
        state.dead || state.under_way < ROOM
    }

    /// Returns `false` if there was no room for too long; then `bytes` are counted as dropped.
    fn wait_for_room(&self, bytes: usize) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while !state.dead && state.under_way >= ROOM {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.stuck || left.is_zero() {
                state.stuck = true;
                state.dropped += bytes as u64;
                return false;
            }
            (state, _) = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        true
    }

    /// The device has replied for this many bytes. Returns how many were dropped since the last
    /// report.
    pub fn taken(&self, bytes: usize) -> u64 {
        let mut dropped = 0;
        self.change(|state| {
            state.under_way = state.under_way.saturating_sub(bytes);
            state.stuck = false;
            dropped = std::mem::take(&mut state.dropped);
        });
        dropped
    }
}

impl Resource for Device {
    const NAME: &'static CStr = c"erlang_loop.output_device";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, _env: Env<'_>, pid: LocalPid) {
        devices().local.remove(&pid);
        self.change(|state| state.dead = true);
    }
}
