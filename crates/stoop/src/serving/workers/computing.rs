//! Which procedures compute all the time, and how many of their calls run.
//!
//! A procedure that never waits gains nothing from more workers than processors: its calls share the processors, each takes longer, none ends
//! earlier, and it can no longer be said when a call will end. So while calls wait for a worker, only as many calls of such procedures
//! run at once as keep all processors busy. Whether a procedure waits is seen by how often its workers have slept.

use std::collections::BTreeMap;

/// The procedures of an endpoint that compute.
#[derive(Debug)]
pub(super) struct Computing {
    procedures: BTreeMap<u32, Seen>,
    running: usize,
    at_once: usize,
    /// More that may run, because none of those that run has ended for long: they may wait for something after all.
    extra: usize,
    /// Calls that have ended; and how many it were when an end was last noted, and when that was.
    ended: u64,
    noted: (u64, u64),
}

/// The record of a procedure's last calls: whether they slept.
#[derive(Debug, Default)]
struct Seen {
    /// Grows with each call that did not sleep, and falls more with each that did.
    score: u8,
    has_slept: bool,
}

/// Which kind of procedure a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its last calls have never slept.
    Computes,
    /// Some of its last calls have slept.
    Waits,
    /// Too few of its calls have ended.
    Unknown,
}

/// A procedure computes if its score is at least this.
const COMPUTES: u8 = 64;
const MOST: u8 = 128;
/// The amount by which a call that slept lowers the count. If one call in thirty sleeps, the procedure waits.
const SLEPT: u8 = 32;
/// Beside those that keep all processors busy: one that begins while another is being answered.
const READY: usize = 1;
/// For each such time without an end one more may run.
const STUCK_NS: u64 = 100_000_000;

impl Computing {
    /// Of a machine with so many processors.
    pub(super) fn new(processors: usize) -> Self {
        let (procedures, at_once) = (BTreeMap::new(), processors + READY);
        Self { procedures, running: 0, at_once, extra: 0, ended: 0, noted: (u64::MAX, 0) }
    }

    fn kind(&self, procedure: u32) -> Kind {
        match self.procedures.get(&procedure) {
            Some(Seen { score, .. }) if *score >= COMPUTES => Kind::Computes,
            Some(Seen { has_slept: true, .. }) => Kind::Waits,
            _ => Kind::Unknown,
        }
    }

    /// Whether the procedure's calls compute all the time.
    pub(super) fn computes(&self, procedure: u32) -> bool {
        self.kind(procedure) == Kind::Computes
    }

    /// Whether one more call that computes may begin.
    pub(super) fn has_room(&self) -> bool {
        self.running < self.at_once + self.extra
    }

    /// A call of the procedure begins. It is counted among those that compute, if that is the kind that is returned.
    pub(super) fn begin(&mut self, procedure: u32) -> Kind {
        let kind = self.kind(procedure);
        self.running += usize::from(kind == Kind::Computes);
        kind
    }

    /// A call of the procedure has ended that [`begin`](Self::begin) found to be of this kind, and its worker has `slept` meanwhile;
    /// `None` if that is not known.
    pub(super) fn end(&mut self, procedure: u32, kind: Kind, slept: Option<bool>) {
        let was_counted = kind == Kind::Computes;
        self.running -= usize::from(was_counted);
        self.ended += u64::from(was_counted);
        let Some(slept) = slept else { return };
        let Seen { score, has_slept } = self.procedures.entry(procedure).or_default();
        *score = if slept { score.saturating_sub(SLEPT) } else { (*score + 1).min(MOST) };
        *has_slept |= slept;
    }

    /// Looks, now and then while calls wait, whether those that compute end.
    pub(super) fn look(&mut self, now_ns: u64) {
        if self.noted.0 != self.ended || self.running == 0 {
            (self.noted, self.extra) = ((self.ended, now_ns), 0);
        } else if now_ns.saturating_sub(self.noted.1) >= STUCK_NS {
            self.extra += 1;
            self.noted.1 = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_score(score: u8) -> Computing {
        let mut computing = Computing::new(2);
        (0..score).for_each(|_| computing.end(7, Kind::Unknown, Some(false)));
        computing
    }

    #[test]
    fn a_procedure_computes_after_many_calls_that_did_not_sleep() {
        assert!(!with_score(COMPUTES - 1).computes(7));
        let mut computing = with_score(COMPUTES);
        assert!(computing.computes(7) && !computing.computes(8));
        computing.end(7, Kind::Unknown, None);
        assert!(computing.computes(7));
        computing.end(7, Kind::Unknown, Some(true));
        assert!(!computing.computes(7));
    }

    #[test]
    fn a_procedure_of_which_one_call_in_twenty_sleeps_does_not_compute() {
        let mut computing = with_score(0);
        for call in 0..10_000 {
            computing.end(7, Kind::Unknown, Some(call % 20 == 0));
            assert!(!computing.computes(7), "after {call} calls");
        }
    }

    #[test]
    fn a_procedure_waits_once_a_call_has_slept_until_many_have_not() {
        let mut computing = with_score(3);
        assert_eq!(computing.kind(7), Kind::Unknown);
        computing.end(7, Kind::Unknown, Some(true));
        assert_eq!(computing.kind(7), Kind::Waits);
        (0..COMPUTES).for_each(|_| computing.end(7, Kind::Waits, Some(false)));
        assert_eq!(computing.kind(7), Kind::Computes);
    }

    #[test]
    fn there_is_room_for_one_call_more_than_processors() {
        let mut computing = with_score(MOST);
        for _ in 0..3 {
            assert!(computing.has_room() && computing.begin(7) == Kind::Computes);
        }
        assert!(!computing.has_room());
        assert_eq!(computing.begin(8), Kind::Unknown, "another procedure is not counted");
        computing.end(7, Kind::Computes, Some(false));
        assert!(computing.has_room());
    }

    #[test]
    fn calls_that_do_not_end_make_room_for_more() {
        let mut computing = with_score(MOST);
        (0..3).for_each(|_| assert_eq!(computing.begin(7), Kind::Computes));
        computing.look(1);
        computing.look(STUCK_NS);
        assert!(!computing.has_room());
        computing.look(STUCK_NS + 1);
        assert!(computing.has_room() && computing.begin(7) == Kind::Computes && !computing.has_room());
        computing.look(2 * STUCK_NS + 1);
        assert!(computing.has_room());
        computing.end(7, Kind::Computes, Some(true));
        computing.look(2 * STUCK_NS + 2);
        assert!(!computing.has_room(), "three run, and one has ended");
    }
}
