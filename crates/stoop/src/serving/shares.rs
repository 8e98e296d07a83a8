//! Shares of an address among the hosts or users of its callers, for bindings that have a connection each.

use stoop_exchange::shares::{Owner, OwnerId, Owners, Pool};

/// Connections of an owner.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// That are bindings.
    bound: usize,
    /// That are not, or not yet.
    unbound: usize,
}

/// The connections of an address: how many there may be, and how many each owner has.
#[derive(Debug)]
pub(crate) struct ConnectionShares {
    owners: Owners<Counts>,
    bound: Pool,
    unbound: usize,
    unbound_max: usize,
}

/// One unbound connection for so many bound ones.
const BOUND_PER_UNBOUND: usize = 8;

impl ConnectionShares {
    /// Shares of an address with at most so many bindings.
    pub(crate) fn new(bindings_max: usize) -> Self {
        let unbound_max = (bindings_max / BOUND_PER_UNBOUND).max(1);
        Self { owners: Owners::default(), bound: Pool::new(bindings_max), unbound: 0, unbound_max }
    }

    /// Counts a connection that is no binding yet.
    pub(crate) fn connect(&mut self, owner: Owner) -> OwnerId {
        let place = self.owners.enter(owner);
        self.owners.counts_mut(place).unbound += 1;
        self.unbound += 1;
        place
    }

    /// Makes a binding of such a connection. `false`: its owner may not have one more.
    pub(crate) fn bind(&mut self, place: OwnerId) -> bool {
        let counts = self.owners.counts_mut(place);
        let bound = self.bound.take(&mut counts.bound, 1);
        if bound {
            counts.unbound -= 1;
            self.unbound -= 1;
        }
        bound
    }

    /// The same for an owner that the connection's caller has proved to be: it has the connection from now on. `None`: it may not have one
    /// more binding.
    #[cfg(feature = "seal")]
    pub(crate) fn bind_for(&mut self, place: OwnerId, owner: Owner) -> Option<OwnerId> {
        let named = self.owners.enter(owner);
        self.owners.counts_mut(named).unbound += 1;
        if !self.bind(named) {
            self.owners.counts_mut(named).unbound -= 1;
            self.owners.leave(named);
            return None;
        }
        self.owners.counts_mut(place).unbound -= 1;
        self.owners.leave(place);
        Some(named)
    }

    /// Uncounts a connection that is closed.
    pub(crate) fn close(&mut self, place: OwnerId, was_bound: bool) {
        let counts = self.owners.counts_mut(place);
        if was_bound {
            self.bound.give_back(&mut counts.bound, 1);
        } else {
            counts.unbound -= 1;
            self.unbound -= 1;
        }
        self.owners.leave(place);
    }

    /// Whether an unbound connection has to go: there are too many.
    pub(crate) fn is_crowded(&self) -> bool {
        self.unbound > self.unbound_max
    }

    /// Unbound connections of an owner.
    pub(crate) fn unbound_of(&self, place: OwnerId) -> usize {
        self.owners.counts(place).unbound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_takes_three_quarters_of_the_bindings_and_another_still_binds() {
        let mut shares = ConnectionShares::new(64);
        let mut bind = |user| {
            let place = shares.connect(Owner::user(user));
            let bound = shares.bind(place);
            if !bound {
                shares.close(place, false);
            }
            bound
        };
        assert_eq!((0..100).filter(|_| bind(1)).count(), 48);
        assert_eq!((0..100).filter(|_| bind(2)).count(), 12);
        assert!(!bind(1));
        assert_eq!(shares.unbound, 0);
    }

    #[test]
    fn a_closed_connection_is_not_counted() {
        let mut shares = ConnectionShares::new(4);
        let places: Vec<_> = (0..3).map(|_| shares.connect(Owner::user(1))).collect();
        assert!(places.iter().all(|&place| shares.bind(place)));
        let other = shares.connect(Owner::user(1));
        assert!(!shares.bind(other));
        shares.close(places[0], true);
        assert!(shares.bind(other));
        places[1..].iter().chain([&other]).for_each(|&place| shares.close(place, true));
        assert!(shares.owners.is_empty() && shares.bound.held() == 0);
    }
}
