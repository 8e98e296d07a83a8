//! The cost of a refusal at the server, beside a Null(): measured while the queue is full.

use crate::overload::phase::Phases;
use crate::overload::{WorkBegin, WorkClient};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};
use stoop::{BindOptions, CallError, Pending, Retry};

/// Slices of each kind, in turn, and the calls of each; and of a short form.
const SLICES: usize = 9;
const CALLS: usize = 2048;
const SHORT_SLICES: usize = 3;
const SHORT_CALLS: usize = 128;
/// Calls that are begun together.
const TOGETHER: usize = 64;
/// The call that occupies the procedure, and those that wait for it, end when their handles are dropped; longer than
/// the slices take.
const OCCUPIED: Duration = Duration::from_secs(600);
/// The queue is full within this time.
const FILLED: Duration = Duration::from_secs(10);

/// More than the queue and the workers take.
const OCCUPANTS_MAX: usize = 8192;

/// Within this time a refusal has come as a rule.
const ANSWERED: Duration = Duration::from_millis(2);

/// Processor time at the server of a call, in several slices.
pub(super) struct Costs(Vec<f64>);

impl Costs {
    fn median_ns(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[self.0.len() / 2]
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |fold: fn(f64, f64) -> f64, start| self.0.iter().copied().fold(start, fold) / 1e3;
        write!(f, "{:.1} to {:.1}", of(f64::min, f64::INFINITY), of(f64::max, 0.0))
    }
}

impl Phases<'_> {
    /// Measures and prints what Null()s and refusals cost the server: one after the other, and many at a time.
    pub(super) fn refusals(&mut self, uri: &str) -> Result<(), String> {
        let options = BindOptions::new().timeout(OCCUPIED * 2).retry(Retry::never());
        let bind = || WorkClient::bind_with(uri, &options).map_err(|error| error.to_string());
        // One binding alone has as many lanes as the queue has places, and some of its calls run.
        let (client, other) = (bind()?, bind()?);
        let (slices, count) = self.sizes();
        let (begun, mut occupants) = (Instant::now(), Vec::<Pending<_>>::new());
        // Until the queue has no place for one more.
        while !occupants.last().is_some_and(Pending::is_ready) {
            if begun.elapsed() > FILLED {
                return Err(format!("{} calls do not fill the server's queue", occupants.len()));
            }
            // More would only wait at their caller.
            let goes_on = occupants.len() < OCCUPANTS_MAX;
            for client in [&other, &client].into_iter().filter(|_| goes_on) {
                let begin: WorkBegin<'_> = client.begin();
                occupants.extend((0..TOGETHER).map(|_| begin.nap(OCCUPIED.as_millis() as u64)));
            }
            thread::sleep(ANSWERED);
        }
        self.progress.print(&format!("\nprocessor time at the server, median and range of {slices} slices"));
        self.progress.show("the cost of refusals");
        let one_by_one = |nulls: bool| {
            for _ in 0..count {
                let _ = if nulls { client.null() } else { client.nap(0) };
            }
        };
        self.compare("one after the other", one_by_one)?;
        let together = |nulls: bool| {
            for _ in 0..count / TOGETHER {
                let begin: WorkBegin<'_> = client.begin();
                let call = |_| if nulls { begin.null() } else { begin.nap(0) };
                let calls: Vec<Pending<Result<(), CallError>>> = (0..TOGETHER).map(call).collect();
                drop(begin);
                calls.into_iter().for_each(|call| drop(call.wait()));
            }
        };
        self.compare(&format!("{TOGETHER} at a time"), together)?;
        drop(occupants);
        Ok(())
    }

    /// The number of slices of each kind, and of the calls of each slice.
    fn sizes(&self) -> (usize, usize) {
        if self.is_short { (SHORT_SLICES, SHORT_CALLS) } else { (SLICES, CALLS) }
    }

    /// Compares the two kinds of calls, of which `calls` makes as many as a slice has: Null()s if its argument says so.
    fn compare(&mut self, how: &str, calls: impl Fn(bool)) -> Result<(), String> {
        let (mut nulls, mut refusals, mut served) = (Costs(Vec::new()), Costs(Vec::new()), 0);
        let (slices, count) = self.sizes();
        for slice in 0..2 * slices {
            let is_null = slice % 2 == 0;
            let before = self.stats()?;
            calls(is_null);
            let since = self.stats()?.since(&before);
            if is_null {
                nulls.0.push(since.cpu_ns as f64 / count as f64);
            } else {
                refusals.0.push(since.cpu_ns as f64 / since.refused.max(1) as f64);
                served += count as u64 - since.refused.min(count as u64);
            }
        }
        let (null_ns, refusal_ns) = (nulls.median_ns(), refusals.median_ns());
        self.progress.print(&format!(
            "{how:20} Null() {:.1} µs ({nulls}), refusal {:.1} µs ({refusals}){}",
            null_ns / 1e3,
            refusal_ns / 1e3,
            if served == 0 { String::new() } else { format!("; {served} calls were not refused") },
        ));
        Ok(())
    }
}
