//! What can go wrong with a call or a binding. Each error first answers: did the procedure run?

use std::fmt;
use std::io;
use std::time::Duration;
use stoop_marshal::{DecodeError, EncodeError};
pub use stoop_wire::{FailureCode, RefusalCode, UnbindReason};

/// Why a call gave no result.
///
/// `{:?}` shows the same sentence as `{}`, so that `unwrap` and a `main` that returns it say what to do.
#[non_exhaustive]
pub enum CallError {
    /// It never left. The procedure did not run.
    NotSent(SendError),
    /// The server would not run it. The procedure did not run.
    Refused(Refusal),
    /// The procedure ran, but its result cannot come back: it panicked, or its result is too large or no longer held.
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
            _ => "",
        })
    }
}

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

debug_as_display!(CallError, BindError, ListenError);

fn with_detail(f: &mut fmt::Formatter<'_>, detail: &str) -> fmt::Result {
    if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
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

/// Why a client could not be bound to a server. No procedure has run.
///
/// `{:?}` shows the same sentence as `{}`.
#[non_exhaustive]
pub enum BindError {
    /// The text is no address that can be bound to.
    Uri(UriError),
    /// The server could not be reached.
    Unreachable {
        /// The address as it was given.
        server: String,
        /// What the system said.
        cause: io::Error,
    },
    /// Nobody answered in time.
    NoAnswer {
        /// The address as it was given.
        server: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The server does not export the interface.
    NoSuchInterface {
        /// The address as it was given.
        server: String,
        /// The interface asked for.
        interface: &'static str,
        /// Names of the interfaces that it exports.
        exported: String,
    },
    /// Caller and server declare a procedure differently.
    Mismatch {
        /// The interface.
        interface: &'static str,
        /// The procedure.
        procedure: &'static str,
        /// As the caller declares it.
        ours: String,
        /// As the server declares it; empty if it has no procedure of that name.
        theirs: String,
    },
    /// The server takes no more bindings, or is shutting down.
    Refused {
        /// The address as it was given.
        server: String,
        /// Its reason.
        why: &'static str,
    },
    /// What answered does not speak this protocol.
    Protocol {
        /// The address as it was given.
        server: String,
        /// What is wrong with its answer.
        why: String,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(why) => write!(f, "{why}"),
            Self::Unreachable { server, cause } if is_refusal(cause) => {
                write!(
                    f,
                    "nobody listens at {server} ({cause}); is the server running, and at that address?"
                )?;
                f.write_str(if is_abstract(server) { ELSEWHERE } else { "" })
            }
            Self::Unreachable { server, cause } if is_forbidden(server, cause) => write!(
                f,
                "{server} cannot be reached: {cause}; the permissions of the socket's file and of its directory say who may \
                 connect: whoever may write to the file (chmod, chown)"
            ),
            Self::Unreachable { server, cause } if cause.raw_os_error() == Some(NO_DESCRIPTOR) => {
                write!(f, "{server} cannot be reached: {cause}; raise the limit of this process (ulimit -n)")
            }
            Self::Unreachable { server, cause } => write!(f, "{server} cannot be reached: {cause}"),
            Self::NoAnswer { server, waited } => write!(
                f,
                "no answer from {server} within {waited:.1?}; is a Stoop server running there, and does a firewall let \
                 its packets through?"
            ),
            Self::NoSuchInterface { server, interface, exported } if exported.is_empty() => {
                write!(
                    f,
                    "{server} exports no interface, so not {interface} either; call Server::export before start"
                )
            }
            Self::NoSuchInterface { server, interface, exported } => {
                write!(f, "{server} exports no interface {interface}; it exports {exported}")
            }
            Self::Mismatch { interface, procedure, ours, theirs } if theirs.is_empty() => write!(
                f,
                "the server's {interface} has no procedure {procedure}; this caller has `{ours}`: is the server older?"
            ),
            Self::Mismatch { interface, procedure, ours, theirs } => write!(
                f,
                "caller and server declare {interface}::{procedure} differently\n  caller: {ours}\n  server: {theirs}\n\
                 build both from the same interface"
            ),
            Self::Refused { server, why } => write!(f, "{server} will not bind: {why}"),
            Self::Protocol { server, why } => write!(f, "what answers at {server} is no Stoop server: {why}"),
        }
    }
}

impl BindError {
    /// The same once more: one binding that is lost is the end of many calls.
    pub(crate) fn copied(&self) -> Self {
        match self {
            Self::Uri(why) => Self::Uri(why.clone()),
            Self::Unreachable { server, cause } => {
                let again = cause.raw_os_error().map(io::Error::from_raw_os_error);
                let again = again.unwrap_or_else(|| io::Error::new(cause.kind(), cause.to_string()));
                Self::Unreachable { server: server.clone(), cause: again }
            }
            Self::NoAnswer { server, waited } => Self::NoAnswer { server: server.clone(), waited: *waited },
            Self::NoSuchInterface { server, interface, exported } => {
                let (server, exported) = (server.clone(), exported.clone());
                Self::NoSuchInterface { server, interface, exported }
            }
            Self::Mismatch { interface, procedure, ours, theirs } => {
                let (ours, theirs) = (ours.clone(), theirs.clone());
                Self::Mismatch { interface, procedure, ours, theirs }
            }
            Self::Refused { server, why } => Self::Refused { server: server.clone(), why },
            Self::Protocol { server, why } => Self::Protocol { server: server.clone(), why: why.clone() },
        }
    }
}

/// EMFILE.
const NO_DESCRIPTOR: i32 = 24;

/// What whoever finds nobody at an abstract name may not think of.
const ELSEWHERE: &str = " Such a name is seen in one network namespace (container) only; for others, let the server listen at \
                         shm:/PATH or unix:PATH, and mount that directory";

fn is_refusal(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Whether an address is a name that the kernel keeps for each network namespace.
fn is_abstract(server: &str) -> bool {
    server.starts_with("unix:@") || server.strip_prefix("shm:").is_some_and(|name| !name.contains('/'))
}

fn is_forbidden(server: &str, cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::PermissionDenied
        && (server.starts_with("unix:") || server.starts_with("shm:"))
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Uri(why) => Some(why),
            Self::Unreachable { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Why there is no buffer ([`InPlace`](crate::InPlace)).
///
/// `{:?}` shows the same sentence as `{}`.
#[non_exhaustive]
pub enum InPlaceError {
    /// The memory that is shared with the server for buffers has no free part that is long enough.
    Full(stoop_shm::Full),
    /// The server is gone, and there is no binding to another.
    Unbound(Box<BindError>),
}

impl fmt::Display for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(full) => write!(
                f,
                "there is no room for the buffer: {full}; drop buffers that are not needed any more, or set `Server::in_place` higher"
            ),
            Self::Unbound(why) => write!(f, "there is no memory for the buffer: {why}"),
        }
    }
}

impl fmt::Debug for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for InPlaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Full(why) => Some(why),
            Self::Unbound(why) => Some(why),
        }
    }
}

