//! The figures of one cell, as the table and the JSON show them.

use crate::args::{LinkRate, Procedure, Processors, Results, Silence, Transport, Waiting};
use crate::callers::Measured;
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
    /// Of data, one way.
    pub(crate) bytes: usize,
    /// Calls of each caller at a time.
    pub(crate) in_flight: u16,
    /// How callers take the results of outstanding calls.
    pub(crate) results: Results,
    pub(crate) callers: u16,
    /// Bound at the same time; one of them is called.
    pub(crate) clients: u16,
    /// Milliseconds before each call, where callers are silent.
    #[serde(rename = "silence_ms")]
    pub(crate) silence: Option<Silence>,
    pub(crate) waiting: Waiting,
    pub(crate) processors: Processors,
    /// Whether another process used the callers' processor.
    pub(crate) busy: bool,
    /// `veth` or `loopback`.
    pub(crate) network: &'static str,
    /// Megabits per second, where the link is limited.
    pub(crate) link_rate: Option<LinkRate>,
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
    pub(crate) floor_mbits_per_second: f64,
    /// The floor of the reference machine, where that is known.
    pub(crate) floor_reference_ns: Option<f64>,
    /// The floor is so far above its reference that this line says little.
    pub(crate) floor_void: bool,
    /// Ours by the floor: the median, over pairs of slices, of the ratio of their medians.
    pub(crate) ratio: f64,
    pub(crate) ratio_low: f64,
    pub(crate) ratio_high: f64,
    /// Our rate by the floor's: the median, over pairs of slices, of calls by the second.
    pub(crate) rate_ratio: f64,
    pub(crate) rate_ratio_low: f64,
    pub(crate) rate_ratio_high: f64,
    /// Beside bulk over UDP: a bare exchange of as many bytes over TCP on the same network.
    pub(crate) tcp_mbits_per_second: Option<f64>,
    pub(crate) tcp_rate_ratio: Option<f64>,
    /// Beside Null() over shared memory: a call through a vtable in one address space.
    pub(crate) vtable_p50_ns: Option<f64>,
    pub(crate) vtable_ratio: Option<f64>,
    pub(crate) pairs: usize,
    /// Slices of a floor that lost a packet, do not count, and were measured again.
    pub(crate) floor_lost: u32,
    /// Of our calls, one packet there and one back, found by the thread that wanted it.
    pub(crate) fast_path_share: f64,
    /// Processor seconds per second while ours were measured.
    pub(crate) caller_cpu: f64,
    pub(crate) server_cpu: f64,
    /// The time that other programs and the host took of the same processors meanwhile.
    pub(crate) others_cpu: f64,
    /// The calls of the caller that got least, by the mean: 1 when all got the same.
    pub(crate) fairness: f64,
    /// Neighbouring slices in the order in which they were measured.
    #[serde(skip)]
    pub(crate) slices: Vec<Group>,
}

/// The speed that a slice shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Speed {
    pub(crate) p50_ns: f64,
    pub(crate) calls_per_second: f64,
}

/// Neighbouring slices: of ours, of the floor after it, and after that of what else it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) ours: Speed,
    pub(crate) floor: Speed,
    tcp: Option<Speed>,
    vtable: Option<Speed>,
}

/// Everything that the slices of one cell gave.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    ours: Side,
    floor: Side,
    tcp: Side,
    vtable: Side,
    groups: Vec<Group>,
    /// Over the slices of ours: processor time of each side, and of the clock on the wall.
    caller_cpu: Duration,
    server_cpu: Duration,
    wall: Duration,
    pub(crate) floor_lost: u32,
    pub(crate) fast_path_share: f64,
    pub(crate) others_cpu: f64,
}

/// The figures of neighbouring slices.
#[derive(Debug)]
pub(crate) struct Slices {
    pub(crate) ours: Vec<Measured>,
    pub(crate) costs: Costs,
    pub(crate) floor: Vec<Measured>,
    pub(crate) tcp: Option<Vec<Measured>>,
    pub(crate) vtable: Option<Vec<Measured>>,
}

