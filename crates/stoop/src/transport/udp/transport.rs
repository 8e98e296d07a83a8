//! The transport that `udp:` addresses name: the packet exchange over UDP.

use crate::calling::handshake::NotBound;
use crate::serving::running::Listener;
use crate::transport::contract::{Place, Target, Transport};
use crate::transport::packet::begun::PacketBegun;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::server::listener::PacketListener;
use crate::transport::udp::UdpLink;
use crate::uri::{Scheme, host_and_port};
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;

/// `udp:`
pub(crate) struct UdpTransport;

impl Transport for UdpTransport {
    const SCHEMES: &'static [Scheme] =
        &[Scheme { name: "udp", forms: &["udp://HOST:PORT"], has_names: false, parse: host_and_port }];

    type Binding = PacketBinding<UdpLink>;
    type Begun = PacketBegun<UdpLink>;

    fn bind(target: &Target<'_>, deadline: Instant) -> Result<PacketBinding<UdpLink>, NotBound> {
        Ok(PacketBinding::bind(target, deadline)?)
    }

    fn begun_calls(binding: &Arc<PacketBinding<UdpLink>>) -> io::Result<PacketBegun<UdpLink>> {
        PacketBegun::new(binding)
    }

    fn listen(place: &Place<'_>) -> io::Result<Box<dyn Listener>> {
        let link = UdpLink::listen(&UdpLink::resolve(place.address)?[0])?;
        Ok(Box::new(PacketListener::new("udp://", link, place.own.of())?))
    }
}
