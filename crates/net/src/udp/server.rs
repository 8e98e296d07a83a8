//! The server's datagram socket: receives from anybody, answers from the address that was called.

use super::packet_info::{self, Called};
use super::{CallerSocket, Patience, datagram_socket, local_addr};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketAddrAny, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A bound, unconnected datagram socket.
///
/// Any number of threads may use it at once.
#[derive(Debug)]
pub struct ServerSocket {
    socket: OwnedFd,
    /// Bound to a wildcard address: the called address must be asked for, and given when answering.
    wildcard: bool,
}

/// Who sent a datagram, and how to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    addr: SocketAddr,
    called: Option<Called>,
}

impl Peer {
    /// The sender's address and port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address that the sender called; `None` on a socket bound to a single address.
    pub fn called(&self) -> Option<IpAddr> {
        self.called.map(|called| called.ip.to_canonical())
    }
}

/// A peer whose answers leave from whatever address the kernel chooses.
impl From<SocketAddr> for Peer {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, called: None }
    }
}

/// What a receive on a [`ServerSocket`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerArrival {
    /// A datagram is in the first `len` bytes of the buffer.
    Datagram {
        /// Bytes received.
        len: usize,
        /// Its sender.
        peer: Peer,
    },
    /// A datagram did not fit; the buffer holds its beginning, the rest is lost.
    TooLarge {
        /// Bytes of the whole datagram, more than the buffer has.
        len: usize,
        /// Its sender.
        peer: Peer,
    },
    /// Nothing is there ([`Patience::DontWait`] only).
    Nothing,
    /// [`ServerSocket::wake_receivers`] was called and nothing is there ([`Patience::Block`] only).
    WokenUp,
}

