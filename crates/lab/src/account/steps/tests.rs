//! Calls whose every time is known.

use super::*;
use crate::account::checks::Alternate;
use crate::account::clock::{Axis, Moment};
use crate::account::kernel::TRACEPOINTS;
use stoop_probe::Stamp;

/// Cycles, of which a nanosecond has two.
const STAMP: u64 = 20;
const STEP: u64 = 100;
const WAY: u64 = 2000;

/// Calls that follow each other.
pub(in crate::account) struct Calls {
    pub(in crate::account) number: u64,
    /// Cycles of each step without stamps.
    pub(in crate::account) steps: Vec<u64>,
}

impl Calls {
    /// Ten, whose steps are alike but for the ways between the processes: 15 of 50 ns, and 2 of 1000 ns.
    pub(in crate::account) fn alike() -> Self {
        let step = |point: Point| match point {
            Point::CallSeen | Point::ResultSeen => WAY,
            _ => STEP,
        };
        Self { number: 10, steps: path().0.iter().map(|&point| step(point)).chain([STEP]).collect() }
    }

    fn whole_ns(&self) -> f64 {
        self.steps.iter().sum::<u64>() as f64 / 2.0
    }

    /// Those calls with stamps at these points, each of which makes the step that it ends longer.
    pub(in crate::account) fn slice(&self, stamped: &[Point]) -> Slice {
        let (mut now, mut times, mut stamps) = (0, vec![0], Vec::new());
        for _ in 0..self.number {
            for (&point, step) in path().0.iter().zip(&self.steps) {
                now += step;
                if stamped.contains(&point) {
                    now += STAMP;
                    stamps.push(Stamp { thread: 0, point, cycles: now });
                }
            }
            now += self.steps[self.steps.len() - 1];
            times.push(now);
        }
        let moment = |raw_ns| Moment { cycles: 2 * raw_ns, raw_ns };
        let axis = Axis { from: moment(0), to: moment(1_000_000) };
        Slice { times, stamps, passings: Vec::new(), axis }
    }

    /// Those with stamps at all points and a tracepoint so many cycles behind each passing of `point`.
    pub(in crate::account) fn traced(&self, point: Point, behind: u64) -> Slice {
        let mut slice = self.slice(&path().0);
        let passed = slice.stamps.iter().filter(|stamp| stamp.point == point);
        slice.passings = passed.map(|stamp| stamp.cycles + behind).collect();
        slice
    }

    /// All slices of an account but those with tracepoints.
    pub(in crate::account) fn measured(&self) -> Measured {
        Measured {
            path: path(),
            plain: vec![self.slice(&[])],
            stamped: vec![self.slice(&path().0)],
            traced: Vec::new(),
            apart: Vec::new(),
            alternate: [0, 1].map(|first| vec![self.slice(&Alternate::of(&path(), first).path.0)]),
            stamp_cycles: STAMP as f64,
            tick_cycles: 1,
            way: "the way",
            others_cpu: 0.0,
        }
    }

    /// The same where each point is stamped in calls of its own, as over shared memory. Half of the stamp lies before its moment, half behind.
    pub(in crate::account) fn measured_apart(&self) -> Measured {
        let apart = |&point: &Point| {
            let mut slice = self.slice(&[point]);
            slice.stamps.iter_mut().for_each(|stamp| stamp.cycles -= STAMP / 2);
            vec![slice]
        };
        Measured { apart: path().0.iter().map(apart).collect(), ..self.measured() }
    }
}

fn path() -> CallPath {
    CallPath::new(false)
}

fn account(measured: &Measured) -> Account {
    measured.account().expect("calls are complete")
}

/// The cycles of the steps of an account, of which a nanosecond has two.
fn steps_in_cycles(account: &Account) -> Vec<f64> {
    account.steps.iter().map(|step| 2.0 * step.ns).collect()
}

/// Asserts that each step has its cycles to within so many.
fn assert_steps(account: &Account, cycles: &[u64], within: f64) {
    let steps = steps_in_cycles(account);
    assert_eq!(steps.len(), cycles.len());
    let are_close = steps.iter().zip(cycles).all(|(step, cycles)| (step - *cycles as f64).abs() < within);
    assert!(are_close, "{steps:.1?} instead of {cycles:?}");
}

#[test]
fn what_stamps_take_is_taken_out() {
    let calls = Calls::alike();
    let account = account(&calls.measured());
    assert_steps(&account, &calls.steps, 1e-6);
    assert_eq!((account.plain.ns, account.accounted.ns), (calls.whole_ns(), calls.whole_ns()));
    assert_eq!(account.doubt, None);
}

#[test]
fn where_each_point_is_stamped_apart_a_step_is_the_difference_of_two_times() {
    let calls = Calls::alike();
    let account = account(&calls.measured_apart());
    assert_steps(&account, &calls.steps, 1e-6);
    assert!((account.ratio - 1.0).abs() < 1e-9, "{}", account.ratio);
    assert_eq!(account.accounted.ns, account.plain.ns);
    assert_eq!((account.stamp_ns, account.doubt), (10.0, None));
}

