//! A caller's endpoint on an Ethernet.

use crate::transport::ether::address::EtherAddress;
use crate::transport::ether::lookup;
use crate::transport::ether::opening::{advised, check_mtu};
use crate::transport::ether::room::EtherRoom;
use crate::transport::ether::whereabouts::Whereabouts;
use crate::transport::packet::link::{CallerArrival, CallerEndpoint, HandedOver, Segments, Sending, Share};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, Template};
use stoop_ether::ports::BLOCK;
use stoop_ether::{Arrival, Backend, Endpoint, Interface, OpenError, Options, State};

/// An endpoint with the beginning of all its frames.
pub(crate) struct EtherCaller {
    endpoint: Arc<Endpoint>,
    template: Template,
    server: Address,
    checksum: Checksum,
    _lane: Option<LaneEndpoint>,
    address: EtherAddress,
    share: Share,
    /// The caller's interface, by its number, and the hardware address from which frames leave.
    index: u32,
    own: Mac,
    whereabouts: Mutex<Whereabouts>,
    /// Took this one's place when the server came to have another address, or when the interface got another hardware address or was
    /// made again: an endpoint has one of each for life.
    successor: OnceLock<Box<EtherCaller>>,
}

/// Counts an endpoint that belongs to one lane.
struct LaneEndpoint;

/// Endpoints of this process that belong to one lane each. The rest of a block of ports is for endpoints that lanes share.
const LANE_ENDPOINTS_MAX: usize = BLOCK as usize * 3 / 4;

static LANE_ENDPOINTS: AtomicUsize = AtomicUsize::new(0);

impl LaneEndpoint {
    fn take() -> io::Result<Self> {
        match LANE_ENDPOINTS.fetch_add(1, Ordering::Relaxed) {
            0..LANE_ENDPOINTS_MAX => Ok(Self),
            _ => {
                drop(Self);
                Err(io::ErrorKind::AddrInUse.into())
            }
        }
    }
}

