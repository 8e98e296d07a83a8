//! Callers of a server: in an open loop, which begins calls at a fixed rate, and in a closed loop, which begins one for each that ends.

use crate::overload::serve::now_ns;
use crate::overload::{DEADLINE, WorkBegin, WorkClient};
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use stoop::{CallError, Pending};

/// Outcomes of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcomes {
    pub(super) begun: u64,
    pub(super) good: u64,
    pub(super) refused: u64,
    /// Failures: the procedure ran in vain.
    pub(super) failed: u64,
    /// Nothing was heard by the deadline.
    pub(super) unknown: u64,
    pub(super) not_sent: u64,
}

impl Sub for Outcomes {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            begun: self.begun - before.begun,
            good: self.good - before.good,
            refused: self.refused - before.refused,
            failed: self.failed - before.failed,
            unknown: self.unknown - before.unknown,
            not_sent: self.not_sent - before.not_sent,
        }
    }
}

/// Counts outcomes of calls of several threads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    begun: AtomicU64,
    good: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    unknown: AtomicU64,
    not_sent: AtomicU64,
}

impl Tally {
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, outcome: &Result<(), CallError>) {
        let count = match outcome {
            Ok(()) => &self.good,
            Err(CallError::Refused(..)) => &self.refused,
            Err(CallError::Failed(..)) => &self.failed,
            Err(CallError::NotSent(..)) => &self.not_sent,
            Err(_) => &self.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Outcomes {
            begun: get(&self.begun),
            good: get(&self.good),
            refused: get(&self.refused),
            failed: get(&self.failed),
            unknown: get(&self.unknown),
            not_sent: get(&self.not_sent),
        }
    }
}

/// How calls are begun by one thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// So many a second, no matter how the earlier ones end.
    Open(f64),
    /// So many outstanding: the thread begins another for each that has ended.
    Closed(usize),
}

/// Time between two looks at the calls that are outstanding.
const LOOK: Duration = Duration::from_millis(2);

/// Callers in threads of their own, until they are [stopped](Self::stop).
pub(super) struct Callers {
    pub(super) tally: Arc<Tally>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Callers {
    pub(super) fn new() -> Self {
        Self { tally: Arc::default(), stopping: Arc::default(), threads: Vec::new() }
    }

    /// One more thread, which has many calls outstanding.
    pub(super) fn begin_calls(&mut self, client: &WorkClient, pattern: Pattern) {
        let mut stream =
            Stream { client: client.clone(), tally: Arc::clone(&self.tally), pending: Vec::new() };
        let stopping = Arc::clone(&self.stopping);
        self.threads.push(thread::spawn(move || stream.run(pattern, &stopping)));
    }

    /// Threads that make one call after the other.
    pub(super) fn call(&mut self, client: &WorkClient, threads: usize) {
        for _ in 0..threads {
            let (client, tally) = (client.clone(), Arc::clone(&self.tally));
            let stopping = Arc::clone(&self.stopping);
            self.threads.push(thread::spawn(move || {
                while !stopping.load(Ordering::Relaxed) {
                    tally.begin();
                    tally.count(&client.work(deadline_ns()));
                }
            }));
        }
    }

    /// Begins no more calls. Those that are outstanding go on.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Waits until no call is outstanding.
    pub(super) fn join(self) {
        self.stop();
        for thread in self.threads {
            thread.join().expect("a caller thread does not panic");
        }
    }
}

fn deadline_ns() -> u64 {
    now_ns() + DEADLINE.as_nanos() as u64
}

/// The begun calls of a thread.
struct Stream {
    client: WorkClient,
    tally: Arc<Tally>,
    pending: Vec<Pending<Result<(), CallError>>>,
}

impl Stream {
    fn run(&mut self, pattern: Pattern, stopping: &AtomicBool) {
        let (started, mut begun) = (Instant::now(), 0);
        while !stopping.load(Ordering::Relaxed) {
            let due = match pattern {
                Pattern::Open(rate) => (started.elapsed().as_secs_f64() * rate) as usize - begun,
                Pattern::Closed(most) => most - self.pending.len(),
            };
            begun += due;
            self.begin(due);
            thread::sleep(LOOK);
            self.take_ended();
        }
        while !self.pending.is_empty() {
            thread::sleep(LOOK);
            self.take_ended();
        }
    }

    fn begin(&mut self, calls: usize) {
        let together: WorkBegin<'_> = self.client.begin();
        for _ in 0..calls {
            self.tally.begin();
            self.pending.push(together.work(deadline_ns()));
        }
    }

    fn take_ended(&mut self) {
        let ended = self.pending.extract_if(.., |pending| pending.is_ready());
        ended.for_each(|pending| self.tally.count(&pending.wait()));
    }
}
