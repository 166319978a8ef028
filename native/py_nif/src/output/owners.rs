//! The group leaders of processes that own loops: what such a loop prints of its own accord goes
//! there.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use rustler::{Env, LocalPid, Term};

use super::Origin;
use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};

/// Lives as long as its process, which it watches.
pub struct Owner;

type Owners = HashMap<LocalPid, (Arc<Origin>, Ref<Owner>)>;

fn owners() -> MutexGuard<'static, Owners> {
    static OWNERS: LazyLock<Mutex<Owners>> = LazyLock::new(Mutex::default);
    // Single insertions and removals: whole also after a panic.
    OWNERS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The calling process will own loops; this is its group leader.
pub fn insert(env: Env<'_>, leader: Term<'_>) {
    let watch = Ref::new(Owner);
    // It is the calling process, so it is alive.
    let _ = watch.monitor(Sender::Scheduler(env), &env.pid());
    let before = owners().insert(env.pid(), (Origin::new(env, leader), watch));
    // Outside of the lock.
    drop(before);
}

pub fn origin(owner: &LocalPid) -> Option<Arc<Origin>> {
    owners().get(owner).map(|(origin, _)| origin.clone())
}

impl Resource for Owner {
    const NAME: &'static CStr = c"erlang_loop.output_owner";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, _env: Env<'_>, pid: LocalPid) {
        let gone = owners().remove(&pid);
        drop(gone);
    }
}
