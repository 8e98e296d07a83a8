//! Why a client of Sun RPC has no connection.

use crate::error::BindError;
use std::io;

/// Why there is no connection.
pub(crate) enum NotConnected {
    /// The system, or the network, says so.
    Io(io::Error),
    /// The server is there, and this is why there is no binding.
    #[cfg_attr(not(feature = "seal"), expect(dead_code, reason = "only a handshake ends so"))]
    Bind(BindError),
}

impl From<io::Error> for NotConnected {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl NotConnected {
    /// The error of a client of that address.
    #[cold]
    pub(crate) fn error(self, server: String) -> BindError {
        match self {
            Self::Io(cause) => BindError::Unreachable { server, cause },
            Self::Bind(why) => why,
        }
    }
}
