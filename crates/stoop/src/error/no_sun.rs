//! Errors of Sun RPC where the cargo feature `onc` is off: there are none.

use crate::error::Ran;
use std::fmt;

/// Why a server of Sun RPC gave no result: never without the cargo feature `onc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SunError {}

/// The fault in an answer of Sun RPC: none without the cargo feature `onc`.
pub type SunFault = SunError;

/// Why arguments have no XDR form: never without the cargo feature `onc`.
pub type XdrError = SunError;

impl SunError {
    /// Whether the procedure ran.
    pub fn ran(&self) -> Ran {
        match *self {}
    }
}

impl fmt::Display for SunError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for SunError {}
