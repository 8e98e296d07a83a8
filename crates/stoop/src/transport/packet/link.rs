//! The packet link: the operations that the packet exchange needs of a network that carries its packets.
//!
//! The exchange of `packet/` (sessions, lanes, retransmission, long messages, begun calls, the server) is generic over a
//! [`PacketLink`]. UDP is one link; `memory/` is another, for tests. A link moves packets and knows nothing about calls;
//! the exchange knows nothing about sockets.
//!
//! The exchange takes the link as a type parameter and not as an enum. Both compile to the same instructions while there is one link;
//! an enum would make `packet/` import the links, which import this contract.
//!
//! # Endpoints
//!
//! An *endpoint* is one queue of arriving packets together with a way to sleep on it. A caller's endpoint
//! ([`CallerEndpoint`]) leads to one server; a server's endpoint ([`ServerEndpoint`]) receives from any peer.
//! UDP gives an endpoint to each lane, so that the kernel wakes the thread that waits for the packet. A packet socket
//! gives one to each lane up to a bound ([`connect`](PacketLink::connect) then fails with `AddrInUse`), AF_XDP one to each process: the
//! lane that comes first and the begun calls share it ([`must_share`](PacketLink::must_share)), and further lanes get packet sockets. Lanes without an endpoint of their own share one; the exchange has one mechanism for that:
//! the thread that holds the endpoint's receive role copies each packet to the lane to which it belongs. An endpoint may outlive a
//! binding and may serve several.
//!
//! # Sending
//!
//! - *One packet*: the exchange keeps the packet of a small call for retransmission, and its answer likewise, so
//!   [`send`](CallerEndpoint::send) copies it.
//! - *Packets of a long message*: the link provides a [`Room`] for them, and the exchange writes header and data
//!   there. UDP provides 64 KiB of memory; a ring would provide its frames.
//! - Every link accepts [`MAX_SEGMENTS`] packets or [`MAX_SEGMENTS_LEN`] bytes at once.
//! - The link decides how packets that are handed over together leave. If the system refuses to send them together, the
//!   link sends them one by one.
//! - A packet that is not sent is treated as a lost packet, unless the call has sent nothing before.
//!
//! # Receiving
//!
//! A link copies packets to the memory of the thread that receives, and releases its own frames before `receive` returns: no frame is
//! held while a procedure or any other code of the user runs. No operation allocates memory, takes a lock or reads the clock on the
//! path of a call of one packet. A wait ends early when a signal arrives; the exchange then looks at the clock and waits again.
//!
//! # Room around the data
//!
//! Packets begin with the exchange's header of 32 bytes. A link that needs headroom before it, such as the header of an
//! Ethernet frame, adds it itself. Prefix bytes behind the header and a trailer, such as the checksum of
//! [`checksum`](super::checksum), belong to the binding. Offsets that stubs use are relative to the data.
//!
//! # Peers
//!
//! A peer's host is 16 bytes and its port two bytes, which only the link interprets. The exchange compares them and
//! derives cookies from them. Procedures see them as [`Caller::Station`](crate::Caller::Station), unless the link has IP addresses.
//!
//! # Reserved for later
//!
//! - *Sealing* takes place where [`checksum`](super::checksum) writes its trailer, after the last byte of a packet has been written
//!   and before the link gets it; *opening* where the checksum is verified, before the exchange sees the packet.

pub(crate) use stoop_net::packets::{
    CallerArrival, MAX_SEGMENTS, MAX_SEGMENTS_LEN, Segments, SegmentsSending, Sending,
};

pub(crate) use crate::transport::packet::room::{ContiguousRoom, Room};
pub(crate) use crate::transport::packet::server_endpoint::{
    LinkCounters, PACKETS_ROOM, Peer, ReceiveBuffers, Received, ServerEndpoint, UNKNOWN_AGE,
};

use crate::transport::packet::shared_endpoint::SharedEndpoints;
use crate::uri::Scheme;
use std::fmt::Display;
use std::io::{self, IoSlice};
use stoop_exchange::Instant;
use stoop_wire::{BindingId, LaneId};

