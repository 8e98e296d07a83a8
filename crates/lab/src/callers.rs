//! Caller threads, and the loop that times one call after another.

use crate::args::Silence;
use crate::effort::Effort;
use crate::samples::Samples;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// When a slice counts, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Calls that return before are warm-up.
    pub(crate) count_from: Instant,
    pub(crate) until: Instant,
    /// Calls of one caller after which the slice ends too.
    pub(crate) calls_max: u64,
    /// Before each call.
    pub(crate) silence: Option<Duration>,
}

impl Window {
    /// A slice that begins now, by one caller.
    pub(crate) fn of(effort: Effort) -> Self {
        let count_from = Instant::now() + effort.warm_up;
        let silence = effort.silence.map(Silence::duration);
        let calls_max = effort.calls.unwrap_or(u64::MAX);
        Self { count_from, until: count_from + effort.slice, calls_max, silence }
    }
}

/// The calls of one caller in one slice.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) samples: Samples,
    pub(crate) calls: u64,
    /// The counted part of the slice.
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

impl Measured {
    /// The rate of this caller in the counted part of its slice.
    pub(crate) fn calls_per_second(&self) -> f64 {
        self.calls as f64 / (self.ended - self.began).as_secs_f64().max(1e-9)
    }
}

/// One way to call: a loop over it is compiled for each implementation, so that nothing stands between the clock and the call.
pub(crate) trait Calls: Send {
    /// Calls until the window closes.
    fn run(&mut self, window: Window) -> Result<Measured, String>;
}

/// Calls `call` until the window closes, and times it in batches of `batch` calls.
///
/// One reading of the clock ends a batch and begins the next, so that each sample contains one reading (some 25 ns), ours and
/// the floor's alike.
#[inline(always)]
pub(crate) fn call_repeatedly(
    window: Window,
    batch: u64,
    mut call: impl FnMut() -> Result<(), String>,
) -> Result<Measured, String> {
    if let Some(silence) = window.silence {
        return call_after_silence(window, silence, call);
    }
    let mut picoseconds = Vec::with_capacity(SAMPLES_EXPECTED);
    let mut before = Instant::now();
    while before < window.count_from {
        call_batch(batch, &mut call)?;
        before = Instant::now();
    }
    let (began, mut calls) = (before, 0);
    loop {
        call_batch(batch, &mut call)?;
        let after = Instant::now();
        picoseconds.push((after - before).as_nanos() as u64 * 1000 / batch);
        calls += batch;
        before = after;
        if after >= window.until || calls >= window.calls_max {
            break;
        }
    }
    Ok(Measured { samples: Samples::new(picoseconds), calls, began, ended: before })
}

/// Calls `call` until the window closes, after so much silence each time, and times it alone.
fn call_after_silence(
    window: Window,
    silence: Duration,
    mut call: impl FnMut() -> Result<(), String>,
) -> Result<Measured, String> {
    let mut picoseconds = Vec::new();
    let mut now = Instant::now();
    let mut began = now;
    while now < window.until && (picoseconds.len() as u64) < window.calls_max {
        thread::sleep(silence);
        let before = Instant::now();
        call()?;
        now = Instant::now();
        if before < window.count_from {
            began = now;
        } else {
            picoseconds.push((now - before).as_nanos() as u64 * 1000);
        }
    }
    let calls = picoseconds.len() as u64;
    Ok(Measured { samples: Samples::new(picoseconds), calls, began, ended: now })
}

/// A way to have many outstanding calls at a time.
pub(crate) trait InFlight {
    /// Begins `calls` more.
    fn begin(&mut self, calls: usize) -> Result<(), String>;
    /// Waits until at least one outstanding call has ended, and returns how many have.
    fn take(&mut self) -> Result<usize, String>;
}

/// Keeps `in_flight` calls outstanding until the window closes, and then takes the rest.
///
/// A round waits for one, takes all that are there, and begins as many anew. It gives one sample: how long ago the oldest of
/// those that it took was begun.
#[inline(always)]
pub(crate) fn keep_in_flight(
    window: Window,
    in_flight: usize,
    calls: &mut impl InFlight,
) -> Result<Measured, String> {
    let mut picoseconds = Vec::with_capacity(SAMPLES_EXPECTED);
    let mut ages = Ages::default();
    let mut now = Instant::now();
    calls.begin(in_flight)?;
    ages.begun(in_flight, now);
    let (mut began, mut taken) = (now, 0);
    while now < window.until && taken < window.calls_max {
        let round = calls.take()?;
        now = Instant::now();
        let oldest = ages.taken(round);
        if now < window.count_from {
            began = now;
        } else {
            picoseconds.push((now - oldest).as_nanos() as u64 * 1000);
            taken += round as u64;
        }
        calls.begin(round)?;
        ages.begun(round, now);
    }
    let ended = now;
    let mut left = in_flight;
    while left > 0 {
        left -= calls.take()?;
    }
    Ok(Measured { samples: Samples::new(picoseconds), calls: taken, began, ended })
}

