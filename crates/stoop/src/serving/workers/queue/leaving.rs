//! The calls that leave the queue without a worker: overdue ones, cancelled ones, and those of bindings from which nothing is heard.

use crate::context::cancelled;
use crate::serving::workers::queue::{CallQueue, Place, Waiting};
use std::collections::VecDeque;
use std::mem;
use stoop_exchange::shares::Owner;

/// A refusal leaves before the deadline by this part of the time that the call had, but at most by so much.
const EARLY_PART: u64 = 16;
const EARLY_MAX_NS: u64 = 20_000_000;

/// An owner with at most one in so many places of the queue keeps them even if nothing is heard from it.
const LITTLE: usize = 64;

/// An owner and one of its bindings.
pub(in crate::serving::workers) type OwnersBinding = (Owner, u64);

impl Waiting {
    /// When it is to be refused if it waits then: so early that its caller learns that it has not run. At the deadline the caller
    /// would stop waiting, and not know it.
    pub(super) fn overdue_ns(&self) -> u64 {
        let deadline_ns = self.terms.deadline_ns;
        deadline_ns - (deadline_ns.saturating_sub(self.since_ns) / EARLY_PART).min(EARLY_MAX_NS)
    }
}

impl CallQueue {
    /// Time until a waiting call may be overdue.
    pub(in crate::serving::workers) fn until_overdue_ns(&self, now_ns: u64) -> u64 {
        self.overdue_ns.saturating_sub(now_ns)
    }

    /// Takes out all calls that are to be refused now.
    pub(in crate::serving::workers) fn take_overdue(&mut self, now_ns: u64) -> Vec<Place> {
        if now_ns < self.overdue_ns {
            return Vec::new();
        }
        let overdue = self.take_all(|waiting| waiting.overdue_ns() <= now_ns);
        self.overdue_ns = self.all().map(Waiting::overdue_ns).min().unwrap_or(u64::MAX);
        self.counters.overdue += overdue.len() as u64;
        overdue
    }

    /// Takes out all calls that were [cancelled].
    pub(in crate::serving::workers) fn take_cancelled(&mut self) -> Vec<Place> {
        self.take_all(|waiting| cancelled::is_cancelled(waiting.terms.call))
    }

    /// The bindings with waiting calls of each owner that has more than one in [`LITTLE`] places.
    pub(in crate::serving::workers) fn bindings_of_large_owners(&self) -> Vec<OwnersBinding> {
        let of_large = self.all().map(|waiting| (waiting.terms.owner, waiting.terms.part));
        let is_large = |owner: &Owner| self.waiting.get(owner).is_some_and(|it| *it > self.len_max / LITTLE);
        let mut bindings: Vec<_> = of_large.filter(|(owner, _)| is_large(owner)).collect();
        bindings.sort_unstable();
        bindings.dedup();
        bindings
    }

    /// Takes out all calls of a binding.
    pub(in crate::serving::workers) fn take_all_of(&mut self, binding: OwnersBinding) -> Vec<Place> {
        let taken = self.take_all(|waiting| (waiting.terms.owner, waiting.terms.part) == binding);
        self.counters.abandoned += taken.len() as u64;
        taken
    }

    fn all(&self) -> impl Iterator<Item = &Waiting> {
        let owners = self.classes.values().flat_map(|class| class.owners.values());
        owners.flat_map(|parts| parts.values()).flatten()
    }

    /// Takes out the calls that are to leave.
    fn take_all(&mut self, leaves: impl Fn(&Waiting) -> bool) -> Vec<Place> {
        let mut taken = Vec::new();
        for class in self.classes.values_mut() {
            class.owners.retain(|parts| {
                parts.retain(|calls| {
                    // Few leave as a rule, and the others stay where they are in memory.
                    if calls.iter().any(&leaves) {
                        let (leaving, staying): (VecDeque<_>, _) =
                            mem::take(calls).into_iter().partition(&leaves);
                        *calls = staying;
                        taken.extend(leaving);
                    }
                    !calls.is_empty()
                });
                !parts.is_empty()
            });
        }
        self.classes.retain(|_, class| !class.owners.is_empty());
        let count_out = |Waiting { call, terms, .. }| {
            self.count_out(&terms);
            call
        };
        taken.into_iter().map(count_out).collect()
    }
}
