//! One slice of each kind: items one way, calls one way, items there and back, and Null() beside either.

use super::service::PipedClient;
use crate::floor::SMALL;
use crate::samples::Samples;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of the calls beside which pipes are measured.
pub(super) const CALL: usize = 1 << 20;
/// Before each slice: windows have grown then.
const WARM_UP: Duration = Duration::from_millis(15);
/// Items after which the clock is read.
const BATCH: u64 = 64;

/// The direction of items, and of the bytes of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToProcedure,
    FromProcedure,
}

/// What is counted, and since when.
struct Rate {
    begin: Instant,
    end: Instant,
    counted_from: Option<(Instant, u64)>,
}

impl Rate {
    fn over(slice: Duration) -> Self {
        let begin = Instant::now() + WARM_UP;
        Self { begin, end: begin + slice, counted_from: None }
    }

    /// Whether the slice goes on after so many.
    fn goes_on(&mut self, count: u64) -> bool {
        let now = Instant::now();
        if now >= self.begin && self.counted_from.is_none() {
            self.counted_from = Some((now, count));
        }
        now < self.end
    }

    /// So many a second, by now.
    fn a_second(&self, count: u64) -> f64 {
        let (begun, before) = self.counted_from.unwrap_or((self.begin, 0));
        (count - before) as f64 / begun.elapsed().as_secs_f64()
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Items of so many bytes through one pipe, a second.
pub(super) fn items(client: &PipedClient, way: Way, len: usize, slice: Duration) -> Result<f64, String> {
    match way {
        Way::ToProcedure => {
            let (call, items) = client.take();
            let (item, mut rate, mut sent) = (vec![0x5a; len], Rate::over(slice), 0);
            while rate.goes_on(sent) {
                for _ in 0..batch(len) {
                    items.send(black_box(&item)).map_err(words)?;
                    sent += 1;
                }
            }
            items.finish();
            let taken = call.wait().map_err(words)?;
            if taken == sent {
                Ok(rate.a_second(taken))
            } else {
                Err(format!("{taken} of {sent} items came"))
            }
        }
        Way::FromProcedure => {
            let (call, mut items) = client.give(len as u32);
            let (mut rate, mut taken) = (Rate::over(slice), 0);
            while rate.goes_on(taken) {
                for _ in 0..batch(len) {
                    let item = items.recv_with(|item| _ = black_box(item)).map_err(words)?;
                    item.ok_or("the pipe has ended")?;
                    taken += 1;
                }
            }
            let rate = rate.a_second(taken);
            drop(items);
            call.wait().map_err(words).map(|()| rate)
        }
    }
}

/// Long items are counted one by one.
fn batch(len: usize) -> u64 {
    if len == SMALL { BATCH } else { 1 }
}

/// Calls with [`CALL`] bytes one way, a second.
pub(super) fn calls(client: &PipedClient, way: Way, slice: Duration) -> Result<f64, String> {
    let (mut data, mut rate, mut calls) = (vec![0x5a; CALL], Rate::over(slice), 0);
    while rate.goes_on(calls) {
        call(client, way, &mut data)?;
        calls += 1;
    }
    Ok(rate.a_second(calls))
}

fn call(client: &PipedClient, way: Way, data: &mut [u8]) -> Result<(), String> {
    match way {
        Way::ToProcedure => client.put(data),
        Way::FromProcedure => client.get(data),
    }
    .map_err(words)
}

/// The times of one small item there and back.
pub(super) fn there_and_back(client: &PipedClient, slice: Duration) -> Result<Samples, String> {
    let (call, there, mut back) = client.echo();
    let item = [0x5a; SMALL];
    let samples = timed(slice, || {
        there.send(&item).map_err(words)?;
        let item = back.recv_with(|item| _ = black_box(item)).map_err(words)?;
        item.ok_or_else(|| "the pipe has ended".into())
    })?;
    there.finish();
    call.wait().map_err(words).map(|()| samples)
}

/// The times of Null().
pub(super) fn null(client: &PipedClient, slice: Duration) -> Result<Samples, String> {
    timed(slice, || client.null().map_err(words))
}

fn timed(slice: Duration, mut once: impl FnMut() -> Result<(), String>) -> Result<Samples, String> {
    let (mut rate, mut times, mut before) = (Rate::over(slice), Vec::new(), Instant::now());
    while rate.goes_on(0) {
        once()?;
        let after = Instant::now();
        if rate.counted_from.is_some() {
            times.push((after - before).as_nanos() as u64 * 1000);
        }
        before = after;
    }
    Ok(Samples::new(times))
}

/// The times of Null() while another thread of the same client sends or receives all the time: 64 KiB items, or calls.
pub(super) fn null_beside(
    client: &PipedClient,
    way: Way,
    by_items: Option<usize>,
    slice: Duration,
) -> Result<Samples, String> {
    let ends = AtomicBool::new(false);
    let saturate = || {
        let goes_on = || !ends.load(Ordering::Relaxed);
        match by_items {
            Some(len) => {
                while goes_on() {
                    items(client, way, len, 10 * WARM_UP)?;
                }
            }
            None => {
                let mut data = vec![0x5a; CALL];
                while goes_on() {
                    call(client, way, &mut data)?;
                }
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let saturating = scope.spawn(saturate);
        let samples = null(client, slice);
        ends.store(true, Ordering::Relaxed);
        let saturated: Result<(), String> = saturating.join().map_err(|_| "the other thread panicked")?;
        saturated.and(samples)
    })
}
