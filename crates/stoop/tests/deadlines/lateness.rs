//! Measures by the caller's clock how late unanswered calls end.

use crate::harness::lab::LabClient;
use crate::harness::runtime::block_on;
use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use stoop::CallError;

/// For calls that are answered.
const PATIENT: Duration = Duration::from_secs(60);

/// How a caller waits for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The calling thread makes a blocking call.
    Blocking,
    /// A thread begins a call and waits for its handle.
    Handle,
    /// A thread begins a call and awaits its handle as a future.
    Future,
    /// One thread begins all calls and waits for any of them.
    Any,
}

/// How much later than their deadlines calls ended, in nanoseconds, the smallest first. A call that ended too early has a
/// negative one.
pub(crate) struct Lateness(Vec<i64>);

impl Lateness {
    /// Makes calls with these timeouts at once, and measures how late those end that are not refused.
    pub(crate) fn measure(client: &LabClient, way: Way, timeouts: &[Duration]) -> Self {
        let mut late_ns = match way {
            Way::Any => wait_for_any(client, timeouts),
            _ => wait_in_threads(client, way, timeouts),
        };
        late_ns.sort_unstable();
        Self(late_ns)
    }

    /// How late threads wake up at once that sleep for these times.
    pub(crate) fn of_sleeps(times: &[Duration]) -> Self {
        let sleep = |time| {
            let begun = Instant::now();
            thread::sleep(time);
            late_ns(begun, time)
        };
        let mut late_ns: Vec<_> = thread::scope(|scope| {
            let sleeps: Vec<_> = times.iter().map(|&time| scope.spawn(move || sleep(time))).collect();
            sleeps.into_iter().map(|sleep| sleep.join().unwrap()).collect()
        });
        late_ns.sort_unstable();
        Self(late_ns)
    }

    /// No call may end before its deadline.
    pub(crate) fn assert_never_early(&self, what: impl fmt::Debug) {
        let first_ns = self.0.first().map_or(0, |first_ns| *first_ns);
        assert!(first_ns >= 0, "{what:?}: a call ended {} ns before its deadline", -first_ns);
    }

    /// A share of the calls, in hundredths, was no later than this: for ever if the server has refused all of them.
    pub(crate) fn percentile(&self, share: usize) -> Duration {
        let place = (self.0.len() * share).div_ceil(100).max(1) - 1;
        self.0.get(place).map_or(Duration::MAX, |late_ns| Duration::from_nanos((*late_ns).max(0) as u64))
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |late_ns: i64| late_ns as f64 / 1e6;
        let at = |share| self.percentile(share).as_secs_f64() * 1e3;
        let (first, last) = (self.0[0], self.0[self.0.len() - 1]);
        write!(f, "{:9.3} {:9.3} {:9.3} {:9.3}", ms(first), at(50), at(99), ms(last))
    }
}

/// How late a call is that was begun then.
fn late_ns(begun: Instant, timeout: Duration) -> i64 {
    begun.elapsed().as_nanos() as i64 - timeout.as_nanos() as i64
}

/// Whether an unanswered call was refused: on a busy machine it may wait for a worker until shortly before its deadline.
fn is_refused(ended: &Result<(), CallError>) -> bool {
    matches!(ended.as_ref().unwrap_err(), CallError::Refused(..))
}

/// A thread's first calls make what it needs for others: on a busy machine that takes longer than a deadline may be late.
fn warm_up(client: &LabClient) {
    let client = client.with_timeout(PATIENT);
    client.null().unwrap();
    client.begin().null().wait().unwrap();
}

fn wait_in_threads(client: &LabClient, way: Way, timeouts: &[Duration]) -> Vec<i64> {
    let start = &Barrier::new(timeouts.len());
    thread::scope(|scope| {
        let wait = |&timeout| {
            scope.spawn(move || {
                warm_up(client);
                let client = client.with_timeout(timeout);
                start.wait();
                let begun = Instant::now();
                let ended = match way {
                    Way::Blocking => client.wait(),
                    Way::Handle => client.begin().wait().wait(),
                    _ => block_on(client.begin().wait()),
                };
                let late_ns = late_ns(begun, timeout);
                (!is_refused(&ended)).then_some(late_ns)
            })
        };
        let waits: Vec<_> = timeouts.iter().map(wait).collect();
        waits.into_iter().filter_map(|wait| wait.join().unwrap()).collect()
    })
}

fn wait_for_any(client: &LabClient, timeouts: &[Duration]) -> Vec<i64> {
    warm_up(client);
    let (mut begun, mut pending): (Vec<_>, Vec<_>) = timeouts
        .iter()
        .map(|&timeout| ((Instant::now(), timeout), client.with_timeout(timeout).begin().wait()))
        .unzip();
    let mut late = Vec::new();
    while let Some(place) = stoop::wait_any(&mut pending) {
        let (begun, timeout) = begun.swap_remove(place);
        let late_ns = late_ns(begun, timeout);
        if !is_refused(&pending.swap_remove(place).wait()) {
            late.push(late_ns);
        }
    }
    late
}
