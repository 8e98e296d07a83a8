//! An address at which a server is called by Sun RPC, from the moment when it is taken.

use crate::error::{ListenError, UriError};
use crate::offers::Offer;
use crate::onc::address::Transport;
use crate::onc::locate::netid;
use crate::onc::server::connections::Connections;
use crate::onc::server::datagrams::DatagramEndpoint;
use crate::onc::server::options::{ConnectionLimits, ReplyCacheLimits};
#[cfg(feature = "seal")]
use crate::onc::server::sealing::Sealing;
use crate::onc::server::streams::StreamEndpoint;
use crate::options::OwnOptions;
#[cfg(feature = "seal")]
use crate::security::Security;
use crate::serving::message_memory::MessageMemory;
use crate::serving::running::{Listener, RunningEndpoint, Setup, start};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use stoop_net::stream::{StreamAddress, StreamListener};
use stoop_net::udp::{ServerSocket, resolve};
use stoop_onc::rpcbind;

/// An address that is taken.
pub(crate) struct SunListener {
    uri: String,
    socket: Socket,
}

enum Socket {
    Datagrams(ServerSocket, ReplyCacheLimits),
    Stream(StreamListener, ConnectionLimits),
    /// Calls come under TLS only, with the keys in this security.
    #[cfg(feature = "seal")]
    Sealed(StreamListener, ConnectionLimits, Security),
}

/// How rpcbind is told of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) netid: &'static str,
    pub(crate) address: String,
}

/// Takes `onc+udp://HOST[:PORT]`, `onc+tcp://HOST[:PORT]` or `onc+unix:PATH` apart.
fn parse(uri: &str) -> Option<(Transport, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let transports = [Transport::Udp, Transport::Tcp, Transport::Unix];
    let transport = transports.into_iter().find(|known| known.scheme() == scheme)?;
    let place = match transport {
        Transport::Unix => rest,
        _ => rest.strip_prefix("//").map(|place| place.strip_suffix('/').unwrap_or(place))?,
    };
    (!place.is_empty()).then_some((transport, place))
}

