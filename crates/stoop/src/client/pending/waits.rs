//! Waits for several begun calls.

use crate::callbacks::nested;
use crate::calling::unpark::unparks_this_thread;
use crate::client::pending::Pending;
use crate::transports::AnyCalls;
use std::thread;
use stoop_exchange::Instant;

/// Waits for all of these, and gives their results in the same order.
///
/// # Panics
/// When one has been awaited as a future, which has given the result.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
/// # let client = AdderClient::bind(&uri)?;
///
/// let begin = client.begin();
/// let calls: Vec<_> = (0..10).map(|n| begin.add(n, n)).collect();
/// drop(begin); // they leave together
/// let sums: Result<Vec<u32>, _> = stoop::wait_all(calls).into_iter().collect();
/// assert_eq!(sums?[9], 18);
/// # Ok(())
/// # }
/// ```
pub fn wait_all<R>(pending: impl IntoIterator<Item = Pending<R>>) -> Vec<R> {
    // In order: the thread that waits for one call also receives the results of the others.
    pending.into_iter().map(Pending::wait).collect()
}

/// Waits until one of these is ready, and returns its index; `None` when there are none.
///
/// ```
/// # #[stoop::interface]
/// # pub trait Adder { fn add(&self, a: i32, b: i32) -> i32; }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: i32, b: i32) -> i32 { a + b } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let client = AdderClient::bind(&server.uris()[0])?;
/// let calls = client.begin();
/// let mut pending: Vec<_> = (0..3).map(|n| calls.add(n, n)).collect();
/// drop(calls);
///
/// let mut sum = 0;
/// while let Some(place) = stoop::wait_any(&mut pending) {
///     sum += pending.swap_remove(place).wait()?; // does not wait
/// }
/// assert_eq!(sum, 6);
/// # Ok(())
/// # }
/// ```
pub fn wait_any<R>(pending: &mut [Pending<R>]) -> Option<usize> {
    let mut calls = Vec::with_capacity(pending.len());
    let mut first: Option<&AnyCalls> = None;
    for (place, each) in pending.iter().enumerate() {
        let Some(begun) = each.outstanding_here() else { return Some(place) };
        if !first.get_or_insert(&begun.calls).is_same(&begun.calls) {
            return Some(nested::waiting(|| wait_for_wakers(pending)));
        }
        calls.push(begun.call);
    }
    let table = first?;
    loop {
        if let Some(place) = nested::waiting(|| table.wait_any(&calls, Instant::NEVER)) {
            return Some(place);
        }
    }
}

/// Waits for calls of several bindings, by a waker at each.
fn wait_for_wakers<R>(pending: &[Pending<R>]) -> usize {
    let waker = unparks_this_thread();
    let has_ended = |each: &Pending<R>| each.is_ready_or_wakes(&waker);
    loop {
        if let Some(place) = pending.iter().position(has_ended) {
            return place;
        }
        thread::park();
    }
}
