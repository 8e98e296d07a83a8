//! Accounts whose slices were made wrong.

use crate::account::kernel::TRACEPOINTS;
use crate::account::steps::Measured;
use crate::account::steps::tests::Calls;
use stoop_probe::{Point, Stamp};

/// What an account says of the slices of good calls when they are made wrong.
fn doubt(make_wrong: impl FnOnce(&mut Measured)) -> Option<String> {
    let mut measured = Calls::alike().measured();
    make_wrong(&mut measured);
    measured.account().expect("most calls are complete").doubt
}

fn assert_told(doubt: Option<String>, words: &str) {
    assert!(doubt.as_ref().is_some_and(|why| why.contains(words)), "not `{words}`, but {doubt:?}");
}

/// The stamps of a point in the calls with all stamps.
fn stamps_of(measured: &mut Measured, point: Point) -> impl Iterator<Item = &mut Stamp> {
    measured.stamped[0].stamps.iter_mut().filter(move |stamp| stamp.point == point)
}

#[test]
fn sum_that_is_not_the_call_is_told() {
    let mut longer = Calls::alike();
    assert_eq!(doubt(|measured| measured.plain = vec![longer.slice(&[])]), None);
    longer.steps[0] += 400;
    assert_told(
        doubt(|measured| measured.plain = vec![longer.slice(&[])]),
        "the steps are 93.2 % of the call",
    );
    // Sixteen stamps of 20 ns instead of 10.
    assert_told(doubt(|measured| measured.stamp_cycles *= 2.0), "the steps are 94.2 % of the call");
}

#[test]
fn stamps_that_are_missing_are_told() {
    let why = doubt(|measured| {
        let lost = measured.stamped[0].stamps.iter().position(|stamp| stamp.point == Point::ProcedureBegun);
        measured.stamped[0].stamps.remove(lost.expect("each call has one"));
    });
    assert_told(why, "1 of 10 calls did not pass each point once and in order");
}

#[test]
fn stamps_that_are_there_twice_are_told() {
    let why = doubt(|measured| {
        let again: Vec<Stamp> = stamps_of(measured, Point::ResultFound).take(3).map(|stamp| *stamp).collect();
        measured.stamped[0].stamps.extend(again);
        measured.stamped[0].stamps.sort_by_key(|stamp| stamp.cycles);
    });
    assert_told(why, "3 of 10 calls did not pass each point once and in order");
}

#[test]
fn stamps_of_points_that_were_exchanged_are_told() {
    let why = doubt(|measured| {
        for stamp in measured.stamped[0].stamps.iter_mut().take(16) {
            stamp.point = match stamp.point {
                Point::ProcedureBegun => Point::ProcedureEnded,
                Point::ProcedureEnded => Point::ProcedureBegun,
                other => other,
            };
        }
    });
    assert_told(why, "1 of 10 calls did not pass each point once and in order");
}

#[test]
fn stamp_at_a_wrong_moment_is_told_whichever_it_is() {
    let points = Calls::alike().measured().path.0;
    for (place, &point) in points.iter().enumerate() {
        let why = doubt(|measured| stamps_of(measured, point).for_each(|stamp| stamp.cycles += 40));
        assert_told(why, "in calls with every other stamp");
        let mut measured = Calls::alike().measured_apart();
        measured.apart[place][0].stamps.iter_mut().for_each(|stamp| stamp.cycles += 40);
        let why = measured.account().expect("calls are complete").doubt;
        assert_told(why, "in calls with every other stamp");
    }
}

#[test]
fn tracepoint_that_was_passed_at_the_wrong_end_is_told() {
    let traced = |point, behind| {
        doubt(|measured| {
            measured.traced = vec![(&TRACEPOINTS[0], vec![Calls::alike().traced(point, behind)])];
        })
    };
    assert_eq!(traced(Point::CallLeaves, 500), None);
    let wrong = "10 of 10 calls passed `net/net_dev_queue` while no packet was on its way";
    assert_told(traced(Point::ProcedureBegun, 50), wrong);
    // The clocks of tracepoints and stamps are not on one axis.
    assert_told(traced(Point::ArgumentsWritten, 50), wrong);
}

#[test]
fn tracepoints_that_were_exchanged_are_told() {
    let traced = |first, second| {
        doubt(|measured| {
            let slice = |behind| vec![Calls::alike().traced(Point::CallLeaves, behind)];
            measured.traced = vec![(&TRACEPOINTS[0], slice(first)), (&TRACEPOINTS[1], slice(second))];
        })
    };
    assert_eq!(traced(300, 1500), None);
    assert_told(traced(1500, 300), "`net/net_dev_queue` is passed 300 ns from its place");
}
