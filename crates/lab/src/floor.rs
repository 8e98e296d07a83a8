//! The floor: the same bytes over the same mechanism with the same waiting and placement, and no protocol.
//!
//! Both ends are connected, each caller has a socket of its own, and a packet is sent and received by one system call each
//! (Peregrine's network penalty), or as many as go together where there are many. Where the server blocks, each caller also
//! has an echo thread of its own.

mod batch;
mod bulk;
mod connect;
pub(crate) mod echo;
mod endpoint;
pub(crate) mod figures;
mod frames;
mod line;
mod local;
pub(crate) mod penalty;
mod pipe;
mod ring;
mod segment;
mod signal;
mod terms;
mod waits;

use crate::args::{Transport, name_of};
use crate::callers::Calls;
use crate::child::Child;
use crate::network::Network;
use crate::placement::Sides;
use crate::plan::Cell;
use batch::Batch;
use bulk::Bulk;
pub(crate) use bulk::{RECORD, SMALL};
use connect::Socket;
use endpoint::{Calling, Endpoint};
use frames::{FrameEnd, Turns};
use line::Line;
use pipe::{Datagrams, Patience, Pipe, Stream};
use ring::Rings;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoop_net::udp::CallerSocket;
pub(crate) use terms::LOST;
use terms::{PACKET_LEN, Serve, Terms};

impl Terms {
    /// The caller's end, on a connected socket.
    fn caller(&self, socket: Socket, limit: Duration) -> io::Result<Box<dyn Calls>> {
        let (call, result) = self.packet_lens();
        let wait = self.waits.caller;
        let patience = Patience::new(wait, Some(limit));
        Ok(match (socket, self.bulk) {
            (Socket::Memory(memory), _) if self.one_by_one() => {
                Box::new(Calling(Line::of_caller(&memory, self)?))
            }
            (Socket::Memory(memory), true) => Box::new(self.bulk(Rings::of_caller(&memory, self)?)),
            (Socket::Memory(memory), false) => Box::new(self.batch(Rings::of_caller(&memory, self)?)),
            (Socket::Frames(frames), _) if self.one_by_one() => {
                Box::new(Calling(FrameEnd::new(*frames, patience, call)))
            }
            (Socket::Frames(frames), true) => {
                Box::new(self.bulk(Datagrams::new(*frames, PACKET_LEN, self.window, patience)?))
            }
            (Socket::Frames(frames), false) => {
                Box::new(self.batch(Datagrams::new(*frames, call, usize::MAX, patience)?))
            }
            (socket, _) if self.one_by_one() => {
                let fd = socket.into_fd()?;
                Box::new(Calling(Endpoint::new(fd, self.transport, wait.flags(), call, result)))
            }
            (Socket::Datagram(socket), true) => {
                Box::new(self.bulk(self.datagrams(socket, PACKET_LEN, self.window, patience)?))
            }
            (Socket::Datagram(socket), false) => {
                Box::new(self.batch(self.datagrams(socket, call, usize::MAX, patience)?))
            }
            (Socket::Stream(socket), true) => Box::new(self.bulk(Stream::new(socket, patience)?)),
            (Socket::Stream(socket), false) => Box::new(self.batch(Stream::new(socket, patience)?)),
        })
    }

    /// The ends of several callers on one endpoint.
    fn callers_in_turn(
        &self,
        socket: Socket,
        number: usize,
        limit: Duration,
    ) -> io::Result<Vec<Box<dyn Calls>>> {
        let (call, _) = self.packet_lens();
        let Socket::Frames(frames) = socket else { return Err(io::Error::other("each caller has a socket")) };
        if !self.one_by_one() {
            return Err(io::Error::other("an interface has one endpoint on AF_XDP: measure one caller"));
        }
        let end = FrameEnd::new(*frames, Patience::new(self.waits.caller, Some(limit)), call);
        let end = Arc::new(Mutex::new(end));
        Ok((0..number).map(|_| Box::new(Turns(Arc::clone(&end))) as Box<dyn Calls>).collect())
    }

    /// The other end.
    fn server(&self, socket: Socket) -> io::Result<Box<dyn Serve>> {
        let (_, result) = self.packet_lens();
        let patience = Patience::new(self.waits.server, None);
        Ok(match (socket, self.bulk) {
            (Socket::Memory(memory), true) => Box::new(self.bulk(Rings::of_server(&memory, self)?)),
            (Socket::Memory(memory), false) => Box::new(self.batch(Rings::of_server(&memory, self)?)),
            (Socket::Frames(frames), true) => {
                Box::new(self.bulk(Datagrams::new(*frames, PACKET_LEN, self.window, patience)?))
            }
            (Socket::Frames(frames), false) => {
                Box::new(self.batch(Datagrams::new(*frames, result, usize::MAX, patience)?))
            }
            (Socket::Datagram(socket), true) => {
                Box::new(self.bulk(self.datagrams(socket, PACKET_LEN, self.window, patience)?))
            }
            (Socket::Datagram(socket), false) => {
                Box::new(self.batch(self.datagrams(socket, result, usize::MAX, patience)?))
            }
            (Socket::Stream(socket), true) => Box::new(self.bulk(Stream::new(socket, patience)?)),
            (Socket::Stream(socket), false) => Box::new(self.batch(Stream::new(socket, patience)?)),
        })
    }

