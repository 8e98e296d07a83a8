//! The messages of many packets of one lane: a call that is arriving, and an answer that is being sent.

use crate::Instant;
use crate::bulk::{Incoming, Outgoing, Path};
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{CallNumber, Header};

/// The messages of many packets of one lane.
#[derive(Debug)]
pub(super) struct Large<P> {
    /// A call that has not arrived as a whole; newer than the lane's newest.
    pub(super) incomplete: Option<IncompleteCall<P>>,
    /// The answer to the newest call, while its caller does not have all of it.
    pub(super) sending: Option<Sending>,
    /// When a timer of the server will look at this lane.
    pub(super) timer: Instant,
    /// The lane is among those that may have something to send.
    pub(super) queued: bool,
    /// The lane is among those of its binding that wait for room on the way.
    pub(super) waits: bool,
    /// The lane is among those that owe a receipt.
    pub(super) owes: bool,
    /// The lane is among those whose callers have asked about their answers.
    pub(super) asks: bool,
}

/// A call of which parts have arrived.
#[derive(Debug)]
pub(super) struct IncompleteCall<P> {
    pub(super) number: CallNumber,
    pub(super) peer: P,
    /// The part at offset 0 tells it.
    pub(super) procedure: Option<u16>,
    pub(super) incoming: Incoming,
    /// The arguments lie from `start` on. It may be longer than they are.
    pub(super) message: Vec<u8>,
    pub(super) start: usize,
    /// When the first part arrived.
    pub(super) begun: Instant,
    /// When the part with the deadline arrived, and the time left that its time word said.
    pub(super) deadline: (Instant, u32),
    /// When the last new part arrived.
    pub(super) heard: Instant,
    /// Number of the newest receipt.
    pub(super) receipts: u32,
}

/// An answer of many packets of which the caller does not have all.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) outgoing: Outgoing,
    /// Number of the newest receipt that has been taken.
    pub(super) taken: u32,
    /// The caller was silent for long: the server sends nothing more until it is heard.
    pub(super) paused: bool,
}

impl<P> Default for Large<P> {
    fn default() -> Self {
        Self {
            incomplete: None,
            sending: None,
            timer: Instant::NEVER,
            queued: false,
            waits: false,
            owes: false,
            asks: false,
        }
    }
}

impl<P> Large<P> {
    /// Stops sending the lane's answer on that path.
    pub(super) fn end_sending(&mut self, path: &mut Option<Box<Path>>) {
        if let (Some(mut sending), Some(path)) = (self.sending.take(), path) {
            sending.outgoing.end(path);
        }
    }

    /// Drops an incomplete call that is not newer than the call `number`, and returns its memory.
    pub(super) fn drop_incomplete(&mut self, number: CallNumber) -> Option<Vec<u8>> {
        let outdated = self.incomplete.take_if(|call| !call.number.is_after(number));
        outdated.map(|call| call.message)
    }

    /// Whether an answer is being sent and not paused.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| !sending.paused)
    }
}

impl<P> IncompleteCall<P> {
    /// A call of which the packet with this header is the first part to arrive, with memory for its arguments from a
    /// certain byte on.
    pub(super) fn new(now: Instant, peer: P, header: &Header, (message, start): (Vec<u8>, usize)) -> Self {
        Self {
            number: header.number,
            peer,
            procedure: (header.offset == 0).then_some(header.procedure),
            incoming: Incoming::new(header.message_len),
            message,
            start,
            begun: now,
            deadline: (now, u32::MAX),
            heard: now,
            receipts: 0,
        }
    }

    /// Whether the packet with this header is a part of it.
    #[inline]
    pub(super) fn has_part(&self, header: &Header) -> bool {
        (self.number, self.incoming.message_len()) == (header.number, header.message_len)
    }
}
