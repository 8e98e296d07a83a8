//! Calls end at their deadlines: never before, and not long after, over every transport and in every way of waiting.
//!
//! By default the deadlines are short and the bounds wide. The long form makes 200 waits at once in each way and prints how late they
//! ended; `STOOP_DEADLINES` is the longest deadline in milliseconds:
//!
//! ```text
//! STOOP_DEADLINES=60000 cargo test --release -p stoop --test deadlines waits:: -- --test-threads=1 --nocapture
//! ```

#[path = "../harness/mod.rs"]
mod harness;

mod binding;
mod lateness;
mod long_waits;
mod waits;

use crate::harness::gate::Gate;
use crate::harness::lab::{Bench, LabClient};
use crate::harness::loopback;
use lateness::{Lateness, Way};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, PacketOptions, RunningServer, Server, Waiting};

/// A server that answers nothing as long as this lives.
struct Silent {
    gate: Gate,
    _server: RunningServer,
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// A server that answers nothing, and a client of it.
fn silent(transport: &str, waiting: Waiting) -> (Silent, LabClient) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("deadlines-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let uri = match transport {
        "udp" | "tcp" => format!("{transport}://{}:0", loopback::address()),
        "unix" => format!("unix:@{name}"),
        other => format!("{other}:{name}"),
    };
    let gate = Gate::default();
    // All calls wait at the gate: those that wait for a worker would be refused shortly before their deadlines.
    let server = Server::new().workers(2 * waits::MANY as usize).waiting(waiting);
    let server = Bench::with(&gate).serve(server, &uri);
    let options = BindOptions::new().waiting(waiting);
    // A busy machine may keep the server from answering probes for long.
    let patience = PacketOptions::new().silence_limit(Duration::from_secs(100));
    let options = if transport == "udp" { options.with(patience) } else { options };
    let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
    (Silent { gate, _server: server }, client)
}

/// A machine is not busy in each of so many measurements.
const ROUNDS: u32 = 40;

/// A transport, how threads wait, and for what.
type Cell<'a> = (&'a str, Waiting, Way);

/// A thread that sleeps wakes up this late at most on a machine that is not busy.
const ON_TIME: Duration = Duration::from_millis(10);

/// Waits in all these cells at once: no call may end too early, and half of the calls of a cell no later than `late`. While the machine is
/// so busy that plain sleeps of the same time end late, too, it is measured again.
fn check_at_once(cells: &[Cell<'_>], timeouts: &[Duration], late: Duration) {
    thread::scope(|scope| {
        for &cell in cells {
            scope.spawn(move || {
                for round in 1.. {
                    let (_server, client) = silent(cell.0, cell.1);
                    let (lateness, of_sleeps) = thread::scope(|scope| {
                        let sleeps = scope.spawn(|| Lateness::of_sleeps(timeouts));
                        (Lateness::measure(&client, cell.2, timeouts), sleeps.join().unwrap())
                    });
                    lateness.assert_never_early(cell);
                    let (middle, last) = (lateness.percentile(50), of_sleeps.percentile(100));
                    if middle < late {
                        break;
                    }
                    assert!(
                        last > ON_TIME && round < ROUNDS,
                        "{cell:?}: half of the calls ended {middle:?} late, the last sleep {last:?}"
                    );
                }
            });
        }
    });
}