/// A network that carries packets of the exchange.
pub(crate) trait PacketLink: Sized + 'static {
    /// The schemes of its addresses.
    const SCHEMES: &'static [Scheme];
    /// The link's name in descriptions of a binding.
    const NAME: &'static str;

    /// Where a server listens.
    type Address: Clone + Display + Send + Sync + 'static;
    /// A caller's endpoint.
    type Caller: CallerEndpoint;
    /// A server's endpoint.
    type Server: ServerEndpoint;

    /// The endpoints that bindings of this process share.
    fn shared_endpoints() -> &'static SharedEndpoints<Self::Caller>;

    /// Finds the addresses for which `text` stands, by `deadline` if the link itself asks for them. The list is never empty.
    ///
    /// # Errors
    ///
    /// The text is no address of this link, or the name is unknown.
    fn resolve(text: &str, deadline: Instant) -> io::Result<Vec<Self::Address>>;

    /// The address at which a server is to [listen](Self::listen) that `text` stands for.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    fn place(text: &str) -> io::Result<Self::Address> {
        Ok(Self::resolve(text, Instant::NEVER)?.swap_remove(0))
    }

    /// Where else the server at that address listens, as [`offers`](crate::offers) writes it, if it is on this machine at a place to
    /// which this link cannot [connect](Self::connect).
    fn other_offers(_server: &Self::Address) -> String {
        String::new()
    }

    /// The address by which this process reaches the server that offers `offer`, an address of this link, and that it has reached at
    /// `reached`, if this link is preferred to that one and both ends are on it.
    fn nearer(_offer: &str, _reached: &str) -> Option<String> {
        None
    }

    /// Opens an endpoint that leads to `server`.
    ///
    /// # Errors
    ///
    /// There is no route to the server, or the system has no port or descriptor left. That no server listens there is
    /// reported later, as [`CallerArrival::Refused`] or [`Sending::Refused`].
    fn connect(server: &Self::Address, share: Share) -> io::Result<Self::Caller>;

    /// Binding flags that this address requires of its server.
    fn required_flags(_server: &Self::Address) -> u32 {
        0
    }

    /// Opens an endpoint that asks `server` for a binding. When the server has granted flags that the address
    /// [requires](Self::required_flags), the endpoint is [redirected](Self::redirect) to `server` for its calls.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    fn connect_to_bind(server: &Self::Address, share: Share) -> io::Result<Self::Caller> {
        Self::connect(server, share)
    }

    /// Whether `text` is a name that may stand for other addresses later. Then endpoints can be [redirected](Self::redirect).
    fn is_name(_text: &str) -> bool {
        false
    }

    /// Has an endpoint lead to `server` from now on.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect). Later sends try again.
    fn redirect(_endpoint: &Self::Caller, _server: &Self::Address) -> io::Result<()> {
        Ok(())
    }

    /// Whether an endpoint for these lanes, opened now, is to be the one that callers of this address share: the link has too few of
    /// this kind for each lane to have its own.
    fn must_share(_server: &Self::Address, _share: Share) -> bool {
        false
    }

    /// Opens an endpoint at `address` that receives from every peer.
    ///
    /// # Errors
    ///
    /// The address is taken, is not this machine's, or may not be used.
    fn listen(address: &Self::Address) -> io::Result<Self::Server>;

    /// The whole address at which `server` listens, as callers write it.
    ///
    /// # Errors
    ///
    /// None in practice.
    fn uri(server: &Self::Server) -> io::Result<String>;
}

/// The lanes that share an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// One lane, which has at most one call outstanding.
    OneLane,
    /// Many lanes: thousands of results may arrive together.
    ManyLanes,
}

/// The outcome of handing over packets of a long message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOver {
    /// The packets are on their way.
    Sent,
    /// The packets are longer than the path carries: [`largest_packet`](CallerEndpoint::largest_packet) says what it does carry. A probe was not
    /// sent; other packets left all the same, in fragments of the network layer.
    TooLong,
}

