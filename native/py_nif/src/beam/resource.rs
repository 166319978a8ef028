//! Rust values that the VM counts references to and passes around as terms.
//!
//! rustler's own `ResourceArc` has neither a `stop` callback (without which an fd in the VM's
//! poller cannot be closed safely) nor takeover (without which `py_nif` cannot be loaded again
//! in a running node), so the few calls needed are made here.
//!
//! # Types of earlier loads
//!
//! Loading `py_nif` over an older version hands the resource types over: the VM's `upgrade`. After
//! `code:delete` and `code:purge` there is no older version, so the VM loads the library as if for
//! the first time and makes new types. The library itself was never unmapped, and the objects of
//! the earlier types hold the same Rust types and are still in use: by loops, and in terms of
//! Erlang processes. So [`Ref::decode`] accepts them all. The VM frees an unloaded type when its
//! last object dies, and could reuse its address for a type of another library. To prevent that,
//! each type has one object that is never released ([`keep`]).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustler::sys::{self, ErlNifEnv, ErlNifEvent, ErlNifMonitor, ErlNifPid, ErlNifResourceType};
use rustler::{Decoder, Encoder, Env, LocalPid, NifResult, Term};

use super::forked;
use super::message::Sender;

/// The VM's types for the objects of one [`Resource`].
pub struct TypeCell {
    /// The type that the VM has returned last. Until the load has succeeded, the VM may take it
    /// back.
    opened: AtomicPtr<ErlNifResourceType>,
    /// The types of all loads that have succeeded, the latest first. New objects get the latest.
    kept: AtomicPtr<PinnedType>,
}

/// A type that has an object forever, so that the VM does not free it. Never freed: there is one
/// for each load after a purge.
struct PinnedType {
    handle: *mut ErlNifResourceType,
    earlier: *const PinnedType,
}

impl TypeCell {
    pub const fn new() -> Self {
        TypeCell {
            opened: AtomicPtr::new(ptr::null_mut()),
            kept: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The type for new objects, null before the library is loaded.
    fn latest(&self) -> *mut ErlNifResourceType {
        self.handles().next().unwrap_or(ptr::null_mut())
    }

    fn handles(&self) -> impl Iterator<Item = *mut ErlNifResourceType> + use<> {
        // Acquire: with the Release in `keep`, what the pointer refers to is complete.
        let mut next = self.kept.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: null or a leaked `PinnedType`, which is not changed after it was published.
            let kept = unsafe { next.as_ref() }?;
            next = kept.earlier;
            Some(kept.handle)
        })
    }
}

