//! A parked call, which waits for the one before it on its lane to return.

use crate::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{CallNumber, RefusalCode};

/// A call that arrived before the call before it had returned.
#[derive(Debug)]
pub(super) struct Parked<P> {
    pub(super) number: CallNumber,
    pub(super) peer: P,
    pub(super) arrived: Instant,
    /// Its packet; for a call of many packets, only a header.
    pub(super) packet: Box<[u8]>,
    /// Message of a call of many packets, as in [`Work::message`](super::Work).
    pub(super) message: Option<Vec<u8>>,
    /// Bytes of its arguments.
    pub(super) message_len: u32,
    /// If set, the call will not run, for this reason.
    pub(super) refused: Option<RefusalCode>,
}
