//! The file of a Unix socket: it replaces the file of a dead server, and is removed with its own server.

use crate::fork;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A socket file made by this process. Removed when dropped, unless another server's file has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    /// Generation in which it was made: a forked child leaves the file to its parent.
    generation: u32,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            return;
        }
        // Under the lock: another server that checks whether the file is stale might make its own in between.
        let _turn = TimedGuard::at(&self.path);
        if fs::symlink_metadata(&self.path).is_ok_and(|file| identity(&file) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds `socket` to `path` and listens. A socket file that no process has open is replaced.
pub(super) fn bind(
    socket: &OwnedFd,
    path: &Path,
    address: &SocketAddrUnix,
    backlog: i32,
) -> io::Result<SocketFile> {
    let _turn = TimedGuard::at(path);
    match rustix::net::bind(socket, address) {
        Err(Errno::ADDRINUSE) if is_stale(path, address) => {
            fs::remove_file(path)?;
            rustix::net::bind(socket, address)?;
        }
        bound => bound?,
    }
    let file = SocketFile {
        path: absolute(path),
        identity: identity(&fs::symlink_metadata(path)?),
        generation: fork::generation(),
    };
    fork::notice();
    rustix::net::listen(socket, backlog)?;
    Ok(file)
}

/// The right to replace or remove a socket file: a lock on a file beside it, `NAME.lock`. Of two servers that find the
/// same stale file, the second then sees the first one's new file. The lock file exists only for that moment.
///
/// Only this process's user (and root) can open the lock file, so no other user can hold the lock. A file of that name
/// that belongs to another user, or that others can open, is not used. Without a lock file, the server goes on without
/// a lock.
/// would for one server.
struct TimedGuard {
    locked: Option<(File, PathBuf)>,
}

impl TimedGuard {
    fn at(path: &Path) -> Self {
        let mut name = path.as_os_str().to_os_string();
        name.push(".lock");
        Self { locked: Self::lock(name.into()).ok() }
    }

    fn lock(path: PathBuf) -> io::Result<(File, PathBuf)> {
        loop {
            // Another user's file may be a pipe or a link, or under a lease: none of these blocks this thread.
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
            let opened = file.metadata()?;
            let is_private =
                opened.uid() == rustix::process::geteuid().as_raw() && opened.mode() & 0o077 == 0;
            if !opened.is_file() || !is_private {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            flock(&file, FlockOperation::LockExclusive)?;
            // The server that held the lock before has removed the file, and another may have made a new one.
            if fs::symlink_metadata(&path).is_ok_and(|present| identity(&present) == identity(&opened)) {
                return Ok((file, path));
            }
        }
    }
}

impl Drop for TimedGuard {
    fn drop(&mut self) {
        if let Some((_locked, path)) = &self.locked {
            // Before the lock is released; afterwards it could be another server's.
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether `path` is a socket that no process has open.
///
/// Asked with a datagram socket: a live stream socket answers that it is of another type (EPROTOTYPE), and its server
/// does not notice. A stream would have to be accepted.
fn is_stale(path: &Path, address: &SocketAddrUnix) -> bool {
    if !fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return false;
    }
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let Ok(probe) = probe else {
        return false;
    };
    rustix::net::connect(&probe, address) == Err(Errno::CONNREFUSED)
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// An absolute path: the process may have another working directory when it ends.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests;
