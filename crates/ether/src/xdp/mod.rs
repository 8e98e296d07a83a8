//! Backend B: an AF_XDP socket with its own XDP program (Documentation/networking/af_xdp.rst).
//!
//! The program takes the frames of our EtherType that go to a registered port and passes all others to the
//! kernel untouched. It is attached by a link that the kernel removes with the process, also after `kill -9`.
//!
//! An interface has one XDP program, and a receive queue one socket: a second endpoint, in this process or another,
//! gets [`OpenError::XdpTaken`], and uses a [packet ring](crate::PacketRing) instead. The socket serves one
//! receive queue. At an interface with several queues a packet socket receives the frames of the others; most
//! interfaces put all our frames into the first queue, because they distribute packets of IP only.
//!
//! Received frames have at most 3,840 bytes, because a frame is received into one chunk of at most a page: on
//! an interface with a larger MTU packets are shorter than it allows.
//!
//! A socket ends with its interface. When the interface is made again, or comes back from another network namespace, [`Endpoint::follow`](crate::Endpoint::follow) makes program
//! and socket anew, with the same memory, and the new socket takes the old one's descriptor: threads that receive and send go on
//! without another look at where the endpoint is.

mod attachment;
mod options;
mod others;
mod place;
mod program;
mod socket;
mod system;

use crate::address::{Address, CurrentAddress};
use crate::arrival::{Arrival, Arrivals};
use crate::counters::Counters;
use crate::error::{OpenError, failed};
use crate::exclusive::Exclusive;
use crate::frame::{ETHERNET_HEADER_LEN, EtherType, OVERHEAD, Template, frame_len};
use crate::interface::Interface;
use crate::memory::{Producer, Room, Sending, Umem};
use crate::options::Options;
use crate::ports::Reservation;
use crate::privilege::Capability;
use crate::sleep::Sleeper;
use attachment::Attachment;
pub use options::{Mode, XdpOptions};
use others::OtherQueues;
use place::Place;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::xdp::XdpDesc;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use socket::{HEADROOM, Receiving, Request, Socket};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use stoop_net::packets::Segments;

/// An endpoint on an AF_XDP socket.
#[derive(Debug)]
pub struct Xdp {
    // Dropped first, so that no frame is handed to a socket that is going.
    place: Mutex<Place>,
    /// Stands for another socket after the interface has been made again.
    socket: OwnedFd,
    umem: Arc<Umem>,
    /// `None` while there is no interface.
    arrivals: Exclusive<Option<Arrivals<Receiving>>>,
    /// If the interface has, or has had, several receive queues.
    others: OnceLock<OtherQueues>,
    address: CurrentAddress,
    ether_type: EtherType,
    largest_packet: AtomicUsize,
    options: XdpOptions,
    is_zero_copy: AtomicBool,
    /// Frames are in the transmit ring that the kernel would not take, or there is no ring.
    is_stuck: AtomicBool,
    /// Frames that earlier sockets have dropped.
    dropped_before: AtomicU64,
    sleeper: Sleeper,
    counters: Counters,
}

/// The error of a socket that has lost its interface for good.
const UNBOUND: Errno = Errno::NXIO;

/// Bytes of a chunk for frames of at most 1,792 bytes, and for longer ones.
const CHUNK_LEN: usize = 2048;
const LARGE_CHUNK_LEN: usize = 4096;

impl Xdp {
    /// Finds out whether this process may use AF_XDP at the interface, which is in this thread's network
    /// namespace, without touching the interface: whether the kernel takes the program and makes a socket,
    /// and no other program is there. Whether the driver can do native mode, only an attempt shows.
    ///
    /// # Errors
    ///
    /// [`OpenError::XdpTaken`], [`OpenError::NotPermitted`], [`OpenError::Unsupported`], [`OpenError::Down`].
    pub fn check(interface: &Interface, options: &Options) -> Result<(), OpenError> {
        interface.must_be_up()?;
        if interface.xdp.is_some() {
            return Err(OpenError::XdpTaken(interface.name.clone()));
        }
        socket::check(interface)?;
        attachment::load(options.ether_type, 0).map(drop)
    }

