//! The messages of many packets of one lane: a call that is arriving, and an answer that is being sent.

use super::pipe_state::Pipes;
use super::shares::{Share, Shares};
use crate::Instant;
use crate::bulk::{Incoming, Outgoing, Path};
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{CallNumber, Header};

/// The messages of many packets of one lane.
#[derive(Debug)]
pub(super) struct Large<P> {
    /// A call that has not arrived completely; newer than the lane's newest.
    pub(super) incomplete: Option<Box<IncompleteCall<P>>>,
    /// The answer to the newest call, while its caller does not have the whole of it.
    pub(super) sending: Option<Box<Sending>>,
    /// The pipes of the newest call, as long as it runs or its caller does not have all of them.
    pub(super) pipes: Option<Box<Pipes<P>>>,
    /// When the server's timer for this lane expires.
    pub(super) timer: Instant,
    /// Whether the lane is in the queue of lanes that may have something to send.
    pub(super) queued: bool,
    /// Whether the lane is in its binding's list of lanes that wait for space on the path.
    pub(super) waits: bool,
    /// Whether the lane is in the list of lanes that owe a receipt.
    pub(super) owes: bool,
    /// Whether the lane is in the list of lanes whose callers have asked about their answers.
    pub(super) asks: bool,
}

/// A call of which some parts have arrived.
#[derive(Debug)]
pub(super) struct IncompleteCall<P> {
    pub(super) number: CallNumber,
    pub(super) peer: P,
    /// Known from the part at offset 0.
    pub(super) procedure: Option<u16>,
    /// The flags of that part.
    pub(super) flags: u8,
    pub(super) incoming: Incoming,
    /// Memory for the arguments, which begin at `start`. It may be longer than they are, or too short as yet: it grows
    /// with the bytes that arrive.
    pub(super) message: Vec<u8>,
    pub(super) start: usize,
    /// When the first part arrived.
    pub(super) begun: Instant,
    /// When the part with the deadline arrived, and its time word.
    pub(super) deadline: (Instant, u32),
    /// When the last new part arrived.
    pub(super) heard: Instant,
    /// Number of the newest receipt.
    pub(super) receipts: u32,
}

/// An answer of many packets that is being sent.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) outgoing: Outgoing,
    /// Number of the newest receipt that has been handled.
    pub(super) taken: u32,
    /// Whether the caller was silent for so long that the server sends nothing more until it is heard.
    pub(super) paused: bool,
}

impl<P> Default for Large<P> {
    fn default() -> Self {
        Self {
            incomplete: None,
            sending: None,
            pipes: None,
            timer: Instant::NEVER,
            queued: false,
            waits: false,
            owes: false,
            asks: false,
        }
    }
}

impl<P> Large<P> {
    /// Stops sending the lane's answer.
    pub(super) fn end_sending(&mut self, path: &mut Option<Box<Path>>) {
        if let (Some(mut sending), Some(path)) = (self.sending.take(), path) {
            sending.outgoing.end(path);
        }
    }

    /// Ends the pipes of the lane's newest call.
    #[cold]
    pub(super) fn end_pipes(&mut self, path: &mut Option<Box<Path>>, shares: &mut Shares, share: &mut Share) {
        let Some(mut pipes) = self.pipes.take() else { return };
        shares.give_pipe_back(share, pipes.counted);
        if let (Some(to), Some(path)) = (&mut pipes.to, path) {
            to.forget(path);
        }
    }

    /// Drops an incomplete call that is not newer than call `number`, and returns its memory.
    pub(super) fn drop_incomplete(&mut self, number: CallNumber) -> Option<Vec<u8>> {
        let outdated = self.incomplete.take_if(|call| !call.number.is_after(number));
        outdated.map(|call| call.message)
    }

    /// Bytes of memory in use, but for those of messages and pipes.
    pub(super) fn bytes_held(&self) -> usize {
        let incomplete = self.incomplete.as_deref().map_or(0, size_of_val);
        size_of::<Self>() + incomplete + self.sending.as_deref().map_or(0, size_of_val)
    }

    /// Whether there is no message of many packets, and no queue in which the lane stands for one.
    pub(super) fn is_idle(&self) -> bool {
        let queued = self.queued || self.waits || self.owes || self.asks;
        self.incomplete.is_none() && self.sending.is_none() && self.pipes.is_none() && !queued
    }

    /// Whether an answer or a pipe is being sent and not paused.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| !sending.paused)
            || self.pipes.as_ref().is_some_and(|pipes| pipes.is_sending())
    }
}

impl<P> IncompleteCall<P> {
    /// A call whose first part to arrive has this header, with memory for its arguments from `start` on.
    pub(super) fn new(now: Instant, peer: P, header: &Header, (message, start): (Vec<u8>, usize)) -> Self {
        Self {
            number: header.number,
            peer,
            procedure: (header.offset == 0).then_some(header.procedure),
            flags: 0,
            incoming: Incoming::new(header.message_len),
            message,
            start,
            begun: now,
            deadline: (now, u32::MAX),
            heard: now,
            receipts: 0,
        }
    }

    /// Bytes of memory for the whole call.
    pub(super) fn needed(&self) -> usize {
        self.start + self.incoming.message_len() as usize
    }

    /// Bytes of the arguments for which there is memory.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.message.len() - self.start
    }

    /// Bytes of the arguments that may be under way as far as the memory goes: no bound once there is memory for the whole call. A
    /// window that shrank with the bytes still missing would let a receipt leave for each quarter of an ever smaller one.
    pub(super) fn unfilled(&self) -> u32 {
        if self.message.len() >= self.needed() {
            return u32::MAX;
        }
        u32::try_from(self.room()).unwrap_or(u32::MAX).saturating_sub(self.incoming.received())
    }

    /// Whether the packet with this header is a part of this call.
    #[inline]
    pub(super) fn has_part(&self, header: &Header) -> bool {
        (self.number, self.incoming.message_len()) == (header.number, header.message_len)
    }
}
