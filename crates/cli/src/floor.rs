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
mod line;
mod local;
mod pipe;
mod ring;
mod segment;
mod turn;
mod waits;

use crate::args::{DATA_LEN, EchoArgs, Transport, name_of};
use crate::callers::Calls;
use crate::child::Child;
use crate::network::Network;
use crate::placement::Sides;
use crate::plan::Cell;
use batch::Batch;
use bulk::Bulk;
use connect::Socket;
use endpoint::{Calling, Endpoint};
use line::Line;
use pipe::{Datagrams, Patience, Pipe, Stream};
use ring::Rings;
use std::io;
use std::path::Path;
use std::time::Duration;
use stoop_net::udp::CallerSocket;
use waits::{Wait, Waits};

/// Bytes of the header that our packets carry and the floor's pretend to.
const HEADER_LEN: usize = 32;

/// What both ends of an exchange must know of it.
#[derive(Clone, Copy, Debug)]
struct Terms {
    transport: Transport,
    /// Of data in the call and in the result.
    data_lens: (usize, usize),
    bulk: bool,
    in_flight: u16,
    waits: Waits,
    /// Bytes that the sender of datagrams may be ahead of their receiver.
    window: usize,
}

/// The other end of an exchange.
trait Serve: Send {
    /// Waits for a call, or for those that come together, and answers.
    fn serve(&mut self) -> io::Result<()>;
}

impl Terms {
    fn of_cell(cell: &Cell, window: usize) -> Self {
        Terms {
            transport: cell.transport,
            data_lens: cell.data_lens(),
            bulk: cell.procedure.is_bulk(),
            in_flight: cell.in_flight,
            waits: Waits::of(cell),
            window,
        }
    }

    fn of_arguments(args: &EchoArgs) -> Self {
        Terms {
            transport: args.serve.transport,
            data_lens: args.procedure.data_lens(args.bytes as usize),
            bulk: args.procedure.is_bulk(),
            in_flight: args.in_flight,
            waits: Waits { caller: Wait::of(args.caller_waiting), server: Wait::of(args.serve.waiting) },
            window: args.window as usize,
        }
    }

    /// Whether a packet goes there and one comes back.
    fn one_by_one(&self) -> bool {
        let (argument, result) = self.data_lens;
        // Through memory, what is no longer than a packet needs no ring.
        let short = self.transport == Transport::Shm && argument.max(result) <= DATA_LEN;
        (short || !self.bulk) && self.in_flight == 1
    }

    /// Bytes of a whole call packet and of a whole result packet, where there is one of each.
    fn packet_lens(&self) -> (usize, usize) {
        let (argument, result) = self.data_lens;
        (HEADER_LEN + argument, HEADER_LEN + result)
    }

    /// Bytes of a whole call and of a whole result on their way, in as many packets as they need.
    fn message_lens(&self) -> (usize, usize) {
        if !self.bulk {
            return self.packet_lens();
        }
        let (argument, result) = self.data_lens;
        (bulk::message_len(self.transport, argument), bulk::message_len(self.transport, result))
    }

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

    fn server(&self, socket: Socket) -> io::Result<Box<dyn Serve>> {
        let (_, result) = self.packet_lens();
        let patience = Patience::new(self.waits.server, None);
        Ok(match (socket, self.bulk) {
            (Socket::Memory(memory), true) => Box::new(self.bulk(Rings::of_server(&memory, self)?)),
            (Socket::Memory(memory), false) => Box::new(self.batch(Rings::of_server(&memory, self)?)),
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
    ) -> io::Result<Datagrams> {
        connect::make_room(&socket, self.window.max(usize::from(self.in_flight) * segment))?;
        Datagrams::new(socket, segment, window, patience)
    }

    fn bulk<P: Pipe>(&self, pipe: P) -> Bulk<P> {
        Bulk::new(pipe, self.message_lens())
    }

    fn batch<P: Pipe>(&self, pipe: P) -> Batch<P> {
        Batch::new(pipe, self.packet_lens(), self.in_flight)
    }
}

/// Bytes of a full packet of ours.
const PACKET_LEN: usize = HEADER_LEN + DATA_LEN;

/// What a caller of the bare exchange says when the network has lost something of it.
pub(crate) const LOST: &str = "the bare exchange: a packet was lost";

#[cold]
fn in_words(error: io::Error) -> String {
    if error.kind() == io::ErrorKind::TimedOut { LOST.into() } else { format!("the bare exchange: {error}") }
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
        let (sockets, own_ports) = connect::to_echo(cell, network, path, &ports)?;
        echo.tell(&join_ports(&own_ports))?;
        echo.expect("ready")?;
        let caller = |socket| terms.caller(socket, lost_after(cell));
        let callers = sockets.into_iter().map(caller).collect::<io::Result<_>>()?;
        Ok(Floor { callers, echo: Some(echo) })
    }

    /// Its process, if it has one.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.echo.as_ref().map(Child::id)
    }

    pub(crate) fn stop(&mut self) -> io::Result<()> {
        self.echo.as_mut().map_or(Ok(()), Child::stop)
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.echo.as_mut().map_or(Ok(()), Child::resume)
    }
}

fn echo_arguments(cell: &Cell, terms: Terms, sides: Sides, network: &Network, path: &Path) -> Vec<String> {
    vec![
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
    ]
}

fn join_ports(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
}

fn parse_ports(words: &str) -> io::Result<Vec<u16>> {
    words.split_whitespace().map(|word| word.parse().map_err(io::Error::other)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Procedure;

    fn cell(procedure: Procedure) -> Cell {
        Cell { procedure, ..Cell::NULL }
    }

    #[test]
    fn packets_are_as_long_as_ours() {
        let packet_lens = |procedure| Terms::of_cell(&cell(procedure), 0).packet_lens();
        assert_eq!(packet_lens(Procedure::Null), (32, 32));
        assert_eq!(packet_lens(Procedure::MaxArg), (1472, 32));
        assert_eq!(packet_lens(Procedure::MaxResult), (32, 1472));
    }
}
