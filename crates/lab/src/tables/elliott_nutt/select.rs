//! `select(2)` on one descriptor, as programs of 1989 waited for a packet with a time-out.
#![allow(unsafe_code)]

use rustix::event::{FdSetElement, Timespec, fd_set_insert, fd_set_num_elements, select};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The time-out of Sun RPC over UDP for one try.
const LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
const ELEMENTS: usize = 16;

/// Waits until `socket` can be read.
///
/// # Errors
/// `TimedOut` after five seconds.
pub(super) fn until_readable(socket: impl AsFd) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let bound = fd + 1;
    let mut set = [FdSetElement::default(); ELEMENTS];
    if fd_set_num_elements(1, bound) > ELEMENTS {
        return Err(io::Error::other("the descriptor is too large for select"));
    }
    fd_set_insert(&mut set, fd);
    // SAFETY: the one descriptor in the set is open as long as `socket` is borrowed.
    let ready = unsafe { select(bound, Some(&mut set), None, None, Some(&LIMIT)) }?;
    if ready > 0 { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn socket_with_a_datagram_is_readable() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.send_to(&[1], socket.local_addr().expect("it is bound")).expect("loopback takes it");
        until_readable(&socket).expect("a datagram is there");
    }
}
