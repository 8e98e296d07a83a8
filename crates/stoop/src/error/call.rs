//! Why a call gave no result.

use super::{BindError, debug_as_display, with_detail};
use std::fmt;
use std::io;
use std::time::Duration;
use stoop_marshal::{DecodeError, EncodeError};
use stoop_wire::{FailureCode, RefusalCode, UnbindReason};

/// Why a call gave no result.
///
/// `{:?}` shows the same sentence as `{}`, so that `unwrap` and a `main` that returns it say what to do.
#[non_exhaustive]
pub enum CallError {
    /// It never left. The procedure did not run.
    NotSent(SendError),
    /// The server would not run it. The procedure did not run.
    Refused(Refusal),
    /// The procedure ran, but its result cannot come back: it panicked, it returned at or after the call's deadline, or its result is
    /// too large or no longer held.
    Failed(Failure),
    /// The procedure may or may not have run: nothing was heard in time, or the server was restarted meanwhile.
    Unknown {
        /// Times that the call was sent.
        transmissions: u32,
        /// Time since it was first sent.
        waited: Duration,
        /// Why the caller stopped waiting.
        cause: UnknownCause,
    },
    /// The peer broke the protocol: it ran something, but its result is not of the procedure's type. Believe nothing
    /// it said.
    Peer(DecodeError),
}

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

impl CallError {
    /// Whether the procedure ran.
    pub fn ran(&self) -> Ran {
        match self {
            Self::NotSent(_) | Self::Refused(_) => Ran::No,
            Self::Failed(_) => Ran::Yes,
            Self::Unknown { .. } | Self::Peer(_) => Ran::Perhaps,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) => write!(f, "not sent, so the procedure did not run: {why}"),
            Self::Refused(why) => write!(f, "refused, so the procedure did not run: {why}"),
            Self::Failed(why) => write!(f, "the procedure ran, but there is no result: {why}"),
            Self::Unknown { transmissions, waited, cause } => {
                let times = Times(*transmissions);
                write!(
                    f,
                    "it is not known whether the procedure ran: {cause} (sent {times} in {waited:.1?})"
                )?;
                f.write_str(match cause {
                    // The result is another's.
                    UnknownCause::Forked => "",
                    UnknownCause::DeadlinePassed => {
                        "; allow it more time (`timeout`), and call again only if it may run twice"
                    }
                    _ => "; call again only if it may run twice",
                })
            }
            Self::Peer(why) => write!(
                f,
                "the server broke the protocol, and whether the procedure ran is not known: its result is no value of \
                 the procedure's type ({why}); is it built from the same interface?"
            ),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotSent(SendError::Io(why)) => Some(why),
            Self::NotSent(SendError::Arguments(why)) => Some(why),
            Self::NotSent(SendError::Bind(why)) => Some(why),
            Self::Peer(why) => Some(why),
            _ => None,
        }
    }
}

/// "once", "7 times".
struct Times(u32);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("once"),
            n => write!(f, "{n} times"),
        }
    }
}

/// Why a call never left.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The arguments cannot travel.
    Arguments(EncodeError),
    /// Its time was over before it was sent: the timeout is zero, or the deadline that this call inherited from the call
    /// being served had passed.
    DeadlinePassed,
    /// The system would not send.
    Io(io::Error),
    /// The binding had been lost and could not be made again.
    Bind(Box<BindError>),
    /// So many calls of this binding are in flight that the server takes no more.
    TooManyCalls {
        /// How many.
        in_flight: usize,
    },
    /// The server of a `local:` binding has been shut down.
    Closed,
    /// An earlier one-way call of this thread on this client had not returned by the deadline of this call, which is not sent
    /// before.
    OneWayPending,
    /// An earlier one-way call of this thread on this client has ended without its outcome being known: it may still be running,
    /// so that this call could overtake it. Reported once; the thread's next call is sent.
    OneWayUnknown,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(why) => write!(f, "{why}"),
            Self::DeadlinePassed => f.write_str(
                "its time was over before it was sent: its timeout is zero, or the call being served has used up its own",
            ),
            Self::Io(why) => write!(f, "the system would not send: {why}"),
            Self::Bind(why) => write!(f, "the binding was lost and could not be made again: {why}"),
            Self::TooManyCalls { in_flight } => {
                write!(f, "{in_flight} calls of this binding are in flight; wait for some of them, or bind once more")
            }
            Self::Closed => f.write_str("the server has been shut down; bind to another"),
            Self::OneWayPending => f.write_str(
                "an earlier one-way call of this thread had not returned by this call's deadline; allow this call more time, \
                 or declare the procedure `#[one_way(unordered)]`",
            ),
            Self::OneWayUnknown => f.write_str(
                "it is not known whether an earlier one-way call of this thread has run or still runs, and this call could \
                 overtake it; call again to go on all the same",
            ),
        }
    }
}

