//! An endpoint on an Ethernet, on either backend.

use crate::address::Address;
use crate::arrival::Arrival;
use crate::counters::Counted;
use crate::error::OpenError;
use crate::frame::{Checksum, Template};
use crate::interface::Interface;
use crate::memory::Room;
use crate::options::Options;
use crate::packet_ring::PacketRing;
use crate::xdp::{Mode, Xdp, XdpOptions};
use rustix::io::Errno;
use std::fmt;
use std::io::{self, IoSlice};
use stoop_net::packets::Segments;

/// The kernel's mechanism behind an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A packet socket with a receive ring.
    PacketRing,
    /// An AF_XDP socket.
    Xdp(XdpOptions),
}

/// A queue of arriving packets with a port of its own, which sends to any other endpoint.
///
/// All methods may be called by several threads at once. One thread at a time receives: another one that
/// tries to gets [`Arrival::Nothing`].
#[derive(Debug)]
pub enum Endpoint {
    /// On a packet socket with a receive ring.
    PacketRing(PacketRing),
    /// On an AF_XDP socket.
    Xdp(Box<Xdp>),
}

/// Does the same with either backend. The enum costs one well-predicted branch, and keeps the users of this
/// crate free of a type parameter.
macro_rules! either {
    ($endpoint:expr, $inner:ident => $do:expr) => {
        match $endpoint {
            Endpoint::PacketRing($inner) => $do,
            Endpoint::Xdp($inner) => $do,
        }
    };
}

/// Opening.
impl Endpoint {
    /// Opens a server's endpoint at a port below [`FIRST_OF_CALLERS`](crate::ports::FIRST_OF_CALLERS);
    /// `None`: at any free one.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn listen(
        interface: &Interface,
        port: Option<u16>,
        backend: Backend,
        options: &Options,
    ) -> Result<Self, OpenError> {
        Ok(match backend {
            Backend::PacketRing => Self::PacketRing(PacketRing::listen(interface, port, options)?),
            Backend::Xdp(xdp) => Self::Xdp(Box::new(Xdp::listen(interface, port, options, xdp)?)),
        })
    }

    /// Opens a caller's endpoint at a free port. A process has up to eight [blocks](crate::ports::BLOCK)
    /// of these at an interface on packet rings, and one on AF_XDP.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn connect(interface: &Interface, backend: Backend, options: &Options) -> Result<Self, OpenError> {
        Ok(match backend {
            Backend::PacketRing => Self::PacketRing(PacketRing::connect(interface, options)?),
            Backend::Xdp(xdp) => Self::Xdp(Box::new(Xdp::connect(interface, options, xdp)?)),
        })
    }
}

/// Facts.
impl Endpoint {
    /// The endpoint's address.
    pub fn address(&self) -> Address {
        either!(self, inner => inner.address())
    }

    /// Whether its interface has been removed, or has been in another network namespace. The endpoint then receives nothing before it
    /// [follows](Self::follow), also if an interface of that number is there.
    pub fn has_lost_its_interface(&self) -> bool {
        either!(self, inner => inner.has_lost_its_interface())
    }

    /// Has the endpoint go on at the interface as it is now: with another hardware address, removed and made again, or back from another
    /// network namespace. Its port stays. Its packets become as short as the MTU has. A caller's endpoint on a packet ring stays where it is: open another one.
    ///
    /// # Errors
    ///
    /// [`OpenError::PortTaken`]; and on AF_XDP as of [`listen`](Self::listen): until a later call succeeds, an endpoint on AF_XDP
    /// then receives nothing, and cannot send.
    pub fn follow(&self, interface: &Interface) -> Result<(), OpenError> {
        either!(self, inner => inner.follow(interface))
    }

    /// Closes the socket of a caller's endpoint on a packet ring that another one has replaced: at once if its interface is gone, else
    /// as soon as all endpoints of its fan-out group have been retired or dropped. A descriptor that stands for no packet socket, and
    /// a page of memory, stay until the endpoint is dropped. An endpoint of a server, or on AF_XDP, stays as it is.
    ///
    /// Threads that use the endpoint all the same return at once from a sleep. Packets that they receive are lost for the port's next
    /// user. When the socket has been closed, they receive nothing, and their sends fail.
    pub fn retire(&self) {
        if let Self::PacketRing(ring) = self {
            ring.retire();
        }
    }

    /// Whether that is the error of a packet that is longer than the interface's MTU permits. If the MTU has become less,
    /// [`follow`](Self::follow) makes the longest packet shorter.
    pub fn is_too_long(error: &io::Error) -> bool {
        Errno::from_io_error(error) == Some(Errno::MSGSIZE)
    }

    /// Whether that is the error of a packet for which a queue had no room, or which the driver has dropped.
    pub fn is_dropped(error: &io::Error) -> bool {
        Errno::from_io_error(error) == Some(Errno::NOBUFS)
    }

    /// The beginning of all frames from this endpoint to another one.
    pub fn template(&self, to: Address, checksum: Checksum) -> Template {
        Template::new(self.address(), to, either!(self, inner => inner.ether_type()), checksum)
    }

    /// Bytes of the longest packet that this endpoint sends and receives.
    pub fn largest_packet(&self) -> usize {
        either!(self, inner => inner.largest_packet())
    }

    /// Frames that may be waiting to be received; each packet is one.
    pub fn frames(&self) -> usize {
        either!(self, inner => inner.frames())
    }

    /// Reads the counters, with one system call.
    pub fn counters(&self) -> Counted {
        either!(self, inner => inner.counters().read())
    }
}