impl Drop for LaneEndpoint {
    fn drop(&mut self) {
        LANE_ENDPOINTS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EtherCaller {
    pub(super) fn connect(server: &EtherAddress, share: Share) -> io::Result<Self> {
        let lane = match share {
            Share::OneLane => Some(LaneEndpoint::take()?),
            Share::ManyLanes => None,
        };
        Ok(Self { _lane: lane, ..Self::open(server, share)? })
    }

    /// An endpoint that is not counted.
    fn open(server: &EtherAddress, share: Share) -> io::Result<Self> {
        let interface = Interface::by_name(&server.interface)?;
        if server.mac == Some(interface.mac) {
            return Err(lookup::at_own_interface(server, interface.mac));
        }
        let Some(to) = server.server() else {
            let why = "the server's hardware address and port are missing: write ether://INTERFACE/MAC:PORT, or \
                       ether://INTERFACE/NAME for a server that listens under a name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        check_mtu(&interface)?;
        let options = match share {
            Share::OneLane => Options::of_one_lane(),
            Share::ManyLanes => Options::of_many_lanes(),
        };
        let options = Options { ether_type: server.ether_type, ..options };
        let connect = |backend| Endpoint::connect(&interface, backend, &options);
        let endpoint = match share {
            // The lanes of a process share what AF_XDP gives; what one lane uses for binding is a ring.
            Share::OneLane => connect(Backend::PacketRing),
            Share::ManyLanes => match connect(server.backend) {
                // Another process has it, or the endpoint to another server. The description of the binding says so.
                Err(OpenError::XdpTaken(_)) => connect(Backend::PacketRing),
                endpoint => endpoint,
            },
        }
        .map_err(advised(server.backend))?;
        let template = endpoint.template(to, server.checksum);
        Ok(Self {
            endpoint: Arc::new(endpoint),
            template,
            server: to,
            checksum: server.checksum,
            _lane: None,
            address: server.clone(),
            share,
            index: interface.index,
            own: interface.mac,
            whereabouts: Mutex::default(),
            successor: OnceLock::new(),
        })
    }

    /// The endpoint in use.
    #[inline]
    fn current(&self) -> &Self {
        let mut current = self;
        while let Some(successor) = current.successor.get() {
            current = successor;
        }
        current
    }

    /// The interface, if it has another hardware address than before, is another one of the same name, or has been in another network
    /// namespace.
    fn moved_interface(&self) -> Option<Interface> {
        let interface = Interface::by_name(&self.address.interface).ok()?;
        let is_other = (interface.mac, interface.index) != (self.own, self.index);
        (is_other || self.endpoint.has_lost_its_interface()).then_some(interface)
    }

    /// The same endpoint at the interface as it is now, or another one there.
    fn at(&self, interface: &Interface) -> io::Result<Self> {
        match *self.endpoint {
            Endpoint::Xdp(_) if self.endpoint.follow(interface).is_ok() => {
                let (index, own) = (interface.index, interface.mac);
                Ok(Self { index, own, ..self.to(&self.address, self.server) })
            }
            _ => Self::open(&self.address, self.share),
        }
    }

    /// The same endpoint for a server at another address.
    fn to(&self, server: &EtherAddress, at: Address) -> Self {
        Self {
            endpoint: Arc::clone(&self.endpoint),
            template: self.endpoint.template(at, server.checksum),
            server: at,
            checksum: server.checksum,
            _lane: None,
            address: server.clone(),
            share: self.share,
            index: self.index,
            own: self.own,
            whereabouts: Mutex::default(),
            successor: OnceLock::new(),
        }
    }

    /// Closes the endpoints that others have replaced.
    #[cold]
    fn become_current(&mut self) {
        while let Some(successor) = self.successor.take() {
            let lane = self._lane.take();
            *self = Self { _lane: lane, ..*successor };
        }
    }

    /// Has threads use `successor` from now on. If that has another socket, the one of this is closed: threads that are about to use it
    /// receive nothing there, and send again by the successor.
    fn replace(&self, successor: Self) {
        let is_other = !Arc::ptr_eq(&self.endpoint, &successor.endpoint);
        // Another thread may have been faster.
        if self.successor.set(Box::new(successor)).is_ok() && is_other {
            self.endpoint.retire();
        }
    }

    /// Goes on at the caller's interface as it is now. Returns whether that is another endpoint than before.
    fn follow_interface(&self) -> bool {
        if self.successor.get().is_some() {
            return true;
        }
        let Some(interface) = self.moved_interface() else { return false };
        if let Ok(successor) = self.at(&interface) {
            self.replace(successor);
            // The search has a socket at the interface as it was.
            *self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner) = Whereabouts::default();
        }
        self.successor.get().is_some()
    }

    /// Asks where the server has gone that does not answer, and goes on there when it has said so.
    fn follow_server(&self) {
        let mut whereabouts = self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner);
        let found = whereabouts.look(&self.address, self.server);
        if let Some(server) = found.filter(|server| *server != self.server) {
            self.replace(self.to(&self.address.at(server), server));
        }
    }

    /// Between two calls: an answer that has come meanwhile ends the search for the server.
    #[cold]
    fn end_search(&mut self) {
        let whereabouts = self.whereabouts.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = whereabouts.answer().filter(|server| *server != self.server) {
            self.replace(self.to(&self.address.at(server), server));
            self.become_current();
        }
    }

    /// Sends by the endpoint in use, and once more by another one if the kernel refuses because the interface was made again.
    #[inline]
    fn send_by<T>(&self, mut send: impl FnMut(&Self) -> io::Result<T>) -> io::Result<T> {
        let current = self.current();
        send(current).or_else(|error| match current.follow_interface() {
            true => send(current.current()),
            false => Err(error),
        })
    }

    /// Has the endpoint lead to another server by the same interface, or use checksums otherwise.
    pub(super) fn redirect(&self, server: &EtherAddress) -> io::Result<()> {
        let current = self.current();
        if (server.server(), server.checksum) == (Some(current.server), current.checksum) {
            return Ok(());
        }
        let successor = match server.server() {
            Some(to)
                if server.interface == current.address.interface && current.moved_interface().is_none() =>
            {
                current.to(server, to)
            }
            _ => Self::open(server, current.share)?,
        };
        current.replace(successor);
        Ok(())
    }

    /// Drops what another endpoint than the server has sent, or what the server has sent without the checksum that is wanted.
    #[inline]
    fn accept<L>(&self, arrival: Arrival<L>) -> CallerArrival<L> {
        match arrival {
            Arrival::Packet { len, from, checksum }
                if from == self.server
                    && (checksum, self.checksum) != (Checksum::Omitted, Checksum::Computed) =>
            {
                CallerArrival::Datagram(len)
            }
            Arrival::TooLarge(len) => CallerArrival::TooLarge(len),
            Arrival::Packet { .. } | Arrival::Nothing => CallerArrival::Nothing,
        }
    }

    /// Whether packets of that length can leave.
    fn is_too_long(&self, packet: usize) -> bool {
        packet > self.endpoint.largest_packet()
    }

    /// Packets that the kernel refuses are lost, unless it refuses the first of them.
    fn handed_over(&self, send: impl FnOnce(&mut dyn FnMut(usize, io::Error))) -> io::Result<HandedOver> {
        let mut first = Ok(HandedOver::Sent);
        send(&mut |position, error| {
            if position == 0 {
                first = Err(error);
            }
        });
        first.or_else(|error| match error {
            error if Endpoint::is_too_long(&error) && self.shorten() => Ok(HandedOver::TooLong),
            error if self.is_loss(&error) => Ok(HandedOver::Sent),
            error => Err(error),
        })
    }

    /// Whether a packet that the kernel has refused with that error is a lost one, which is sent again.
    #[cold]
    fn is_loss(&self, error: &io::Error) -> bool {
        Endpoint::is_dropped(error) && !self.is_cut_off()
    }

    /// Makes the longest packet as short as the interface's MTU has become. Returns whether it is shorter than before.
    #[cold]
    fn shorten(&self) -> bool {
        let before = self.endpoint.largest_packet();
        let interface = Interface::by_name(&self.address.interface);
        interface.is_ok_and(|interface| self.endpoint.follow(&interface).is_ok())
            && self.endpoint.largest_packet() < before
    }
}

/// The time that a thread may sleep.
fn limit(about_ns: u64, latest_ns: u64) -> Option<u64> {
    Some(about_ns.min(latest_ns))
}

impl CallerEndpoint for EtherCaller {
    type Room = EtherRoom;

