//! The completion table: which begun calls have ended, and their short results, for handles to read without the table's lock.
//!
//! A thread that ends a call writes that here, under the lock. The call's handle looks here first. When a handle takes a result here,
//! it adds the slot to a list of free slots. Handles only add single slots to that list, and a thread with the lock only removes the
//! whole list, so no thread can mistake one state of the list for another (no ABA problem).

use crate::calling::short_result::Short;
use crate::heap_array::heap_array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Completions allocated together.
const ROW: usize = 256;
/// Rows: a completion for each lane that a binding can have.
const ROWS: usize = (u16::MAX as usize + 1) / ROW;

/// The completions of one binding's calls.
pub(crate) struct CompletionTable {
    rows: [OnceLock<Box<[Completion; ROW]>>; ROWS],
    /// The call in the list of those whose results were taken here that was added last.
    taken: AtomicU32,
}

struct Completion {
    state: AtomicU32,
    /// The call that was added to the list before this one.
    next: AtomicU32,
    /// A short result.
    bytes: AtomicU64,
}

/// The call has not ended, or there is none.
const OPEN: u32 = 0;
/// It has ended; the outcome is in its slot, under the lock.
const ENDED: u32 = 1;
/// It has ended with a result of this many bytes less than the state.
const SHORT: u32 = 2;

/// The end of the list.
const NONE: u32 = u32::MAX;
impl Completion {
    const fn empty() -> Self {
        Self { state: AtomicU32::new(OPEN), next: AtomicU32::new(NONE), bytes: AtomicU64::new(0) }
    }

    #[inline]
    fn result(&self) -> Option<Short> {
        let len = self.state.load(Ordering::Acquire).checked_sub(SHORT)?;
        Some(Short::from_bits(self.bytes.load(Ordering::Relaxed), len))
    }
}

impl Default for CompletionTable {
    fn default() -> Self {
        Self { rows: [const { OnceLock::new() }; ROWS], taken: AtomicU32::new(NONE) }
    }
}

impl CompletionTable {
    #[inline]
    fn completion(&self, call: u32) -> &Completion {
        let row = self.rows[call as usize / ROW % ROWS].get().expect("every slot has a completion");
        &row[call as usize % ROW]
    }

    /// Whether that slot can have a completion.
    #[inline]
    pub(crate) fn covers(call: u32) -> bool {
        (call as usize) < ROWS * ROW
    }

    /// Makes a completion for a new slot. `false`: the table has room for no more.
    pub(crate) fn make(&self, call: u32) -> bool {
        let Some(row) = self.rows.get(call as usize / ROW) else { return false };
        row.get_or_init(|| heap_array(|_| Completion::empty()));
        true
    }

    /// The slot is for another call. The lock is held, as for all functions up to `end_short`.
    #[inline]
    pub(crate) fn open(&self, call: u32) {
        // The call's handle, the only reader, is made afterwards.
        self.completion(call).state.store(OPEN, Ordering::Relaxed);
    }

    /// The call has ended, and its slot has the outcome.
    #[inline]
    pub(crate) fn end(&self, call: u32) {
        // The outcome is read under the lock.
        self.completion(call).state.store(ENDED, Ordering::Relaxed);
    }

    /// The call has ended with that result. `false`: that is too long for the table.
    #[inline]
    pub(crate) fn end_short(&self, call: u32, result: &[u8]) -> bool {
        let Some(short) = Short::of(result) else { return false };
        let completion = self.completion(call);
        completion.bytes.store(short.to_bits(), Ordering::Relaxed);
        // Publishes the bytes; pairs with the Acquire in `take`.
        completion.state.store(SHORT + short.len(), Ordering::Release);
        true
    }

    /// Whether the call has ended.
    #[inline]
    pub(crate) fn has_ended(&self, call: u32) -> bool {
        self.completion(call).state.load(Ordering::Relaxed) != OPEN
    }

    /// The result of a call that has ended with a short one.
    #[inline]
    pub(crate) fn result(&self, call: u32) -> Option<Short> {
        self.completion(call).result()
    }

    /// Takes the short result of a call for its handle, once. [`reclaim`](Self::reclaim) frees the slot.
    #[inline]
    pub(crate) fn take(&self, call: u32) -> Option<Short> {
        let completion = self.completion(call);
        let short = completion.result()?;
        let mut before = self.taken.load(Ordering::Relaxed);
        loop {
            completion.next.store(before, Ordering::Relaxed);
            // Publishes the link, and that the result has been read; pairs with the Acquire in `reclaim`.
            match self.taken.compare_exchange_weak(before, call, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(short),
                Err(now) => before = now,
            }
        }
    }

    /// Moves the slots whose results were taken here to `free`, [open](Self::open) for other calls. The lock is held.
    pub(crate) fn reclaim(&self, free: &mut Vec<u32>) {
        // Each link was published by a Release on this word, and later stores continue its release sequence.
        let mut call = self.taken.swap(NONE, Ordering::Acquire);
        while call != NONE {
            free.push(call);
            let completion = self.completion(call);
            completion.state.store(OPEN, Ordering::Relaxed);
            call = completion.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::completion_table::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_short_result_is_taken_once_and_its_slot_reclaimed_once() {
        let completions = CompletionTable::default();
        assert!(completions.make(0) && completions.make(300));
        completions.open(300);
        assert!(!completions.has_ended(300) && completions.take(300).is_none());
        assert!(completions.end_short(300, &[1, 2, 3]) && completions.has_ended(300));
        assert_eq!(completions.take(300).unwrap().bytes(), [1, 2, 3]);
        assert!(completions.end_short(0, &[]) && completions.take(0).unwrap().bytes().is_empty());
        let mut free = Vec::new();
        completions.reclaim(&mut free);
        assert_eq!(free, [0, 300]);
        completions.reclaim(&mut free);
        assert_eq!(free.len(), 2);
    }

    #[test]
    fn a_long_result_is_not_taken_without_the_lock() {
        let completions = CompletionTable::default();
        assert!(completions.make(1));
        assert!(!completions.end_short(1, &[0; 9]) && !completions.has_ended(1));
        completions.end(1);
        assert!(completions.has_ended(1) && completions.take(1).is_none());
    }

    #[test]
    fn the_table_has_a_completion_for_each_lane_and_no_more() {
        let completions = CompletionTable::default();
        assert!(completions.make(u32::from(u16::MAX)) && !completions.make(u32::from(u16::MAX) + 1));
    }

    #[test]
    fn slots_of_results_that_threads_take_at_once_are_all_reclaimed() {
        let completions = Arc::new(CompletionTable::default());
        for call in 0..512 {
            assert!(completions.make(call) && completions.end_short(call, &call.to_le_bytes()));
        }
        let take = |first: u32| {
            let completions = Arc::clone(&completions);
            thread::spawn(move || {
                (first..512).step_by(2).for_each(|call| {
                    assert_eq!(completions.take(call).unwrap().bytes(), call.to_le_bytes());
                });
            })
        };
        let (even, odd) = (take(0), take(1));
        let mut free = Vec::new();
        while !(even.is_finished() && odd.is_finished()) {
            completions.reclaim(&mut free);
        }
        for taker in [even, odd] {
            taker.join().unwrap();
        }
        completions.reclaim(&mut free);
        free.sort_unstable();
        assert!(free.into_iter().eq(0..512));
    }
}
