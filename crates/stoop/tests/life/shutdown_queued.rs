//! A server ends soon also when workers rest that have run calls which had waited for them.

use crate::harness::loopback;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stoop::Server;

#[stoop::interface]
trait Office {
    /// Returns when the calls up to this turn may return.
    fn wait(&self, turn: u32);
}

#[derive(Default)]
struct TimedLock {
    /// Those of the calls that have begun to run.
    inside: Vec<u32>,
    /// Calls up to this turn may return.
    over: u32,
}

#[derive(Clone, Default)]
struct Clerk(Arc<(Mutex<TimedLock>, Condvar)>);

impl Clerk {
    fn await_inside(&self, turn: u32) {
        let (turns, changed) = &*self.0;
        drop(changed.wait_while(turns.lock().unwrap(), |turns| !turns.inside.contains(&turn)).unwrap());
    }

    fn let_go_on(&self, turn: u32) {
        self.0.0.lock().unwrap().over = turn;
        self.0.1.notify_all();
    }
}

impl Office for Clerk {
    fn wait(&self, turn: u32) {
        let (turns, changed) = &*self.0;
        let mut turns = turns.lock().unwrap();
        turns.inside.push(turn);
        changed.notify_all();
        drop(changed.wait_while(turns, |turns| turns.over < turn).unwrap());
    }
}

fn shuts_down_soon(uri: &str) {
    let clerk = Clerk::default();
    let server = Server::new().export(OfficeServer::new(clerk.clone())).workers(2).queue(2);
    let server = server.listen(uri).unwrap().start().unwrap();
    let client = OfficeClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        for turn in [1, 2] {
            let client = client.clone();
            scope.spawn(move || client.wait(turn).unwrap());
            clerk.await_inside(turn);
        }
        // Both workers are busy: two of these calls wait for them, and the third is refused.
        let (ends, ended) = std::sync::mpsc::channel();
        for turn in [3, 4, 5] {
            let (client, ends) = (client.clone(), ends.clone());
            scope.spawn(move || ends.send((turn, client.wait(turn))).unwrap());
        }
        let (refused, error) = ended.recv().unwrap();
        error.unwrap_err();
        let waiting = [3, 4, 5].into_iter().filter(|turn| *turn != refused);
        clerk.let_go_on(2);
        waiting.clone().for_each(|turn| clerk.await_inside(turn));
        // One worker after the other is done: the first receives, and the second rests.
        for turn in waiting {
            clerk.let_go_on(turn);
            ended.recv().unwrap().1.unwrap();
        }
    });
    let begun = Instant::now();
    server.shut_down();
    // A worker rests for ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(5), "{uri}: {:?}", begun.elapsed());
}

#[test]
fn a_shutdown_after_calls_waited_for_workers_takes_less_than_five_seconds() {
    let name = format!("shutdown-queued-{}", std::process::id());
    for transport in ["udp", "tcp"] {
        shuts_down_soon(&format!("{transport}://{}:0", loopback::address()));
    }
    shuts_down_soon(&format!("unix:@{name}"));
    shuts_down_soon(&format!("shm:{name}"));
}
