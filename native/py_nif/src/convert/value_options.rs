//! The option `values` of a request: the forms of values that a program can choose. They apply to
//! its arguments and to its result. The setting `none` chooses one of them for the node.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustler::{Atom, Encoder, Env, Term};

use crate::atoms;

/// The default is what the tables of `docs/values.md` say. What a program sends without options of its
/// own has the forms [`of_node`](ValueOptions::of_node); what erlang_loop sends itself does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueOptions {
    pub none: Nothing,
    /// `inf`, `'-inf'` and `nan` are atoms. Otherwise they cannot cross: Erlang has no such floats.
    pub non_finite_atoms: bool,
    /// A namedtuple becomes a map of its fields, as a dataclass does.
    pub namedtuple_maps: bool,
}

/// The atom that `None` becomes. Its argument becomes `None`, too: of these, `null` does only here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nothing {
    #[default]
    None,
    Nil,
    Null,
    Undefined,
}

/// The setting `none`, as an index of [`Nothing::ALL`]. Relaxed: set when the application starts.
static OF_NODE: AtomicU8 = AtomicU8::new(0);

impl Nothing {
    const ALL: [Self; 4] = [Self::None, Self::Nil, Self::Null, Self::Undefined];

    pub fn of(term: Term<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|nothing| nothing.atom() == term)
    }

    pub fn set_for_node(self) {
        OF_NODE.store(self as u8, Relaxed);
    }

    fn atom(self) -> Atom {
        match self {
            Self::None => atoms::none(),
            Self::Nil => atoms::nil(),
            Self::Null => atoms::null(),
            Self::Undefined => atoms::undefined(),
        }
    }

    #[inline]
    pub fn encode(self, env: Env<'_>) -> Term<'_> {
        self.atom().encode(env)
    }
}

impl ValueOptions {
    #[inline]
    pub fn of_node() -> Self {
        ValueOptions {
            none: Nothing::ALL[usize::from(OF_NODE.load(Relaxed))],
            ..Self::default()
        }
    }

    /// Whether an argument is `None` although `null` is an atom like any other in the tables.
    #[inline]
    pub fn is_null(&self, atom: Atom) -> bool {
        self.none == Nothing::Null && atom == atoms::null()
    }
}