/// When the outstanding calls were begun, oldest first; calls begun together share an entry.
#[derive(Debug, Default)]
struct Ages(VecDeque<(usize, Instant)>);

impl Ages {
    #[inline(always)]
    fn begun(&mut self, calls: usize, now: Instant) {
        self.0.push_back((calls, now));
    }

    /// When the oldest of `calls` was begun.
    #[inline(always)]
    fn taken(&mut self, mut calls: usize) -> Instant {
        let oldest = self.0.front().expect("only outstanding calls are taken").1;
        while calls > 0 {
            let first = self.0.front_mut().expect("only outstanding calls are taken");
            let of_first = calls.min(first.0);
            first.0 -= of_first;
            calls -= of_first;
            if first.0 == 0 {
                self.0.pop_front();
            }
        }
        oldest
    }
}

#[inline(always)]
fn call_batch(batch: u64, call: &mut impl FnMut() -> Result<(), String>) -> Result<(), String> {
    for _ in 0..batch {
        call()?;
    }
    Ok(())
}

/// Calls of a batch where a call takes nanoseconds, so that reading the clock is nothing beside it.
pub(crate) const LOCAL_BATCH: u64 = 1000;

/// Room for a slice of 45 ms at 3 µs a call: the vector grows in no usual slice.
const SAMPLES_EXPECTED: usize = 16 * 1024;

/// Threads that live as long as one server does, so that each keeps its lane.
#[derive(Debug)]
pub(crate) struct Callers {
    orders: Vec<Sender<Order>>,
    done: Receiver<Done>,
    report: Sender<Done>,
}

/// The task of a caller thread.
enum Order {
    Call(Box<dyn Calls>, Window),
    Do(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order")
    }
}

#[derive(Debug)]
struct Done {
    caller: usize,
    calls: Box<dyn Calls>,
    counters: Result<Measured, String>,
}

impl std::fmt::Debug for dyn Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

/// A slice that has not ended this long after its time is given up.
const OVERDUE_AFTER: Duration = Duration::from_secs(10);

impl Callers {
    pub(crate) fn new() -> Self {
        let (report, done) = channel();
        Callers { orders: Vec::new(), done, report }
    }

    /// Lets one thread for each of `calls` run it through the window, all at once.
    pub(crate) fn run(
        &mut self,
        calls: &mut Vec<Box<dyn Calls>>,
        effort: Effort,
        calls_max: u64,
    ) -> Result<Vec<Measured>, String> {
        self.grow_to(calls.len());
        let window = Window { calls_max, ..Window::of(effort) };
        let number = calls.len();
        for (orders, calls) in self.orders.iter().zip(calls.drain(..)) {
            orders.send(Order::Call(calls, window)).map_err(|_| "a caller thread ended early".to_owned())?;
        }
        self.collect(number, window, calls)
    }

    /// Lets the first caller thread do `job`, and waits for its outcome. A thread that has called keeps its lane: bindings
    /// are made by this one, so that no lane but those of the callers has what a transport has only one of.
    pub(crate) fn on_first<T: Send + 'static>(
        &mut self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        self.grow_to(1);
        let (outcome, received) = channel();
        let job = move || drop(outcome.send(job()));
        let ended = "a caller thread ended early";
        self.orders[0].send(Order::Do(Box::new(job))).map_err(|_| ended)?;
        Ok(received.recv().map_err(|_| ended)?)
    }

    fn collect(
        &mut self,
        number: usize,
        window: Window,
        calls: &mut Vec<Box<dyn Calls>>,
    ) -> Result<Vec<Measured>, String> {
        let mut done = Vec::with_capacity(number);
        while done.len() < number {
            let left = (window.until + OVERDUE_AFTER).saturating_duration_since(Instant::now());
            done.push(
                self.done
                    .recv_timeout(left)
                    .map_err(|_| "a call has neither returned nor failed".to_owned())?,
            );
        }
        done.sort_by_key(|done| done.caller);
        let mut measured = Vec::with_capacity(number);
        for Done { calls: returned, counters, .. } in done {
            calls.push(returned);
            measured.push(counters);
        }
        measured.into_iter().collect()
    }

    fn grow_to(&mut self, number: usize) {
        while self.orders.len() < number {
            let (orders, received) = channel();
            let (caller, report) = (self.orders.len(), self.report.clone());
            thread::spawn(move || call_on_order(caller, &received, &report));
            self.orders.push(orders);
        }
    }
}