/// An endpoint at a caller, which leads to one server.
pub(crate) trait CallerEndpoint: Send + Sync + 'static {
    /// Memory for packets of long messages.
    type Room: Room;

    /// Sends one packet.
    ///
    /// # Errors
    ///
    /// The network layer refuses it at once: no route, a filter, or a packet beyond the size of the path.
    fn send(&self, packet: &[u8]) -> io::Result<Sending>;

    /// Hint: nothing was heard for longer than usual, and a packet is about to be repeated. If packets would now leave from another
    /// address of this machine than the endpoint's, the link may change it.
    fn follow_route(&self) {}

    /// The thread that uses this endpoint alone is between two calls: the link may close sockets that it has replaced.
    #[inline]
    fn settle(&mut self) {}

    /// Whether nothing can be sent or received now, because the endpoint's interface is down or gone. A link that cannot know it says no.
    fn is_cut_off(&self) -> bool {
        false
    }

    /// Hint: [`age_of_last_ns`](Self::age_of_last_ns) will be asked.
    fn note_arrivals(&self) {}

    /// How long ago the kernel received the packet that was taken last, in nanoseconds; `None` if that is not known.
    fn age_of_last_ns(&self) -> Option<u64> {
        None
    }

    /// Sends `packets`, which lie `segment` bytes apart; the last may be shorter. Calls `failed` with the position of each
    /// packet that the system refused to send.
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`] packets or [`MAX_SEGMENTS_LEN`] bytes, or `segment` is 0.
    fn send_many(&self, packets: &[u8], segment: usize, failed: impl FnMut(usize, io::Error));

    /// Has the room provide frames of this endpoint, if it has any: the packets are then written where they leave from.
    fn lend(&self, _room: &mut Self::Room) {}

    /// Sends the packets that have been written to the room. A *probe* must not be fragmented: it shows whether the path
    /// carries packets of its length.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    fn send_room(&self, room: &mut Self::Room, is_probe: bool) -> io::Result<HandedOver>;

    /// Sends the packets that result when the bytes of `pieces` are put one behind the other and cut every `segment` bytes.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// As [`send_many`](Self::send_many).
    fn send_gathered(&self, pieces: &[IoSlice<'_>], segment: usize, is_probe: bool)
    -> io::Result<HandedOver>;

    /// Takes a packet if one has arrived.
    ///
    /// # Errors
    ///
    /// The network reports an error of an earlier packet, other than a closed port.
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<CallerArrival> {
        self.receive_about(buffer, 0, 0)
    }

    /// Sleeps for about `about_ns` nanoseconds until a packet arrives, and never longer than `latest_ns`; not at all if `about_ns` is 0.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival>;

    /// Sleeps at most `limit_ns` nanoseconds until a packet arrives.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    fn receive_within(&self, buffer: &mut [u8], limit_ns: u64) -> io::Result<CallerArrival> {
        self.receive_about(buffer, limit_ns, limit_ns)
    }

    /// Takes all packets that have arrived together, if any. `buffer` has room for 64 KiB.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    #[inline]
    fn receive_many(&self, buffer: &mut [u8]) -> io::Result<CallerArrival<Segments>> {
        self.receive_many_about(buffer, 0, 0)
    }

    /// As [`receive_many`](Self::receive_many), with the wait of [`receive_about`](Self::receive_about).
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    fn receive_many_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>>;

    /// From now on packets for this lane of a binding are to arrive here. A link whose endpoints are not shared ignores it.
    fn serve_lane(&self, _binding: BindingId, _lane: LaneId) {}

    /// Says whether packets are expected to arrive together. While they are, only [`receive_many`](Self::receive_many) and
    /// [`receive_many_about`](Self::receive_many_about) may be used. Before they no longer are, the caller has to receive until nothing is there. The link
    /// may ignore it: then packets arrive one by one.
    fn expect_many(&self, on: bool);

    /// Bytes of long results that may be on their way to this endpoint.
    fn window(&self) -> u32;

    /// The mechanism of the endpoint, in descriptions of a binding: text behind the link's name.
    fn describe(&self) -> String {
        String::new()
    }

    /// Bytes of the longest packet that the path to the server carries unfragmented, as far as is known.
    ///
    /// # Errors
    ///
    /// The link cannot know it.
    fn largest_packet(&self) -> io::Result<usize>;

    /// Asks the link to keep the beginnings of packets that the server's machine returns because the port is closed, for
    /// [`next_sent_back`](Self::next_sent_back). The link may ignore it.
    fn keep_sent_back(&self);

    /// Takes the next packet that the server's machine returned; its beginning is in the first bytes of `buffer`, whose number this returns.
    /// Call it until it returns `None` whenever something reports [`CallerArrival::Refused`] or an error.
    fn next_sent_back(&self, buffer: &mut [u8]) -> Option<usize>;
}
