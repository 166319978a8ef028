//! Watched file descriptors.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use event_loop::Direction;
use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::fd::file_id;
use crate::beam::resource::Ref;
use crate::error::{Error, Result, done_or_error, ok_or_error};
use crate::loops::{FdRef, LoopRef, NativeLoop};

#[rustler::nif]
fn add_reader<'a>(env: Env<'a>, native: Ref<LoopRef>, fd: RawFd, callback: u64) -> Term<'a> {
    ok_or_error(env, add(env, &native, fd, callback, Direction::Read))
}

#[rustler::nif]
fn add_writer<'a>(env: Env<'a>, native: Ref<LoopRef>, fd: RawFd, callback: u64) -> Term<'a> {
    ok_or_error(env, add(env, &native, fd, callback, Direction::Write))
}

fn add(
    env: Env<'_>,
    native: &Ref<LoopRef>,
    fd: RawFd,
    callback: u64,
    direction: Direction,
) -> Result<Ref<FdRef>> {
    let native = native.open()?;
    let watch = native.watch_fd(fd, direction, callback)?;
    native.arm_if_needed(env);
    Ok(Ref::new(FdRef {
        owner: Arc::downgrade(&native),
        watch,
        direction,
        file: file_id(fd),
        removed: AtomicBool::new(false),
        closed: AtomicBool::new(false),
    }))
}

#[rustler::nif]
fn remove_reader<'a>(env: Env<'a>, native: Ref<LoopRef>, fd: Ref<FdRef>) -> Term<'a> {
    done_or_error(env, remove(&native, &fd, Direction::Read))
}

#[rustler::nif]
fn remove_writer<'a>(env: Env<'a>, native: Ref<LoopRef>, fd: Ref<FdRef>) -> Term<'a> {
    done_or_error(env, remove(&native, &fd, Direction::Write))
}

fn remove(native: &Ref<LoopRef>, fd: &Ref<FdRef>, direction: Direction) -> Result<()> {
    let native = native.open()?;
    // A reference of another loop, or of a writer where a reader is meant, is not a watch of this
    // loop.
    let names_one = std::ptr::eq(fd.owner.as_ptr(), Arc::as_ptr(&native));
    if !names_one || fd.direction != direction {
        return Err(Error::Core(event_loop::Error::Stale));
    }
    // A watch that is gone already (removed twice, replaced, closed) is the requested state.
    if native.unwatch_fd(fd.watch, direction) {
        fd.removed.store(true, Ordering::Release);
    }
    Ok(())
}

#[rustler::nif]
fn stop_reader<'a>(env: Env<'a>, fd: Ref<FdRef>) -> Term<'a> {
    done_or_error(env, pause(&fd, Direction::Read))
}

#[rustler::nif]
fn stop_writer<'a>(env: Env<'a>, fd: Ref<FdRef>) -> Term<'a> {
    done_or_error(env, pause(&fd, Direction::Write))
}

#[rustler::nif]
fn start_reader<'a>(env: Env<'a>, fd: Ref<FdRef>) -> Term<'a> {
    done_or_error(env, resume(env, &fd, Direction::Read))
}

#[rustler::nif]
fn start_writer<'a>(env: Env<'a>, fd: Ref<FdRef>) -> Term<'a> {
    done_or_error(env, resume(env, &fd, Direction::Write))
}

fn pause(fd: &Ref<FdRef>, direction: Direction) -> Result<()> {
    live_owner(fd, direction)?.pause_fd(fd.watch, direction)
}

fn resume(env: Env<'_>, fd: &Ref<FdRef>, direction: Direction) -> Result<()> {
    let owner = live_owner(fd, direction)?;
    owner.core.resume(fd.watch, direction)?;
    owner.arm_if_needed(env);
    Ok(())
}

fn live_owner(fd: &Ref<FdRef>, direction: Direction) -> Result<Arc<NativeLoop>> {
    let owner = fd.owner.upgrade().ok_or(Error::Closed)?;
    owner.check_open()?;
    match fd.direction == direction {
        true => Ok(owner),
        false => Err(Error::Core(event_loop::Error::Stale)),
    }
}

/// Closes the fd at most once: through the first reference whose watch is still the fd's, was ended
/// by its own `remove_*`, or by the end of the loop. Any other reference is stale, and so is one
/// whose number belongs to another file by now.
#[rustler::nif]
fn close_fd<'a>(env: Env<'a>, fd: Ref<FdRef>) -> Term<'a> {
    let first = !fd.closed.swap(true, Ordering::AcqRel);
    if first && ends_watch(&fd) && fd.file.is_some() && file_id(fd.watch.fd) == fd.file {
        match super::test_sockets::take(fd.watch.fd) {
            Some(owned) => drop(owned),
            None => crate::beam::fd::close(fd.watch.fd),
        }
    }
    atoms::ok().encode(env)
}

/// Ends the watches of the fd in its loop, before it is closed. Returns `false` if this reference
/// is stale.
fn ends_watch(fd: &Ref<FdRef>) -> bool {
    let open = |owner: &Arc<NativeLoop>| owner.check_open().is_ok();
    let Some(owner) = fd.owner.upgrade().filter(open) else {
        return true;
    };
    let current = owner.unwatch_fd(fd.watch, fd.direction);
    if current {
        owner.forget_fd(fd.watch.fd);
    }
    current || fd.removed.load(Ordering::Acquire)
}
