//! Deadlines that are hours and days away travel as they are.

use crate::harness::loopback;
use std::time::Duration;
use stoop::{BindOptions, Ran, Server, current_call};

#[stoop::interface]
trait Clock {
    /// Milliseconds that are left, as the procedure sees them.
    fn left(&self, ballast: &[u8]) -> u64;
}

struct Own;

impl Clock for Own {
    fn left(&self, _ballast: &[u8]) -> u64 {
        let left = current_call().expect("a call runs").time_left();
        u64::try_from(left.as_millis()).unwrap()
    }
}

/// By which what is left may have shrunk on its way, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(120);

fn address(transport: &str) -> String {
    match transport {
        "udp" | "tcp" => format!("{transport}://127.0.0.1:0"),
        "unix" => format!("unix:@long-deadlines-{}", std::process::id()),
        other => format!("{other}:long-deadlines-{}", std::process::id()),
    }
}

#[test]
fn a_procedure_sees_the_time_left_of_two_hours_and_of_thirty_days() {
    for transport in ["udp", "tcp", "unix", "shm", "local"] {
        let server = Server::new().export(ClockServer::new(Own)).listen(&address(transport)).unwrap();
        let server = server.start().unwrap();
        let client = ClockClient::bind_with(&server.uris()[0], &BindOptions::new()).unwrap();
        for days_24ths in [2, 20 * 24, 30 * 24] {
            let timeout = Duration::from_secs(days_24ths * 3600);
            for ballast in [0, 100_000] {
                let ballast = vec![0; ballast];
                let client = client.with_timeout(timeout);
                let blocking = client.left(&ballast).unwrap();
                let begun = client.begin().left(&ballast).wait().unwrap();
                for left in [blocking, begun].map(Duration::from_millis) {
                    let least = timeout - SLACK;
                    assert!(left >= least, "{transport}: {left:?} of {timeout:?}");
                    // Beyond 24 days no end is told.
                    assert!(
                        left <= timeout || timeout > Duration::from_secs(24 * 24 * 3600),
                        "{transport}: {left:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_call_to_a_server_that_is_gone_has_not_run_though_its_deadline_is_hours_away() {
    for ballast in [0, 5000] {
        let ballast = vec![0; ballast];
        for _ in 0..5 {
            // At an address of its own: a server of another test that got the same port would take what is sent.
            let uri = format!("udp://{}:0", loopback::address());
            let server = Server::new().export(ClockServer::new(Own)).listen(&uri).unwrap().start().unwrap();
            let client =
                ClockClient::bind(&server.uris()[0]).unwrap().with_timeout(Duration::from_secs(3600));
            drop(server);
            let begun = client.begin().left(&ballast).wait();
            for error in [begun.unwrap_err(), client.left(&ballast).unwrap_err()] {
                assert_eq!(error.ran(), Ran::No, "{} bytes: {error}", ballast.len());
            }
        }
    }
}
