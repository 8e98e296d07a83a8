//! The lanes of a binding: each calling thread finds its own without waiting for another.
//!
//! Each thread has the smallest number that was free, and looks first at the slot of that number. If the slot is
//! held (by a call inside a call, or by thread 1024 + n), it takes another. If all are held, it waits, at most as long as
//! its call may take.
//!
//! At the end of each call the lane's counters are stored beside the lane, so that reading them waits for no call.

use crate::calling::counters::CallCounters;
use crate::calling::kept_memory::{self, KeepsMemory};
use crate::calling::lane_counters::LaneCounters;
use crate::context::bounded_deadline;
use crate::heap_array::heap_array;
use crate::thread_number::thread_number;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;
use stoop_net::clock;

/// Slots in a row, made together when the first of them is needed.
const ROW: usize = 64;
/// Rows: together as many slots as a server allows lanes.
const ROWS: usize = 16;

/// A lane that counts.
pub(crate) trait Counted {
    /// Its counters, over all its sessions.
    fn counters(&self) -> CallCounters;

    /// As [`KeepsMemory::release_memory`].
    fn release_memory(&mut self) -> bool {
        false
    }
}

/// The lanes of one binding.
pub(crate) struct Lanes<T> {
    rows: [OnceLock<Arc<Row<T>>>; ROWS],
    /// What is done with a row that was made.
    made: fn(&Arc<Row<T>>),
}

type Row<T> = [ThreadSlot<T>; ROW];

/// Apart from its neighbours by two cache lines, which processors fetch together.
#[repr(align(128))]
struct ThreadSlot<T> {
    held: Mutex<Held<T>>,
    counters: Arc<LaneCounters>,
}

/// The lane that a thread holds during its call, and its place.
struct Held<T> {
    lane: Option<T>,
    timeout_ns: u64,
    counters: Arc<LaneCounters>,
}

/// A slot held by the calling thread; `None` until a lane is put there. It moves from step to step of a call, so that it is small:
/// all else is in the slot.
pub(crate) struct LaneGuard<'a, T: Counted>(MutexGuard<'a, Held<T>>);

impl<T: Counted> LaneGuard<'_, T> {
    /// How long the call may take from now on, in nanoseconds.
    #[inline]
    pub(crate) fn timeout_ns(&self) -> u64 {
        self.0.timeout_ns
    }

    /// So many nanoseconds of that time have passed.
    pub(crate) fn spend(&mut self, ns: u64) {
        self.0.timeout_ns = self.0.timeout_ns.saturating_sub(ns);
    }
}

impl<T: Counted> Deref for LaneGuard<'_, T> {
    type Target = Option<T>;

    #[inline]
    fn deref(&self) -> &Option<T> {
        &self.0.lane
    }
}

impl<T: Counted> DerefMut for LaneGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.0.lane
    }
}

impl<T: Counted> Drop for LaneGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if CROWD.waiting.load(Ordering::Relaxed) > 0 {
            CROWD.wake_one();
        }
        if let Some(lane) = &self.0.lane {
            self.0.counters.set(lane.counters());
        }
    }
}

impl<T: Counted> ThreadSlot<T> {
    fn empty() -> Self {
        let counters = Arc::new(LaneCounters::zero());
        let held = Held { lane: None, timeout_ns: 0, counters: Arc::clone(&counters) };
        Self { held: Mutex::new(held), counters }
    }

    #[inline]
    fn try_hold(&self, timeout_ns: u64) -> Option<LaneGuard<'_, T>> {
        let mut held = match self.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        held.timeout_ns = timeout_ns;
        Some(LaneGuard(held))
    }
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { rows: [const { OnceLock::new() }; ROWS], made: |_| {} }
    }
}

impl<T: Counted + Send> KeepsMemory for Row<T> {
    fn release_memory(&self) -> bool {
        let mut keeps = false;
        for slot in self {
            // A lane that is held has a call.
            let Some(mut held) = slot.try_hold(0) else { continue };
            keeps |= held.as_mut().is_some_and(T::release_memory);
        }
        keeps
    }
}

impl<T: Counted + Send + 'static> Lanes<T> {
    /// Of lanes that keep memory for long calls, until they have been quiet for a while.
    pub(crate) fn keeping_memory() -> Self {
        let made = |row: &Arc<Row<T>>| {
            let keeper = Arc::downgrade(row);
            kept_memory::add(keeper);
        };
        Self { made, ..Self::default() }
    }
}

