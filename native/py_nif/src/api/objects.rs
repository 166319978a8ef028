//! Python objects that Erlang has by reference.

use rustler::{Encoder, Env, Term};

use crate::beam::resource::Ref;
use crate::convert::PythonObject;

/// The name of the object's type when the reference was created. Does not wait for Python.
#[rustler::nif]
fn object_type<'a>(env: Env<'a>, object: Ref<PythonObject>) -> Term<'a> {
    object.type_name().encode(env)
}
