//! The server's datagram socket: receives from every sender, answers from the address that was called.

use super::bound::BoundSocket;
use super::control::{Called, Control, Messages};
use super::{CallerSocket, Patience, Segments, datagram_socket, local_addr, message, segments, sizes};
use crate::clock;
use crate::inherited::{self, Bound};
use crate::time_limit;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A bound, unconnected datagram socket.
///
/// Any number of threads may use it at once.
#[derive(Debug)]
pub struct ServerSocket {
    socket: BoundSocket,
    /// Bound to a wildcard address: the called address must be asked for, and given when answering.
    wildcard: bool,
    /// Of a socket that was inherited, and so is another process's, too: whether blocking receives are to end.
    woken: Option<AtomicBool>,
}

/// The sender of a datagram, and the address from which to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(super) addr: SocketAddr,
    pub(super) called: Option<Called>,
}

impl Peer {
    /// Stands where there is no peer yet.
    pub const NONE: Self = Self { addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), called: None };

    /// The sender's address without the port.
    #[inline]
    pub fn ip(&self) -> IpAddr {
        self.addr.ip()
    }

    /// The sender's address and port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address that the sender called; `None` on a socket bound to a single address.
    pub fn called(&self) -> Option<IpAddr> {
        self.called.map(|called| called.ip.to_canonical())
    }
}

/// A peer whose answers leave from the address that the kernel chooses.
impl From<SocketAddr> for Peer {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, called: None }
    }
}

