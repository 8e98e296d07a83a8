//! The packet link of Ethernet: packets directly in frames, without IP and UDP (Peregrine §3.4).
//!
//! `ether://INTERFACE/MAC:PORT` leads to the server at that hardware address, and `ether://INTERFACE/NAME` to the one that listens under
//! that name; `INTERFACE` is the caller's own. A server listens at `ether://INTERFACE/:PORT` or under a name. [`stoop_ether`] has the
//! frames, the names, and the two mechanisms of the kernel.

mod address;
mod caller;
mod lookup;
mod opening;
mod room;
mod server;
mod whereabouts;

use crate::transport::ether::address::{EtherAddress, parse};
use crate::transport::ether::caller::EtherCaller;
use crate::transport::ether::server::EtherServer;
use crate::transport::packet::link::{PacketLink, Share};
use crate::transport::packet::shared_endpoint::SharedEndpoints;
use crate::uri::Scheme;
use std::io;
use std::net::ToSocketAddrs;
use stoop_ether::Interface;
use stoop_ether::frame::Checksum;
use stoop_exchange::Instant;
use stoop_wire::bind::UNCHECKED_FRAMES;

/// Packets in Ethernet frames.
pub(crate) struct EtherLink;

impl PacketLink for EtherLink {
    const SCHEMES: &'static [Scheme] = &[Scheme {
        name: "ether",
        forms: &["ether://INTERFACE/MAC:PORT", "ether://INTERFACE/:PORT", "ether://INTERFACE/NAME"],
        has_names: false,
        parse,
    }];
    const NAME: &'static str = "Ethernet";
    type Address = EtherAddress;
    type Caller = EtherCaller;
    type Server = EtherServer;

    fn shared_endpoints() -> &'static SharedEndpoints<EtherCaller> {
        static SHARED: SharedEndpoints<EtherCaller> = SharedEndpoints::new();
        &SHARED
    }

    fn resolve(text: &str, deadline: Instant) -> io::Result<Vec<EtherAddress>> {
        Ok(vec![lookup::resolve(text.parse()?, deadline)?])
    }

    fn place(text: &str) -> io::Result<EtherAddress> {
        text.parse()
    }

    fn other_offers(server: &EtherAddress) -> String {
        lookup::offers_here(server)
    }

    /// For a server that was reached by UDP and without a gateway, from another machine.
    fn nearer(offer: &str, reached: &str) -> Option<String> {
        let host = reached.strip_prefix("udp://")?.to_socket_addrs().ok()?.next()?.ip();
        let server: EtherAddress = offer.strip_prefix("ether://")?.parse().ok()?;
        let interface = Interface::on_link_with(host).ok()??;
        let is_other = server.mac != Some(interface.mac);
        is_other.then(|| format!("ether://{}", server.offered_at(&interface.name)))
    }

    fn connect(server: &EtherAddress, share: Share) -> io::Result<EtherCaller> {
        EtherCaller::connect(server, share)
    }

    /// Frames without a checksum need the consent of both ends.
    fn required_flags(server: &EtherAddress) -> u32 {
        match server.checksum {
            Checksum::Computed => 0,
            Checksum::Omitted => UNCHECKED_FRAMES,
        }
    }

    /// The frames that ask have checksums, because a server may drop others.
    fn connect_to_bind(server: &EtherAddress, share: Share) -> io::Result<EtherCaller> {
        EtherCaller::connect(&EtherAddress { checksum: Checksum::Computed, ..server.clone() }, share)
    }

    fn is_name(text: &str) -> bool {
        text.parse().is_ok_and(|address: EtherAddress| address.name.is_some())
    }

    fn redirect(endpoint: &EtherCaller, server: &EtherAddress) -> io::Result<()> {
        endpoint.redirect(server)
    }

    /// An interface has one endpoint on AF_XDP. Begun calls and the lane that comes first share it. A further lane is faster on a packet
    /// ring of its own: threads that share an endpoint wake each other with nearly every call.
    fn must_share(server: &EtherAddress, share: Share) -> bool {
        server.is_xdp() && (share == Share::ManyLanes || !Self::shared_endpoints().is_in_use(server))
    }

    fn listen(address: &EtherAddress) -> io::Result<EtherServer> {
        EtherServer::listen(address)
    }

    fn uri(server: &EtherServer) -> io::Result<String> {
        Ok(format!("ether://{}", server.address()))
    }
}
