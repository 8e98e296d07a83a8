//! Files of this machine, as the client sees them.

use crate::failure::Failure;
use rustix::fs::{self, Mode, OFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use stoop_examples::files::tree::describe;
use stoop_examples::files::{Entry, FileError, Kind};

/// Describes what is at `path`, behind symbolic links; `None` if nothing is.
pub(crate) fn look_up(path: &Path) -> Result<Option<Entry>, FileError> {
    match fs::stat(path) {
        Ok(stat) => Ok(Some(describe("", &stat))),
        Err(error) => match error.into() {
            FileError::NotFound => Ok(None),
            other => Err(other),
        },
    }
}

pub(crate) fn is_directory(path: &Path) -> bool {
    look_up(path).is_ok_and(|entry| entry.is_some_and(|entry| entry.kind == Kind::Directory))
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> Result<(File, Entry), FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::open(path, flags, Mode::empty())?;
    let entry = describe("", &fs::fstat(&file)?);
    if entry.kind == Kind::File { Ok((file.into(), entry)) } else { Err(FileError::NotAFile) }
}

/// Fails if an open file is no longer as `entry` says.
pub(crate) fn check_unchanged(file: &File, entry: &Entry) -> Result<(), FileError> {
    let now = describe("", &fs::fstat(file)?);
    if now.version == entry.version { Ok(()) } else { Err(FileError::Changed) }
}

/// Opens the directory that a file is to be in, and gives the file's name there.
pub(crate) fn parent(path: &Path) -> Result<(OwnedFd, &str), Failure> {
    let failure = |error| Failure::of(path.display(), error);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| failure(FileError::NoName))?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = fs::open(directory, flags, Mode::empty()).map_err(|error| failure(error.into()))?;
    Ok((directory, name))
}
