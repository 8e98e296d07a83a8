//! A caller over UDP, TCP or a Unix socket: the simplest driver of `Calls` and `Records`.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant as Clock};
use stoop_onc::auth::Auth;
use stoop_onc::calls::{Calls, Timeout};
use stoop_onc::message::{self, Accepted, Call, Denied, ProcedureId, Reply, ReplyBody};
use stoop_onc::record::{RecordLimits, Records};
use stoop_onc::{Instant, Retransmission, Xid, Xids};
use stoop_xdr::{Decode, Encode};

/// How long the whole call may take.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    link: Link,
    calls: Calls<Vec<u8>>,
    clock: Clock,
    pub(crate) credential: Auth<'static>,
}

enum Link {
    /// Without a server, the socket is connected.
    Datagrams(UdpSocket, Option<SocketAddr>),
    Stream {
        stream: Box<dyn Stream>,
        records: Records,
        arrived: VecDeque<Vec<u8>>,
    },
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn send(socket: &UdpSocket, server: Option<SocketAddr>, message: &[u8]) {
    let sent = match server {
        Some(server) => socket.send_to(message, server),
        None => socket.send(message),
    };
    assert_eq!(sent.expect("it is sent"), message.len());
}

/// A reply, whole.
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// The results of a success.
    pub(crate) fn results<'a, T: Decode<'a>>(&'a self) -> T {
        let (reply, mut results) = Reply::parse(&self.0).expect("it is a reply");
        assert!(
            matches!(reply.body, ReplyBody::Accepted { status: Accepted::Success, .. }),
            "a success: {reply:?}"
        );
        let value = results.value().expect("they are such results");
        results.finish().expect("nothing follows");
        value
    }

    /// The outcome of a call that was accepted.
    pub(crate) fn accepted(&self) -> Accepted {
        match Reply::parse(&self.0).expect("it is a reply").0.body {
            ReplyBody::Accepted { status, .. } => status,
            ReplyBody::Denied(denied) => panic!("denied: {denied}"),
        }
    }

    /// Why a call was denied.
    pub(crate) fn denied(&self) -> Denied {
        match Reply::parse(&self.0).expect("it is a reply").0.body {
            ReplyBody::Accepted { status, .. } => panic!("accepted: {status}"),
            ReplyBody::Denied(denied) => denied,
        }
    }
}

impl Client {
    pub(crate) fn udp(server: SocketAddr) -> Self {
        let any: SocketAddr =
            if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().expect("an address");
        let socket = UdpSocket::bind(any).expect("there is a free port");
        socket.connect(server).expect("there is a way");
        Self::new(Link::Datagrams(socket, None), Retransmission::Measured)
    }

    /// Takes replies from any address.
    pub(crate) fn unconnected(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("there is a free port");
        Self::new(Link::Datagrams(socket, Some(server)), Retransmission::Measured)
    }

    pub(crate) fn tcp(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("the server listens");
        stream.set_nodelay(true).expect("a socket has this option");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket has this option");
        Self::stream(stream)
    }

    pub(crate) fn unix(path: &str) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket has this option");
        Self::stream(stream)
    }

    fn stream(stream: impl Stream + 'static) -> Self {
        let records = Records::new(RecordLimits::default());
        Self::new(
            Link::Stream { stream: Box::new(stream), records, arrived: VecDeque::new() },
            Retransmission::Never,
        )
    }

    fn new(link: Link, retransmission: Retransmission) -> Self {
        let key = (std::process::id() as u128).to_be_bytes();
        Self {
            link,
            calls: Calls::new(retransmission, Xids::new(key)),
            clock: Clock::now(),
            credential: Auth::NONE,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64)
    }

    /// Sends a call, and goes on.
    pub(crate) fn begin<A: Encode + ?Sized>(&mut self, procedure: ProcedureId, arguments: &A) -> Xid {
        let now = self.now();
        let (credential, verifier) = (self.credential, Auth::NONE);
        let is_stream = matches!(self.link, Link::Stream { .. });
        let (xid, message) = self.calls.begin(now, now + DEADLINE, |xid| {
            let (call, mut bytes) = (Call { xid, procedure, credential, verifier }, Vec::new());
            if is_stream {
                message::append_record(&call, arguments, &mut bytes).expect("the arguments have a form");
            } else {
                message::append(&call, arguments, &mut bytes).expect("the arguments have a form");
            }
            bytes
        });
        match &mut self.link {
            Link::Datagrams(socket, server) => send(socket, *server, message),
            Link::Stream { stream, .. } => stream.write_all(message).expect("it is sent"),
        }
        xid
    }

    /// Waits for the reply to any outstanding call.
    pub(crate) fn receive(&mut self) -> (Xid, Answer) {
        loop {
            let message = self.next_message();
            let now = self.now();
            if let Some(message) = message
                && let Some(xid) = Xid::of(&message)
                && self.calls.complete(now, xid).is_some()
            {
                return (xid, Answer(message));
            }
            while let Some(timeout) = self.calls.handle_timeout(now) {
                let Timeout::Retransmit { data, .. } = timeout else { panic!("no reply in time") };
                let Link::Datagrams(socket, server) = &self.link else { panic!("no reply in time") };
                send(socket, *server, data);
            }
        }
    }

    /// The next message that arrives before the next timeout.
    fn next_message(&mut self) -> Option<Vec<u8>> {
        let now = self.now();
        let mut buffer = vec![0; 1 << 16];
        match &mut self.link {
            Link::Datagrams(socket, _) => {
                let timeout = self.calls.next_timeout().expect("a call is outstanding").since(now);
                socket
                    .set_read_timeout(Some(timeout.max(Duration::from_millis(1))))
                    .expect("it has this option");
                socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())
            }
            Link::Stream { stream, records, arrived } => {
                while arrived.is_empty() {
                    let len = stream.read(&mut buffer).expect("it comes in time");
                    assert!(len > 0, "the server has closed the connection");
                    let mut input = &buffer[..len];
                    while let Some(record) = records.next(&mut input).expect("the server keeps the protocol")
                    {
                        arrived.push_back(record.to_vec());
                    }
                }
                arrived.pop_front()
            }
        }
    }

    /// A blocking call.
    pub(crate) fn call<A: Encode + ?Sized>(&mut self, procedure: ProcedureId, arguments: &A) -> Answer {
        let xid = self.begin(procedure, arguments);
        let (answered, answer) = self.receive();
        assert_eq!(answered, xid);
        answer
    }
}
