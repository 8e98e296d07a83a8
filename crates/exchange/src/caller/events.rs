//! What a lane tells its driver: what a packet meant, and what is due.

use super::Part;
use crate::outcome::Unbound;
use core::time::Duration;
use stoop_wire::{FailureCode, HEADER_LEN, RefusalCode};

/// What an arriving packet means for the outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The call has ended; behind the packet's header is its result.
    Result {
        /// Bytes of the result.
        len: usize,
        /// How long the server had it, in nanoseconds; saturates at 4.29 s.
        at_server_ns: u32,
    },
    /// The call has ended: the procedure did not run for it.
    Refused(RefusalCode),
    /// The call has ended, and this alone does not say whether it ran: the server does not know the binding.
    Unbound(Unbound),
    /// The call has ended: the procedure ran, but there is no result. The packet's payload may say more.
    Failed(FailureCode),
    /// A part of the result: its place is in the message, its bytes are behind the packet's header.
    Part(Part),
    /// Parts of the call have arrived: [`Lane::take_receipt`](super::Lane::take_receipt).
    Receipt,
    /// The call goes on; [`Lane::next_timeout`](super::Lane::next_timeout) may have changed.
    Progress,
    /// The server wants to know that the caller receives at its address: send this, then the call again.
    Prove([u8; HEADER_LEN]),
    /// Nothing to do with the outstanding call.
    Ignored,
}

/// What is to be done because time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// Send the call packet again; its header has been brought up to date.
    Retransmit,
    /// Parts of the call are to be sent again: [`Lane::resume`](super::Lane::resume), then [`Lane::next_run`](super::Lane::next_run).
    Resume,
    /// Send this probe.
    Probe([u8; HEADER_LEN]),
    /// Say once more which parts of the result are here: [`Lane::receipt`](super::Lane::receipt).
    Receipt,
    /// Send this packet, which says that nobody waits any more.
    Cancel([u8; HEADER_LEN]),
    /// Waiting on is pointless, and nobody knows whether the procedure ran: [`Lane::abandon`](super::Lane::abandon) the call.
    GiveUp(Lost),
}

/// Why a caller stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The call's deadline passed.
    DeadlinePassed,
    /// The server had acknowledged the call and then fell silent.
    ServerSilent,
    /// The server's machine says that nobody listens at the port any more.
    PortClosed,
}

/// How a call that ended without a result stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Times that the call was sent.
    pub transmissions: u32,
    /// Time since it was first sent.
    pub waited: Duration,
}
