//! Refusals of the file service, with their reasons.

use rustix::io::Errno;
use std::{fmt, io};

/// Why the server did not do what it was asked.
#[derive(stoop::Data, Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// There is nothing of this name.
    NotFound,
    /// The server's user may not do this.
    PermissionDenied,
    /// The path leaves the directory that the server offers.
    Outside,
    /// The path names no entry of a directory.
    NoName,
    /// Only regular files can be copied.
    NotAFile,
    /// A directory was expected.
    NotADirectory,
    /// A file was expected.
    IsADirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The file system is full, or the user's share of it.
    NoSpace,
    /// The server changes nothing.
    ReadOnly,
    /// The file changed while it was read.
    Changed,
    /// The server was restarted, or the upload has ended: it must be begun again.
    Restarted,
    /// The bytes do not have the checksum that was sent with them.
    Corrupt,
    /// A piece or a file is longer than one call may carry.
    TooLong,
    /// Any other error of the system.
    System {
        /// Its `errno`.
        code: i32,
    },
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::ACCESS | Errno::PERM => Self::PermissionDenied,
            Errno::XDEV => Self::Outside,
            Errno::NOTDIR => Self::NotADirectory,
            Errno::ISDIR => Self::IsADirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            other => Self::System { code: other.raw_os_error() },
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Errno::from_raw_os_error(code).into(),
            None => Errno::IO.into(),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no such file or directory",
            Self::PermissionDenied => "permission denied",
            Self::Outside => "the path leads out of the directory that the server offers",
            Self::NoName => "the path does not end in a name",
            Self::NotAFile => "it is not a regular file",
            Self::NotADirectory => "it is not a directory",
            Self::IsADirectory => "it is a directory",
            Self::NotEmpty => "the directory is not empty",
            Self::NoSpace => "no space is left on the file system",
            Self::ReadOnly => "the server is read-only",
            Self::Changed => "the file changed while it was read",
            Self::Restarted => "the server was restarted, or the upload has ended",
            Self::Corrupt => "the bytes do not have their checksum",
            Self::TooLong => "it is too long for one call",
            Self::System { code } => return write!(f, "{}", io::Error::from_raw_os_error(*code)),
        })
    }
}

impl std::error::Error for FileError {}