/// Calls of steps that last from a tenth to twice the tick.
fn calls_of_short_steps(tick: u64) -> Calls {
    let steps = (0..=path().0.len() as u64).map(|step| tick * (step % 20 + 1) / 10);
    let mut steps: Vec<u64> = steps.collect();
    // So that calls begin everywhere within a tick, whichever stamps they make: 0, 1, 8 or 16.
    let whole = |steps: &[u64], stamps: u64| steps.iter().sum::<u64>() + stamps * STAMP;
    while ![0, 1, 8, 16].iter().all(|&stamps| divisor(whole(&steps, stamps), tick) == 1) {
        steps[0] += 1;
    }
    Calls { number: 130 * tick, steps }
}

/// The greatest common divisor.
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

/// The counter stands still, and advances by so many cycles at a time.
fn coarsen(measured: &mut Measured, tick: u64) {
    let Measured { plain, stamped, apart, alternate, .. } = measured;
    let slices = plain.iter_mut().chain(stamped).chain(apart.iter_mut().flatten());
    for slice in slices.chain(alternate.iter_mut().flatten()) {
        let stamps = slice.stamps.iter_mut().map(|stamp| &mut stamp.cycles);
        stamps.chain(&mut slice.times).for_each(|cycles| *cycles = *cycles / tick * tick);
    }
    measured.tick_cycles = tick;
}

#[test]
fn steps_shorter_than_the_tick_of_the_counter_are_measured() {
    for (tick, apart) in [(26, false), (26, true), (49, false), (49, true)] {
        let calls = calls_of_short_steps(tick);
        let mut measured = if apart { calls.measured_apart() } else { calls.measured() };
        coarsen(&mut measured, tick);
        let account = account(&measured);
        // Each is known to a fortieth of the tick.
        assert_steps(&account, &calls.steps, tick as f64 / 40.0);
        assert!((0.99..1.01).contains(&account.ratio), "{}", account.ratio);
        assert_eq!(account.doubt, None);
    }
}

#[test]
fn steps_add_up_to_the_accounted_time_with_any_tick() {
    for tick in [1, 26, 49] {
        let calls = calls_of_short_steps(26);
        for mut measured in [calls.measured(), calls.measured_apart()] {
            coarsen(&mut measured, tick);
            let account = account(&measured);
            let sum: f64 = account.steps.iter().map(|step| step.ns).sum();
            assert!((sum - account.accounted.ns).abs() < 1e-6, "{sum} {:?}", account.accounted);
        }
    }
}

#[test]
fn a_tracepoint_divides_the_way_on_which_it_was_passed() {
    let calls = Calls::alike();
    let mut measured = calls.measured();
    measured.traced = vec![(&TRACEPOINTS[0], vec![calls.traced(Point::CallLeaves, (WAY + STAMP) / 2)])];
    let account = account(&measured);
    let between = account.steps.iter().filter(|step| step.place == Place::Between);
    let between: Vec<(&str, f64)> = between.map(|step| (step.name.as_str(), step.ns)).collect();
    // At 505 of 1010 ns with half a stamp before: 500 of 1000 without. No call passed it on the way back.
    assert_eq!(between.len(), 3, "{between:?}");
    assert_eq!((between[0].1, between[1].1, between[2].1), (500.0, 500.0, 1000.0));
    assert_eq!((between[1].0, between[2].0), (REST, "the way"));
    assert_eq!(account.doubt, None, "the parts make up the way");
}

#[test]
fn calls_without_stamps_are_no_account() {
    let mut measured = Calls::alike().measured();
    measured.stamped[0].stamps.clear();
    assert!(measured.account().is_err());
}

#[test]
fn tracepoints_stay_in_the_order_in_which_a_packet_passes_them() {
    let figure = |ns| Figure { ns, low_ns: ns, high_ns: ns, calls: 1, typical: 1 };
    let in_order = |times: &[f64]| {
        let mut ends: Vec<_> = TRACEPOINTS.iter().zip(times.iter().map(|ns| figure(*ns))).collect();
        put_in_order(&mut ends);
        ends.into_iter().map(|(_, end)| end.ns).collect::<Vec<_>>()
    };
    assert_eq!(in_order(&[1.0, 2.0, 2.0, 5.0]), [1.0, 2.0, 2.0, 5.0]);
    assert_eq!(in_order(&[10.0, 8.0, 9.5]), [9.0, 9.0, 9.5]);
    assert_eq!(in_order(&[1.0, 10.0, 8.0, 3.0, 20.0]), [1.0, 7.0, 7.0, 7.0, 20.0]);
    assert!(in_order(&[]).is_empty());
}
