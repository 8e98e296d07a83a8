//! Quiet pipes whose other end dies: real processes.

use crate::harness::child::Child;
use crate::harness::loopback;
use crate::harness::processes::Process;
use crate::harness::{LIMIT, eventually};
use std::sync::{Arc, Mutex};
use stoop::error::UnknownCause;
use stoop::{CallError, PipeError, Receiver, Sender, Server};

#[stoop::interface]
trait Lines {
    /// Sends one number, and is quiet from then on.
    fn follow(&self, numbers: Sender<u64>);
    /// Receives numbers, and notes how that ends.
    fn collect(&self, numbers: Receiver<u64>);
    /// Sends a part that is longer than any window.
    fn long(&self, parts: Sender<[u8]>);
    /// Gives numbers back, and returns how many.
    fn echo(&self, numbers: Receiver<u64>, back: Sender<u64>) -> u64;
}

#[derive(Clone, Default)]
struct Quiet(Arc<Mutex<Vec<String>>>);

impl Quiet {
    fn note(&self, what: impl std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{what:?}"));
    }

    fn noted(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Lines for Quiet {
    fn follow(&self, numbers: Sender<u64>) {
        numbers.send(&7).unwrap();
        while !numbers.is_stopped() {
            std::thread::park_timeout(LIMIT);
        }
    }

    fn collect(&self, numbers: Receiver<u64>) {
        for number in numbers {
            self.note(number);
        }
    }

    fn long(&self, parts: Sender<[u8]>) {
        parts.send(&[1; 4 << 20]).unwrap();
    }

    fn echo(&self, numbers: Receiver<u64>, back: Sender<u64>) -> u64 {
        numbers.map(|number| back.send(&number.unwrap()).unwrap()).count() as u64
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "serve-pipes" => {
            let server = Server::new().export(LinesServer::new(Quiet::default()));
            let server = server.listen(uri).unwrap().start().unwrap();
            println!("{}", server.uris()[0]);
            server.wait();
        }
        "call-pipes" => {
            let (call, numbers) = LinesClient::bind(uri).unwrap().collect();
            numbers.send(&1).unwrap();
            println!("sent");
            call.wait().unwrap();
        }
        "fork-with-pipes" => fork_with_pipes(uri),
        _ => return false,
    }
    true
}

/// Its child has the ends of its pipes, too, and uses and drops them.
fn fork_with_pipes(uri: &str) {
    let client = LinesClient::bind(uri).unwrap();
    let mut slot = Some(client.echo());
    for round in 0..3 {
        let child = Child::fork(|| {
            let (call, numbers, mut back) = slot.take().unwrap();
            let whys = [numbers.send(&9).unwrap_err(), back.recv().unwrap_err()];
            let is_forked =
                |why: &CallError| matches!(why, CallError::Unknown { cause: UnknownCause::Forked, .. });
            assert!(whys.iter().all(|why| matches!(why, PipeError::Lost(why) if is_forked(why))), "{whys:?}");
            assert!(numbers.is_stopped());
            match round {
                0 => drop((call, numbers, back)),
                1 => numbers.finish(),
                _ => back.stop(),
            }
            // Its own call is like that of any process.
            let (call, numbers, back) = client.echo();
            assert_eq!(back.fed_by(numbers, 0..100).map(Result::unwrap).sum::<u64>(), 4950);
            assert_eq!(call.wait().unwrap(), 100);
        });
        child.ends_well();
        let (_, numbers, back) = slot.as_mut().unwrap();
        numbers.send(&round).unwrap();
        assert_eq!(back.recv().unwrap(), Some(round), "a child does nothing to the pipes of its parent");
    }
    let (call, numbers, _back) = slot.unwrap();
    numbers.finish();
    assert_eq!(call.wait().unwrap(), 3);
    println!("well");
}

/// An address of each transport that leads to another process.
fn addresses(of: &str) -> [String; 4] {
    let address = |transport: &str| format!("{transport}://{}:0", loopback::address());
    let name = format!("stoop-test-{of}-{}", std::process::id());
    [address("udp"), address("tcp"), format!("unix:@{name}"), format!("shm:{name}")]
}

#[test]
fn a_reader_of_a_quiet_pipe_notices_that_its_server_was_killed() {
    for uri in addresses("quiet-server") {
        let mut server = Process::start("serve-pipes", &uri);
        let uri = server.find_line(|line| line.contains(':') && !line.contains(' '));
        let (call, mut numbers) = LinesClient::bind(&uri).unwrap().follow();
        assert_eq!(numbers.recv().unwrap(), Some(7), "{uri}");
        server.kill();
        let why = numbers.recv().unwrap_err();
        assert!(matches!(why, PipeError::Lost(_)), "{uri}: {why}");
        assert!(call.wait().is_err(), "{uri}");
    }
}

#[test]
fn a_reader_of_the_rest_behind_an_answer_notices_that_its_server_was_killed() {
    for uri in addresses("answered") {
        let mut server = Process::start("serve-pipes", &uri);
        let uri = server.find_line(|line| line.contains(':') && !line.contains(' '));
        let (call, mut parts) = LinesClient::bind(&uri).unwrap().long();
        // The answer needs no room.
        eventually(|| call.is_ready());
        server.kill();
        let why = parts.recv().unwrap_err();
        assert!(matches!(why, PipeError::Lost(_)), "{uri}: {why}");
        call.wait().unwrap();
    }
}

#[test]
fn a_procedure_that_waits_for_items_notices_that_its_caller_was_killed() {
    for uri in addresses("quiet-caller") {
        let quiet = Quiet::default();
        let server =
            Server::new().export(LinesServer::new(quiet.clone())).listen(&uri).unwrap().start().unwrap();
        let mut caller = Process::start("call-pipes", &server.uris()[0]);
        caller.find_line(|line| line.ends_with("sent"));
        eventually(|| quiet.noted() == ["Ok(1)"]);
        caller.kill();
        eventually(|| quiet.noted().len() > 1);
        assert!(quiet.noted()[1].starts_with("Err("), "{uri}: {:?}", quiet.noted());
    }
}

#[test]
fn a_forked_child_has_no_ends_of_its_parents_pipes() {
    for uri in addresses("forked") {
        let server = Server::new().export(LinesServer::new(Quiet::default())).listen(&uri).unwrap();
        let server = server.start().unwrap();
        let mut caller = Process::start("fork-with-pipes", &server.uris()[0]);
        caller.find_line(|line| line.ends_with("well"));
    }
}