    /// Opens a server's endpoint; `None`: at any free port.
    ///
    /// # Errors
    ///
    /// [`OpenError::XdpTaken`], [`OpenError::PortTaken`], [`OpenError::NotPermitted`],
    /// [`OpenError::Unsupported`], and others that are rare.
    pub fn listen(
        interface: &Interface,
        port: Option<u16>,
        options: &Options,
        xdp: XdpOptions,
    ) -> Result<Self, OpenError> {
        let reservation = match port {
            Some(port) => Reservation::of_server(interface, options.ether_type, port),
            None => Reservation::of_any_server(interface, options.ether_type),
        };
        let reservation = reservation.map_err(|error| error.of_backend(Capability::OF_XDP))?;
        Self::open(interface, reservation, options, xdp)
    }

    /// Opens an endpoint for the callers of this process.
    ///
    /// # Errors
    ///
    /// As [`listen`](Self::listen).
    pub fn connect(interface: &Interface, options: &Options, xdp: XdpOptions) -> Result<Self, OpenError> {
        let reservation = Reservation::of_callers(interface, options.ether_type)
            .map_err(|error| error.of_backend(Capability::OF_XDP))?;
        Self::open(interface, reservation, options, xdp)
    }

    fn open(
        interface: &Interface,
        reservation: Reservation,
        options: &Options,
        xdp: XdpOptions,
    ) -> Result<Self, OpenError> {
        interface.must_be_up()?;
        let chunk_len = if interface.mtu + ETHERNET_HEADER_LEN + HEADROOM <= CHUNK_LEN {
            CHUNK_LEN
        } else {
            LARGE_CHUNK_LEN
        };
        let queues = socket::check(interface)?;
        let request = Request {
            interface,
            mode: xdp.mode,
            queue: xdp.queue.unwrap_or(0),
            frames: options.frames.max(64).next_power_of_two() as u32,
            chunk_len,
            busy_poll: xdp.busy_poll,
        };
        // The program first: it fails at once where another process has one, and passes everything until a
        // port is registered.
        let attachment = Attachment::new(interface, options.ether_type, xdp.mode, request.queue)?;
        let Socket { socket, receiving, is_zero_copy } = Socket::open(&request)?;
        let address = Address { mac: interface.mac, port: reservation.first() };
        let others = OnceLock::new();
        if queues > 1 {
            let _ = others.set(OtherQueues::open(interface, options, address.port)?);
        }
        attachment.register_socket(request.queue, socket.as_fd())?;
        attachment.register_port(address)?;
        Ok(Self {
            place: Mutex::new(Place::new(interface, attachment, reservation)),
            socket,
            umem: Arc::clone(receiving.umem()),
            arrivals: Exclusive::new(Some(Arrivals::new(receiving))),
            others,
            address: CurrentAddress::new(address),
            ether_type: options.ether_type,
            largest_packet: AtomicUsize::new(largest_packet(interface, chunk_len)),
            options: xdp,
            is_zero_copy: AtomicBool::new(is_zero_copy),
            is_stuck: AtomicBool::new(false),
            dropped_before: AtomicU64::new(0),
            sleeper: Sleeper::new().map_err(failed("an event", &[]))?,
            counters: Counters::default(),
        })
    }
}

/// Bytes of the longest packet that fits into a chunk and into a frame of the interface.
fn largest_packet(interface: &Interface, chunk_len: usize) -> usize {
    (interface.mtu + ETHERNET_HEADER_LEN).min(chunk_len - HEADROOM).saturating_sub(OVERHEAD)
}

/// Sending.
impl Xdp {
    #[inline]
    pub(crate) fn send(&self, to: &Template, packet: &[u8]) -> io::Result<()> {
        if packet.len() > self.largest_packet() {
            return Ok(self.not_sent(1, Errno::MSGSIZE)?);
        }
        let mut sending = self.umem.sending();
        self.unstick(&sending)?;
        let Some(mut chunk) = sending.take_one() else {
            return Ok(self.not_sent(1, Errno::NOBUFS)?);
        };
        let frame = self.umem.bytes_mut(&mut chunk);
        frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
        let len = to.complete(frame, packet.len());
        sending.write(chunk, len);
        Ok(self.hand_over(&sending)?)
    }

