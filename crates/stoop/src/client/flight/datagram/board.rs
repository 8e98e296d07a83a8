//! Which calls have ended, to be seen without the lock around them; and results of a few bytes, to be taken without it.
//!
//! Whoever ends a call puts it up here, under the lock. Whoever has its handle looks here first. A result that was taken
//! here leaves its slot behind, which the next call to begin finds in a list: it only grows by one or goes away as a whole,
//! so that nobody can mistake one state of it for another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::client::flight::Short;

/// Places made together.
const ROW: usize = 256;
/// Rows: a place for each lane that a binding can have.
const ROWS: usize = (u16::MAX as usize + 1) / ROW;

/// A place for each slot.
pub(super) struct Board {
    rows: [OnceLock<Box<[Place; ROW]>>; ROWS],
    /// The last of the calls whose results were taken here and whose slots have not been reclaimed.
    taken: AtomicU32,
}

struct Place {
    state: AtomicU32,
    /// The call in the list of those taken before this one.
    next: AtomicU32,
    /// A short result.
    bytes: AtomicU64,
}

/// It has not ended, or there is none.
const OPEN: u32 = 0;
/// It has ended; how, is known under the lock.
const ENDED: u32 = 1;
/// It has ended with a result of this many bytes less than the state.
const SHORT: u32 = 2;

/// The end of the list.
const NONE: u32 = u32::MAX;

impl Place {
    const fn empty() -> Self {
        Self { state: AtomicU32::new(OPEN), next: AtomicU32::new(NONE), bytes: AtomicU64::new(0) }
    }
}

impl Default for Board {
    fn default() -> Self {
        Self { rows: [const { OnceLock::new() }; ROWS], taken: AtomicU32::new(NONE) }
    }
}

impl Board {
    #[inline]
    fn place(&self, call: u32) -> &Place {
        let row = self.rows[call as usize / ROW % ROWS].get().expect("every slot has a place");
        &row[call as usize % ROW]
    }

    /// Makes a place for a new slot. `false`: there are places for no more.
    pub(super) fn make(&self, call: u32) -> bool {
        let Some(row) = self.rows.get(call as usize / ROW) else { return false };
        row.get_or_init(|| Box::new([const { Place::empty() }; ROW]));
        true
    }

    /// A call begins in that slot. Under the lock, as everything up to `end_short`.
    #[inline]
    pub(super) fn open(&self, call: u32) {
        // Its handle, which alone looks here, is made afterwards.
        self.place(call).state.store(OPEN, Ordering::Relaxed);
    }

    /// It has ended, and its outcome is in the slot.
    #[inline]
    pub(super) fn end(&self, call: u32) {
        // What it ended with is read under the lock.
        self.place(call).state.store(ENDED, Ordering::Relaxed);
    }

    /// It has ended with that result, if that is short enough.
    #[inline]
    pub(super) fn end_short(&self, call: u32, result: &[u8]) -> bool {
        let Some(short) = Short::of(result) else { return false };
        let place = self.place(call);
        place.bytes.store(short.to_bits(), Ordering::Relaxed);
        // Publishes the bytes; pairs with the Acquire in `take`.
        place.state.store(SHORT + short.len(), Ordering::Release);
        true
    }

    /// Whether it has ended.
    #[inline]
    pub(super) fn has_ended(&self, call: u32) -> bool {
        self.place(call).state.load(Ordering::Relaxed) != OPEN
    }

    /// The result of a call that has ended with a short one, once, for its handle. The slot is left to
    /// [`reclaim`](Self::reclaim).
    #[inline]
    pub(super) fn take(&self, call: u32) -> Option<Short> {
        let place = self.place(call);
        let len = place.state.load(Ordering::Acquire).checked_sub(SHORT)?;
        let short = Short::from_bits(place.bytes.load(Ordering::Relaxed), len);
        let mut before = self.taken.load(Ordering::Relaxed);
        loop {
            place.next.store(before, Ordering::Relaxed);
            // Publishes the link, and that the result has been read; pairs with the Acquire in `reclaim`.
            match self.taken.compare_exchange_weak(before, call, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(short),
                Err(now) => before = now,
            }
        }
    }

    /// The slots that results have left since this was last asked, into `free`. Under the lock.
    pub(super) fn reclaim(&self, free: &mut Vec<u32>) {
        // Each of the links was published by a Release on this word, and all later ones continue it.
        let mut call = self.taken.swap(NONE, Ordering::Acquire);
        while call != NONE {
            free.push(call);
            call = self.place(call).next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_short_result_is_taken_once_it_is_there_and_its_slot_reclaimed_once() {
        let board = Board::default();
        assert!(board.make(0) && board.make(300));
        board.open(300);
        assert!(!board.has_ended(300) && board.take(300).is_none());
        assert!(board.end_short(300, &[1, 2, 3]) && board.has_ended(300));
        assert_eq!(board.take(300).unwrap().bytes(), [1, 2, 3]);
        assert!(board.end_short(0, &[]) && board.take(0).unwrap().bytes().is_empty());
        let mut free = Vec::new();
        board.reclaim(&mut free);
        assert_eq!(free, [0, 300]);
        board.reclaim(&mut free);
        assert_eq!(free.len(), 2);
    }

    #[test]
    fn a_longer_result_is_not_taken_here() {
        let board = Board::default();
        assert!(board.make(1));
        assert!(!board.end_short(1, &[0; 9]) && !board.has_ended(1));
        board.end(1);
        assert!(board.has_ended(1) && board.take(1).is_none());
    }

    #[test]
    fn there_is_a_place_for_each_lane_and_no_more() {
        let board = Board::default();
        assert!(board.make(u32::from(u16::MAX)) && !board.make(u32::from(u16::MAX) + 1));
    }

    #[test]
    fn what_threads_take_at_once_is_all_reclaimed() {
        let board = Arc::new(Board::default());
        for call in 0..512 {
            assert!(board.make(call) && board.end_short(call, &call.to_le_bytes()));
        }
        let take = |first: u32| {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                (first..512).step_by(2).for_each(|call| {
                    assert_eq!(board.take(call).unwrap().bytes(), call.to_le_bytes());
                });
            })
        };
        let (even, odd) = (take(0), take(1));
        let mut free = Vec::new();
        while !(even.is_finished() && odd.is_finished()) {
            board.reclaim(&mut free);
        }
        for taker in [even, odd] {
            taker.join().unwrap();
        }
        board.reclaim(&mut free);
        free.sort_unstable();
        assert!(free.into_iter().eq(0..512));
    }
}
