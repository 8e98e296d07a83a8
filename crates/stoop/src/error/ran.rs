//! Whether a procedure ran.

use std::fmt;

/// Whether a procedure ran, as far as a caller without a result can know.
///
/// ```
/// use stoop::{CallError, Ran};
///
/// /// Which of the servers is to be asked next; `None`: another call could run the procedure a second time.
/// fn next<'a>(servers: &'a [&str], tried: usize, error: &CallError) -> Option<&'a str> {
///     match error.ran() {
///         Ran::No => servers.get(tried + 1).copied(),
///         Ran::Yes | Ran::Perhaps => None,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ran {
    /// It did not, and will not for this call. Calling again is safe.
    No,
    /// It did, once.
    Yes,
    /// It may have. Calling again may run it a second time.
    Perhaps,
}

/// `no`, `yes` or `perhaps`.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::Yes => "yes",
            Self::Perhaps => "perhaps",
        })
    }
}
