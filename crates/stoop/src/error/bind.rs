//! Why a client is not bound, or has no buffer.

use crate::error::{UriError, addresses_of, cloned, debug_as_display, needs_descriptor};
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a client is not bound to a server. No procedure has run.
///
/// `{:?}` shows the same sentence as `{}`.
///
/// ```
/// # #[stoop::interface]
/// # trait Test { fn null(&self); }
/// let error = TestClient::bind("unix:@not-there").unwrap_err();
/// assert!(matches!(error, stoop::BindError::Unreachable { .. }));
/// assert!(error.to_string().contains("is the server running, and at that address?"));
/// ```
#[non_exhaustive]
pub enum BindError {
    /// The text is not an address.
    Uri(UriError),
    /// The server could not be reached.
    Unreachable {
        /// The address as it was given.
        server: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The server did not answer in time.
    NoAnswer {
        /// The address as it was given.
        server: String,
        /// How long the client waited.
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
    /// The server is of a user to whose servers this client does not bind
    /// ([`UnixOptions::allow_user`](crate::UnixOptions::allow_user), [`ShmOptions::allow_user`](crate::ShmOptions::allow_user)).
    OtherUser {
        /// The address as it was given.
        server: String,
        /// The user of the process that listens there.
        user: u32,
        /// The user of this process.
        own: u32,
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
    /// An option of a transport cannot act at the address; see [`BindOptions::with`](crate::BindOptions::with).
    UnusedOptions {
        /// The address as it was given.
        server: String,
        /// The option, or the type of all that were set: `UnixOptions`, `ShmOptions::in_place`.
        option: &'static str,
        /// Schemes of the addresses at which it acts for a client. None if it acts for servers only.
        schemes: &'static [&'static str],
    },
    /// The binding is to be sealed and cannot be, or the server makes sealed ones only; see [`Security`](crate::Security).
    Security {
        /// The address as it was given.
        server: String,
        /// The reason, and what to do.
        why: String,
    },
    /// The client's interface cannot be bound: its types and its revisions do not fit together.
    Revisions {
        /// The interface.
        interface: &'static str,
        /// The reason, and what to write.
        why: String,
    },
    /// The client may call no procedure of the interface: the server has [lists of callers](crate::Server::callers).
    Denied {
        /// The address as it was given.
        server: String,
        /// By which name the server knows the client, and what to do.
        why: String,
    },
    /// A program answered that does not speak this protocol.
    Protocol {
        /// The address as it was given.
        server: String,
        /// The fault in its answer.
        why: String,
    },
    /// The object of [`BindOptions::callback`](crate::BindOptions::callback) could not be offered, or what
    /// [`BindOptions::after_bind`](crate::BindOptions::after_bind) runs has failed.
    Callbacks {
        /// The address as it was given.
        server: String,
        /// Why.
        why: String,
    },
    /// Over Sun RPC: the program is not registered with the rpcbind of that host, for this transport.
    NotRegistered {
        /// The address as it was given.
        server: String,
    },
    /// Over Sun RPC: the rpcbind of that host says that the program listens at another host.
    OtherHost {
        /// The address as it was given.
        server: String,
        /// Where the program listens, as rpcbind says.
        named: std::net::SocketAddr,
    },
    /// Over Sun RPC: rpcbind could not be asked where the program listens.
    Rpcbind {
        /// The address as it was given.
        server: String,
        /// Why there was no answer.
        why: Box<crate::error::CallError>,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(why) => write!(f, "{why}"),
            Self::Unreachable { server, cause } if is_refusal(server, cause) => {
                write!(
                    f,
                    "no server listens at {server} ({cause}); is the server running, and at that address?"
                )?;
                f.write_str(if is_abstract(server) { ELSEWHERE } else { "" })
            }
            Self::Unreachable { server, cause } if is_forbidden(server, cause) => write!(
                f,
                "{server} cannot be reached: {cause}; let this user write to the socket's file and enter its directory (chmod, chown)"
            ),
            Self::Unreachable { server, cause } if needs_descriptor(cause) => {
                write!(f, "{server} cannot be reached: {cause}; raise the limit of this process (ulimit -n)")
            }
            Self::Unreachable { server, cause } => write!(f, "{server} cannot be reached: {cause}"),
            Self::NoAnswer { server, waited } => {
                write!(f, "no answer from {server} within {waited:.1?}; {}", why_silent(server))
            }
            Self::NoSuchInterface { server, interface, exported } if exported.is_empty() => {
                write!(
                    f,
                    "the server at {server} exports no interface {interface}, and does not tell which it exports; export {interface} there \
                     (`Server::export`) before it starts"
                )
            }
            Self::NoSuchInterface { server, interface, exported } => {
                write!(
                    f,
                    "the server at {server} exports no interface {interface}; it exports {exported}: bind a client of one of \
                     these, or export {interface} there too"
                )
            }
            Self::Mismatch { interface, procedure, ours, theirs } if theirs.is_empty() => write!(
                f,
                "the server's {interface} has no procedure {procedure}; this caller has `{ours}`: build the server from the same interface, or \
                 say since which revision there is the procedure: `#[since(N)]`"
            ),
            Self::Mismatch { interface, procedure, ours, theirs } => write!(
                f,
                "caller and server declare {interface}::{procedure} differently\n  caller: {ours}\n  server: {theirs}\n\
                 build both from the same interface, or let it grow by revisions: `#[stoop(since = N)]`"
            ),
            Self::Refused { server, why } => write!(f, "the server at {server} refuses the binding: {why}"),
            Self::OtherUser { server, user, own } => write!(
                f,
                "the process that listens at {server} is of user {user}; this client, of user {own}, binds to servers of its own user \
                 and of root only, unless told otherwise: if user {user} is to be trusted with all calls, bind with \
                 options that say allow_user({user})"
            ),
            Self::OtherVersion { server, ours, theirs } => {
                write!(f, "the server at {server} speaks version ")?;
                for (i, version) in theirs.iter().enumerate() {
                    write!(f, "{}{version}", if i == 0 { "" } else { ", " })?;
                }
                write!(
                    f,
                    " of the protocol, this client version {ours}; build both with versions of Stoop that speak the same"
                )
            }
            Self::UnusedOptions { option, schemes: [], .. } => write!(
                f,
                "the client has {option}, which acts for servers only; leave it out here, and give it to the server (Server::with)"
            ),
            Self::UnusedOptions { server, option, schemes } => write!(
                f,
                "the client has {option}, which cannot act at {server}: it acts at {}; leave it out for other addresses",
                addresses_of(schemes)
            ),
            Self::Security { server, why } => write!(f, "{server} {why}"),
            Self::Revisions { interface, why } => {
                write!(f, "the interface {interface} cannot be bound: {why}")
            }
            Self::Denied { server, why } => write!(f, "the server at {server} denies the binding: {why}"),
            Self::Protocol { server, why } => {
                write!(
                    f,
                    "the program that answers at {server} is no Stoop server of this version: {why}; check the address"
                )
            }
            Self::Callbacks { server, why } => {
                write!(f, "the client is not ready for callbacks of the server at {server}: {why}")
            }
            Self::NotRegistered { server } => write!(
                f,
                "rpcbind there knows no program for {server}; is its server running, with this version and over this transport? \
                 (`rpcinfo` lists those that are registered)"
            ),
            Self::OtherHost { server, named } => write!(
                f,
                "rpcbind says that the program of {server} listens at {named}, which is no address of that host; if that is right, bind \
                 to {named} itself"
            ),
            Self::Rpcbind { server, why } => write!(
                f,
                "rpcbind could not be asked where {server} listens: {why}; if the port is known, write it in the address"
            ),
        }
    }
}

impl BindError {
    /// Whether the server may answer a little later: it is not there yet, does not answer, has too many callers at this moment, or is about to be replaced.
    pub(crate) fn may_pass(&self) -> bool {
        use io::ErrorKind::{InvalidInput, PermissionDenied};
        match self {
            Self::Unreachable { cause, .. } => {
                !matches!(cause.kind(), InvalidInput | PermissionDenied) && !needs_descriptor(cause)
            }
            Self::NoAnswer { .. } => true,
            Self::NotRegistered { .. } => true,
            // A rpcbind that is started together with the server.
            Self::Rpcbind { why, .. } => matches!(
                &**why,
                crate::error::CallError::NotSent(crate::error::SendError::Bind(_), ..)
                    | crate::error::CallError::Unknown { .. }
            ),
            _ => self.is_shutting_down() || self.is_crowded(),
        }
    }