/// Names the backend, as descriptions of a binding do.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketRing(_) => f.write_str("packet socket with a receive ring"),
            Self::Xdp(xdp) => {
                let mode = match xdp.mode() {
                    Mode::Generic => "generic",
                    Mode::Native => "native",
                };
                let copying = if xdp.is_zero_copy() { "zero-copy" } else { "copying" };
                write!(f, "AF_XDP in {mode} mode, {copying}")?;
                let others = ", with a packet socket for frames of other receive queues";
                f.write_str(if xdp.has_other_queues() { others } else { "" })
            }
        }
    }
}

/// Sending. A packet that is not sent is a lost packet.
impl Endpoint {
    /// Sends a packet.
    ///
    /// # Errors
    ///
    /// The kernel refuses it: the interface is down or gone, its queue is full, or the packet is longer than
    /// [`largest_packet`](Self::largest_packet).
    #[inline]
    pub fn send(&self, to: &Template, packet: &[u8]) -> io::Result<()> {
        either!(self, inner => inner.send(to, packet))
    }

    /// Room for packets, in frames that the backend lends if it has any.
    pub fn room(&self) -> Room {
        match self {
            Self::PacketRing(_) => Room::default(),
            Self::Xdp(xdp) => xdp.room(),
        }
    }

    /// Has a room of any endpoint provide frames that this one lends, if it has any.
    pub fn lend(&self, room: &mut Room) {
        match self {
            Self::PacketRing(_) if room.lender().is_none() => {}
            Self::Xdp(xdp) if room.lender().is_some_and(|lender| xdp.is_lender(lender)) => {}
            _ => *room = self.room(),
        }
    }

    /// Sends the packets that have been written to the room. Calls `failed` with the position of the first
    /// one of those that the kernel refuses, or of each.
    pub fn send_room(&self, to: &Template, room: &mut Room, failed: impl FnMut(usize, io::Error)) {
        either!(self, inner => inner.send_room(to, room, failed));
    }

    /// Sends packets that lie `segment` bytes apart; the last may be shorter. `failed`: see
    /// [`send_room`](Self::send_room).
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`](stoop_net::packets::MAX_SEGMENTS) packets or
    /// [`MAX_SEGMENTS_LEN`](stoop_net::packets::MAX_SEGMENTS_LEN) bytes, or `segment` is 0.
    pub fn send_many(
        &self,
        to: &Template,
        packets: &[u8],
        segment: usize,
        failed: impl FnMut(usize, io::Error),
    ) {
        either!(self, inner => inner.send_gathered(to, std::iter::once(packets), segment, failed));
    }

    /// Sends the packets that result when the bytes of `pieces` are put one behind the other and cut every
    /// `segment` bytes.
    ///
    /// # Panics
    ///
    /// As [`send_many`](Self::send_many).
    pub fn send_gathered(
        &self,
        to: &Template,
        pieces: &[IoSlice<'_>],
        segment: usize,
        failed: impl FnMut(usize, io::Error),
    ) {
        let pieces = pieces.iter().map(|piece| &**piece);
        either!(self, inner => inner.send_gathered(to, pieces, segment, failed));
    }
}

/// Receiving. A packet is copied into the caller's buffer, and its frame is free again at once.
impl Endpoint {
    /// Takes a packet if one has arrived. Makes no system call, unless the endpoint polls the driver.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Arrival {
        either!(self, inner => inner.receive(buffer))
    }

    /// Takes packets that have arrived together: of one sender and of one length, except the last, which may
    /// be shorter.
    #[inline]
    pub fn receive_many(&self, buffer: &mut [u8]) -> Arrival<Segments> {
        either!(self, inner => inner.receive_many(buffer))
    }

    /// Sleeps at most `limit_ns` nanoseconds (`None`: without a limit) until a packet arrives. Returns
    /// [`Arrival::Nothing`] early when a signal arrives, when the endpoint is [woken](Self::wake), and on
    /// AF_XDP after a second: look at the clock, and wait again.
    ///
    /// # Errors
    ///
    /// The interface is down or gone. Each change is reported once.
    #[inline]
    pub fn receive_within(&self, buffer: &mut [u8], limit_ns: Option<u64>) -> io::Result<Arrival> {
        match self.receive(buffer) {
            Arrival::Nothing => {
                self.sleep(limit_ns)?;
                Ok(self.receive(buffer))
            }
            arrival => Ok(arrival),
        }
    }

    /// As [`receive_many`](Self::receive_many), with the wait of [`receive_within`](Self::receive_within).
    ///
    /// # Errors
    ///
    /// As [`receive_within`](Self::receive_within).
    #[inline]
    pub fn receive_many_within(
        &self,
        buffer: &mut [u8],
        limit_ns: Option<u64>,
    ) -> io::Result<Arrival<Segments>> {
        match self.receive_many(buffer) {
            Arrival::Nothing => {
                self.sleep(limit_ns)?;
                Ok(self.receive_many(buffer))
            }
            arrival => Ok(arrival),
        }
    }

    #[inline]
    fn sleep(&self, limit_ns: Option<u64>) -> io::Result<()> {
        either!(self, inner => inner.sleep(limit_ns))
    }

    /// Has one thread that sleeps in a receive, or the next one that is about to, return with [`Arrival::Nothing`].
    pub fn notify(&self) {
        either!(self, inner => inner.notify());
    }

    /// Wakes all threads that sleep in a receive, now and for good.
    pub fn wake(&self) {
        either!(self, inner => inner.wake());
    }
}
