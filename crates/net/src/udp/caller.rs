//! The connected datagram socket: the kernel finds the way once, and gives it what comes from its peer alone.

use super::{datagram_socket, local_addr};
use crate::time_limit::TimeLimit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::io;
use std::net::SocketAddr;

/// A datagram socket connected to one server, on a port of its own.
///
/// Made for one caller at a time: two threads that wait with different limits would change each
/// other's.
#[derive(Debug)]
pub struct CallerSocket {
    socket: OwnedFd,
    limit: TimeLimit,
}

/// What a receive on a [`CallerSocket`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerArrival {
    /// A datagram is in this many first bytes of the buffer.
    Datagram(usize),
    /// A datagram of this many bytes did not fit; the buffer holds its beginning, the rest is lost.
    TooLarge(usize),
    /// Nothing is there. After a wait: the limit has passed, or a signal ended it early; look at the
    /// clock.
    Nothing,
    /// Something sent earlier found the server's port closed (ECONNREFUSED). Told once; the socket
    /// can be used on.
    Refused,
}

/// What became of a datagram handed to [`CallerSocket::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It is on its way.
    Sent,
    /// It was not sent: something sent earlier found the server's port closed (ECONNREFUSED). Told
    /// once; the socket can be used on.
    Refused,
}

impl CallerSocket {
    /// Makes a socket on a free port, connected to `server`.
    ///
    /// # Errors
    ///
    /// There is no route to `server` (`NetworkUnreachable`), or no port or descriptor is left. That
    /// nobody listens there is told later, by [`Sending::Refused`] or [`CallerArrival::Refused`].
    pub fn connect(server: SocketAddr) -> io::Result<Self> {
        let socket = datagram_socket(&server)?;
        rustix::net::connect(&socket, &server)?;
        Ok(Self::connected(socket))
    }

    pub(super) fn connected(socket: OwnedFd) -> Self {
        Self { socket, limit: TimeLimit::unset() }
    }

    /// The address and port that the server sees, unless something between translates them.
    ///
    /// # Errors
    ///
    /// None in practice: the socket is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local_addr(&self.socket)
    }

    /// Sends `datagram` to the server.
    ///
    /// # Errors
    ///
    /// What the network layer says at once: no route, a filter's refusal (`PermissionDenied`), a
    /// datagram beyond the path's size.
    #[inline]
    pub fn send(&self, datagram: &[u8]) -> io::Result<Sending> {
        match retry_on_intr(|| rustix::net::send(&self.socket, datagram, SendFlags::empty())) {
            Ok(_) => Ok(Sending::Sent),
            Err(Errno::CONNREFUSED) => Ok(Sending::Refused),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a datagram if one is there.
    ///
    /// # Errors
    ///
    /// What the network has told of something sent earlier, except [`CallerArrival::Refused`].
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<CallerArrival> {
        let size = buffer.len();
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let received = retry_on_intr(|| rustix::net::recv(&self.socket, &mut *buffer, flags));
        arrival(received.map(|(_, len)| len), size)
    }

    /// Sleeps in the kernel until a datagram is there or about `limit_ns` nanoseconds have passed: at most an
    /// eighth less, so that similar limits need not be told to the kernel again (`SO_RCVTIMEO`), and at most two
    /// ticks of the kernel more. Look at the clock, and wait for the rest.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_within(&self, buffer: &mut [u8], limit_ns: u64) -> io::Result<CallerArrival> {
        if limit_ns == 0 {
            return self.recv(buffer);
        }
        self.limit.arm(self.socket.as_fd(), limit_ns)?;
        let size = buffer.len();
        let received = rustix::net::recv(&self.socket, buffer, RecvFlags::TRUNC);
        arrival(received.map(|(_, len)| len), size)
    }
}

impl CallerSocket {
    /// Sleeps in the kernel until a datagram is there, or until the socket is [retired](Self::retire): then an empty
    /// datagram seems to arrive. A signal ends it early, with [`CallerArrival::Nothing`].
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_blocking(&self, buffer: &mut [u8]) -> io::Result<CallerArrival> {
        self.limit.disarm(self.socket.as_fd())?;
        let size = buffer.len();
        let received = rustix::net::recv(&self.socket, buffer, RecvFlags::TRUNC);
        arrival(received.map(|(_, len)| len), size)
    }

    /// Hears nobody any more, and wakes whoever is blocked in [`recv_blocking`](Self::recv_blocking), for good. What has
    /// arrived before can still be received. What its peer sends from now on is another socket's, if one is bound to
    /// the same address; nothing can be sent to the peer.
    ///
    /// # Errors
    ///
    /// The address is no longer this machine's: then the socket goes on hearing its peer until it is dropped.
    pub fn retire(&self) -> io::Result<()> {
        // Closing would do, but another thread may hold the socket for long. Connected to itself, it matches nothing
        // that arrives.
        let connected = self.local_addr().and_then(|own| Ok(rustix::net::connect(&self.socket, &own)?));
        // Whoever waits there is woken in any case.
        match rustix::net::shutdown(&self.socket, Shutdown::Read) {
            Ok(()) | Err(Errno::NOTCONN) => connected,
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for CallerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[inline]
fn arrival(received: Result<usize, Errno>, size: usize) -> io::Result<CallerArrival> {
    match received {
        Ok(len) if len <= size => Ok(CallerArrival::Datagram(len)),
        Ok(len) => Ok(CallerArrival::TooLarge(len)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(CallerArrival::Nothing),
        Err(Errno::CONNREFUSED) => Ok(CallerArrival::Refused),
        Err(error) => Err(error.into()),
    }
}
