//! What goes wrong with a transfer, by what becomes of it.

use std::fmt;
use stoop::{CallError, Error};
use stoop_examples::files::FileError;

/// Why a file could not be copied or removed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file is to be begun again: it changed, or an end was restarted.
    Again(String),
    /// This file cannot be copied; others can.
    File(String),
    /// Nothing more can be done.
    Everything(String),
}

impl Failure {
    /// What `error` means for the file at `path`.
    pub(crate) fn of(path: impl fmt::Display, error: FileError) -> Self {
        let text = format!("{path}: {error}");
        match error {
            FileError::Changed | FileError::Restarted | FileError::Corrupt => Self::Again(text),
            FileError::NoSpace => {
                Self::Everything(format!("{text}; make space, and run the same command again"))
            }
            FileError::ReadOnly => Self::Everything(text),
            _ => Self::File(text),
        }
    }

    /// What the error of a call about `path` means.
    pub(crate) fn of_call(path: impl fmt::Display, error: Error<FileError>) -> Self {
        match error {
            Error::Application(error) => Self::of(path, error),
            Error::Call(error) => Self::lost(path, error),
        }
    }

    /// A call about `path` gave no result.
    pub(crate) fn lost(path: impl fmt::Display, error: CallError) -> Self {
        Self::Everything(format!("{path}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Again(text) | Self::File(text) | Self::Everything(text)) = self;
        f.write_str(&printable(text))
    }
}

/// A text of the server without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[2Jé\n"), "a?[2Jé?");
        assert_eq!(
            Failure::of("\x07", FileError::NotFound).to_string(),
            "?: there is no such file or directory"
        );
    }
}
