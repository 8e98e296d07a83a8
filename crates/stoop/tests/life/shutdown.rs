//! Ways in which a server is shut down.

use crate::harness::loopback;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use stoop::{RunningServer, Server};

#[stoop::interface]
trait Office {
    /// Shuts its own server down.
    fn close(&self) -> u32;
    /// Lets go of its own server.
    fn abandon(&self) -> u32;
    /// Returns when the gate is opened.
    fn wait(&self) -> u32;
    /// Shuts its own server down and returns more than can be under way at once.
    fn last_words(&self) -> Vec<u8>;
}

#[derive(Clone, Default)]
struct Clerk(Arc<WorkerState>);

#[derive(Default)]
struct WorkerState {
    server: OnceLock<RunningServer>,
    last: Mutex<Option<RunningServer>>,
    /// Callers inside, and whether the gate is open.
    gate: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Clerk {
    fn open(&self) {
        self.0.gate.lock().unwrap().1 = true;
        self.0.changed.notify_all();
    }

    fn await_inside(&self) {
        drop(self.0.changed.wait_while(self.0.gate.lock().unwrap(), |gate| gate.0 == 0).unwrap());
    }
}

impl Office for Clerk {
    fn close(&self) -> u32 {
        let server = self.0.server.get().unwrap();
        server.shut_down();
        server.shut_down();
        1
    }
    fn last_words(&self) -> Vec<u8> {
        self.close();
        vec![7; 8 << 20]
    }
    fn abandon(&self) -> u32 {
        drop(self.0.last.lock().unwrap().take());
        2
    }
    fn wait(&self) -> u32 {
        let mut gate = self.0.gate.lock().unwrap();
        gate.0 += 1;
        self.0.changed.notify_all();
        drop(self.0.changed.wait_while(gate, |gate| !gate.1).unwrap());
        3
    }
}

const TRANSPORTS: [&str; 2] = ["udp", "tcp"];

fn office(transport: &str) -> (RunningServer, Clerk, OfficeClient) {
    let clerk = Clerk::default();
    let uri = format!("{transport}://{}:0", loopback::address());
    let server =
        Server::new().export(OfficeServer::new(clerk.clone())).listen(&uri).unwrap().start().unwrap();
    let client = OfficeClient::bind(&server.uris()[0]).unwrap();
    (server, clerk, client)
}

#[test]
fn a_procedure_may_shut_its_server_down_and_is_answered() {
    for transport in TRANSPORTS {
        let (server, clerk, client) = office(transport);
        assert!(clerk.0.server.set(server.clone()).is_ok());
        assert_eq!(client.close().unwrap(), 1);
        server.wait();
        assert!(client.wait().is_err());
    }
}

#[test]
fn a_long_result_arrives_whole_though_its_server_shuts_down() {
    let (server, clerk, client) = office(TRANSPORTS[0]);
    assert!(clerk.0.server.set(server.clone()).is_ok());
    assert!(client.last_words().unwrap() == vec![7; 8 << 20]);
    server.wait();
}

#[test]
fn a_procedure_may_drop_the_last_reference_to_its_server() {
    for transport in TRANSPORTS {
        let (server, clerk, client) = office(transport);
        *clerk.0.last.lock().unwrap() = Some(server);
        assert_eq!(client.abandon().unwrap(), 2);
    }
}

#[test]
fn a_wait_for_the_end_lasts_until_running_calls_are_answered() {
    for transport in TRANSPORTS {
        let (server, clerk, client) = office(transport);
        thread::scope(|scope| {
            let call = scope.spawn(|| client.wait());
            clerk.await_inside();
            let first = scope.spawn(|| server.shut_down());
            // A refusal shows that the end has begun.
            while OfficeClient::bind(&server.uris()[0]).is_ok() {}
            let others = [scope.spawn(|| server.wait()), scope.spawn(|| server.shut_down())];
            assert!(!others[0].is_finished() && !others[1].is_finished() && server.counters().calls == 1);
            clerk.open();
            assert_eq!(call.join().unwrap().unwrap(), 3);
            first.join().unwrap();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(server.counters().calls, 0);
        });
    }
}

#[test]
fn a_server_that_keeps_the_machine_awake_starts_or_reports_the_reason() {
    let server = Server::new().export(OfficeServer::new(Clerk::default())).low_latency();
    match server.listen("udp://127.0.0.1:0").unwrap().start() {
        Ok(server) => server.shut_down(),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("/dev/cpu_dma_latency") && error.contains("low_latency"), "{error}");
        }
    }
}
