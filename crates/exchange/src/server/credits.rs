//! Credits: how many calls of one packet each binding may have under way before the server has answered them, so that all of them
//! fit into the socket's receive buffer together (the session credits of eRPC: Kalia, Kaminsky, Andersen, NSDI 2019, §4.3).
//!
//! Each binding begins with a few. A caller that has more calls to send says so in a call, and gets a larger credit in its result: twice
//! what it had, up to its share of what is left. A larger credit expires when it has not been granted again for a time. The server
//! therefore never takes credit back, and a caller that has ended holds none.

use crate::Instant;
use crate::shares::Owner;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::BindingId;
use stoop_wire::bind::NO_CREDIT_LIMIT;

/// A caller uses a credit beyond the initial one for this long after it was granted.
pub(crate) const GOOD_FOR: Duration = Duration::from_millis(500);

/// The server reserves it for longer, from when the call that asks for it arrives: the result that grants it takes some time.
pub(crate) const RESERVED_FOR: Duration = Duration::from_secs(2);

/// Most calls that a binding may have under way without being granted more.
const INITIAL_MAX: u32 = 64;

/// Most bindings that have more at the same time.
const WIDE_MAX: usize = 256;

/// The credits of all bindings of a server.
#[derive(Debug)]
pub(crate) struct Credits {
    /// Calls that every binding may have under way; [`NO_CREDIT_LIMIT`] where the buffer has no bound.
    initial: u32,
    /// Calls beyond that which fit into the buffer.
    pool: u32,
    /// Of these, granted.
    granted: u32,
    wide: Vec<Wide>,
}

/// A binding that has more than the initial credit.
#[derive(Debug)]
struct Wide {
    id: BindingId,
    owner: Owner,
    more: u32,
    until: Instant,
}

impl Credits {
    /// `calls`: calls of one packet that fit into the receive buffer. A quarter is for initial credits and all other packets.
    pub(crate) fn new(calls: u32) -> Self {
        let initial = if calls == NO_CREDIT_LIMIT { calls } else { (calls / 8).clamp(1, INITIAL_MAX) };
        Self { initial, pool: calls - calls.div_ceil(4), granted: 0, wide: Vec::new() }
    }

    /// The credit of a new binding.
    pub(crate) fn initial(&self) -> u32 {
        self.initial
    }

    /// The binding asks for more. Returns its credit from now on; 0 if there is no limit.
    #[cold]
    pub(crate) fn grant(&mut self, now: Instant, id: BindingId, owner: Owner) -> u16 {
        if self.initial == NO_CREDIT_LIMIT {
            return 0;
        }
        self.release(now);
        let place = self.wide.iter().position(|wide| wide.id == id).or_else(|| self.enter(id, owner));
        let more = place.map_or(0, |place| self.widen(now, place));
        u16::try_from(self.initial + more).unwrap_or(u16::MAX)
    }

    fn enter(&mut self, id: BindingId, owner: Owner) -> Option<usize> {
        let is_free = self.wide.len() < WIDE_MAX;
        is_free.then(|| {
            self.wide.push(Wide { id, owner, more: 0, until: Instant::default() });
            self.wide.len() - 1
        })
    }

    /// Takes back the credits that are void.
    fn release(&mut self, now: Instant) {
        let granted = &mut self.granted;
        self.wide.retain(|wide| {
            let holds = now < wide.until;
            *granted -= if holds { 0 } else { wide.more };
            holds
        });
    }

    /// Gives the binding twice what it had, as far as its share and the pool allow. Returns what it has beyond the initial credit.
    fn widen(&mut self, now: Instant, place: usize) -> u32 {
        let (share, free) = (self.share(place), self.pool - self.granted);
        let wide = &mut self.wide[place];
        let wanted = (2 * wide.more + self.initial).min(share);
        // A share that has become smaller counts at once. What its caller has sent already was granted.
        let more = wanted.min(wide.more + free);
        self.granted = self.granted - wide.more + more;
        (wide.more, wide.until) = (more, now + RESERVED_FOR);
        more
    }

    /// A binding's share: the pool is divided among owners, and each owner's part among its bindings. An owner alone has three quarters.
    fn share(&self, place: usize) -> u32 {
        let owner = self.wide[place].owner;
        let is_first = |&at: &usize| self.wide[..at].iter().all(|other| other.owner != self.wide[at].owner);
        let owners = (0..self.wide.len()).filter(is_first).count() as u32;
        let of_owner = self.wide.iter().filter(|wide| wide.owner == owner).count() as u32;
        let part = if owners == 1 { self.pool - self.pool / 4 } else { self.pool / owners };
        // The owner's other bindings may use the credits that they still hold.
        let others = self.wide.iter().enumerate().filter(|(at, wide)| *at != place && wide.owner == owner);
        let held: u32 = others.map(|(_, wide)| wide.more).sum();
        (part / of_owner).min(part.saturating_sub(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> Owner {
        Owner::host([number; 16])
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Asks so often that the credit no longer grows.
    fn most(credits: &mut Credits, now: Instant, id: u64, owner: Owner) -> u32 {
        (0..20).map(|_| u32::from(credits.grant(now, BindingId(id), owner))).last().unwrap()
    }

    #[test]
    fn without_a_bound_nothing_is_granted() {
        let mut credits = Credits::new(NO_CREDIT_LIMIT);
        assert_eq!(credits.initial(), NO_CREDIT_LIMIT);
        assert_eq!(credits.grant(at(1), BindingId(1), host(1)), 0);
    }

    #[test]
    fn a_credit_doubles_until_a_host_has_three_quarters() {
        let mut credits = Credits::new(1000);
        let grown: Vec<u16> = (0..6).map(|_| credits.grant(at(1), BindingId(1), host(1))).collect();
        assert_eq!(grown, [128, 256, 512, 627, 627, 627]);
    }

    #[test]
    fn all_credits_together_fit_into_the_buffer() {
        let mut credits = Credits::new(1000);
        for round in 0..50 {
            for id in 1..=20 {
                credits.grant(at(round), BindingId(id), host((id % 3) as u8));
                let sum: u32 = credits.wide.iter().map(|wide| wide.more).sum();
                assert!(sum == credits.granted && sum <= 750, "{sum}");
            }
        }
    }

    #[test]
    fn a_host_with_many_bindings_has_no_more_than_one_with_one() {
        let mut credits = Credits::new(1000);
        for id in 1..=20 {
            most(&mut credits, at(1), id, host(1));
        }
        let other = most(&mut credits, at(1), 99, host(2));
        assert!(other > 64, "the first host left a quarter: {other}");
        for id in 1..=20 {
            most(&mut credits, at(2), id, host(1));
        }
        assert_eq!(most(&mut credits, at(2), 99, host(2)), 64 + 375);
    }

    #[test]
    fn a_credit_that_is_not_used_is_free_for_others() {
        let mut credits = Credits::new(1000);
        assert_eq!(most(&mut credits, at(1), 1, host(1)), 627);
        assert!(most(&mut credits, at(100), 2, host(1)) < 400);
        assert_eq!(most(&mut credits, at(2_200), 2, host(1)), 627);
    }

    #[test]
    fn the_smallest_buffer_takes_one_call_at_a_time() {
        for calls in 0..10 {
            let mut credits = Credits::new(calls);
            assert_eq!(credits.initial(), 1);
            assert!(most(&mut credits, at(1), 1, host(1)) <= calls.max(1));
        }
    }
}
