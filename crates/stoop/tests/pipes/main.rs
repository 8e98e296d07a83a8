//! Pipes over every transport that carries them: one list of claims.

#[path = "../harness/mod.rs"]
mod harness;

mod ends;
mod items;
mod observed;
mod revisions;
mod room;
mod tasks;

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::transports::{ListenThere, address};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stoop::{Deferred, PipeError, Receiver, Reply, RunningServer, Sender, Server};

/// Makes a test of each claim for each transport that carries pipes.
macro_rules! claims {
    ([$($claim:ident)*]) => {
        claims! { @ local [$($claim)*] }
        claims! { @ tcp [$($claim)*] }
        claims! { @ unix [$($claim)*] }
        claims! { @ shm [$($claim)*] }
        claims! { @ udp [$($claim)*] }
        claims! { @ ether [$($claim)*] }
        claims! { @ memory [$($claim)*] }
        claims! { @ lossy [$($claim)*] }
        #[cfg(feature = "seal")]
        claims! { @ tcp_sealed [$($claim)*] }
        #[cfg(feature = "seal")]
        claims! { @ udp_sealed [$($claim)*] }
        #[cfg(feature = "seal")]
        claims! { @ ether_sealed [$($claim)*] }
    };
    (@ $transport:ident [$($claim:ident)*]) => {
        mod $transport {
            $(
                #[test]
                fn $claim() {
                    if crate::harness::transports::is_there(stringify!($transport)) {
                        super::$claim(stringify!($transport));
                    }
                }
            )*
        }
    };
}
use claims;

#[derive(Clone, Debug, PartialEq, stoop::Data)]
struct Line {
    number: u64,
    text: String,
}

#[derive(Debug, PartialEq, stoop::Data)]
enum PutError {
    Full(u64),
    Aborted,
}

#[stoop::interface]
trait Works {
    /// Sends the numbers from one to the other, and returns how many it has sent.
    fn count(&self, from: u64, to: u64, numbers: Sender<u64>) -> u64;
    /// Sends as many lines, and then fails.
    fn fail_after(&self, lines: u64, out: Sender<Line>) -> Result<u64, PutError>;
    /// Sends as many lines, and then panics.
    fn panic_after(&self, lines: u64, out: Sender<Line>);
    /// Takes parts until there are as many bytes, which is an error.
    fn put(&self, most: u64, parts: Receiver<[u8]>) -> Result<u64, PutError>;
    /// Takes nothing until the gate is opened, and then sums all.
    fn sum_later(&self, numbers: Receiver<u64>) -> u64;
    /// Sends numbers until that fails.
    fn send_until_stopped(&self, numbers: Sender<u64>);
    /// Receives numbers until that ends or fails.
    fn receive_until_stopped(&self, numbers: Receiver<u64>);
    /// Sends until there is no room, before it receives.
    fn writes_first(&self, numbers: Receiver<u64>, out: Sender<u64>) -> u64;
    /// Gives back what it is given, in its order.
    fn echo(&self, texts: Receiver<str>, out: Sender<str>);
    /// Twice each number.
    async fn double(&self, numbers: Receiver<u64>, doubled: Sender<u64>) -> u64;
    /// Sends what the test publishes.
    fn watch(&self, first: u64, numbers: Sender<u64>) -> Deferred<Result<u64, PutError>>;
    /// A thread sends parts of so many bytes until it cannot; another answers.
    fn flood(&self, len: u64, parts: Sender<[u8]>) -> Deferred<u64>;
    /// Drops its receiver, and goes on until the gate is opened.
    fn ignore(&self, numbers: Receiver<u64>) -> u64;
    /// Adds one.
    fn next(&self, number: u64) -> u64;
}

#[derive(Clone, Default)]
struct Bench {
    gate: Gate,
    log: Arc<Mutex<Vec<String>>>,
    watching: Arc<Mutex<Vec<Watcher>>>,
    /// Numbers that `receive_until_stopped` has received.
    received: Arc<AtomicU64>,
}

/// What publishes to the caller of `watch`, and answers its call.
type Watcher = (Sender<u64>, Reply<Result<u64, PutError>>);

impl Bench {
    fn note(&self, what: impl std::fmt::Debug) {
        self.log.lock().unwrap().push(format!("{what:?}"));
    }

