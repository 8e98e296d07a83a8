//! Why a call gave no result.

use crate::error::callee::Callee;
use crate::error::{BindError, Ran, SendError, SunError, debug_as_display, with_detail};
use std::fmt;
use std::time::Duration;
use stoop_marshal::DecodeError;
use stoop_wire::{FailureCode, RefusalCode, Refused, RetryAfter, UnbindReason};

/// Why a call gave no result.
///
/// `{:?}` shows the same sentence as `{}`, so that `unwrap` and a `main` that returns it say what to do.
///
/// ```
/// use stoop::{CallError, Ran};
///
/// /// Makes a call, and once more if it is certain that the procedure did not run.
/// fn twice<T>(call: impl Fn() -> Result<T, CallError>) -> Result<T, CallError> {
///     match call() {
///         Err(error) if error.ran() == Ran::No => call(),
///         outcome => outcome,
///     }
/// }
///
/// # #[stoop::interface]
/// # trait Test { fn null(&self); }
/// # let lazy = stoop::BindOptions::new().lazy();
/// let client = TestClient::bind_with("local:not-there", &lazy).unwrap();
/// let error = twice(|| client.null()).unwrap_err();
/// assert_eq!(error.ran(), Ran::No);
/// assert!(!error.is_timeout());
/// assert!(error.to_string().starts_with("Test.null at local:not-there: not sent, so the procedure did not run: "));
/// ```
///
/// Each variant has, besides its reason, the procedure and the server of the call, for [`callee`](Self::callee) and the printed sentence.
/// Patterns pass it over: `CallError::NotSent(why, ..)`.
#[derive(Clone)]
#[non_exhaustive]
pub enum CallError {
    /// The client did not send the call. The procedure did not run.
    NotSent(SendError, Option<Box<Callee>>),
    /// The server did not run the procedure, and says why.
    Refused(Refusal, Option<Box<Callee>>),
    /// The procedure ran, but its result cannot come back: it panicked, it returned at or after the call's deadline, or its result is
    /// too large or no longer held.
    Failed(Failure, Option<Box<Callee>>),
    /// The procedure may or may not have run: nothing was heard in time, or the server was restarted meanwhile.
    Unknown {
        /// Times that the call was sent.
        transmissions: u32,
        /// Time since it was first sent.
        waited: Duration,
        /// Why the caller stopped waiting.
        cause: UnknownCause,
        /// The procedure and the server.
        callee: Option<Box<Callee>>,
    },
    /// The peer broke the protocol: it ran something, but its result is not of the procedure's type. Believe nothing
    /// it said.
    Peer(DecodeError, Option<Box<Callee>>),
    /// Over Sun RPC: the server refused the call or failed, or its reply makes no sense.
    Sun(SunError, Option<Box<Callee>>),
}

impl CallError {
    /// For stubs: the error of a call whose result does not decode.
    #[cold]
    #[doc(hidden)]
    pub fn undecoded(why: DecodeError) -> Self {
        let DecodeError::NoMemory = why else { return Self::Peer(why, None) };
        Self::failed(Failure {
            code: FailureCode::ResultTooLarge,
            detail: "the caller's process has no memory left for its values".into(),
        })
    }

    /// Whether the procedure ran.
    ///
    /// ```
    /// use stoop::{CallError, Ran};
    ///
    /// /// A booking must not be made twice.
    /// fn book(call: impl Fn() -> Result<u32, CallError>) -> Result<u32, String> {
    ///     call().or_else(|error| match error.ran() {
    ///         Ran::No => call().map_err(|error| error.to_string()), // nothing has happened: once more
    ///         Ran::Yes => Err(format!("it is booked, and the number is lost: {error}")),
    ///         Ran::Perhaps => Err(format!("look whether it is booked: {error}")),
    ///     })
    /// }
    /// # assert_eq!(book(|| Ok(7)), Ok(7));
    /// ```
    pub fn ran(&self) -> Ran {
        match self {
            Self::NotSent(..) | Self::Refused(..) => Ran::No,
            Self::Failed(..) => Ran::Yes,
            Self::Unknown { .. } | Self::Peer(..) => Ran::Perhaps,
            Self::Sun(why, ..) => why.ran(),
        }
    }

