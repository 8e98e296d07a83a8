//! From slices to the account: how long each step took, and what the steps add up to.

use super::doubt;
use super::kernel::{Side, Tracepoint};
use super::measure::Slice;
use super::noise;
use super::path::CallPath;
use crate::samples::Quartiles;
use serde::Serialize;
use stoop_probe::Point;

/// A step of a call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) place: Place,
    /// From the begin of the call to the begin of the step, by medians.
    pub(crate) begins_ns: f64,
    /// Median and quartiles over the calls. Of a step in the kernel, the quartiles are those of the time since its process entered, or
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
    pub(super) stamp_cycles: f64,
    /// The medium that carries packets between the processes, for the name of the step.
    pub(super) way: &'static str,
    /// The time that other programs and the host used of the processors meanwhile, in processor seconds per second.
    pub(super) others_cpu: f64,
}

/// A step of every call: its begin and its end among the times of a call.
struct Gap {
    from: usize,
    place: Place,
    name: &'static str,
}

/// The time that one call, or many, took.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) median_ns: f64,
    pub(crate) low_ns: f64,
    pub(crate) high_ns: f64,
    pub(crate) calls: usize,
}

impl Figure {
    fn of(values: Vec<f64>) -> Self {
        let calls = values.len();
        let Quartiles { low, median, high } = Quartiles::of(values);
        Self { median_ns: median, low_ns: low, high_ns: high, calls }
    }
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
        let plain: Vec<Vec<f64>> = self.plain.iter().map(Slice::durations_ns).collect();
        let calls: Vec<Vec<u64>> = self.stamped.iter().flat_map(|slice| self.path.calls(slice)).collect();
        if calls.is_empty() {
            return Err("no call has passed all points once and in order".into());
        }
        let sums = self.sums(rate);
        let median = |times: &Vec<f64>| Quartiles::of(times.clone()).median;
        let rounds = sums.iter().zip(&plain).filter(|(sums, _)| !sums.is_empty());
        let ratios = Quartiles::of(rounds.map(|(sums, plain)| median(sums) / median(plain)).collect());
        let steps = self.steps(&calls, rate);
        let made: usize = self.stamped.iter().map(|slice| slice.times.len() - 1).sum();
        Ok(Account {
            plain: Figure::of(plain.concat()),
            stamped: Figure::of(calls.iter().map(|call| whole(call) as f64 / rate).collect()),
            accounted: Figure::of(sums.concat()),
            ratio: ratios.median,
            ratio_low: ratios.low,
            ratio_high: ratios.high,
            stamp_ns: self.stamp_cycles / rate,
            left_out: made - calls.len(),
            noise: noise::of(plain.iter().map(median).collect(), self.others_cpu),
            doubt: doubt::of(&steps, ratios.median),
            steps,
        })
    }

    fn steps(&self, calls: &[Vec<u64>], rate: f64) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut gap_begins_ns = 0.0;
        for gap in self.gaps() {
            let figure = self.gap(calls, gap.from, rate);
            let mut parts = match gap.place {
                Place::Between => self.parts(&gap, figure, rate),
                _ => Vec::new(),
            };
            if parts.is_empty() {
                parts.push((gap.name.into(), figure));
            }
            let mut begins_ns = gap_begins_ns;
            for (name, Figure { median_ns: ns, low_ns, high_ns, .. }) in parts {
                steps.push(Step { name, place: gap.place, begins_ns, ns, low_ns, high_ns });
                begins_ns += ns;
            }
            // Not where its parts end: `doubt` finds out whether they make up the gap.
            gap_begins_ns += figure.median_ns;
        }
        steps
    }

    /// How long the calls took from one of their times to the next. The stamp at its end has taken some of it; the reading of the clock
    /// at the end of a call is part of the call without instruments, too.
    fn gap(&self, calls: &[Vec<u64>], from: usize, rate: f64) -> Figure {
        if !self.apart.is_empty() {
            return self.gap_apart(from, rate);
        }
        let is_last = from == self.path.0.len();
        let cost = if is_last { 0.0 } else { self.stamp_cycles };
        let ns = |call: &Vec<u64>| ((call[from + 1] - call[from]) as f64 - cost) / rate;
        Figure::of(calls.iter().map(ns).collect())
    }

    /// As [`gap`](Self::gap), where each point is stamped in calls of its own: the difference of the medians of two times since the begin of a
    /// call. The step behind the last point lies in the calls with that point.
    fn gap_apart(&self, from: usize, rate: f64) -> Figure {
        let points = self.path.0.len();
        if from == points {
            return Figure::of(self.times_apart(points - 1, rate, |call| call[2] - call[1]));
        }
        let since_begin = |point| Figure::of(self.times_apart(point, rate, |call| call[1] - call[0]));
        let (begin_ns, end) = match from {
            0 => (0.0, since_begin(0)),
            _ => (since_begin(from - 1).median_ns, since_begin(from)),
        };
        Figure {
            median_ns: end.median_ns - begin_ns,
            low_ns: end.low_ns - begin_ns,
            high_ns: end.high_ns - begin_ns,
            ..end
        }
    }

    /// A time of each call in which only that point is stamped. Half of the stamp lies before its moment, half behind.
    fn times_apart(&self, point: usize, rate: f64, time: impl Fn(&[u64]) -> u64) -> Vec<f64> {
        let path = CallPath(vec![self.path.0[point]]);
        let ns = |call: Vec<u64>| (time(&call) as f64 - self.stamp_cycles / 2.0) / rate;
        self.apart[point].iter().flat_map(|slice| path.calls(slice)).map(ns).collect()
    }

    /// Of each round, the sums of the steps of its calls.
    fn sums(&self, rate: f64) -> Vec<Vec<f64>> {
        let sums = |path: &CallPath, slice: &Slice| {
            let stamps = path.0.len() as f64 * self.stamp_cycles;
            path.calls(slice).iter().map(|call| (whole(call) as f64 - stamps) / rate).collect()
        };
        match (self.apart.last(), self.path.0.last()) {
            (Some(rounds), Some(&last)) => {
                rounds.iter().map(|slice| sums(&CallPath(vec![last]), slice)).collect()
            }
            _ => self.stamped.iter().map(|slice| sums(&self.path, slice)).collect(),
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        let way = self.way;
        let ends = self.path.0.iter().map(|&point| of_gap_before(point, way));
        let last = (Place::Caller, "calling program: end of the loop");
        let gaps = ends.chain([last]).enumerate();
        gaps.map(|(from, (place, name))| Gap { from, place, name }).collect()
    }

    /// The parts of a gap between the processes that the kernel's tracepoints tell apart.
    fn parts(&self, gap: &Gap, whole: Figure, rate: f64) -> Vec<(String, Figure)> {
        let mut ends: Vec<(&Tracepoint, Figure)> = Vec::new();
        for (tracepoint, slices) in &self.traced {
            let end = self.end_of(tracepoint, slices, gap, whole, rate);
            ends.extend(end.map(|figure| (*tracepoint, figure)));
        }
        put_in_order(&mut ends);
        let mut parts = Vec::new();
        let mut begin_ns = 0.0;
        for (tracepoint, end) in &ends {
            let figure = Figure {
                median_ns: end.median_ns - begin_ns,
                low_ns: end.low_ns - begin_ns,
                high_ns: end.high_ns - begin_ns,
                ..*end
            };
            begin_ns = end.median_ns;
            parts.push((format!("{} ({})", tracepoint.step, tracepoint.name), figure));
        }
        if !parts.is_empty() {
            let median_ns = whole.median_ns - begin_ns;
            let rest = Figure {
                median_ns,
                low_ns: whole.low_ns - begin_ns,
                high_ns: whole.high_ns - begin_ns,
                calls: whole.calls,
            };
            parts.push(("return of the system call to the receiving thread".into(), rest));
        }
        parts
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
        let (mut since, mut lens, mut calls) = (Vec::new(), Vec::new(), 0);
        for slice in slices {
            for call in self.path.calls(slice) {
                calls += 1;
                let (from, to) = (call[gap.from], call[gap.from + 1]);
                lens.push(((to - from) as f64 - self.stamp_cycles) / rate);
                let first = slice.passings.partition_point(|&at| at < from);
                let behind = slice.passings.partition_point(|&at| at < to);
                let passed = &slice.passings[first..behind];
                since.extend(match tracepoint.side {
                    Side::Sender => passed.first().map(|at| (at - from) as f64 / rate),
                    Side::Receiver => passed.last().map(|at| (to - at) as f64 / rate),
                });
            }
        }
        if since.len() * 10 < calls * 8 || calls == 0 {
            return None;
        }
        let trace_ns = (Figure::of(lens).median_ns - whole.median_ns).clamp(0.0, TRACE_NS_MAX);
        let half_ns = (trace_ns + self.stamp_cycles / rate) / 2.0;
        let of = |since: f64| match tracepoint.side {
            Side::Sender => since - half_ns,
            Side::Receiver => whole.median_ns - (since - half_ns),
        };
        let mut figure = Figure::of(since.into_iter().map(of).collect());
        figure.median_ns = figure.median_ns.clamp(0.0, whole.median_ns);
        Some(figure)
    }
}

/// Tracepoints are measured in different calls: where one seems to be passed before an earlier one of the list, both are taken to be passed
/// at the mean of their times. (The least change that puts them in order: pool adjacent violators.)
fn put_in_order(ends: &mut [(&Tracepoint, Figure)]) {
    // Runs of tracepoints that are passed at one time: their number, and that time.
    let mut runs: Vec<(usize, f64)> = Vec::new();
    for (_, end) in &*ends {
        let mut run = (1, end.median_ns);
        while let Some((number, ns)) = runs.pop_if(|before| before.1 > run.1) {
            let both = number + run.0;
            run = (both, (ns * number as f64 + run.1 * run.0 as f64) / both as f64);
        }
        runs.push(run);
    }
    let times = runs.into_iter().flat_map(|(number, ns)| std::iter::repeat_n(ns, number));
    ends.iter_mut().zip(times).for_each(|((_, end), ns)| end.median_ns = ns);
}

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
mod tests;
