//! A bound on the memory for OUT arguments.

use crate::locked::locked;
use std::sync::Mutex;
use stoop_exchange::shares::{Owner, Owners, Pool};

/// The memory for OUT arguments of the calls that run, shared among the hosts of their callers. Callers ask for it with a few bytes, so
/// it is bounded.
#[derive(Debug)]
pub(super) struct OutBudget(Mutex<Shares>);

#[derive(Debug)]
struct Shares {
    bytes: Pool,
    owners: Owners<usize>,
}

impl OutBudget {
    pub(super) fn new(most: usize) -> Self {
        Self(Mutex::new(Shares { bytes: Pool::new(most), owners: Owners::default() }))
    }

    /// Takes `bytes` for a host. `false`: it has its share.
    pub(super) fn take(&self, owner: Owner, bytes: usize) -> bool {
        let Shares { bytes: pool, owners } = &mut *locked(&self.0);
        let place = owners.enter(owner);
        let taken = pool.take(owners.counts_mut(place), bytes);
        if !taken {
            owners.leave(place);
        }
        taken
    }

    /// Gives back what was [taken](Self::take).
    pub(super) fn give_back(&self, owner: Owner, bytes: usize) {
        let Shares { bytes: pool, owners } = &mut *locked(&self.0);
        let place = owners.find(owner).expect("a host that holds memory is an owner");
        pool.give_back(owners.counts_mut(place), bytes);
        owners.leave(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_leaves_memory_to_others_and_gets_it_again() {
        let budget = OutBudget::new(1024);
        let (greedy, other) = (Owner::user(1), Owner::user(2));
        assert!(budget.take(greedy, 768) && !budget.take(greedy, 1));
        assert!(budget.take(other, 128) && !budget.take(other, 128));
        budget.give_back(greedy, 768);
        assert!(budget.take(other, 128));
        budget.give_back(other, 128);
        budget.give_back(other, 128);
        let shares = locked(&budget.0);
        assert!(shares.owners.is_empty() && shares.bytes.held() == 0);
    }
}
