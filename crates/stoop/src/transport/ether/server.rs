//! A server's endpoint on an Ethernet.

use crate::context::{Caller, Station};
use crate::transport::ether::address::EtherAddress;
use crate::transport::ether::lookup;
use crate::transport::ether::opening::{advised, check_mtu};
use crate::transport::ether::room::EtherRoom;
use crate::transport::packet::link::{LinkCounters, Peer, ReceiveBuffers, Received, ServerEndpoint};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stoop_ether::address::Address;
use stoop_ether::frame::Checksum;
use stoop_ether::names::{Announcement, Name};
use stoop_ether::posts::Posted;
use stoop_ether::{Arrival, Backend, Endpoint, Interface, OpenError, Options};
use stoop_exchange::server;
use stoop_net::Patience;
use stoop_wire::bind::UNCHECKED_FRAMES;

/// An endpoint that answers any other one.
pub(crate) struct EtherServer {
    endpoint: Arc<Endpoint>,
    interface: Interface,
    /// As callers write it whose interface has this name.
    address: EtherAddress,
    /// The name or the port was chosen by the user, so that a server that is started again has it, too.
    has_fixed_address: bool,
    /// Answers questions for the name, if there is one, and for earlier addresses.
    _announcement: Announcement,
    /// Tells callers at this very interface where else the server listens.
    posts: Vec<Posted>,
    /// The worker that sleeps, or the next one to sleep, is to receive an empty packet.
    is_notified: AtomicBool,
    /// Packets dropped because they were longer than any buffer.
    too_large: AtomicU64,
    /// Packets dropped because their frames had no checksum, which this server requires.
    unchecked: AtomicU64,
}

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EtherPeer {
    address: Address,
    /// Answers have a checksum if the packet had one.
    checksum: Checksum,
}

impl Peer for EtherPeer {
    fn caller(&self) -> Caller {
        Caller::Station(Station { host: server::Peer::host(self), port: self.address.port })
    }
}

impl server::Peer for EtherPeer {
    /// The hardware address, and zeros.
    #[inline]
    fn host(&self) -> [u8; 16] {
        let mut host = [0; 16];
        host[..6].copy_from_slice(&self.address.mac.0);
        host
    }

    fn port(&self) -> u16 {
        self.address.port
    }
}

impl EtherServer {
    pub(super) fn listen(address: &EtherAddress) -> io::Result<Self> {
        let interface = Interface::by_name(&address.interface)?;
        if address.mac.is_some_and(|mac| mac != interface.mac) {
            let why = format!(
                "the hardware address of {} is {}: listen there, or at ether://{}/:PORT",
                address.interface, interface.mac, address.interface
            );
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
        }
        check_mtu(&interface)?;
        let options = Options { ether_type: address.ether_type, ..Options::of_many_lanes() };
        let at = |port, backend| Endpoint::listen(&interface, port, backend, &options);
        // A server that is started again under its name most likely has its port again, and bindings go on there.
        let usual = address.name.as_ref().map(Name::usual_port);
        let listen = |backend| match at(address.port.or(usual), backend) {
            Err(OpenError::PortTaken(_)) if address.port.is_none() => at(None, backend),
            endpoint => endpoint,
        };
        let (endpoint, backend) = match listen(address.backend) {
            // The server's address says so.
            Err(OpenError::XdpTaken(_)) => (listen(Backend::PacketRing), Backend::PacketRing),
            endpoint => (endpoint, address.backend),
        };
        let endpoint = Arc::new(endpoint.map_err(advised(backend))?);
        let (name, announced) = (address.name.as_ref(), Arc::clone(&endpoint));
        let announcement = Announcement::new(&interface, address.ether_type, name, announced)?;
        let has_fixed_address = address.port.is_some() || address.name.is_some();
        let name = address.name.clone();
        let address = EtherAddress { backend, name, ..address.at(endpoint.address()) };
        Ok(Self {
            endpoint,
            interface,
            address,
            has_fixed_address,
            _announcement: announcement,
            posts: Vec::new(),
            is_notified: AtomicBool::new(false),
            too_large: AtomicU64::new(0),
            unchecked: AtomicU64::new(0),
        })
    }

