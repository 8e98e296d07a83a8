//! The server process of `bench --overload`: runs procedures of known cost, and counts what it has run.

use crate::args::ServeArgs;
use crate::overload::{WORK, Work, WorkServer};
use crate::{cell, child, ours, serve};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoop::{ProcedureOptions, RunningServer, Security, Server};

/// The counters of the procedures.
#[derive(Debug, Default)]
struct Counts {
    run: AtomicU64,
    late: AtomicU64,
    latest_ns: AtomicU64,
    working_ns: AtomicU64,
}

/// A nap is interrupted so often, to see whether its caller waits.
const NAP_PART: Duration = Duration::from_millis(50);

/// The implementation.
struct Worker(Arc<Counts>);

fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The clock by which callers tell their deadlines: that of the machine, the same in all its processes.
pub(super) fn now_ns() -> u64 {
    now(ClockId::Monotonic)
}

impl Work for Worker {
    fn work(&self, deadline_ns: u64) {
        let late_ns = now_ns().saturating_sub(deadline_ns);
        let Counts { run, late, latest_ns, working_ns } = &*self.0;
        run.fetch_add(1, Ordering::Relaxed);
        late.fetch_add(u64::from(late_ns > 0), Ordering::Relaxed);
        latest_ns.fetch_max(late_ns, Ordering::Relaxed);
        let begun = now(ClockId::ThreadCPUTime);
        let end = begun + WORK.as_nanos() as u64;
        let worked = loop {
            let at = now(ClockId::ThreadCPUTime);
            if at >= end {
                break at - begun;
            }
        };
        working_ns.fetch_add(worked, Ordering::Relaxed);
    }

    fn null(&self) {}

    fn nap(&self, millis: u64) {
        let end = Instant::now() + Duration::from_millis(millis);
        let is_over =
            || Instant::now() >= end || stoop::current_call().is_some_and(|call| call.is_cancelled());
        while !is_over() {
            thread::sleep(NAP_PART.min(Duration::from_millis(millis)));
        }
    }
}

/// The server's counters since it started, as it sends them to the parent in a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerStats {
    pub(super) cpu_ns: u64,
    /// Processor time within procedures.
    pub(super) working_ns: u64,
    /// Procedures begun; how many of them after their caller's deadline, and how late the latest was.
    pub(super) run: u64,
    pub(super) late: u64,
    pub(super) latest_ns: u64,
    /// By the server's own counters.
    pub(super) refused: u64,
}

impl ServerStats {
    fn of(counts: &Counts, server: &RunningServer) -> Self {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Self {
            cpu_ns: cell::own_cpu().as_nanos() as u64,
            working_ns: get(&counts.working_ns),
            run: get(&counts.run),
            late: get(&counts.late),
            latest_ns: counts.latest_ns.swap(0, Ordering::Relaxed),
            refused: server.counters().refused,
        }
    }

    fn line(&self) -> String {
        let Self { cpu_ns, working_ns, run, late, latest_ns, refused } = self;
        format!("stats {cpu_ns} {working_ns} {run} {late} {latest_ns} {refused}")
    }

    /// The difference from `before`; how late the latest was is that of this interval anyway.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            working_ns: self.working_ns - before.working_ns,
            run: self.run - before.run,
            late: self.late - before.late,
            latest_ns: self.latest_ns,
            refused: self.refused - before.refused,
        }
    }
}

impl FromStr for ServerStats {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(u64::from_str).collect();
        match numbers.map_err(io::Error::other)?[..] {
            [cpu_ns, working_ns, run, late, latest_ns, refused] => {
                Ok(Self { cpu_ns, working_ns, run, late, latest_ns, refused })
            }
            _ => Err(io::Error::other("the server told something else than its counts")),
        }
    }
}

/// Serves until the parent ends it.
pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    serve::prepare(args).map_err(|error| format!("the server process: {error}"))?;
    let counts = Arc::new(Counts::default());
    let server = Server::new()
        .security(Security::none())
        .waiting(ours::wait(args.waiting))
        .export(WorkServer::new(Worker(counts.clone())))
        .procedure("Work", "nap", ProcedureOptions::new().at_once(1));
    let server = server.listen(&serve::address(args)?).and_then(Server::start);
    let server = server.map_err(|error| error.to_string())?;
    child::unless_orphaned(answer_orders(&counts, &server))
        .map_err(|why| format!("the server process: {why}"))
}

fn answer_orders(counts: &Counts, server: &RunningServer) -> io::Result<()> {
    child::answer(&format!("listening {}", server.uris()[0]))?;
    while child::next_order()?.is_some() {
        child::answer(&ServerStats::of(counts, server).line())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_were_told() {
        let told = ServerStats { cpu_ns: 1, working_ns: 2, run: 3, late: 4, latest_ns: 5, refused: 6 };
        let read: ServerStats = told.line().strip_prefix("stats").unwrap().parse().unwrap();
        assert_eq!(format!("{read:?}"), format!("{told:?}"));
        assert!("1 2 3".parse::<ServerStats>().is_err());
    }
}
