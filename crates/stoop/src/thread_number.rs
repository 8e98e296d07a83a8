//! Small numbers of the threads of this process: each thread has the smallest that was free when it first asked.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

struct ThreadNumber(Cell<usize>);

const UNNUMBERED: usize = usize::MAX;

thread_local! {
    static NUMBER: ThreadNumber = const { ThreadNumber(Cell::new(UNNUMBERED)) };
}

/// Numbers of threads that have ended, and the smallest number that no thread has had.
static FREE: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

/// The number of the calling thread. No other thread of this process has it while this one lives, except a thread that is ending: once
/// its thread-locals are being destroyed, it has number 0.
#[inline]
pub(crate) fn thread_number() -> usize {
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
    use crate::thread_number::thread_number;
    use std::thread;

    #[test]
    fn numbers_of_ended_threads_are_given_out_again() {
        let highest = (0..200).map(|_| thread::spawn(thread_number).join().unwrap()).max();
        assert!(highest < Some(150), "{highest:?}");
    }
}