/// The life of a caller thread: ends when the orders do.
fn call_on_order(caller: usize, orders: &Receiver<Order>, report: &Sender<Done>) {
    for order in orders {
        let (mut calls, window) = match order {
            Order::Call(calls, window) => (calls, window),
            Order::Do(job) => {
                job();
                continue;
            }
        };
        let counters = calls.run(window);
        if report.send(Done { caller, calls, counters }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts calls; fails at the call given.
    struct Counting {
        calls: u64,
        fails_at: Option<u64>,
    }

    impl Calls for Counting {
        fn run(&mut self, window: Window) -> Result<Measured, String> {
            call_repeatedly(window, 10, || {
                self.calls += 1;
                if Some(self.calls) == self.fails_at { Err("asked to fail".into()) } else { Ok(()) }
            })
        }
    }

    const AN_HOUR: Duration = Duration::from_secs(3600);
    const LONG: Effort =
        Effort { pairs: 1, slice: AN_HOUR, warm_up: Duration::ZERO, calls: None, silence: None };

    #[test]
    fn a_slice_ends_after_the_calls_asked_for() {
        let mut calls: Vec<Box<dyn Calls>> = (0..3).map(|_| counting(None)).collect();
        let measured = Callers::new().run(&mut calls, LONG, 25).expect("no call fails");
        assert_eq!(measured.iter().map(|counters| counters.calls).collect::<Vec<_>>(), [30, 30, 30]);
        assert_eq!(calls.len(), 3, "each way to call comes back for the next slice");
    }

    #[test]
    fn a_job_is_done_by_the_thread_of_the_first_caller() {
        struct Whose(Option<thread::ThreadId>);
        impl Calls for Whose {
            fn run(&mut self, window: Window) -> Result<Measured, String> {
                assert_eq!(self.0, Some(thread::current().id()));
                call_repeatedly(window, 1, || Ok(()))
            }
        }
        let mut callers = Callers::new();
        let first = callers.on_first(|| thread::current().id()).expect("it lives");
        let measured = callers.run(&mut vec![Box::new(Whose(Some(first)))], LONG, 1);
        assert_eq!(measured.expect("it was the same thread").len(), 1);
    }

    #[test]
    fn a_failing_call_ends_the_slice_with_its_reason() {
        let mut calls = vec![counting(None), counting(Some(7))];
        let error = Callers::new().run(&mut calls, LONG, 25).expect_err("one caller fails");
        assert_eq!(error, "asked to fail");
    }

    /// Ends three calls at a time.
    #[derive(Default)]
    struct ByThrees {
        in_flight: usize,
        begun: usize,
    }

    impl InFlight for ByThrees {
        fn begin(&mut self, calls: usize) -> Result<(), String> {
            self.in_flight += calls;
            self.begun += calls;
            assert!(self.in_flight <= 8, "{} in flight", self.in_flight);
            Ok(())
        }

        fn take(&mut self) -> Result<usize, String> {
            let taken = self.in_flight.min(3);
            self.in_flight -= taken;
            Ok(taken)
        }
    }

    #[test]
    fn the_number_of_outstanding_calls_is_as_asked_for_and_zero_at_the_end() {
        let now = Instant::now();
        let window = Window { count_from: now, until: now + AN_HOUR, calls_max: 100, silence: None };
        let mut calls = ByThrees::default();
        let counters = keep_in_flight(window, 8, &mut calls).expect("no call fails");
        assert_eq!((counters.calls, calls.in_flight, calls.begun), (102, 0, 102 + 8));
    }

    #[test]
    fn the_age_of_several_taken_calls_is_that_of_the_oldest() {
        let first = Instant::now();
        let later = first + Duration::from_secs(1);
        let mut ages = Ages::default();
        ages.begun(2, first);
        ages.begun(2, later);
        assert_eq!([ages.taken(1), ages.taken(2), ages.taken(1)], [first, first, later]);
    }

    fn counting(fails_at: Option<u64>) -> Box<dyn Calls> {
        Box::new(Counting { calls: 0, fails_at })
    }
}
