//! Why a server does not listen, and why a text is no address.

use super::debug_as_display;
use std::fmt;
use std::io;

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

debug_as_display!(ListenError);
