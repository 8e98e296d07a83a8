//! The calls of an endpoint that have not been answered, and its counters of calls.

use crate::serving::counters::{Refusals, ServerCounters};
use crate::serving::drain::wait_for_readers;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Calls that run, and whether the server shuts down.
#[derive(Default)]
pub(crate) struct Activity {
    /// Calls that have arrived and are not answered.
    active: AtomicUsize,
    is_shutting_down: AtomicBool,
    /// Guards nothing: for a thread that waits until all calls are answered.
    quiet: Mutex<()>,
    ended: Condvar,
    pub(crate) calls: AtomicU64,
    pub(crate) refused: Refusals,
    pub(crate) malformed: AtomicU64,
}

/// A server that shuts down does not wait for readers that have taken nothing for so long.
const READERS_QUIET: Duration = Duration::from_secs(5);

impl Activity {
    /// Counts a call that has arrived. `false`: the server shuts down, and the call is to be refused and [ended](Self::end_call).
    #[inline]
    pub(crate) fn begin_call(&self) -> bool {
        // Counted first: then the thread that shuts down waits for the call, or the call sees that the server shuts down.
        self.active.fetch_add(1, Ordering::SeqCst);
        !self.is_shutting_down()
    }

    /// Counts calls that have arrived with one that has [begun](Self::begin_call) and not ended.
    pub(crate) fn begin_more_calls(&self, calls: usize) {
        self.active.fetch_add(calls, Ordering::SeqCst);
    }

    /// A call has been answered.
    #[inline]
    pub(crate) fn end_call(&self) {
        self.end_calls(1);
    }

    /// Calls have been answered.
    #[inline]
    pub(crate) fn end_calls(&self, calls: usize) {
        if self.active.fetch_sub(calls, Ordering::SeqCst) == calls {
            self.announce_end();
        }
    }

    /// Whether all calls that have arrived are answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// Something for which [`drain`](Self::drain) may wait has happened.
    pub(crate) fn announce_end(&self) {
        if self.is_shutting_down() {
            drop(self.quiet.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down.load(Ordering::SeqCst)
    }

    /// Refuses calls and binds from now on.
    pub(crate) fn shut_down(&self) {
        self.is_shutting_down.store(true, Ordering::SeqCst);
    }

    /// Waits until all calls are answered, and until the callers have read the answers or have stopped reading: until `unread` is
    /// `None` or stays the same.
    pub(crate) fn drain(&self, unread: impl Fn() -> Option<u64>) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = |_: &mut ()| self.active.load(Ordering::SeqCst) > 0;
        let quiet = self.ended.wait_while(quiet, is_active).unwrap_or_else(PoisonError::into_inner);
        wait_for_readers(quiet, &self.ended, READERS_QUIET, |()| unread());
    }

    /// The counters at this moment.
    pub(crate) fn counters(&self) -> ServerCounters {
        let refusals = self.refused.copy();
        ServerCounters {
            calls: self.calls.load(Ordering::Relaxed),
            refused: refusals.sum(),
            refusals,
            malformed: self.malformed.load(Ordering::Relaxed),
            ..ServerCounters::default()
        }
    }
}