    /// Whether the call ended because its time was over, before it was sent, at the server, or while the caller waited. A longer
    /// [timeout](crate::BindOptions::timeout) may help. [`ran`](Self::ran) says whether calling again is safe.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lazy = stoop::BindOptions::new().lazy();
    /// # let client = AdderClient::bind_with("local:nobody", &lazy)?;
    /// let error = client.with_timeout(std::time::Duration::ZERO).add(1, 2).unwrap_err();
    /// assert!(error.is_timeout());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::NotSent(SendError::DeadlinePassed | SendError::OneWayPending, ..) => true,
            Self::NotSent(SendError::Bind(why), ..) => matches!(**why, BindError::NoAnswer { .. }),
            Self::Refused(refusal, ..) => refusal.code == RefusalCode::DeadlinePassed,
            Self::Failed(failure, ..) => failure.code == FailureCode::FinishedTooLate,
            Self::Unknown { cause, .. } => {
                matches!(cause, UnknownCause::DeadlinePassed | UnknownCause::InterfaceDown)
            }
            _ => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(callee) = self.callee() {
            write!(f, "{callee}: ")?;
        }
        match self {
            Self::NotSent(why, ..) => write!(f, "not sent, so the procedure did not run: {why}"),
            Self::Refused(why, ..) => write!(f, "refused, so the procedure did not run: {why}"),
            Self::Failed(why, ..) => write!(f, "the procedure ran, but there is no result: {why}"),
            Self::Unknown { transmissions, waited, cause, .. } => {
                write!(f, "it is not known whether the procedure ran: {cause}")?;
                // An end of a pipe does not know how long its call took: the call's handle does.
                if !waited.is_zero() {
                    write!(f, " (sent {} in {waited:.1?})", Times(*transmissions))?;
                }
                f.write_str(match cause {
                    UnknownCause::Forked => "",
                    UnknownCause::DeadlinePassed => {
                        "; allow it more time (`timeout`), and call again only if it may run twice"
                    }
                    _ => "; call again only if it may run twice",
                })
            }
            Self::Peer(why, ..) => write!(
                f,
                "the server broke the protocol, and whether the procedure ran is not known: its result is no value of \
                 the procedure's type ({why}); is it built from the same interface?"
            ),
            Self::Sun(why, ..) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotSent(SendError::Io(why), ..) => Some(why),
            Self::NotSent(SendError::Arguments(why), ..) => Some(why),
            Self::NotSent(SendError::Metadata(why), ..) => Some(why),
            Self::NotSent(SendError::Bind(why), ..) => Some(why),
            Self::Peer(why, ..) => Some(why),
            Self::Sun(why, ..) => Some(why),
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

/// Why a server did not run a procedure.
///
/// ```
/// use std::time::Duration;
/// use stoop::RefusalCode;
/// use stoop::error::Refusal;
///
/// let denied = Refusal::denied("only the owner may");
/// assert_eq!(denied.code, RefusalCode::Denied);
/// let busy = Refusal { retry_after: Some(Duration::from_millis(20)), ..Refusal::overloaded("too many requests") };
/// assert!(busy.to_string().contains("call again in 20ms"));
/// ```
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The reason.
    pub code: RefusalCode,
    /// The server's further text; often empty.
    pub detail: String,
    /// Time after which the server may take the call, as it estimates; `None` if it does not say. A server that is overloaded does.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The caller may not make this call: for [interceptors](crate::intercept). Of `why` 512 bytes reach the caller of a server.
    pub fn denied(why: impl Into<String>) -> Self {
        Self::new(RefusalCode::Denied, why)
    }

    /// The caller may make the call later, which its client [may do by itself](crate::BindOptions::retry): for interceptors.
    pub fn overloaded(why: impl Into<String>) -> Self {
        Self::new(RefusalCode::Overloaded, why)
    }

    /// A refusal by a server, with the text that it added.
    pub(crate) fn new(refused: impl Into<Refused>, detail: impl Into<String>) -> Self {
        let Refused { code, retry_after } = refused.into();
        Self { code, detail: detail.into(), retry_after: retry_after.duration() }
    }

    /// A refusal by the server, without further text.
    pub(crate) fn refused(&self) -> Refused {
        let nanos = |after: Duration| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let retry_after =
            self.retry_after.map_or(RetryAfter::NOT_SAID, |after| RetryAfter::from_nanos(nanos(after)));
        Refused { code: self.code, retry_after }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        with_detail(f, &self.detail)?;
        match self.code {
            RefusalCode::Overloaded => match self.retry_after {
                Some(after) => write!(f, "; call again in {after:?}, or give the server more workers"),
                None => f.write_str("; call again later, or give the server more workers"),
            },
            RefusalCode::DeadlinePassed => f.write_str(
                "; allow the call more time, or give the server more workers (a procedure that calls its own server keeps one busy)",
            ),
            RefusalCode::ShuttingDown => f.write_str("; bind to another server"),
            RefusalCode::Incomplete => f.write_str(
                "; call again, and allow the call more time; parts stop when an interface or the network is gone, and the server \
                 waits ten seconds for the next",
            ),
            RefusalCode::UnknownBinding => f.write_str("; bind again"),
            RefusalCode::UnknownProcedure => f.write_str(
                "; it may have come with a later revision than the other end has: update that (`Binding::describe` tells what it lacks)",
            ),
            RefusalCode::BadArguments => f.write_str("; build both from the same interface"),
            RefusalCode::MessageTooLarge => f.write_str("; send it in pieces, or raise `Server::max_message`"),
            RefusalCode::TooManyLanes => f.write_str("; begin fewer calls at once, or bind once more"),
            RefusalCode::ResultTooLarge => f.write_str("; ask for it in pieces"),
            RefusalCode::NoCallback => f.write_str("; offer one (`BindOptions::callback`), or call again soon"),
            // A cancelled call has no reader; a reason of a later version is printed as it is.
            _ => Ok(()),
        }
    }
}

/// Why there is no result of a procedure that ran.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use stoop::{CallError, FailureCode};
///
/// #[stoop::interface]
/// trait Divider { fn divide(&self, a: u32, b: u32) -> u32; }
///
/// struct Plain;
/// impl Divider for Plain { fn divide(&self, a: u32, b: u32) -> u32 { a / b } }
///
/// # std::panic::set_hook(Box::new(|_| {}));
/// let server = stoop::Server::new().export(DividerServer::new(Plain)).listen("udp://127.0.0.1:0")?.start()?;
/// let divider = DividerClient::bind(&server.uris()[0])?;
/// match divider.divide(1, 0) {
///     // The server's standard error has the message: over a network callers do not get it.
///     Err(CallError::Failed(failure, ..)) => assert_eq!(failure.code, FailureCode::Panicked),
///     other => panic!("{other:?}"),
/// }
/// assert_eq!(divider.divide(6, 3)?, 2); // the server goes on
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Failure {
    /// The reason.
    pub code: FailureCode,
    /// The server's further text: for a panic, its message, if the server [tells it](crate::Server::panic_texts); over networks it does
    /// not unless told to.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        with_detail(f, &self.detail)?;
        f.write_str(match self.code {
            FailureCode::Panicked if self.detail.is_empty() => {
                "; the server's standard error tells why and where (`Server::panic_texts` lets it tell its callers why)"
            }
            FailureCode::Panicked => "; the standard error of its process tells where",
            FailureCode::ResultTooLarge => {
                "; return it in pieces, or let both ends take more (`max_message`)"
            }
            FailureCode::ResultGone => "; ask for what it has done before you call again",
            FailureCode::FinishedTooLate => {
                "; allow it more time (`timeout`), and ask for what it has done before you call again"
            }
            FailureCode::Abandoned => {
                "; the server's program dropped it (`stoop::Reply`): ask for what it has done before you call again"
            }
            _ => "",
        })
    }
}

