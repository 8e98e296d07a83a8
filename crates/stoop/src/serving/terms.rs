//! The terms of a call: the facts by which the worker pool gives it a worker, lets it wait, or refuses it.

use crate::context::cancelled::CallId;
use stoop_exchange::shares::Owner;

/// The facts that matter while a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTerms {
    /// The host or user that calls.
    pub(crate) owner: Owner,
    /// Its binding.
    pub(crate) part: u64,
    /// The name by which a cancel refers to it.
    pub(crate) call: CallId,
    /// When its caller stops waiting, in nanoseconds of the clock.
    pub(crate) deadline_ns: u64,
    /// How long its procedure takes on average.
    pub(crate) work_ns: u64,
    pub(crate) priority: Priority,
    /// A number of the procedure; `None`: it is not told from others.
    pub(crate) procedure: Option<u32>,
    /// How many calls of the procedure may run at once, if that is limited.
    pub(crate) limit: Option<u32>,
}

/// A worker passes the receive role on before it runs a procedure that takes longer. That wakes another thread, which
/// costs tens of microseconds.
pub(crate) const LONG_NANOS: u64 = 200_000;

/// A worker that receives is behind if calls wait that it could not begin within this time.
const BEHIND_NANOS: u64 = 10_000_000;

/// Whether so much time has passed since nothing was there to receive that a worker looks how many calls wait.
#[inline]
pub(crate) fn may_be_behind(now_ns: u64, drained_ns: u64) -> bool {
    now_ns.saturating_sub(drained_ns) > BEHIND_NANOS
}

/// The longest time for which a call is taken to have waited in the kernel before it was received.
const UNSEEN_NANOS: u64 = 500_000_000;

/// When calls came at the earliest that have been received now, if nothing was there when a thread last looked.
pub(crate) fn earliest_arrival(now_ns: u64, drained_ns: u64) -> u64 {
    drained_ns.clamp(now_ns.saturating_sub(UNSEEN_NANOS), now_ns)
}

impl CallTerms {
    /// Its owner, its name and its deadline.
    pub(crate) fn identity(&self) -> (Owner, CallId, u64) {
        (self.owner, self.call, self.deadline_ns)
    }

    /// Whether its procedure takes so long that another worker should receive meanwhile.
    pub(crate) fn is_long(&self) -> bool {
        self.work_ns > LONG_NANOS
    }

    /// Whether a worker could not begin so many calls like this one soon enough.
    pub(crate) fn is_behind(&self, waiting: usize) -> bool {
        self.work_ns.saturating_mul(waiting as u64) > BEHIND_NANOS
    }
}

/// Which calls run first while calls wait for a worker; see [`ProcedureOptions::priority`](crate::ProcedureOptions::priority).
///
/// ```
/// use stoop::{Priority, ProcedureOptions};
///
/// let urgent = ProcedureOptions::new().priority(Priority::High);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// Before the others.
    High,
    /// That of a procedure of which nothing is said.
    #[default]
    Normal,
    /// When no other call waits.
    Low,
}
