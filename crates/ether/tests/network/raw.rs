//! Sends any bytes as a frame.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::mem::{size_of, zeroed};

/// A packet socket that receives nothing.
pub(crate) struct Raw(OwnedFd);

impl Raw {
    /// A socket at the interface of this number in this thread's network namespace.
    pub(crate) fn open(index: u32) -> Self {
        let socket =
            rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .unwrap();
        // SAFETY: zeros are a value of this struct of numbers.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index.cast_signed();
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the pointer is to a live address of the length that is given.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(result, 0);
        Self(socket)
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        rustix::net::send(&self.0, frame, SendFlags::empty()).unwrap();
    }
}