impl ServerSocket {
    /// Binds to `address`. Port 0 takes any free port, see [`local_addr`](Self::local_addr).
    ///
    /// On a wildcard address (`0.0.0.0`, `[::]`) each receive also asks which address was called, so
    /// that the answer leaves from there. That costs about 330 ns a round trip: bind to a single
    /// address where that is enough. Whether `[::]` also receives what IPv4 sends is the system's
    /// setting (`net.ipv6.bindv6only`; usually it does).
    ///
    /// # Errors
    ///
    /// `AddrInUse` when another socket has the port, `AddrNotAvailable` when the address is not this
    /// machine's, `PermissionDenied` for a port below 1024 without the right to it.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = datagram_socket(&address)?;
        let wildcard = address.ip().is_unspecified();
        if wildcard {
            packet_info::enable(socket.as_fd(), address.is_ipv6())?;
        }
        rustix::net::bind(&socket, &address)?;
        Ok(Self { socket, wildcard })
    }

    /// The address bound to, with the port that was chosen.
    ///
    /// # Errors
    ///
    /// None in practice: the socket is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local_addr(&self.socket)
    }

    /// Asks for room for `bytes` of waiting datagrams (the kernel counts about 700 bytes for a small
    /// one), and returns what was granted: no more than `net.core.rmem_max` allows.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        sockopt::set_socket_recv_buffer_size(&self.socket, bytes)?;
        Ok(sockopt::socket_recv_buffer_size(&self.socket)?)
    }

    /// Receives one datagram into `buffer`.
    ///
    /// # Errors
    ///
    /// Only when the kernel lacks memory.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], patience: Patience) -> io::Result<ServerArrival> {
        let flags = match patience {
            Patience::DontWait => RecvFlags::TRUNC | RecvFlags::DONTWAIT,
            Patience::Block => RecvFlags::TRUNC,
        };
        let size = buffer.len();
        let received = retry_on_intr(|| self.recv_once(&mut *buffer, flags));
        match received {
            Ok((len, Some(peer))) if len <= size => Ok(ServerArrival::Datagram { len, peer }),
            Ok((len, Some(peer))) => Ok(ServerArrival::TooLarge { len, peer }),
            // Every datagram has a sender, an empty one too: this is the end that `wake_receivers` made.
            Ok((_, None)) => Ok(ServerArrival::WokenUp),
            Err(Errno::AGAIN) => Ok(ServerArrival::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn recv_once(&self, buffer: &mut [u8], flags: RecvFlags) -> Result<(usize, Option<Peer>), Errno> {
        if self.wildcard {
            let (len, sender) = packet_info::recv(self.socket.as_fd(), buffer, flags)?;
            let Some((addr, called)) = sender else { return Ok((len, None)) };
            return Ok((len, Some(Peer { addr: socket_addr(addr)?, called })));
        }
        let (_, len, sender) = rustix::net::recvfrom(&self.socket, buffer, flags)?;
        let Some(addr) = sender else { return Ok((len, None)) };
        Ok((len, Some(Peer { addr: socket_addr(addr)?, called: None })))
    }

    /// Sends `datagram` to `peer`, from the address that it called.
    ///
    /// # Errors
    ///
    /// `InvalidInput` or `AddrNotAvailable` when the called address has gone since; otherwise what the
    /// network layer says at once: no route, a filter's refusal (`PermissionDenied`), a datagram
    /// beyond the path's size. That nobody listens at the other end is never told.
    #[inline]
    pub fn send(&self, datagram: &[u8], peer: &Peer) -> io::Result<()> {
        retry_on_intr(|| match &peer.called {
            Some(called) => packet_info::send(self.socket.as_fd(), datagram, &peer.addr, called),
            None => rustix::net::sendto(&self.socket, datagram, SendFlags::empty(), &peer.addr),
        })?;
        Ok(())
    }

    /// Whether a datagram waits to be received.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn has_waiting(&self) -> io::Result<bool> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match retry_on_intr(|| rustix::net::recv(&self.socket, &mut [0_u8; 1], flags)) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A second socket at the same address and port, connected to `peer`: the kernel prefers it for what that peer
    /// sends, and needs neither to tell the sender of what is received nor to find the way for what is sent. That saves
    /// about 220 ns a round trip, and more on a wildcard address.
    ///
    /// While it is being made, datagrams of others may end in it: what is received before the first
    /// [`CallerArrival::Nothing`](super::CallerArrival::Nothing) may be anybody's.
    ///
    /// # Errors
    ///
    /// No descriptor is left, or the peer called a link-local IPv6 address.
    pub fn connected_to(&self, peer: &Peer) -> io::Result<CallerSocket> {
        let mut own = self.local_addr()?;
        if let Some(called) = &peer.called {
            own.set_ip(called.ip);
        }
        if own.ip().is_unspecified() || matches!(own, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let socket = datagram_socket(&own)?;
        // Both must allow it, and this one only for as long as it takes. Not SO_REUSEADDR: that would admit sockets of
        // other users in that moment.
        sockopt::set_socket_reuseport(&socket, true)?;
        sockopt::set_socket_reuseport(&self.socket, true)?;
        let bound = rustix::net::bind(&socket, &own);
        sockopt::set_socket_reuseport(&self.socket, false)?;
        bound?;
        rustix::net::connect(&socket, &peer.addr)?;
        Ok(CallerSocket::connected(socket))
    }

    /// Wakes every thread blocked in [`recv`](Self::recv), now and for good: from now on a blocking
    /// receive returns what is queued and then [`ServerArrival::WokenUp`]. Sending goes on working,
    /// and so does [`Patience::DontWait`], which does not tell: spinning threads must look at a flag
    /// of their own.
    ///
    /// This is `shutdown(SHUT_RD)`. On an unconnected datagram socket it returns ENOTCONN and yet does
    /// its work: the kernel's `inet_shutdown` falls through from `TCP_CLOSE` ("hack to wake up other
    /// listeners … even on unconnected UDP sockets"), marks the socket RCV_SHUTDOWN and calls
    /// `sk_state_change`, and `__skb_wait_for_more_packets` then returns without a packet and without
    /// an error.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn wake_receivers(&self) -> io::Result<()> {
        match rustix::net::shutdown(&self.socket, Shutdown::Read) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for ServerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[inline]
fn socket_addr(addr: SocketAddrAny) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(addr)
}
