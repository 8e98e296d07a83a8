//! Checks of an account by measurements that have to agree with it. The sum of the steps alone proves little: if a stamp is at a wrong moment, one
//! step is too long and its neighbour too short by the same time.

use super::kernel::Tracepoint;
use super::measure::{Call, Slice};
use super::path::CallPath;
use super::steps::{Figure, Gap, Measured, Place, put_in_order};
use stoop_probe::Point;

/// The largest share of the stamped calls that may fail to pass each point once and in order: those in which a packet was sent again, or a thread
/// received two.
const DISORDERED_MAX: f64 = 0.05;
/// Times of the same steps, or of the same call, may differ by this share of them.
const DIFFERENCE_MAX: f64 = 0.05;
/// A difference of this share of the call is small: where threads sleep, caches are cold, and a stamp takes longer than was measured.
const SMALL: f64 = 0.002;

impl Measured {
    /// The measurements that contradict the times between the points, in words.
    pub(super) fn contradictions(&self, gaps: &[(Gap, Figure)], plain_ns: f64, rate: f64) -> Vec<String> {
        let mut contradictions: Vec<String> = self.disordered().into_iter().collect();
        contradictions.extend(self.alternate.iter().enumerate().flat_map(|(number, slices)| {
            let points = Alternate::of(&self.path, number);
            self.differ_with_fewer_stamps(&points, slices, gaps, plain_ns, rate)
        }));
        contradictions.extend(self.traced.iter().filter_map(|traced| self.displaced(traced)));
        let between = gaps.iter().filter(|(gap, _)| gap.place == Place::Between);
        contradictions.extend(between.flat_map(|gap| self.swapped(gap, plain_ns, rate)));
        contradictions
    }

    /// Calls that lack a stamp, have it twice, or have stamps in a wrong order, on whichever path they took.
    fn disordered(&self) -> Option<String> {
        let apart = self.path.0.iter().zip(&self.apart);
        let apart = apart.map(|(point, slices)| (CallPath(vec![*point]), &slices[..]));
        let all = [(CallPath::new(false), &self.stamped[..])].into_iter().chain(apart);
        let worst = all.map(|(path, slices)| {
            let made: usize = slices.iter().map(|slice| slice.times.len() - 1).sum();
            let complete: usize = slices.iter().map(|slice| path.calls(slice).len()).sum();
            (made - complete, made)
        });
        let (disordered, made) = worst.max_by_key(|(disordered, _)| *disordered)?;
        (disordered as f64 > DISORDERED_MAX * made as f64)
            .then(|| format!("{disordered} of {made} calls did not pass each point once and in order"))
    }

    /// Steps within one process that take another time in calls with every other stamp.
    fn differ_with_fewer_stamps(
        &self,
        alternate: &Alternate,
        slices: &[Slice],
        gaps: &[(Gap, Figure)],
        plain_ns: f64,
        rate: f64,
    ) -> Vec<String> {
        let calls: Vec<Call> = slices.iter().flat_map(|slice| alternate.path.calls(slice)).collect();
        let most_ns = (self.stamp_cycles / rate).max(SMALL * plain_ns);
        let mut differ = Vec::new();
        for (from, ends) in alternate.times.windows(2).enumerate().filter(|_| !calls.is_empty()) {
            let steps = &gaps[ends[0]..ends[1]];
            if steps.iter().any(|(gap, _)| gap.place == Place::Between) {
                continue;
            }
            let ns: f64 = steps.iter().map(|(_, figure)| figure.ns).sum();
            let cost = if ends[1] == gaps.len() { 0.0 } else { self.stamp_cycles };
            let again = self.figure(&calls, |call| ((call[from + 1] - call[from]) as f64 - cost) / rate).ns;
            if (ns - again).abs() > most_ns.max(DIFFERENCE_MAX * ns) {
                let [first, last] = [&steps[0], &steps[steps.len() - 1]].map(|(gap, _)| gap.name);
                let name =
                    if steps.len() == 1 { format!("`{first}`") } else { format!("`{first}` to `{last}`") };
                differ.push(format!("{name}: {ns:.0} ns, and {again:.0} ns in calls with every other stamp"));
            }
        }
        differ
    }

    /// A tracepoint that most calls pass while no packet is on its way.
    fn displaced(&self, (tracepoint, slices): &(&Tracepoint, Vec<Slice>)) -> Option<String> {
        // Among the times of a call, behind its begin.
        let time_of = |point| 1 + self.path.0.iter().position(|each| *each == point).unwrap_or_default();
        let ways = [(Point::CallLeaves, Point::CallSeen), (Point::ResultLeaves, Point::ResultSeen)];
        let ways = ways.map(|(leaves, seen)| (time_of(leaves), time_of(seen)));
        let is_displaced = |slice: &Slice, call: &Call| {
            let on_a_way: usize =
                ways.iter().map(|&(from, to)| slice.passed(call[from]..call[to]).len()).sum();
            slice.passed(call[0]..call[call.len() - 1]).len() > on_a_way
        };
        let is_displaced = &is_displaced;
        let calls: Vec<bool> = slices
            .iter()
            .flat_map(|slice| self.path.calls(slice).into_iter().map(move |call| is_displaced(slice, &call)))
            .collect();
        let displaced = calls.iter().filter(|is_displaced| **is_displaced).count();
        (displaced * 2 > calls.len()).then(|| {
            format!(
                "{displaced} of {} calls passed `{}` while no packet was on its way",
                calls.len(),
                tracepoint.name
            )
        })
    }

    /// Tracepoints of a way that seem to be passed in another order than their list has.
    fn swapped(&self, (gap, whole): &(Gap, Figure), plain_ns: f64, rate: f64) -> Vec<String> {
        let measured = self.ends(gap, *whole, rate);
        let mut in_order = measured.clone();
        put_in_order(&mut in_order);
        let moved = measured.iter().zip(&in_order).filter_map(|((tracepoint, end), (_, moved))| {
            let ns = (moved.ns - end.ns).abs();
            let name = tracepoint.name;
            (ns > DIFFERENCE_MAX * plain_ns)
                .then(|| format!("`{name}` is passed {ns:.0} ns from its place in the order of tracepoints"))
        });
        moved.collect()
    }
}

/// Every other point of a path.
pub(super) struct Alternate {
    pub(super) path: CallPath,
    /// Where its times are among the times of a call with all points: the begin of the call, its points, and the end.
    times: Vec<usize>,
}

impl Alternate {
    /// From the first or second point on.
    pub(super) fn of(path: &CallPath, first: usize) -> Self {
        let points = path.0.len();
        let places = (first..points).step_by(2);
        let times = [0].into_iter().chain(places.clone().map(|place| place + 1)).chain([points + 1]);
        Self { path: CallPath(places.map(|place| path.0[place]).collect()), times: times.collect() }
    }
}

#[cfg(test)]
mod tests;
