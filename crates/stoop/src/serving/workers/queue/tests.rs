//! The queue with calls that are numbers, at times that the tests choose.

use crate::context::cancelled::{self, CallId};
use crate::serving::terms::Priority;
use crate::serving::workers::queue::*;
use stoop_wire::{BindingId, CallNumber, LaneId};

const MS: u64 = 1_000_000;
const NEVER: u64 = u64::MAX;

/// Terms of a short call without a deadline.
fn terms(owner: u32, part: u64) -> CallTerms {
    CallTerms {
        owner: Owner::user(owner),
        part,
        call: CallId::NONE,
        deadline_ns: NEVER,
        work_ns: MS,
        priority: Priority::Normal,
        procedure: Some(1),
        limit: None,
    }
}

fn admit(queue: &mut CallQueue, call: u32, terms: CallTerms) -> Admitted<u32> {
    queue.admit(0, call, terms)
}

#[track_caller]
fn assert_waits(admitted: Admitted<u32>) {
    assert!(matches!(admitted, Admitted::Waits));
}

/// Runs the calls that may run, one at a time, and returns them in order.
fn run_all(queue: &mut CallQueue) -> Vec<u32> {
    run_all_at(queue, 0)
}

fn run_all_at(queue: &mut CallQueue, now_ns: u64) -> Vec<u32> {
    let next = |queue: &mut CallQueue| {
        let (call, charge) = queue.next(now_ns)?;
        queue.end(charge, None);
        Some(call)
    };
    std::iter::from_fn(|| next(queue)).collect()
}

#[test]
fn owners_take_turns_and_then_their_bindings() {
    let mut queue = CallQueue::new(1, 64, 100);
    for call in 0..4 {
        assert_waits(admit(&mut queue, call, terms(1, 10)));
    }
    for call in 10..12 {
        assert_waits(admit(&mut queue, call, terms(1, 11)));
    }
    for call in 20..22 {
        assert_waits(admit(&mut queue, call, terms(2, 20)));
    }
    assert_eq!(run_all(&mut queue), [0, 20, 10, 21, 1, 11, 2, 3]);
    assert!(!queue.has_runnable());
}

#[test]
fn one_owner_leaves_a_quarter_of_the_workers_to_others() {
    let mut queue = CallQueue::new(1, 64, 100);
    let mut charges: Vec<_> = std::iter::from_fn(|| queue.begin(&terms(1, 10))).collect();
    charges.extend((11..100).filter_map(|part| queue.begin(&terms(1, part))));
    assert_eq!(charges.len(), 48);
    assert!(queue.is_crowded());
    assert_waits(admit(&mut queue, 1, terms(1, 100)));
    assert!(!queue.has_runnable(), "the other binding has the same owner");
    let of_other = queue.begin(&terms(2, 20)).expect("workers are in reserve");
    queue.end(of_other, None);
    charges.into_iter().for_each(|charge| queue.end(charge, None));
    assert_eq!(run_all(&mut queue), [1]);
    assert!(!queue.is_crowded());
}

#[test]
fn one_binding_leaves_workers_to_others_of_its_owner() {
    for (workers, most, of_others) in [(4, 3, 0), (8, 5, 1), (64, 44, 4)] {
        let mut queue = CallQueue::new(1, workers, 100);
        let charges: Vec<_> = std::iter::from_fn(|| queue.begin(&terms(1, 10))).collect();
        assert_eq!(charges.len(), most, "of {workers}");
        assert!(queue.is_crowded());
        assert_waits(admit(&mut queue, 1, terms(1, 10)));
        assert!(!queue.has_runnable());
        (11..21).for_each(|part| assert_waits(admit(&mut queue, part as u32, terms(1, part))));
        let begun = std::iter::from_fn(|| queue.next(0)).count();
        assert_eq!(begun, of_others, "of {workers}");
    }
}

#[test]
fn calls_of_a_procedure_that_waits_keep_no_processor_busy() {
    let mut queue = CallQueue::new(1, 64, 100);
    let first = queue.begin(&terms(1, 10)).unwrap();
    assert_eq!(queue.busy(), 1, "nothing is known yet");
    queue.end(first, Some(true));
    let charges: Vec<_> = std::iter::from_fn(|| queue.begin(&terms(1, 10))).collect();
    assert_eq!((charges.len(), queue.busy()), (44, 0));
    let other = queue.begin(&CallTerms { procedure: Some(2), ..terms(2, 20) }).unwrap();
    assert_eq!(queue.busy(), 1);
    charges.into_iter().chain([other]).for_each(|charge| queue.end(charge, None));
    assert_eq!(queue.busy(), 0);
}

