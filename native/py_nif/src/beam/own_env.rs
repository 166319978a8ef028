//! Environments that belong to no process: they contain terms that our own threads read or send.
//!
//! rustler's `OwnedEnv` does the same with more allocations. Each request needs two environments,
//! so they are reused: scheduler threads create them and Python's threads free them, and moving the
//! VM's memory between threads is expensive (`docs/performance.md`).
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ptr;
use std::sync::{Mutex, TryLockError};

use rustler::sys::{self, ErlNifEnv, ErlNifTerm};
use rustler::{Encoder, Env, LocalPid, Term};

use super::forked;

/// How many environments move between a thread and the shared list at once.
const BATCH: usize = 32;
/// How many spare environments the shared list keeps, besides those that threads keep.
const SPARE: usize = 32 * BATCH;

/// A term in an [`OwnEnv`]; reading it requires that environment.
#[derive(Clone, Copy)]
pub struct EnvTerm(ErlNifTerm);

/// An environment that belongs to no process, empty at first.
pub struct OwnEnv(*mut ErlNifEnv);

// SAFETY: the VM allows an environment that belongs to no process on any thread, one at a time;
// `&OwnEnv` only reads terms, except for `keep` and `with`, whose callers have exclusive access to
// the value (they own it, or hold the lock that guards it).
unsafe impl Send for OwnEnv {}

impl OwnEnv {
    pub fn new() -> Self {
        OwnEnv(take())
    }

    /// Copies a term into the environment.
    pub fn keep(&self, term: impl Encoder) -> EnvTerm {
        self.with(|env| EnvTerm(term.encode(env).as_c_arg()))
    }

    /// As [`keep`](Self::keep), for a term of any other environment.
    pub fn keep_copy(&self, term: Term<'_>) -> EnvTerm {
        self.with(|env| EnvTerm(term.in_env(env).as_c_arg()))
    }

    pub fn with<R>(&self, look: impl for<'a> FnOnce(Env<'a>) -> R) -> R {
        // SAFETY: `self.0` is a live environment, and the marker ends with this call.
        let env = unsafe { Env::new(&(), self.0) };
        look(env)
    }

    /// Returns a kept term.
    ///
    /// It must have been kept in this very environment; the few callers ensure that.
    pub fn load<'a>(&'a self, kept: EnvTerm) -> Term<'a> {
        // SAFETY: the term is in this environment, which lives as long as the returned term.
        unsafe { Term::new(Env::new(self, self.0), kept.0) }
    }

    /// Sends one of its terms to a process, from a thread that is not a scheduler.
    pub fn send(self, to: &LocalPid, message: EnvTerm) -> bool {
        if forked::is_copy() {
            return false;
        }
        // SAFETY: no caller's environment on such a thread; the message is in our environment,
        // which the VM empties and leaves to us.
        unsafe { sys::enif_send(ptr::null_mut(), to.as_c_arg(), self.0, message.0) == 1 }
    }
}

impl Drop for OwnEnv {
    fn drop(&mut self) {
        if forked::is_copy() {
            return;
        }
        // SAFETY: ours, and nothing refers to its terms any more.
        unsafe { sys::enif_clear_env(self.0) };
        recycle(self.0);
    }
}

/// A term in an environment of its own.
pub struct OwnTerm {
    env: OwnEnv,
    term: EnvTerm,
}

impl OwnTerm {
    pub fn copy(term: impl Encoder) -> Self {
        let env = OwnEnv::new();
        let term = env.keep(term);
        OwnTerm { env, term }
    }

    /// The term that `build` creates in that environment.
    pub fn build<E>(build: impl for<'a> FnOnce(Env<'a>) -> Result<Term<'a>, E>) -> Result<Self, E> {
        let env = OwnEnv::new();
        let term = env.with(|inner| build(inner).map(|term| env.keep(term)))?;
        Ok(OwnTerm { env, term })
    }

    pub fn with<R>(&self, look: impl FnOnce(Term<'_>) -> R) -> R {
        look(self.env.load(self.term))
    }

    /// To send the term as a part of a message without another copy.
    pub fn into_parts(self) -> (OwnEnv, EnvTerm) {
        (self.env, self.term)
    }
}

struct Spare(Vec<*mut ErlNifEnv>);
// SAFETY: empty environments that no other code refers to.
unsafe impl Send for Spare {}

impl Drop for Spare {
    fn drop(&mut self) {
        for env in self.0.drain(..) {
            // SAFETY: ours, and empty.
            unsafe { sys::enif_free_env(env) };
        }
    }
}

static SPARES: Mutex<Spare> = Mutex::new(Spare(Vec::new()));

thread_local! {
    static OWN: RefCell<Spare> = const { RefCell::new(Spare(Vec::new())) };
}

fn take() -> *mut ErlNifEnv {
    let kept = OWN.try_with(|own| {
        let own = &mut own.borrow_mut().0;
        if own.is_empty() {
            // If the list is locked, the caller creates an environment instead of waiting.
            if let Some(mut spares) = spares() {
                let rest = spares.0.len().saturating_sub(BATCH);
                own.extend(spares.0.drain(rest..));
            }
        }
        own.pop()
    });
    // SAFETY: creates an environment; the VM ends the node if there is no memory.
    kept.ok()
        .flatten()
        .unwrap_or_else(|| unsafe { sys::enif_alloc_env() })
}

fn recycle(env: *mut ErlNifEnv) {
    let kept = OWN.try_with(|own| {
        let own = &mut own.borrow_mut().0;
        own.push(env);
        if own.len() < 2 * BATCH {
            return;
        }
        let mut passed_on = Spare(own.split_off(BATCH));
        if let Some(mut spares) = spares().filter(|spares| spares.0.len() < SPARE) {
            spares.0.append(&mut passed_on.0);
        }
    });
    if kept.is_err() {
        // The thread is about to end. SAFETY: ours, and empty.
        unsafe { sys::enif_free_env(env) };
    }
}

fn spares() -> Option<std::sync::MutexGuard<'static, Spare>> {
    match SPARES.try_lock() {
        Ok(spares) => Some(spares),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
