//! Transmissions of a call that came back because nobody listens at the server's port: what shows that it did not run.

use super::Lane;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind};

/// Transmissions of one call that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBack {
    number: CallNumber,
    count: u32,
    /// The time word of the last: each transmission has less time left than the one before.
    left: u32,
}

impl Default for SentBack {
    fn default() -> Self {
        Self { number: CallNumber::ZERO, count: 0, left: u32::MAX }
    }
}

impl Lane {
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
