//! The connected datagram socket: the kernel finds the way once, and gives it what comes from its peer alone.

use super::control::Control;
use super::server::SMALL_CHARGE;
use super::{datagram_socket, local_addr, message, segments, sizes};
use crate::packets::{CallerArrival, Segments, SegmentsSending, Sending};
use crate::time_limit::TimeLimit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::io::{self, IoSlice, IoSliceMut};
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

impl CallerSocket {
    /// Makes a socket on a free port, connected to `server`.
    ///
    /// # Errors
    ///
    /// There is no route to `server` (`NetworkUnreachable`), or no port or descriptor is left. That
    /// no program listens there is reported later, by [`Sending::Refused`] or [`CallerArrival::Refused`].
    pub fn connect(server: SocketAddr) -> io::Result<Self> {
        let socket = datagram_socket(&server)?;
        rustix::net::connect(&socket, &server)?;
        Ok(Self::connected(socket))
    }

    /// As [`connect`](Self::connect), from a port below 1024: old servers take that for a proof that the caller is root.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); `PermissionDenied` without the right to such ports (CAP_NET_BIND_SERVICE).
    pub fn connect_reserved(server: SocketAddr) -> io::Result<Self> {
        let socket = datagram_socket(&server)?;
        crate::reserved_port::bind(&socket, server.is_ipv6())?;
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

    /// Whether datagrams to `server` would leave from another address of this machine now, if the socket were made anew.
    ///
    /// # Errors
    ///
    /// There is no route to `server` now, or no descriptor is left.
    #[cold]
    pub fn leaves_from_elsewhere(&self, server: SocketAddr) -> io::Result<bool> {
        let anew = Self::connect(server)?;
        Ok(anew.local_addr()?.ip() != self.local_addr()?.ip())
    }

    /// Connects the socket anew to `server`: it gets an address of this machine that leads there now, and a free port. What
    /// has arrived can still be received, and a thread that sleeps in a receive goes on sleeping. Until this returns, a send
    /// of another thread fails with EDESTADDRREQ.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect). Nothing can be sent until a later attempt succeeds.
    #[cold]
    pub fn reconnect(&self, server: SocketAddr) -> io::Result<()> {
        // The kernel keeps the address and port of a connected socket, unless it is first connected to nothing: connect(2).
        rustix::net::connect_unspec(&self.socket)?;
        Ok(rustix::net::connect(&self.socket, &server)?)
    }

    /// Sends `datagram` to the server.
    ///
    /// # Errors
    ///
    /// The network layer refuses it at once: no route, a filter's refusal (`PermissionDenied`), a
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
    /// The network reported an error about an earlier datagram, other than [`CallerArrival::Refused`].
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<CallerArrival> {
        let size = buffer.len();
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let received = retry_on_intr(|| rustix::net::recv(&self.socket, &mut *buffer, flags));
        arrival(received.map(|(_, len)| len), size)
    }

    /// Sleeps in the kernel until a datagram is there or `limit_ns` nanoseconds have passed: often less, so that
    /// similar limits need not be set in the socket again, and never more (but for the thread's timer slack). Look at the
    /// clock, and wait for the rest.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_within(&self, buffer: &mut [u8], limit_ns: u64) -> io::Result<CallerArrival> {
        self.recv_about(buffer, limit_ns, limit_ns)
    }

    /// As [`recv_within`](Self::recv_within), for about `about_ns`, up to two ticks of the kernel and an eighth more, but
    /// never beyond `latest_ns`. Where an exact wait as short as a few ticks takes two system calls, this one takes one.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival> {
        if about_ns == 0 {
            return self.recv(buffer);
        }
        let flags = self.limit.arm(self.socket.as_fd(), about_ns, latest_ns)?;
        let size = buffer.len();
        let received = rustix::net::recv(&self.socket, buffer, RecvFlags::TRUNC | flags);
        self.limit.note(flags, &received);
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

