//! Backend A: a packet socket that receives into a ring of memory (packet(7),
//! Documentation/networking/packet_mmap.rst).
//!
//! Works on every interface and needs CAP_NET_RAW alone. The interface stays as it is: no promiscuous mode,
//! no option changed.
//!
//! Frames are sent by `send` and `sendmmsg`. A transmit ring (PACKET_TX_RING) is slower: over veth a frame of
//! 1514 bytes cost 1.34 µs by the ring, 1.29 to 1.41 by `send`, 1.42 by `sendmsg` from two pieces, and 1.18
//! to 1.22 by `sendmmsg` of 32 frames.

pub(crate) mod filter;
mod group;
mod ring;
mod turns;

use crate::address::{Address, CurrentAddress};
use crate::arrival::{Arrival, Arrivals};
use crate::counters::Counters;
use crate::error::{OpenError, failed};
use crate::exclusive::Exclusive;
use crate::frame::{ETHERNET_HEADER_LEN, EtherType, LARGEST_PACKET, OVERHEAD, Template, frame_len};
use crate::interface::Interface;
use crate::memory::Room;
use crate::options::Options;
use crate::packet_socket;
use crate::ports::Reservation;
use crate::privilege::Capability;
use crate::sleep::{Sleeper, take_error};
use group::Membership;
pub(crate) use ring::Ring;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::SendFlags;
use std::io::{self, IoSlice};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stoop_net::packets::{MAX_SEGMENTS, Segments};

/// A packet socket and its ring.
#[derive(Debug)]
pub(crate) struct RingSocket {
    socket: OwnedFd,
    pub(crate) arrivals: Exclusive<Arrivals<Ring>>,
    frames: usize,
}

impl RingSocket {
    /// A socket that receives frames to `port`.
    pub(crate) fn open(interface: &Interface, options: &Options, port: u16) -> Result<Self, OpenError> {
        let socket = Self::without_port(Self::make()?, interface, options)?;
        socket.set_port(port)?;
        Ok(socket)
    }

    /// A socket without a ring, bound to no interface.
    pub(crate) fn make() -> Result<OwnedFd, OpenError> {
        packet_socket::open().map_err(failed("a packet socket", Capability::OF_PACKET_RING))
    }

    /// Gives the socket a ring and binds it; it receives nothing yet. The kernel takes some milliseconds to make a ring: it waits until no
    /// processor still uses the socket as one without a ring (`packet_set_ring` in net/packet/af_packet.c).
    pub(crate) fn without_port(
        socket: OwnedFd,
        interface: &Interface,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let failed = |operation| failed(operation, Capability::OF_PACKET_RING);
        let ring =
            Ring::new(socket.as_fd(), interface.mtu, options.frames).map_err(failed("a packet ring"))?;
        // Slower without, no more.
        let _ = packet_socket::bypass_queue(socket.as_fd());
        packet_socket::set_filter(socket.as_fd(), &filter::for_nothing()).map_err(failed("a filter"))?;
        packet_socket::bind(socket.as_fd(), options.ether_type, interface.index)
            .map_err(failed("binding a packet socket"))?;
        let frames = ring.frames();
        Ok(Self { socket, arrivals: Exclusive::new(Arrivals::new(ring)), frames })
    }

    /// Receives frames to `port` from now on.
    pub(crate) fn set_port(&self, port: u16) -> Result<(), OpenError> {
        packet_socket::set_filter(self.fd(), &filter::for_port(port))
            .map_err(failed("a filter", Capability::OF_PACKET_RING))
    }

    /// The socket, to sleep on it.
    #[inline]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether its interface has been removed, or has been in another network namespace.
    pub(crate) fn has_lost_its_interface(&self) -> bool {
        packet_socket::has_lost_its_interface(self.fd())
    }

    /// Goes on at an interface that has been made again, or has been away. A member of a fan-out group cannot.
    pub(crate) fn follow(&self, interface: &Interface, ether_type: EtherType) -> Result<(), OpenError> {
        packet_socket::bind(self.fd(), ether_type, interface.index)
            .map_err(failed("binding a packet socket", Capability::OF_PACKET_RING))?;
        // The error of the interface that is gone would be that of the next packet.
        let _ = take_error(self.fd());
        Ok(())
    }

    /// Frames for which the ring had no room since this was last asked.
    pub(crate) fn take_drops(&self) -> u64 {
        packet_socket::take_drops(self.fd()).map_or(0, u64::from)
    }

    /// Closes the socket and unmaps its ring, also while other threads use it: they receive nothing, and what they send fails with
    /// ENOTCONN. The descriptor stays open, so that it cannot come to stand for anything else while a thread uses it.
    fn close(&self) -> io::Result<()> {
        let empty = Ring::without_socket()?;
        let unconnected = UnixDatagram::unbound()?;
        packet_socket::replace(self.fd(), unconnected.as_fd())?;
        self.arrivals.replace(Arrivals::new(empty));
        Ok(())
    }

