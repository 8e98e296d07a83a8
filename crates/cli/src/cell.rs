//! Measures one cell: ours and the floor in turn, slice by slice, the one that waits its turn stopped.
//!
//! The reference machine has episodes, seconds long, in which everything takes half as long again. Slices of a fraction of a
//! second put ours and the floor into the same episode, and the ratio of neighbours hardly notices it.

use crate::callers::{Calls, Tally};
use crate::floor::Floor;
use crate::network::Network;
use crate::others::Snapshot;
use crate::plan::{Cell, Effort};
use crate::row::{Findings, Row};
use crate::session::{Session, socket_path};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Measures `cell` with the server and threads of `session`.
pub(crate) fn measure(
    cell: &Cell,
    effort: Effort,
    session: &mut Session,
    network: &Network,
) -> Result<Row, String> {
    // The floor opens while our server is stopped: each must find the processor as if alone.
    session.stop_server().map_err(|error| error.to_string())?;
    let result = Measuring::begin(cell, effort, session, network)
        .and_then(|measuring| measuring.run())
        .map(|findings| findings.into_row(cell, network.name()));
    session.resume_server().map_err(|error| error.to_string())?;
    result
}

struct Measuring<'a> {
    effort: Effort,
    session: &'a mut Session,
    floor: Floor,
    ours: Vec<Box<dyn Calls>>,
    calls_max: u64,
    findings: Findings,
}

impl<'a> Measuring<'a> {
    fn begin(
        cell: &Cell,
        effort: Effort,
        session: &'a mut Session,
        network: &Network,
    ) -> Result<Self, String> {
        let mut floor = Floor::open(cell, session.sides, network, &socket_path("echo"))
            .map_err(|error| format!("the floor: {error}"))?;
        floor.stop().map_err(|error| error.to_string())?;
        let ours = (0..cell.callers).map(|_| session.binding.calls(cell.procedure)).collect();
        let calls_max = effort.calls.map_or(u64::MAX, |calls| calls.div_ceil(cell.callers.into()));
        Ok(Measuring { effort, session, floor, ours, calls_max, findings: Findings::default() })
    }

    fn run(mut self) -> Result<Findings, String> {
        let before = self.session.binding.counts();
        let others_before = self.snapshot();
        for _ in 0..self.effort.pairs {
            self.slice_of_ours()?;
            self.slice_of_floor()?;
        }
        self.findings.fast_path_share = self.session.binding.counts().fast_path_share_since(before);
        self.findings.others_cpu = self.snapshot().others_since(others_before);
        Ok(self.findings)
    }

    fn snapshot(&mut self) -> Snapshot {
        let children = [self.session.server_process_id(), self.floor.process_id()];
        let ours: Vec<u32> = children.into_iter().flatten().chain([std::process::id()]).collect();
        Snapshot::take(self.session.sides, &ours)
    }

    fn slice_of_ours(&mut self) -> Result<(), String> {
        self.session.resume_server().map_err(|error| error.to_string())?;
        let (caller_before, server_before, began) = (own_cpu(), self.server_cpu()?, Instant::now());
        let tallies =
            self.session.callers.run(&mut self.ours, self.effort.warm_up, self.effort.slice, self.calls_max);
        let (caller_cpu, wall) = (own_cpu() - caller_before, began.elapsed());
        let server_cpu = self.server_cpu()? - server_before;
        self.findings.add_ours(&tallies?, caller_cpu, server_cpu, wall);
        self.session.stop_server().map_err(|error| error.to_string())
    }

    fn slice_of_floor(&mut self) -> Result<(), String> {
        self.floor.resume().map_err(|error| error.to_string())?;
        let tallies: Vec<Tally> = self.session.callers.run(
            &mut self.floor.callers,
            self.effort.warm_up,
            self.effort.slice,
            self.calls_max,
        )?;
        self.findings.add_floor(&tallies);
        self.floor.stop().map_err(|error| error.to_string())
    }

    fn server_cpu(&mut self) -> Result<Duration, String> {
        self.session.server_cpu().map_err(|error| error.to_string())
    }
}

/// The processor time that this process has used, all threads together.
pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
