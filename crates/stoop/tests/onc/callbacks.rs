//! Calls from the server back to its client, which serves a transient program.

use crate::sandbox;
use std::sync::{Arc, Mutex};
use stoop::onc::VersionId;
use stoop::onc::rpcbind::Rpcbind;
use stoop::{RunningServer, Server};

#[stoop::interface(program = 0x2000_0090, version = 1)]
trait Work {
    /// Calls back at each step: version 1 of that program at that address. Returns how many steps the caller has allowed.
    fn run(&self, steps: u32, address: &str, program: u32) -> u32;
}

#[stoop::interface(program = 0x2000_0091, version = 1)]
trait Progress {
    fn step(&self, number: u32) -> bool;
}

struct Worker;

impl Work for Worker {
    fn run(&self, steps: u32, address: &str, program: u32) -> u32 {
        let caller = ProgressClient::bind(&format!("{address}/{program}:1")).expect("the caller serves it");
        (1..=steps).take_while(|number| caller.step(*number).expect("the caller answers")).count() as u32
    }
}

/// Allows so many steps.
struct Steps {
    allowed: u32,
    seen: Arc<Mutex<Vec<u32>>>,
}

impl Progress for Steps {
    fn step(&self, number: u32) -> bool {
        self.seen.lock().unwrap().push(number);
        number <= self.allowed
    }
}

fn serve() -> RunningServer {
    let server = Server::new().export(WorkServer::new(Worker)).listen("onc+tcp://127.0.0.1").unwrap();
    server.listen("tcp://127.0.0.1:0").unwrap().start().unwrap()
}

#[test]
fn a_server_calls_its_client_back_while_the_client_waits() {
    let server = serve();
    for own_scheme in ["onc+udp", "onc+tcp"] {
        for server_uri in server.uris() {
            let (seen, version) = (Arc::default(), VersionId::transient(1));
            let steps = Steps { allowed: 3, seen: Arc::clone(&seen) };
            let own = Server::new().export_as(ProgressServer::new(steps), version);
            let own = own.listen(&format!("{own_scheme}://127.0.0.1")).unwrap().start().unwrap();
            let work = WorkClient::bind(server_uri).unwrap();
            assert_eq!(work.run(10, &own.uris()[0], version.program).unwrap(), 3, "{server_uri}");
            assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4]);
        }
    }
}

#[test]
fn rpcbind_knows_a_transient_program_and_no_other_takes_its_place() {
    sandbox::run("callbacks::rpcbind_knows_a_transient_program_and_no_other_takes_its_place", || {
        let version = VersionId::transient(1);
        let own = || {
            let steps = Steps { allowed: 1, seen: Arc::default() };
            let own = Server::new().export_as(ProgressServer::new(steps), version);
            own.listen("onc+udp://127.0.0.1").unwrap().register()
        };
        let first = own().start().unwrap();
        let server = serve();
        let work = WorkClient::bind(&server.uris()[0]).unwrap();
        assert_eq!(work.run(9, "onc+udp://127.0.0.1", version.program).unwrap(), 1);
        let why = own().start().unwrap_err().to_string();
        assert!(why.contains("draw another"), "{why}");
        assert_eq!(
            work.run(9, "onc+udp://127.0.0.1", version.program).unwrap(),
            1,
            "the first is still registered"
        );
        first.shut_down();
        let entries = Rpcbind::local().unwrap().dump().unwrap();
        assert!(entries.iter().all(|entry| entry.version != version));
    });
}
