//! Byte streams: TCP and Unix sockets behind one interface.
//!
//! A [`StreamListener`] accepts [`Stream`]s; [`Stream::connect`] makes one. Only the [`StreamAddress`] says which kind
//! it is.

mod address;
mod connecting;
mod credentials;
mod listener;
mod rights;
mod socket_file;
mod tcp_info;

pub use address::StreamAddress;
pub use credentials::Credentials;
pub use listener::{Accepted, StreamListener};

use crate::time_limit::{self, TimeLimit};
use crate::{Patience, clock};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

/// Silence after which a TCP peer is probed,
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// the interval of further probes,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// and the number of unanswered probes after which the connection ends.
const KEEPALIVE_COUNT: u32 = 6;

/// A connected byte stream.
///
/// One thread at a time should receive, and one at a time send: the timeouts are the socket's, and two senders would
/// mix their messages.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    limit: TimeLimit,
}

/// The outcome of a receive on a [`Stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamArrival {
    /// This many bytes, at least one, are at the beginning of the buffer.
    Bytes(usize),
    /// Nothing is there. After a wait with a limit: it has passed, or a signal ended it early; look at
    /// the clock.
    Nothing,
    /// The peer has closed its side, or this side was [shut down](Stream::shutdown): nothing will come.
    Closed,
}

