//! Events for the driver of a lane: the meaning of a packet, and the work that is due.

use super::Part;
use crate::outcome::Unbound;
use core::time::Duration;
use stoop_wire::{FailureCode, HEADER_LEN, Refused};

/// The meaning of an arriving packet for the outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The call has ended. Its result is behind the packet's header.
    Result {
        /// Bytes of the result.
        len: usize,
        /// Nanoseconds that the call spent at the server; saturates at 4.29 s.
        at_server_ns: u32,
    },
    /// The call has ended, and the procedure did not run for it.
    Refused(Refused),
    /// The call has ended because the server does not know the binding. Whether the procedure ran is not known from
    /// this alone.
    Unbound(Unbound),
    /// The call has ended: the procedure ran, but there is no result. The packet's payload may explain more.
    Failed(FailureCode),
    /// A part of the result, behind the packet's header.
    Part(Part),
    /// Parts of the call have arrived at the server: call [`Lane::take_receipt`](super::Lane::take_receipt).
    Receipt,
    /// A packet of one of the call's pipes: call [`Lane::take_pipe_packet`](super::Lane::take_pipe_packet).
    Pipe,
    /// The call goes on; [`Lane::next_timeout`](super::Lane::next_timeout) may have changed.
    Progress,
    /// The server asks for proof that the caller receives at its address: send this packet, then the call again.
    Prove([u8; HEADER_LEN]),
    /// The packet has nothing to do with the outstanding call.
    Ignored,
}

/// The work that is due after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Send the call packet again; its header is up to date.
    Retransmit,
    /// Send parts of the call again: [`Lane::resume`](super::Lane::resume), then
    /// [`Lane::next_run`](super::Lane::next_run).
    Resume,
    /// The timer of a pipe is due: [`Lane::on_pipe_timeout`](super::Lane::on_pipe_timeout), then send what there is.
    Pipes,
    /// Send this probe.
    Probe([u8; HEADER_LEN]),
    /// Send a receipt again: [`Lane::receipt`](super::Lane::receipt).
    Receipt,
    /// Send this packet, which cancels the call.
    Cancel([u8; HEADER_LEN]),
    /// End the call with [`Lane::abandon`](super::Lane::abandon): no result is expected, and it is not known whether
    /// the procedure ran.
    Abandon(Lost),
}

/// Why a caller stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The call's deadline passed.
    DeadlinePassed,
    /// The server had acknowledged the call and then fell silent.
    ServerSilent,
    /// The server's machine reports that the port is closed.
    PortClosed,
}

/// Effort spent on a call that ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Number of times that the call was sent.
    pub transmissions: u32,
    /// Time since it was first sent.
    pub waited: Duration,
}