/// The first address of a host, with any free port unless one is given.
fn internet(place: &str) -> io::Result<SocketAddr> {
    let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let found = if has_port { resolve(place) } else { resolve(&format!("{place}:0")) };
    found?.into_iter().next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

impl SunListener {
    /// Takes the address.
    ///
    /// # Errors
    /// The text is no address, or it cannot be listened at.
    pub(crate) fn bind(uri: &str, own: &OwnOptions) -> Result<Self, ListenError> {
        let Some((transport, place)) = parse(uri) else {
            let why = "write onc+udp://HOST:PORT, onc+tcp://HOST:PORT or onc+unix:PATH; the port may be left out, \
                       and the program is not named here";
            return Err(ListenError::Uri(UriError { uri: uri.into(), why: why.into() }));
        };
        let bound = match transport {
            Transport::Udp => Self::datagrams(place, own),
            Transport::Tcp => internet(place).and_then(|at| Self::tcp(&StreamAddress::Tcp(at), own)),
            Transport::Unix => Self::stream(&StreamAddress::unix(place), own),
        };
        bound.map_err(|cause| ListenError::Io { uri: uri.into(), cause })
    }

    fn datagrams(place: &str, own: &OwnOptions) -> io::Result<Self> {
        #[cfg(feature = "seal")]
        if own.of::<Security>().keys().is_some() {
            let why = "Sun RPC is sealed over TCP only: listen at onc+tcp://, or say Security::none() for this address";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let socket = ServerSocket::bind(internet(place)?)?;
        Ok(Self { uri: format!("onc+udp://{}", local(&socket)), socket: Socket::Datagrams(socket, own.of()) })
    }

    fn tcp(address: &StreamAddress, own: &OwnOptions) -> io::Result<Self> {
        #[cfg(feature = "seal")]
        {
            let security: Security = own.of();
            if security.keys().is_some() {
                let listener = StreamListener::bind(address)?;
                let uri = security.address_of(format!("onc+{}", listener.local_addr()))?;
                return Ok(Self { uri, socket: Socket::Sealed(listener, own.of(), security) });
            }
        }
        Self::stream(address, own)
    }

    fn stream(address: &StreamAddress, own: &OwnOptions) -> io::Result<Self> {
        let listener = StreamListener::bind(address)?;
        Ok(Self { uri: format!("onc+{}", listener.local_addr()), socket: Socket::Stream(listener, own.of()) })
    }

    /// How rpcbind is told of it; `None` for an abstract name, which has no form there.
    pub(crate) fn registered(&self) -> Option<Registered> {
        let of_ip = |transport, address| Registered {
            netid: netid(transport, address),
            address: rpcbind::universal(address),
        };
        match &self.socket {
            Socket::Datagrams(socket, _) => Some(of_ip(Transport::Udp, local(socket))),
            Socket::Stream(listener, _) => registered_stream(listener, of_ip),
            #[cfg(feature = "seal")]
            Socket::Sealed(listener, ..) => registered_stream(listener, of_ip),
        }
    }
}

/// How rpcbind is told of a listener.
fn registered_stream(
    listener: &StreamListener,
    of_ip: impl Fn(Transport, SocketAddr) -> Registered,
) -> Option<Registered> {
    match listener.local_addr() {
        StreamAddress::Tcp(address) => Some(of_ip(Transport::Tcp, *address)),
        StreamAddress::UnixPath(path) => {
            Some(Registered { netid: "local", address: path.to_str()?.to_owned() })
        }
        StreamAddress::UnixAbstract(_) => None,
    }
}

/// Bytes for the arguments of calls, and as many for results, unless set. Fewer than elsewhere: callers wait for nothing and are not
/// refused, so that their host has its share at once.
const MESSAGE_BYTES: usize = 256 << 20;

/// The endpoint of a listener.
fn endpoint(
    listener: StreamListener,
    (limits, requires_tls): (ConnectionLimits, bool),
    setup: &Setup,
) -> io::Result<StreamEndpoint> {
    let limits = limits.within(setup);
    let memory = MessageMemory::with_default(MESSAGE_BYTES, &setup.limits, limits.record_max);
    Ok(StreamEndpoint::new(Connections::new(listener, (limits, requires_tls), memory)?, setup))
}

impl Listener for SunListener {
    fn uri(&self) -> &str {
        &self.uri
    }

    /// Clients of Stoop's own protocol have no use for it.
    fn offer(&self) -> Option<Offer> {
        None
    }

    fn start(self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        match self.socket {
            Socket::Datagrams(socket, limits) => start(DatagramEndpoint::new(socket, setup, limits)?, setup),
            Socket::Stream(listener, limits) => start(endpoint(listener, (limits, false), setup)?, setup),
            #[cfg(feature = "seal")]
            Socket::Sealed(listener, limits, security) => {
                let endpoint = endpoint(listener, (limits, true), setup)?;
                start(endpoint.sealed_by(Sealing::new(&security)), setup)
            }
        }
    }
}

impl ConnectionLimits {
    /// With those of the server that are narrower.
    fn within(self, setup: &Setup) -> Self {
        let connections_max = setup.limits.bindings.unwrap_or(usize::MAX).min(self.connections_max);
        Self { connections_max, record_max: self.record_max.min(setup.max_message), ..self }
    }
}

/// The address of a bound socket.
fn local(socket: &ServerSocket) -> SocketAddr {
    socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_at_are_taken_apart() {
        assert_eq!(parse("onc+udp://127.0.0.1"), Some((Transport::Udp, "127.0.0.1")));
        assert_eq!(parse("onc+tcp://[::1]:2049/"), Some((Transport::Tcp, "[::1]:2049")));
        assert_eq!(parse("onc+unix:/run/a"), Some((Transport::Unix, "/run/a")));
        for wrong in ["udp://127.0.0.1", "onc+udp:127.0.0.1", "onc+udp://", "onc+unix:", "onc+sctp://h"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_program_in_the_address_is_refused_with_what_to_write() {
        let why = SunListener::bind("onc+udp:7", &OwnOptions::default()).err().expect("no address");
        assert!(why.to_string().contains("onc+udp://HOST:PORT"), "{why}");
    }
}
