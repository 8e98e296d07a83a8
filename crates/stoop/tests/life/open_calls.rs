//! Processes end, fork or lose their binding while calls are open: their procedures have returned, and their answers come later.

use crate::harness::child::Child;
use crate::harness::processes::{Process, name, patient};
use crate::harness::{LIMIT, eventually};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use stoop::{BindOptions, Deferred, Reply, ReplyError, RunningServer, Server};

#[stoop::interface]
trait Desk {
    fn later(&self, number: u32) -> Deferred<u32>;
    fn next(&self, number: u32) -> u32;
}

/// Hands each reply on.
struct Clerk(Sender<(u32, Reply<u32>)>);

impl Desk for Clerk {
    fn later(&self, number: u32) -> Deferred<u32> {
        let (reply, deferred) = stoop::deferred();
        self.0.send((number, reply)).unwrap();
        deferred
    }
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

fn serve(uri: &str) -> (RunningServer, Receiver<(u32, Reply<u32>)>) {
    let (hands_on, replies) = mpsc::channel();
    let server = Server::new().export(DeskServer::new(Clerk(hands_on))).listen(uri).unwrap().start().unwrap();
    (server, replies)
}

fn next(replies: &Receiver<(u32, Reply<u32>)>) -> (u32, Reply<u32>) {
    replies.recv_timeout(LIMIT).unwrap()
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "wait-for-answers" => {
            let client = DeskClient::bind_with(uri, &patient(uri)).unwrap();
            let calls: Vec<_> = (0..8).map(|number| client.begin().later(number)).collect();
            calls.into_iter().for_each(|call| drop(call.wait()));
            true
        }
        "wait-a-little" => {
            let options = BindOptions::new().timeout(Duration::from_secs(1)).bind_timeout(LIMIT);
            let client = DeskClient::bind_with(uri, &options).unwrap();
            while client.later(1).is_err() {}
            true
        }
        "serve-later" => {
            let (server, replies) = serve(uri);
            println!("at {}", server.uris()[0]);
            let _open = next(&replies);
            println!("open");
            std::io::stdin().lines().next();
            true
        }
        "fork-with-open-calls" => {
            fork_with_open_calls(uri);
            true
        }
        _ => false,
    }
}