/// Why a caller stopped waiting without knowing the outcome.
///
/// ```
/// use stoop::CallError;
/// use stoop::error::UnknownCause;
///
/// /// Whether to look for the server's log, or for the network.
/// fn is_server_lost(error: &CallError) -> bool {
///     use UnknownCause::{ConnectionLost, PortClosed, ServerRestarted};
///     matches!(error, CallError::Unknown { cause: ConnectionLost | PortClosed | ServerRestarted, .. })
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownCause {
    /// The call's deadline passed.
    DeadlinePassed,
    /// The server had acknowledged the call and then fell silent.
    ServerSilent,
    /// The interface by which this end sends to the server is down or gone, and nothing was heard in time.
    InterfaceDown,
    /// The server's machine says that no process listens at the port any more.
    PortClosed,
    /// The server does not know the binding any more, because it was restarted or had heard nothing on it for its silence
    /// limit. It may have run the call before.
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
            Self::ServerSilent => "the server acknowledged the call, and then stopped answering",
            Self::InterfaceDown => {
                "nothing was heard in time, and this end's interface to the server is down or gone"
            }
            Self::PortClosed => "the server has ended: no program listens at its port any more",
            Self::ServerRestarted => {
                "the server was restarted meanwhile, or has released the binding after a long silence"
            }
            Self::ConnectionLost => "the connection to the server was lost",
        })
    }
}