/// The processor time of one of our slices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) caller_cpu: Duration,
    pub(crate) server_cpu: Duration,
    pub(crate) wall: Duration,
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
    /// Adds a slice, and returns how fast it was.
    fn add(&mut self, measured: &[Measured]) -> Speed {
        let mut slice = Samples::default();
        self.callers.resize(measured.len(), 0);
        for (counters, calls) in measured.iter().zip(&mut self.callers) {
            slice.append(&counters.samples);
            *calls += counters.calls;
        }
        self.samples.append(&slice);
        let time = time_of(measured);
        self.time += time;
        let calls: u64 = measured.iter().map(|counters| counters.calls).sum();
        Speed { p50_ns: slice.percentile_ns(0.5), calls_per_second: by_the_second(calls, time) }
    }

    fn calls(&self) -> u64 {
        self.callers.iter().sum()
    }

    fn calls_per_second(&self) -> f64 {
        by_the_second(self.calls(), self.time)
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
    /// Adds neighbouring slices.
    pub(crate) fn add(&mut self, slices: &Slices) {
        let ours = self.ours.add(&slices.ours);
        let floor = self.floor.add(&slices.floor);
        let tcp = slices.tcp.as_ref().map(|measured| self.tcp.add(measured));
        let vtable = slices.vtable.as_ref().map(|measured| self.vtable.add(measured));
        self.groups.push(Group { ours, floor, tcp, vtable });
        self.caller_cpu += slices.costs.caller_cpu;
        self.server_cpu += slices.costs.server_cpu;
        self.wall += slices.costs.wall;
    }

    /// Draws the line.
    pub(crate) fn into_row(mut self, cell: &Cell, network: &'static str) -> Row {
        let of_groups = |ratio: fn(&Group) -> f64| Quartiles::of(self.groups.iter().map(ratio).collect());
        let times = of_groups(|group| group.ours.p50_ns / group.floor.p50_ns.max(1e-3));
        let rates = of_groups(|group| group.ours.calls_per_second / group.floor.calls_per_second.max(1e-9));
        let rate = |group: &Group| Some(group.ours.calls_per_second / group.tcp?.calls_per_second.max(1e-9));
        let tcp_rates = self.where_measured(rate);
        let time = |group: &Group| Some(group.ours.p50_ns / group.vtable?.p50_ns.max(1e-3));
        let vtable_times = self.where_measured(time);
        let data_len = if cell.transport == Transport::Local { 0 } else { cell.data_len() };
        let mbits = |calls_per_second: f64| round(calls_per_second * 8.0 * data_len as f64 / 1e6, 1e2);
        let floor_p50_ns = self.floor.samples.percentile_ns(0.5);
        let floor_reference_ns = figures::reference_ns(cell, network == "veth");
        let wall = self.wall.as_secs_f64().max(1e-9);
        let (argument_len, result_len) = cell.data_lens();
        Row {
            transport: cell.transport,
            procedure: cell.procedure,
            bytes: argument_len.max(result_len),
            in_flight: cell.in_flight,
            results: cell.results,
            callers: cell.callers,
            clients: cell.clients,
            silence: cell.silence,
            waiting: cell.waiting,
            processors: cell.processors,
            busy: cell.busy,
            network,
            link_rate: cell.link_rate,
            calls: self.ours.calls(),
            calls_per_second: round(self.ours.calls_per_second(), 1e1),
            mbits_per_second: mbits(self.ours.calls_per_second()),
            p50_ns: self.ours.samples.percentile_ns(0.5),
            p99_ns: self.ours.samples.percentile_ns(0.99),
            p999_ns: self.ours.samples.percentile_ns(0.999),
            floor_p50_ns,
            floor_p99_ns: self.floor.samples.percentile_ns(0.99),
            floor_calls_per_second: round(self.floor.calls_per_second(), 1e1),
            floor_mbits_per_second: mbits(self.floor.calls_per_second()),
            floor_reference_ns,
            floor_void: figures::is_void(floor_p50_ns, floor_reference_ns),
            ratio: round(times.median, 1e4),
            ratio_low: round(times.low, 1e4),
            ratio_high: round(times.high, 1e4),
            rate_ratio: round(rates.median, 1e4),
            rate_ratio_low: round(rates.low, 1e4),
            rate_ratio_high: round(rates.high, 1e4),
            tcp_mbits_per_second: tcp_rates.map(|_| mbits(self.tcp.calls_per_second())),
            tcp_rate_ratio: tcp_rates.map(|rates| round(rates.median, 1e4)),
            vtable_p50_ns: vtable_times.map(|_| self.vtable.samples.percentile_ns(0.5)),
            vtable_ratio: vtable_times.map(|times| round(times.median, 1e2)),
            pairs: self.groups.len(),
            floor_lost: self.floor_lost,
            fast_path_share: round(self.fast_path_share, 1e6),
            caller_cpu: round(self.caller_cpu.as_secs_f64() / wall, 1e4),
            server_cpu: round(self.server_cpu.as_secs_f64() / wall, 1e4),
            others_cpu: round(self.others_cpu, 1e3),
            fairness: round(self.ours.fairness(), 1e3),
            slices: self.groups,
        }
    }

    /// A ratio to something that is not measured beside every cell.
    fn where_measured(&self, ratio: impl Fn(&Group) -> Option<f64>) -> Option<Quartiles> {
        let ratios: Vec<f64> = self.groups.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| Quartiles::of(ratios))
    }
}

fn by_the_second(calls: u64, time: Duration) -> f64 {
    calls as f64 / time.as_secs_f64().max(1e-9)
}