/// The calls of a process that is killed are over soon, and their giver learns why.
fn a_killed_callers_calls_are_over(uri: &str) {
    let (server, replies) = serve(uri);
    let mut caller = Process::start("wait-for-answers", &server.uris()[0]);
    let waiting: Vec<_> = (0..8).map(|_| next(&replies).1).collect();
    // A procedure hands its reply on before it returns.
    eventually(|| server.counters().open == 8);
    assert!(!waiting.iter().any(Reply::is_cancelled));
    caller.kill();
    eventually(|| waiting.iter().all(Reply::is_cancelled));
    eventually(|| server.counters().open == 0);
    assert!(waiting.into_iter().all(|reply| reply.send(1) == Err(ReplyError::CallerGone)));
    let client = DeskClient::bind_with(&server.uris()[0], &patient(uri)).unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn the_end_of_a_callers_process_ends_its_open_calls_over_tcp() {
    a_killed_callers_calls_are_over("tcp://127.0.0.1:0");
}

#[test]
fn the_end_of_a_callers_process_ends_its_open_calls_over_unix_sockets() {
    a_killed_callers_calls_are_over(&format!("unix:@{}", name()));
}

#[test]
fn the_end_of_a_callers_process_ends_its_open_calls_over_shared_memory() {
    a_killed_callers_calls_are_over(&name());
}

#[test]
fn the_deadline_ends_the_open_call_of_a_killed_process_over_udp() {
    let (server, replies) = serve("udp://127.0.0.1:0");
    let mut caller = Process::start("wait-a-little", &server.uris()[0]);
    let (_, reply) = next(&replies);
    caller.kill();
    eventually(|| reply.is_cancelled());
    eventually(|| server.counters().open == 0);
    assert_eq!(reply.send(1), Err(ReplyError::DeadlinePassed));
}

/// The connection ends while the procedure runs, so before its call is open.
fn a_caller_that_goes_before_the_procedure_returns(uri: &str) {
    struct Slow(Sender<Reply<u32>>, crate::harness::gate::Gate);
    impl Desk for Slow {
        fn later(&self, _: u32) -> Deferred<u32> {
            let (reply, deferred) = stoop::deferred();
            self.0.send(reply).unwrap();
            self.1.pass();
            deferred
        }
        fn next(&self, number: u32) -> u32 {
            number + 1
        }
    }
    let (hands_on, replies) = mpsc::channel();
    let gate = crate::harness::gate::Gate::default();
    let slow = Slow(hands_on, gate.clone());
    let server = Server::new().export(DeskServer::new(slow)).listen(uri).unwrap().start().unwrap();
    let mut caller = Process::start("wait-a-little", &server.uris()[0]);
    let reply = replies.recv_timeout(LIMIT).unwrap();
    caller.kill();
    eventually(|| server.counters().bindings == 0);
    gate.open();
    eventually(|| reply.is_cancelled() && server.counters().open == 0);
}

#[test]
fn a_call_is_over_whose_caller_goes_before_its_procedure_returns() {
    let unix = format!("unix:@{}", name());
    ["tcp://127.0.0.1:0", &unix, &name()]
        .into_iter()
        .for_each(a_caller_that_goes_before_the_procedure_returns);
}

/// A process that serves forks: its child has the replies, too.
fn fork_with_open_calls(uri: &str) {
    let (server, replies) = serve(uri);
    println!("at {}", server.uris()[0]);
    let mut waiting: Vec<_> = (0..8).map(|_| next(&replies)).collect();
    for _ in 0..4 {
        let mut slot = Some(std::mem::take(&mut waiting));
        let child = Child::fork(|| {
            let mut waiting = slot.take().unwrap();
            assert!(waiting.iter().all(|(_, reply)| reply.is_cancelled()));
            let (_, reply) = waiting.pop().unwrap();
            assert_eq!(reply.send(99), Err(ReplyError::ServerEnded));
            drop(waiting);
            // Its own open calls end as those of any process.
            let (server, replies) = serve("tcp://127.0.0.1:0");
            let client = DeskClient::bind(&server.uris()[0]).unwrap();
            let too_late = client.with_timeout(Duration::from_millis(100)).begin().later(1);
            let call = client.begin().later(2);
            // The deadline of the other may pass before it arrives.
            let mut late = Vec::new();
            let reply = loop {
                match next(&replies) {
                    (2, reply) => break reply,
                    (_, reply) => late.push(reply),
                }
            };
            reply.send(3).unwrap();
            assert_eq!(call.wait().unwrap(), 3);
            too_late.wait().unwrap_err();
        });
        child.ends_well();
        waiting = slot.take().unwrap();
    }
    waiting.into_iter().for_each(|(number, reply)| reply.send(number + 1).unwrap());
    println!("answered");
    std::io::stdin().lines().next();
}

/// A forked child answers no calls of its parent, whether it uses its copies of the replies or drops them.
fn a_childs_replies_answer_nothing(uri: &str) {
    let mut server = Process::start("fork-with-open-calls", uri);
    let uri = server.find_line(|line| line.starts_with("at "));
    let uri = uri.strip_prefix("at ").unwrap();
    let client = DeskClient::bind_with(uri, &patient(uri)).unwrap();
    let calls: Vec<_> = (0..8).map(|number| client.begin().later(number)).collect();
    for (number, call) in (0..).zip(calls) {
        assert_eq!(call.wait().unwrap(), number + 1);
    }
    server.await_line("answered");
    assert_eq!(client.next(1).unwrap(), 2);
}

#[test]
fn replies_in_a_forked_child_answer_nothing_of_the_parents() {
    let unix = format!("unix:@{}", name());
    ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &unix, &name()]
        .into_iter()
        .for_each(a_childs_replies_answer_nothing);
}

/// The callers of a server that is killed while it has not answered do not know whether their calls ran.
#[test]
fn calls_that_are_open_when_their_server_is_killed_are_of_unknown_outcome() {
    let unix = format!("unix:@{}", name());
    for uri in ["tcp://127.0.0.1:0", &unix, &name()] {
        let mut server = Process::start("serve-later", uri);
        let line = server.find_line(|line| line.starts_with("at "));
        let uri = line.strip_prefix("at ").unwrap();
        let client = DeskClient::bind_with(uri, &patient(uri)).unwrap();
        let call = client.begin().later(1);
        server.await_line("open");
        server.kill();
        let error = call.wait().unwrap_err();
        assert_eq!(error.ran(), stoop::Ran::Perhaps, "{error}");
    }
}
