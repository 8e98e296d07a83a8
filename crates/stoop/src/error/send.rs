//! Why a client did not send a call.

use crate::error::{BindError, MetadataError, Refusal, XdrError, cloned, needs_descriptor};
use std::fmt;
use std::io;
use std::time::Duration;
use stoop_marshal::EncodeError;

/// Why a client did not send a call.
///
/// ```
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let lazy = stoop::BindOptions::new().lazy();
/// # let client = AdderClient::bind_with("local:nobody", &lazy)?;
/// use stoop::CallError;
/// use stoop::error::SendError;
///
/// match client.add(1, 2) {
///     Err(CallError::NotSent(SendError::Bind(why), ..)) => println!("no server: {why}"),
///     outcome => panic!("{outcome:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The arguments cannot be sent.
    Arguments(EncodeError),
    /// The metadata cannot be sent.
    Metadata(MetadataError),
    /// Over Sun RPC: the arguments have no XDR form, or it is too long for the transport.
    Xdr(XdrError),
    /// Its time was over before it was sent: the timeout is zero, the deadline that this call inherited from the call being served
    /// had passed, or the server took nothing more, or no lane was free, until the call's deadline.
    DeadlinePassed,
    /// The operating system refused a socket, a thread or the sending of a packet.
    Io(io::Error),
    /// The client is not bound: it is [lazy](crate::BindOptions::lazy), its process has been forked, or its binding was lost; and
    /// binding failed.
    Bind(Box<BindError>),
    /// So many calls of this binding are in flight that the server takes no more.
    TooManyCalls {
        /// How many.
        in_flight: usize,
    },
    /// The server of this process to which the client was bound has been shut down, and no other has taken its name.
    Closed,
    /// An earlier one-way call of this thread on this client had not returned by the deadline of this call, which is not sent
    /// before.
    OneWayPending,
    /// An earlier one-way call of this thread on this client has ended without its outcome being known: it may still be running,
    /// so that this call could overtake it. Reported once, to a call that is not idempotent; the thread's next call is sent.
    OneWayUnknown {
        /// The interface of the one-way call.
        interface: &'static str,
        /// Its procedure.
        procedure: &'static str,
    },
    /// The procedure has [pipes](crate::Sender), and the transport carries none, or an asynchronous client is not bound yet.
    NoPipes {
        /// Beginnings of the addresses of transports that do.
        carried_by: String,
    },
    /// A callback: the client that offered the object has gone, or its connection is lost. It offers the object again when it is bound
    /// again; this client of it stays as it is.
    ClientGone,
    /// A callback: the client that offers the object does not take what it is sent, and there is no room for another call.
    ClientBusy {
        /// How long this call has waited for room: not at all, if an earlier one had waited in vain.
        waited: Duration,
    },
    /// An [interceptor](crate::intercept) of the client did not let the call go on.
    Intercepted {
        /// Its [name](crate::intercept::Intercept::name).
        interceptor: String,
        /// Why.
        refusal: Box<Refusal>,
    },
}

impl Clone for SendError {
    fn clone(&self) -> Self {
        match self {
            Self::Arguments(why) => Self::Arguments(*why),
            Self::Metadata(why) => Self::Metadata(*why),
            Self::Xdr(why) => Self::Xdr(*why),
            Self::DeadlinePassed => Self::DeadlinePassed,
            Self::Io(why) => Self::Io(cloned(why)),
            Self::Bind(why) => Self::Bind(why.clone()),
            Self::TooManyCalls { in_flight } => Self::TooManyCalls { in_flight: *in_flight },
            Self::Closed => Self::Closed,
            Self::OneWayPending => Self::OneWayPending,
            &Self::OneWayUnknown { interface, procedure } => Self::OneWayUnknown { interface, procedure },
            Self::NoPipes { carried_by } => Self::NoPipes { carried_by: carried_by.clone() },
            Self::ClientGone => Self::ClientGone,
            Self::ClientBusy { waited } => Self::ClientBusy { waited: *waited },
            Self::Intercepted { interceptor, refusal } => {
                Self::Intercepted { interceptor: interceptor.clone(), refusal: refusal.clone() }
            }
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(why) => write!(f, "{why}"),
            Self::Metadata(why) => write!(f, "its metadata cannot be sent: {why}"),
            Self::Xdr(why) => write!(f, "the arguments: {why}"),
            Self::DeadlinePassed => f.write_str(
                "its time was over before it was sent: its timeout is zero, the call that this thread serves has used up its own, \
                 no server was there that takes it, or the one that is there owes so many answers that it took no other call until \
                 then; allow more time (`timeout`, `with_timeout`), or make fewer calls at a time",
            ),
            Self::Io(why) if needs_descriptor(why) => write!(
                f,
                "{why}: over UDP each thread that calls needs a socket of its own; raise the limit (ulimit -n), or let fewer threads \
                 make the calls (`begin()`)"
            ),
            Self::Io(why) => write!(f, "the operating system reports: {why}"),
            Self::Bind(why) => write!(f, "the client could not bind: {why}"),
            Self::TooManyCalls { in_flight } => {
                write!(f, "{in_flight} calls of this binding are in flight already; wait for some of them, or bind another client")
            }
            Self::Closed => f.write_str(
                "the server was shut down, and no other of this process has its name; start one, or bind to another address",
            ),
            Self::OneWayPending => f.write_str(
                "an earlier one-way call of this thread had not returned by this call's deadline; allow this call more time, \
                 or declare the procedure `#[one_way(unordered)]`",
            ),
            Self::OneWayUnknown { interface, procedure } => write!(
                f,
                "it is not known whether an earlier one-way call of this thread ({interface}.{procedure}) has run or still runs, and \
                 this call could overtake it; call again to go on all the same, or declare this procedure `#[idempotent]` if it may"
            ),
            Self::NoPipes { carried_by } => write!(
                f,
                "the procedure has pipes, and its client is not bound yet (`BindOptions::lazy`), or by a transport that carries none; \
                 bind first, at an address of one that carries them: {carried_by}"
            ),
            Self::ClientGone => f.write_str(
                "the client that offered the object has gone, or its connection is lost; forget this client of it: if it comes again, it \
                 offers the object again",
            ),
            Self::ClientBusy { waited } => write!(
                f,
                "the client that is called back does not take its calls, and there is no room for another (this one has waited {waited:.1?}); \
                 do without it, or call again later"
            ),
            Self::Intercepted { interceptor, refusal } => {
                write!(f, "the client's interceptor `{interceptor}` refuses it: {}", refusal.detail)
            }
        }
    }
}
