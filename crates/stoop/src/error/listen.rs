//! Why a server does not listen, and why a text is no address.

use crate::error::{addresses_of, cloned, debug_as_display, needs_descriptor};
use std::fmt;
use std::io;

/// Why a server does not listen.
///
/// `{:?}` shows the same sentence as `{}`.
///
/// ```
/// use stoop::{ListenError, Server};
///
/// let error = Server::new().listen("udp:7400").unwrap_err();
/// assert!(matches!(error, ListenError::Uri(_)), "{error}");
/// ```
#[non_exhaustive]
pub enum ListenError {
    /// The text is not an address.
    Uri(UriError),
    /// The operating system does not let the server listen there.
    Io {
        /// The address as it was given.
        uri: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// Other machines reach the address, and the server does not say how its calls are protected:
    /// [`Server::security`](crate::Server::security) comes before [`Server::listen`](crate::Server::listen).
    Unprotected(String),
    /// There is nothing to serve, or nowhere to do it.
    Incomplete(&'static str),
    /// An option of a transport acts at no address at which the server listens; see [`Server::with`](crate::Server::with).
    UnusedOptions {
        /// The option, or the type of all that were set: `UnixOptions`, `PacketOptions::checksum`.
        option: &'static str,
        /// The addresses at which [`Server::listen`](crate::Server::listen) was called after it was set.
        addresses: Vec<String>,
        /// Schemes of the addresses at which it acts for a server. None if it acts for clients only.
        schemes: &'static [&'static str],
    },
    /// [`Server::procedure`](crate::Server::procedure) or [`Server::callers`](crate::Server::callers) names this procedure,
    /// `Interface.procedure`, or interface, and the server exports none of that name.
    UnknownProcedure(String),
    /// The types and the revisions of an exported interface do not fit together.
    Revisions {
        /// The interface.
        interface: &'static str,
        /// The reason, and what to write.
        why: String,
    },
    /// The machine cannot be kept awake, as [`Server::low_latency`](crate::Server::low_latency) asks for.
    LowLatency(io::Error),
    /// The server's programs could not be registered, as [`Server::register`](crate::Server::register) asks for.
    Rpcbind(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(why) => write!(f, "{why}"),
            Self::Io { uri, cause } => {
                write!(f, "cannot listen at {uri}: {cause}")?;
                match cause.kind() {
                    _ if needs_descriptor(cause) => {
                        f.write_str("; raise the limit of this process (ulimit -n)")
                    }
                    io::ErrorKind::AddrInUse if has_path(uri) => f.write_str(
                        "; another server runs there, or a file that is no socket has that path: stop the server, or choose another path",
                    ),
                    io::ErrorKind::NotFound if has_path(uri) => {
                        f.write_str("; make the directory first, or choose another path")
                    }
                    io::ErrorKind::AddrInUse => {
                        f.write_str("; another server runs there: stop it, or choose another address")
                    }
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("; this machine does not have that address")
                    }
                    io::ErrorKind::PermissionDenied if has_path(uri) => {
                        f.write_str("; choose a path in a directory to which this user may write")
                    }
                    // The cause names the capabilities that are missing.
                    io::ErrorKind::PermissionDenied if uri.starts_with("ether:") => Ok(()),
                    io::ErrorKind::PermissionDenied => f.write_str("; choose a port from 1024 on"),
                    _ => Ok(()),
                }
            }
            Self::Unprotected(uri) => unprotected(uri, f),
            Self::Revisions { interface, why } => {
                write!(f, "the interface {interface} cannot be served: {why}")
            }
            Self::UnknownProcedure(name) => write!(
                f,
                "options or callers are set for {name}, which the server does not export; write the names as in the trait"
            ),
            Self::LowLatency(cause) => write!(
                f,
                "the machine cannot be kept awake (/dev/cpu_dma_latency: {cause}); let this user write there, or leave \
                 Server::low_latency out"
            ),
            Self::Rpcbind(cause) => write!(
                f,
                "the programs could not be registered: {cause}; start rpcbind, or leave Server::register out and write the port in the \
                 addresses of clients"
            ),
            Self::Incomplete(what) => f.write_str(what),
            Self::UnusedOptions { option, schemes: [], .. } => write!(
                f,
                "the server has {option}, which acts for clients only; leave it out here, and give it to the clients (BindOptions::with)"
            ),
            Self::UnusedOptions { option, addresses, schemes } if addresses.is_empty() => write!(
                f,
                "the server has {option}, and listens at no address after that; call Server::with before Server::listen, which takes \
                 an address where it acts ({})",
                addresses_of(schemes)
            ),
            Self::UnusedOptions { option, addresses, schemes } => write!(
                f,
                "the server has {option}, which cannot act at {}: it acts at {}; listen at one of these after Server::with, or leave \
                 {option} out",
                addresses.join(" or "),
                addresses_of(schemes)
            ),
        }
    }
}

