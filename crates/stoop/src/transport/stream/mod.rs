//! Byte streams: TCP and Unix sockets.

pub(crate) mod address;
pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod channel;
pub(crate) mod options;
pub(crate) mod pipes;
pub(crate) mod server;

use crate::calling::handshake::NotBound;
use crate::security::Security;
use crate::serving::running::{Listener, RunningEndpoint, Setup, start};
use crate::transport::contract::{ListenAddress, Target, Transport};
use crate::transport::stream::address::{TCP, UNIX, addresses};
use crate::transport::stream::begun::StreamCalls;
use crate::transport::stream::caller::StreamBinding;
pub(crate) use crate::transport::stream::caller::StreamTransport;
use crate::transport::stream::options::UnixOptions;
use crate::transport::stream::server::StreamEndpoint;
use crate::uri::Scheme;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_net::stream::{StreamAddress, StreamListener};

/// A socket at an address.
struct SocketListener {
    uri: String,
    socket: StreamListener,
    own: UnixOptions,
    security: Security,
}

impl Transport for StreamTransport {
    const SCHEMES: &'static [Scheme] = &[TCP, UNIX];
    const CARRIES_PIPES: bool = true;

    type Binding = StreamBinding;
    type Begun = Arc<StreamCalls>;

    fn bind(target: &Target<'_>, deadline: Instant) -> Result<StreamBinding, NotBound> {
        StreamBinding::bind(target, deadline)
    }

    fn begun_calls(binding: &Arc<StreamBinding>) -> io::Result<Arc<StreamCalls>> {
        Ok(Arc::new(StreamCalls::new(binding)?))
    }

    fn listen(at: &ListenAddress<'_>) -> io::Result<Box<dyn Listener>> {
        let socket = StreamListener::bind(&addresses(at.scheme, at.address)?[0])?;
        let own = at.own.of();
        // Clients do not seal calls over Unix sockets: the kernel says who is at the other end.
        let security = match socket.local_addr() {
            StreamAddress::Tcp(_) => at.own.of(),
            _ => Security::none(),
        };
        let uri = security.address_of(socket.local_addr().to_string())?;
        Ok(Box::new(SocketListener { uri, socket, own, security }))
    }
}

impl Listener for SocketListener {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn is_reached_by_others(&self) -> bool {
        matches!(self.socket.local_addr(), StreamAddress::Tcp(at) if !at.ip().to_canonical().is_loopback())
    }

    fn start(self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        start(StreamEndpoint::new(self.socket, setup, (self.own.users, &self.security))?, setup)
    }
}
