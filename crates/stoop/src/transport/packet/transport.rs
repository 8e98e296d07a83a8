//! The packet exchange over a link, as a transport of the list.

use crate::calling::handshake::NotBound;
use crate::serving::running::Listener;
use crate::transport::contract::{ListenAddress, Target, Transport};
use crate::transport::packet::begun::PacketBegun;
use crate::transport::packet::caller::PacketBinding;
pub(crate) use crate::transport::packet::caller::PacketTransport;
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::server::listener::PacketListener;
use crate::uri::Scheme;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;

impl<L: PacketLink> Transport for PacketTransport<L> {
    const SCHEMES: &'static [Scheme] = L::SCHEMES;
    const CARRIES_PIPES: bool = true;

    type Binding = PacketBinding<L>;
    type Begun = PacketBegun<L>;

    fn bind(target: &Target<'_>, deadline: Instant) -> Result<PacketBinding<L>, NotBound> {
        PacketBinding::bind(target, deadline)
    }

    fn nearer(offer: &str, reached: &str) -> Option<String> {
        L::nearer(offer, reached)
    }

    fn begun_calls(binding: &Arc<PacketBinding<L>>) -> io::Result<PacketBegun<L>> {
        PacketBegun::new(binding)
    }

    fn listen(at: &ListenAddress<'_>) -> io::Result<Box<dyn Listener>> {
        let link = L::listen(&L::place(at.address)?)?;
        Ok(Box::new(PacketListener::new(L::uri(&link)?, link, at.own.of()).secured(at.own.of())?))
    }
}
