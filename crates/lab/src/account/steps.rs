//! From slices to the account: how long each step took, and what the steps add up to.

use super::doubt;
use super::kernel::{Side, Tracepoint};
use super::measure::{Call, Slice};
use super::noise;
use super::path::CallPath;
use super::typical::{Typical, mean};
use crate::samples::Quartiles;
use serde::Serialize;
use stoop_probe::Point;

/// A step of a call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) place: Place,
    /// From the begin of the call to the begin of the step, by means.
    pub(crate) begins_ns: f64,
    /// Mean over the typical calls, and quartiles over all. Of a step in the kernel, the quartiles are those of the time since its process entered, or
    /// until its process leaves, the kernel.
    pub(crate) ns: f64,
    pub(crate) low_ns: f64,
    pub(crate) high_ns: f64,
}

/// Where a step takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    Caller,
    /// Between the processes: the kernel, or the memory that they share.
    Between,
    Server,
}

/// All slices of an account, and what a stamp takes.
pub(super) struct Measured {
    pub(super) path: CallPath,
    pub(super) plain: Vec<Slice>,
    pub(super) stamped: Vec<Slice>,
    pub(super) traced: Vec<(&'static Tracepoint, Vec<Slice>)>,
    /// Of each point of the path, calls in which only that point is stamped, round by round; empty where all points are stamped together.
    pub(super) apart: Vec<Vec<Slice>>,
    /// Calls in which every other point of the path is stamped, from the first on and from the second on: to check the steps.
    pub(super) alternate: [Vec<Slice>; 2],
    pub(super) stamp_cycles: f64,
    /// Cycles by which the counter advances at a time.
    pub(super) tick_cycles: u64,
    /// The medium that carries packets between the processes, for the name of the step.
    pub(super) way: &'static str,
    /// The time that other programs and the host used of the processors meanwhile, in processor seconds per second.
    pub(super) others_cpu: f64,
}

/// A step of every call: its begin and its end among the times of a call.
#[derive(Clone, Copy)]
pub(super) struct Gap {
    pub(super) from: usize,
    pub(super) place: Place,
    pub(super) name: &'static str,
}

/// A time that many calls took.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figure {
    /// Mean over the [typical calls](Typical).
    pub(crate) ns: f64,
    /// Quartiles over all calls.
    pub(crate) low_ns: f64,
    pub(crate) high_ns: f64,
    pub(crate) calls: usize,
    /// Of these the typical ones.
    pub(crate) typical: usize,
}

