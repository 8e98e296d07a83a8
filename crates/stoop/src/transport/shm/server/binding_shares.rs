//! How many bindings of an address each user has.

use crate::context::Caller;
use crate::context::owner_of;
use crate::locked::locked;
use std::sync::{Arc, Mutex};
use stoop_exchange::shares::{OwnerId, Owners, Pool};

/// The bindings of an address, counted by user. Those whose callers do not have their memory yet count, too.
#[derive(Debug)]
pub(super) struct BindingShares(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    pool: Pool,
    owners: Owners<usize>,
}

/// The place of one binding. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct BindingShare {
    shares: Arc<BindingShares>,
    owner: OwnerId,
}

impl BindingShares {
    /// Of an address with at most so many bindings; `None`: only the descriptors of the process limit them.
    pub(super) fn new(most: Option<usize>) -> Arc<Self> {
        let pool = Pool::new(most.unwrap_or(usize::MAX));
        Arc::new(Self(Mutex::new(Counts { pool, owners: Owners::default() })))
    }

    /// Counts one more binding of this caller's user; `None`: the user has its share.
    pub(super) fn take(self: &Arc<Self>, caller: &Caller) -> Option<BindingShare> {
        let Counts { pool, owners } = &mut *locked(&self.0);
        let owner = owners.enter(owner_of(caller));
        if pool.take(owners.counts_mut(owner), 1) {
            return Some(BindingShare { shares: Arc::clone(self), owner });
        }
        owners.leave(owner);
        None
    }
}

impl Drop for BindingShare {
    fn drop(&mut self) {
        let Counts { pool, owners } = &mut *locked(&self.shares.0);
        pool.give_back(owners.counts_mut(self.owner), 1);
        owners.leave(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_three_quarters_of_the_bindings_and_gives_each_back() {
        let shares = BindingShares::new(Some(8));
        let mut held: Vec<_> = (0..20).filter_map(|_| shares.take(&Caller::Local)).collect();
        assert_eq!(held.len(), 6);
        held.pop();
        assert!(shares.take(&Caller::Local).is_some(), "one was given back");
        held.clear();
        let counts = locked(&shares.0);
        assert!(counts.pool.held() == 0 && counts.owners.is_empty());
    }

    #[test]
    fn without_a_limit_only_the_system_limits() {
        let shares = BindingShares::new(None);
        assert_eq!((0..5000).filter_map(|_| shares.take(&Caller::Local)).collect::<Vec<_>>().len(), 5000);
    }
}
