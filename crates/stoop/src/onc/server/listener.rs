//! A place at which a server listens, from the moment when it is taken.

use crate::onc::address::Transport;
use crate::onc::locate::netid;
use crate::onc::server::connections::Connections;
use crate::onc::server::datagrams::DatagramEndpoint;
use crate::onc::server::options::{ConnectionLimits, ReplyCacheLimits};
use crate::onc::server::programs::Programs;
use crate::onc::server::streams::StreamEndpoint;
use crate::serving::running::RunningEndpoint;
use crate::serving::workers::{Bounds, WorkerPool};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use stoop_net::stream::{StreamAddress, StreamListener};
use stoop_net::udp::{ServerSocket, resolve};
use stoop_net::waiting::Waiting;
use stoop_onc::rpcbind;

/// A socket that is bound.
pub(crate) enum Listener {
    Datagrams(ServerSocket),
    Stream(StreamListener),
}

/// What all places of a server have in common.
pub(crate) struct Setup {
    pub(crate) programs: Arc<Programs>,
    pub(crate) waiting: Waiting,
    pub(crate) bounds: Bounds,
    pub(crate) replies: ReplyCacheLimits,
    pub(crate) connections: ConnectionLimits,
}

/// How rpcbind is told of a place.
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
    let place = if transport == Transport::Unix { rest } else { rest.strip_prefix("//")? };
    (!place.is_empty()).then_some((transport, place))
}

impl Listener {
    /// Takes the place. `None`: the text is no address.
    ///
    /// # Errors
    /// It cannot be taken.
    pub(crate) fn bind(uri: &str) -> Option<io::Result<Self>> {
        let (transport, place) = parse(uri)?;
        let with_port = |place: &str| match place.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => place.to_owned(),
            _ => format!("{place}:0"),
        };
        Some(match transport {
            Transport::Udp => {
                resolve(&with_port(place)).and_then(|found| ServerSocket::bind(found[0])).map(Self::Datagrams)
            }
            Transport::Tcp => resolve(&with_port(place))
                .and_then(|found| StreamListener::bind(&StreamAddress::Tcp(found[0])))
                .map(Self::Stream),
            Transport::Unix => StreamListener::bind(&StreamAddress::unix(place)).map(Self::Stream),
        })
    }

    /// The address, with the port that was chosen.
    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Datagrams(socket) => format!("onc+udp://{}", local(socket)),
            Self::Stream(listener) => format!("onc+{}", listener.local_addr()),
        }
    }

    /// How rpcbind is told of it; `None` for an abstract name, which has no form there.
    pub(crate) fn registered(&self) -> Option<Registered> {
        let of_ip = |transport, address| Registered {
            netid: netid(transport, address),
            address: rpcbind::universal(address),
        };
        match self {
            Self::Datagrams(socket) => Some(of_ip(Transport::Udp, local(socket))),
            Self::Stream(listener) => match listener.local_addr() {
                StreamAddress::Tcp(address) => Some(of_ip(Transport::Tcp, *address)),
                StreamAddress::UnixPath(path) => {
                    Some(Registered { netid: "local", address: path.to_str()?.to_owned() })
                }
                StreamAddress::UnixAbstract(_) => None,
            },
        }
    }

    /// Starts to serve.
    ///
    /// # Errors
    /// The system gives no thread or no descriptor.
    pub(crate) fn start(self, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        let programs = Arc::clone(&setup.programs);
        Ok(match self {
            Self::Datagrams(socket) => {
                let endpoint = DatagramEndpoint::new(socket, programs, setup.waiting, setup.replies)?;
                Box::new(WorkerPool::start(endpoint, setup.bounds)?)
            }
            Self::Stream(listener) => {
                let connections = Connections::new(listener, setup.connections)?;
                let endpoint = StreamEndpoint::new(connections, programs, setup.waiting);
                Box::new(WorkerPool::start(endpoint, setup.bounds)?)
            }
        })
    }
}

/// The address of a bound socket.
fn local(socket: &ServerSocket) -> SocketAddr {
    socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into())
}