impl Stream {
    /// Connects to `address`, waiting for `limit` at most. TCP sends small messages at once
    /// (TCP_NODELAY).
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` when no server listens there, `NotFound` when a Unix socket's file is not there,
    /// `TimedOut` when the peer or its full queue did not answer within `limit`, and the errors that the network reports.
    pub fn connect(address: &StreamAddress, limit: Duration) -> io::Result<Self> {
        let socket = connecting::connect(address, limit)?;
        Self::prepared(socket, address.is_tcp())
    }

    /// As [`connect`](Self::connect), over TCP from a port below 1024: old servers take that for a proof that the caller is
    /// root.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); `PermissionDenied` without the right to such ports (CAP_NET_BIND_SERVICE).
    pub fn connect_reserved(address: &StreamAddress, limit: Duration) -> io::Result<Self> {
        let socket = connecting::connect_reserved(address, limit)?;
        Self::prepared(socket, address.is_tcp())
    }

    /// Two Unix streams connected to each other.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC;
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self::prepared(a, false)?, Self::prepared(b, false)?))
    }

    fn prepared(socket: OwnedFd, tcp: bool) -> io::Result<Self> {
        if tcp {
            // With Nagle's algorithm a message in two parts waits 40 ms for the peer's acknowledgement.
            sockopt::set_tcp_nodelay(&socket, true)?;
            // A peer whose machine has failed closes no connection: without keepalive, a thread would wait for it, and
            // the server would keep the connection, for ever.
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
            sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
            sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_COUNT)?;
        }
        Ok(Self { socket, limit: TimeLimit::unset() })
    }

    /// Receives the bytes that are there, up to the buffer's length.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` and the like: the stream is broken.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], patience: Patience) -> io::Result<StreamArrival> {
        let flags = match patience {
            Patience::DontWait => RecvFlags::DONTWAIT,
            Patience::Block => {
                self.limit.disarm(self.socket.as_fd())?;
                RecvFlags::empty()
            }
        };
        let size = buffer.len();
        arrival(retry_on_intr(|| rustix::net::recv(&self.socket, &mut *buffer, flags)), size)
    }

    /// Sleeps in the kernel until something is there or `limit_ns` nanoseconds have passed: often less, so that similar
    /// limits need not be set in the socket again, and never more (but for the thread's timer slack). Look at the clock,
    /// and wait for the rest.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_within(&self, buffer: &mut [u8], limit_ns: u64) -> io::Result<StreamArrival> {
        self.recv_about(buffer, limit_ns, limit_ns)
    }

    /// As [`recv_within`](Self::recv_within), for about `about_ns`, up to two ticks of the kernel and an eighth more, but
    /// never beyond `latest_ns`. Where an exact wait as short as a few ticks takes two system calls, this one takes one.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline(always)]
    pub fn recv_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<StreamArrival> {
        if about_ns == 0 {
            return self.recv(buffer, Patience::DontWait);
        }
        let flags = self.limit.arm(self.socket.as_fd(), about_ns, latest_ns)?;
        let size = buffer.len();
        let received = rustix::net::recv(&self.socket, buffer, flags);
        self.limit.note(flags, &received);
        arrival(received, size)
    }

    /// How long ago at least this machine received the last bytes of a TCP stream, taken or not, in nanoseconds. The kernel tells it to a
    /// tick or two: `None` if it is less, and of Unix sockets.
    #[cold]
    pub fn age_of_last_ns(&self) -> Option<u64> {
        let age = tcp_info::since_last_data(self.socket.as_fd())?;
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        age_ns.checked_sub(2 * clock::tick_ns()).filter(|age_ns| *age_ns > 0)
    }

    /// Sleeps in the kernel until something can be received or the stream has ended, or `limit_ns` nanoseconds have
    /// passed, or a signal comes. For callers that receive by the descriptor itself. Returns whether a receive would not wait.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn sleep_until_readable(&self, limit_ns: u64) -> io::Result<bool> {
        time_limit::sleep_until(self.socket.as_fd(), PollFlags::IN, limit_ns)
    }

    /// Sleeps in the kernel until something can be sent or the stream is broken, or `limit_ns` nanoseconds have passed, or a
    /// signal comes. Returns whether a send would not wait.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn sleep_until_writable(&self, limit_ns: u64) -> io::Result<bool> {
        time_limit::sleep_until(self.socket.as_fd(), PollFlags::OUT, limit_ns)
    }

    /// Sends all of `header` and then all of `payload`, waiting while the peer is slow.
    ///
    /// # Errors
    ///
    /// The stream is broken (`BrokenPipe`, `ConnectionReset`; no signal is raised), or a
    /// [send limit](Self::set_send_limit) has passed (`TimedOut`). Then part of it may have been sent, and
    /// the stream cannot be used for more messages.
    pub fn send_all(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        let (mut header, mut payload) = (header, payload);
        while !(header.is_empty() && payload.is_empty()) {
            let sent =
                match self.send_some(&[IoSlice::new(header), IoSlice::new(payload)], SendFlags::NOSIGNAL) {
                    Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                    sent => sent?,
                };
            let of_header = sent.min(header.len());
            header = &header[of_header..];
            payload = &payload[sent - of_header..];
        }
        Ok(())
    }

    /// Sends the beginning of `slices`, as much as there is space for, and returns how many bytes that was: 0 if there
    /// is no space.
    ///
    /// # Errors
    ///
    /// The stream is broken (`BrokenPipe`, `ConnectionReset`; no signal is raised).
    pub fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.send_some(slices, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::AGAIN) => Ok(0),
            sent => Ok(sent?),
        }
    }

    #[inline]
    fn send_some(&self, slices: &[IoSlice<'_>], flags: SendFlags) -> Result<usize, Errno> {
        retry_on_intr(|| match slices {
            // The kernel has less to copy and to check for a single slice.
            [only] => rustix::net::send(&self.socket, only, flags),
            [only, rest] | [rest, only] if rest.is_empty() => rustix::net::send(&self.socket, only, flags),
            _ => rustix::net::sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), flags),
        })
    }

    /// Limits how long [`send_all`](Self::send_all) waits each time the peer accepts nothing; `None`: no limit.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a limit of zero.
    pub fn set_send_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.socket, Timeout::Send, limit)?)
    }

    /// Makes TCP end a connection whose data the peer's machine leaves unacknowledged for `limit` (TCP_USER_TIMEOUT,
    /// RFC 5482; by default about 15 minutes). Does nothing on Unix sockets, which need no such limit.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_user_timeout(&self, limit: Duration) -> io::Result<()> {
        if !self.is_tcp()? {
            return Ok(());
        }
        let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).clamp(1, i32::MAX as u32);
        Ok(sockopt::set_tcp_user_timeout(&self.socket, limit_ms)?)
    }

    /// Credentials of the process at the other end of a Unix stream, as the kernel recorded them when the stream was
    /// made; `None` over TCP.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn peer_credentials(&self) -> io::Result<Option<Credentials>> {
        if self.is_tcp()? { Ok(None) } else { credentials::of_peer(self.socket.as_fd()).map(Some) }
    }

    /// The peer's address over TCP; `None` on a Unix stream.
    ///
    /// # Errors
    ///
    /// `NotConnected` when the connection is broken.
    pub fn peer_addr(&self) -> io::Result<Option<SocketAddr>> {
        let peer = rustix::net::getpeername(&self.socket)?;
        Ok(peer.and_then(|peer| SocketAddr::try_from(peer).ok()))
    }

    /// Whether the connection's address is certainly not this machine's any more: nothing can be sent on the connection or arrive
    /// there unless the address comes back. TCP itself would find out by its timeouts only, after a quarter of an hour.
    #[cold]
    pub fn is_stranded(&self) -> bool {
        self.local_addr().is_ok_and(|own| own.is_some_and(|own| !crate::address::is_assigned(own)))
    }

    /// This end's address over TCP; `None` on a Unix stream.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        Ok(SocketAddr::try_from(rustix::net::getsockname(&self.socket)?).ok())
    }

    /// Ends the stream in both directions: the peer sees its end, and threads blocked here wake up. Bytes that have
    /// been sent are still delivered.
    ///
    /// # Errors
    ///
    /// None in practice: that the connection is broken already is no error.
    pub fn shutdown(&self) -> io::Result<()> {
        match rustix::net::shutdown(&self.socket, Shutdown::Both) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends nothing more: the peer reads the end of the stream behind what has been sent.
    ///
    /// # Errors
    ///
    /// None in practice: that the connection is broken already is no error.
    pub fn finish(&self) -> io::Result<()> {
        match rustix::net::shutdown(&self.socket, Shutdown::Write) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// For a Unix stream: allows or forbids that its peer passes descriptors. Without this call the system refuses them
    /// (since Linux 6.16): closing a descriptor that the peer has chosen can take as long as the peer likes.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn allow_descriptors(&self, allowed: bool) -> io::Result<()> {
        rights::allow(self.socket.as_fd(), allowed)
    }

    fn is_tcp(&self) -> io::Result<bool> {
        Ok(sockopt::socket_domain(&self.socket)? != AddressFamily::UNIX)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes a stream socket for addresses like `address`, closed on exec. No peer can pass descriptors over it, or over
/// the sockets that it accepts.
fn stream_socket(address: &StreamAddress) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(address.family(), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if !address.is_tcp() {
        rights::allow(socket.as_fd(), false)?;
    }
    Ok(socket)
}

#[inline]
fn arrival(received: Result<(usize, usize), Errno>, size: usize) -> io::Result<StreamArrival> {
    match received {
        Ok((0, _)) if size > 0 => Ok(StreamArrival::Closed),
        Ok((len, _)) => Ok(StreamArrival::Bytes(len)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(StreamArrival::Nothing),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
