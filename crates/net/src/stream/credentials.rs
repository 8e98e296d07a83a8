//! Credentials of the process at the other end of a Unix stream (SO_PEERCRED).
//!
//! `rustix` reads these too, but into a process number that must not be zero, which the kernel tells
//! when the peer's process has no number in our namespace; hence the one `getsockopt` here.

#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::mem::size_of;

/// The process that made the other end of a Unix stream, by connecting or by listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Process; `None` when it is in a process namespace that ours does not see. The number may have been
    /// given to another process since.
    pub pid: Option<u32>,
}

/// Credentials of the peer of the Unix stream `socket`.
pub(super) fn of_peer(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` and `len` are live and writable, `len` is the size of `peer`, and every bit pattern is a
    // value of `ucred`'s three integers.
    let result = unsafe {
        let value = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let pid = u32::try_from(peer.pid).ok().filter(|&pid| pid != 0);
    Ok(Credentials { uid: peer.uid, gid: peer.gid, pid })
}
