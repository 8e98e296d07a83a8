//! Slices of calls: without instruments, with stamps, and with stamps and one tracepoint.

use super::clock::{Axis, Moment};
use super::kernel::{TRACEPOINTS, Tracepoint, Tracing};
use super::stamps::{from_text, order_for};
use crate::child::Child;
use crate::others::Snapshot;
use crate::plan::Cell;
use crate::session::Session;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use stoop_probe::{Point, Stamp, cycles};

/// The cycle counter at the begin of a call, at each point, and at its end.
pub(super) type Call = Vec<u64>;

/// The calls of one slice.
pub(super) struct Slice {
    /// The cycle counter before the first call and after each.
    pub(super) times: Vec<u64>,
    /// Of both processes, in the order of time.
    pub(super) stamps: Vec<Stamp>,
    /// When a processor passed the tracepoint, by the cycle counter, in the order of time.
    pub(super) passings: Vec<u64>,
    pub(super) axis: Axis,
}

impl Slice {
    /// Each call by its begin and its end.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.times.windows(2).map(<[u64]>::to_vec).collect()
    }

    /// The times within `when` at which processors passed the tracepoint.
    pub(super) fn passed(&self, when: Range<u64>) -> &[u64] {
        let first = self.passings.partition_point(|&at| at < when.start);
        let behind = self.passings.partition_point(|&at| at < when.end);
        &self.passings[first..behind]
    }

    /// How long each call took.
    pub(super) fn durations_ns(&self) -> Vec<f64> {
        let rate = self.axis.cycles_per_ns();
        self.times.windows(2).map(|ends| (ends[1] - ends[0]) as f64 / rate).collect()
    }
}

/// The session that makes the calls, and the tracepoints that are read meanwhile.
pub(super) struct Measuring<'a> {
    pub(super) session: &'a mut Session,
    pub(super) cell: &'a Cell,
    pub(super) tracing: Option<&'a Tracing>,
    /// Calls of a slice.
    pub(super) calls: usize,
}

/// Calls that come before those that count.
const WARM_UP: usize = 50;

impl Measuring<'_> {
    /// Calls without instruments.
    pub(super) fn plain(&mut self) -> Result<Slice, String> {
        self.plain_calls(self.cell)
    }

    /// Calls of `cell`, without instruments.
    pub(super) fn plain_calls(&mut self, cell: &Cell) -> Result<Slice, String> {
        let (times, axis) = self.time(cell)?;
        Ok(Slice { times, stamps: Vec::new(), passings: Vec::new(), axis })
    }

    /// Calls with stamps at all points of both processes.
    pub(super) fn stamped(&mut self) -> Result<Slice, String> {
        self.stamped_at(&Point::ALL)
    }

    /// Calls with stamps at these points.
    pub(super) fn stamped_at(&mut self, points: &[Point]) -> Result<Slice, String> {
        self.tell_server(&order_for(points))?;
        stoop_probe::switch_on(points);
        let timed = self.time(self.cell);
        stoop_probe::switch_on(&[]);
        self.tell_server(&order_for(&[]))?;
        let (times, axis) = timed?;
        Ok(Slice { times, stamps: self.take_stamps()?, passings: Vec::new(), axis })
    }

    /// Calls with stamps and this tracepoint; `None` where the kernel does not have it.
    pub(super) fn traced(&mut self, tracepoint: &Tracepoint) -> Result<Option<Slice>, String> {
        let Some(tracing) = self.tracing else { return Ok(None) };
        let mut cpus = vec![self.session.sides.caller, self.session.sides.server];
        cpus.dedup();
        let threads = self.threads().map_err(|error| error.to_string())?;
        let Ok(events) = tracepoint.open(tracing, &cpus, &threads) else { return Ok(None) };
        let in_words = |error: io::Error| format!("the tracepoint {}: {error}", tracepoint.name);
        events.iter().try_for_each(|event| event.enable()).map_err(in_words)?;
        let slice = self.stamped();
        let mut passings = Vec::new();
        for event in &events {
            passings.extend(event.disable().map_err(in_words)?.0);
        }
        let mut slice = slice?;
        slice.passings = passings.into_iter().map(|raw_ns| slice.axis.cycles_at(raw_ns)).collect();
        slice.passings.sort_unstable();
        Ok(Some(slice))
    }

    /// The time that other programs have used of the processors so far.
    pub(super) fn others(&mut self) -> Snapshot {
        let ours: Vec<u32> = self.session.process_ids().chain([std::process::id()]).collect();
        Snapshot::take(self.session.sides, &ours)
    }

    fn time(&mut self, cell: &Cell) -> Result<(Vec<u64>, Axis), String> {
        let (binding, cell, calls) = (self.session.bindings[0].clone(), *cell, WARM_UP + self.calls);
        let from = Moment::now();
        let mut times = self.session.callers.on_first(move || binding.time_calls(&cell, calls))??;
        let to = Moment::now();
        times.drain(..WARM_UP);
        Ok((times, Axis { from, to }))
    }

    fn tell_server(&mut self, order: &str) -> Result<(), String> {
        let told = self.session.server_process().map_or(Ok(()), |server| {
            server.tell(order)?;
            server.expect(order).map(drop)
        });
        told.map_err(|error| error.to_string())
    }

    fn take_stamps(&mut self) -> Result<Vec<Stamp>, String> {
        let ask = |server: &mut Child| {
            server.tell("stamps")?;
            server.expect("stamps")
        };
        let text = self.session.server_process().map(ask).transpose().map_err(|error| error.to_string())?;
        let text = text.as_deref().unwrap_or("0");
        let servers = from_text(text).ok_or("the server process said no stamps")?;
        let own = stoop_probe::take();
        if own.lost + servers.lost > 0 {
            return Err("stamps were lost: fewer calls in a slice are needed".into());
        }
        let mut stamps = own.stamps;
        stamps.extend(servers.stamps);
        stamps.sort_unstable_by_key(|stamp| stamp.cycles);
        Ok(stamps)
    }

    /// The threads of both processes.
    fn threads(&mut self) -> io::Result<Vec<u32>> {
        let mut processes: Vec<u32> = self.session.process_ids().collect();
        processes.push(std::process::id());
        let mut threads = Vec::new();
        for process in processes {
            for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
                threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
            }
        }
        Ok(threads)
    }
}

/// Stamps between two readings of the clock when their cost is measured: no more than fit into a thread's buffer.
const COSTED: u32 = 1000;

/// Cycles that a stamp takes: the least of several batches, because a stamp takes no less.
pub(super) fn stamp_cost() -> f64 {
    stoop_probe::switch_on(&[Point::StubBegun]);
    let batch = || {
        let before = cycles();
        (0..COSTED).for_each(|_| stoop_probe::stamp(black_box(Point::StubBegun)));
        (cycles() - before) as f64 / f64::from(COSTED)
    };
    let cost = (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min);
    stoop_probe::switch_on(&[]);
    drop(stoop_probe::take());
    cost
}

/// The tracepoints that are tried.
pub(super) fn tracepoints() -> impl Iterator<Item = &'static Tracepoint> {
    TRACEPOINTS.iter()
}