    fn datagrams(
        &self,
        socket: CallerSocket,
        segment: usize,
        window: usize,
        patience: Patience,
    ) -> io::Result<Datagrams<CallerSocket>> {
        connect::make_room(&socket, self.window.max(usize::from(self.in_flight) * segment))?;
        Datagrams::new(socket, segment, window, patience)
    }

    fn bulk<P: Pipe>(&self, pipe: P) -> Bulk<P> {
        Bulk::new(pipe, self.message_lens(), self.records)
    }

    fn batch<P: Pipe>(&self, pipe: P) -> Batch<P> {
        Batch::new(pipe, self.packet_lens(), self.in_flight)
    }
}

/// After this much silence, what is waited for is lost. A slow link is silent while its queue is full.
fn lost_after(cell: &Cell) -> Duration {
    Duration::from_millis(if cell.link_rate.is_some() { 3000 } else { 300 })
}

/// The floor beside one cell.
#[derive(Debug)]
pub(crate) struct Floor {
    /// Without one for `local:`.
    echo: Option<Child>,
    /// One for each caller.
    pub(crate) callers: Vec<Box<dyn Calls>>,
}

impl Floor {
    /// Connects a bare exchange for each caller of `cell`. The echo process runs from now on.
    pub(crate) fn open(cell: &Cell, sides: Sides, network: &Network, path: &Path) -> io::Result<Self> {
        let number = usize::from(cell.callers);
        if cell.transport == Transport::Local {
            let callers = (0..number).map(|_| local::through_vtable(cell)).collect();
            return Ok(Floor { echo: None, callers });
        }
        let terms = Terms::of_cell(cell, connect::window(network)?);
        let mut echo =
            Child::start("echo process", &echo_arguments(cell, terms, sides, network, path), network)?;
        let ports = parse_ports(&echo.expect("listening")?)?;
        let (sockets, own_ports) = connect::to_echo(cell, &terms, network, path, &ports)?;
        echo.tell(&join_ports(&own_ports))?;
        echo.expect("ready")?;
        let limit = lost_after(cell);
        let callers = match <[Socket; 1]>::try_from(sockets) {
            Ok([socket]) if number > 1 => terms.callers_in_turn(socket, number, limit)?,
            Ok([socket]) => vec![terms.caller(socket, limit)?],
            Err(sockets) => {
                sockets.into_iter().map(|socket| terms.caller(socket, limit)).collect::<io::Result<_>>()?
            }
        };
        Ok(Floor { callers, echo: Some(echo) })
    }

    /// Its process, if it has one.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.echo.as_ref().map(Child::id)
    }

    /// Closes both ends.
    pub(crate) fn close(&mut self) {
        self.callers.clear();
        self.echo = None;
    }

    pub(crate) fn stop(&mut self) -> io::Result<()> {
        self.echo.as_mut().map_or(Ok(()), Child::stop)
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.echo.as_mut().map_or(Ok(()), Child::resume)
    }
}

fn echo_arguments(cell: &Cell, terms: Terms, sides: Sides, network: &Network, path: &Path) -> Vec<String> {
    let mut arguments = vec![
        "bench-echo".into(),
        format!("--transport={}", name_of(cell.transport)),
        format!("--waiting={}", name_of(terms.waits.server.waiting())),
        format!("--caller-waiting={}", name_of(terms.waits.caller.waiting())),
        format!("--cpu={}", sides.server),
        format!("--address={}", network.server),
        format!("--path={}", path.display()),
        format!("--caller-address={}", network.caller),
        format!("--callers={}", cell.callers),
        format!("--procedure={}", name_of(cell.procedure)),
        format!("--bytes={}", cell.bytes),
        format!("--in-flight={}", cell.in_flight),
        format!("--window={}", terms.window),
    ];
    arguments.extend(terms.records.then(|| "--records".into()));
    arguments
}

fn join_ports(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
}

fn parse_ports(words: &str) -> io::Result<Vec<u16>> {
    words.split_whitespace().map(|word| word.parse().map_err(io::Error::other)).collect()
}
