//! Turns: threads that begin something in an order, and end it in the same order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The turns that have begun.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pending: Mutex<Pending>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    /// The number of the next turn.
    next: u64,
    /// Turns that have not ended, the earliest first.
    numbers: VecDeque<u64>,
}

/// A turn, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    /// Runs `start`, with which a turn begins: after that of all earlier turns, and before that of all later ones.
    pub(super) fn begin<R>(&self, start: impl FnOnce() -> R) -> (R, Turn<'_>) {
        let mut pending = self.pending();
        let started = start();
        let number = pending.next;
        pending.next += 1;
        pending.numbers.push_back(number);
        (started, Turn { turns: self, number })
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Waits until all earlier turns have ended.
    pub(super) fn wait(&self) {
        let is_later = |pending: &mut Pending| pending.numbers.front() != Some(&self.number);
        let waited = self.turns.has_ended.wait_while(self.turns.pending(), is_later);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.pending().numbers.retain(|number| *number != self.number);
        self.turns.has_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_end_in_the_order_in_which_they_began_and_one_that_gives_up_holds_no_other_up() {
        let (turns, begun, ended) = (Turns::default(), Mutex::default(), Mutex::default());
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (turns, begun, ended) = (&turns, &begun, &ended);
                scope.spawn(move || {
                    let gives_up = thread % 4 == 0;
                    let begin = || {
                        let mut begun: MutexGuard<'_, Vec<u32>> = begun.lock().unwrap();
                        if !gives_up {
                            begun.push(thread);
                        }
                    };
                    let ((), turn) = turns.begin(begin);
                    if !gives_up {
                        turn.wait();
                        let mut ended: MutexGuard<'_, Vec<u32>> = ended.lock().unwrap();
                        ended.push(thread);
                    }
                });
            }
        });
        let (begun, ended) = (begun.into_inner().unwrap(), ended.into_inner().unwrap());
        assert_eq!(begun.len(), 12);
        assert_eq!(begun, ended);
    }
}
