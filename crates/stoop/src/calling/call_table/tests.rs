use crate::calling::call_table::*;
use crate::error::SendError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn result() -> Outcome {
    Ok(Payload::new(vec![1, 2, 3, 4], 1, 2))
}

#[test]
fn a_number_is_not_used_again_before_its_handle_gives_it_back() {
    let mut slots = CallTable::default();
    let (first, second) = (slots.open(10, 'a'), slots.open(20, 'b'));
    slots.end(first, result()).give();
    assert_ne!(slots.open(30, 'c'), first);
    assert_eq!((slots.ended_among(&[second, first]), slots.open_count()), (Some(1), 2));
    assert_eq!(slots.take(first).unwrap().bytes(), [2, 3]);
    assert_eq!(slots.open(30, 'd'), first);
    assert_eq!(slots.abandon(second).0, Some('b'));
    assert_eq!((slots.open(30, 'e'), slots.open_count()), (second, 3));
}

#[test]
fn a_detached_call_gives_its_number_back_when_it_ends() {
    let mut slots = CallTable::default();
    let call = slots.open(10, ());
    assert_eq!(slots.attended(), 1);
    assert!(slots.detach(call, None).is_none());
    assert_eq!((slots.attended(), slots.open_count()), (0, 1));
    assert_ne!(slots.open(10, ()), call);
    slots.end(call, Err(CallError::not_sent(SendError::Closed))).give();
    assert_eq!(slots.open(10, ()), call);
    assert_eq!((slots.attended(), slots.open_count()), (2, 2));
}

fn end_short(calls: &mut CallTable<()>, call: u32) {
    calls.end(call, Ok(Payload::Short(Short::of(&[1]).unwrap()))).give();
}

#[test]
fn the_number_of_a_short_result_that_was_taken_without_the_lock_is_used_again() {
    let completions = Arc::<CompletionTable>::default();
    let mut calls = CallTable::with_completions(Arc::clone(&completions));
    let (kept, taken) = (calls.open(10, ()), calls.open(10, ()));
    end_short(&mut calls, kept);
    end_short(&mut calls, taken);
    assert_eq!(completions.take(taken).unwrap().bytes(), [1]);
    assert_eq!((calls.open(10, ()), calls.open(10, ())), (taken, 2));
    assert_eq!(calls.take(kept).unwrap().bytes(), [1]);
}

#[test]
fn a_waker_is_woken_once() {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut slots = CallTable::default();
    let call = slots.open(10, ());
    assert!(slots.register(call, waker.clone()).is_none());
    assert!(slots.is_registered(call, &waker) && slots.is_polled());
    assert!(slots.register(call, waker).is_some());
    slots.end(call, result()).give();
    assert!(!slots.is_polled() && woken.0.load(Ordering::Relaxed) == 1);
}

#[test]
fn deadlines_are_looked_at_when_the_earliest_has_passed() {
    let mut slots = CallTable::default();
    let (late, early) = (slots.open(20, ()), slots.open(10, ()));
    assert_eq!((slots.earliest_ns(), slots.expired(9)), (10, vec![]));
    assert_eq!((slots.expired(15), slots.earliest_ns()), (vec![early], 20));
    slots.end(early, result()).give();
    assert_eq!(slots.expired(25), [late]);
}
