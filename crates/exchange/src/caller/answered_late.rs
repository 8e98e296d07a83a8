//! Calls that were answered after more than one transmission, and what their further results say about the path.

use super::{AnsweredLate, Lane};
use crate::Instant;
use core::time::Duration;
use stoop_wire::{Header, Kind};

impl Lane {
    /// A call that was sent more than once has its result.
    #[cold]
    pub(super) fn finish_again(&mut self, now: Instant, started: Instant, at_server_ns: u32) {
        if at_server_ns != u32::MAX {
            let longest = now.since(started).saturating_sub(Duration::from_nanos(at_server_ns.into()));
            let (number, transmissions) = (self.number, self.transmissions);
            self.answered_late = Some(AnsweredLate { number, transmissions, longest });
        }
    }

    /// Looks whether the packet is one more result of a call that was answered late. Then no packet of that call was lost:
    /// the path is slower than the wait. A call of which a packet was lost has one result, and says nothing about the path.
    #[cold]
    pub(super) fn note_repeated_result(&mut self, packet: &[u8]) {
        let (Some(late), Ok((header, _))) = (self.answered_late, Header::parse(packet)) else { return };
        let is_of_it = (header.binding, header.lane, header.number) == (self.binding, self.lane, late.number);
        if !is_of_it || header.kind != Kind::Result {
            return;
        }
        self.answered_late = None;
        self.path.answered_after(late.transmissions, late.longest);
    }
}