/// A type whose values live in resources. Callbacks run on scheduler threads: they may neither
/// block nor take the GIL.
pub trait Resource: Sized + Send + Sync + 'static {
    const NAME: &'static CStr;
    fn cell() -> &'static TypeCell;
    /// A process watched with [`Ref::monitor`] has died.
    fn down(&self, _env: Env<'_>, _pid: LocalPid) {}
    /// The VM's poller has released the fd that this object was selected for.
    fn stopped(&self) {}
    /// The last reference is gone.
    fn destroy(self, _sender: Sender<'_>) {}
}

/// A counted reference to a resource holding a `T`.
pub struct Ref<T: Resource> {
    object: *mut c_void,
    holds: PhantomData<T>,
}

// SAFETY: the VM counts references atomically, and `T` is `Send + Sync` by the trait's bounds.
unsafe impl<T: Resource> Send for Ref<T> {}
// SAFETY: as above; a shared `Ref` only hands out `&T`.
unsafe impl<T: Resource> Sync for Ref<T> {}

impl<T: Resource> Ref<T> {
    pub fn new(value: T) -> Self {
        // The VM aligns resource memory for pointers and 64-bit numbers, no further.
        const { assert!(align_of::<T>() <= 8) };
        let kind = T::cell().latest();
        assert!(!kind.is_null(), "resource types are opened at load");
        // SAFETY: the VM made `kind` for this library, and it is valid forever: it has an object
        // (`keep`). The memory is at least `size_of::<T>()`, and no other thread sees it before
        // the write is done.
        unsafe {
            let object = sys::enif_alloc_resource(kind, size_of::<T>());
            ptr::write(object as *mut T, value);
            Ref {
                object,
                holds: PhantomData,
            }
        }
    }

    /// The VM's pointer to the object, as `enif_select` expects it.
    pub fn as_object(&self) -> *mut c_void {
        self.object
    }

    /// Calls `T::down` once when `pid` dies. `None`: it is dead already.
    pub fn monitor(&self, sender: Sender<'_>, pid: &LocalPid) -> Option<Monitor> {
        let env = match sender {
            Sender::Scheduler(env) => env.as_c_arg(),
            Sender::Thread => ptr::null_mut(),
        };
        if forked::is_copy() {
            return None;
        }
        let mut monitor = MaybeUninit::<ErlNifMonitor>::uninit();
        // SAFETY: `object` is a live resource whose type has a `down` callback (all of ours do);
        // the monitor is initialised when the call returns 0.
        unsafe {
            let status =
                sys::enif_monitor_process(env, self.object, pid.as_c_arg(), monitor.as_mut_ptr());
            (status == 0).then(|| Monitor(monitor.assume_init()))
        }
    }

    /// Ends a monitor; no effect if it has fired.
    pub fn demonitor(&self, sender: Sender<'_>, monitor: &Monitor) {
        let env = match sender {
            Sender::Scheduler(env) => env.as_c_arg(),
            Sender::Thread => ptr::null_mut(),
        };
        if forked::is_copy() {
            return;
        }
        // SAFETY: the monitor was created on this object.
        unsafe { sys::enif_demonitor_process(env, self.object, &monitor.0) };
    }
}

/// A monitor created by [`Ref::monitor`].
pub struct Monitor(ErlNifMonitor);

// SAFETY: plain data that names a monitor; the VM's calls on it are thread-safe.
unsafe impl Send for Monitor {}

impl<T: Resource> Deref for Ref<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `new` wrote a `T` there, and it is dropped only after the last reference.
        unsafe { &*(self.object as *const T) }
    }
}

impl<T: Resource> Clone for Ref<T> {
    fn clone(&self) -> Self {
        // SAFETY: we hold a reference, so the object is alive.
        unsafe { sys::enif_keep_resource(self.object) };
        Ref {
            object: self.object,
            holds: PhantomData,
        }
    }
}

impl<T: Resource> Drop for Ref<T> {
    fn drop(&mut self) {
        if forked::is_copy() {
            return;
        }
        // SAFETY: this reference was counted by `new`, `clone` or `decode`.
        unsafe { sys::enif_release_resource(self.object) };
    }
}

impl<T: Resource> Encoder for Ref<T> {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        // SAFETY: the created term belongs to `env` and keeps the object alive.
        unsafe { Term::new(env, sys::enif_make_resource(env.as_c_arg(), self.object)) }
    }
}

impl<'a, T: Resource> Decoder<'a> for Ref<T> {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        let env = term.get_env().as_c_arg();
        let object = T::cell().handles().find_map(|kind| {
            let mut object = ptr::null();
            // SAFETY: the VM checks that the term is a resource of this very type.
            let found =
                unsafe { sys::enif_get_resource(env, term.as_c_arg(), kind, &mut object) != 0 };
            found.then_some(object)
        });
        let object = object.ok_or(rustler::Error::BadArg)?;
        // SAFETY: the term keeps the object alive during this call; now our reference does, too.
        // All objects of these types hold a `T`: the only one that does not is in no term.
        unsafe { sys::enif_keep_resource(object) };
        Ok(Ref {
            object: object as *mut c_void,
            holds: PhantomData,
        })
    }
}

