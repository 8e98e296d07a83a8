//! From slices to the account: how long each step took, and what the steps add up to.

use super::kernel::{Side, Tracepoint};
use super::measure::Slice;
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
    /// Of each step, calls with stamps at its two ends only, round by round; empty where all points are stamped together.
    pub(super) apart: Vec<Vec<Apart>>,
    pub(super) stamp_cycles: f64,
    /// The medium that carries packets between the processes, for the name of the step.
    pub(super) way: &'static str,
}

/// Calls with stamps at the ends of one step only, and calls without stamps just before and after them.
pub(super) struct Apart {
    pub(super) slice: Slice,
    pub(super) plain: [Slice; 2],
}

impl Apart {
    /// What the stamps took of the step, in nanoseconds: half of what they took of the call, because the other half lies in the steps
    /// beside it. It is no constant: a stamp takes next to nothing where the processor waits for a cache line anyway.
    fn stamp_ns(&self) -> f64 {
        let median = |slice: &Slice| Quartiles::of(slice.durations_ns()).median;
        let plain_ns = self.plain.iter().map(median).sum::<f64>() / self.plain.len() as f64;
        (median(&self.slice) - plain_ns) / 2.0
    }
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
    pub(crate) steps: Vec<Step>,
}

impl Measured {
    fn cycles_per_ns(&self) -> f64 {
        let rates = self.plain.iter().map(|slice| slice.axis.cycles_per_ns()).collect();
        Quartiles::of(rates).median
    }

    /// Stamps that the path of a call contains.
    fn stamps(&self) -> f64 {
        self.path.0.len() as f64
    }

    /// The account.
    ///
    /// # Errors
    /// No call has passed all points.
    pub(super) fn account(&self) -> Result<Account, String> {
        let rate = self.cycles_per_ns();
        let per_round: Vec<(Vec<f64>, Vec<Vec<u64>>)> = self
            .plain
            .iter()
            .zip(&self.stamped)
            .map(|(plain, stamped)| (plain.durations_ns(), self.path.calls(stamped)))
            .collect();
        let calls: Vec<Vec<u64>> = per_round.iter().flat_map(|(_, calls)| calls).cloned().collect();
        if calls.is_empty() {
            return Err("no call has passed all points once and in order".into());
        }
        let sum = |call: &Vec<u64>| (whole(call) as f64 - self.stamps() * self.stamp_cycles) / rate;
        let ratio_of = |(plain, calls): &(Vec<f64>, Vec<Vec<u64>>)| {
            Quartiles::of(calls.iter().map(sum).collect()).median / Quartiles::of(plain.clone()).median
        };
        let sums_apart = self.sums_apart(rate);
        let ratios = match sums_apart.is_empty() {
            true => per_round.iter().filter(|(_, calls)| !calls.is_empty()).map(ratio_of).collect(),
            false => {
                let plain = per_round.iter().map(|(plain, _)| Quartiles::of(plain.clone()).median);
                sums_apart.iter().zip(plain).map(|(sum, plain)| sum / plain).collect()
            }
        };
        let ratios = Quartiles::of(ratios);
        let sums = match sums_apart.is_empty() {
            true => calls.iter().map(sum).collect(),
            false => sums_apart,
        };
        let made: usize = self.stamped.iter().map(|slice| slice.times.len() - 1).sum();
        Ok(Account {
            plain: Figure::of(per_round.iter().flat_map(|(plain, _)| plain.iter().copied()).collect()),
            stamped: Figure::of(calls.iter().map(|call| whole(call) as f64 / rate).collect()),
            accounted: Figure::of(sums),
            ratio: ratios.median,
            ratio_low: ratios.low,
            ratio_high: ratios.high,
            stamp_ns: self.stamp_ns(rate),
            left_out: made - calls.len(),
            steps: self.steps(&calls, rate),
        })
    }

    fn steps(&self, calls: &[Vec<u64>], rate: f64) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut begins_ns = 0.0;
        let mut add = |name: String, place, figure: Figure| {
            let Figure { median_ns: ns, low_ns, high_ns, .. } = figure;
            steps.push(Step { name, place, begins_ns, ns, low_ns, high_ns });
            begins_ns += ns;
        };
        for gap in self.gaps() {
            let figure = self.gap(calls, gap.from, rate);
            let parts = match gap.place {
                Place::Between => self.parts(&gap, figure, rate),
                _ => Vec::new(),
            };
            if parts.is_empty() {
                add(gap.name.into(), gap.place, figure);
            }
            parts.into_iter().for_each(|(name, figure)| add(name, gap.place, figure));
        }
        steps
    }

    /// How long the calls took from one of their times to the next. The stamp at its end has taken some of it; the reading of the clock
    /// at the end of a call is part of the call without instruments, too.
    fn gap(&self, calls: &[Vec<u64>], from: usize, rate: f64) -> Figure {
        if let Some(rounds) = self.apart.get(from) {
            return Figure::of(rounds.iter().flat_map(|apart| self.step_apart(from, apart, rate)).collect());
        }
        let is_last = from == self.path.0.len();
        let cost = if is_last { 0.0 } else { self.stamp_cycles };
        let ns = |call: &Vec<u64>| ((call[from + 1] - call[from]) as f64 - cost) / rate;
        Figure::of(calls.iter().map(ns).collect())
    }

    /// How long a step took in the calls with stamps at its ends only.
    fn step_apart(&self, from: usize, apart: &Apart, rate: f64) -> Vec<f64> {
        let path = &self.path.ends()[from];
        let begin = usize::from(from > 0);
        let stamp_ns = apart.stamp_ns();
        let calls = path.calls(&apart.slice);
        calls.iter().map(|call| (call[begin + 1] - call[begin]) as f64 / rate - stamp_ns).collect()
    }

    /// What a stamp takes, in nanoseconds: the mean over the steps, where these were measured apart.
    fn stamp_ns(&self, rate: f64) -> f64 {
        let steps = self.apart.get(1..self.path.0.len()).unwrap_or_default();
        let each: Vec<f64> = steps.iter().flatten().map(Apart::stamp_ns).collect();
        match each.is_empty() {
            true => self.stamp_cycles / rate,
            false => each.iter().sum::<f64>() / each.len() as f64,
        }
    }

    /// The sums of the medians of the steps that were measured apart, round by round.
    fn sums_apart(&self, rate: f64) -> Vec<f64> {
        let rounds = self.apart.first().map_or(0, Vec::len);
        let step = |from: usize, round: usize| {
            Quartiles::of(self.step_apart(from, &self.apart[from][round], rate)).median
        };
        (0..rounds).map(|round| (0..self.apart.len()).map(|from| step(from, round)).sum()).collect()
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