    /// The outcome of a sleep in which nothing came: an empty packet if the worker was [notified](ServerEndpoint::notify).
    #[cold]
    fn nothing_after_sleep(&self) -> Received {
        match self.is_notified.swap(false, Ordering::Relaxed) {
            true => Received::Packet(0),
            false => Received::Nothing,
        }
    }

    /// Whether a frame of a caller is dropped that has, or has not, a checksum.
    #[inline]
    fn refuses(&self, checksum: Checksum) -> bool {
        (checksum, self.address.checksum) == (Checksum::Omitted, Checksum::Computed)
    }

    pub(super) fn address(&self) -> &EtherAddress {
        &self.address
    }
}

impl ServerEndpoint for EtherServer {
    type Peer = EtherPeer;
    /// The sender of what was received last.
    type Worker = EtherPeer;
    type Room = EtherRoom;

    /// Callers may leave checksums out if this end's address says so, too.
    fn flags(&self) -> u32 {
        match self.address.checksum {
            Checksum::Computed => 0,
            Checksum::Omitted => UNCHECKED_FRAMES,
        }
    }

    fn worker(&self) -> EtherPeer {
        EtherPeer { address: Address::default(), checksum: Checksum::Computed }
    }

    fn window(&self) -> u32 {
        u32::try_from(self.endpoint.frames() * self.endpoint.largest_packet() / 2).unwrap_or(u32::MAX)
    }

    #[inline]
    fn receive(&self, worker: &mut EtherPeer, buffers: &mut ReceiveBuffers, patience: Patience) -> Received {
        let arrival = match patience {
            Patience::DontWait => self.endpoint.receive_many(buffers.many()),
            // The interface is down or gone: it may come back.
            Patience::Block => {
                self.endpoint.receive_many_within(buffers.many(), None).unwrap_or(Arrival::Nothing)
            }
        };
        match arrival {
            Arrival::Packet { len, checksum, .. } if self.refuses(checksum) => {
                self.unchecked.fetch_add(len.count() as u64, Ordering::Relaxed);
                Received::Nothing
            }
            Arrival::Packet { len, from, checksum } => {
                *worker = EtherPeer { address: from, checksum };
                buffers.arrived(len)
            }
            Arrival::TooLarge(_) => {
                self.too_large.fetch_add(1, Ordering::Relaxed);
                Received::Nothing
            }
            Arrival::Nothing if patience == Patience::Block => self.nothing_after_sleep(),
            Arrival::Nothing => Received::Nothing,
        }
    }

    #[inline]
    fn peer<'a>(&'a self, worker: &'a EtherPeer) -> &'a EtherPeer {
        worker
    }

    #[inline]
    fn send(&self, packet: &[u8], peer: &EtherPeer) {
        // A packet that the kernel refuses is a lost one.
        let _ = self.endpoint.send(&self.endpoint.template(peer.address, peer.checksum), packet);
    }

    fn send_many(&self, _: &EtherPeer, packets: &[u8], segment: usize, peer: &EtherPeer) {
        let template = self.endpoint.template(peer.address, peer.checksum);
        self.endpoint.send_many(&template, packets, segment, |_, _| {});
    }

    fn note_offers(&mut self, offers: &str) {
        self.posts = lookup::post(&self.interface, &self.address, offers);
    }

    fn lend(&self, room: &mut EtherRoom) {
        self.endpoint.lend(room.frames());
    }

    fn send_room(&self, _: &EtherPeer, room: &mut EtherRoom, peer: &EtherPeer) {
        let template = self.endpoint.template(peer.address, peer.checksum);
        self.endpoint.send_room(&template, room.frames(), |_, _| {});
    }

    /// A binding goes on at the address, which must not change when the server is started again.
    fn is_preferred(&self) -> bool {
        self.has_fixed_address
    }

    fn notify(&self) {
        // The kernel's lock of the event orders this before the worker's look.
        self.is_notified.store(true, Ordering::Relaxed);
        self.endpoint.notify();
    }

    fn wake(&self) {
        self.endpoint.wake();
    }

    fn counters(&self) -> LinkCounters {
        let counted = self.endpoint.counters();
        LinkCounters {
            malformed: self.too_large.load(Ordering::Relaxed) + counted.malformed,
            corrupt: counted.corrupt + self.unchecked.load(Ordering::Relaxed),
            overflowed: counted.overflowed,
            ..LinkCounters::default()
        }
    }
}
