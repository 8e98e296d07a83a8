//! The calls of an endpoint that have not been answered, and its counters.

use crate::serving::counters::ServerCounters;
use crate::serving::drain::wait_for_readers;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Calls that run, and whether the server shuts down.
#[derive(Default)]
pub(crate) struct Activity {
    active: AtomicUsize,
    is_shutting_down: AtomicBool,
    /// Guards nothing: for a thread that waits until all calls are answered.
    quiet: Mutex<()>,
    ended: Condvar,
    pub(crate) calls: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) duplicates: AtomicU64,
}

/// A server that shuts down does not wait for readers that have taken nothing for so long.
const READERS_QUIET: Duration = Duration::from_secs(5);

impl Activity {
    /// Counts a call that has arrived. `false`: the server shuts down; the call is not counted and is to be dropped.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        // Counted first: then the thread that shuts down waits for the call, or the call sees that the server shuts down.
        self.active.fetch_add(1, Ordering::SeqCst);
        let begins = !self.is_shutting_down();
        if !begins {
            self.end();
        }
        begins
    }

    /// A call has been answered.
    #[inline]
    pub(crate) fn end(&self) {
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 && self.is_shutting_down() {
            drop(self.quiet.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    /// Whether no call runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down.load(Ordering::SeqCst)
    }

    pub(crate) fn shut_down(&self) {
        self.is_shutting_down.store(true, Ordering::SeqCst);
    }

    /// Waits until all calls are answered, and until `unread` is `None` or stays the same.
    pub(crate) fn drain(&self, unread: impl Fn() -> Option<u64>) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = |_: &mut ()| self.active.load(Ordering::SeqCst) > 0;
        let quiet = self.ended.wait_while(quiet, is_active).unwrap_or_else(PoisonError::into_inner);
        wait_for_readers(quiet, &self.ended, READERS_QUIET, |()| unread());
    }

    pub(crate) fn counters(&self, connections: u64) -> ServerCounters {
        let mut counters = ServerCounters {
            calls: self.calls.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
            bindings: connections,
            ..ServerCounters::default()
        };
        counters.packet.duplicates = self.duplicates.load(Ordering::Relaxed);
        counters
    }
}
