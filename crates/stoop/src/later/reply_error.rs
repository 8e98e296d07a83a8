//! Why an answer that came later has not been given.

use std::fmt;

/// Why an answer has not been given to its caller. The answer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The caller has cancelled the call: it waits no longer.
    Cancelled,
    /// The deadline of the call has passed. Its caller has learnt that the procedure finished too late.
    DeadlinePassed,
    /// The connection to the caller, or the caller, has ended.
    CallerGone,
    /// The server has ended.
    ServerEnded,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the answer reached nobody: its caller has cancelled the call",
            Self::DeadlinePassed => "the answer reached nobody: the deadline of its call has passed",
            Self::CallerGone => "the answer reached nobody: its caller has gone",
            Self::ServerEnded => "the answer reached nobody: the server has ended",
        })
    }
}

impl std::error::Error for ReplyError {}
