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
mod local;
mod pipe;

use crate::args::{DATA_LEN, EchoArgs, Processors, Transport, Waiting, name_of};
use crate::callers::Calls;
use crate::child::Child;
use crate::network::Network;
use crate::placement::Sides;
use crate::plan::{Cell, Shape};
use batch::Batch;
use bulk::Bulk;
use connect::Socket;
use endpoint::Endpoint;
use pipe::{Datagrams, Patience, Pipe, Stream};
use rustix::net::RecvFlags;
use std::io;
use std::path::Path;
use std::time::Duration;
use stoop_net::udp::CallerSocket;

/// Bytes of the header that our packets carry and the floor's pretend to.
const HEADER_LEN: usize = 32;

/// How one end of the floor waits for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Spin,
    Block,
}

/// How both ends of the floor wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) caller: Wait,
    pub(crate) server: Wait,
}

impl Waits {
    const SPIN: Waits = Waits { caller: Wait::Spin, server: Wait::Spin };
    const BLOCK: Waits = Waits { caller: Wait::Block, server: Wait::Block };
    /// One thread of the server spins for all callers, which share the other processor.
    const SERVER_SPINS: Waits = Waits { caller: Wait::Block, server: Wait::Spin };

    /// The same as ours; beside the adaptive wait, what suits the placement.
    ///
    /// Several callers share one processor in every placement. Beside the adaptive wait they block: spinning, they would take turns
    /// of a scheduler's time slice, and each would wait milliseconds for its turn.
    pub(crate) fn of(cell: &Cell) -> Self {
        let together = cell.shape() == Shape::Rates && cell.callers > 1;
        match (cell.waiting, cell.processors, cell.callers) {
            // Many bytes are received by a thread for each caller. And who spins while a slow link is busy keeps the kernel's
            // own thread, which feeds the link, from running.
            (Waiting::Adaptive, ..) if together || cell.link_rate.is_some() => Waits::BLOCK,
            (Waiting::Block, ..) | (Waiting::Adaptive, Processors::One, _) => Waits::BLOCK,
            (Waiting::Spin, ..) | (Waiting::Adaptive, Processors::Two, 1) => Waits::SPIN,
            (Waiting::Adaptive, Processors::Two, _) => Waits::SERVER_SPINS,
        }
    }
}

impl Wait {
    fn waiting(self) -> Waiting {
        match self {
            Wait::Spin => Waiting::Spin,
            Wait::Block => Waiting::Block,
        }
    }

    fn flags(self) -> RecvFlags {
        match self {
            Wait::Spin => RecvFlags::DONTWAIT,
            Wait::Block => RecvFlags::empty(),
        }
    }
}

/// What both ends of an exchange must know of it.
#[derive(Clone, Copy, Debug)]
struct Terms {
    transport: Transport,
    /// Of data in the call and in the result.
    data_lens: (usize, usize),
    bulk: bool,
    in_flight: u16,
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
            window,
        }
    }

    fn of_arguments(args: &EchoArgs) -> Self {
        Terms {
            transport: args.serve.transport,
            data_lens: args.procedure.data_lens(args.bytes as usize),
            bulk: args.procedure.is_bulk(),
            in_flight: args.in_flight,
            window: args.window as usize,
        }
    }

    /// Whether a packet goes there and one comes back.
    fn one_by_one(&self) -> bool {
        !self.bulk && self.in_flight == 1
    }

    /// Bytes of a whole call packet and of a whole result packet, where there is one of each.
    fn packet_lens(&self) -> (usize, usize) {
        let (argument, result) = self.data_lens;
        (HEADER_LEN + argument, HEADER_LEN + result)
    }

    fn caller(&self, socket: Socket, wait: Wait, limit: Duration) -> io::Result<Box<dyn Calls>> {
        let (call, result) = self.packet_lens();
        if self.one_by_one() {
            return Ok(Box::new(Endpoint::new(
                socket.into_fd()?,
                self.transport,
                wait.flags(),
                call,
                result,
            )));
        }
        let patience = Patience::new(wait, Some(limit));
        Ok(match (socket, self.bulk) {
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

    fn server(&self, socket: Socket, wait: Wait) -> io::Result<Box<dyn Serve>> {
        let (_, result) = self.packet_lens();
        let patience = Patience::new(wait, None);
        Ok(match (socket, self.bulk) {
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
        Bulk::new(pipe, self.transport, self.data_lens)
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
        let wait = Waits::of(cell).caller;
        let caller = |socket| terms.caller(socket, wait, lost_after(cell));
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
        format!("--waiting={}", name_of(Waits::of(cell).server.waiting())),
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
    use crate::args::{LinkRate, Procedure};

    fn cell(procedure: Procedure) -> Cell {
        Cell {
            transport: Transport::Udp,
            procedure,
            bytes: 0,
            in_flight: 1,
            link_rate: None,
            callers: 1,
            waiting: Waiting::Adaptive,
            processors: Processors::Two,
        }
    }

    fn waits(callers: u16, waiting: Waiting, processors: Processors) -> Waits {
        Waits::of(&Cell { callers, waiting, processors, ..cell(Procedure::Null) })
    }

    #[test]
    fn beside_the_adaptive_wait_the_floor_waits_the_best_way() {
        assert_eq!(waits(1, Waiting::Adaptive, Processors::Two), Waits::SPIN);
        assert_eq!(waits(1, Waiting::Adaptive, Processors::One), Waits::BLOCK);
    }

    #[test]
    fn the_floor_waits_as_it_was_told() {
        for (processors, callers) in [(Processors::One, 1), (Processors::Two, 1), (Processors::Two, 8)] {
            assert_eq!(waits(callers, Waiting::Spin, processors), Waits::SPIN);
            assert_eq!(waits(callers, Waiting::Block, processors), Waits::BLOCK);
        }
    }

    #[test]
    fn beside_the_adaptive_wait_callers_that_share_a_processor_do_not_spin() {
        assert_eq!(waits(2, Waiting::Adaptive, Processors::Two), Waits::SERVER_SPINS);
        assert_eq!(waits(2, Waiting::Adaptive, Processors::One), Waits::BLOCK);
    }

    #[test]
    fn beside_the_adaptive_wait_nobody_spins_through_a_slow_call() {
        let slow = Cell { link_rate: Some(LinkRate { mbits: 10 }), ..cell(Procedure::BulkIn) };
        assert_eq!(Waits::of(&slow), Waits::BLOCK);
        assert_eq!(Waits::of(&cell(Procedure::BulkIn)), Waits::SPIN);
    }

    #[test]
    fn packets_are_as_long_as_ours() {
        let packet_lens = |procedure| Terms::of_cell(&cell(procedure), 0).packet_lens();
        assert_eq!(packet_lens(Procedure::Null), (32, 32));
        assert_eq!(packet_lens(Procedure::MaxArg), (1472, 32));
        assert_eq!(packet_lens(Procedure::MaxResult), (32, 1472));
    }
}
