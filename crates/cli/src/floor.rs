//! The floor: the same bytes over the same mechanism with the same waiting and placement, and no protocol.
//!
//! Both ends are connected, each caller has a socket of its own, and a packet is sent and received by one system call each
//! (Peregrine's network penalty). Where the server blocks, each caller also has an echo thread of its own.

pub(crate) mod echo;
mod endpoint;
pub(crate) mod figures;
mod local;

use crate::args::{Procedure, Processors, Transport, Waiting, name_of};
use crate::callers::Calls;
use crate::child::Child;
use crate::network::Network;
use crate::placement::Sides;
use crate::plan::Cell;
use endpoint::Endpoint;
use rustix::net::RecvFlags;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

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
        match (cell.waiting, cell.processors, cell.callers) {
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

/// Bytes of a whole call packet and of a whole result packet.
fn packet_lens(procedure: Procedure) -> (usize, usize) {
    let (argument, result) = procedure.data_lens();
    (HEADER_LEN + argument, HEADER_LEN + result)
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
            let callers = (0..number).map(|_| local::through_vtable(cell.procedure)).collect();
            return Ok(Floor { echo: None, callers });
        }
        let mut echo = Child::start("echo process", &echo_arguments(cell, sides, network, path), network)?;
        let ports = parse_ports(&echo.expect("listening")?)?;
        let (sockets, own_ports) = match cell.transport {
            Transport::Udp => connect_udp(network, &ports)?,
            Transport::Tcp => (connect_tcp(network, &ports, number)?, Vec::new()),
            Transport::Unix => (connect_unix(path, number)?, Vec::new()),
            Transport::Local => unreachable!("returned above"),
        };
        echo.tell(&join_ports(&own_ports))?;
        echo.expect("ready")?;
        let (call, result) = packet_lens(cell.procedure);
        let flags = Waits::of(cell).caller.flags();
        let callers = sockets.into_iter().map(|socket| {
            Box::new(Endpoint::new(socket, cell.transport, flags, call, result)) as Box<dyn Calls>
        });
        Ok(Floor { callers: callers.collect(), echo: Some(echo) })
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

fn echo_arguments(cell: &Cell, sides: Sides, network: &Network, path: &Path) -> Vec<String> {
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
    ]
}

fn connect_udp(network: &Network, ports: &[u16]) -> io::Result<(Vec<OwnedFd>, Vec<u16>)> {
    let mut sockets = Vec::new();
    let mut own_ports = Vec::new();
    for &port in ports {
        let socket = UdpSocket::bind((network.caller, 0))?;
        socket.connect((network.server, port))?;
        own_ports.push(socket.local_addr()?.port());
        sockets.push(socket.into());
    }
    Ok((sockets, own_ports))
}

fn connect_tcp(network: &Network, ports: &[u16], number: usize) -> io::Result<Vec<OwnedFd>> {
    let &[port] = ports else { return Err(io::Error::other("the echo process listens on one port")) };
    let connect = || {
        let stream = TcpStream::connect((network.server, port))?;
        stream.set_nodelay(true)?;
        Ok(stream.into())
    };
    (0..number).map(|_| connect()).collect()
}

fn connect_unix(path: &Path, number: usize) -> io::Result<Vec<OwnedFd>> {
    let sockets = (0..number).map(|_| UnixStream::connect(path).map(OwnedFd::from)).collect();
    // Connected sockets need no name, and nothing must be left behind.
    std::fs::remove_file(path)?;
    sockets
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

    fn waits(callers: u16, waiting: Waiting, processors: Processors) -> Waits {
        Waits::of(&Cell {
            transport: Transport::Udp,
            procedure: Procedure::Null,
            callers,
            waiting,
            processors,
        })
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
    fn packets_are_as_long_as_ours() {
        assert_eq!(packet_lens(Procedure::Null), (32, 32));
        assert_eq!(packet_lens(Procedure::MaxArg), (1472, 32));
        assert_eq!(packet_lens(Procedure::MaxResult), (32, 1472));
    }
}
