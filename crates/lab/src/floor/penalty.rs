//! Bare frames of given sizes there and back: the network penalty, without even the header of a packet of ours.

use super::frames::{Frames, Side, open};
use super::pipe::{Datagrams, Patience, Pipe};
use super::terms::in_words;
use super::waits::Wait;
use super::{join_ports, parse_ports};
use crate::args::{PenaltyEchoArgs, Transport, name_of};
use crate::callers::{Calls, Measured, Window, call_repeatedly};
use crate::child::{Child, answer, next_order};
use crate::network::Network;
use crate::placement::Sides;
use std::io;
use std::thread;
use std::time::Duration;
use stoop_ether::Endpoint;
use stoop_ether::frame::PREFIX_LEN;

/// Frames in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Bytes of data in each: all behind the Ethernet header.
    pub(crate) data: usize,
    pub(crate) frames: usize,
}

/// The caller's end of a transfer there and back, and the process at the other end.
pub(crate) struct BareTransfer {
    pub(crate) calls: Box<dyn Calls>,
    pub(crate) echo: Child,
}

/// One end.
struct End {
    pipe: Datagrams<Frames>,
    len: usize,
}

/// After so long a frame is lost.
const LIMIT: Duration = Duration::from_millis(300);

impl Transfer {
    /// The bytes in each frame that our frame's own prefix leaves.
    fn content(self) -> usize {
        self.data - PREFIX_LEN
    }

    fn end(self, endpoint: Endpoint, side: Side, port: u16, limit: Option<Duration>) -> io::Result<End> {
        let frames = Frames::new(endpoint, side, port);
        let patience = Patience::new(Wait::Spin, limit);
        let pipe = Datagrams::new(frames, self.content(), usize::MAX, patience)?;
        Ok(End { pipe, len: self.frames * self.content() })
    }

    /// A ring of few places stays in the processor's cache.
    fn is_many(self) -> bool {
        self.frames > 16
    }
}

impl BareTransfer {
    pub(crate) fn open(
        transport: Transport,
        transfer: Transfer,
        sides: Sides,
        network: &Network,
    ) -> io::Result<Self> {
        let arguments = [
            "penalty-echo".into(),
            format!("--transport={}", name_of(transport)),
            format!("--cpu={}", sides.server),
            format!("--data={}", transfer.data),
            format!("--frames={}", transfer.frames),
        ];
        let mut echo = Child::start("echo process", &arguments, network)?;
        let port = only(parse_ports(&echo.expect("listening")?)?)?;
        let endpoint = only(open(transport, Side::Caller, 1, transfer.is_many())?)?;
        echo.tell(&join_ports(&[endpoint.address().port]))?;
        echo.expect("ready")?;
        let end = transfer.end(endpoint, Side::Caller, port, Some(LIMIT))?;
        Ok(BareTransfer { calls: Box::new(end), echo })
    }
}

fn only<T>(of: Vec<T>) -> io::Result<T> {
    of.into_iter().next().ok_or_else(|| io::Error::other("there is one endpoint"))
}

impl Calls for End {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let End { pipe, len } = self;
        call_repeatedly(window, 1, || pipe.push(*len).and_then(|()| pipe.take(*len)).map_err(in_words))
    }
}

/// In the echo process: sends back what comes, until the parent ends it.
pub(crate) fn echo(args: &PenaltyEchoArgs) -> io::Result<()> {
    let transfer = Transfer { data: args.data, frames: args.frames };
    let endpoint = only(open(args.transport, Side::Server, 1, transfer.is_many())?)?;
    answer(&format!("listening {}", join_ports(&[endpoint.address().port])))?;
    let order = next_order()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let End { mut pipe, len } = transfer.end(endpoint, Side::Server, only(parse_ports(&order)?)?, None)?;
    thread::spawn(move || while pipe.take(len).and_then(|()| pipe.push(len)).is_ok() {});
    answer("ready")?;
    while next_order()?.is_some() {}
    Ok(())
}
