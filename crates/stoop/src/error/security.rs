//! Why a file of keys, peers or certificates cannot be used.

use crate::error::debug_as_display;
use std::{error, fmt, io};

/// A file of [`Security`](crate::Security) cannot be read or written, or has not what it should have. The text names the file, and says
/// what to do.
///
/// `{:?}` shows the same sentence as `{}`.
pub struct SecurityError(io::Error);

debug_as_display!(SecurityError);

impl SecurityError {
    /// What went wrong, as the system or the reader of the file has it: [`io::ErrorKind::NotFound`] if there is no such file.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl fmt::Display for SecurityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for SecurityError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source()
    }
}

impl From<io::Error> for SecurityError {
    fn from(why: io::Error) -> Self {
        Self(why)
    }
}

impl From<SecurityError> for io::Error {
    fn from(why: SecurityError) -> Self {
        why.0
    }
}