/// The error of a client's method whose procedure returns `Result<T, E>`: either the procedure's own error or that of the call.
///
/// It is a [`std::error::Error`] if `E` is one; then `?` hands it on into a `Box<dyn Error>`. A `String` is none: give the procedure an
/// error type of its own, or use `map_err`.
///
/// ```
/// use stoop::{Error, Ran};
///
/// #[derive(Clone, Debug, PartialEq, stoop::Data)]
/// pub enum Rejected { Negative }
///
/// #[stoop::interface]
/// pub trait Roots { fn root(&self, of: f64) -> Result<f64, Rejected>; }
///
/// struct Exact;
/// impl Roots for Exact {
///     fn root(&self, of: f64) -> Result<f64, Rejected> {
///         if of < 0.0 { Err(Rejected::Negative) } else { Ok(of.sqrt()) }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let uri = "local:roots";
/// let server = stoop::Server::new().export(RootsServer::new(Exact)).listen(uri)?.start()?;
/// let client = RootsClient::bind(uri)?;
/// match client.root(-1.0) {
///     Err(Error::Application(why)) => assert_eq!(why, Rejected::Negative), // the procedure says no
///     Err(Error::Call(why)) => panic!("{why}"), // there is no answer of the procedure
///     Ok(root) => panic!("{root}"),
/// }
///
/// drop(server);
/// assert_eq!(client.root(4.0).unwrap_err().ran(), Ran::No);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Error<E> {
    /// The procedure ran and returned this error.
    Application(E),
    /// The call itself gave no result.
    Call(CallError),
}

impl<E> Error<E> {
    /// Whether the procedure ran: it did if the error is its own; otherwise [`CallError::ran`] says.
    ///
    /// ```
    /// use stoop::{CallError, Error, Ran};
    ///
    /// /// A withdrawal: the bank's own error `Overdrawn` is an answer, and the account is as it was.
    /// #[derive(Debug)]
    /// struct Overdrawn;
    ///
    /// fn is_safe_to_repeat(outcome: &Result<(), Error<Overdrawn>>) -> bool {
    ///     match outcome {
    ///         Ok(()) | Err(Error::Application(Overdrawn)) => false, // answered
    ///         Err(Error::Call(error)) => error.ran() == Ran::No,
    ///     }
    /// }
    /// # assert!(!is_safe_to_repeat(&Err(Error::Application(Overdrawn))));
    /// assert_eq!(Error::Application(Overdrawn).ran(), Ran::Yes);
    /// ```
    pub fn ran(&self) -> Ran {
        match self {
            Self::Application(_) => Ran::Yes,
            Self::Call(error) => error.ran(),
        }
    }

    /// Whether the call ended because its time was over; see [`CallError::is_timeout`].
    ///
    /// ```
    /// use stoop::Error;
    ///
    /// /// What the user of a shop is told.
    /// fn message(error: &Error<String>) -> String {
    ///     match error {
    ///         Error::Application(why) => why.clone(), // sold out
    ///         error if error.is_timeout() => "the shop takes long today; look into your orders before you try again".into(),
    ///         Error::Call(_) => "the shop cannot be reached".into(),
    ///     }
    /// }
    /// # assert_eq!(message(&Error::Application("sold out".into())), "sold out");
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_timeout())
    }
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
