//! The packet link of Ethernet: packets directly in frames, without IP and UDP (Peregrine §3.4).
//!
//! `ether://INTERFACE/MAC:PORT` leads to the server at that hardware address; `INTERFACE` is the caller's own. A server listens at
//! `ether://INTERFACE/:PORT`. [`stoop_ether`] has the frames and the two mechanisms of the kernel.

mod address;
mod caller;
mod server;

use crate::transport::ether::address::{EtherAddress, parse};
use crate::transport::ether::caller::EtherCaller;
use crate::transport::ether::server::EtherServer;
use crate::transport::packet::link::{PacketLink, Share};
use crate::transport::packet::shared_endpoint::SharedEndpoints;
use crate::uri::Scheme;
use std::io;

/// Packets in Ethernet frames.
pub(crate) struct EtherLink;

impl PacketLink for EtherLink {
    const SCHEMES: &'static [Scheme] = &[Scheme {
        name: "ether",
        forms: &["ether://INTERFACE/MAC:PORT", "ether://INTERFACE/:PORT"],
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

    fn resolve(text: &str) -> io::Result<Vec<EtherAddress>> {
        Ok(vec![text.parse()?])
    }

    fn connect(server: &EtherAddress, share: Share) -> io::Result<EtherCaller> {
        EtherCaller::connect(server, share)
    }

    /// An interface has one endpoint on AF_XDP.
    fn must_share(server: &EtherAddress) -> bool {
        server.is_xdp()
    }

    fn listen(address: &EtherAddress) -> io::Result<EtherServer> {
        EtherServer::listen(address)
    }

    fn uri(server: &EtherServer) -> io::Result<String> {
        Ok(format!("ether://{}", server.address()))
    }
}
