//! Models of the protocol: the code that ships, on a stand-in for the memory, run in all orders that the threads of two honest
//! processes can take, and with all values that the machine may let them see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p stoop-shm --lib --release`. Only one thread at a time may touch bytes that another word publishes,
//! and a thread sleeps until it is woken: loom reports a thread that does otherwise. It knows no sequentially consistent
//! accesses, only fences.

mod answers;
mod attention;
mod bell;
mod channels;
mod lanes;
mod pipes;
mod segment;

pub use segment::Segment;

use crate::attention as server;
use crate::{Answer, AnswerKind, Answers, Request, RequestKind, Requests, Took};
use bell::Bell;
use loom::sync::Arc;

/// As many times a thread may be made to wait where it need not. (LOOM_MAX_PREEMPTIONS for more.)
const PREEMPTIONS: usize = 3;

/// Tries all orders.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(model);
}

/// The memory that a caller's process and its server share.
struct World {
    segment: Segment,
    requests: Requests,
    bell: Bell,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { segment: Segment::new(), requests: Requests::default(), bell: Bell::default() })
    }

    fn with_pipes() -> Arc<Self> {
        let segment = Segment::with_pipes();
        Arc::new(Self { segment, requests: Requests::default(), bell: Bell::default() })
    }

    /// The caller has published something.
    fn ring(&self) {
        if server::is_asleep(&self.segment) {
            self.bell.ring();
        }
    }

    /// The caller publishes a request.
    fn request(&self, request: &Request, message: &[u8]) {
        self.requests.publish(&self.segment, request, message);
        self.ring();
    }

    /// The caller waits for an answer, and returns it with its message.
    fn answer(&self, lane: u16, number: u32) -> (Answer, Vec<u8>) {
        while !Answers::is_there(&self.segment, lane, number) {
            Answers::sleep(&self.segment, lane, number, u64::MAX);
        }
        let answer = Answers::read(&self.segment, lane).expect("an honest server's answer makes sense");
        let mut message = Vec::new();
        if answer.kind == AnswerKind::Result {
            Answers::message(&self.segment, lane, &answer, &mut message);
        }
        (answer, message)
    }

    /// The server waits until `there` brings something.
    fn wait<T>(&self, mut there: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(it) = there() {
                return it;
            }
            server::look_away(&self.segment);
            let it = there();
            if it.is_none() {
                self.bell.wait();
            }
            server::look(&self.segment);
            if let Some(it) = it {
                return it;
            }
        }
    }

    /// The server waits for the next request, and takes it.
    fn take(&self, ticket: u64) -> Request {
        self.wait(|| match Requests::take(&self.segment, ticket) {
            Took::Nothing => None,
            Took::Request(request) => Some(request),
            Took::Disorder => panic!("an honest caller's request makes sense"),
        })
    }

    /// The server waits for the next call and answers it with its own arguments.
    fn echo(&self, ticket: u64) -> Request {
        let request = self.take(ticket);
        let mut message = Vec::new();
        Requests::message(&self.segment, ticket, &request, &mut message);
        Answers::publish(&self.segment, request.lane, request.number, &result(message.len()), &message);
        request
    }
}

/// A call of so many bytes.
fn call(lane: u16, number: u32, len: usize) -> Request {
    Request {
        kind: RequestKind::Call,
        lane,
        number,
        procedure: 0,
        cpu: 0,
        len: len as u32,
        deadline_ns: 0,
        channel: 0,
        base: 0,
    }
}

/// A result of so many bytes.
fn result(len: usize) -> Answer {
    Answer { kind: AnswerKind::Result, len: len as u32, word: 0, cpu: 0, channel: 0, base: 0 }
}