/// A finished account.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Account {
    /// The call without instruments.
    pub(crate) plain: Figure,
    /// The call with stamps, their cost not taken out.
    pub(crate) stamped: Figure,
    /// The sum of the steps of each call, the cost of stamps taken out.
    pub(crate) accounted: Figure,
    /// That sum and the call without instruments, round by round: their ratio.
    pub(crate) ratio: f64,
    pub(crate) ratio_low: f64,
    pub(crate) ratio_high: f64,
    /// Nanoseconds that a stamp takes.
    pub(crate) stamp_ns: f64,
    /// Nanoseconds by which the cycle counter advances at a time.
    pub(crate) tick_ns: f64,
    /// Stamped calls that did not pass each point once and in order.
    pub(crate) left_out: usize,
    /// The reason why the machine was noisy, if it was.
    pub(crate) noise: Option<String>,
    /// The reason why the steps do not add up to the call, if they do not.
    pub(crate) doubt: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Measured {
    fn cycles_per_ns(&self) -> f64 {
        let rates = self.plain.iter().map(|slice| slice.axis.cycles_per_ns()).collect();
        Quartiles::of(rates).median
    }

    /// The account.
    ///
    /// # Errors
    /// No call has passed all points.
    pub(super) fn account(&self) -> Result<Account, String> {
        let rate = self.cycles_per_ns();
        let plain: Vec<Vec<Call>> = self.plain.iter().map(Slice::calls).collect();
        let calls: Vec<Call> = self.stamped.iter().flat_map(|slice| self.path.calls(slice)).collect();
        if calls.is_empty() {
            return Err("no call has passed all points once and in order".into());
        }
        let (summed, stamps) = self.summed();
        let whole_ns =
            |calls: &[Call], cost: f64| self.figure(calls, |call| (whole(call) as f64 - cost) / rate);
        let sum_ns = |calls: &[Call]| whole_ns(calls, stamps as f64 * self.stamp_cycles);
        let plain_ns: Vec<f64> = plain.iter().map(|calls| whole_ns(calls, 0.0).ns).collect();
        let rounds = summed.iter().zip(&plain_ns).filter(|(calls, _)| !calls.is_empty());
        let ratios = Quartiles::of(rounds.map(|(calls, plain_ns)| sum_ns(calls).ns / plain_ns).collect());
        let gaps: Vec<(Gap, Figure)> =
            self.gaps().map(|gap| (gap, self.gap(&calls, gap.from, rate))).collect();
        let steps = self.steps(&gaps, rate);
        let plain = whole_ns(&plain.concat(), 0.0);
        let contradictions = self.contradictions(&gaps, plain.ns, rate);
        let stamp_ns = self.stamp_cycles / rate;
        let made: usize = self.stamped.iter().map(|slice| slice.times.len() - 1).sum();
        Ok(Account {
            plain,
            stamped: whole_ns(&calls, 0.0),
            accounted: sum_ns(&summed.concat()),
            ratio: ratios.median,
            ratio_low: ratios.low,
            ratio_high: ratios.high,
            stamp_ns,
            tick_ns: self.tick_cycles as f64 / rate,
            left_out: made - calls.len(),
            noise: noise::of(plain_ns, self.others_cpu),
            doubt: doubt::of(&steps, ratios.median, stamp_ns, contradictions),
            steps,
        })
    }

    /// A time of calls.
    pub(super) fn figure(&self, calls: &[Call], ns: impl Fn(&[u64]) -> f64) -> Figure {
        let typical = Typical::of(calls.iter().map(|call| whole(call)), self.tick_cycles as f64);
        let typical = calls.iter().filter(|call| typical.contains(whole(call)));
        let typical: Vec<f64> = typical.map(|call| ns(call)).collect();
        let Quartiles { low, high, .. } = Quartiles::of(calls.iter().map(|call| ns(call)).collect());
        Figure { ns: mean(&typical), low_ns: low, high_ns: high, calls: calls.len(), typical: typical.len() }
    }

    fn steps(&self, gaps: &[(Gap, Figure)], rate: f64) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut gap_begins_ns = 0.0;
        for &(gap, figure) in gaps {
            let mut parts = match gap.place {
                Place::Between => self.parts(&gap, figure, rate),
                _ => Vec::new(),
            };
            if parts.is_empty() {
                parts.push((gap.name.into(), figure));
            }
            let mut begins_ns = gap_begins_ns;
            for (name, Figure { ns, low_ns, high_ns, .. }) in parts {
                steps.push(Step { name, place: gap.place, begins_ns, ns, low_ns, high_ns });
                begins_ns += ns;
            }
            // Not where its parts end: `doubt` finds out whether they make up the gap.
            gap_begins_ns += figure.ns;
        }
        steps
    }

    /// How long the calls took from one of their times to the next. The stamp at its end has taken some of it; the reading of the clock
    /// at the end of a call is part of the call without instruments, too.
    fn gap(&self, calls: &[Call], from: usize, rate: f64) -> Figure {
        if !self.apart.is_empty() {
            return self.gap_apart(from, rate);
        }
        let is_last = from == self.path.0.len();
        let cost = if is_last { 0.0 } else { self.stamp_cycles };
        self.figure(calls, |call| ((call[from + 1] - call[from]) as f64 - cost) / rate)
    }

    /// As [`gap`](Self::gap), where each point is stamped in calls of its own: the difference of two times since the begin of a
    /// call. The step behind the last point lies in the calls with that point.
    fn gap_apart(&self, from: usize, rate: f64) -> Figure {
        let points = self.path.0.len();
        if from == points {
            return self.time_apart(points - 1, rate, |call| call[2] - call[1]);
        }
        let since_begin = |point| self.time_apart(point, rate, |call| call[1] - call[0]);
        let (begin_ns, end) = match from {
            0 => (0.0, since_begin(0)),
            _ => (since_begin(from - 1).ns, since_begin(from)),
        };
        Figure {
            ns: end.ns - begin_ns,
            low_ns: end.low_ns - begin_ns,
            high_ns: end.high_ns - begin_ns,
            ..end
        }
    }

    /// A time of the calls in which only that point is stamped. Half of the stamp lies before its moment, half behind.
    fn time_apart(&self, point: usize, rate: f64, time: impl Fn(&[u64]) -> u64) -> Figure {
        let path = CallPath(vec![self.path.0[point]]);
        let calls: Vec<Call> = self.apart[point].iter().flat_map(|slice| path.calls(slice)).collect();
        self.figure(&calls, |call| (time(call) as f64 - self.stamp_cycles / 2.0) / rate)
    }

    /// The calls of which the steps are added up, round by round, and the number of their stamps.
    fn summed(&self) -> (Vec<Vec<Call>>, usize) {
        let calls =
            |path: &CallPath, slices: &[Slice]| slices.iter().map(|slice| path.calls(slice)).collect();
        match (self.apart.last(), self.path.0.last()) {
            (Some(slices), Some(&last)) => (calls(&CallPath(vec![last]), slices), 1),
            _ => (calls(&self.path, &self.stamped), self.path.0.len()),
        }
    }

    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let way = self.way;
        let ends = self.path.0.iter().map(move |&point| of_gap_before(point, way));
        let last = (Place::Caller, "calling program: end of the loop");
        ends.chain([last]).enumerate().map(|(from, (place, name))| Gap { from, place, name })
    }

    /// The parts of a gap between the processes that the kernel's tracepoints tell apart.
    fn parts(&self, gap: &Gap, whole: Figure, rate: f64) -> Vec<(String, Figure)> {
        let mut ends = self.ends(gap, whole, rate);
        put_in_order(&mut ends);
        let mut parts = Vec::new();
        let mut begin_ns = 0.0;
        for (tracepoint, end) in &ends {
            let figure = Figure {
                ns: end.ns - begin_ns,
                low_ns: end.low_ns - begin_ns,
                high_ns: end.high_ns - begin_ns,
                ..*end
            };
            begin_ns = end.ns;
            parts.push((format!("{} ({})", tracepoint.step, tracepoint.name), figure));
        }
        if !parts.is_empty() {
            let rest = Figure {
                ns: whole.ns - begin_ns,
                low_ns: whole.low_ns - begin_ns,
                high_ns: whole.high_ns - begin_ns,
                ..whole
            };
            parts.push((REST.into(), rest));
        }
        parts
    }

    /// The tracepoints that calls passed in a gap, and when, since its begin.
    pub(super) fn ends(&self, gap: &Gap, whole: Figure, rate: f64) -> Vec<(&'static Tracepoint, Figure)> {
        let end = |(tracepoint, slices): &(&'static Tracepoint, Vec<Slice>)| {
            let end = self.end_of(tracepoint, slices, gap, whole, rate)?;
            Some((*tracepoint, end))
        };
        self.traced.iter().filter_map(end).collect()
    }

    /// When, since the begin of the gap, calls passed a tracepoint; `None` if most did not.
    ///
    /// The stamp at the gap's begin or end and the tracepoint itself lie half before and half behind the moments that they note.
    fn end_of(
        &self,
        tracepoint: &Tracepoint,
        slices: &[Slice],
        gap: &Gap,
        whole: Figure,
        rate: f64,
    ) -> Option<Figure> {
        let (mut passed, mut all) = (Vec::new(), Vec::new());
        for slice in slices {
            for call in self.path.calls(slice) {
                let (begun, from, to, ended) =
                    (call[0], call[gap.from], call[gap.from + 1], call[call.len() - 1]);
                let times = slice.passed(from..to);
                let at = match tracepoint.side {
                    Side::Sender => times.first(),
                    Side::Receiver => times.last(),
                };
                passed.extend(at.map(|&at| vec![begun, from, at, to, ended]));
                all.push(vec![begun, from, to, ended]);
            }
        }
        if passed.len() * 10 < all.len() * 8 || all.is_empty() {
            return None;
        }
        let len = self.figure(&all, |call| ((call[2] - call[1]) as f64 - self.stamp_cycles) / rate);
        let trace_ns = (len.ns - whole.ns).clamp(0.0, TRACE_NS_MAX);
        let half_ns = (trace_ns + self.stamp_cycles / rate) / 2.0;
        let figure = self.figure(&passed, |call| match tracepoint.side {
            Side::Sender => (call[2] - call[1]) as f64 / rate - half_ns,
            Side::Receiver => whole.ns - ((call[3] - call[2]) as f64 / rate - half_ns),
        });
        Some(Figure { ns: figure.ns.clamp(0.0, whole.ns), ..figure })
    }
}

