//! Finds a `Result` that a procedure returns under another name.
//!
//! A macro sees `Answer<u32>`, and not that this is an alias of `Result<u32, E>`; its client would return a `Result` in a `Result`. The
//! compiler knows the type: emitted code lets it check that.

use std::marker::PhantomData;

/// Has a constant `IS_RESULT` for each type: for `Result` the inherent one, which goes before that of the trait.
#[derive(Debug)]
pub struct Returned<R>(PhantomData<R>);

impl<T, E> Returned<Result<T, E>> {
    /// It is.
    pub const IS_RESULT: bool = true;
}

/// Gives the constant to all other types.
pub trait AnyReturned {
    /// It is not.
    const IS_RESULT: bool = false;
}

impl<R> AnyReturned for Returned<R> {}

/// Whether a type that is not written as `Result` is one.
#[derive(Debug)]
pub struct Hides<const RESULT: bool>;

/// A type that is what its name says.
#[diagnostic::on_unimplemented(
    message = "this procedure returns a `Result` under another name",
    label = "a type alias hides the `Result` from `#[stoop::interface]`",
    note = "write the procedure's type as `Result<T, E>`: its client then returns `Result<T, stoop::Error<E>>`"
)]
pub trait HidesNothing {}

impl HidesNothing for Hides<false> {}

/// Compiles for types that hide nothing.
pub const fn check_returned<H: HidesNothing>() {}
