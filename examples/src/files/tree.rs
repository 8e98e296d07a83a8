//! A directory that no path leaves: the kernel resolves each path beneath it (`openat2`).

use super::{Attributes, ENTRIES_MAX, Entry, FileError, Kind, Version, part};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::collections::BinaryHeap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A directory and all below it.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// The tree below an existing directory.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(root: &Path) -> Result<Self, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: fs::open(root, flags, Mode::empty())? })
    }

    /// Opens what is at `path`, behind symbolic links that stay in the tree.
    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, FileError> {
        let path = if path.is_empty() { "." } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // A rename has raced with a `..` in the path.
                Err(Errno::AGAIN) => {}
                opened => return Ok(opened?),
            }
        }
    }

    /// Opens a regular file to be read.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn open_file(&self, path: &str) -> Result<(File, Entry), FileError> {
        // A pipe must not make its reader wait for a writer.
        let file = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let entry = describe(last_name(path), &fs::fstat(&file)?);
        match entry.kind {
            Kind::Directory => Err(FileError::IsADirectory),
            Kind::Other | Kind::Link => Err(FileError::NotAFile),
            Kind::File | Kind::Part => Ok((file.into(), entry)),
        }
    }

    /// Describes what is at `path`.
    ///
    /// # Errors
    /// There is nothing, or it cannot be reached.
    pub fn look_up(&self, path: &str) -> Result<Entry, FileError> {
        Ok(describe(last_name(path), &fs::fstat(self.resolve(path, OFlags::PATH)?)?))
    }

    /// The directory that has the last name of `path`, and this name.
    ///
    /// # Errors
    /// There is no such directory, or the path does not end in a name.
    pub fn parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), FileError> {
        let (parent, name) = split(path)?;
        Ok((self.directory(parent)?, name))
    }

    /// Opens a directory whose entries are to be named.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn directory(&self, path: &str) -> Result<OwnedFd, FileError> {
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The first entries of a directory whose names come after `after`, in order, at most [`ENTRIES_MAX`].
    ///
    /// # Errors
    /// It is no directory, or cannot be read.
    pub fn list(&self, directory: &str, after: &str) -> Result<Vec<Entry>, FileError> {
        let directory = self.resolve(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut first = BinaryHeap::new();
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." && name.as_slice() > after.as_bytes() {
                first.push(name);
                if first.len() > ENTRIES_MAX {
                    first.pop();
                }
            }
        }
        let entries = first.into_sorted_vec().into_iter().map(|name| describe_in(&directory, &name));
        // An entry may vanish between the two system calls.
        entries.filter(|entry| !matches!(entry, Err(FileError::NotFound))).collect()
    }

    /// Makes a directory; one that exists is no error.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn make_directory(&self, path: &str) -> Result<(), FileError> {
        let (parent, name) = self.parent(path)?;
        match fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
            Err(Errno::EXIST) if self.look_up(path)?.kind == Kind::Directory => Ok(()),
            Err(Errno::EXIST) => Err(FileError::NotADirectory),
            made => Ok(made?),
        }
    }

    /// Removes a file, a symbolic link or an empty directory.
    ///
    /// # Errors
    /// Why it cannot be removed.
    pub fn remove(&self, path: &str) -> Result<(), FileError> {
        let (parent, name) = self.parent(path)?;
        match fs::unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => Ok(fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?),
            removed => Ok(removed?),
        }
    }
}

/// The directory and the last name of a path.
fn split(path: &str) -> Result<(&str, &str), FileError> {
    let path = path.trim_end_matches('/');
    let (parent, name) = match path.rsplit_once('/') {
        // The slash stays: an absolute path leaves the tree, and is refused where it is resolved.
        Some((_, name)) => (&path[..path.len() - name.len()], name),
        None => ("", path),
    };
    if is_name(name) { Ok((parent, name)) } else { Err(FileError::NoName) }
}

/// Whether this is the name of an entry: not empty, no path, not the directory itself or the one above.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// The path of a directory's entry.
pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() || directory.ends_with('/') {
        format!("{directory}{name}")
    } else {
        format!("{directory}/{name}")
    }
}

fn last_name(path: &str) -> &str {
    split(path).map_or("", |(_, name)| name)
}

fn describe_in(directory: impl AsFd, name: &[u8]) -> Result<Entry, FileError> {
    let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut entry = describe(&String::from_utf8_lossy(name), &stat);
    if std::str::from_utf8(name).is_err() {
        entry.kind = Kind::Other;
    }
    Ok(entry)
}

/// Describes what `stat` says of an entry of that name.
pub fn describe(name: &str, stat: &Stat) -> Entry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if part::is_part(name) => Kind::Part,
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let version = Version {
        inode: stat.st_ino,
        size: stat.st_size as u64,
        changed_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
    };
    let attributes =
        Attributes { modified_ns: ns(stat.st_mtime, stat.st_mtime_nsec), mode: stat.st_mode & 0o777 };
    Entry { name: name.into(), kind, version, attributes }
}

fn ns(seconds: i64, nanoseconds: u64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds as i64)
}
