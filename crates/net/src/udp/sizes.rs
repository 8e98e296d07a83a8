//! Sizes: of a socket's receive buffer, and of the longest datagram that the path to a peer carries unfragmented.

use super::MAX_SEGMENTS_LEN;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use std::io;
use std::net::SocketAddr;

/// Asks for room for `bytes`, beyond the system's limit if we may (CAP_NET_ADMIN), and returns what was granted.
pub(super) fn set_receive_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    // The kernel takes an `int` and doubles it.
    let bytes = bytes.min(i32::MAX as usize / 2);
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    receive_buffer(socket)
}

pub(super) fn receive_buffer(socket: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

/// Bytes of the longest datagram that the way from a connected socket to its peer is known to carry in one piece.
pub(super) fn largest_datagram(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let peer: SocketAddr = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?.try_into()?;
    let mtu = if peer.is_ipv4() { sockopt::ip_mtu(socket) } else { sockopt::ipv6_mtu(socket) }?;
    Ok(payload(mtu as usize, peer.ip().to_canonical().is_ipv4()))
}

/// Room for data in packets of `mtu` bytes. Without options: there are none in what we send.
fn payload(mtu: usize, ipv4: bool) -> usize {
    let headers = if ipv4 { 20 + 8 } else { 40 + 8 };
    mtu.saturating_sub(headers).min(MAX_SEGMENTS_LEN)
}

/// Forbids that packets are fragmented, for any path MTU that the kernel has learnt, or leaves it to the kernel.
pub(super) fn set_dont_fragment(socket: BorrowedFd<'_>, ipv6: bool, on: bool) -> io::Result<()> {
    if ipv6 {
        let mode = if on { Ipv6PathMtuDiscovery::PROBE } else { Ipv6PathMtuDiscovery::WANT };
        sockopt::set_ipv6_mtu_discover(socket, mode)?;
    }
    // On an IPv6 socket: for what goes to IPv4.
    let mode = if on { Ipv4PathMtuDiscovery::PROBE } else { Ipv4PathMtuDiscovery::WANT };
    sockopt::set_ip_mtu_discover(socket, mode)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ethernet_carries_is_what_a_packet_of_ours_takes() {
        assert_eq!(payload(1500, true), 1472);
        assert_eq!(payload(1500, false), 1452);
        assert_eq!(payload(9000, true), 8972);
        assert_eq!(payload(65_536, true), MAX_SEGMENTS_LEN);
        assert_eq!(payload(10, true), 0);
    }
}