/// Says which lines there are to choose from.
fn unprotected(uri: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let feature = if cfg!(feature = "seal") { "" } else { " (cargo feature `seal` of stoop)" };
    write!(
        f,
        "cannot listen at {uri}: other machines reach it, and the server does not say how its calls are protected; add one of these lines \
         before it:\n    \
         .security(Security::own_key()?.callers(\"/etc/stoop/peers\")?) // sealed: these callers only{feature}\n    \
         .security(Security::none()) // any machine on the way can read and forge calls"
    )
}

/// Whether an address is that of a socket with a file.
fn has_path(uri: &str) -> bool {
    match uri.split_once(':') {
        Some(("unix" | "onc+unix", path)) => !path.starts_with('@'),
        Some(("shm", name)) => name.contains('/'),
        _ => false,
    }
}

impl Clone for ListenError {
    fn clone(&self) -> Self {
        match self {
            Self::Uri(why) => Self::Uri(why.clone()),
            Self::Io { uri, cause } => Self::Io { uri: uri.clone(), cause: cloned(cause) },
            Self::Unprotected(uri) => Self::Unprotected(uri.clone()),
            Self::Incomplete(what) => Self::Incomplete(what),
            Self::UnusedOptions { option, addresses, schemes } => {
                Self::UnusedOptions { option, addresses: addresses.clone(), schemes }
            }
            Self::UnknownProcedure(name) => Self::UnknownProcedure(name.clone()),
            Self::Revisions { interface, why } => Self::Revisions { interface, why: why.clone() },
            Self::LowLatency(cause) => Self::LowLatency(cloned(cause)),
            Self::Rpcbind(cause) => Self::Rpcbind(cloned(cause)),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Uri(why) => Some(why),
            Self::Io { cause, .. } | Self::LowLatency(cause) => Some(cause),
            Self::Rpcbind(cause) => Some(cause),
            Self::Unprotected(_)
            | Self::Incomplete(_)
            | Self::UnusedOptions { .. }
            | Self::Revisions { .. }
            | Self::UnknownProcedure(_) => None,
        }
    }
}

/// Why a text is no address.
///
/// ```
/// use stoop::{BindError, BindOptions};
///
/// // The text of the address is checked at once, also of a client that binds later.
/// let lazy = BindOptions::new().lazy();
/// match stoop::health::StoopHealthClient::bind_with("tpc://localhost:7400", &lazy) {
///     Err(BindError::Uri(why)) => assert_eq!(why.uri, "tpc://localhost:7400"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriError {
    /// The text.
    pub uri: String,
    pub(crate) why: String,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is no address: {}", self.uri, self.why)
    }
}

impl std::error::Error for UriError {}

debug_as_display!(ListenError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_after_a_missing_permission_fits_the_transport() {
        let told = |uri: &str| {
            let cause = io::Error::new(io::ErrorKind::PermissionDenied, "the cause");
            ListenError::Io { uri: uri.into(), cause }.to_string()
        };
        assert!(told("udp://0.0.0.0:7").ends_with("the cause; choose a port from 1024 on"));
        assert!(
            told("unix:/run/x")
                .ends_with("the cause; choose a path in a directory to which this user may write")
        );
        assert!(told("ether://eth0/x").ends_with("the cause"), "it says which capability is missing");
    }
}
