//! What was found about one cell, as the table and the JSON show it.

use crate::args::{Procedure, Processors, Transport, Waiting};
use crate::callers::Tally;
use crate::floor::figures;
use crate::others::DISTURBED_ABOVE;
use crate::plan::Cell;
use crate::samples::{Quartiles, Samples};
use serde::Serialize;
use std::time::Duration;

/// One line. Field names are the JSON keys; they stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) transport: Transport,
    pub(crate) procedure: Procedure,
    pub(crate) callers: u16,
    pub(crate) waiting: Waiting,
    pub(crate) processors: Processors,
    /// `veth` or `loopback`.
    pub(crate) network: &'static str,
    /// Ours that were measured.
    pub(crate) calls: u64,
    pub(crate) calls_per_second: f64,
    /// Of data that travelled: headers do not, and `local:` hands over a reference.
    pub(crate) mbits_per_second: f64,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
    pub(crate) p999_ns: f64,
    pub(crate) floor_p50_ns: f64,
    pub(crate) floor_p99_ns: f64,
    pub(crate) floor_calls_per_second: f64,
    /// What the floor is on the reference machine, where that is known.
    pub(crate) floor_reference_ns: Option<f64>,
    /// The floor is so far above its reference that this line says little.
    pub(crate) floor_void: bool,
    /// Ours by the floor: the median, over pairs of slices, of the ratio of their medians.
    pub(crate) ratio: f64,
    pub(crate) ratio_low: f64,
    pub(crate) ratio_high: f64,
    pub(crate) pairs: usize,
    /// Of our calls, one packet there and one back, found by the thread that wanted it.
    pub(crate) fast_path_share: f64,
    /// Processor seconds per second while ours were measured.
    pub(crate) caller_cpu: f64,
    pub(crate) server_cpu: f64,
    /// What other programs and the host took of the same processors meanwhile.
    pub(crate) others_cpu: f64,
    /// The calls of the caller that got least, by the mean: 1 when all got the same.
    pub(crate) fairness: f64,
}

/// The medians of a slice of ours and of the slice of the floor after it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ours_ns: f64,
    floor_ns: f64,
}

/// Everything that the slices of one cell gave.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    ours: Side,
    floor: Side,
    pairs: Vec<Pair>,
    last_ours_ns: f64,
    /// Over the slices of ours: processor time of each side, and of the clock on the wall.
    caller_cpu: Duration,
    server_cpu: Duration,
    wall: Duration,
    pub(crate) fast_path_share: f64,
    pub(crate) others_cpu: f64,
}

/// All slices of one kind together.
#[derive(Debug, Default)]
struct Side {
    samples: Samples,
    /// Calls of each caller.
    callers: Vec<u64>,
    /// The time of all slices, each from the first caller that began to the last that ended.
    time: Duration,
}

impl Side {
    /// Adds a slice, and returns its median.
    fn add(&mut self, tallies: &[Tally]) -> f64 {
        let mut slice = Samples::default();
        self.callers.resize(tallies.len(), 0);
        for (tally, calls) in tallies.iter().zip(&mut self.callers) {
            slice.append(&tally.samples);
            *calls += tally.calls;
        }
        self.samples.append(&slice);
        self.time += time_of(tallies);
        slice.percentile_ns(0.5)
    }

    fn calls(&self) -> u64 {
        self.callers.iter().sum()
    }

    fn calls_per_second(&self) -> f64 {
        self.calls() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    fn fairness(&self) -> f64 {
        let least = self.callers.iter().copied().min().unwrap_or(0);
        let mean = self.calls() as f64 / self.callers.len().max(1) as f64;
        if mean > 0.0 { least as f64 / mean } else { 0.0 }
    }
}

impl Row {
    /// Whether other programs took so much that the line is worth measuring again.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.others_cpu > DISTURBED_ABOVE
    }
}

impl Findings {
    /// Adds a slice of ours and what it cost.
    pub(crate) fn add_ours(
        &mut self,
        tallies: &[Tally],
        caller_cpu: Duration,
        server_cpu: Duration,
        wall: Duration,
    ) {
        self.last_ours_ns = self.ours.add(tallies);
        self.caller_cpu += caller_cpu;
        self.server_cpu += server_cpu;
        self.wall += wall;
    }

    /// Adds the slice of the floor that goes with the last slice of ours.
    pub(crate) fn add_floor(&mut self, tallies: &[Tally]) {
        let floor_ns = self.floor.add(tallies);
        self.pairs.push(Pair { ours_ns: self.last_ours_ns, floor_ns });
    }

