//! Whether a peer may hand descriptors over by a Unix socket (SO_PASSRIGHTS, since Linux 6.16), which `rustix` lacks.
//!
//! A descriptor that nobody takes is closed by whoever receives the bytes that it came with, or closes the socket. That can wait as
//! long as the peer likes: closing a TCP socket waits until its data is sent, if the socket says so (SO_LINGER). So a peer that may
//! hand descriptors over can hold the thread that receives.

#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::mem::size_of;

/// As most architectures number it; `libc` does not know it yet.
const SO_PASSRIGHTS: libc::c_int = 83;
/// Whether this is one of them.
const IS_KNOWN: bool = !cfg!(any(target_arch = "sparc", target_arch = "sparc64"));

/// Lets the peer of the Unix socket `socket` hand descriptors over, or has the system refuse them to it (EPERM). New sockets let
/// it; those that are accepted do as their listener does.
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
