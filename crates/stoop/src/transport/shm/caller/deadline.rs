//! Deadlines of calls that begin by the coarse clock.

use crate::context::{begin_cheaply, time_left_at_begin};
use crate::error::{CallError, SendError};

/// The deadline of a call that began by the coarse clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    /// The deadline is not later; the server takes it to be this.
    pub(crate) latest_ns: u64,
    timeout_ns: u64,
}

impl Deadline {
    /// A deadline that is known exactly.
    pub(crate) fn exact(deadline_ns: u64) -> Self {
        Self { latest_ns: deadline_ns, timeout_ns: u64::MAX }
    }

    /// The deadline of a call that [began cheaply](begin_cheaply).
    #[inline]
    pub(crate) fn of(begun_ns: u64, latest_ns: u64) -> Self {
        Self { latest_ns, timeout_ns: time_left_at_begin(begun_ns, latest_ns).unwrap_or(u64::MAX) }
    }

    /// This deadline, or `until_ns` if that is earlier.
    pub(crate) fn until(self, until_ns: u64) -> Self {
        Self { latest_ns: self.latest_ns.min(until_ns), ..self }
    }

    /// The deadline as far as it is known when the precise clock shows `clock_ns`, at the beginning of the wait: never too early. The
    /// clock is read then anyway, while the call is on its way.
    #[inline]
    pub(crate) fn at(self, clock_ns: u64) -> u64 {
        clock_ns.saturating_add(self.timeout_ns).min(self.latest_ns)
    }
}

/// When a call begins, and its deadline.
///
/// # Errors
/// The deadline that it inherits has passed.
#[inline]
pub(crate) fn begin(timeout_ns: u64) -> Result<(u64, Deadline), CallError> {
    let Some((begun_ns, latest_ns)) = begin_cheaply(timeout_ns) else {
        return Err(CallError::NotSent(SendError::DeadlinePassed));
    };
    Ok((begun_ns, Deadline { latest_ns, timeout_ns }))
}
