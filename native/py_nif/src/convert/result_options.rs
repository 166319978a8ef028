//! How a caller wants the result of its request: options of `py:call/5` and similar functions.
//! `requests/options.rs` reads them, and every item and result of the request is converted so.

use super::value_options::ValueOptions;

/// The default is what a request without options gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultOptions {
    pub returned: Returned,
    pub values: ValueOptions,
}

/// The option `return`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returned {
    #[default]
    Value,
    /// `ref`: a reference to the object, not its value.
    Reference,
    /// `each`: the items of a list, each with a result of its own.
    Each,
}