    /// Whether a server has answered that it shuts down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        matches!(self, Self::Refused { why, .. } if *why == SHUTTING_DOWN)
    }

    /// Whether the server has given this attempt up for another.
    pub(crate) fn is_crowded(&self) -> bool {
        matches!(self, Self::Refused { why, .. } if *why == CROWDED)
    }
}

/// Why a server refuses bindings that is about to end.
pub(crate) const SHUTTING_DOWN: &str = "it is shutting down; bind again when it has been restarted";

/// Why a server ends a connection that is not bound, because too many are not.
pub(crate) const CROWDED: &str =
    "too many connections to it were not bound yet, and this one was given up for another; bind again";

impl Clone for BindError {
    fn clone(&self) -> Self {
        match self {
            Self::Uri(why) => Self::Uri(why.clone()),
            Self::Unreachable { server, cause } => {
                Self::Unreachable { server: server.clone(), cause: cloned(cause) }
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
            Self::OtherUser { server, user, own } => {
                Self::OtherUser { server: server.clone(), user: *user, own: *own }
            }
            Self::OtherVersion { server, ours, theirs } => {
                Self::OtherVersion { server: server.clone(), ours: *ours, theirs: theirs.clone() }
            }
            Self::UnusedOptions { server, option, schemes } => {
                Self::UnusedOptions { server: server.clone(), option, schemes }
            }
            Self::Security { server, why } => Self::Security { server: server.clone(), why: why.clone() },
            Self::Revisions { interface, why } => Self::Revisions { interface, why: why.clone() },
            Self::Denied { server, why } => Self::Denied { server: server.clone(), why: why.clone() },
            Self::Protocol { server, why } => Self::Protocol { server: server.clone(), why: why.clone() },
            Self::Callbacks { server, why } => Self::Callbacks { server: server.clone(), why: why.clone() },
            Self::NotRegistered { server } => Self::NotRegistered { server: server.clone() },
            Self::OtherHost { server, named } => Self::OtherHost { server: server.clone(), named: *named },
            Self::Rpcbind { server, why } => Self::Rpcbind { server: server.clone(), why: why.clone() },
        }
    }
}

/// A reason for which a server that runs may not be found at an abstract name.
const ELSEWHERE: &str = " Such a name is seen in one network namespace (container) only; for others, let the server listen at \
                         shm:/PATH or unix:PATH, and mount that directory";

/// Whether no server listens at the address. On an Ethernet nothing refuses; the cause says by itself whether the interface is missing,
/// or no server has answered to the name.
fn is_refusal(server: &str, cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        && !server.starts_with("ether:")
}

/// Whether an address is a name that the kernel keeps for each network namespace.
fn is_abstract(server: &str) -> bool {
    server.starts_with("unix:@")
        || server.starts_with("onc+unix:@")
        || server.strip_prefix("shm:").is_some_and(|name| !name.contains('/'))
}

/// The advice to a user whose address no server answers.
fn why_silent(server: &str) -> &'static str {
    match server.split_once(':').map(|(scheme, _)| scheme) {
        Some("udp") => "is a Stoop server running there, and does a firewall let its UDP packets through?",
        Some("ether") => {
            "is a Stoop server running there, on the Ethernet of that interface of this machine, and is the hardware address still its own?"
        }
        Some("tcp") => {
            "does a firewall drop the connection, or is it the server of another protocol, such as HTTP, which waits in silence?"
        }
        _ => "a process listens there: is it a Stoop server, is it stopped, or are all of its threads busy?",
    }
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
///
/// ```
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:in-place-error")?.start()?;
/// # let client = AdderClient::bind("local:in-place-error")?;
/// match client.binding().in_place::<u8>(640 * 480) {
///     Ok(frame) => println!("shared: {}", frame.is_shared()),
///     Err(why) => println!("{why}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum InPlaceError {
    /// The memory that is shared with the server for buffers has no free part that is long enough.
    Full(stoop_shm::Full),
    /// The client is not bound, and binding failed.
    Unbound(Box<BindError>),
}

impl fmt::Display for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(full) => write!(
                f,
                "there is no room for the buffer: {full}; drop buffers that are not needed any more, or let the server give more memory \
                 (`ShmOptions::in_place`)"
            ),
            Self::Unbound(why) => write!(f, "there is no memory for the buffer: {why}"),
        }
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

debug_as_display!(BindError, InPlaceError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_does_not_lead_to_the_question_whether_the_server_runs() {
        let told = |server: &str| {
            let cause = io::Error::new(io::ErrorKind::NotFound, "the cause");
            BindError::Unreachable { server: server.into(), cause }.to_string()
        };
        assert_eq!(told("ether://eth0/x"), "ether://eth0/x cannot be reached: the cause");
        assert!(told("unix:/run/x").contains("is the server running"));
    }
}
