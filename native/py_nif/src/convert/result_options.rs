//! How a caller wants the result of its request: options of `py:call/5` and similar functions.
//! `requests/options.rs` reads them, and every item and result of the request is converted so.

/// The default is what a request without options gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultOptions {
    /// `return => ref`: a reference to the object, not its value.
    pub by_reference: bool,
}
