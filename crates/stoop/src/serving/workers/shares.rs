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
}

/// A pool with fewer workers has none in reserve: one owner may have all of them.
const SHARED_MIN: usize = 4;

impl WorkerShares {
    pub(super) fn new(workers: usize) -> Self {
        Self { pool: Pool::new(workers), running: BTreeMap::new() }
    }

    /// Whether one more call of this owner may have a worker.
    pub(super) fn allows(&self, owner: Owner) -> bool {
        let running = self.running.get(&owner).copied().unwrap_or(0);
        match self.pool.total() < SHARED_MIN {
            true => self.pool.free() > 0,
            false => self.pool.allows(running, 1),
        }
    }

    /// Counts a call that has a worker, whether it may have it or not. Returns whether it is counted: there may be a call more than
    /// workers, when the background thread has learnt late of one.
    pub(super) fn begin(&mut self, owner: Owner) -> bool {
        let is_counted = self.pool.free() > 0;
        if is_counted {
            self.pool.take_freed(self.running.entry(owner).or_default(), 1);
        }
        is_counted
    }

    /// A call that was counted has ended.
    pub(super) fn end(&mut self, owner: Owner) {
        let Some(running) = self.running.get_mut(&owner) else { return };
        self.pool.give_back(running, 1);
        if *running == 0 {
            self.running.remove(&owner);
        }
    }

    /// Calls that keep a worker busy.
    pub(super) fn running(&self) -> usize {
        self.pool.held()
    }

    /// Whether some owner may have no more workers.
    pub(super) fn is_crowded(&self) -> bool {
        self.running.keys().any(|owner| !self.allows(*owner))
    }
}
