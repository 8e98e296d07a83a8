//! Whether threads of the caller sleep until there is any answer: those that wait for many calls at once.
//!
//! | bits of the first half | meaning |
//! |------|---------|
//! | 0    | a thread sleeps until there is an answer |
//! | 1    | a thread sleeps until a long message moves on |
//! | 2–31 | how often sleepers have been woken |
//!
//! The second half counts the long results that have been announced.
//!
//! A thread that goes to sleep marks the word first, and then looks for an event. A thread that causes an event does so first, and
//! then looks at the marks. So at least one sees the other. A thread that wakes sleepers removes all marks and adds one to the count:
//! a thread that is about to sleep finds another word than it has marked, and does not sleep. One wake-up reaches a bounded number of
//! threads, and these wake the others. If the peer writes other values, a sleeper sleeps until its limit.

use crate::Segment;
use crate::futex::WOKEN_MAX;
use crate::layout::LISTENING;
use crate::sync::{Ordering, fence, fence_after_exchange};

/// The event for which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer to any call, or a long message that moves on.
    Answer,
    /// A long result has been announced, a chunk of a long message has been filled or emptied, or a call with pipes may have been answered.
    LongMessage,
}

const ANSWER: u32 = 1;
const LONG_MESSAGE: u32 = 2;
const ANY: u32 = ANSWER | LONG_MESSAGE;
const ONE_WAKING: u32 = 4;

const LONG_RESULTS: usize = LISTENING + size_of::<u32>();

/// Sleeps until there is such an event, at most `limit_ns`; may wake early for no reason. Asks `is_over` after this thread is marked
/// as asleep, and does not sleep if it returns true. No thread sleeps from [`give_up`] on.
pub fn sleep(segment: &Segment, event: Event, limit_ns: u64, is_over: impl FnOnce() -> bool) {
    let mark = match event {
        Event::Answer => ANY,
        Event::LongMessage => LONG_MESSAGE,
    };
    let marked = segment.half(LISTENING).fetch_or(mark, Ordering::SeqCst) | mark;
    // Counted before it looks, so that a thread that is woken earlier knows that this one may sleep.
    segment.listeners().fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !segment.is_given_up() && !is_over() {
        segment.wait(LISTENING, marked, limit_ns);
    }
    pass_on(segment, marked);
}

/// This thread, which has marked the word so, sleeps no more. One wake-up reaches a bounded number of threads: if others may still
/// sleep, this thread wakes them.
fn pass_on(segment: &Segment, marked: u32) {
    let others = segment.listeners().fetch_sub(1, Ordering::SeqCst);
    let was_woken = || (segment.half(LISTENING).load(Ordering::Relaxed) ^ marked) & !ANY != 0;
    if others > WOKEN_MAX && was_woken() {
        segment.wake(LISTENING);
    }
}

/// An answer has been published, by an exchange.
#[inline]
pub(crate) fn tell_of_answer(segment: &Segment, is_long: bool) {
    if is_long {
        segment.half(LONG_RESULTS).fetch_add(1, Ordering::SeqCst);
    }
    fence_after_exchange();
    tell(segment, if is_long { ANY } else { ANSWER });
}

/// Chunks have been filled or emptied.
pub fn tell_of_chunks(segment: &Segment) {
    fence(Ordering::SeqCst);
    tell(segment, LONG_MESSAGE);
}

/// Wakes all threads that sleep here, because of an event at this end.
pub fn wake(segment: &Segment) {
    fence(Ordering::SeqCst);
    tell(segment, ANY);
}

/// Wakes all threads that sleep here, for good.
pub fn give_up(segment: &Segment) {
    segment.set_given_up();
    wake_all(segment);
}

/// The count of long results that the server has announced. Only differences have a meaning.
pub fn long_results(segment: &Segment) -> u32 {
    segment.half(LONG_RESULTS).load(Ordering::Acquire)
}

#[inline]
fn tell(segment: &Segment, events: u32) {
    if segment.half(LISTENING).load(Ordering::Relaxed) & events != 0 {
        wake_all(segment);
    }
}

#[cold]
fn wake_all(segment: &Segment) {
    let next = |word: u32| Some((word & !ANY).wrapping_add(ONE_WAKING));
    let _ = segment.half(LISTENING).fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    segment.wake(LISTENING);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Answer, AnswerKind, Answers};
    use std::thread;
    use std::time::{Duration, Instant};

    fn answer(len: u32) -> Answer {
        Answer { kind: AnswerKind::Result, len, word: 0, cpu: 0, channel: 0, base: 0 }
    }

    #[test]
    fn each_answer_wakes_a_thread_that_sleeps_for_any() {
        let (segment, _file) = Segment::create().unwrap();
        for number in 1..200 {
            thread::scope(|scope| {
                for lane in [0, 1, 2] {
                    let is_there = move |segment: &Segment| Answers::is_there(segment, lane, number);
                    let segment = &segment;
                    scope.spawn(move || {
                        while !is_there(segment) {
                            sleep(segment, Event::Answer, u64::MAX, || is_there(segment));
                        }
                    });
                }
                [2, 0, 1].iter().for_each(|&lane| Answers::publish(&segment, lane, number, &answer(0), &[]));
            });
        }
    }

    #[test]
    fn short_answers_do_not_wake_a_thread_that_sleeps_for_long_messages() {
        let (segment, _file) = Segment::create().unwrap();
        sleep(&segment, Event::LongMessage, 0, || false);
        let marked = segment.half(LISTENING).load(Ordering::Relaxed);
        Answers::publish(&segment, 0, 1, &answer(0), &[]);
        assert_eq!(segment.half(LISTENING).load(Ordering::Relaxed), marked);
        Answers::publish(&segment, 0, 2, &answer(u32::MAX), &[]);
        assert_ne!(segment.half(LISTENING).load(Ordering::Relaxed) & ANY, marked);
        assert_eq!(long_results(&segment), 1);
        sleep(&segment, Event::LongMessage, 0, || false);
        tell_of_chunks(&segment);
        assert_eq!(segment.half(LISTENING).load(Ordering::Relaxed) & ANY, 0);
    }

    /// Has many threads sleep until there is an answer. Returns how long they took to wake up.
    fn time_to_wake_many() -> Duration {
        let (segment, _file) = Segment::create().unwrap();
        let sleepers = 10 * WOKEN_MAX;
        let mut begun = Instant::now();
        let is_there = || Answers::is_there(&segment, 0, 1);
        thread::scope(|scope| {
            for _ in 0..sleepers {
                scope.spawn(|| {
                    while !is_there() {
                        sleep(&segment, Event::Answer, u64::MAX, is_there);
                    }
                });
            }
            while segment.listeners().load(Ordering::SeqCst) < sleepers {
                thread::yield_now();
            }
            begun = Instant::now();
            Answers::publish(&segment, 0, 1, &answer(0), &[]);
        });
        begun.elapsed()
    }

    #[test]
    fn more_threads_than_one_wake_wakes_are_all_woken() {
        // A thread that is not woken sleeps for a second.
        assert!((0..20).any(|_| time_to_wake_many() < Duration::from_millis(500)));
    }

    #[test]
    fn no_thread_sleeps_on_memory_that_was_given_up() {
        let (segment, _file) = Segment::create().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| sleep(&segment, Event::Answer, u64::MAX, || false));
            give_up(&segment);
        });
        sleep(&segment, Event::Answer, u64::MAX, || false);
    }
}
