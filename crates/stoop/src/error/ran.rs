//! Whether a procedure ran.

/// Whether a procedure ran, as far as a caller without a result can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ran {
    /// It did not, and will not for this call. Calling again is safe.
    No,
    /// It did, once.
    Yes,
    /// It may have. Calling again may run it a second time.
    Perhaps,
}
