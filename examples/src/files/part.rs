//! Files that are being received. They have a temporary name in the directory of their final one until all bytes are there; then they
//! are written to the disk and renamed, so that no half of a file is ever seen under its name.
//!
//! The pieces of a part may come in any order. A part stays when its receiver dies, and the next one compares checksums to learn which
//! pieces it has.

use super::tree::is_name;
use super::{Attributes, Contents, FileError, NewFile, piece};
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use stoop::InPlace;

const PREFIX: &str = ".stoop-";
const SUFFIX: &str = ".part";

/// Whether this is the name of a part.
pub fn is_part(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// A file that is being received.
#[derive(Debug)]
pub struct Part {
    directory: OwnedFd,
    temporary: String,
    name: String,
    file: File,
}

impl Part {
    /// Opens the part of a file that is to be `directory`'s entry `name`, and says whether it is new. `id` tells parts of the same name
    /// apart.
    ///
    /// # Errors
    /// It cannot be made, or the file system has less free than the rest of it needs.
    pub fn create(directory: OwnedFd, name: &str, id: u64, size: u64) -> Result<(Self, bool), FileError> {
        let temporary = temporary_name(name, id);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (file, is_new) = match fs::openat(&directory, &temporary, flags | OFlags::EXCL, Mode::from(0o600))
        {
            Err(Errno::EXIST) => (fs::openat(&directory, &temporary, flags, Mode::from(0o600))?, false),
            opened => (opened?, true),
        };
        let part = Self { directory, temporary, name: name.into(), file: file.into() };
        match part.reserve(size) {
            Ok(()) => Ok((part, is_new)),
            // Of no use to anybody. One that was there before is kept until there is space.
            Err(error) if is_new => part.remove().and(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Opens a part that has been created.
    ///
    /// # Errors
    /// [`FileError::NotFound`] when there is none.
    pub fn open(directory: OwnedFd, name: &str, id: u64) -> Result<Self, FileError> {
        let temporary = temporary_name(name, id);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&directory, &temporary, flags, Mode::empty())?.into();
        Ok(Self { directory, temporary, name: name.into(), file })
    }

    /// Gives the part its final length, if there is space for it.
    fn reserve(&self, size: u64) -> Result<(), FileError> {
        let held = fs::fstat(&self.file)?.st_blocks as u64 * 512;
        let system = fs::fstatvfs(&self.file)?;
        if size.saturating_sub(held) > system.f_bavail.saturating_mul(system.f_frsize) {
            return Err(FileError::NoSpace);
        }
        Ok(fs::ftruncate(&self.file, size)?)
    }

    /// Keeps other processes that ask for it from the part while this is open; says whether that succeeded.
    ///
    /// # Errors
    /// The file system has no locks.
    pub fn lock(&self) -> Result<bool, FileError> {
        match fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            locked => {
                locked?;
                // The process that had the lock may have given the file its final name.
                let named = fs::statat(&self.directory, &self.temporary, AtFlags::SYMLINK_NOFOLLOW);
                let own = fs::fstat(&self.file)?;
                Ok(named.is_ok_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)))
            }
        }
    }

    /// Writes the bytes of a piece at their place, if their checksum is `expected`.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] if it is not; otherwise why they cannot be written.
    pub fn write(&self, at: u64, bytes: &[u8], expected: u32) -> Result<(), FileError> {
        check(piece::checksum(bytes), expected)?;
        self.write_checked(at, bytes)
    }

    /// Writes the bytes of a piece, whose checksum the caller has compared, at their place.
    ///
    /// # Errors
    /// Why they cannot be written.
    pub fn write_checked(&self, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        piece::write(&self.file, at, bytes)
    }

    /// Writes the bytes of a piece from a buffer that another process may have mapped too. If their checksum is not `expected`, the part has
    /// wrong bytes there until the piece is written again, which the next comparison of checksums asks for.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] after writing bytes of another checksum; otherwise why they cannot be written.
    pub fn write_in_place(&self, at: u64, bytes: &InPlace<u8>, expected: u32) -> Result<(), FileError> {
        check(piece::write_in_place(&self.file, at, bytes)?, expected)
    }

    /// The checksums of its pieces from number `first` on; see [`piece::checksums`].
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn checksums(&self, size: u64, first: u64) -> Result<Vec<u32>, FileError> {
        piece::checksums(&self.file, size, first)
    }

    /// Sets the attributes, and writes all to the disk if the file is to be `durable`.
    ///
    /// # Errors
    /// Why that failed; the part stays as it is.
    pub fn complete(&self, attributes: &Attributes, durable: bool) -> Result<(), FileError> {
        set_attributes(&self.file, attributes)?;
        if durable {
            fs::fsync(&self.file)?;
        }
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Why that failed; the part stays as it is.
    pub fn rename(&self) -> Result<(), FileError> {
        Ok(fs::renameat(&self.directory, &self.temporary, &self.directory, &self.name)?)
    }

    /// Writes the file's new name to the disk.
    ///
    /// # Errors
    /// Why that failed; the file has its name.
    pub fn sync_name(&self) -> Result<(), FileError> {
        Ok(fs::fsync(readable(&self.directory)?)?)
    }

    /// Removes the part.
    ///
    /// # Errors
    /// Why that failed.
    pub fn remove(&self) -> Result<(), FileError> {
        Ok(fs::unlinkat(&self.directory, &self.temporary, AtFlags::empty())?)
    }
}

/// Fails if a checksum is not the expected one.
///
/// # Errors
/// [`FileError::Corrupt`].
pub fn check(checksum: u32, expected: u32) -> Result<(), FileError> {
    if checksum == expected { Ok(()) } else { Err(FileError::Corrupt) }
}

/// Short names, because the file's own name may be as long as names can be.
fn temporary_name(name: &str, id: u64) -> String {
    let mut hasher = DefaultHasher::new();
    (name, id).hash(&mut hasher);
    format!("{PREFIX}{:016x}{SUFFIX}", hasher.finish())
}

/// Creates or replaces a directory's entries by whole files, each with a result of its own. `durable` files are on the disk before the
/// first of them gets its name.
pub fn write_whole(directory: &OwnedFd, files: &[NewFile], durable: bool) -> Vec<Result<(), FileError>> {
    let written: Vec<_> = files.iter().map(|file| Whole::create(directory, file)).collect();
    let synced = if durable { sync_all(directory) } else { Ok(()) };
    written.into_iter().map(|whole| whole.and_then(|whole| whole.rename(synced))).collect()
}

/// A whole file under a temporary name.
#[derive(Debug)]
struct Whole<'a> {
    directory: &'a OwnedFd,
    temporary: String,
    name: &'a str,
}

