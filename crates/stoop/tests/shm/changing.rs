//! A hostile server that changes its answers while the client reads them.

use crate::harness::processes::{Process, TargetClient, name};
use crate::harness::shm_peer::{Between, address, connect};
use std::future::Future;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use stoop::{BindOptions, CallError};
use stoop_shm::layout::SLOT;
use stoop_shm::{Answer, AnswerKind, Answers, RequestKind, Requests, Took};

/// Clients of one test, and calls of each.
const CLIENTS: u32 = 40;
const CALLS: u32 = 40;
/// A call's deadline, and what no machine is too busy for.
const TIMEOUT: Duration = Duration::from_millis(2);
const FAR_BEYOND: Duration = Duration::from_secs(60);

/// Answers every call of a client with a result of four bytes, and from then on turns that into one that is longer than a
/// slot, and back, until the next call comes.
fn change_answers(between: &Between) {
    let peer = &between.server;
    between.client.set_nonblocking(true).unwrap();
    let answer = |len| Answer { kind: AnswerKind::Result, len, word: 0, cpu: 0, channel: 0, base: 0 };
    let mut ticket = 0;
    let mut answered = None;
    while (&between.client).read(&mut [0; 64]).is_err() {
        if let Took::Request(request) = Requests::take(&peer.segment, ticket) {
            ticket += 1;
            if request.kind == RequestKind::Call {
                answered = Some((request.lane, request.number));
            }
        }
        let Some((lane, number)) = answered else { continue };
        for len in [100, SLOT as u32 + 1].repeat(100) {
            Answers::publish(&peer.segment, lane, number, &answer(len), &[7; 100][..len as usize % SLOT]);
        }
    }
}

/// Clients of a server, one after the other, while another process changes the lengths of their answers all the time.
fn with_changing_answers(with: impl Fn(&TargetClient)) {
    let (behind, front) = (name(), name());
    let _server = Process::server(&behind);
    let listener = UnixListener::bind_addr(&address(&front)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for socket in listener.incoming() {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(between) = Between::hand_on(socket.unwrap(), &behind) {
                    scope.spawn(move || change_answers(&between));
                }
            }
        });
        let finish = Finish(&done, &front);
        let options = BindOptions::new().timeout(TIMEOUT).bind_timeout(FAR_BEYOND);
        for _ in 0..CLIENTS {
            with(&TargetClient::bind_with(&front, &options).unwrap());
        }
        drop(finish);
    });
}

/// Has the listener end, also when a claim fails.
struct Finish<'a>(&'a AtomicBool, &'a str);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        drop(connect(self.1));
    }
}

/// Checks what may come of a call that a hostile server has answered: anything, but in time.
fn is_in_time<T>(begun: Instant, result: &Result<T, CallError>) {
    assert!(begun.elapsed() < FAR_BEYOND, "{:?}", result.as_ref().err());
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future, but not for ever.
fn block_on<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    let begun = Instant::now();
    while begun.elapsed() < FAR_BEYOND {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        thread::park_timeout(FAR_BEYOND);
    }
    None
}

#[test]
fn a_begun_call_whose_answer_changes_while_it_is_taken_ends_in_time_and_without_a_panic() {
    with_changing_answers(|client| {
        for number in 0..CALLS {
            let begun = Instant::now();
            let pending = client.begin().next(number);
            is_in_time(begun, &pending.wait());
        }
    });
}

#[test]
fn a_future_whose_answer_changes_while_it_is_taken_is_ready_at_its_deadline() {
    with_changing_answers(|client| {
        for number in 0..CALLS {
            let pending = client.begin().next(number);
            let result = block_on(pending);
            assert!(result.is_some(), "call {number} is pending long after its deadline");
        }
    });
}

#[test]
fn a_blocking_call_whose_answer_changes_while_it_is_taken_ends_in_time_and_without_a_panic() {
    with_changing_answers(|client| {
        for number in 0..CALLS {
            let begun = Instant::now();
            is_in_time(begun, &client.next(number));
            // The rest of a long result never comes; what has come may be read by now.
            is_in_time(begun, &client.bytes(4, 1));
        }
    });
}
