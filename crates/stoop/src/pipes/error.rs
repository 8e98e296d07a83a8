//! Why a pipe gives or takes no more items.

use crate::error::{CallError, UnknownCause};
use std::fmt;
use std::time::Duration;
use stoop_marshal::{DecodeError, EncodeError};

/// Why a pipe gives or takes no more items. It is repeated by each later operation, except [`NoRoom`](Self::NoRoom),
/// [`TooLarge`](Self::TooLarge) and [`Encode`](Self::Encode), which say something of one item.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PipeError {
    /// The receiver at the other end was dropped, or stopped: it wants no more.
    Stopped,
    /// The sender at the other end was dropped without [`finish`](crate::Sender::finish), or its call has failed: items are missing.
    Aborted,
    /// The call has been answered; [`Pending::wait`](crate::Pending::wait) gives its result.
    Ended,
    /// The call has been cancelled: its handle was dropped.
    Cancelled,
    /// The reader at the other end has left no room for so long. The item was not sent.
    NoRoom {
        /// How long this end has waited.
        waited: Duration,
    },
    /// The item is longer than the two ends allow ([`BindOptions::max_message`](crate::BindOptions::max_message)). It was not sent.
    TooLarge {
        /// Bytes of the longest item.
        most: usize,
    },
    /// The item cannot be sent.
    Encode(EncodeError),
    /// The call has ended without a result, for this reason. [`Pending::wait`](crate::Pending::wait) names the procedure and the server, too.
    Lost(Box<CallError>),
    /// The other end broke the protocol: what it sent is no item of this type.
    Peer(DecodeError),
}

impl PipeError {
    /// The call has ended without a result, for this reason.
    pub(crate) fn lost(cause: UnknownCause) -> Self {
        let waited = Duration::ZERO;
        Self::Lost(Box::new(CallError::Unknown { transmissions: 1, waited, cause, callee: None }))
    }
}

impl fmt::Display for PipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the receiver at the other end of the pipe wants no more items"),
            Self::Aborted => f.write_str(
                "the sender at the other end of the pipe has given up before its end: items are missing",
            ),
            Self::Ended => f.write_str("the call has been answered; its handle gives the result"),
            Self::Cancelled => f.write_str("the call has been cancelled"),
            Self::NoRoom { waited } => write!(
                f,
                "the reader at the other end of the pipe has taken nothing for {waited:?}, and there is no room for another item; \
                 read there, or allow more time (`with_timeout`; at a server `Limits::pipe_step`)"
            ),
            Self::TooLarge { most } => write!(f, "an item of a pipe has at most {most} bytes"),
            Self::Encode(why) => write!(f, "the item cannot be sent: {why}"),
            Self::Lost(why) => write!(f, "the call of the pipe has ended: {why}"),
            Self::Peer(why) => write!(f, "what came through the pipe is no item: {why}"),
        }
    }
}

impl std::error::Error for PipeError {}