/// Why a server would not run a procedure.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The reason.
    pub code: RefusalCode,
    /// What the server adds to it; often empty.
    pub detail: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        with_detail(f, &self.detail)?;
        match self.code {
            RefusalCode::Overloaded => f.write_str("; try again later, or give the server more workers"),
            RefusalCode::DeadlinePassed => f.write_str("; allow the call more time"),
            RefusalCode::ShuttingDown => f.write_str("; bind to another server"),
            RefusalCode::Incomplete => f.write_str("; call again, and allow the call more time"),
            RefusalCode::UnknownBinding => f.write_str("; bind again"),
            RefusalCode::UnknownProcedure | RefusalCode::BadArguments => {
                f.write_str("; build both from the same interface")
            }
            RefusalCode::MessageTooLarge => {
                f.write_str("; send it in pieces, or let the server take more (`Server::max_message`)")
            }
            RefusalCode::TooManyLanes => f.write_str("; begin fewer calls at once, or bind once more"),
            RefusalCode::ResultTooLarge => f.write_str("; ask for it in pieces"),
            // Whoever has cancelled it knows; a later version's reason speaks for itself.
            _ => Ok(()),
        }
    }
}

/// Why there is no result of a procedure that ran.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The reason.
    pub code: FailureCode,
    /// What the server adds to it: of a panic, its message.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        with_detail(f, &self.detail)?;
        f.write_str(match self.code {
            FailureCode::Panicked => "; the server's standard error tells where",
            FailureCode::ResultTooLarge => {
                "; return it in pieces, or let both ends take more (`max_message`)"
            }
            FailureCode::ResultGone => "; ask for what it has done before you call again",
            FailureCode::FinishedTooLate => {
                "; allow it more time (`timeout`), and ask for what it has done before you call again"
            }
            _ => "",
        })
    }
}

/// Why a caller stopped waiting without knowing the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownCause {
    /// The call's deadline passed.
    DeadlinePassed,
    /// The server had acknowledged the call and then fell silent.
    ServerSilent,
    /// The server's machine says that nobody listens at the port any more.
    PortClosed,
    /// The server was restarted while the call was on its way; the one before may have run it.
    ServerRestarted,
    /// The connection was closed or broke.
    ConnectionLost,
    /// It was begun by the process from which this one was forked, and ends there.
    Forked,
    /// Over shared memory: the server ended the binding, and said why.
    EndedByServer(UnbindReason),
    /// Over shared memory: this end gave the binding up.
    GivenUp(UnbindReason),
}

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndedByServer(why) => return write!(f, "the server ended the binding: {why}"),
            Self::GivenUp(why) => return write!(f, "this end gave the binding up: {why}"),
            Self::Forked => "this process was forked after the call was begun; its parent gets the result",
            Self::DeadlinePassed => "its deadline passed",
            Self::ServerSilent => "the server had taken it and then fell silent",
            Self::PortClosed => "the server is gone: nobody listens at its port any more",
            Self::ServerRestarted => "the server was restarted meanwhile",
            Self::ConnectionLost => "the connection to the server was lost",
        })
    }
}

/// What a procedure that can fail gives its caller instead of a result.
#[derive(Debug)]
pub enum Error<E> {
    /// The procedure ran and returned this error.
    Application(E),
    /// The call itself gave no result.
    Call(CallError),
}

impl<E> From<CallError> for Error<E> {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Application(error) => Some(error),
            Self::Call(error) => Some(error),
        }
    }
}

debug_as_display!(CallError);

#[cfg(test)]
mod tests;