    /// Stops receiving, and wakes every thread that is blocked in [`recv_blocking`](Self::recv_blocking), for good.
    /// Datagrams that arrived before can still be received. Later ones go to another socket, if one is bound to the same
    /// address. Nothing can be sent to the peer any more.
    ///
    /// # Errors
    ///
    /// The address is no longer this machine's: then the socket goes on receiving from its peer until it is dropped.
    pub fn retire(&self) -> io::Result<()> {
        // Closing would do, but another thread may hold the socket for long. Connected to itself, it matches nothing
        // that arrives.
        let connected = self.local_addr().and_then(|own| {
            // But what that thread sends at this moment would arrive in it, as if its peer had sent it. Without the filter, as in a
            // sandbox that forbids it, the socket still has to stop receiving.
            let _ = message::refuse_port(self.socket.as_fd(), own.port());
            Ok(rustix::net::connect(&self.socket, &own)?)
        });
        // Threads that wait there are woken in any case.
        match rustix::net::shutdown(&self.socket, Shutdown::Read) {
            Ok(()) | Err(Errno::NOTCONN) => connected,
            Err(error) => Err(error.into()),
        }
    }
}

/// When datagrams arrive.
impl CallerSocket {
    /// Has the kernel note from now on when datagrams arrive, for [`age_of_last_ns`](Self::age_of_last_ns). While any socket of a machine
    /// asks for it, the kernel reads the clock for each packet that the machine receives.
    pub fn note_arrivals(&self) {
        // It fails, because nothing has been received yet.
        let _ = message::last_arrival(self.socket.as_fd());
    }

    /// How long ago the kernel received the datagram that was taken last, in nanoseconds; `None` if it has not
    /// [noted](Self::note_arrivals) that. A change of the system's time between shows in it.
    #[cold]
    pub fn age_of_last_ns(&self) -> Option<u64> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let (seconds, nanos) = message::last_arrival(self.socket.as_fd()).ok()?;
        // Of a datagram that came before the kernel began to note arrivals it tells the time of the question, which is later than `now`.
        let age_ns = (now.tv_sec - seconds) * 1_000_000_000 + now.tv_nsec - nanos;
        u64::try_from(age_ns).ok().filter(|age_ns| *age_ns > 0)
    }
}

