//! Why a client is not bound, or has no buffer.

use super::{UriError, debug_as_display};
use std::fmt;
use std::io;
use std::time::Duration;

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
    /// The server speaks other versions of the protocol than this client.
    OtherVersion {
        /// The address as it was given.
        server: String,
        /// The version that this client speaks.
        ours: u8,
        /// Those that the server speaks.
        theirs: Vec<u8>,
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
            Self::OtherVersion { server, ours, theirs } => {
                write!(f, "{server} speaks version ")?;
                for (i, version) in theirs.iter().enumerate() {
                    write!(f, "{}{version}", if i == 0 { "" } else { ", " })?;
                }
                write!(
                    f,
                    " of the protocol, this client version {ours}; build both with versions of Stoop that speak the same"
                )
            }
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
            Self::OtherVersion { server, ours, theirs } => {
                Self::OtherVersion { server: server.clone(), ours: *ours, theirs: theirs.clone() }
            }
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

debug_as_display!(BindError);