    /// The last call of `watch`, once its procedure has returned.
    fn watcher(&self) -> Watcher {
        eventually(|| !self.watching.lock().unwrap().is_empty());
        self.watching.lock().unwrap().pop().unwrap()
    }

    /// What procedures have noted.
    fn noted(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

fn line(number: u64) -> Line {
    Line { number, text: format!("line {number}") }
}

impl Works for Bench {
    fn count(&self, from: u64, to: u64, numbers: Sender<u64>) -> u64 {
        (from..to).take_while(|number| numbers.send(number).is_ok()).count() as u64
    }

    fn fail_after(&self, lines: u64, out: Sender<Line>) -> Result<u64, PutError> {
        (0..lines).for_each(|number| out.send(&line(number)).unwrap());
        Err(PutError::Full(lines))
    }

    fn panic_after(&self, lines: u64, out: Sender<Line>) {
        (0..lines).for_each(|number| out.send(&line(number)).unwrap());
        panic!("after {lines} lines");
    }

    fn put(&self, most: u64, mut parts: Receiver<[u8]>) -> Result<u64, PutError> {
        let mut bytes = 0;
        loop {
            match parts.recv() {
                Ok(Some(part)) => bytes += part.len() as u64,
                Ok(None) => return Ok(bytes),
                Err(why) => {
                    self.note(why);
                    return Err(PutError::Aborted);
                }
            }
            if bytes >= most {
                return Err(PutError::Full(bytes));
            }
        }
    }

    fn sum_later(&self, numbers: Receiver<u64>) -> u64 {
        self.gate.pass();
        numbers.map(Result::unwrap).sum()
    }

    fn send_until_stopped(&self, numbers: Sender<u64>) {
        let why = (0..).find_map(|number| numbers.send(&number).err());
        self.note(why.unwrap());
    }

    fn receive_until_stopped(&self, numbers: Receiver<u64>) {
        for number in numbers {
            if let Err(why) = number {
                return self.note(why);
            }
            self.received.fetch_add(1, Ordering::SeqCst);
        }
        self.note("end");
    }

    fn writes_first(&self, numbers: Receiver<u64>, out: Sender<u64>) -> u64 {
        while out.try_send(&7).unwrap() {}
        self.note("full");
        out.send(&8).unwrap();
        numbers.count() as u64
    }

    fn echo(&self, mut texts: Receiver<str>, out: Sender<str>) {
        while let Ok(Some(())) = texts.recv_with(|text| out.send(text).unwrap()) {}
    }

    async fn double(&self, mut numbers: Receiver<u64>, doubled: Sender<u64>) -> u64 {
        let mut count = 0;
        while let Ok(Some(number)) = numbers.next().await {
            if doubled.send_async(&(2 * number)).await.is_err() {
                break;
            }
            count += 1;
        }
        count
    }

    fn watch(&self, first: u64, numbers: Sender<u64>) -> Deferred<Result<u64, PutError>> {
        let (reply, deferred) = stoop::deferred();
        numbers.send(&first).unwrap();
        self.watching.lock().unwrap().push((numbers, reply));
        deferred
    }

    fn flood(&self, len: u64, parts: Sender<[u8]>) -> Deferred<u64> {
        let (reply, deferred) = stoop::deferred();
        let (begun, is_begun) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let part = vec![7; len as usize];
            let _ = begun.send(());
            while parts.send(&part).is_ok() {}
        });
        std::thread::spawn(move || {
            is_begun.recv().unwrap();
            let _ = reply.send(len);
        });
        deferred
    }

    fn ignore(&self, numbers: Receiver<u64>) -> u64 {
        drop(numbers);
        self.gate.pass();
        7
    }

    fn next(&self, number: u64) -> u64 {
        number + 1
    }
}

/// A server on that transport, what its procedures use, and a client bound to it.
fn works(transport: &str) -> (RunningServer, Bench, WorksClient) {
    let bench = Bench::default();
    let server = Server::new().export(WorksServer::new(bench.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = WorksClient::bind(&server.uris()[0]).unwrap();
    (server, bench, client)
}

fn is_lost(why: &PipeError) -> bool {
    matches!(why, PipeError::Lost(_))
}