impl<'a> Whole<'a> {
    /// Writes a file. If that fails, nothing is left of it.
    fn create(directory: &'a OwnedFd, file: &'a NewFile) -> Result<Self, FileError> {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let NewFile { name, contents: Contents { attributes, checksum, bytes } } = file;
        if !is_name(name) {
            return Err(FileError::NoName);
        }
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{PREFIX}{:x}-{number:x}{SUFFIX}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        check(piece::checksum(bytes), *checksum)?;
        let new = fs::openat(directory, &temporary, flags, Mode::from(0o600))?;
        let whole = Self { directory, temporary, name };
        let written = piece::write(&new, 0, bytes);
        let written = written.and_then(|()| set_attributes(&new, attributes));
        whole.or_remove(written).map(|()| whole)
    }

    /// Gives the file its name, unless the disk did not take it.
    fn rename(&self, synced: Result<(), FileError>) -> Result<(), FileError> {
        let Self { directory, temporary, name } = self;
        self.or_remove(synced.and_then(|()| Ok(fs::renameat(directory, temporary, directory, *name)?)))
    }

    /// Removes the file after an error.
    fn or_remove(&self, done: Result<(), FileError>) -> Result<(), FileError> {
        done.or_else(|error| {
            fs::unlinkat(self.directory, &self.temporary, AtFlags::empty())?;
            Err(error)
        })
    }
}

/// Writes the file system of a directory to the disk: one wait for many files.
fn sync_all(directory: &OwnedFd) -> Result<(), FileError> {
    Ok(fs::syncfs(readable(directory)?)?)
}

/// Opens a directory again, to do what a descriptor of a path alone cannot.
fn readable(directory: &OwnedFd) -> Result<OwnedFd, FileError> {
    Ok(fs::openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn set_attributes(file: impl AsFd, attributes: &Attributes) -> Result<(), FileError> {
    const SECOND: i64 = 1_000_000_000;
    let Attributes { modified_ns, mode } = *attributes;
    let time =
        Timespec { tv_sec: modified_ns.div_euclid(SECOND), tv_nsec: modified_ns.rem_euclid(SECOND) as _ };
    fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?;
    Ok(fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?)
}