/// The outcome of a receive on a [`ServerSocket`]: `L` is a number of bytes, or [`Segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerArrival<L = usize> {
    /// A datagram is in the first `len` bytes of the buffer; or several of the same sender are.
    Datagram {
        /// Bytes received.
        len: L,
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

/// A blocking receive at an inherited socket looks so often whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The least that the kernel counts for a datagram in a socket's buffer.
const SMALLEST_CHARGE: usize = 512;

/// Usually counted for a small one.
pub(super) const SMALL_CHARGE: usize = 768;

impl ServerSocket {
    /// Binds to `address`. Port 0 takes any free port, see [`local_addr`](Self::local_addr).
    ///
    /// On a wildcard address (`0.0.0.0`, `[::]`) each receive also asks which address was called, so
    /// that the answer leaves from there. That costs about 330 ns a round trip: bind to a single
    /// address where that is enough. Whether `[::]` also receives what IPv4 sends is the system's
    /// setting (`net.ipv6.bindv6only`; usually it does).
    ///
    /// A socket that is bound there already and was [inherited](crate::inherited) is used as it is.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when another socket has the port, `AddrNotAvailable` when the address is not this
    /// machine's, `PermissionDenied` for a port below 1024 without the right to it.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let wildcard = address.ip().is_unspecified();
        let inherited = inherited::take(SocketType::DGRAM, &Bound::Internet(address));
        let woken = inherited.is_some().then(AtomicBool::default);
        let socket = match inherited {
            Some(socket) => {
                rustix::io::ioctl_fionbio(&socket, false)?;
                sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(LOOK_EVERY))?;
                socket
            }
            None => datagram_socket(&address)?,
        };
        if wildcard {
            message::tell_called(socket.as_fd(), address.is_ipv6())?;
        }
        if woken.is_none() {
            rustix::net::bind(&socket, &address)?;
        }
        Ok(Self { socket: BoundSocket::new(socket, woken.is_some()), wildcard, woken })
    }

    /// The address bound to, with the port that was chosen.
    ///
    /// # Errors
    /// None in practice: the socket is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local_addr(&self.socket)
    }

    /// Whether this process alone receives at the socket, or begins to: `false` while another process, to which the socket was
    /// [passed](crate::inherited), too, has not closed it. Always so of a socket that was not passed.
    pub fn claim(&self) -> bool {
        self.woken.is_none() || inherited::claim(&self.socket)
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

    /// Sleeps until a receive may find something, here or at the dedicated socket, at most for so many nanoseconds; a signal ends it early.
    ///
    /// # Errors
    ///
    /// Only when the kernel lacks memory.
    pub fn sleep_beside(&self, dedicated: Option<&CallerSocket>, limit_ns: u64) -> io::Result<()> {
        let own = PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN);
        match dedicated {
            None => time_limit::sleep_until_any(&mut [own], limit_ns),
            Some(dedicated) => {
                let dedicated = PollFd::from_borrowed_fd(dedicated.as_fd(), PollFlags::IN);
                time_limit::sleep_until_any(&mut [own, dedicated], limit_ns)
            }
        }
        .map(drop)
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
            Err(Errno::AGAIN) => Ok(self.nothing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Nothing has come: a receive that does not block, or a look at a socket that was inherited.
    #[cold]
    fn nothing<L>(&self) -> ServerArrival<L> {
        match &self.woken {
            Some(woken) if woken.load(Ordering::SeqCst) => ServerArrival::WokenUp,
            _ => ServerArrival::Nothing,
        }
    }

    #[inline]
    fn recv_once(&self, buffer: &mut [u8], flags: RecvFlags) -> Result<(usize, Option<Peer>), Errno> {
        if self.wildcard {
            let received = message::recv(self.socket.as_fd(), buffer, flags, |told| told.called())?;
            let Some(addr) = received.sender else { return Ok((received.len, None)) };
            let peer = Peer { addr: socket_addr(addr)?, called: received.told };
            return Ok((received.len, Some(peer)));
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
    /// beyond the path's size. A closed port at the other end is never reported.
    #[inline]
    pub fn send(&self, datagram: &[u8], peer: &Peer) -> io::Result<()> {
        retry_on_intr(|| match &peer.called {
            Some(called) => {
                let control = Control::default().leaving_from(called);
                message::send(self.socket.as_fd(), datagram, Some(&peer.addr), &control)
            }
            None => rustix::net::sendto(&self.socket, datagram, SendFlags::empty(), &peer.addr),
        })?;
        Ok(())
    }

    /// Datagrams that wait to be received, about: the kernel tells the bytes that it counts for them, and this is right if they are small.
    ///
    /// # Errors
    ///
    /// The kernel does not know SO_MEMINFO (before Linux 4.12).
    pub fn waiting(&self) -> io::Result<usize> {
        Ok(message::waiting_bytes(self.socket.as_fd())? / SMALL_CHARGE)
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

    /// A second socket at the same address and port, connected to `peer`. The kernel prefers it for the datagrams of that
    /// peer; it need not tell the sender of each datagram, nor look up a route for each answer. That saves about 220 ns a
    /// round trip, and more on a wildcard address.
    ///
    /// While it is being made, datagrams of others may end in it: [`strays_in`](Self::strays_in).
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
        // Its peer counts on as much room as there was. The kernel doubles the length that it is given.
        sizes::set_receive_buffer(socket.as_fd(), self.receive_buffer()? / 2)?;
        rustix::net::connect(&socket, &peer.addr)?;
        Ok(CallerSocket::connected(socket))
    }

    /// Takes the datagrams that have arrived in a socket [connected to](Self::connected_to) `peer`, with their senders. In a
    /// socket that has just been made, datagrams of any sender may have arrived before it was connected.
    ///
    /// # Errors
    ///
    /// Something sent there earlier found the peer's port closed.
    pub fn strays_in(&self, connected: &CallerSocket, peer: &Peer) -> io::Result<Vec<(Vec<u8>, Peer)>> {
        let mut strays = Vec::new();
        let mut buffer = vec![0_u8; 1 << 16];
        // No more fitted into its buffer before it was connected: all later datagrams are from its peer.
        let most = sizes::receive_buffer(connected.as_fd())? / SMALLEST_CHARGE + 1;
        for _ in 0..most {
            let received =
                retry_on_intr(|| rustix::net::recvfrom(connected, &mut buffer[..], RecvFlags::DONTWAIT));
            match received {
                Ok((_, len, Some(addr))) => {
                    let stray = Peer { addr: socket_addr(addr)?, called: peer.called };
                    strays.push((buffer[..len].to_vec(), stray));
                }
                Ok((_, _, None)) | Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(strays)
    }

    /// Wakes every thread blocked in [`recv`](Self::recv), now and for good: from now on a blocking
    /// receive returns the queued datagrams and then [`ServerArrival::WokenUp`]. Sending goes on working,
    /// and so does [`Patience::DontWait`], which does not tell: spinning threads must look at a flag
    /// of their own.
    ///
    /// This is `shutdown(SHUT_RD)`. On an unconnected datagram socket it returns ENOTCONN and yet does
    /// its work: the kernel's `inet_shutdown` falls through from `TCP_CLOSE` ("hack to wake up other
    /// listeners … even on unconnected UDP sockets"), marks the socket RCV_SHUTDOWN and calls
    /// `sk_state_change`, and `__skb_wait_for_more_packets` then returns without a packet and without
    /// an error.
    ///
    /// A socket that was [inherited](crate::inherited) stays as it is for the next process: there a blocking receive looks every
    /// 100 ms whether it is to end.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn wake_receivers(&self) -> io::Result<()> {
        if let Some(woken) = &self.woken {
            woken.store(true, Ordering::SeqCst);
            return Ok(());
        }
        match rustix::net::shutdown(&self.socket, Shutdown::Read) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Empty datagrams of the socket to itself.
impl ServerSocket {
    /// Has one thread that is blocked in a receive, now or the next one to be, receive an empty datagram whose sender is this
    /// socket itself. Does nothing if the machine carries no packets to itself: without a loopback interface, or behind a filter.
    pub fn notify_receiver(&self) {
        let Ok(mut own) = self.local_addr() else { return };
        if own.ip().is_unspecified() {
            own.set_ip(match own {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        // A full buffer refuses it: then the receiving thread is awake.
        let _ = rustix::net::sendto(&self.socket, &[], SendFlags::DONTWAIT, &own);
    }
}

/// Many datagrams at once.
impl ServerSocket {
    /// Asks the kernel to hand over datagrams of one sender that came together as one (UDP_GRO), or to stop doing so; at
    /// any time. While it is on, receive by [`recv_segments`](Self::recv_segments) only: [`recv`](Self::recv) would take
    /// several datagrams for one. Datagrams that came together just before it is turned off are still handed over as one,
    /// and nothing tells any more where to cut it: first receive until nothing is there.
    ///
    /// # Errors
    ///
    /// The kernel does not know it (before Linux 5.0). Then each datagram comes by itself.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        Ok(message::set_gro(self.socket.as_fd(), on)?)
    }

    /// Receives a datagram, or several of one sender that came together. `buffer` has room for 64 KiB, or some may be
    /// lost.
    ///
    /// # Errors
    ///
    /// Only when the kernel lacks memory.
    #[inline]
    pub fn recv_segments(
        &self,
        buffer: &mut [u8],
        patience: Patience,
    ) -> io::Result<ServerArrival<Segments>> {
        self.recv_segments_by(buffer, patience, |told| told.called_and_segment())
    }

    #[inline]
    fn recv_segments_by(
        &self,
        buffer: &mut [u8],
        patience: Patience,
        mut parse: impl FnMut(Messages<'_>) -> (Option<Called>, Option<usize>),
    ) -> io::Result<ServerArrival<Segments>> {
        let flags = match patience {
            Patience::DontWait => RecvFlags::TRUNC | RecvFlags::DONTWAIT,
            Patience::Block => RecvFlags::TRUNC,
        };
        let (socket, size) = (self.socket.as_fd(), buffer.len());
        let received = retry_on_intr(|| message::recv(socket, &mut *buffer, flags, &mut parse));
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(self.nothing()),
            Err(error) => return Err(error.into()),
        };
        let (called, segment) = received.told;
        let segments = segments::received(&received, segment, size);
        // Every datagram has a sender, an empty one too: without one this is the end that `wake_receivers` made.
        let Some(addr) = received.sender else { return Ok(ServerArrival::WokenUp) };
        let peer = Peer { addr: socket_addr(addr)?, called };
        Ok(match segments {
            Ok(len) => ServerArrival::Datagram { len, peer },
            Err(len) => ServerArrival::TooLarge { len, peer },
        })
    }

    /// Has the kernel note when each datagram comes, for [`recv_segments_stamped`](Self::recv_segments_stamped), or stop doing so. The
    /// kernel then reads a clock for each packet of the machine (tens of nanoseconds), so this is for times in which datagrams wait.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_time_stamps(&self, on: bool) -> io::Result<()> {
        Ok(message::set_time_stamps(self.socket.as_fd(), on)?)
    }

    /// As [`recv_segments`](Self::recv_segments). Tells also for how many nanoseconds the datagram has waited, or 0 if the kernel has not
    /// [noted](Self::set_time_stamps) when it came. A step of the system's clock meanwhile falsifies the number.
    ///
    /// # Errors
    ///
    /// As there.
    #[cold]
    pub fn recv_segments_stamped(
        &self,
        buffer: &mut [u8],
        patience: Patience,
    ) -> io::Result<(ServerArrival<Segments>, u64)> {
        let mut age_ns = 0;
        let arrival = self.recv_segments_by(buffer, patience, |told| {
            let (stamp, others) = told.stamp_called_and_segment();
            age_ns = stamp.map_or(0, clock::age_ns);
            others
        })?;
        Ok((arrival, age_ns))
    }

    /// Bytes of the longest datagram that the way to `peer` carries in one piece, as far as the kernel knows: its
    /// interface, and what routers have told. At most [`MAX_SEGMENTS_LEN`](super::MAX_SEGMENTS_LEN). Finding out takes
    /// some microseconds.
    ///
    /// # Errors
    ///
    /// There is no route to the peer, or no descriptor is left.
    pub fn largest_datagram(&self, peer: &Peer) -> io::Result<usize> {
        // Only a connected socket knows.
        CallerSocket::connect(peer.addr)?.largest_datagram()
    }

    /// As [`CallerSocket::set_dont_fragment`], for datagrams to every peer.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn set_dont_fragment(&self, on: bool) -> io::Result<()> {
        sizes::set_dont_fragment(self.socket.as_fd(), self.local_addr()?.is_ipv6(), on)
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
