//! The packet link of UDP.

mod caller;
mod dedicated;
mod peer;
mod server;
pub(crate) mod transport;
mod worker;

use crate::transport::packet::link::{Endpoints, PacketLink, Share};
use crate::transport::udp::caller::UdpCaller;
use crate::transport::udp::server::UdpServer;
use std::io;
use std::net::SocketAddr;
use stoop_net::udp;

/// Packets in datagrams of UDP.
pub(crate) struct UdpLink;

impl PacketLink for UdpLink {
    const NAME: &'static str = "UDP";
    const ENDPOINTS: Endpoints = Endpoints::OnePerLane;
    type Address = SocketAddr;
    type Caller = UdpCaller;
    type Server = UdpServer;

    fn resolve(text: &str) -> io::Result<Vec<SocketAddr>> {
        udp::resolve(text)
    }

    fn connect(server: &SocketAddr, share: Share) -> io::Result<UdpCaller> {
        UdpCaller::connect(*server, share)
    }

    fn listen(address: &SocketAddr) -> io::Result<UdpServer> {
        UdpServer::listen(*address)
    }
}
