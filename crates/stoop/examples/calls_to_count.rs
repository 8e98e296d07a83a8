//! Calls over one transport, whose instructions `crates/stoop/count-instructions` counts under callgrind:
//! `calls_to_count ADDRESS ADDRESS KIND...`, with the addresses for the server and for the caller.
//!
//! Caller and server are threads of this process, and both sleep in every wait ([`Waiting::Block`]): a thread that spins does so for a time
//! that depends on the machine. Callgrind writes the instructions since the last time whenever [`mark`] is called: before each round of
//! calls, and behind the last one of its kind. For each kind the program prints its name, the rounds, and the calls of a round.

use std::cell::LazyCell;
use std::env;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use stoop::dynamic::{self, Interface, Procedure};
use stoop::{BindOptions, Server, Waiting};

#[stoop::interface]
trait Test {
    fn null(&self);
    #[one_way]
    fn tell(&self);
    fn take(&self, bytes: &[u8]);
    fn fill(&self, #[out] bytes: &mut [u8]);
}

struct Nothing;

impl Test for Nothing {
    fn null(&self) {}
    fn tell(&self) {}
    fn take(&self, bytes: &[u8]) {
        black_box(bytes);
    }
    fn fill(&self, bytes: &mut [u8]) {
        black_box(bytes);
    }
}

/// Ends a part of what callgrind counts.
#[inline(never)]
fn mark() {
    black_box(());
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end, asleep until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Bytes of a long argument or result.
const LONG: usize = 1 << 20;

/// Calls of a round, and the rounds.
fn rounds(kind: &str) -> (u32, u32) {
    match kind {
        "f32" => (1, 60),
        "f256" => (1, 30),
        "in" | "out" => (1, 10),
        _ => (100, 12),
    }
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [at_server, at_caller, kinds @ ..] = &arguments[..] else {
        panic!("two addresses, and kinds of calls")
    };
    let server = Server::new()
        .security(stoop::Security::none())
        .export(TestServer::new(Nothing))
        .workers(1)
        .waiting(Waiting::Block);
    let server = server.listen(at_server).unwrap().start().unwrap();
    let address = if at_caller == at_server { &server.uris()[0] } else { at_caller };
    let client = TestClient::bind_with(address, &BindOptions::new().waiting(Waiting::Block)).unwrap();
    let asynchronous = client.to_async();
    let by_bytes = LazyCell::new(|| {
        let procedures =
            TestClient::interface().procedures.iter().map(|each| Procedure::new(each.signature()));
        let interface = Interface::new("Test", procedures).unwrap();
        dynamic::Client::bind(address, interface, &BindOptions::new().waiting(Waiting::Block)).unwrap()
    });
    let mut bytes = vec![1; LONG];
    let mut call = |kind: &str| match kind {
        "null" => client.null().unwrap(),
        "bytes" => by_bytes.call(0, |_| {}, |_| Ok(())).unwrap(),
        "async" => block_on(client.begin().null()).unwrap(),
        "async-client" => block_on(asynchronous.null()).unwrap(),
        // The second waits until the first has returned at the server.
        "one-way" => client.tell().and_then(|()| client.null()).unwrap(),
        "in" => client.take(&bytes).unwrap(),
        "out" => client.fill(&mut bytes).unwrap(),
        in_flight => {
            let calls = client.begin();
            let pending: Vec<_> = (0..in_flight[1..].parse().unwrap()).map(|_| calls.null()).collect();
            drop(calls);
            stoop::wait_all(pending).into_iter().for_each(|result| result.unwrap());
        }
    };
    for kind in kinds {
        let (calls, rounds) = rounds(kind);
        (0..2 * calls).for_each(|_| call(kind));
        for _ in 0..rounds {
            mark();
            (0..calls).for_each(|_| call(kind));
        }
        mark();
        let each: u32 = kind.strip_prefix('f').map_or(1, |in_flight| in_flight.parse().unwrap());
        println!("{kind} {rounds} {}", calls * each);
    }
}
