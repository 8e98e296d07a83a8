//! Slow calls, each with the part of it that was slow.

use crate::account::times::ProcedureTimes;
use crate::locked::locked;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use stoop_wire::is_mostly_queued;

/// The part of a call that took the most time more than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The server's queue: the call waited for a worker there for more than half of its time at the server.
    ServerQueue,
    /// The procedure, with its stub.
    Procedure,
    /// A packet was lost or late: the call was sent again, or the server was asked whether it has it.
    Retransmission,
    /// The result was there, and the calling thread was not: it slept, or waited for a processor. Known over TCP, to some milliseconds;
    /// and over UDP if [`AccountOptions::note_arrivals`](crate::account::AccountOptions::note_arrivals) says so.
    WakeUp,
    /// The way there and back: the network, the system calls, the wake-ups of threads at both ends.
    Way,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ServerQueue => "the server's queue",
            Self::Procedure => "the procedure",
            Self::Retransmission => "a lost packet",
            Self::WakeUp => "the wake-up of the calling thread",
            Self::Way => "the way there and back",
        })
    }
}

/// A call that took long.
///
/// ```
/// use stoop::account::{CallAccount, Part};
///
/// /// The slow calls that another part of the system has to explain.
/// fn of_server(account: &CallAccount) -> impl Iterator<Item = String> {
///     let slow = account.slow.iter().filter(|call| matches!(call.slow, Part::ServerQueue | Part::Procedure));
///     slow.map(|call| format!("{}: {:?} of {:?} at the server", call.procedure, call.server, call.whole))
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowCall {
    /// Its procedure.
    pub procedure: &'static str,
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub whole: Duration,
    /// Of that, its time at the server: from the arrival of the call to its result. `None` if the result does not tell.
    pub server: Option<Duration>,
    /// Of that, from the arrival of the result at this machine until the calling thread had it. Over TCP at least
    /// so much. `None` if the kernel does not tell when the result arrived.
    pub wake_up: Option<Duration>,
    /// Packets that were sent more than once, and questions for the call.
    pub repeated: u64,
    /// The calling thread slept while it waited; otherwise it spun.
    pub slept: bool,
    /// The part that was slow.
    pub slow: Part,
}

impl std::fmt::Display for SlowCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} took {:.1?}", self.procedure, self.whole)?;
        if let Some(server) = self.server {
            write!(f, ", of that {server:.1?} at the server")?;
        }
        if let Some(wake_up) = self.wake_up {
            write!(f, " and {wake_up:.1?} until this thread had the result")?;
        }
        write!(f, "; slow was {}", self.slow)
    }
}

/// The facts about a call that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) whole_ns: u64,
    pub(crate) server_ns: Option<u64>,
    pub(crate) wake_up_ns: Option<u64>,
    pub(crate) repeated: u64,
    pub(crate) slept: bool,
}

impl Facts {
    /// The part of the call that took the most time more than usual, where the median call of the procedure is usual.
    fn slow_part(&self, usual: &ProcedureTimes) -> Part {
        let median = |histogram: crate::account::Histogram| {
            histogram.quantile(0.5).map_or(0, |median| median.as_nanos() as u64)
        };
        let more_ns = self.whole_ns.saturating_sub(median(usual.whole.copy()));
        let server_ns = self.server_ns.map_or(0, |ns| ns.saturating_sub(median(usual.server.copy())));
        match () {
            () if server_ns > more_ns / 2 && is_mostly_queued(self.server_ns.unwrap_or(0)) => {
                Part::ServerQueue
            }
            () if server_ns > more_ns / 2 => Part::Procedure,
            // Measured; and a thread that was away may have sent its call again when it came back.
            () if self.wake_up_ns.is_some_and(|ns| ns > more_ns / 2) => Part::WakeUp,
            () if self.repeated > 0 => Part::Retransmission,
            () => Part::Way,
        }
    }

    /// The call as a slow one.
    #[cold]
    pub(crate) fn slow_call(&self, procedure: &'static str, usual: &ProcedureTimes) -> SlowCall {
        SlowCall {
            procedure,
            ended: SystemTime::now(),
            whole: Duration::from_nanos(self.whole_ns),
            server: self.server_ns.map(Duration::from_nanos),
            wake_up: self.wake_up_ns.map(Duration::from_nanos),
            repeated: self.repeated,
            slept: self.slept,
            slow: self.slow_part(usual),
        }
    }
}

/// The last few.
pub(crate) struct Last<T> {
    kept_max: usize,
    kept: Mutex<VecDeque<T>>,
}

impl<T: Clone> Last<T> {
    pub(crate) fn new(kept_max: usize) -> Self {
        Self { kept_max, kept: Mutex::default() }
    }

    #[cold]
    pub(crate) fn push(&self, one: T) {
        let mut kept = locked(&self.kept);
        kept.push_back(one);
        let surplus = kept.len().saturating_sub(self.kept_max);
        kept.drain(..surplus);
    }

    /// The oldest first.
    pub(crate) fn copy(&self) -> Vec<T> {
        locked(&self.kept).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::account::slow::*;

    #[test]
    fn the_part_that_took_more_than_usual_is_named() {
        let usual = ProcedureTimes::default();
        for _ in 0..100 {
            usual.add(1, 10_000, Some(1_000), true);
        }
        let facts = Facts { whole_ns: 1_010_000, server_ns: Some(2_000), ..Facts::default() };
        assert_eq!(facts.slow_part(&usual), Part::Way);
        assert_eq!(Facts { server_ns: Some(900_000), ..facts }.slow_part(&usual), Part::Procedure);
        assert_eq!(Facts { server_ns: Some(900_001), ..facts }.slow_part(&usual), Part::ServerQueue);
        assert_eq!(Facts { repeated: 1, ..facts }.slow_part(&usual), Part::Retransmission);
        assert_eq!(Facts { wake_up_ns: Some(900_000), ..facts }.slow_part(&usual), Part::WakeUp);
        assert_eq!(Facts { server_ns: None, ..facts }.slow_part(&usual), Part::Way);
    }

    #[test]
    fn only_the_last_slow_calls_are_kept() {
        let last = Last::new(3);
        (0..10).for_each(|number| last.push(number));
        assert_eq!(last.copy(), [7, 8, 9]);
        let none = Last::new(0);
        none.push(1);
        assert!(none.copy().is_empty());
    }
}