/// Makes `T` known to the VM. When `py_nif` is loaded over an older version of itself, the VM
/// returns the type that there is. Call [`keep`] when the load has succeeded.
pub fn open<T: Resource>(env: *mut ErlNifEnv) -> bool {
    let init = sys::ErlNifResourceTypeInit {
        dtor: dtor::<T> as *const sys::ErlNifResourceDtor,
        stop: stop::<T> as *const sys::ErlNifResourceStop,
        down: down::<T> as *const sys::ErlNifResourceDown,
        members: 3,
        dyncall: ptr::null(),
    };
    // CREATE | TAKEOVER: rustler has the flags as an enum with one value each.
    let flags: c_int = 1 | 2;
    // SAFETY: called by the VM's load or upgrade callback with its environment; the enum is
    // `repr(C)`, the VM reads it as the bit set that it is.
    let kind = unsafe {
        let mut tried = MaybeUninit::uninit();
        enif_init_resource_type(env, T::NAME.as_ptr(), &init, flags, tried.as_mut_ptr())
    };
    T::cell().opened.store(kind, Ordering::Release);
    !kind.is_null()
}

/// Makes the type that [`open`] got the one for new objects of `T`, and keeps it forever. Call it
/// after the VM's load callback has returned, before other processes can call the module: the VM
/// does not make objects during the callback.
pub fn keep<T: Resource>() {
    let cell = T::cell();
    // Loads do not overlap: only one process loads a module at a time.
    let handle = cell.opened.load(Ordering::Acquire);
    if handle == cell.latest() {
        return;
    }
    // SAFETY: the VM made this type while it loaded the library, and that has succeeded. The
    // object holds no `T`, but is never decoded or destroyed: only this reference to it exists,
    // and it is never released.
    unsafe { sys::enif_alloc_resource(handle, 0) };
    let kept = Box::new(PinnedType {
        handle,
        earlier: cell.kept.load(Ordering::Acquire),
    });
    cell.kept.store(Box::into_raw(kept), Ordering::Release);
}

unsafe extern "C" {
    // rustler's declaration takes an enum that cannot hold CREATE | TAKEOVER.
    fn enif_init_resource_type(
        env: *mut ErlNifEnv,
        name: *const std::ffi::c_char,
        init: *const sys::ErlNifResourceTypeInit,
        flags: c_int,
        tried: *mut c_int,
    ) -> *mut ErlNifResourceType;
}

/// # Safety
/// Called by the VM, once, with an object made by [`Ref::new`] for `T`.
unsafe extern "C" fn dtor<T: Resource>(env: *mut ErlNifEnv, object: *mut c_void) {
    // A panic must not unwind into C. There is no caller to report it to.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the object holds a `T` and is not used again; `env` is valid for this call.
        let (value, env) = unsafe { (ptr::read(object as *const T), Env::new(&env, env)) };
        value.destroy(match rustler::thread::is_scheduler_thread() {
            true => Sender::Scheduler(env),
            false => Sender::Thread,
        });
    }));
}

/// The poller has released the fd. The VM releases its own reference to the object afterwards.
///
/// # Safety
/// Called by the VM with a live object made by [`Ref::new`] for `T`.
unsafe extern "C" fn stop<T: Resource>(
    _env: *mut ErlNifEnv,
    object: *mut c_void,
    _event: ErlNifEvent,
    _is_direct_call: c_int,
) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the VM passes a live object.
        unsafe { &*(object as *const T) }.stopped();
    }));
}

/// # Safety
/// Called by the VM with a live object made by [`Ref::new`] for `T`.
unsafe extern "C" fn down<T: Resource>(
    env: *mut ErlNifEnv,
    object: *mut c_void,
    pid: *const ErlNifPid,
    _monitor: *const ErlNifMonitor,
) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the VM passes a live object, its environment for this call, and a valid pid.
        unsafe {
            let value = &*(object as *const T);
            value.down(Env::new(&env, env), LocalPid::from_c_arg(*pid));
        }
    }));
}