    #[inline]
    fn send(&self, packet: &[u8]) -> io::Result<Sending> {
        let sent = self.send_by(|current| current.endpoint.send(&current.template, packet));
        sent.or_else(|error| if self.is_loss(&error) { Ok(()) } else { Err(error) }).map(|()| Sending::Sent)
    }

    /// Answers to an address that the interface no longer has do not arrive, nor do packets to one that the server no longer has.
    fn follow_route(&self) {
        let current = self.current();
        if !current.follow_interface() {
            current.follow_server();
        }
    }

    #[inline]
    fn settle(&mut self) {
        if self.successor.get().is_some() {
            self.become_current();
        }
        if self.whereabouts.get_mut().is_ok_and(|search| search.has_asked()) {
            self.end_search();
        }
    }

    fn is_cut_off(&self) -> bool {
        !Interface::by_name(&self.address.interface).is_ok_and(|interface| interface.state == State::Up)
    }

    fn send_many(&self, packets: &[u8], segment: usize, mut failed: impl FnMut(usize, io::Error)) {
        let current = self.current();
        let mut is_refused = false;
        current.endpoint.send_many(&current.template, packets, segment, |position, error| {
            is_refused = true;
            failed(position, error);
        });
        if is_refused {
            // Those packets have failed; later ones need not.
            current.follow_interface();
        }
    }

    fn lend(&self, room: &mut EtherRoom) {
        self.current().endpoint.lend(room.frames());
    }

    fn send_room(&self, room: &mut EtherRoom, _: bool) -> io::Result<HandedOver> {
        let current @ Self { endpoint, template, .. } = self.current();
        if current.is_too_long(room.longest()) {
            return Ok(HandedOver::TooLong);
        }
        let sent = current.handed_over(|failed| endpoint.send_room(template, room.frames(), failed));
        sent.inspect_err(|_| {
            current.follow_interface();
        })
    }

    fn send_gathered(&self, pieces: &[IoSlice<'_>], segment: usize, _: bool) -> io::Result<HandedOver> {
        let longest = segment.min(pieces.iter().map(|piece| piece.len()).sum());
        self.send_by(|current @ Self { endpoint, template, .. }| match current.is_too_long(longest) {
            true => Ok(HandedOver::TooLong),
            false => current.handed_over(|failed| endpoint.send_gathered(template, pieces, segment, failed)),
        })
    }

    #[inline]
    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival> {
        let current @ Self { endpoint, .. } = self.current();
        let arrival = match about_ns {
            0 => endpoint.receive(buffer),
            _ => endpoint.receive_within(buffer, limit(about_ns, latest_ns))?,
        };
        Ok(current.accept(arrival))
    }

    #[inline]
    fn receive_many_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>> {
        let current @ Self { endpoint, .. } = self.current();
        let arrival = match about_ns {
            0 => endpoint.receive_many(buffer),
            _ => endpoint.receive_many_within(buffer, limit(about_ns, latest_ns))?,
        };
        Ok(current.accept(arrival))
    }

    /// Packets of any number can be received together at any time.
    fn expect_many(&self, _: bool) {}

    /// Each packet takes a frame. Packets of other calls need some of them.
    fn window(&self) -> u32 {
        u32::try_from(self.current().endpoint.frames() * self.current().endpoint.largest_packet() / 2)
            .unwrap_or(u32::MAX)
    }

    fn describe(&self) -> String {
        let Self { endpoint, checksum, .. } = self.current();
        let checksum = match checksum {
            Checksum::Computed => "with a checksum in each frame",
            Checksum::Omitted => "without checksums in frames, as both ends have agreed",
        };
        let further = match **endpoint {
            Endpoint::Xdp(_) => ", for one thread and begun calls, and packet sockets for further threads",
            Endpoint::PacketRing(_) => "",
        };
        format!(" ({endpoint}{further}, {checksum})")
    }

    fn largest_packet(&self) -> io::Result<usize> {
        Ok(self.current().endpoint.largest_packet())
    }

    /// An Ethernet sends nothing back.
    fn keep_sent_back(&self) {}

    fn next_sent_back(&self, _: &mut [u8]) -> Option<usize> {
        None
    }
}
