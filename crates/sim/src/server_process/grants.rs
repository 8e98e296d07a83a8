//! The credits that a server has granted fit into its socket.

use crate::Sim;
use core::time::Duration;
use stoop_wire::Header;
use stoop_wire::bind::NO_CREDIT_LIMIT;

/// A caller uses a credit for this long after it was granted.
const GOOD_FOR: Duration = Duration::from_millis(500);

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
}
