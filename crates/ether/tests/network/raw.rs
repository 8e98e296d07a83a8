//! Sends any bytes as a frame, and receives the frames of an EtherType as they are.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::mem::{size_of, zeroed};
use std::time::Duration;
use stoop_ether::frame::EtherType;

/// A packet socket.
pub(crate) struct Raw(OwnedFd);

impl Raw {
    /// A socket that sends at the interface of this number in this thread's network namespace, and receives nothing.
    pub(crate) fn open(index: u32) -> Self {
        Self::bound(index, 0)
    }

    /// As [`open`](Self::open), but receives the frames of that type.
    pub(crate) fn listen(index: u32, ether_type: EtherType) -> Self {
        Self::bound(index, ether_type.number())
    }

    fn bound(index: u32, ether_type: u16) -> Self {
        let socket =
            rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .unwrap();
        // SAFETY: zeros are a value of this struct of numbers.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ether_type.to_be();
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

    /// The next frame, if one comes within that time.
    pub(crate) fn receive_within(&self, limit: Duration) -> Option<Vec<u8>> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(limit)).unwrap();
        let mut frame = vec![0; 1 << 16];
        let (_, len) = rustix::net::recv(&self.0, &mut frame[..], RecvFlags::empty()).ok()?;
        frame.truncate(len);
        Some(frame)
    }
}
