//! Decides whether it is certain that a call without a result did not run.
//!
//! Sun RPC has no word of a server about a call that is sent again, nor about its restart. So a caller knows that a call
//! did not run only if it sent the call once, and the answer to that one transmission says so: a refusal by the server,
//! or the report of its machine that the port is closed. After a second transmission, an earlier one may have run.
//!
//! The report of a closed port does not say which datagram met it. So it counts only on a socket whose earlier calls were
//! all sent once and answered.
//!
//! This presumes that the network does not repeat a datagram while the server ends or starts: one copy could run, and
//! another meet a closed port, or a server that refuses it.

use crate::message::{Accepted, ReplyBody};

/// How a call ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server replied that it does not run the call: PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS,
    /// RPC_MISMATCH or AUTH_ERROR.
    Refused,
    /// The server's machine reported that the port is closed.
    PortClosed,
    /// The server failed (SYSTEM_ERR), or its reply makes no sense.
    Failed,
    /// Nothing was heard: the deadline passed, or the connection was lost.
    Silence,
}

impl Ending {
    /// How a call ended that has this reply; `None`: with its results.
    pub fn of(reply: &ReplyBody<'_>) -> Option<Self> {
        match reply {
            ReplyBody::Accepted { status: Accepted::Success, .. } => None,
            ReplyBody::Accepted { status: Accepted::SystemError, .. } => Some(Self::Failed),
            ReplyBody::Accepted { .. } | ReplyBody::Denied(_) => Some(Self::Refused),
        }
    }

    /// Whether it is certain that a call did not run which was sent so many times, and ended so.
    pub fn did_not_run(self, transmissions: u32) -> bool {
        matches!(self, Self::Refused | Self::PortClosed) && transmissions == 1
    }
}
