//! Which of the calls that this process serves have been cancelled by their callers.
//!
//! A call that is never cancelled costs what it takes to see that none is: one load. A cancelled one is on a list until
//! it has ended, and who wants to know looks there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stoop_wire::{BindingId, CallNumber, LaneId};

/// One of all the calls that this process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId {
    binding: BindingId,
    call: u64,
}

impl CallId {
    /// A call that nobody can cancel.
    pub(crate) const NONE: Self = Self { binding: BindingId::NONE, call: 0 };

    /// A call that arrived on a binding of a server of this process.
    #[inline]
    pub(crate) fn new(binding: BindingId, lane: LaneId, number: CallNumber) -> Self {
        Self { binding, call: u64::from(lane.0) << 32 | u64::from(number.0) }
    }

    /// A call that a thread of this process has begun to a server of this process, numbered from 1 on.
    pub(crate) fn local(number: u64) -> Self {
        Self { binding: BindingId::NONE, call: number }
    }
}

/// How many are on the list. Changes under its lock only.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LIST: Mutex<BTreeSet<CallId>> = Mutex::new(BTreeSet::new());

fn list() -> MutexGuard<'static, BTreeSet<CallId>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The caller no longer waits for a call. It has not ended: whoever says so keeps it from ending meanwhile, by the lock
/// under which it ends, or it would be on the list for ever.
#[cold]
pub(crate) fn cancel(call: CallId) {
    let mut list = list();
    list.insert(call);
    COUNT.store(list.len(), Ordering::Release);
}

/// Whether any call of the process has been cancelled and has not ended. If none has, none of those is on the list whose
/// [`cancel`]s came before, under a lock that whoever asks has taken since.
#[inline]
pub(crate) fn is_any() -> bool {
    // What the list guards is read under its lock; this is only to spare taking it.
    COUNT.load(Ordering::Relaxed) > 0
}

/// Whether a call has been cancelled and has not ended.
#[inline]
pub(crate) fn is_cancelled(call: CallId) -> bool {
    is_any() && list().contains(&call)
}

/// A call has ended, under the lock under which it can be cancelled: no [`cancel`] of it comes any more.
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

/// How many calls of a binding are on the list.
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