impl<T: Counted> Lanes<T> {
    /// Holds the calling thread's slot, for a call that may take `timeout_ns`. `None` when another call holds it.
    #[inline]
    pub(crate) fn hold_own(&self, timeout_ns: u64) -> Option<LaneGuard<'_, T>> {
        let number = thread_number();
        self.row(number / ROW % ROWS)[number % ROW].try_hold(timeout_ns)
    }

    /// As [`hold_own`](Self::hold_own), but another slot. Waits while all 1024 are held; the guard then has the rest of the time.
    /// `None`: the time was not enough.
    #[cold]
    pub(crate) fn hold_another(&self, timeout_ns: u64) -> Option<LaneGuard<'_, T>> {
        if let Some(held) = self.try_hold_any(timeout_ns) {
            return Some(held);
        }
        let begun_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
        let mut held = CROWD.wait_for(deadline_ns, || self.try_hold_any(timeout_ns))?;
        held.0.timeout_ns = timeout_ns.saturating_sub(clock::now_ns().saturating_sub(begun_ns));
        Some(held)
    }

    /// Holds the calling thread's slot, or another. `None` when all 1024 are held.
    pub(crate) fn try_hold(&self) -> Option<LaneGuard<'_, T>> {
        self.hold_own(0).or_else(|| self.try_hold_any(0))
    }

    fn try_hold_any(&self, timeout_ns: u64) -> Option<LaneGuard<'_, T>> {
        (0..ROWS).flat_map(|row| self.row(row).iter()).find_map(|slot| slot.try_hold(timeout_ns))
    }

    #[inline]
    fn row(&self, row: usize) -> &[ThreadSlot<T>; ROW] {
        self.rows[row].get_or_init(|| {
            let row = Arc::from(heap_array(ThreadSlot::empty));
            (self.made)(&row);
            row
        })
    }

    /// The sum of all lanes' counters, each as of the end of its last call. Waits for no call.
    pub(crate) fn counters(&self) -> CallCounters {
        let mut sum = CallCounters::default();
        for place in self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter()) {
            sum.add(place.counters.get());
        }
        sum
    }

    /// Uses a lane, if there is any.
    pub(crate) fn with_any(&mut self, with: impl FnOnce(&mut T)) {
        let slots = self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter());
        let mut held = slots.map(|slot| slot.held.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(mut held) = held.find(|held| held.lane.is_some())
            && let Some(lane) = &mut held.lane
        {
            with(lane);
        }
    }
}

/// The threads of this process that wait for a slot, of any binding: few programs have any.
struct Crowd {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    freed: Condvar,
}

static CROWD: Crowd = Crowd { waiting: AtomicUsize::new(0), lock: Mutex::new(()), freed: Condvar::new() };

/// Longest wait before another try. A slot is freed just after its thread wakes one that waits, and that one may be of
/// another binding.
const RETRY: Duration = Duration::from_millis(2);

impl Crowd {
    #[cold]
    fn wake_one(&self) {
        self.freed.notify_one();
    }

    /// Tries until there is something, or until the deadline.
    fn wait_for<T>(&self, deadline_ns: u64, mut try_it: impl FnMut() -> Option<T>) -> Option<T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let found = loop {
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            let found = try_it();
            if found.is_some() || left_ns == 0 {
                break found;
            }
            let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.freed.wait_timeout(lock, RETRY.min(Duration::from_nanos(left_ns))));
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::lanes::*;
    use std::thread;

    impl Counted for usize {
        fn counters(&self) -> CallCounters {
            CallCounters { calls: *self as u64, ..CallCounters::default() }
        }
    }

    fn hold<T: Counted>(lanes: &Lanes<T>) -> LaneGuard<'_, T> {
        lanes.try_hold().expect("one is free")
    }

    #[test]
    fn counters_wait_for_no_call() {
        let mut lanes = Lanes::default();
        *hold(&lanes) = Some(7);
        let mut held = hold(&lanes);
        *held = Some(8);
        assert_eq!(lanes.counters().calls, 7);
        drop(held);
        assert_eq!(lanes.counters().calls, 8);
        lanes.with_any(|lane| assert_eq!(*lane, 8));
    }

    #[test]
    fn a_thread_finds_the_lane_that_it_left() {
        let lanes = Lanes::default();
        *hold(&lanes) = Some(7_usize);
        assert_eq!(*hold(&lanes), Some(7));
    }

    #[test]
    fn a_call_inside_a_call_gets_another_lane() {
        let lanes = Lanes::default();
        let mut outer = hold(&lanes);
        *outer = Some(1_usize);
        assert_eq!(*hold(&lanes), None);
    }

    #[test]
    fn a_thousand_calls_at_once_each_have_their_own() {
        let lanes = Lanes::<usize>::default();
        let held: Vec<_> = (0..ROW * ROWS).map(|_| hold(&lanes)).collect();
        assert!(held.iter().all(|lane| lane.is_none()));
    }

    #[test]
    fn a_call_beyond_a_thousand_waits_until_its_deadline_at_the_latest() {
        let lanes = Lanes::<usize>::default();
        let mut held: Vec<_> = (0..ROW * ROWS).map(|_| hold(&lanes)).collect();
        assert!(lanes.hold_another(20_000_000).is_none());
        thread::scope(|scope| {
            let waits = scope.spawn(|| lanes.hold_another(u64::MAX / 2).map(|held| held.timeout_ns()));
            while CROWD.waiting.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            held.pop();
            let left_ns = waits.join().unwrap().expect("one became free");
            assert!(left_ns < u64::MAX / 2);
        });
    }
}
