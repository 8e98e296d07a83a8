//! The receive role: one word that says who receives.

use std::sync::atomic::{AtomicU64, Ordering};
use stoop_net::fence;

/// Who receives: a state, and above it a number that tells one absence of a calls from another.
pub(crate) struct Role(AtomicU64);

/// A worker receives.
pub(crate) const HELD: u64 = 0;
/// The background has the role, because no worker was free.
pub(crate) const KEPT: u64 = 1;
/// The calls is in a procedure.
pub(crate) const AWAY: u64 = 2;
pub(crate) const STATE: u64 = 3;
const ONE_ABSENCE: u64 = 4;

impl Role {
    /// A first worker receives.
    pub(crate) fn held() -> Self {
        Self(AtomicU64::new(HELD))
    }

    /// The calls goes to run a procedure. The returned word is its claim to the role.
    #[inline]
    pub(crate) fn leave(&self) -> u64 {
        let word = self.0.load(Ordering::Relaxed).wrapping_add(ONE_ABSENCE);
        let claim = word & !STATE | AWAY;
        // A store is enough: while the role is held, nobody but its calls changes the word.
        self.0.store(claim, Ordering::Release);
        // Pairs with that in `WorkerPool::fall_asleep`: the background's sleep is looked at next.
        fence::light();
        claim
    }

    /// Goes from `word` to the same word with another state, unless it has changed meanwhile.
    #[inline]
    pub(crate) fn turn(&self, word: u64, state: u64) -> bool {
        let turned = word & !STATE | state;
        self.0.compare_exchange(word, turned, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn word(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.word() & STATE == KEPT
    }
}
