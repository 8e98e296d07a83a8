//! The cancelled calls among those that this process serves.
//!
//! A list holds each cancelled call until it has ended. While the list is empty, a look at it costs one load.

use crate::context::keeper;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stoop_wire::{BindingId, CallNumber, LaneId};

/// Identifies a call among all that this process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId {
    binding: BindingId,
    call: u64,
}

impl CallId {
    /// Stands for a call that cannot be cancelled.
    pub(crate) const NONE: Self = Self { binding: BindingId::NONE, call: 0 };

    /// A call that arrived on a binding of a server of this process.
    #[inline]
    pub(crate) fn new(binding: BindingId, lane: LaneId, number: CallNumber) -> Self {
        Self { binding, call: u64::from(lane.0) << 32 | u64::from(number.0) }
    }

    /// The binding on which the call arrived.
    pub(crate) fn binding(self) -> BindingId {
        self.binding
    }

    /// The least and the greatest of a binding.
    pub(crate) fn all_of(binding: BindingId) -> (Self, Self) {
        (Self { binding, call: 0 }, Self { binding, call: u64::MAX })
    }

    /// A begun `local:` call; `number` counts from 1.
    pub(crate) fn local(number: u64) -> Self {
        Self { binding: BindingId::NONE, call: number }
    }
}

/// Length of `LIST`. Changes under its lock only.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Calls that were ever put on the list.
static CANCELS: AtomicU64 = AtomicU64::new(0);
static LIST: Mutex<BTreeSet<CallId>> = Mutex::new(BTreeSet::new());

fn list() -> MutexGuard<'static, BTreeSet<CallId>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a call on the list because its caller no longer waits. The calling code holds the lock under which the call ends, so that
/// the call cannot end meanwhile; otherwise it would stay on the list for ever.
#[cold]
pub(crate) fn cancel(call: CallId) {
    let mut list = list();
    list.insert(call);
    COUNT.store(list.len(), Ordering::Release);
    CANCELS.fetch_add(1, Ordering::Release);
    drop(list);
    keeper::end_call(call);
}

/// How many calls have been cancelled. A thread that sees a new number finds those calls on the list until they have ended.
#[inline]
pub(crate) fn cancels() -> u64 {
    CANCELS.load(Ordering::Acquire)
}

/// Whether the list has an entry. Sees every [`cancel`] that was made under a lock which the calling thread has taken since.
#[inline]
pub(crate) fn is_any() -> bool {
    // Only spares the lock of the list, under which all else is read.
    COUNT.load(Ordering::Relaxed) > 0
}

/// Whether the call is on the list.
#[inline]
pub(crate) fn is_cancelled(call: CallId) -> bool {
    is_any() && list().contains(&call)
}

/// Takes a call that has ended off the list. The calling code holds the lock under which the call can be cancelled, so that no
/// [`cancel`] follows.
#[inline]
pub(crate) fn ended(call: CallId) {
    if is_any() {
        remove(call);
    }
}

#[cold]
fn remove(call: CallId) {
    let mut list = list();
    list.remove(&call);
    COUNT.store(list.len(), Ordering::Release);
}

/// Number of the binding's calls on the list.
#[cfg(test)]
pub(crate) fn count_of(binding: BindingId) -> usize {
    list().iter().filter(|call| call.binding == binding).count()
}

#[cfg(test)]
mod tests {
    use crate::context::cancelled::*;

    #[test]
    fn a_call_is_on_the_list_from_its_cancel_to_its_end() {
        let call = |number| CallId::new(BindingId(7), LaneId(u16::MAX), CallNumber(number));
        cancel(call(u32::MAX));
        cancel(call(u32::MAX));
        assert!(is_cancelled(call(u32::MAX)));
        assert!(!is_cancelled(call(1)) && !is_cancelled(CallId::NONE));
        ended(call(1));
        assert!(is_cancelled(call(u32::MAX)));
        ended(call(u32::MAX));
        assert!(!is_cancelled(call(u32::MAX)));
    }
}
