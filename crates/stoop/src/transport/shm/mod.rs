//! Shared memory.

pub(crate) mod address;
pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod options;
pub(crate) mod pipes;
pub(crate) mod server;

use crate::calling::handshake::NotBound;
use crate::offers::Offer;
use crate::serving::running::{Listener, RunningEndpoint, Setup, start};
use crate::transport::contract::{ListenAddress, Target, Transport};
use crate::transport::shm::address::{SHM, socket_address};
use crate::transport::shm::begun::ShmCalls;
use crate::transport::shm::caller::ShmBinding;
pub(crate) use crate::transport::shm::caller::ShmTransport;
use crate::transport::shm::options::ShmOptions;
use crate::transport::shm::server::ShmEndpoint;
use crate::uri::Scheme;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_net::host;
use stoop_net::stream::StreamListener;

/// A socket at which callers bind.
struct ShmListener {
    uri: String,
    socket: StreamListener,
    /// Tells this server from others that have listened there.
    incarnation: u64,
    own: ShmOptions,
}

impl Transport for ShmTransport {
    const SCHEMES: &'static [Scheme] = &[SHM];
    const CARRIES_PIPES: bool = true;

    type Binding = ShmBinding;
    type Begun = ShmCalls;

    fn bind(target: &Target<'_>, deadline: Instant) -> Result<ShmBinding, NotBound> {
        ShmBinding::bind(target, deadline)
    }

    fn begun_calls(binding: &Arc<ShmBinding>) -> io::Result<ShmCalls> {
        ShmCalls::new(binding)
    }

    fn listen(at: &ListenAddress<'_>) -> io::Result<Box<dyn Listener>> {
        let socket = StreamListener::bind(&socket_address(at.address))?;
        let incarnation = u64::from_le_bytes(host::random_bytes());
        Ok(Box::new(ShmListener { uri: at.uri.into(), socket, incarnation, own: at.own.of() }))
    }
}

impl Listener for ShmListener {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn offer(&self) -> Option<Offer> {
        Some(Offer { incarnation: self.incarnation, ..Offer::to(&self.uri) })
    }

    fn start(self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        start(ShmEndpoint::new(self.socket, setup, self.own, self.incarnation)?, setup)
    }
}
