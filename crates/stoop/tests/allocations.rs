//! Blocking calls on the fast path allocate nothing, at either end, over every transport but raw Ethernet, which this does not ask.
//!
//! This program has one test alone, because it counts the allocations of all threads.

#[path = "harness/mod.rs"]
mod harness;

use crate::harness::transports;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use stoop::{BindOptions, CallError, Pending, Server, Waiting};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise about `layout` is handed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `memory` and `layout` is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[stoop::interface]
trait Test {
    fn null(&self);
    fn add(&self, left: u64, right: u64) -> u64;
    fn max_result(&self, #[out] buf: &mut [u8; 1440]);
    fn max_arg(&self, buf: &[u8; 1440]);
    fn text(&self, text: Option<&str>) -> u32;
    fn both(&self, values: &mut [u32; 16]);
}

struct Server1;

impl Test for Server1 {
    fn null(&self) {}
    fn add(&self, left: u64, right: u64) -> u64 {
        left + right
    }
    fn max_result(&self, buf: &mut [u8; 1440]) {
        buf.fill(3);
    }
    fn max_arg(&self, buf: &[u8; 1440]) {
        assert_eq!(buf[1439], 3);
    }
    fn text(&self, text: Option<&str>) -> u32 {
        text.map_or(0, |text| text.len() as u32)
    }
    fn both(&self, values: &mut [u32; 16]) {
        values[15] += 1;
    }
}

fn calls(client: &TestClient) {
    let mut buf = [0; 1440];
    let mut values = [4; 16];
    client.null().unwrap();
    assert_eq!(client.add(3, 4).unwrap(), 7);
    client.max_result(&mut buf).unwrap();
    client.max_arg(&buf).unwrap();
    assert_eq!(client.text(Some("a text")).unwrap(), 6);
    client.both(&mut values).unwrap();
    assert_eq!(values[15], 5);
}

/// A hundred calls in flight at a time.
fn begun_calls(client: &TestClient, pending: &mut Vec<Pending<Result<u64, CallError>>>) {
    let calls = client.begin();
    pending.extend((0..100).map(|number| calls.add(number, 1)));
    let (filled, told) = (calls.max_result(), calls.text(Some("a text")));
    drop(calls);
    for (number, sum) in (0..).zip(pending.drain(..)) {
        assert_eq!(sum.wait().unwrap(), number + 1);
    }
    assert_eq!((filled.wait().unwrap()[1439], told.wait().unwrap()), (3, 6));
    calls_of_one(client);
}

/// One at a time, by a temporary.
fn calls_of_one(client: &TestClient) {
    assert_eq!(client.begin().add(3, 4).wait().unwrap(), 7);
    client.begin().null().detach();
}

#[test]
fn a_call_allocates_nothing_at_either_end() {
    for transport in transports::without_network() {
        let server = Server::new()
            .export(TestServer::new(Server1))
            .waiting(Waiting::Block)
            .listen(&transports::address(transport))
            .unwrap()
            .start()
            .unwrap();
        let client =
            TestClient::bind_with(&server.uris()[0], &BindOptions::new().waiting(Waiting::Block)).unwrap();
        let quiet = allocates_nothing(|| (0..50).for_each(|_| calls(&client)));
        assert!(quiet, "calls over {transport} allocate");
        // Over byte streams the result of a begun call has a buffer of its own until its handle takes it; within a process its arguments have
        // one, and a result longer than a word.
        if matches!(transport, "udp" | "shm") {
            let mut pending = Vec::with_capacity(100);
            let quiet = allocates_nothing(|| (0..20).for_each(|_| begun_calls(&client, &mut pending)));
            assert!(quiet, "begun calls over {transport} allocate");
        }
    }
}

/// Whether nothing is allocated in ten rounds in a row, of two hundred. A server starts another worker when a procedure was away for
/// long, which a busy machine can do to any: that allocates, and is not what is counted here.
fn allocates_nothing(mut round: impl FnMut()) -> bool {
    let mut quiet_rounds = 0;
    (0..200).any(|_| {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        round();
        let is_quiet = ALLOCATIONS.load(Ordering::SeqCst) == before;
        quiet_rounds = if is_quiet { quiet_rounds + 1 } else { 0 };
        quiet_rounds == 10
    })
}
