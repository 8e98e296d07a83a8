//! The transport that `udp:` addresses name: the packet exchange over UDP.

use crate::calling::handshake::NotBound;
use crate::serving::running::{Listener, RunningEndpoint, Setup, start};
use crate::transport::contract::{Place, Target, Transport};
use crate::transport::packet::begun::PacketBegun;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::server::DatagramEndpoint;
use crate::transport::udp::UdpLink;
use crate::uri::{Scheme, host_and_port};
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::server::Limits;
use stoop_net::udp::{ServerSocket, resolve};
use stoop_wire::{HEADER_LEN, PACKET_DATA};

/// `udp:`
pub(crate) struct UdpTransport;

/// A socket at an address.
struct UdpListener {
    uri: String,
    socket: ServerSocket,
    own: PacketOptions,
}

/// Bytes of waiting datagrams that a UDP address asks for.
const RECEIVE_BUFFER: usize = 4 << 20;

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
        let socket = ServerSocket::bind(resolve(place.address)?[0])?;
        // A burst of small calls must not be lost in the socket; where the system grants less, so be it.
        let _ = socket.set_receive_buffer(RECEIVE_BUFFER);
        let uri = format!("udp://{}", socket.local_addr()?);
        Ok(Box::new(UdpListener { uri, socket, own: place.own.of() }))
    }
}

impl Listener for UdpListener {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn start(self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        // Packets have 32 bits for the length of a message; `Server::max_message` promises one packet at least.
        let max_message = (setup.max_message as u32).max(PACKET_DATA as u32);
        // There is room for one of them at least.
        let most = max_message as usize + 2 * HEADER_LEN;
        let limits = Limits { silence: self.own.server_silence_limit(), ..Limits::default() };
        let (incomplete, retained) = (limits.incomplete.max(most), limits.retained.max(most));
        let limits = Limits { max_message, incomplete, retained, ..limits };
        start(DatagramEndpoint::new(self.socket, Arc::clone(&setup.exports), limits, setup.waiting), setup)
    }
}