#[test]
fn a_server_of_few_workers_gives_them_all_to_one_owner() {
    for workers in 1..4 {
        let mut queue = CallQueue::new(1, workers, 100);
        assert_eq!(std::iter::from_fn(|| queue.begin(&terms(1, 10))).count(), workers);
    }
}

#[test]
fn a_call_waits_whatever_is_expected_of_those_ahead_of_it() {
    let mut queue = CallQueue::new(1, 1, 1000);
    let long = CallTerms { work_ns: 1000 * MS, deadline_ns: 10 * MS, ..terms(1, 10) };
    let _running = queue.begin(&long).unwrap();
    (0..1000).for_each(|call| assert_waits(admit(&mut queue, call, long)));
}

#[test]
fn a_free_worker_takes_a_call_however_little_time_it_has() {
    let mut queue = CallQueue::new(1, 1, 1000);
    let hasty = CallTerms { work_ns: 1000 * MS, deadline_ns: 10 * MS, ..terms(1, 10) };
    for now in [0, 5, 9, 10] {
        assert_waits(admit(&mut queue, 1, hasty));
        assert_eq!(run_all_at(&mut queue, now * MS), [1], "after {now} ms");
    }
}

#[test]
fn calls_with_time_enough_go_first_and_of_the_others_the_newest() {
    let mut queue = CallQueue::new(1, 1, 1000);
    let mut admit_at = |now_ns, call, work_ns| {
        let terms = CallTerms { work_ns, deadline_ns: now_ns + 100 * MS, ..terms(1, 10) };
        assert_waits(queue.admit(now_ns, call, terms));
    };
    // Half of the time of the first two is over; the next needs more than it has; the others have enough.
    admit_at(0, 1, MS);
    admit_at(MS, 2, MS);
    admit_at(30 * MS, 3, 40 * MS);
    admit_at(40 * MS, 4, MS);
    admit_at(50 * MS, 5, MS);
    assert_eq!(run_all_at(&mut queue, 52 * MS), [4, 5, 3, 2, 1]);
    assert_eq!((queue.len(), queue.classes.len(), queue.waiting.len()), (0, 0, 0));
}

#[test]
fn an_owner_whose_calls_are_all_late_lets_the_others_pass() {
    let mut queue = CallQueue::new(1, 1, 1000);
    let of = |owner, deadline| CallTerms { deadline_ns: deadline * MS, ..terms(owner, 10) };
    (0..3).for_each(|call| assert_waits(admit(&mut queue, call, of(1, 10))));
    (20..22).for_each(|call| assert_waits(admit(&mut queue, call, of(2, 1000))));
    assert_eq!(run_all_at(&mut queue, 8 * MS), [20, 21, 2, 1, 0]);
}

#[test]
fn cancelled_calls_are_taken_out_and_the_others_stay() {
    let mut queue = CallQueue::new(1, 1, 1000);
    let of = |number| CallId::new(BindingId(0xca), LaneId(1), CallNumber(number));
    for number in 0..10 {
        assert_waits(admit(&mut queue, number, CallTerms { call: of(number), ..terms(1, 10) }));
    }
    [2, 3, 9].into_iter().for_each(|number| cancelled::cancel(of(number)));
    assert_eq!(queue.take_cancelled(), [2, 3, 9]);
    assert_eq!(queue.len(), 7);
    assert_eq!(run_all(&mut queue), [0, 1, 4, 5, 6, 7, 8]);
    [2, 3, 9].into_iter().for_each(|number| cancelled::ended(of(number)));
}