/// Why a server does not listen.
///
/// `{:?}` shows the same sentence as `{}`.
#[non_exhaustive]
pub enum ListenError {
    /// The text is no address that can be listened at.
    Uri(UriError),
    /// The system would not.
    Io {
        /// The address as it was given.
        uri: String,
        /// What the system said.
        cause: io::Error,
    },
    /// There is nothing to serve, or nowhere to do it.
    Incomplete(&'static str),
    /// The machine cannot be kept awake, as [`Server::low_latency`](crate::Server::low_latency) asks for.
    LowLatency(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(why) => write!(f, "{why}"),
            Self::Io { uri, cause } => {
                write!(f, "cannot listen at {uri}: {cause}")?;
                match cause.kind() {
                    io::ErrorKind::AddrInUse => {
                        f.write_str("; another server runs there: stop it, or choose another address")
                    }
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("; this machine does not have that address")
                    }
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; choose a port from 1024 on, or a path you may write to")
                    }
                    _ => Ok(()),
                }
            }
            Self::LowLatency(cause) => write!(
                f,
                "the machine cannot be kept awake (/dev/cpu_dma_latency: {cause}); let this user write there, or leave \
                 Server::low_latency out"
            ),
            Self::Incomplete(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Uri(why) => Some(why),
            Self::Io { cause, .. } | Self::LowLatency(cause) => Some(cause),
            Self::Incomplete(_) => None,
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriError {
    /// The text.
    pub uri: String,
    pub(crate) why: &'static str,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is no address: {}", self.uri, self.why)
    }
}

impl std::error::Error for UriError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_says(error: &CallError, first: &str, then: &str) {
        let text = error.to_string();
        assert!(text.starts_with(first), "{text}");
        let advice = text.rsplit_once("; ").map_or("", |(_, advice)| advice);
        assert!(!advice.is_empty() && advice.contains(then), "{text}");
        assert_eq!(text, format!("{error:?}"));
    }

    #[test]
    fn errors_of_calls_say_whether_it_ran_and_then_what_to_do() {
        let detail = || "what the server adds".to_string();
        for code in (1..=11).map(RefusalCode::from_code).filter(|code| *code != RefusalCode::Cancelled) {
            let refused = CallError::Refused(Refusal { code, detail: detail() });
            assert_says(&refused, "refused, so the procedure did not run: ", "");
        }
        for code in (1..=3).map(FailureCode::from_code) {
            let failed = CallError::Failed(Failure { code, detail: detail() });
            assert_says(&failed, "the procedure ran, but there is no result: ", "");
        }
        for cause in [
            UnknownCause::DeadlinePassed,
            UnknownCause::ServerSilent,
            UnknownCause::PortClosed,
            UnknownCause::ServerRestarted,
            UnknownCause::ConnectionLost,
            UnknownCause::EndedByServer(UnbindReason::NoResources),
            UnknownCause::GivenUp(UnbindReason::Owing),
        ] {
            let unknown = CallError::Unknown { transmissions: 2, waited: Duration::from_millis(57), cause };
            assert_says(&unknown, "it is not known whether the procedure ran: ", "only if it may run twice");
            assert!(unknown.to_string().contains("(sent 2 times in 57.0ms)"));
        }
        let in_flight = 1024;
        for why in [SendError::TooManyCalls { in_flight }, SendError::Closed] {
            assert_says(&CallError::NotSent(why), "not sent, so the procedure did not run: ", "bind");
        }
    }
}
