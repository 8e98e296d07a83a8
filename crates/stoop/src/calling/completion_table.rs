//! Which calls have ended, to be seen without the lock around them; and results of a few bytes, to be taken without it.
//!
//! Whoever ends a call puts it up here, under the lock. Whoever has its handle looks here first. A result that was taken
//! here leaves its slot behind, which the next call to begin finds in a list: it only grows by one or goes away as a whole,
//! so that nobody can mistake one state of it for another.
//!
//! A handle knows its completions by address, for as long as it likes: boards are never freed, but used again by later bindings
//! when nobody has a handle of an earlier one. So neither a call that begins nor one that ends counts who keeps what.

use crate::calling::begun::{OutstandingCalls, TableRef};
use crate::calling::short_result::Short;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use stoop_net::fork::{self, PerProcess};

/// Places made together.
const ROW: usize = 256;
/// Rows: a place for each lane that a binding can have.
const ROWS: usize = (u16::MAX as usize + 1) / ROW;

/// A place for each slot.
pub(crate) struct CompletionTable {
    /// The process that uses it, see [`fork::generation`].
    generation: u32,
    /// Whose calls these are.
    flight: Mutex<Option<Weak<dyn OutstandingCalls>>>,
    rows: [OnceLock<Box<[Completion; ROW]>>; ROWS],
    /// The last of the calls whose results were taken here and whose slots have not been reclaimed.
    taken: AtomicU32,
}

