//! A caller that takes little, and how it is served.

use crate::greedy::PlainClient;
use std::fmt;
use std::time::{Duration, Instant};
use stoop::{BindOptions, CallError};

/// Binds and calls, again and again.
pub(super) struct Victim {
    uri: String,
    rounds: u64,
    /// How fast it is served is judged, and not only whether it is.
    judges_times: bool,
}

/// Bindings that it makes for each line, unless told otherwise.
const ROUNDS: u64 = 10;
/// Calls of Null() over each of them.
const NULLS: u64 = 20;
const MIB: usize = 1 << 20;
/// Its patience: far above each bar, so that the worst time is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// The bars.
const NULL_MAX: Duration = Duration::from_millis(100);
const LONG_MAX: Duration = Duration::from_secs(1);

/// How it was served: the longest times, and the first thing that failed.
#[derive(Debug, Default)]
pub(super) struct Served {
    bind: Duration,
    null: Duration,
    nulls: u64,
    long: Duration,
    failures: u64,
    first_failure: Option<String>,
    /// The times are judged.
    judges_times: bool,
}

impl Served {
    /// Whether it misses a bar.
    pub(super) fn misses(&self) -> bool {
        let is_slow = self.null > NULL_MAX || self.long > LONG_MAX;
        self.failures > 0 || self.judges_times && is_slow
    }

    /// Its texts in the table: times in milliseconds, calls to Null(), failures, and a mark if it misses a bar.
    pub(super) fn texts(&self) -> [String; 6] {
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let mark = if self.misses() { "!" } else { "" };
        let nulls = format!("({})", self.nulls);
        [ms(self.bind), ms(self.null), nulls, ms(self.long), self.failures.to_string(), mark.into()]
    }

    pub(super) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    fn note<T>(&mut self, what: &str, outcome: Result<T, impl fmt::Display>) -> Option<T> {
        outcome
            .map_err(|why| {
                self.failures += 1;
                self.first_failure.get_or_insert_with(|| format!("{what}: {why}"));
            })
            .ok()
    }
}

impl Victim {
    pub(super) fn new(uri: &str, rounds: Option<u64>, judges_times: bool) -> Self {
        Self { uri: uri.into(), rounds: rounds.unwrap_or(ROUNDS), judges_times }
    }

    /// Binds, calls and unbinds so many times.
    pub(super) fn calls(&self) -> Served {
        let mut served = Served { judges_times: self.judges_times, ..Served::default() };
        for _ in 0..self.rounds {
            let begun = Instant::now();
            let options = BindOptions::new().bind_timeout(PATIENCE).timeout(PATIENCE);
            let bound = PlainClient::bind_with(&self.uri, &options);
            served.bind = served.bind.max(begun.elapsed());
            if let Some(client) = served.note("bind", bound) {
                call_all(&client, &mut served);
            }
        }
        served
    }
}

fn call_all(client: &PlainClient, served: &mut Served) {
    for _ in 0..NULLS {
        let (outcome, took) = timed(|| client.null());
        served.note("Null()", outcome);
        served.nulls += 1;
        served.null = served.null.max(took);
    }
    let bytes = vec![1; MIB];
    let (sum, took) = timed(|| client.sum(&bytes));
    served.long = served.long.max(took);
    served.note("1 MiB there", sum);
    let (made, took) = timed(|| client.make(MIB as u32));
    served.long = served.long.max(took);
    served.note("1 MiB back", made);
}

fn timed<T>(call: impl FnOnce() -> Result<T, CallError>) -> (Result<T, CallError>, Duration) {
    let begun = Instant::now();
    let outcome = call();
    (outcome, begun.elapsed())
}
