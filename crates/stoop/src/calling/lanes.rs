//! The lanes of a binding: each calling thread finds its own without waiting for another.
//!
//! Each thread has the smallest number that was free, and looks first at the slot of that number. If the slot is
//! held (by a call inside a call, or by thread 1024 + n), it takes another. If all are held, it waits in a queue, at most as long as
//! its call may take: a call that ends hands its slot over to the thread that has waited longest.
//!
//! At the end of each call the lane's counters are stored beside the lane, so that reading them waits for no call.

use crate::calling::counters::CallCounters;
use crate::calling::kept_memory::{self, KeepsMemory};
use crate::calling::lane_counters::LaneCounters;
use crate::context::bounded_deadline;
use crate::heap_array::heap_array;
use crate::thread_number::thread_number;
use std::iter;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use stoop_net::clock;
use stoop_net::hand_over::{Place, PlaceGuard, Queue};

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
    /// The threads that wait for a slot.
    queue: Arc<Queue>,
}

type Row<T> = [ThreadSlot<T>; ROW];

/// Apart from its neighbours by two cache lines, which processors fetch together.
#[repr(align(128))]
struct ThreadSlot<T> {
    held: Place<Held<T>>,
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
pub(crate) struct LaneGuard<'a, T: Counted>(PlaceGuard<'a, Held<T>>);

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
        if let Some(lane) = &self.0.lane {
            self.0.counters.set(lane.counters());
        }
    }
}

impl<T: Counted> ThreadSlot<T> {
    fn empty(number: usize, queue: &Arc<Queue>) -> Self {
        let counters = Arc::new(LaneCounters::zero());
        let held = Held { lane: None, timeout_ns: 0, counters: Arc::clone(&counters) };
        Self { held: Place::new(held, number, Arc::clone(queue)), counters }
    }

    #[inline]
    fn try_hold(&self, timeout_ns: u64) -> Option<LaneGuard<'_, T>> {
        let mut held = self.held.try_lock()?;
        held.timeout_ns = timeout_ns;
        Some(LaneGuard(held))
    }
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { rows: [const { OnceLock::new() }; ROWS], made: |_| {}, queue: Arc::default() }
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

    /// As [`hold_own`](Self::hold_own), but another slot. While all 1024 are held, threads wait for one in the order in which they came;
    /// the guard then has the rest of the time. `None`: the time was not enough.
    #[cold]
    pub(crate) fn hold_another(&self, timeout_ns: u64) -> Option<LaneGuard<'_, T>> {
        let begun_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
        let slot = |number: usize| &self.row(number / ROW)[number % ROW].held;
        let mut held =
            LaneGuard(self.queue.lock_any(self.slots().map(|slot| &slot.held), slot, deadline_ns)?);
        held.0.timeout_ns = timeout_ns.saturating_sub(clock::now_ns().saturating_sub(begun_ns));
        (held.0.timeout_ns > 0).then_some(held)
    }

    /// Holds the calling thread's slot, or another. `None` when all 1024 are held.
    pub(crate) fn try_hold(&self) -> Option<LaneGuard<'_, T>> {
        self.hold_own(0).or_else(|| self.slots().find_map(|slot| slot.try_hold(0)))
    }

    fn slots(&self) -> impl Iterator<Item = &ThreadSlot<T>> + Clone {
        (0..ROWS).flat_map(|row| self.row(row).iter())
    }

    #[inline]
    fn row(&self, row: usize) -> &[ThreadSlot<T>; ROW] {
        match self.rows[row].get() {
            Some(slots) => slots,
            None => self.make_row(row),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_row(&self, row: usize) -> &[ThreadSlot<T>; ROW] {
        self.rows[row].get_or_init(|| {
            let slots = Arc::from(heap_array(|column| ThreadSlot::empty(row * ROW + column, &self.queue)));
            (self.made)(&slots);
            slots
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

    /// Uses a lane, if there is any. A slot whose [memory is given back](KeepsMemory) just now is waited for.
    pub(crate) fn with_any(&mut self, with: impl FnOnce(&mut T)) {
        let place = |number: usize| &self.row(number / ROW)[number % ROW].held;
        let slots = self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter());
        let mut held = slots.filter_map(|slot| self.queue.lock_any(iter::once(&slot.held), place, u64::MAX));
        if let Some(mut held) = held.find(|held| held.lane.is_some())
            && let Some(lane) = &mut held.lane
        {
            with(lane);
        }
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
            while lanes.queue.is_empty() {
                thread::yield_now();
            }
            held.pop();
            let left_ns = waits.join().unwrap().expect("one became free");
            assert!(left_ns < u64::MAX / 2);
        });
    }
}
