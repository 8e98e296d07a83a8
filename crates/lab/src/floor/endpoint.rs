//! One end of a bare exchange over a connected socket.

use crate::args::Transport;
use crate::callers::{Calls, Measured, Window, call_repeatedly};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::OwnedFd;

/// A connected socket, and packets of fixed lengths to send and to receive.
#[derive(Debug)]
pub(super) struct Endpoint {
    socket: OwnedFd,
    flags: RecvFlags,
    to_send: Vec<u8>,
    received: Vec<u8>,
    /// The bytes that must have come before a packet is complete: any datagram is.
    complete_len: usize,
}

/// Longer than any packet, so that one call of the kernel never leaves a rest behind.
const RECEIVE_BUFFER_LEN: usize = 4096;

impl Endpoint {
    pub(super) fn new(
        socket: OwnedFd,
        transport: Transport,
        flags: RecvFlags,
        send_len: usize,
        receive_len: usize,
    ) -> Self {
        let complete_len = if transport == Transport::Udp { 1 } else { receive_len };
        Endpoint {
            socket,
            flags,
            to_send: vec![0x5a; send_len],
            received: vec![0; RECEIVE_BUFFER_LEN],
            complete_len,
        }
    }
}

/// One end of a bare exchange of one packet there and one back.
pub(super) trait End: Send {
    /// Sends a packet.
    fn transmit(&mut self) -> io::Result<()>;
    /// Waits for a packet.
    fn receive(&mut self) -> io::Result<()>;
    /// Whether a packet has come; once a part of one has, waits for the rest.
    fn try_receive(&mut self) -> io::Result<bool>;
}

impl End for Endpoint {
    #[inline(always)]
    fn transmit(&mut self) -> io::Result<()> {
        let sent = send(&self.socket, &self.to_send, SendFlags::NOSIGNAL)?;
        if sent == self.to_send.len() { Ok(()) } else { Err(io::Error::other("a packet was sent in part")) }
    }

    /// As its flags say.
    #[inline(always)]
    fn receive(&mut self) -> io::Result<()> {
        while !self.try_receive()? {}
        Ok(())
    }

    #[inline(always)]
    fn try_receive(&mut self) -> io::Result<bool> {
        let mut have = 0;
        while have < self.complete_len {
            match recv(&self.socket, &mut self.received[have..], self.flags) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((len, _)) => have += len,
                Err(Errno::AGAIN | Errno::INTR) if have == 0 => return Ok(false),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Calls over one end.
pub(super) struct Calling<E>(pub(super) E);

impl<E: End> Calls for Calling<E> {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let Calling(end) = self;
        call_repeatedly(window, 1, || {
            end.transmit().and_then(|()| end.receive()).map_err(|error| format!("the bare exchange: {error}"))
        })
    }
}
