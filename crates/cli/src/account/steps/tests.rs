//! Calls whose every time is known.

use super::*;
use crate::account::clock::{Axis, Moment};
use crate::account::kernel::TRACEPOINTS;
use stoop_probe::Stamp;

const CALLS: u64 = 10;
/// Cycles, of which a nanosecond has two.
const STAMP: u64 = 20;
const STEP: u64 = 100;

fn axis() -> Axis {
    Axis { from: Moment { cycles: 0, raw_ns: 0 }, to: Moment { cycles: 2_000_000, raw_ns: 1_000_000 } }
}

/// Calls of which each of the steps takes so many cycles, with a tracepoint in the middle of the way of the call packet.
fn slice(path: &CallPath, step: u64, is_stamped: bool) -> Slice {
    let call = step * (path.0.len() as u64 + 1);
    let times = (0..=CALLS).map(|number| number * call).collect();
    let stamps = (0..if is_stamped { CALLS } else { 0 }).flat_map(|number| {
        let points = path.0.iter().zip(1..);
        points.map(move |(&point, at)| Stamp { thread: 0, point, cycles: number * call + at * step })
    });
    let stamps: Vec<Stamp> = stamps.collect();
    let leaves = stamps.iter().filter(|stamp| stamp.point == Point::CallLeaves);
    let passings = leaves.map(|stamp| stamp.cycles + step / 2).collect();
    Slice { times, passings, stamps, axis: axis() }
}

fn measured() -> Measured {
    let path = CallPath::new(false);
    // A stamp makes each step longer but the last.
    let mut plain = slice(&path, STEP, false);
    let whole = STEP * (path.0.len() as u64 + 1);
    plain.times = (0..=CALLS).map(|number| number * whole).collect();
    let stamped = slice(&path, STEP + STAMP, true);
    let traced = vec![(&TRACEPOINTS[0], vec![slice(&path, STEP + STAMP, true)])];
    Measured {
        path,
        plain: vec![plain],
        stamped: vec![stamped],
        traced,
        apart: Vec::new(),
        stamp_cycles: STAMP as f64,
        way: "the way",
        others_cpu: 0.0,
    }
}

#[test]
fn what_stamps_take_is_taken_out() {
    let account = measured().account().expect("all calls are complete");
    // The last step is as long as it was measured: STAMP cycles more than it was made.
    let excess_ns = STAMP as f64 / 2.0;
    assert_eq!(account.plain.median_ns, 850.0);
    assert!((account.accounted.median_ns - 850.0 - excess_ns).abs() < 1e-9, "{:?}", account.accounted);
    let steps = account.steps.iter().filter(|step| step.place != Place::Between);
    let (last, others) = {
        let steps: Vec<&Step> = steps.collect();
        (steps[steps.len() - 1].ns, steps)
    };
    assert!(others[..others.len() - 1].iter().all(|step| step.ns == 50.0), "{others:?}");
    assert_eq!(last, 50.0 + excess_ns);
}

#[test]
fn where_each_point_is_stamped_apart_a_step_is_the_difference_of_two_times() {
    let mut measured = measured();
    measured.traced.clear();
    let points = measured.path.0.clone();
    measured.apart = (1..).zip(points).map(|(at, point)| vec![apart(at, point)]).collect();
    let account = measured.account().expect("all calls are complete");
    assert!(account.steps.iter().all(|step| (step.ns - 50.0).abs() < 1e-9), "{:?}", account.steps);
    assert!((account.ratio - 1.0).abs() < 1e-9, "{}", account.ratio);
    assert_eq!(account.accounted.median_ns, account.plain.median_ns);
    assert_eq!(account.stamp_ns, 10.0);
}

/// Calls in which only the point behind `at` steps is stamped: half of the stamp lies before its moment, half behind.
fn apart(at: u64, point: Point) -> Slice {
    let call = STEP * (CallPath::new(false).0.len() as u64 + 1) + STAMP;
    let stamps =
        (0..CALLS).map(|number| Stamp { thread: 0, point, cycles: number * call + at * STEP + STAMP / 2 });
    slice_of(call, stamps.collect())
}

/// Calls that take so many cycles each.
fn slice_of(call: u64, stamps: Vec<Stamp>) -> Slice {
    let times = (0..=CALLS).map(|number| number * call).collect();
    Slice { times, stamps, passings: Vec::new(), axis: axis() }
}

#[test]
fn a_tracepoint_divides_the_way_on_which_it_was_passed() {
    let account = measured().account().expect("all calls are complete");
    let between: Vec<(&str, f64)> = account
        .steps
        .iter()
        .filter(|step| step.place == Place::Between)
        .map(|step| (step.name.as_str(), step.ns))
        .collect();
    // At 30 of 60 ns with half a stamp before: 25 of 50 without. No call passed it on the way back.
    assert_eq!(between.len(), 3, "{between:?}");
    assert_eq!((between[0].1, between[1].1, between[2].1), (25.0, 25.0, 50.0));
    assert_eq!(between[2].0, "the way");
    assert_eq!(account.doubt, None, "the parts make up the way");
}

#[test]
fn calls_without_stamps_are_no_account() {
    let mut measured = measured();
    measured.stamped[0].stamps.clear();
    assert!(measured.account().is_err());
}

#[test]
fn tracepoints_stay_in_the_order_in_which_a_packet_passes_them() {
    let figure = |ns| Figure { median_ns: ns, low_ns: ns, high_ns: ns, calls: 1 };
    let in_order = |times: &[f64]| {
        let mut ends: Vec<_> = TRACEPOINTS.iter().zip(times.iter().map(|ns| figure(*ns))).collect();
        put_in_order(&mut ends);
        ends.into_iter().map(|(_, end)| end.median_ns).collect::<Vec<_>>()
    };
    assert_eq!(in_order(&[1.0, 2.0, 2.0, 5.0]), [1.0, 2.0, 2.0, 5.0]);
    assert_eq!(in_order(&[10.0, 8.0, 9.5]), [9.0, 9.0, 9.5]);
    assert_eq!(in_order(&[1.0, 10.0, 8.0, 3.0, 20.0]), [1.0, 7.0, 7.0, 7.0, 20.0]);
    assert!(in_order(&[]).is_empty());
}