    /// Draws the line.
    pub(crate) fn into_row(mut self, cell: &Cell, network: &'static str) -> Row {
        let ratios = self.pairs.iter().map(|pair| pair.ours_ns / pair.floor_ns.max(1e-3)).collect();
        let Quartiles { low, median, high } = Quartiles::of(ratios);
        let calls_per_second = self.ours.calls_per_second();
        let data_len = if cell.transport == Transport::Local { 0 } else { cell.procedure.data_len() };
        let floor_p50_ns = self.floor.samples.percentile_ns(0.5);
        let floor_reference_ns = figures::reference_ns(cell, network == "veth");
        let wall = self.wall.as_secs_f64().max(1e-9);
        Row {
            transport: cell.transport,
            procedure: cell.procedure,
            callers: cell.callers,
            waiting: cell.waiting,
            processors: cell.processors,
            network,
            calls: self.ours.calls(),
            calls_per_second: round(calls_per_second, 1.0),
            mbits_per_second: round(calls_per_second * 8.0 * data_len as f64 / 1e6, 1e2),
            p50_ns: self.ours.samples.percentile_ns(0.5),
            p99_ns: self.ours.samples.percentile_ns(0.99),
            p999_ns: self.ours.samples.percentile_ns(0.999),
            floor_p50_ns,
            floor_p99_ns: self.floor.samples.percentile_ns(0.99),
            floor_calls_per_second: round(self.floor.calls_per_second(), 1.0),
            floor_reference_ns,
            floor_void: figures::is_void(floor_p50_ns, floor_reference_ns),
            ratio: round(median, 1e4),
            ratio_low: round(low, 1e4),
            ratio_high: round(high, 1e4),
            pairs: self.pairs.len(),
            fast_path_share: round(self.fast_path_share, 1e6),
            caller_cpu: round(self.caller_cpu.as_secs_f64() / wall, 1e3),
            server_cpu: round(self.server_cpu.as_secs_f64() / wall, 1e3),
            others_cpu: round(self.others_cpu, 1e3),
            fairness: round(self.ours.fairness(), 1e3),
        }
    }
}

/// From the first caller that began to the last that ended: callers that share a processor may have taken turns.
fn time_of(tallies: &[Tally]) -> Duration {
    let began = tallies.iter().map(|tally| tally.began).min();
    let ended = tallies.iter().map(|tally| tally.ended).max();
    ended.zip(began).map_or(Duration::ZERO, |(ended, began)| ended.saturating_duration_since(began))
}

/// To a whole number of `1 / parts`: more digits would be noise.
fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// A line for the tests of tables and JSON.
#[cfg(test)]
pub(crate) fn example() -> Row {
    Row {
        transport: Transport::Udp,
        procedure: Procedure::MaxResult,
        callers: 4,
        waiting: Waiting::Adaptive,
        processors: Processors::Two,
        network: "veth",
        calls: 81_234,
        calls_per_second: 231_234.0,
        mbits_per_second: 2_663.82,
        p50_ns: 4_321.0,
        p99_ns: 17_250.0,
        p999_ns: 1_234_567.0,
        floor_p50_ns: 4_080.0,
        floor_p99_ns: 16_000.0,
        floor_calls_per_second: 245_000.0,
        floor_reference_ns: Some(4_510.0),
        floor_void: false,
        ratio: 1.0591,
        ratio_low: 1.0512,
        ratio_high: 1.0701,
        pairs: 7,
        fast_path_share: 0.9987,
        caller_cpu: 0.998,
        server_cpu: 1.0,
        others_cpu: 0.02,
        fairness: 0.97,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const CELL: Cell = Cell {
        transport: Transport::Udp,
        procedure: Procedure::MaxArg,
        callers: 2,
        waiting: Waiting::Adaptive,
        processors: Processors::Two,
    };

    fn tally(calls: u64, each_ns: u64) -> Tally {
        tally_from(Instant::now(), calls, each_ns)
    }

    fn tally_from(began: Instant, calls: u64, each_ns: u64) -> Tally {
        let samples = Samples::new(vec![each_ns * 1000; calls as usize]);
        Tally { samples, calls, began, ended: began + Duration::from_nanos(calls * each_ns) }
    }

    #[test]
    fn the_ratio_is_the_median_over_pairs_and_not_that_of_the_pooled_times() {
        let mut findings = Findings::default();
        // The machine is slower in the third pair, and both with it.
        for (ours_ns, floor_ns) in [(11, 10), (12, 10), (330, 300)] {
            findings.add_ours(
                &[tally(5, ours_ns), tally(5, ours_ns)],
                Duration::ZERO,
                Duration::ZERO,
                Duration::ZERO,
            );
            findings.add_floor(&[tally(5, floor_ns), tally(5, floor_ns)]);
        }
        let row = findings.into_row(&CELL, "loopback");
        assert_eq!(row.ratio, 1.1);
        assert_eq!((row.p50_ns, row.floor_p50_ns, row.pairs), (12.0, 10.0, 3));
    }

    #[test]
    fn calls_of_all_callers_count_over_the_time_of_all_and_only_data_counts_as_bits() {
        let mut findings = Findings::default();
        let (first, later) = (Instant::now(), Instant::now() + Duration::from_millis(1));
        let taking_turns = [tally_from(first, 100, 10_000), tally_from(later, 50, 20_000)];
        findings.add_ours(&taking_turns, Duration::ZERO, Duration::ZERO, Duration::ZERO);
        findings.add_floor(&[tally(1, 1), tally(1, 1)]);
        let row = findings.into_row(&CELL, "veth");
        assert_eq!(row.calls, 150);
        assert!((74_900.0..=75_000.0).contains(&row.calls_per_second), "{}", row.calls_per_second);
        assert_eq!(row.mbits_per_second.round(), (row.calls_per_second * 1440.0 * 8.0 / 1e6).round());
        assert_eq!(row.fairness, 0.667);
    }

    #[test]
    fn processor_time_is_by_the_second() {
        let mut findings = Findings::default();
        let ms = Duration::from_millis;
        findings.add_ours(&[tally(1, 1)], ms(50), ms(25), ms(100));
        findings.add_ours(&[tally(1, 1)], ms(100), ms(50), ms(100));
        findings.add_floor(&[tally(1, 1)]);
        let row = findings.into_row(&CELL, "veth");
        assert_eq!((row.caller_cpu, row.server_cpu), (0.75, 0.375));
    }
}
