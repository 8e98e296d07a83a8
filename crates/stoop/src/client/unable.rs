//! The reason for which a client begins no call, with the name of its server.

use crate::error::SendError;

/// Why no call can be begun.
pub(crate) struct Unable {
    pub(crate) why: SendError,
    /// The address of the server.
    pub(crate) server: String,
}
