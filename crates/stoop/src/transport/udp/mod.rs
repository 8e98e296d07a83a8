//! The packet link of UDP.

mod caller;
mod dedicated;
mod peer;
mod room;
mod server;
mod stamps;
mod worker;

use crate::transport::packet::link::{PacketLink, Share};
use crate::transport::packet::shared_endpoint::SharedEndpoints;
use crate::transport::udp::caller::UdpCaller;
use crate::transport::udp::server::UdpServer;
use crate::uri::{Scheme, host_and_port};
use std::io;
use std::net::SocketAddr;
use stoop_exchange::Instant;
use stoop_net::udp;

/// Packets in datagrams of UDP.
pub(crate) struct UdpLink;

impl PacketLink for UdpLink {
    const SCHEMES: &'static [Scheme] =
        &[Scheme { name: "udp", forms: &["udp://HOST:PORT"], has_names: false, parse: host_and_port }];
    const NAME: &'static str = "UDP";
    type Address = SocketAddr;
    type Caller = UdpCaller;
    type Server = UdpServer;

    fn shared_endpoints() -> &'static SharedEndpoints<UdpCaller> {
        static SHARED: SharedEndpoints<UdpCaller> = SharedEndpoints::new();
        &SHARED
    }

    fn resolve(text: &str, _: Instant) -> io::Result<Vec<SocketAddr>> {
        udp::resolve(text)
    }

    fn is_name(text: &str) -> bool {
        udp::is_name(text)
    }

    fn redirect(endpoint: &UdpCaller, server: &SocketAddr) -> io::Result<()> {
        endpoint.redirect(*server)
    }

    fn connect(server: &SocketAddr, share: Share) -> io::Result<UdpCaller> {
        UdpCaller::connect(*server, share)
    }

    fn listen(address: &SocketAddr) -> io::Result<UdpServer> {
        UdpServer::listen(*address)
    }

    fn uri(server: &UdpServer) -> io::Result<String> {
        Ok(format!("udp://{}", server.address()?))
    }
}
