//! The call that a thread serves.

use crate::context::*;
use stoop_wire::{BindingId, CallNumber, LaneId};

#[test]
fn a_nested_call_inherits_the_earlier_deadline() {
    let later = bounded_deadline(100, 50);
    assert_eq!(later, 150);
    serving(120, Caller::Local, || {
        assert_eq!(bounded_deadline(100, 50), 120);
        serving(110, Caller::Local, || assert_eq!(bounded_deadline(100, 50), 110));
        assert_eq!(bounded_deadline(100, 5), 105);
    });
    assert!(current_call().is_none());
}

#[test]
fn a_deadline_by_the_coarse_clock_is_not_early() {
    for timeout_ns in [5_000_000, COARSE_ENOUGH_NS, 60 * COARSE_ENOUGH_NS] {
        let before_ns = clock::now_ns();
        let (begun_ns, deadline_ns) = begin_cheaply(timeout_ns).unwrap();
        assert!(deadline_ns >= before_ns + timeout_ns && begun_ns <= clock::now_ns());
    }
}

#[test]
fn the_earliest_deadline_of_a_call_that_began_by_the_coarse_clock_is_not_late() {
    for timeout_ns in [COARSE_ENOUGH_NS, 60 * COARSE_ENOUGH_NS] {
        let (_, deadline_ns) = begin_cheaply(timeout_ns).unwrap();
        let after_ns = clock::now_ns();
        assert!(earliest_deadline(deadline_ns, after_ns) <= after_ns + timeout_ns);
    }
    assert_eq!(earliest_deadline(COARSE_ENOUGH_NS / 4, 0), COARSE_ENOUGH_NS / 4, "is exact");
    assert!(earliest_deadline(u64::MAX, 0) > u64::MAX / 2);
}

#[test]
fn a_call_that_inherits_its_deadline_tells_the_procedure_of_it_whatever_its_own_timeout() {
    for timeout_ns in [COARSE_ENOUGH_NS / 2, COARSE_ENOUGH_NS, 60 * COARSE_ENOUGH_NS] {
        serving(clock::now_ns() + COARSE_ENOUGH_NS / 4, Caller::Local, || {
            take_asked();
            assert!(begin_cheaply(timeout_ns).is_some() && take_asked(), "{timeout_ns} ns");
        });
    }
}

#[test]
fn the_time_of_a_call_that_leaves_later_runs_from_then_within_the_inherited_deadline() {
    assert_eq!(TimeBounds::current(50).deadline_ns(100), 150);
    assert!(TimeBounds::current(50).has_time() && !TimeBounds::current(0).has_time());
    serving(120, Caller::Local, || {
        let bounds = TimeBounds::current(50);
        assert_eq!((bounds.deadline_ns(20), bounds.deadline_ns(100)), (70, 120));
        assert!(!bounds.has_time(), "that time is long past");
    });
}

#[test]
fn an_inherited_deadline_stays_as_it_is() {
    let now_ns = clock::now_ns();
    for left_ns in [COARSE_ENOUGH_NS / 2, COARSE_ENOUGH_NS, 5 * COARSE_ENOUGH_NS] {
        serving(now_ns + left_ns, Caller::Local, || {
            let (_, deadline_ns) = begin_cheaply(60 * COARSE_ENOUGH_NS).unwrap();
            assert_eq!(deadline_ns, now_ns + left_ns);
        });
    }
    serving(now_ns, Caller::Local, || {
        assert!(begin_cheaply(60 * COARSE_ENOUGH_NS).is_none() && begin_cheaply(1).is_none());
    });
}

#[test]
fn a_call_is_cancelled_by_its_caller_or_by_its_deadline() {
    let call = CallId::new(BindingId(8), LaneId(0), CallNumber(1));
    let is_cancelled = || current_call().unwrap().is_cancelled();
    serving_call(call, NONE - 1, Caller::Local, || {
        assert!(!is_cancelled());
        serving(1, Caller::Local, || assert!(is_cancelled()));
        cancelled::cancel(call);
        assert!(is_cancelled());
        serving(NONE - 1, Caller::Local, || assert!(is_cancelled()));
    });
    cancelled::ended(call);
    serving_call(CallId::NONE, NONE - 1, Caller::Local, || assert!(!is_cancelled()));
}

#[test]
fn what_was_served_before_is_restored_after_a_panic() {
    let panicked = std::panic::catch_unwind(|| serving(1, Caller::Local, || panic!("expected")));
    assert!(panicked.is_err() && current_call().is_none());
}