    /// Drops what has arrived for the port's last user.
    fn clear(&self) {
        // The kernel may be as fast as this loop.
        self.arrivals.try_use(|arrivals| arrivals.clear(self.frames));
        // Errors and counts of the last user.
        let _ = (take_error(&self.socket), self.take_drops());
    }
}

/// The owner of an endpoint's port.
#[derive(Debug)]
enum Port {
    Server(Mutex<Place>),
    /// `None`: the endpoint has been retired.
    Caller(Mutex<Option<Membership>>),
}

/// Where a server's endpoint is.
#[derive(Debug)]
struct Place {
    /// The interface's number.
    index: u32,
    reservation: Reservation,
}

/// An endpoint on a packet ring.
#[derive(Debug)]
pub struct PacketRing {
    inner: Arc<RingSocket>,
    port: Port,
    address: CurrentAddress,
    ether_type: EtherType,
    mtu: AtomicUsize,
    sleeper: Sleeper,
    counters: Counters,
}

impl PacketRing {
    /// Opens a server's endpoint; `None`: at any free port.
    ///
    /// # Errors
    ///
    /// [`OpenError::PortTaken`], [`OpenError::NotPermitted`], [`OpenError::Down`], and others that are rare.
    pub fn listen(interface: &Interface, port: Option<u16>, options: &Options) -> Result<Self, OpenError> {
        interface.must_be_up()?;
        let reservation = match port {
            Some(port) => Reservation::of_server(interface, options.ether_type, port)?,
            None => Reservation::of_any_server(interface, options.ether_type)?,
        };
        let port = reservation.first();
        let inner = RingSocket::open(interface, options, port)?;
        let place = Place { index: interface.index, reservation };
        Self::new(interface, options, Arc::new(inner), port, Port::Server(Mutex::new(place)))
    }

    /// Opens a caller's endpoint: one of up to eight [blocks](crate::ports::BLOCK) of this process at the
    /// interface. The kernel looks at a frame once for a whole block.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoneFree`], [`OpenError::NotPermitted`], [`OpenError::Down`], and others that are rare.
    pub fn connect(interface: &Interface, options: &Options) -> Result<Self, OpenError> {
        interface.must_be_up()?;
        let (membership, inner) = Membership::join(interface, options)?;
        let port = membership.port();
        Self::new(interface, options, inner, port, Port::Caller(Mutex::new(Some(membership))))
    }

    fn new(
        interface: &Interface,
        options: &Options,
        inner: Arc<RingSocket>,
        port: u16,
        owner: Port,
    ) -> Result<Self, OpenError> {
        let sleeper = Sleeper::new().map_err(failed("an event", &[]))?;
        Ok(Self {
            inner,
            port: owner,
            address: CurrentAddress::new(Address { mac: interface.mac, port }),
            ether_type: options.ether_type,
            mtu: AtomicUsize::new(interface.mtu),
            sleeper,
            counters: Counters::default(),
        })
    }

    /// See [`Endpoint::retire`](crate::Endpoint::retire).
    pub(crate) fn retire(&self) {
        let Port::Caller(membership) = &self.port else { return };
        let membership = membership.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Threads that sleep have to look elsewhere.
        self.sleeper.wake();
        drop(membership);
    }

    pub(crate) fn has_lost_its_interface(&self) -> bool {
        self.inner.has_lost_its_interface()
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.inner.socket.as_fd()
    }

    /// See [`Endpoint::follow`](crate::Endpoint::follow).
    pub(crate) fn follow(&self, interface: &Interface) -> Result<(), OpenError> {
        let Port::Server(place) = &self.port else {
            self.mtu.fetch_min(interface.mtu, Ordering::Relaxed);
            return Ok(());
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Address { mac: interface.mac, ..self.address() };
        if interface.index != place.index {
            place.reservation = Reservation::of_server(interface, self.ether_type, address.port)?;
            place.index = interface.index;
        }
        if self.has_lost_its_interface() {
            self.inner.follow(interface, self.ether_type)?;
        }
        // The ring has no room for longer frames than there were at first.
        self.mtu.fetch_min(interface.mtu, Ordering::Relaxed);
        self.address.set(address);
        Ok(())
    }
}

thread_local! {
    /// Room for one packet that is copied before it leaves.
    static COPY: std::cell::RefCell<[u8; 2048]> = const { std::cell::RefCell::new([0; 2048]) };
    /// Room for packets that are copied before they leave.
    static COPIES: std::cell::RefCell<Room> = std::cell::RefCell::default();
}

/// Sends by that system call. The kernel notes at a socket that its interface has gone down, and refuses the next frame for it, also when
/// the interface is up again by then. That the interface is down now shows when it refuses the frame again.
#[inline]
fn send_by(mut send: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    match retry_on_intr(&mut send) {
        Err(Errno::NETDOWN) => retry_on_intr(send),
        sent => sent,
    }
}

/// Sending.
impl PacketRing {
    pub(crate) fn send(&self, to: &Template, packet: &[u8]) -> io::Result<()> {
        if packet.len() > self.largest_packet() {
            return self.sent(Err(Errno::MSGSIZE));
        }
        // One piece is sent 100 ns faster than two, and packets of this size are copied in less.
        match frame_len(packet.len()) {
            0..=128 => self.send_copy(to, packet, &mut [0; 128]),
            129..=2048 => COPY.with_borrow_mut(|copy| self.send_copy(to, packet, copy)),
            _ => self.send_pieces(&to.header(packet), packet),
        }
    }

