//! The receive role: one word that says which thread receives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use stoop_net::fence;

/// A state, and above it a number that tells one absence of the receiving worker from another.
pub(crate) struct Role(AtomicU64);

/// A worker receives.
pub(crate) const HELD: u64 = 0;
/// The background thread receives, because no worker was free.
pub(crate) const BACKGROUND: u64 = 1;
/// The worker with the role runs a procedure.
pub(crate) const AWAY: u64 = 2;
pub(crate) const STATE: u64 = 3;
const ONE_ABSENCE: u64 = 4;

impl Role {
    /// A first worker receives.
    pub(crate) fn held() -> Self {
        Self(AtomicU64::new(HELD))
    }

    /// The worker goes to run a procedure. The returned word is its claim to the role.
    #[inline]
    pub(crate) fn leave(&self) -> u64 {
        let word = self.0.load(Ordering::Relaxed).wrapping_add(ONE_ABSENCE);
        let claim = word & !STATE | AWAY;
        // A store is enough: while the role is held, only its worker changes the word.
        self.0.store(claim, Ordering::Release);
        // Pairs with that in `WorkerPool::fall_asleep`: the worker looks next whether the background thread sleeps.
        fence::light();
        claim
    }

    /// Changes the state of `word`, unless the word has changed meanwhile. Returns whether it did.
    #[inline]
    pub(crate) fn change(&self, word: u64, state: u64) -> bool {
        let changed = word & !STATE | state;
        self.0.compare_exchange(word, changed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn word(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn is_with_background(&self) -> bool {
        self.word() & STATE == BACKGROUND
    }
}

/// The request of a thread that is no worker for the role: of one thread at a time.
pub(super) struct Request {
    pub(super) thread: Thread,
    pub(super) is_granted: bool,
}