/// Datagrams that the network returns.
impl CallerSocket {
    /// Has the kernel keep the beginning of each datagram that the network reports an error of, for
    /// [`sent_back`](Self::sent_back) (IP_RECVERR). From then on the socket is also told of errors that may pass, as that there is no
    /// way to the server's machine just now, and of a datagram that the interface's queue has no room for.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn keep_sent_back(&self) -> io::Result<()> {
        Ok(message::keep_sent_back(self.socket.as_fd(), self.local_addr()?.is_ipv6())?)
    }

    /// Takes the next of the datagrams that the server's machine has sent back because the port is closed: its beginning is in so many
    /// first bytes of `buffer`. Ask until there is none, whenever something has reported [`Refused`](CallerArrival::Refused) or an error:
    /// the kept datagrams take room from those that arrive. `None` also if the kernel was not asked to [keep](Self::keep_sent_back) them.
    #[cold]
    pub fn sent_back(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            let received = retry_on_intr(|| {
                message::recv(self.socket.as_fd(), buffer, flags, |told| told.port_is_closed())
            });
            match received {
                Ok(received) if received.told => return Some(received.len.min(buffer.len())),
                // Something else is reported, and may pass.
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Many datagrams at once.
impl CallerSocket {
    /// Sends several datagrams to the server by one system call: `datagrams` cut every `segment` bytes, so that the last
    /// may be shorter. All are sent or none.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`](super::MAX_SEGMENTS) or
    /// [`MAX_SEGMENTS_LEN`](super::MAX_SEGMENTS_LEN) bytes, or `segment` is 0.
    pub fn send_segments(&self, datagrams: &[u8], segment: usize) -> io::Result<SegmentsSending> {
        segments::send(self.socket.as_fd(), datagrams, segment, None, Control::default())
    }

    /// [`send_segments`](Self::send_segments), with bytes from one piece of memory after the other, at most 1024.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// As [`send_segments`](Self::send_segments).
    pub fn send_gathered(&self, pieces: &[IoSlice<'_>], segment: usize) -> io::Result<SegmentsSending> {
        segments::send_gathered(self.socket.as_fd(), pieces, segment, None, Control::default())
    }

    /// As [`ServerSocket::waiting`](super::ServerSocket::waiting).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn waiting(&self) -> io::Result<usize> {
        Ok(message::waiting_bytes(self.socket.as_fd())? / SMALL_CHARGE)
    }

    /// Asks the kernel to hand over datagrams that came together as one (UDP_GRO), or to stop doing so; at any time. While
    /// it is on, receive by [`recv_segments`](Self::recv_segments) and its kin only: the others would take several
    /// datagrams for one. Datagrams that came together just before it is turned off are still handed over as one, and
    /// nothing tells any more where to cut it: first receive until nothing is there.
    ///
    /// # Errors
    ///
    /// The kernel does not know it (before Linux 5.0). Then each datagram comes by itself.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        Ok(message::set_gro(self.socket.as_fd(), on)?)
    }

    /// Takes what is there: a datagram, or several that came together. `buffer` has room for 64 KiB, or some may be lost.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_segments(&self, buffer: &mut [u8]) -> io::Result<CallerArrival<Segments>> {
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        match self.recv_segments_once(buffer, flags) {
            Err(Errno::INTR) => self.recv_segments(buffer),
            received => arrival_of_segments(received),
        }
    }

    /// [`recv_segments`](Self::recv_segments), but sleeps as [`recv_about`](Self::recv_about) does.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_segments_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>> {
        if about_ns == 0 {
            return self.recv_segments(buffer);
        }
        let flags = self.limit.arm(self.socket.as_fd(), about_ns, latest_ns)?;
        let received = self.recv_segments_once(buffer, RecvFlags::TRUNC | flags);
        self.limit.note(flags, &received);
        arrival_of_segments(received)
    }

    /// [`recv_segments`](Self::recv_segments), but sleeps as [`recv_blocking`](Self::recv_blocking) does.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_segments_blocking(&self, buffer: &mut [u8]) -> io::Result<CallerArrival<Segments>> {
        self.limit.disarm(self.socket.as_fd())?;
        arrival_of_segments(self.recv_segments_once(buffer, RecvFlags::TRUNC))
    }

    /// [`recv_segments`](Self::recv_segments), into one slice of memory after the other, at most 1024: a caller that knows where
    /// the bytes belong spares their copying.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_scattered(&self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<CallerArrival<Segments>> {
        let size = pieces.iter().map(|piece| piece.len()).sum();
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let received = retry_on_intr(|| {
            message::recv_scattered(self.socket.as_fd(), pieces, flags, |told| told.called_and_segment())
        });
        arrival_of_segments(received.map(|received| segments::received(&received, received.told.1, size)))
    }

    /// The segments, or how long they are all together if that is too long.
    #[inline]
    fn recv_segments_once(
        &self,
        buffer: &mut [u8],
        flags: RecvFlags,
    ) -> Result<Result<Segments, usize>, Errno> {
        let size = buffer.len();
        let received = message::recv(self.socket.as_fd(), buffer, flags, |told| told.called_and_segment())?;
        let (_, segment) = received.told;
        Ok(segments::received(&received, segment, size))
    }

    /// Asks for room for `bytes` of waiting datagrams (the kernel counts about 700 bytes for a small one, and doubles
    /// what it is asked for), and returns what was granted: more than `net.core.rmem_max` only with CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        sizes::set_receive_buffer(self.socket.as_fd(), bytes)
    }

    /// Bytes granted by [`set_receive_buffer`](Self::set_receive_buffer), or those with which the socket began.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        sizes::receive_buffer(self.socket.as_fd())
    }

    /// Bytes of the longest datagram that the way to the server carries in one piece, as far as the kernel knows: its
    /// interface, and what routers have told. At most [`MAX_SEGMENTS_LEN`](super::MAX_SEGMENTS_LEN).
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn largest_datagram(&self) -> io::Result<usize> {
        sizes::largest_datagram(self.socket.as_fd())
    }

    /// Forbids fragmentation, here and at routers, and ignores the path MTU that routers have reported (`true`); or leaves
    /// it to the kernel, which fragments datagrams that are longer than the path MTU it knows (`false`, the default).
    /// While it is forbidden, a datagram longer than the interface's MTU fails at once with EMSGSIZE, and one that a router
    /// cannot pass on is lost: this is for probing the path's MTU (RFC 8899 §3).
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_dont_fragment(&self, on: bool) -> io::Result<()> {
        sizes::set_dont_fragment(self.socket.as_fd(), self.local_addr()?.is_ipv6(), on)
    }
}

#[inline]
fn arrival_of_segments(
    received: Result<Result<Segments, usize>, Errno>,
) -> io::Result<CallerArrival<Segments>> {
    match received {
        Ok(Ok(segments)) => Ok(CallerArrival::Datagram(segments)),
        Ok(Err(len)) => Ok(CallerArrival::TooLarge(len)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(CallerArrival::Nothing),
        Err(Errno::CONNREFUSED) => Ok(CallerArrival::Refused),
        Err(error) => Err(error.into()),
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