#[test]
fn calls_that_still_wait_shortly_before_their_deadlines_are_taken_out() {
    let mut queue = CallQueue::new(1, 1, 1000);
    let until = |part, deadline_ns| CallTerms { part, deadline_ns, ..terms(1, part) };
    for (call, part, deadline) in [(1, 10, 160), (2, 10, 320), (3, 11, 160), (4, 12, 3200)] {
        assert_waits(admit(&mut queue, call, until(part, deadline * MS)));
    }
    assert_waits(admit(&mut queue, 5, terms(2, 20)));
    assert_eq!(queue.until_overdue_ns(140 * MS), 10 * MS);
    assert_eq!(queue.take_overdue(150 * MS - 1), []);
    assert_eq!(queue.take_overdue(150 * MS), [1, 3]);
    assert_eq!(queue.until_overdue_ns(150 * MS), 150 * MS);
    // At most 20 ms before the deadline.
    assert_eq!(queue.take_overdue(3179 * MS), [2]);
    assert_eq!(queue.take_overdue(3180 * MS), [4]);
    assert_eq!((queue.len(), queue.counters.overdue), (1, 4));
    assert!(queue.until_overdue_ns(0) > NEVER / 2, "a call without a deadline waits as long as it likes");
    assert_eq!(run_all(&mut queue), [5]);
}

#[test]
fn a_procedure_with_a_limit_lets_others_pass() {
    let mut queue = CallQueue::new(1, 64, 100);
    let limited = CallTerms { procedure: Some(7), limit: Some(2), ..terms(1, 10) };
    let first = queue.begin(&limited).unwrap();
    let _second = queue.begin(&limited).unwrap();
    assert!(queue.begin(&limited).is_none());
    assert_waits(admit(&mut queue, 1, limited));
    assert!(!queue.has_runnable());
    assert_waits(admit(&mut queue, 2, terms(1, 10)));
    assert_eq!(run_all(&mut queue), [2]);
    queue.end(first, None);
    assert_eq!(run_all(&mut queue), [1]);
}

#[test]
fn higher_priorities_go_first_and_displace_the_lowest() {
    let mut queue = CallQueue::new(1, 64, 3);
    let of = |priority| CallTerms { priority, ..terms(1, 10) };
    assert_waits(admit(&mut queue, 1, of(Priority::Low)));
    assert_waits(admit(&mut queue, 2, of(Priority::Normal)));
    assert_waits(admit(&mut queue, 3, of(Priority::High)));
    assert!(matches!(admit(&mut queue, 4, of(Priority::Low)), Admitted::Full(4, _)));
    assert!(matches!(admit(&mut queue, 5, of(Priority::High)), Admitted::InPlaceOf(1, _)));
    assert!(matches!(admit(&mut queue, 6, of(Priority::Normal)), Admitted::Full(6, _)));
    assert_eq!(run_all(&mut queue), [3, 5, 2]);
}

/// A call whose time is nearly over when it is looked at.
fn late(terms: CallTerms) -> CallTerms {
    CallTerms { deadline_ns: 1_000, work_ns: 900, ..terms }
}

/// Has the queue find out which calls may be too late for their time: it passes them over, and runs the one that it is given.
#[track_caller]
fn pass_over(queue: &mut CallQueue, other: u32) {
    let (call, charge) = queue.next(500).expect("a call can run");
    assert_eq!(call, other);
    queue.end(charge, None);
}

#[test]
fn a_call_that_may_be_late_keeps_its_priority() {
    let mut queue = CallQueue::new(1, 64, 3);
    let of = |priority, call| CallTerms { priority, ..terms(1, call) };
    assert_waits(admit(&mut queue, 1, late(of(Priority::High, 10))));
    assert_waits(admit(&mut queue, 2, of(Priority::High, 10)));
    pass_over(&mut queue, 2);
    assert_waits(admit(&mut queue, 3, of(Priority::Low, 10)));
    assert_waits(admit(&mut queue, 4, of(Priority::Low, 10)));
    // A call of the lowest priority goes, not the late one.
    assert!(matches!(admit(&mut queue, 5, of(Priority::Normal, 10)), Admitted::InPlaceOf(4, _)));
    assert_eq!(run_all(&mut queue), [1, 5, 3]);
}

