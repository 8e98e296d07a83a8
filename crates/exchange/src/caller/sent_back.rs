//! Transmissions of a call that came back because the server's port is closed, which can prove that the call did not
//! run.

use super::Lane;
use crate::Instant;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, left_of_nanos};

/// Reports of a closed port after which a call ends though a transmission of it has not come back.
const REPORTS_AT_MOST: u32 = 4;

/// The transmissions of one call that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBack {
    number: CallNumber,
    count: u32,
    /// Time word of the last one. Each transmission has less time left than the one before.
    left: u32,
}

/// Time word of the latest transmission of a call. The first transmission of a one-packet call is not recorded: its
/// word is the time left when the call began.
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
    /// Time word for another transmission of the outstanding call. It is less than the one before, however short the
    /// time between them, so that each transmission is recognised when it comes back. The word for "no deadline" stays
    /// as it is.
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

    /// Records the time word of a transmission of the outstanding call.
    pub(super) fn say_left(&mut self, left: u32) {
        self.said = Said { number: self.number, left };
    }

    /// Time word of the latest transmission of the outstanding call, unless that was the first of a one-packet call.
    pub(super) fn said(&self) -> Option<u32> {
        (self.said.number == self.number).then_some(self.said.left)
    }

    /// Handles the beginning of a packet of this lane that the server's machine has returned in an ICMP message,
    /// because the port is closed (RFC 792, RFC 4443 §3.1). In a call of many packets only the first part counts:
    /// without it the call is never complete.
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
        // A transmission that comes back twice counts once.
        if self.sent_back.count == 0 || header.time < self.sent_back.left {
            self.sent_back.count += 1;
            self.sent_back.left = header.time;
        }
    }

    /// Whether every transmission of the latest call, ended or not, [came back](Self::handle_sent_back). If the network
    /// duplicates no packets, as inside one machine, then the call has not run and never will.
    pub fn last_came_back(&self) -> bool {
        let (count, sent) = self.came_back();
        count > 0 && count == sent && !self.acknowledged
    }

    /// Whether the latest call, after so many reports of a closed port, waits for another, because a part of its
    /// transmissions came back: when all have, it has certainly not run.
    pub(super) fn awaits_reports(&self, reports: u32) -> bool {
        let (count, sent) = self.came_back();
        reports < REPORTS_AT_MOST && count > 0 && count < sent && !self.acknowledged
    }

    /// How many transmissions of the latest call came back, of how many.
    fn came_back(&self) -> (u32, u32) {
        let first_parts = self.large.as_ref().map_or(0, |large| large.first_parts);
        let sent = if first_parts > 0 { first_parts } else { self.transmissions };
        let SentBack { number, count, .. } = self.sent_back;
        (if number == self.number { count } else { 0 }, sent)
    }
}
