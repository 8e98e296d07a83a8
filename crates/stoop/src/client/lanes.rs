//! A binding's lanes: each calling thread finds its own without waiting for another.
//!
//! Threads are numbered with the smallest number that is free, and each looks first at the place of its number. A
//! place that is taken all the same (by a call inside a call, or by thread 64 + n) is passed over.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// Places in a row, made together when the first of them is needed.
const ROW: usize = 64;
/// Rows: as many places as a server allows lanes.
const ROWS: usize = 16;

/// The lanes of one binding.
pub(crate) struct Lanes<T> {
    rows: [OnceLock<Box<[Place<T>; ROW]>>; ROWS],
}

/// Apart from its neighbours by two cache lines, which processors fetch together.
#[repr(align(128))]
struct Place<T>(Mutex<Option<T>>);

/// A place held by the calling thread; empty until a lane is put there.
pub(crate) type Held<'a, T> = MutexGuard<'a, Option<T>>;

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { rows: [const { OnceLock::new() }; ROWS] }
    }
}

impl<T> Lanes<T> {
    /// The calling thread's place, or another if a call of this thread holds that already. Waits only when all 1024
    /// are held.
    #[inline]
    pub(crate) fn hold(&self) -> Held<'_, T> {
        let number = thread_number();
        let own = &self.row(number / ROW % ROWS)[number % ROW];
        match own.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.hold_another(own),
        }
    }

    #[cold]
    fn hold_another<'a>(&'a self, own: &'a Place<T>) -> Held<'a, T> {
        let mut places = (0..ROWS).flat_map(|row| self.row(row).iter());
        let free = places.find_map(|place| match place.0.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(|| own.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    fn row(&self, row: usize) -> &[Place<T>; ROW] {
        self.rows[row].get_or_init(|| Box::new([const { Place(Mutex::new(None)) }; ROW]))
    }

    /// Visits every lane that is there, waiting for those that are in a call.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&mut T)) {
        for place in self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter()) {
            let mut held = place.0.lock().unwrap_or_else(PoisonError::into_inner);
            held.iter_mut().for_each(&mut visit);
        }
    }
}

struct ThreadNumber(Cell<usize>);

const UNNUMBERED: usize = usize::MAX;

thread_local! {
    static NUMBER: ThreadNumber = const { ThreadNumber(Cell::new(UNNUMBERED)) };
}

/// Numbers given back by threads that have ended, and the first that was never given out.
static FREE: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

#[inline]
fn thread_number() -> usize {
    // A thread that calls while its thread-locals are being destroyed shares place 0.
    NUMBER
        .try_with(|number| match number.0.get() {
            UNNUMBERED => number.draw(),
            number => number,
        })
        .unwrap_or(0)
}

impl ThreadNumber {
    #[cold]
    fn draw(&self) -> usize {
        let (free, next) = &mut *FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = free.pop_first().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        });
        self.0.set(number);
        number
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        if self.0.get() != UNNUMBERED {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).0.insert(self.0.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_finds_the_lane_that_it_left() {
        let lanes = Lanes::default();
        *lanes.hold() = Some(7);
        assert_eq!(*lanes.hold(), Some(7));
    }

    #[test]
    fn a_call_inside_a_call_gets_another_lane() {
        let lanes = Lanes::default();
        let mut outer = lanes.hold();
        *outer = Some(1);
        assert_eq!(*lanes.hold(), None);
    }

    #[test]
    fn a_thousand_calls_at_once_each_have_their_own() {
        let lanes = Lanes::<usize>::default();
        let held: Vec<_> = (0..ROW * ROWS).map(|_| lanes.hold()).collect();
        assert!(held.iter().all(|lane| lane.is_none()));
    }

    #[test]
    fn numbers_of_ended_threads_are_given_out_again() {
        let highest = (0..200).map(|_| thread::spawn(thread_number).join().unwrap()).max();
        assert!(highest < Some(150), "{highest:?}");
    }
}
