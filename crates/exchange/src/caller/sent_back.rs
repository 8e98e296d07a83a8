//! Transmissions of a call that came back because nobody listens at the server's port: what shows that it did not run.

use super::Lane;
use crate::Instant;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, left_of_nanos};

/// Transmissions of one call that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBack {
    number: CallNumber,
    count: u32,
    /// The time word of the last: each transmission has less time left than the one before.
    left: u32,
}

/// What the latest transmission of a call said of the time left; not the first of a call of one packet, which says what is left when
/// the call is begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    number: CallNumber,
    left: u32,
}

impl Default for Said {
    fn default() -> Self {
        Self { number: CallNumber::ZERO, left: u32::MAX }
    }
}

impl Default for SentBack {
    fn default() -> Self {
        Self { number: CallNumber::ZERO, count: 0, left: u32::MAX }
    }
}

impl Lane {
    /// The time word of one more transmission of the outstanding call: less than that of the one before, however soon it follows, so that
    /// each is known when it comes back. A word that says that there is no end stays.
    pub(super) fn left_again(&mut self, now: Instant) -> u32 {
        let Some(call) = &self.outstanding else { return 0 };
        let left_at = |time| left_of_nanos(call.deadline.nanos_since(time));
        let before = if self.said.number == self.number { self.said.left } else { left_at(call.started) };
        let left = match left_at(now) {
            u32::MAX => u32::MAX,
            left => left.min(before.saturating_sub(1)),
        };
        self.say_left(left);
        left
    }

    /// A transmission of the outstanding call has that time word.
    pub(super) fn say_left(&mut self, left: u32) {
        self.said = Said { number: self.number, left };
    }

    /// What the latest transmission of the outstanding call said, if that was not the first of a call of one packet.
    pub(super) fn said(&self) -> Option<u32> {
        (self.said.number == self.number).then_some(self.said.left)
    }

    /// Takes the beginning of a packet that the server's machine has sent back, because nobody listens at the port, to which this lane
    /// had sent it (RFC 792, RFC 4443 §3.1). Of a call of many packets, the first part counts: without it the call is never whole.
    pub fn handle_sent_back(&mut self, packet: &[u8]) {
        let header = packet.first_chunk::<HEADER_LEN>().and_then(|bytes| Header::from_beginning(bytes).ok());
        let Some(header) = header.filter(|header| header.kind == Kind::Call && header.offset == 0) else {
            return;
        };
        if !self.is_for_this_call(&header) {
            return;
        }
        if self.sent_back.number != self.number {
            self.sent_back = SentBack { number: self.number, ..SentBack::default() };
        }
        // One that comes back twice is counted once.
        if self.sent_back.count == 0 || header.time < self.sent_back.left {
            self.sent_back.count += 1;
            self.sent_back.left = header.time;
        }
    }

    /// Whether each transmission of the latest call, ended or not, [came back](Self::handle_sent_back). Where the network between repeats
    /// no packets, as inside one machine, the call has not run, and never will.
    pub fn last_came_back(&self) -> bool {
        let first_parts = self.large.as_ref().map_or(0, |large| large.first_parts);
        let sent = if first_parts > 0 { first_parts } else { self.transmissions };
        let SentBack { number, count, .. } = self.sent_back;
        number == self.number && count > 0 && count == sent && !self.acknowledged
    }
}
