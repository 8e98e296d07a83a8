//! Whether a peer may pass descriptors over a Unix socket (SO_PASSRIGHTS, since Linux 6.16), an option that `rustix`
//! lacks.
//!
//! A descriptor that the receiver does not take is closed when the bytes that it came with are received, or the socket
//! is closed. That can block as long as the peer likes: closing a TCP socket waits until its data are sent, if the
//! socket says so (SO_LINGER). A peer that may pass descriptors can therefore block the thread that receives.

#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::mem::size_of;

/// The number on most architectures; `libc` does not know it yet.
const SO_PASSRIGHTS: libc::c_int = 83;
/// Whether this is one of those architectures.
const IS_KNOWN: bool = !cfg!(any(target_arch = "sparc", target_arch = "sparc64"));

/// Allows the peer of the Unix socket `socket` to pass descriptors, or makes the system refuse them (EPERM). New
/// sockets allow it; accepted sockets inherit from their listener.
///
/// # Errors
/// None in practice. Nothing happens on systems that cannot refuse them.
pub(super) fn allow(socket: BorrowedFd<'_>, allowed: bool) -> io::Result<()> {
    if !IS_KNOWN {
        return Ok(());
    }
    let value = libc::c_int::from(allowed);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is live and readable, and `len` is its size.
    let result = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, value, len)
    };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            why if why.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
            why => Err(why),
        },
    }
}
