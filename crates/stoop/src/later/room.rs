//! How many calls of a server may be open, and how many of them each owner has.

use crate::context::owner_of;
use crate::context::serving_caller;
use crate::later::unserved::Unserved;
use crate::locked::locked;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use stoop_exchange::shares::{Owner, OwnerId, Owners, Pool};

/// The open calls of a server, at all its addresses.
pub struct OpenRoom {
    most: usize,
    /// How many there are, for [`check`](Self::check) without the lock.
    open: AtomicUsize,
    shares: Mutex<Shares>,
}

struct Shares {
    pool: Pool,
    owners: Owners<usize>,
}

/// Open calls of a server unless [`Limits::open_calls`](crate::Limits::open_calls) is set.
pub(crate) const OPEN_CALLS_MAX: usize = 65_536;

/// While less than a quarter is taken, three quarters are free, and an owner may have any of them.
const FREE_FOR_ALL: usize = 4;

/// Whether the call that this thread serves may become an open one; see [`OpenRoom::check`].
///
/// # Errors
/// It may not.
#[inline]
pub fn check_room(room: &OnceLock<Arc<OpenRoom>>) -> Result<(), Unserved> {
    room.get().map_or(Ok(()), |room| room.check())
}

impl fmt::Debug for OpenRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRoom").field("open", &self.open()).field("most", &self.most).finish()
    }
}

impl OpenRoom {
    pub(crate) fn new(most: usize) -> Self {
        let shares = Shares { pool: Pool::new(most), owners: Owners::default() };
        Self { most, open: AtomicUsize::new(0), shares: Mutex::new(shares) }
    }

    /// Whether the call that this thread serves may become an open one.
    ///
    /// # Errors
    /// It may not: there are so many, or its owner has its share of them.
    #[inline]
    pub fn check(&self) -> Result<(), Unserved> {
        match self.open() < self.most / FREE_FOR_ALL || self.has_room() {
            true => Ok(()),
            false => Err(Unserved::TooManyOpen),
        }
    }

    /// How many calls are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    #[cold]
    fn has_room(&self) -> bool {
        let owner = owner_of(&serving_caller());
        let Shares { pool, owners } = &*locked(&self.shares);
        pool.allows(owners.find(owner).map_or(0, |place| *owners.counts(place)), 1)
    }

    /// Counts one more. `None`: others have come between the [check](Self::check) and now, no more of them than workers, and it is not
    /// counted.
    pub(crate) fn enter(&self, owner: Owner) -> Option<OwnerId> {
        let Shares { pool, owners } = &mut *locked(&self.shares);
        let place = owners.enter(owner);
        if !pool.take(owners.counts_mut(place), 1) {
            owners.leave(place);
            return None;
        }
        self.open.store(pool.held(), Ordering::Relaxed);
        Some(place)
    }

    /// A call that has [entered](Self::enter) is open no longer.
    pub(crate) fn leave(&self, place: Option<OwnerId>) {
        let Some(place) = place else { return };
        let Shares { pool, owners } = &mut *locked(&self.shares);
        pool.give_back(owners.counts_mut(place), 1);
        owners.leave(place);
        self.open.store(pool.held(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Caller, serving};

    fn checks(room: &OpenRoom, caller: Caller) -> bool {
        serving(u64::MAX - 1, caller, || room.check().is_ok())
    }

    #[test]
    fn one_owner_takes_three_quarters_of_the_room_and_another_still_finds_some() {
        let room = OpenRoom::new(64);
        let caller = |host: u8| Caller::Network(([10, 0, 0, host], 7).into());
        let mut places = Vec::new();
        while checks(&room, caller(1)) {
            places.push(room.enter(owner_of(&caller(1))));
        }
        assert_eq!((places.len(), room.open()), (48, 48));
        assert!(checks(&room, caller(2)));
        places.into_iter().for_each(|place| room.leave(place));
        assert!(checks(&room, caller(1)) && room.open() == 0);
    }
}
