//! Errors of calls and bindings. Each error first answers: did the procedure run?
//!
//! | operation | its error | the reasons in it |
//! |---|---|---|
//! | a call | [`CallError`]; [`Error`] if the procedure returns a `Result` | [`SendError`], [`Refusal`], [`Failure`], [`UnknownCause`], [`DecodeError`] |
//! | `bind`, `bind_with` | [`BindError`] | [`UriError`] |
//! | `close`, [`Binding::flush`](crate::Binding::flush) | [`CloseError`] | [`CallError`] |
//! | `in_place` | [`InPlaceError`] | [`Full`], [`BindError`] |
//! | [`Server::listen`](crate::Server::listen), [`start`](crate::Server::start), [`run`](crate::Server::run) | [`ListenError`] | [`UriError`] |
//!
//! Each can be cloned and passed to another thread. `{}` and `{:?}` print the same sentence: what happened, and what to do.

pub(crate) mod bind;
pub(crate) mod call;
pub(crate) mod callee;
pub(crate) mod close;
mod kind;
pub(crate) mod listen;
pub(crate) mod metadata;
pub(crate) mod ran;
#[cfg(feature = "seal")]
pub(crate) mod security;
pub(crate) mod send;
#[cfg_attr(not(feature = "onc"), path = "error/no_sun.rs")]
pub(crate) mod sun;

pub use crate::error::bind::{BindError, InPlaceError};
pub(crate) use crate::error::bind::{CROWDED, SHUTTING_DOWN};
pub use crate::error::call::{CallError, Error, Failure, Refusal, UnknownCause};
pub use crate::error::callee::Callee;
pub use crate::error::close::CloseError;
pub use crate::error::listen::{ListenError, UriError};
pub use crate::error::metadata::MetadataError;
pub use crate::error::ran::Ran;
#[cfg(feature = "seal")]
pub use crate::error::security::SecurityError;
pub use crate::error::send::SendError;
pub use crate::error::sun::{SunError, SunFault, XdrError};
use std::fmt;
use std::io;
pub use stoop_marshal::{DecodeError, EncodeError};
pub use stoop_shm::Full;
pub use stoop_wire::{FailureCode, RefusalCode, UnbindReason};

/// Errors end in the hands of `unwrap` and of a `main` that returns them, which show them by `Debug`.
macro_rules! debug_as_display {
    ($($error:ty),*) => {
        $(impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        })*
    };
}
use debug_as_display;

fn with_detail(f: &mut fmt::Formatter<'_>, detail: &str) -> fmt::Result {
    if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
}

/// The addresses that have these schemes, in words: `udp: and ether: addresses`.
fn addresses_of(schemes: &[&str]) -> String {
    let names: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}:")).collect();
    format!("{} addresses", names.join(" and "))
}

/// The same error once more: its code, or its kind and text.
fn cloned(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Whether the process, or the machine, may open no more files: EMFILE, ENFILE.
fn needs_descriptor(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(24 | 23))
}
