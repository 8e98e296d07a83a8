//! Calls that their caller gives up: it tells the server, or leaves it at that.

use super::{CallState, Effort, Lane};
use crate::Instant;
use stoop_wire::{HEADER_LEN, Header, Kind};

impl Lane {
    /// Cancels the outstanding call and returns the packet that tells the server; `None` without a call.
    ///
    /// The lane can be used again when the call has ended by [`Heard::Result`](crate::caller::Heard::Result), `Refused`, `Unbound`
    /// or `Failed`, or has been abandoned. Until then its [timeouts](Self::handle_timeout) repeat the cancel.
    pub fn cancel(&mut self, now: Instant) -> Option<[u8; HEADER_LEN]> {
        let call = self.outstanding.as_mut()?;
        call.state = CallState::Cancelled;
        // From now on the server's answers are answers to the cancel.
        (call.heard, call.unanswered) = (now, 0);
        self.acknowledged = false;
        self.transmissions = 1;
        call.next = self.jitter.after(now, self.path.timeout()).min(call.deadline);
        Some(self.cancel_packet())
    }

    /// The packet that tells the server that the latest call is given up.
    pub fn cancel_packet(&self) -> [u8; HEADER_LEN] {
        Header::bare(Kind::Cancel, self.binding, self.lane, self.number).to_bytes()
    }

    /// Ends the outstanding call, if there is one, and returns the effort spent on it.
    pub fn abandon(&mut self, now: Instant) -> Option<Effort> {
        let call = self.outstanding.take()?;
        Some(Effort { transmissions: self.transmissions, waited: now.since(call.started) })
    }
}
