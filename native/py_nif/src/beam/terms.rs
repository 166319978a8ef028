//! Terms taken apart and built without a copy in between, for `convert`.
//!
//! A [`Word`] is a term without its environment: a third of the size of rustler's `Term`, and the
//! type that the VM's `..._from_array` functions take.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, size_of};
use std::ptr;
use std::slice;
use std::sync::OnceLock;

use rustler::sys::{self, ErlNifTerm};
use rustler::{Decoder, Env, LocalPid, NifResult, OwnedEnv, Term};

use super::forked;
use super::resource::{Ref, Resource};

/// rustler's own decoder panics at an improper list; asking for its length raises `badarg`.
pub fn decode_list<'a, T: Decoder<'a>>(term: Term<'a>) -> NifResult<Vec<T>> {
    term.list_length()?;
    term.decode()
}

/// A term of the environment `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Word<'a>(ErlNifTerm, PhantomData<Term<'a>>);

impl<'a> From<Term<'a>> for Word<'a> {
    #[inline]
    fn from(term: Term<'a>) -> Self {
        Word(term.as_c_arg(), PhantomData)
    }
}

impl<'a> Word<'a> {
    #[inline]
    pub fn term(self, env: Env<'a>) -> Term<'a> {
        // SAFETY: `'a` is invariant in both, so this is the environment the term belongs to.
        unsafe { Term::new(env, self.0) }
    }
}

/// The elements of a tuple, in place.
#[derive(Clone, Copy)]
pub struct Elements<'a> {
    env: Env<'a>,
    words: &'a [ErlNifTerm],
}

impl<'a> Elements<'a> {
    /// `None`: not a tuple.
    #[inline]
    pub fn of(tuple: Term<'a>) -> Option<Self> {
        let env = tuple.get_env();
        let (mut count, mut first): (c_int, *const ErlNifTerm) = (0, ptr::null());
        // SAFETY: when the VM returns non-zero, `first` and `count` describe the tuple in the heap
        // of `env`, where terms do not move during its lifetime.
        unsafe {
            let found =
                sys::enif_get_tuple(env.as_c_arg(), tuple.as_c_arg(), &mut count, &mut first);
            (found != 0).then(|| Elements {
                env,
                words: match count {
                    // The empty tuple has no elements to point to.
                    0 => &[],
                    _ => slice::from_raw_parts(first, count as usize),
                },
            })
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<Term<'a>> {
        // SAFETY: an element belongs to the environment of its tuple.
        self.words
            .get(index)
            .map(|&word| unsafe { Term::new(self.env, word) })
    }
}

#[inline]
fn count(words: &[Word<'_>]) -> c_uint {
    c_uint::try_from(words.len()).expect("`convert::limits` allows no more values than this in one")
}

#[inline]
pub fn list<'a>(env: Env<'a>, words: &[Word<'a>]) -> Term<'a> {
    // SAFETY: `Word` is a transparent term of `env`; the VM reads `len` of them.
    unsafe {
        let first = words.as_ptr() as *const ErlNifTerm;
        let made = sys::enif_make_list_from_array(env.as_c_arg(), first, count(words));
        Term::new(env, made)
    }
}

#[inline]
pub fn tuple<'a>(env: Env<'a>, words: &[Word<'a>]) -> Term<'a> {
    // SAFETY: as in `list`.
    unsafe {
        let first = words.as_ptr() as *const ErlNifTerm;
        let made = sys::enif_make_tuple_from_array(env.as_c_arg(), first, count(words));
        Term::new(env, made)
    }
}

/// The largest number of keys of a map that one call may create on our threads: up to this number
/// the VM sorts keys without its scheduler's data, which our threads lack (erlang/otp#8208).
const SORTED_ANYWHERE: usize = 128;

/// Whether a map of this size should be created in a temporary environment: see [`map`].
pub fn map_leaves_garbage(size: usize) -> bool {
    size > SORTED_ANYWHERE && !vm_sorts_anywhere()
}

/// Returns `None` if two keys are the same.
///
/// Where one call cannot create a large map, it grows key by key, and every previous version stays
/// in the environment: about 500 bytes per key.
#[inline]
pub fn map<'a>(env: Env<'a>, keys: &[Word<'a>], values: &[Word<'a>]) -> Option<Term<'a>> {
    assert_eq!(keys.len(), values.len());
    let at_once = match map_leaves_garbage(keys.len()) {
        true => SORTED_ANYWHERE,
        false => keys.len(),
    };
    let mut made = MaybeUninit::uninit();
    // SAFETY: as in `list`, for two arrays of the same length; `made` is a term of `env` when the
    // VM returns non-zero.
    let mut map = unsafe {
        let keys_at = keys.as_ptr() as *const ErlNifTerm;
        let values_at = values.as_ptr() as *const ErlNifTerm;
        let (env_at, made_at) = (env.as_c_arg(), made.as_mut_ptr());
        if sys::enif_make_map_from_arrays(env_at, keys_at, values_at, at_once, made_at) == 0 {
            return None;
        }
        Term::new(env, made.assume_init())
    };
    for (key, value) in keys[at_once..].iter().zip(&values[at_once..]) {
        map = map.map_put(key.term(env), value.term(env)).ok()?;
    }
    // The VM rejects equal keys only in small maps; larger ones lose some and may be corrupt
    // (erlang/otp#10975).
    map.map_size()
        .is_ok_and(|size| size == keys.len())
        .then_some(map)
}

/// True from OTP 27.3 (ERTS 15.2.3) on. Some patch releases of older versions have the correction,
/// too, but cannot be recognised.
fn vm_sorts_anywhere() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut info = MaybeUninit::<sys::ErlNifSysInfo>::zeroed();
        // SAFETY: the VM fills the structure; its strings are literals.
        let version = unsafe {
            sys::enif_system_info(info.as_mut_ptr(), size_of::<sys::ErlNifSysInfo>());
            let text = info.assume_init().erts_version;
            match text.is_null() {
                true => "",
                false => CStr::from_ptr(text).to_str().unwrap_or(""),
            }
        };
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0u32));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next()) >= (15, 2, 3)
    })
}

