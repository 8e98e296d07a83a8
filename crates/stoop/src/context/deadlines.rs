//! When a call that this thread makes begins, and its deadline.

use crate::context::{ASKED, DEADLINE_NS, NONE, bounded_deadline};
use stoop_net::clock;

/// The bounds of the time of a call that leaves later: its timeout, and the deadline of the call that was served when it was begun.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeBounds {
    timeout_ns: u64,
    inherited_ns: u64,
}

impl TimeBounds {
    /// Those of a call that the calling thread begins now.
    #[inline]
    pub(crate) fn current(timeout_ns: u64) -> Self {
        // Nothing is inherited: there is no earlier deadline than never.
        Self { timeout_ns, inherited_ns: bounded_deadline(u64::MAX, 0) }
    }

    /// Whether a call could leave now.
    #[inline]
    pub(crate) fn has_time(self) -> bool {
        self.timeout_ns > 0 && (self.inherited_ns == u64::MAX || clock::now_ns() < self.inherited_ns)
    }

    /// The timeout, and the inherited deadline.
    #[inline]
    pub(crate) fn to_nanos(self) -> (u64, u64) {
        (self.timeout_ns, self.inherited_ns)
    }

    /// The inverse of [`to_nanos`](Self::to_nanos).
    #[inline]
    pub(crate) fn from_nanos((timeout_ns, inherited_ns): (u64, u64)) -> Self {
        Self { timeout_ns, inherited_ns }
    }

    /// The deadline of the call if it leaves at `now_ns`.
    #[inline]
    pub(crate) fn deadline_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.timeout_ns).min(self.inherited_ns)
    }
}

/// Calls with at least this timeout take their begin from the coarse clock: reading the precise one costs 15 ns more.
pub(super) const COARSE_ENOUGH_NS: u64 = 1_000_000_000;

/// Begin and deadline of a call, by the cheapest clock that is exact enough. The deadline is never earlier than by the precise
/// clock; with a timeout of a second or more it can be up to four kernel ticks later. `None`: the inherited deadline has passed.
#[inline(always)]
pub(crate) fn begin_cheaply(timeout_ns: u64) -> Option<(u64, u64)> {
    if timeout_ns < COARSE_ENOUGH_NS {
        return begin_precisely(timeout_ns);
    }
    let begun_ns = clock::coarse_now_ns();
    let deadline_ns = (begun_ns + clock::coarse_lag_ns()).saturating_add(timeout_ns);
    let inherited_ns = DEADLINE_NS.get();
    if inherited_ns < deadline_ns {
        begin_with_inherited(inherited_ns)
    } else {
        Some((begun_ns, deadline_ns))
    }
}

/// The time now, as the begin of a call with that timeout: by the coarse clock if that is exact enough, and then never earlier than by the
/// precise clock, and up to four kernel ticks later.
#[inline]
pub(crate) fn begun_latest_ns(timeout_ns: u64) -> u64 {
    match timeout_ns < COARSE_ENOUGH_NS || DEADLINE_NS.get() != NONE {
        true => clock::now_ns(),
        false => clock::coarse_now_ns() + clock::coarse_lag_ns(),
    }
}

#[inline(never)]
fn begin_precisely(timeout_ns: u64) -> Option<(u64, u64)> {
    let begun_ns = clock::now_ns();
    let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
    (begun_ns < deadline_ns).then_some((begun_ns, deadline_ns))
}

/// The inherited deadline is exact. The begin is moved back by the coarse clock's lag, so that callers can treat both kinds alike.
#[cold]
fn begin_with_inherited(deadline_ns: u64) -> Option<(u64, u64)> {
    ASKED.set(true);
    let now_ns = clock::now_ns();
    (now_ns < deadline_ns).then(|| (now_ns.saturating_sub(clock::coarse_lag_ns()), deadline_ns))
}

/// The earliest time that the deadline of a call may be, of which its caller has said that it is not later than `deadline_ns`. A call
/// that [began cheaply](begin_cheaply) may have an earlier one. It is recognised by the time left to it, also when it has waited for some
/// time.
pub(crate) fn earliest_deadline(deadline_ns: u64, now_ns: u64) -> u64 {
    match deadline_ns.saturating_sub(now_ns) >= COARSE_ENOUGH_NS / 2 {
        true => deadline_ns - clock::coarse_lag_ns(),
        false => deadline_ns,
    }
}