    #[inline]
    fn send_copy(&self, to: &Template, packet: &[u8], frame: &mut [u8]) -> io::Result<()> {
        frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
        let len = to.complete(frame, packet.len());
        self.sent(send_by(|| rustix::net::send(self.socket(), &frame[..len], SendFlags::empty())))
    }

    fn send_pieces(&self, header: &[u8], packet: &[u8]) -> io::Result<()> {
        let pieces = [IoSlice::new(header), IoSlice::new(packet)];
        self.sent(send_by(|| {
            rustix::net::sendmsg(self.socket(), &pieces, &mut Default::default(), SendFlags::empty())
        }))
    }

    #[inline]
    fn sent(&self, sent: Result<usize, Errno>) -> io::Result<()> {
        if let Err(error) = sent {
            self.counters.note_not_sent(1);
            return Err(error.into());
        }
        Ok(())
    }

    /// Sends the packets in the room. Calls `failed` with the position of each one that the kernel refuses.
    pub(crate) fn send_room(&self, to: &Template, room: &mut Room, mut failed: impl FnMut(usize, io::Error)) {
        let mut frames: [&[u8]; MAX_SEGMENTS] = [&[]; MAX_SEGMENTS];
        let (mut count, packets) = (0, room.positions());
        for (frame, place) in room.complete(to).zip(&mut frames) {
            *place = frame;
            count += 1;
        }
        let mut next = 0;
        while next < count {
            match send_by(|| packet_socket::send_frames(self.socket(), &frames[next..count])) {
                Ok(sent) => next += sent.max(1),
                Err(error) => {
                    self.counters.note_not_sent(1);
                    packets.of_frame(next).for_each(|position| failed(position, error.into()));
                    next += 1;
                }
            }
        }
    }

    /// As [`send_room`](Self::send_room), for the bytes of `pieces`, cut every `segment` bytes.
    pub(crate) fn send_gathered<'a>(
        &self,
        to: &Template,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        segment: usize,
        failed: impl FnMut(usize, io::Error),
    ) {
        COPIES.with_borrow_mut(|room| {
            room.gather(pieces, segment, self.largest_packet());
            self.send_room(to, room, failed);
        });
    }
}

/// Receiving.
impl PacketRing {
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Arrival {
        let taken = self.inner.arrivals.try_use(|it| it.take_one(self.ether_type, &self.counters, buffer));
        taken.unwrap_or(Arrival::Nothing)
    }

    #[inline]
    pub(crate) fn receive_many(&self, buffer: &mut [u8]) -> Arrival<Segments> {
        let taken = self.inner.arrivals.try_use(|it| it.take_many(self.ether_type, &self.counters, buffer));
        taken.unwrap_or(Arrival::Nothing)
    }

    #[inline]
    pub(crate) fn sleep(&self, limit_ns: Option<u64>) -> io::Result<()> {
        self.sleeper.sleep(self.socket(), None, limit_ns)
    }
}

impl PacketRing {
    /// The endpoint's address.
    pub fn address(&self) -> Address {
        self.address.get()
    }

    pub(crate) fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    pub(crate) fn largest_packet(&self) -> usize {
        self.mtu.load(Ordering::Relaxed).saturating_sub(OVERHEAD - ETHERNET_HEADER_LEN).min(LARGEST_PACKET)
    }

    pub(crate) fn frames(&self) -> usize {
        self.inner.frames
    }

    pub(crate) fn notify(&self) {
        self.sleeper.notify();
    }

    pub(crate) fn wake(&self) {
        self.sleeper.wake();
    }

    pub(crate) fn counters(&self) -> &Counters {
        // The kernel forgets what it has told.
        self.counters.overflowed.fetch_add(self.inner.take_drops(), Ordering::Relaxed);
        &self.counters
    }
}
