//! The link that carries the messages of a connection: datagrams, or a byte stream with record marks.

use crate::onc::caller::not_connected::NotConnected;
use crate::onc::caller::sealing::Sealing;
use crate::onc::channel::Channel;
use crate::onc::options::ClientOptions;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use stoop_net::clock;
use stoop_net::packets::{CallerArrival, Sending};
use stoop_net::poller::{Interest, Poller};
use stoop_net::stream::{Stream, StreamAddress, StreamArrival};
use stoop_net::udp::CallerSocket;
use stoop_onc::record::{RecordLimits, Records};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a UDP port.
    Datagrams(SocketAddr),
    /// At a TCP port or a Unix socket.
    Stream(StreamAddress),
}

/// As an address without a program.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Datagrams(server) => write!(f, "onc+udp://{server}"),
            Self::Stream(server) => write!(f, "onc+{server}"),
        }
    }
}

/// A connected socket.
pub(crate) enum Link {
    Datagrams(CallerSocket),
    Stream(Channel),
}

/// Bytes that were received from a link and not yet passed on.
pub(crate) struct Incoming {
    records: Records,
    buffer: Vec<u8>,
}

/// Bytes received at once: the longest datagram, and much of a stream.
const BUFFER: usize = 64 << 10;

/// The outcome of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// This many bytes.
    Bytes(usize),
    /// Nothing, within the time.
    Nothing,
    /// The port of a server of datagrams is closed.
    Refused,
}

impl Incoming {
    pub(crate) fn new(message_max: usize) -> Self {
        let limits = RecordLimits { record_max: message_max, ..RecordLimits::default() };
        Self { records: Records::new(limits), buffer: vec![0; BUFFER] }
    }

    /// Passes each message in the `len` bytes that were received to `with`.
    ///
    /// # Errors
    /// The server broke the protocol or a limit.
    pub(crate) fn messages(
        &mut self,
        link: &Link,
        len: usize,
        mut with: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut input = &self.buffer[..len];
        if matches!(link, Link::Datagrams(_)) {
            with(input);
            return Ok(());
        }
        while let Some(message) = self.records.next(&mut input).map_err(broken)? {
            with(message);
        }
        Ok(())
    }
}

#[cold]
fn broken(why: stoop_onc::record::RecordError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// There is no server, or it does not accept within `limit`; no descriptor is left; or there is no reserved port.
    pub(crate) fn connect(place: &Place, options: &ClientOptions, limit: Duration) -> io::Result<Self> {
        Ok(match place {
            Place::Datagrams(server) if options.reserved_port => {
                Self::Datagrams(CallerSocket::connect_reserved(*server)?)
            }
            Place::Datagrams(server) => Self::Datagrams(CallerSocket::connect(*server)?),
            Place::Stream(server) => Self::Stream(Channel::new(stream_to(server, options, limit)?)),
        })
    }

    /// Connects, and puts the connection under TLS.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); or the server has no TLS, or one of the two ends does not take the other.
    pub(crate) fn connect_sealed(
        server: &StreamAddress,
        options: &ClientOptions,
        limit: Duration,
        sealing: &Sealing,
    ) -> Result<Self, NotConnected> {
        let begun_ns = clock::now_ns();
        let stream = stream_to(server, options, limit)?;
        let used = Duration::from_nanos(clock::now_ns() - begun_ns);
        sealing.seal(stream, limit.saturating_sub(used)).map(Self::Stream)
    }

    /// Whether messages are records of a stream.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Has `poller` tell when something arrives.
    pub(crate) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        match self {
            Self::Datagrams(socket) => poller.add(socket, token, Interest::READ),
            Self::Stream(stream) => poller.add(stream, token, Interest::READ),
        }
    }

    /// Sends all of `bytes` by that time. Returns how many left: fewer only if the stream cannot go on, or took no more in time.
    ///
    /// # Errors
    /// Nothing was sent.
    pub(crate) fn send(&self, bytes: &[u8], deadline_ns: u64) -> io::Result<usize> {
        match self {
            Self::Datagrams(socket) => send_datagram(socket, bytes),
            Self::Stream(stream) => stream.send_until(bytes, deadline_ns),
        }
    }

    /// Receives, for that long at most.
    ///
    /// # Errors
    /// The stream has ended.
    #[inline]
    pub(crate) fn receive(&self, incoming: &mut Incoming, limit_ns: u64) -> io::Result<Arrival> {
        match self {
            Self::Datagrams(socket) => {
                Ok(match socket.recv_about(&mut incoming.buffer, limit_ns, limit_ns) {
                    Ok(CallerArrival::Datagram(len)) => Arrival::Bytes(len),
                    Ok(CallerArrival::Refused) => Arrival::Refused,
                    // An ICMP error for an earlier packet: only the deadline ends a call.
                    Ok(CallerArrival::TooLarge(_) | CallerArrival::Nothing) | Err(_) => Arrival::Nothing,
                })
            }
            Self::Stream(stream) => match stream.recv_about(&mut incoming.buffer, limit_ns, limit_ns)? {
                StreamArrival::Bytes(len) => Ok(Arrival::Bytes(len)),
                StreamArrival::Nothing => Ok(Arrival::Nothing),
                StreamArrival::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }

    /// Ends a stream: threads that wait there return.
    pub(crate) fn shut_down(&self) {
        if let Self::Stream(stream) = self {
            let _ = stream.shutdown();
        }
    }

    /// Whether the server has closed a stream on which nothing is expected, or has sent something there.
    pub(crate) fn is_readable(&self) -> bool {
        match self {
            Self::Datagrams(_) => false,
            Self::Stream(stream) => stream.sleep_until_readable(0).unwrap_or(true),
        }
    }
}

fn stream_to(server: &StreamAddress, options: &ClientOptions, limit: Duration) -> io::Result<Stream> {
    match options.reserved_port {
        true => Stream::connect_reserved(server, limit),
        false => Stream::connect(server, limit),
    }
}

fn send_datagram(socket: &CallerSocket, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match socket.send(bytes)? {
            Sending::Sent => return Ok(bytes.len()),
            // News of an earlier datagram, told once.
            Sending::Refused => {}
        }
    }
}