    /// Sends the packets in the room. Calls `failed` with the position of each one that the kernel refuses.
    pub(crate) fn send_room(&self, to: &Template, room: &mut Room, mut failed: impl FnMut(usize, io::Error)) {
        if !room.is_lent() || room.longest() > self.largest_packet() {
            return self.send_copies(to, room, failed);
        }
        room.complete(to).for_each(drop);
        let mut sending = self.umem.sending();
        if self.is_stuck.load(Ordering::Relaxed) {
            // One by one, each packet is told of its error.
            drop(sending);
            return self.send_copies(to, room, failed);
        }
        let (packets, mut frames) = (room.positions(), 0);
        for (chunk, frame_len) in room.take_chunks() {
            sending.write(chunk, frame_len);
            frames += 1;
        }
        if let Err(error) = self.hand_over(&sending) {
            drop(sending);
            (0..frames)
                .flat_map(|frame| packets.of_frame(frame))
                .for_each(|position| failed(position, error.into()));
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
        let mut room = self.room();
        room.gather(pieces, segment, self.largest_packet());
        self.send_room(to, &mut room, failed);
    }

    /// Sends packets one by one: no chunks were free, or some are too long.
    #[cold]
    fn send_copies(&self, to: &Template, room: &mut Room, mut failed: impl FnMut(usize, io::Error)) {
        let packets = room.positions();
        for (number, frame) in room.complete(to).enumerate() {
            if let Err(error) = self.send_frame(frame) {
                packets.of_frame(number).for_each(|position| failed(position, error.into()));
            }
        }
    }

    fn send_frame(&self, frame: &[u8]) -> Result<(), Errno> {
        if frame.len() > frame_len(self.largest_packet()) {
            return self.not_sent(1, Errno::MSGSIZE);
        }
        let mut sending = self.umem.sending();
        self.unstick(&sending)?;
        let Some(mut chunk) = sending.take_one() else {
            return self.not_sent(1, Errno::NOBUFS);
        };
        self.umem.bytes_mut(&mut chunk)[..frame.len()].copy_from_slice(frame);
        sending.write(chunk, frame.len());
        self.hand_over(&sending)
    }

    /// Publishes the frames in the ring and has the kernel send them. After an error none of them has left.
    ///
    /// A published frame cannot be taken back. If the kernel does not take it now, it leaves later: when the
    /// interface is up again, or its queue has room. So that is no error of the packet, but of the next one,
    /// which [`unstick`](Self::unstick) stops before it is published.
    #[inline]
    fn hand_over(&self, sending: &Sending) -> Result<(), Errno> {
        let transmit = sending.transmit();
        transmit.publish();
        if !transmit.needs_wakeup() {
            return Ok(());
        }
        match self.kick(transmit) {
            Ok(()) => Ok(()),
            Err(error) => self.stick(transmit, error),
        }
    }

    #[cold]
    fn stick(&self, transmit: &Producer<XdpDesc>, error: Errno) -> Result<(), Errno> {
        if error == UNBOUND {
            return self.not_sent(transmit.untaken() as usize, error);
        }
        self.is_stuck.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Has the kernel take what it would not take before.
    #[inline]
    fn unstick(&self, sending: &Sending) -> Result<(), Errno> {
        if !self.is_stuck.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !sending.is_open() {
            return self.not_sent(1, UNBOUND);
        }
        self.kick(sending.transmit()).or_else(|error| self.not_sent(1, error))?;
        self.is_stuck.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Calls the kernel until it has taken all frames: one call sends up to 32. When the interface's queue is
    /// full, the rest stays in the ring for the next call. [`UNBOUND`]: it has taken none.
    fn kick(&self, transmit: &Producer<XdpDesc>) -> Result<(), Errno> {
        /// Calls that bring nothing forward, one after the other.
        const IN_VAIN_MAX: u32 = 100;
        let (mut left, mut in_vain, mut is_first) = (transmit.untaken(), 0, true);
        loop {
            match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {}
                // The interface has gone while some frames had left already: the others are lost packets.
                Err(UNBOUND) if !is_first => return Ok(()),
                Err(error) => return Err(error),
            }
            is_first = false;
            let now = transmit.untaken();
            if now == 0 {
                return Ok(());
            }
            in_vain = if now == left { in_vain + 1 } else { 0 };
            if in_vain == IN_VAIN_MAX {
                return Err(Errno::NOBUFS);
            }
            if in_vain > 0 {
                thread::yield_now();
            }
            left = now;
        }
    }

    #[cold]
    fn not_sent(&self, frames: usize, error: Errno) -> Result<(), Errno> {
        self.counters.note_not_sent(frames);
        Err(error)
    }

    /// Whether frames of that memory are this socket's.
    pub(crate) fn is_lender(&self, memory: &Arc<Umem>) -> bool {
        Arc::ptr_eq(&self.umem, memory)
    }

    /// Room for packets in frames of this socket.
    pub(crate) fn room(&self) -> Room {
        Room::lent_by(&self.umem)
    }
}

/// Receiving.
impl Xdp {
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Arrival {
        let (ether_type, counters) = (self.ether_type, &self.counters);
        let own = |buffer: &mut [u8]| self.take(|it| it.take_one(ether_type, counters, buffer));
        match self.others.get() {
            None => own(buffer),
            Some(others) => {
                others.take_turns(buffer, own, |it, buffer| it.take_one(ether_type, counters, buffer))
            }
        }
    }

    #[inline]
    pub(crate) fn receive_many(&self, buffer: &mut [u8]) -> Arrival<Segments> {
        let (ether_type, counters) = (self.ether_type, &self.counters);
        let own = |buffer: &mut [u8]| self.take(|it| it.take_many(ether_type, counters, buffer));
        match self.others.get() {
            None => own(buffer),
            Some(others) => {
                others.take_turns(buffer, own, |it, buffer| it.take_many(ether_type, counters, buffer))
            }
        }
    }

    #[inline]
    fn take<L>(&self, take: impl FnOnce(&mut Arrivals<Receiving>) -> Arrival<L>) -> Arrival<L> {
        let taken = self.arrivals.try_use(|receiving| {
            let receiving = receiving.as_mut()?;
            let taken = take(receiving);
            let is_nothing = matches!(taken, Arrival::Nothing);
            Some((taken, is_nothing && (self.options.busy_poll || receiving.queue.needs_wakeup())))
        });
        let Some(Some((taken, run_driver))) = taken else { return Arrival::Nothing };
        if run_driver {
            // Nothing is read: the frames come by the ring. An error is reported when this endpoint sleeps or
            // sends.
            let _ = rustix::net::recv(&self.socket, &mut [] as &mut [u8], RecvFlags::DONTWAIT);
        }
        taken
    }

    #[inline]
    pub(crate) fn sleep(&self, limit_ns: Option<u64>) -> io::Result<()> {
        /// The kernel does not wake a sleeper when the interface has gone (`xsk_poll`), so look for that once
        /// a second.
        const LIMIT_MAX_NS: u64 = 1_000_000_000;
        let limit_ns = limit_ns.unwrap_or(LIMIT_MAX_NS).min(LIMIT_MAX_NS);
        let other = self.others.get().map(OtherQueues::fd);
        self.sleeper.sleep(self.socket.as_fd(), other, Some(limit_ns))
    }
}

impl Xdp {
    /// The endpoint's address.
    pub fn address(&self) -> Address {
        self.address.get()
    }

    /// Where its program runs.
    pub fn mode(&self) -> Mode {
        self.options.mode
    }

    /// Whether the interface has other receive queues, whose frames a packet socket receives.
    pub fn has_other_queues(&self) -> bool {
        self.others.get().is_some()
    }

    /// Whether the driver reads and writes the frames without a copy.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy.load(Ordering::Relaxed)
    }

    /// A socket that is bound to no interface says so to each call.
    pub(crate) fn has_lost_its_interface(&self) -> bool {
        rustix::net::recv(&self.socket, &mut [] as &mut [u8], RecvFlags::DONTWAIT) == Err(UNBOUND)
    }

    pub(crate) fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    pub(crate) fn largest_packet(&self) -> usize {
        self.largest_packet.load(Ordering::Relaxed)
    }

    pub(crate) fn frames(&self) -> usize {
        self.umem.half()
    }

    pub(crate) fn notify(&self) {
        self.sleeper.notify();
    }

    pub(crate) fn wake(&self) {
        self.sleeper.wake();
    }

    pub(crate) fn counters(&self) -> &Counters {
        let others = self.others.get().map_or(0, OtherQueues::dropped);
        let dropped = self.dropped_before.load(Ordering::Relaxed) + self.dropped_by_socket() + others;
        self.counters.overflowed.fetch_max(dropped, Ordering::Relaxed);
        &self.counters
    }

    /// Frames for which the present socket had no room. A frame for which no chunk was free is in `rx_dropped`, one for which the
    /// ring had no place in `rx_ring_full`.
    fn dropped_by_socket(&self) -> u64 {
        sockopt::xdp_statistics(&self.socket)
            .map_or(0, |statistics| statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0))
    }
}
