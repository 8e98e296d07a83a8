//! How many calls of a server may be open, how many tasks and how many bytes of their arguments it may have, and the share of each owner.

use crate::context::serving_owner;
use crate::later::unserved::Unserved;
use crate::locked::locked;
use crate::metadata::served;
use crate::pipes::served::Served;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use stoop_exchange::shares::{Owner, OwnerId, Owners, Pool};

/// The open calls and the tasks of a server, at all its addresses.
pub struct OpenRoom {
    most: usize,
    /// How many there are, for [`check`](Self::check) without the lock.
    open: AtomicUsize,
    /// The pipes of those calls.
    pipes: AtomicUsize,
    pub(crate) served: Arc<Served>,
    shares: Mutex<Shares>,
}

struct Shares {
    calls: Pool,
    bytes: Pool,
    owners: Owners<Counts>,
}

/// What an owner has: open calls and tasks, and bytes of long arguments and metadata that they keep.
#[derive(Default)]
struct Counts {
    calls: usize,
    bytes: usize,
}

/// Arguments of so many bytes are not counted: those of all tasks together are few beside what else a task takes.
const UNCOUNTED_MAX: usize = 1024;

/// Open calls of a server unless [`Limits::open_calls`](crate::Limits::open_calls) is set.
pub(crate) const OPEN_CALLS_MAX: usize = 65_536;

/// How long a procedure waits for room in a pipe unless [`Limits::pipe_step`](crate::Limits::pipe_step) is set.
const PIPE_STEP_NS: u64 = 30_000_000_000;

/// While less than a quarter is taken, three quarters are free, and an owner may have any of them.
const FREE_FOR_ALL: usize = 4;

/// Whether the call that this thread serves may become an open one; see [`OpenRoom::check`].
///
/// # Errors
/// It may not.
#[inline]
pub fn check_room(room: &OnceLock<Arc<OpenRoom>>) -> Result<(), Unserved> {
    let Some(room) = room.get() else { return Ok(()) };
    room.check()?;
    served::count(|len| room.take_if_long(len))
}

/// Keeps the arguments of the call that this thread serves, which may become an open one.
///
/// # Errors
/// It may not, or its owner has its share of the memory for arguments that are kept.
#[inline]
pub fn keep_arguments(room: &OnceLock<Arc<OpenRoom>>, arguments: &[u8]) -> Result<KeptArguments, Unserved> {
    check_room(room)?;
    let counted = room.get().map_or(Ok(None), |room| room.take_if_long(arguments.len()))?;
    Ok(KeptArguments { bytes: arguments.into(), _counted: counted })
}

/// A copy of the arguments of a call, for a task.
#[derive(Debug)]
pub struct KeptArguments {
    bytes: Vec<u8>,
    _counted: Option<Place>,
}

impl Deref for KeptArguments {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// So much of the room, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<OpenRoom>,
    owner: OwnerId,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        match self.bytes {
            0 => self.room.leave(Some(self.owner)),
            bytes => self.room.give_bytes_back(self.owner, bytes),
        }
    }
}

impl fmt::Debug for OpenRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRoom").field("open", &self.open()).field("most", &self.most).finish()
    }
}

impl OpenRoom {
    /// Room for so many open calls and tasks, and for so many bytes of arguments.
    pub(crate) fn new(most: usize, bytes: usize) -> Self {
        let shares = Shares { calls: Pool::new(most), bytes: Pool::new(bytes), owners: Owners::default() };
        Self {
            most,
            open: AtomicUsize::new(0),
            pipes: AtomicUsize::new(0),
            served: Arc::new(Served::new(PIPE_STEP_NS)),
            shares: Mutex::new(shares),
        }
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

    /// How many calls are open, with the tasks whose calls are over.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// With so much time for each wait for room in a pipe, if it is set.
    pub(crate) fn with_pipe_step(mut self, step: Option<Duration>) -> Self {
        let nanos = step.map(|step| u64::try_from(step.as_nanos()).unwrap_or(u64::MAX));
        self.served = Arc::new(Served::new(nanos.unwrap_or(PIPE_STEP_NS)));
        self
    }

    /// How many pipes the open calls have.
    pub(crate) fn pipes(&self) -> usize {
        self.pipes.load(Ordering::Relaxed)
    }

    /// A call with so many pipes is open, or is no longer.
    pub(crate) fn count_pipes(&self, pipes: usize, begins: bool) {
        match begins {
            true => self.pipes.fetch_add(pipes, Ordering::Relaxed),
            false => self.pipes.fetch_sub(pipes, Ordering::Relaxed),
        };
    }

    #[cold]
    fn has_room(&self) -> bool {
        let owner = serving_owner();
        let Shares { calls, owners, .. } = &*locked(&self.shares);
        calls.allows(owners.find(owner).map_or(0, |place| owners.counts(place).calls), 1)
    }

    /// Counts one more. `None`: others have come between the [check](Self::check) and now, no more of them than workers, and it is not
    /// counted.
    pub(crate) fn enter(&self, owner: Owner) -> Option<OwnerId> {
        let Shares { calls, owners, .. } = &mut *locked(&self.shares);
        let place = owners.enter(owner);
        if !calls.take(&mut owners.counts_mut(place).calls, 1) {
            owners.leave(place);
            return None;
        }
        self.open.store(calls.held(), Ordering::Relaxed);
        Some(place)
    }

    /// [`enter`](Self::enter), of the call that this thread serves, until the place is dropped.
    pub(crate) fn enter_task(self: &Arc<Self>) -> Option<Place> {
        let owner = self.enter(serving_owner())?;
        Some(Place { room: Arc::clone(self), owner, bytes: 0 })
    }

    /// Takes so many bytes, if they are [counted](UNCOUNTED_MAX).
    #[inline]
    fn take_if_long(self: &Arc<Self>, len: usize) -> Result<Option<Place>, Unserved> {
        if len > UNCOUNTED_MAX { self.take_bytes(len).map(Some) } else { Ok(None) }
    }

    #[cold]
    fn take_bytes(self: &Arc<Self>, len: usize) -> Result<Place, Unserved> {
        let Shares { bytes, owners, .. } = &mut *locked(&self.shares);
        let owner = owners.enter(serving_owner());
        if !bytes.take(&mut owners.counts_mut(owner).bytes, len) {
            owners.leave(owner);
            return Err(Unserved::TooManyOpen);
        }
        Ok(Place { room: Arc::clone(self), owner, bytes: len })
    }

    fn give_bytes_back(&self, owner: OwnerId, len: usize) {
        let Shares { bytes, owners, .. } = &mut *locked(&self.shares);
        bytes.give_back(&mut owners.counts_mut(owner).bytes, len);
        owners.leave(owner);
    }

    /// A call that has [entered](Self::enter) is open no longer.
    pub(crate) fn leave(&self, place: Option<OwnerId>) {
        let Some(place) = place else { return };
        let Shares { calls, owners, .. } = &mut *locked(&self.shares);
        calls.give_back(&mut owners.counts_mut(place).calls, 1);
        owners.leave(place);
        self.open.store(calls.held(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Caller, owner_of, serving};

    fn checks(room: &OpenRoom, caller: Caller) -> bool {
        serving(u64::MAX - 1, caller, || room.check().is_ok())
    }

    #[test]
    fn one_owner_takes_three_quarters_of_the_room_and_another_still_finds_some() {
        let room = OpenRoom::new(64, 0);
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