/// Tracepoints are measured in different calls: where one seems to be passed before an earlier one of the list, both are taken to be passed
/// at the mean of their times. (The least change that puts them in order: pool adjacent violators.)
pub(super) fn put_in_order(ends: &mut [(&Tracepoint, Figure)]) {
    // Runs of tracepoints that are passed at one time: their number, and that time.
    let mut runs: Vec<(usize, f64)> = Vec::new();
    for (_, end) in &*ends {
        let mut run = (1, end.ns);
        while let Some((number, ns)) = runs.pop_if(|before| before.1 > run.1) {
            let both = number + run.0;
            run = (both, (ns * number as f64 + run.1 * run.0 as f64) / both as f64);
        }
        runs.push(run);
    }
    let times = runs.into_iter().flat_map(|(number, ns)| std::iter::repeat_n(ns, number));
    ends.iter_mut().zip(times).for_each(|((_, end), ns)| end.ns = ns);
}

/// The last step of a way through the kernel. No tracepoint is at its end, so it is what the others leave of the way.
pub(super) const REST: &str = "remainder: return of the receiving system call";

/// A tracepoint takes no longer; more of a difference is noise of waits.
const TRACE_NS_MAX: f64 = 600.0;

fn whole(call: &[u64]) -> u64 {
    call[call.len() - 1] - call[0]
}

/// The step that ends at a point.
fn of_gap_before(point: Point, way: &'static str) -> (Place, &'static str) {
    match point {
        Point::CallSeen | Point::ResultSeen => (Place::Between, way),
        point if point.is_servers() => (Place::Server, point.step()),
        point => (Place::Caller, point.step()),
    }
}

#[cfg(test)]
pub(super) mod tests;
