//! Bare frames on an Ethernet: one end of an exchange on either mechanism of the kernel, without a checksum.

use super::endpoint::End;
use super::pipe::{Carrier, Patience};
use crate::args::Transport;
use crate::callers::{Calls, Measured, Window, call_repeatedly};
use crate::network::{CALLER_MAC, FLOOR_INTERFACE, SERVER_MAC};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use stoop_ether::address::Address;
use stoop_ether::frame::{Checksum, Template};
use stoop_ether::{Arrival, Endpoint, Interface, Options};

/// An endpoint, and the beginning of its frames to the other end.
#[derive(Debug)]
pub(super) struct Frames {
    endpoint: Endpoint,
    template: Template,
}

/// One of the two ends of the floor's Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Caller,
    Server,
}

/// Places in the ring of an end that has one packet outstanding.
const FEW: usize = 64;

/// Opens an endpoint for each of `number` callers, or one for all on AF_XDP, of which an interface has one. `many`: packets arrive together.
pub(super) fn open(transport: Transport, side: Side, number: usize, many: bool) -> io::Result<Vec<Endpoint>> {
    let backend = transport.backend().ok_or_else(|| io::Error::other("this transport has no frames"))?;
    let interface = Interface::by_name(FLOOR_INTERFACE)?;
    let mut options = Options::of_many_lanes();
    if !many {
        options.frames = FEW;
    }
    let open = |_| {
        Ok(match side {
            Side::Caller => Endpoint::connect(&interface, backend, &options)?,
            Side::Server => Endpoint::listen(&interface, None, backend, &options)?,
        })
    };
    (0..if transport == Transport::Ether { number } else { 1 }).map(open).collect()
}

impl Frames {
    /// Leads from an endpoint of `side` to a port of the other end.
    pub(super) fn new(endpoint: Endpoint, side: Side, port: u16) -> Self {
        let mac = match side {
            Side::Caller => SERVER_MAC,
            Side::Server => CALLER_MAC,
        };
        let template = endpoint.template(Address { mac, port }, Checksum::Omitted);
        Frames { endpoint, template }
    }
}

impl Carrier for Frames {
    fn prepare(&self, _: Patience) -> io::Result<()> {
        Ok(())
    }

    fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.endpoint.send(&self.template, packet)
    }

    fn send_segments(&self, packets: &[u8], segment: usize) -> io::Result<()> {
        let mut sent = Ok(());
        self.endpoint.send_many(&self.template, packets, segment, |_, error| sent = Err(error));
        sent
    }

    fn receive(&self, buffer: &mut [u8], patience: Patience) -> io::Result<usize> {
        patience.wait(|limit_ns| {
            let arrival = match limit_ns {
                Some(0) => self.endpoint.receive_many(buffer),
                limit_ns => self.endpoint.receive_many_within(buffer, limit_ns)?,
            };
            Ok(if let Arrival::Packet { len, .. } = arrival { Some(len.len) } else { None })
        })
    }
}

/// One end of a bare exchange of a frame there and one back.
#[derive(Debug)]
pub(super) struct FrameEnd {
    frames: Frames,
    patience: Patience,
    to_send: Vec<u8>,
    received: Vec<u8>,
}

impl FrameEnd {
    pub(super) fn new(frames: Frames, patience: Patience, send_len: usize) -> Self {
        FrameEnd { frames, patience, to_send: vec![0x5a; send_len], received: vec![0; 1 << 12] }
    }
}

impl End for FrameEnd {
    #[inline(always)]
    fn transmit(&mut self) -> io::Result<()> {
        self.frames.send(&self.to_send)
    }

    #[inline(always)]
    fn receive(&mut self) -> io::Result<()> {
        while !self.try_receive()? {}
        Ok(())
    }

    #[inline(always)]
    fn try_receive(&mut self) -> io::Result<bool> {
        let endpoint = &self.frames.endpoint;
        let arrival = match self.patience.spins() {
            true => endpoint.receive(&mut self.received),
            false => endpoint.receive_within(&mut self.received, None)?,
        };
        Ok(matches!(arrival, Arrival::Packet { .. }))
    }
}

/// Calls of one of several callers that take turns at one end.
pub(super) struct Turns<E>(pub(super) Arc<Mutex<E>>);

impl<E: End> Calls for Turns<E> {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        call_repeatedly(window, 1, || {
            let mut end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            end.transmit().and_then(|()| end.receive()).map_err(|error| format!("the bare exchange: {error}"))
        })
    }
}