struct Completion {
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
/// Stands for a list to which nothing is added: all results are taken under the lock.
const CLOSED: u32 = u32::MAX - 1;

/// Boards of this process that no handle knows. Those that a forked child finds are its parent's.
static SPARE: PerProcess<Mutex<Vec<&'static CompletionTable>>> = PerProcess::new();

impl Completion {
    const fn empty() -> Self {
        Self { state: AtomicU32::new(OPEN), next: AtomicU32::new(NONE), bytes: AtomicU64::new(0) }
    }
}

impl Default for CompletionTable {
    fn default() -> Self {
        let flight = Mutex::new(None);
        let (generation, rows) = (fork::generation(), [const { OnceLock::new() }; ROWS]);
        Self { generation, flight, rows, taken: AtomicU32::new(NONE) }
    }
}

fn spare() -> MutexGuard<'static, Vec<&'static CompletionTable>> {
    let Ok(spare) = SPARE.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
    spare.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CompletionTable {
    /// One that nobody uses. To be [given back](Self::give_back).
    pub(crate) fn get() -> &'static Self {
        spare().pop().unwrap_or_else(|| Box::leak(Box::default()))
    }

    /// These are the calls of `flight` from now on.
    pub(crate) fn belong_to(&self, flight: Weak<dyn OutstandingCalls>) {
        *self.flight() = Some(flight);
    }

    /// Whether it is that of a process from which this one was forked, where it is used on.
    pub(crate) fn is_a_parents(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Nobody has a handle that knows it any more.
    pub(crate) fn give_back(&'static self) {
        if self.is_a_parents() {
            return;
        }
        *self.flight() = None;
        self.taken.store(NONE, Ordering::Relaxed);
        spare().push(self);
    }

    fn flight(&self) -> MutexGuard<'_, Option<Weak<dyn OutstandingCalls>>> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever carries these calls, for whoever has a handle.
    pub(crate) fn calls(&self) -> Arc<dyn OutstandingCalls> {
        self.present_flight().expect("a handle keeps what carries its call")
    }

    /// The same, while it is there.
    pub(crate) fn present_flight(&self) -> Option<Arc<dyn OutstandingCalls>> {
        self.flight().as_ref()?.upgrade()
    }

    #[inline]
    fn place(&self, call: u32) -> &Completion {
        let row = self.rows[call as usize / ROW % ROWS].get().expect("every slot has a place");
        &row[call as usize % ROW]
    }

    /// Makes a place for a new slot. `false`: there are places for no more.
    pub(crate) fn make(&self, call: u32) -> bool {
        let Some(row) = self.rows.get(call as usize / ROW) else { return false };
        row.get_or_init(|| Box::new([const { Completion::empty() }; ROW]));
        true
    }

    /// A call begins in that slot. Under the lock, as everything up to `end_short`.
    #[inline]
    pub(crate) fn open(&self, call: u32) {
        // Its handle, which alone looks here, is made afterwards.
        self.place(call).state.store(OPEN, Ordering::Relaxed);
    }

    /// It has ended, and its outcome is in the slot.
    #[inline]
    pub(crate) fn end(&self, call: u32) {
        // What it ended with is read under the lock.
        self.place(call).state.store(ENDED, Ordering::Relaxed);
    }

    /// It has ended with that result, if that is short enough.
    #[inline]
    pub(crate) fn end_short(&self, call: u32, result: &[u8]) -> bool {
        let Some(short) = Short::of(result) else { return false };
        let place = self.place(call);
        place.bytes.store(short.to_bits(), Ordering::Relaxed);
        // Publishes the bytes; pairs with the Acquire in `take`.
        place.state.store(SHORT + short.len(), Ordering::Release);
        true
    }

    /// Whether it has ended.
    #[inline]
    pub(crate) fn has_ended(&self, call: u32) -> bool {
        self.place(call).state.load(Ordering::Relaxed) != OPEN
    }

    /// The result of a call that has ended with a short one.
    #[inline]
    pub(crate) fn result(&self, call: u32) -> Option<Short> {
        let place = self.place(call);
        let len = place.state.load(Ordering::Acquire).checked_sub(SHORT)?;
        Some(Short::from_bits(place.bytes.load(Ordering::Relaxed), len))
    }

    /// The same, once, for its handle, and unless the list is closed. The slot is left to [`reclaim`](Self::reclaim).
    #[inline]
    pub(crate) fn take(&self, call: u32) -> Option<Short> {
        let short = self.result(call)?;
        let place = self.place(call);
        let mut before = self.taken.load(Ordering::Relaxed);
        while before != CLOSED {
            place.next.store(before, Ordering::Relaxed);
            // Publishes the link, and that the result has been read; pairs with the Acquire in `reclaim`.
            match self.taken.compare_exchange_weak(before, call, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(short),
                Err(now) => before = now,
            }
        }
        None
    }

    /// The slots that results have left since this was last asked, into `free`. Under the lock.
    pub(crate) fn reclaim(&self, free: &mut Vec<u32>) {
        self.reclaim_and(NONE, free);
    }

    /// The same, for the last time: from now on nothing is [taken](Self::take) here.
    pub(crate) fn close(&self, free: &mut Vec<u32>) {
        self.reclaim_and(CLOSED, free);
    }

    fn reclaim_and(&self, then: u32, free: &mut Vec<u32>) {
        // Each of the links was published by a Release on this word, and all later ones continue it.
        let mut call = self.taken.swap(then, Ordering::Acquire);
        while call < CLOSED {
            free.push(call);
            call = self.place(call).next.load(Ordering::Relaxed);
        }
    }
}

impl TableRef for &'static CompletionTable {
    type Table = dyn OutstandingCalls;

    /// The table of completions leads to that of calls under a lock, as everything does that asks for more than a short result.
    fn with<T>(&self, ask: impl FnOnce(&Self::Table) -> T) -> T {
        ask(&*self.calls())
    }

    fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(*self, *other)
    }

    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.has_ended(call) || self.calls().is_ready(call)
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        self.take(call)
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::completion_table::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_short_result_is_taken_once_it_is_there_and_its_slot_reclaimed_once() {
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
    fn what_has_not_been_taken_when_it_is_closed_is_left_to_the_lock() {
        let completions = CompletionTable::default();
        assert!(completions.make(2) && completions.end_short(1, &[1]) && completions.end_short(2, &[2]));
        assert!(completions.take(1).is_some());
        let mut free = Vec::new();
        completions.close(&mut free);
        assert_eq!(free, [1]);
        assert!(completions.take(2).is_none());
        assert_eq!(completions.result(2).unwrap().bytes(), [2]);
    }

    #[test]
    fn a_longer_result_is_not_taken_here() {
        let completions = CompletionTable::default();
        assert!(completions.make(1));
        assert!(!completions.end_short(1, &[0; 9]) && !completions.has_ended(1));
        completions.end(1);
        assert!(completions.has_ended(1) && completions.take(1).is_none());
    }

    #[test]
    fn there_is_a_place_for_each_lane_and_no_more() {
        let completions = CompletionTable::default();
        assert!(completions.make(u32::from(u16::MAX)) && !completions.make(u32::from(u16::MAX) + 1));
    }

    #[test]
    fn what_threads_take_at_once_is_all_reclaimed() {
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
