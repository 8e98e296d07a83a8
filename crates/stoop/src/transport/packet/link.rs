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

pub(crate) use crate::transport::packet::caller_endpoint::{CallerEndpoint, HandedOver, Share};
pub(crate) use crate::transport::packet::room::{ContiguousRoom, Room};
pub(crate) use crate::transport::packet::server_endpoint::{
    LinkCounters, PACKETS_ROOM, Peer, ReceiveBuffers, Received, ServerEndpoint, UNKNOWN_AGE, is_single,
};

use crate::transport::packet::shared_endpoint::SharedEndpoints;
use crate::uri::Scheme;
use std::fmt::Display;
use std::io;
use stoop_exchange::Instant;

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
