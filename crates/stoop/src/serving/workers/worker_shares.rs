//! The workers of a pool as a resource that owners share: how many calls each owner runs that keep a worker busy.
//!
//! Calls of short procedures are not counted: their worker is free again before another could be woken.

use std::collections::BTreeMap;
use stoop_exchange::shares::{Owner, Pool};

/// Calls of each owner that keep a worker busy.
#[derive(Debug)]
pub(super) struct WorkerShares {
    pool: Pool,
    running: BTreeMap<Owner, usize>,
    /// The same of each binding.
    of_parts: BTreeMap<(Owner, u64), usize>,
}

/// A pool with fewer workers has none in reserve: one owner may have all of them.
const SHARED_MIN: usize = 4;
/// In a pool with at least half as many workers, one in so many is kept, of those that an owner may have, for a binding of its that has
/// none: slow calls of one binding hold up no other.
const KEPT_PART: usize = 16;

impl WorkerShares {
    pub(super) fn new(workers: usize) -> Self {
        Self { pool: Pool::new(workers), running: BTreeMap::new(), of_parts: BTreeMap::new() }
    }

    /// Whether one more call of this binding of the owner may have a worker.
    pub(super) fn allows(&self, owner: Owner, part: u64) -> bool {
        let has_none = !self.of_parts.contains_key(&(owner, part));
        self.allows_beside(owner, if has_none { 0 } else { self.kept() })
    }

    /// Whether the owner may have a worker more, and so many others beside.
    fn allows_beside(&self, owner: Owner, others: usize) -> bool {
        let running = self.running.get(&owner).copied().unwrap_or(0);
        match self.pool.total() < SHARED_MIN {
            true => self.pool.free() > 0,
            false => self.pool.allows(running, 1 + others),
        }
    }

    /// Workers of an owner that are kept for its bindings without any.
    fn kept(&self) -> usize {
        self.pool.total().saturating_add(KEPT_PART / 2) / KEPT_PART
    }

    /// Counts a call that has a worker, whether it may have it or not. Returns whether it is counted: there may be a call more than
    /// workers, when the background thread has learnt late of one.
    pub(super) fn begin(&mut self, owner: Owner, part: u64) -> bool {
        let is_counted = self.pool.free() > 0;
        if is_counted {
            self.pool.take_freed(self.running.entry(owner).or_default(), 1);
            *self.of_parts.entry((owner, part)).or_default() += 1;
        }
        is_counted
    }

    /// A call that was counted has ended.
    pub(super) fn end(&mut self, owner: Owner, part: u64) {
        let Some(running) = self.running.get_mut(&owner) else { return };
        self.pool.give_back(running, 1);
        if *running == 0 {
            self.running.remove(&owner);
        }
        if let Some(of_part) = self.of_parts.get_mut(&(owner, part)) {
            *of_part -= 1;
            if *of_part == 0 {
                self.of_parts.remove(&(owner, part));
            }
        }
    }

    /// Calls that keep a worker busy.
    pub(super) fn running(&self) -> usize {
        self.pool.held()
    }

    /// Whether some binding may have no more workers.
    pub(super) fn is_crowded(&self) -> bool {
        self.running.keys().any(|owner| !self.allows_beside(*owner, self.kept()))
    }
}
