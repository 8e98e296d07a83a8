//! The measurement `bench --overload`: more calls than a server can run, second by second.
//!
//! The server has one processor, the load the other. A procedure takes 2 ms of processor time, and each call has a
//! deadline of one second. Callers in a closed loop show what the server can do (the *control*); then come a multiple of
//! that in an open loop, the control again, and a closed loop with more callers than can be served.

mod load;
mod phase;
mod refusals;
pub(crate) mod serve;

use crate::args::{BenchArgs, Processors, Transport, Waiting, name_of};
use crate::network::Network;
use crate::placement::{Placement, pin};
use crate::progress::Progress;
use crate::session::{socket_path, start_server};
use crate::stage::chosen_or;
use crate::{machine, screen, table};
use phase::{Phases, steps_of_all};
use std::process::ExitCode;
use std::time::Duration;

/// The interface of the measurement.
#[stoop::interface]
pub(crate) trait Work {
    /// Takes [`WORK`] of processor time. `deadline_ns` is the caller's deadline by the clock of the machine: a call that
    /// is begun later is counted.
    fn work(&self, deadline_ns: u64);
    /// Nothing: what a refusal is compared with.
    fn null(&self);
    /// Sleeps for so long, or until its caller no longer waits. One call at a time.
    fn nap(&self, millis: u64);
}

/// Processor time of the procedure.
pub(crate) const WORK: Duration = Duration::from_millis(2);
/// Deadline of each call.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);

/// Measures the server under overload over each transport that `args` choose.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, String> {
    let placement =
        Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
    let sides = placement.sides(Processors::Two).ok_or("an overload needs two processors")?;
    machine::allow_many_files().map_err(|error| format!("the number of open files: {error}"))?;
    let network = Network::prepare();
    screen::print(&table::headed("machine", &machine::describe()));
    screen::print(&table::headed("network", &network.describe()));
    screen::print(&table::headed("processors", &placement.describe()));
    pin(sides.caller).map_err(|error| format!("pinning the load: {error}"))?;
    let all = [Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm];
    let transports = chosen_or(&args.transport, &all);
    let progress = Progress::of(transports.len() as u64 * steps_of_all(args));
    let waiting = args.waiting.first().copied().unwrap_or(Waiting::Adaptive);
    for transport in transports {
        let path = socket_path("overload");
        let server =
            start_server("bench-overloaded", (*transport, waiting, sides.server), &network, &path, None);
        let (server, uri) = server.map_err(|error| error.to_string())?;
        let measured = Phases::new(*transport, server, &uri, args.short, &progress)
            .and_then(|mut phases| phases.run(args, &uri));
        let _ = std::fs::remove_file(&path);
        measured.map_err(|why| format!("{}: {why}", name_of(*transport)))?;
    }
    progress.finish();
    Ok(ExitCode::SUCCESS)
}
