//! A caller that has a UDP address to itself, and callers that come later.

use std::time::{Duration, Instant};
use stoop::{Server, Waiting};

#[stoop::interface]
trait Works {
    /// Is busy for so many microseconds.
    fn work(&self, micros: u64) -> u64;
}

struct Mill;

impl Works for Mill {
    fn work(&self, micros: u64) -> u64 {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(micros) {
            std::hint::spin_loop();
        }
        micros
    }
}

/// Calls until the server gives the caller a socket of its own, but not for ever: a machine may be too busy for that.
fn serve_alone(micros: u64) -> (stoop::RunningServer, WorksClient) {
    let server = Server::new().waiting(Waiting::Block).export(WorksServer::new(Mill));
    let server = server.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let client = WorksClient::bind(&server.uris()[0]).unwrap();
    for _ in 0..2000 {
        assert_eq!(client.work(micros).unwrap(), micros);
        if server.counters().packet.dedicated > 0 {
            break;
        }
    }
    (server, client)
}

#[test]
fn other_callers_are_served_after_a_caller_of_long_procedures_falls_silent() {
    // So long that each call passes the receive role on, and the background thread sees no worker away.
    let (server, _silent) = serve_alone(400);
    let other = WorksClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(other.work(1).unwrap(), 1);
}

#[test]
fn other_callers_are_served_after_a_caller_of_short_procedures_falls_silent() {
    let (server, _silent) = serve_alone(1);
    let other = WorksClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(other.work(1).unwrap(), 1);
}