#[test]
fn a_binding_with_late_calls_keeps_its_places_beside_a_longer_one() {
    let mut queue = CallQueue::new(1, 64, 6);
    assert_waits(admit(&mut queue, 1, late(terms(1, 20))));
    assert_waits(admit(&mut queue, 2, late(terms(1, 20))));
    assert_waits(admit(&mut queue, 3, terms(1, 20)));
    pass_over(&mut queue, 3);
    for call in 4..8 {
        assert_waits(admit(&mut queue, call, terms(1, 10)));
    }
    assert!(matches!(admit(&mut queue, 8, terms(1, 10)), Admitted::Full(8, _)));
    // The binding with late calls has fewer; the other gives a place.
    assert!(matches!(admit(&mut queue, 9, terms(1, 20)), Admitted::InPlaceOf(7, _)));
}

#[test]
fn a_full_queue_is_divided_among_owners_and_then_bindings() {
    let mut queue = CallQueue::new(1, 64, 4);
    for call in 0..4 {
        assert_waits(admit(&mut queue, call, terms(1, 10)));
    }
    assert!(matches!(admit(&mut queue, 4, terms(1, 10)), Admitted::Full(4, _)));
    // Another binding of the owner, then another owner: each displaces the newest of the longest.
    assert!(matches!(admit(&mut queue, 5, terms(1, 11)), Admitted::InPlaceOf(3, _)));
    assert!(matches!(admit(&mut queue, 6, terms(2, 20)), Admitted::InPlaceOf(2, _)));
    assert!(matches!(admit(&mut queue, 7, terms(2, 20)), Admitted::InPlaceOf(..)));
    assert!(matches!(admit(&mut queue, 8, terms(2, 20)), Admitted::Full(8, _)));
    let run = run_all(&mut queue);
    assert_eq!(run.len(), 4);
    assert!(run.contains(&6) && run.contains(&7), "{run:?}");
}

#[test]
fn calls_of_one_binding_are_taken_out_and_the_others_stay() {
    let mut queue = CallQueue::new(1, 64, 64);
    for call in 0..3 {
        assert_waits(admit(&mut queue, call, terms(1, 10)));
        assert_waits(admit(&mut queue, 10 + call, CallTerms { limit: Some(1), ..terms(1, 10) }));
        assert_waits(admit(&mut queue, 20 + call, terms(1, 11)));
    }
    assert_waits(admit(&mut queue, 30, terms(2, 10)));
    let (of_first, of_second) = (Owner::user(1), Owner::user(2));
    assert_eq!(queue.bindings_of_large_owners(), [(of_first, 10), (of_first, 11)], "the second has a 64th");
    let mut taken = queue.take_all_of((of_first, 10));
    taken.sort_unstable();
    assert_eq!((taken, queue.counters.abandoned), (vec![0, 1, 2, 10, 11, 12], 6));
    assert!(queue.take_all_of((of_second, 11)).is_empty());
    assert_eq!(run_all(&mut queue), [20, 30, 21, 22]);
    assert_eq!((queue.len(), queue.classes.len(), queue.waiting.len()), (0, 0, 0));
}

#[test]
fn what_leaves_the_queue_is_no_longer_counted() {
    let mut queue = CallQueue::new(1, 64, 100);
    for round in 0..3 {
        for call in 0..50 {
            assert_waits(admit(&mut queue, call, terms(call % 5, u64::from(call % 7))));
        }
        assert_eq!(queue.len(), 50, "round {round}");
        assert_eq!(run_all(&mut queue).len(), 50);
        assert_eq!((queue.len(), queue.classes.len(), queue.waiting.len()), (0, 0, 0));
    }
}

#[test]
fn calls_that_compute_leave_the_processors_to_those_that_run_and_others_pass_them() {
    let mut queue = CallQueue::new(1, 64, 100);
    for _ in 0..64 {
        let charge = queue.begin(&terms(1, 10)).unwrap();
        queue.end(charge, Some(false));
    }
    for call in 0..10 {
        assert_waits(admit(&mut queue, call, terms(1, 10)));
    }
    let Some((0, first)) = queue.next(0) else { panic!() };
    let Some((1, _second)) = queue.next(0) else { panic!() };
    assert!(!queue.has_runnable(), "one processor is busy, and one call is ready");
    assert_waits(admit(&mut queue, 20, CallTerms { procedure: Some(2), ..terms(1, 10) }));
    assert_eq!(run_all(&mut queue), [20]);
    queue.end(first, Some(false));
    assert!(matches!(queue.next(0), Some((2, _))));
    assert!(queue.next(0).is_none());
}