/// From the first caller that began to the last that ended: callers that share a processor may have taken turns.
fn time_of(measured: &[Measured]) -> Duration {
    let began = measured.iter().map(|counters| counters.began).min();
    let ended = measured.iter().map(|counters| counters.ended).max();
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
        bytes: 1440,
        in_flight: 1,
        results: Results::Wait,
        callers: 4,
        clients: 1,
        silence: None,
        waiting: Waiting::Adaptive,
        processors: Processors::Two,
        busy: false,
        network: "veth",
        link_rate: None,
        calls: 81_234,
        calls_per_second: 231_234.0,
        mbits_per_second: 2_663.82,
        p50_ns: 4_321.0,
        p99_ns: 17_250.0,
        p999_ns: 1_234_567.0,
        floor_p50_ns: 4_080.0,
        floor_p99_ns: 16_000.0,
        floor_calls_per_second: 245_000.0,
        floor_mbits_per_second: 2_822.4,
        floor_reference_ns: Some(4_510.0),
        floor_void: false,
        ratio: 1.0591,
        ratio_low: 1.0512,
        ratio_high: 1.0701,
        rate_ratio: 0.9438,
        rate_ratio_low: 0.9401,
        rate_ratio_high: 0.9477,
        tcp_mbits_per_second: None,
        tcp_rate_ratio: None,
        vtable_p50_ns: None,
        vtable_ratio: None,
        pairs: 7,
        floor_lost: 0,
        fast_path_share: 0.9987,
        caller_cpu: 0.998,
        server_cpu: 1.0,
        others_cpu: 0.02,
        fairness: 0.97,
        slices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const CELL: Cell = Cell { procedure: Procedure::MaxArg, callers: 2, ..Cell::NULL };

    fn counters(calls: u64, each_ns: u64) -> Measured {
        measured_from(Instant::now(), calls, each_ns)
    }

    fn measured_from(began: Instant, calls: u64, each_ns: u64) -> Measured {
        let samples = Samples::new(vec![each_ns * 1000; calls as usize]);
        Measured { samples, calls, began, ended: began + Duration::from_nanos(calls * each_ns) }
    }

    fn slices(ours: Vec<Measured>, floor: Vec<Measured>) -> Slices {
        Slices { ours, costs: Costs::default(), floor, tcp: None, vtable: None }
    }

    #[test]
    fn the_ratio_is_the_median_over_pairs_and_not_that_of_the_pooled_times() {
        let mut findings = Findings::default();
        // The machine is slower in the third pair, and both with it.
        for (ours_ns, floor_ns) in [(11, 10), (12, 10), (330, 300)] {
            let two = |each_ns| vec![counters(5, each_ns), counters(5, each_ns)];
            findings.add(&slices(two(ours_ns), two(floor_ns)));
        }
        let row = findings.into_row(&CELL, "loopback");
        assert_eq!(row.ratio, 1.1);
        assert_eq!((row.p50_ns, row.floor_p50_ns, row.pairs), (12.0, 10.0, 3));
    }

    #[test]
    fn rates_are_compared_by_pairs_too_and_a_higher_one_is_better() {
        let mut findings = Findings::default();
        for (ours_ns, floor_ns, tcp_ns) in
            [(20_000, 15_000, 40_000), (40_000, 32_000, 40_000), (25_000, 20_000, 50_000)]
        {
            let tcp = Some(vec![counters(10, tcp_ns)]);
            findings
                .add(&Slices { tcp, ..slices(vec![counters(10, ours_ns)], vec![counters(10, floor_ns)]) });
        }
        let row = findings.into_row(&CELL, "veth");
        assert_eq!((row.rate_ratio, row.rate_ratio_low), (0.8, 0.775));
        assert_eq!(row.tcp_rate_ratio, Some(2.0));
        assert!(row.floor_mbits_per_second > row.mbits_per_second);
    }

    #[test]
    fn a_call_stands_beside_one_through_a_vtable_where_that_was_measured() {
        let mut findings = Findings::default();
        let alone = slices(vec![counters(1, 400)], vec![counters(1, 300)]);
        findings.add(&Slices { vtable: Some(vec![counters(1, 2)]), ..alone });
        let row = findings.into_row(&Cell::NULL, "veth");
        assert_eq!((row.vtable_ratio, row.vtable_p50_ns, row.tcp_rate_ratio), (Some(200.0), Some(2.0), None));
    }

    #[test]
    fn calls_of_all_callers_count_over_the_time_of_all_and_only_data_counts_as_bits() {
        let mut findings = Findings::default();
        let (first, later) = (Instant::now(), Instant::now() + Duration::from_millis(1));
        let taking_turns = vec![measured_from(first, 100, 10_000), measured_from(later, 50, 20_000)];
        findings.add(&slices(taking_turns, vec![counters(1, 1), counters(1, 1)]));
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
        for (caller_ms, server_ms) in [(50, 25), (100, 50)] {
            let costs = Costs { caller_cpu: ms(caller_ms), server_cpu: ms(server_ms), wall: ms(100) };
            findings.add(&Slices { costs, ..slices(vec![counters(1, 1)], vec![counters(1, 1)]) });
        }
        let row = findings.into_row(&CELL, "veth");
        assert_eq!((row.caller_cpu, row.server_cpu), (0.75, 0.375));
    }
}
