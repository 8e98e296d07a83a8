//! The credits that a server has granted fit into its socket, and callers use them as long as the server reserves them.

use crate::{Address, Sim};
use core::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::server::Assignment;
use stoop_wire::Header;
use stoop_wire::bind::NO_CREDIT_LIMIT;

/// A caller uses a credit for this long after it was granted.
const GOOD_FOR: Duration = Duration::from_millis(500);

/// The server reserves it for this long after the call that asks for it has arrived.
const RESERVED_FOR: Duration = Duration::from_secs(2);

/// The largest initial credit of a binding.
const INITIAL_MAX: u32 = 64;

impl Sim {
    /// If a result grants credit: all grants that hold now, as far as they are beyond the initial credits, are together no more than the
    /// server has to give, three quarters of the packets in its socket; or twice that for a moment, because a share that shrinks counts
    /// at once, and its caller uses the old one until it ends.
    pub(crate) fn check_grant(&mut self, result: &[u8]) {
        let (now, packets) = (self.server_now(), self.scenario.limits.calls);
        let (Some(credit), Ok((header, _))) = (Header::credit(result), Header::parse(result)) else { return };
        if packets == NO_CREDIT_LIMIT {
            return;
        }
        let more = u32::from(credit).saturating_sub(INITIAL_MAX);
        let grants = &mut self.server.grants;
        grants.insert(header.binding.0, (more, now + GOOD_FOR));
        grants.retain(|_, (_, until)| now < *until);
        let sum: u32 = grants.values().map(|(more, _)| more).sum();
        if sum > 2 * (packets - packets / 4) {
            self.ledger
                .complain(format!("credits of {sum} calls are granted for a socket of {packets} packets"));
        }
    }

    /// A call has arrived, at `came`, that may ask for credit: the server grants it now, and the result tells the caller later.
    pub(crate) fn note_asking(&mut self, assignment: &Assignment<Address>, packet: &[u8], came: Instant) {
        if Header::has_credit(packet) {
            let (binding, lane, number) = assignment.identity();
            self.asked_for_credit.entry((binding.0, lane.0, number.0)).or_insert(came);
        }
    }

    /// Until when the server reserves the credit that this result grants, by the time of the world.
    pub(crate) fn reserved_until(&self, result: &[u8]) -> Option<Instant> {
        let (header, _) = Header::parse(result).ok()?;
        let came = self.asked_for_credit.get(&(header.binding.0, header.lane.0, header.number.0))?;
        Some(*came + RESERVED_FOR)
    }
}