/// In the order of Erlang's `lists:sort/1`.
pub fn sort(words: &mut [Word<'_>]) {
    // SAFETY: terms of live environments can always be compared.
    words.sort_by(|one, other| unsafe { sys::enif_compare(one.0, other.0) }.cmp(&0));
}

/// `=:=`
pub fn identical(one: Word<'_>, other: Word<'_>) -> bool {
    // SAFETY: as in `sort`.
    unsafe { sys::enif_is_identical(one.0, other.0) != 0 }
}

/// A binary whose memory is `owner`'s; the VM keeps `owner` as long as the binary exists.
///
/// # Safety
/// `bytes` must stay where they are, unchanged, as long as the value in `owner` lives.
pub unsafe fn binary_of<'a, T: Resource>(
    env: Env<'a>,
    owner: &Ref<T>,
    bytes: *const u8,
    size: usize,
) -> Term<'a> {
    // SAFETY: `owner` is a live resource; the rest is the caller's promise.
    unsafe {
        let object = owner.as_object();
        let made = sys::enif_make_resource_binary(env.as_c_arg(), object, bytes.cast(), size);
        Term::new(env, made)
    }
}

/// A term that outlives the environment in which it arrived.
pub struct KeptTerm(Storage);

enum Storage {
    /// A local pid: by far the most frequent kind, and it needs no environment.
    Local(ErlNifTerm),
    /// The copy is the only term of its environment, and none is added.
    Copied(ManuallyDrop<OwnedEnv>, ErlNifTerm),
}

// SAFETY: the environment is only read (compared, hashed, copied from, printed), which the VM
// allows on several threads at once; the thread that drops the value frees it.
unsafe impl Sync for KeptTerm {}

impl KeptTerm {
    pub fn new(term: Term<'_>) -> Self {
        if term.decode::<LocalPid>().is_ok() {
            return KeptTerm(Storage::Local(term.as_c_arg()));
        }
        let env = OwnedEnv::new();
        let copied = env.run(|env| term.in_env(env).as_c_arg());
        KeptTerm(Storage::Copied(ManuallyDrop::new(env), copied))
    }

    /// Calls `look` with the term.
    pub fn with<R>(&self, look: impl FnOnce(Term<'_>) -> R) -> R {
        match &self.0 {
            Storage::Local(pid) => {
                // SAFETY: a local pid needs no environment, and `look` is only to read.
                look(unsafe { Term::new(no_environment(&()), *pid) })
            }
            // SAFETY: the term was copied into this environment by `new`.
            Storage::Copied(env, term) => env.run(|env| look(unsafe { Term::new(env, *term) })),
        }
    }

    fn word(&self) -> Word<'_> {
        match &self.0 {
            Storage::Local(term) | Storage::Copied(_, term) => Word(*term, PhantomData),
        }
    }

    /// The term, copied into `env`.
    #[inline]
    pub fn in_env<'a>(&self, env: Env<'a>) -> Term<'a> {
        match &self.0 {
            // SAFETY: as in `with`.
            Storage::Local(pid) => unsafe { Term::new(env, *pid) },
            Storage::Copied(..) => self.with(|term| term.in_env(env)),
        }
    }
}

impl Drop for KeptTerm {
    fn drop(&mut self) {
        if let Storage::Copied(env, _) = &mut self.0 {
            // A forked copy has no VM to return it to.
            if !forked::is_copy() {
                // SAFETY: dropped once, here.
                unsafe { ManuallyDrop::drop(env) };
            }
        }
    }
}

/// `=:=`
impl PartialEq for KeptTerm {
    fn eq(&self, other: &Self) -> bool {
        identical(self.word(), other.word())
    }
}

fn no_environment<'a>(marker: &'a ()) -> Env<'a> {
    // SAFETY: only for terms that belong to no environment.
    unsafe { Env::new(marker, ptr::null_mut()) }
}

/// Decodes the external format; unlike rustler's safe call, this may create an atom.
pub fn new_from_external<'a>(env: Env<'a>, bytes: &[u8]) -> Option<Term<'a>> {
    // SAFETY: the VM checks what it decodes; "trusted" is about atoms and the like only.
    unsafe { env.binary_to_term_trusted(bytes) }.map(|(term, _)| term)
}
