//! A packet socket that sends any frame, and receives every frame of one EtherType at the interface, whatever its destination address.

use super::INTERFACE;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::mem::{size_of, zeroed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stoop_ether::Interface;
use stoop_ether::address::Address;
use stoop_ether::frame::{Checksum, EtherType, OVERHEAD, Template, frame_len};

pub(crate) struct Raw(OwnedFd);

impl Raw {
    /// At the end where the thread is.
    pub(crate) fn open() -> Self {
        let kind = (AddressFamily::PACKET, SocketType::RAW);
        let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        // SAFETY: zeros are a value of this struct of numbers.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = EtherType::default().number().to_be();
        address.sll_ifindex = Interface::by_name(INTERFACE).unwrap().index.cast_signed();
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the pointer is to a live address of the length that is given.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(result, 0);
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(5))).unwrap();
        Self(socket)
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        rustix::net::send(&self.0, frame, SendFlags::empty()).unwrap();
    }

    /// The next frame; `None` if none comes for a while.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let (_, len) = rustix::net::recv(&self.0, &mut *buffer, RecvFlags::empty()).ok()?;
        Some(&buffer[..len])
    }
}

/// Ends the attack of another thread when it is dropped, also when the test fails.
pub(crate) struct EndOfAttack<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndOfAttack<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A frame with a packet.
pub(crate) fn frame(from: Address, to: Address, checksum: Checksum, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; frame_len(packet.len())];
    frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
    Template::new(from, to, EtherType::default(), checksum).complete(&mut frame, packet.len());
    frame
}

/// The address in a URI.
pub(crate) fn address_in(uri: &str) -> Address {
    let endpoint = uri.rsplit('/').next().unwrap().split('?').next().unwrap();
    let (mac, port) = endpoint.rsplit_once(':').unwrap();
    Address { mac: mac.parse().unwrap(), port: port.parse().unwrap() }
}
