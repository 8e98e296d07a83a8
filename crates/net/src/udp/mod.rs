//! Datagram sockets, tuned for one call at a time.
//!
//! A [`ServerSocket`] is unconnected: it receives from every sender and answers each [`Peer`]. A
//! [`CallerSocket`] is connected to one server: the kernel finds the way once, drops what comes from
//! elsewhere, and tells when the server's port is closed. No receive asks `poll` first: that costs a
//! microsecond a round trip.
//!
//! Both also send and receive many datagrams by one system call (`send_segments`, `recv_segments`). That datagrams are
//! received together must be asked for (`set_gro`); it makes the receipt of a single one slower.

mod bound;
mod caller;
mod control;
mod message;
mod segments;
mod server;
mod server_sending;
mod sizes;
mod source;

pub use crate::packets::{CallerArrival, MAX_SEGMENTS, MAX_SEGMENTS_LEN, Segments, SegmentsSending, Sending};
pub use caller::CallerSocket;
pub use server::{Peer, ServerArrival, ServerSocket};
pub use source::Source;

pub use crate::Patience;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Finds the addresses of `host_and_port`: `"10.0.0.1:7400"`, `"[::1]:7400"` or `"name:7400"`.
///
/// # Errors
///
/// The text has no port, the name is unknown, or the name service failed. The list is never empty.
pub fn resolve(host_and_port: &str) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = host_and_port.to_socket_addrs()?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("no address is known for {host_and_port}"),
        ));
    }
    Ok(addresses)
}

/// Whether `host_and_port` has a name for the host, so that [`resolve`] may find other addresses later.
pub fn is_name(host_and_port: &str) -> bool {
    host_and_port.parse::<SocketAddr>().is_err()
}

/// Makes a datagram socket for addresses like `address`, closed on exec.
fn datagram_socket(address: &SocketAddr) -> io::Result<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// The address a socket is bound to.
fn local_addr(socket: impl rustix::fd::AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(socket)?)?)
}

#[cfg(test)]
mod tests;
