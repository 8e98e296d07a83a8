//! The calls that still wait shortly before their deadlines.
//!
//! They came while nothing was known of their procedure, or while it took less time. Refused now, their callers learn that they have not run;
//! at the deadline the callers would stop waiting, and not know it.

use crate::serving::workers::queue::{CallQueue, Class, ClassKey, Waiting};
use std::collections::VecDeque;
use std::mem;
use stoop_exchange::shares::Owner;

/// A refusal leaves before the deadline by this part of the time that the call had, but at most by so much.
const EARLY_PART: u64 = 16;
const EARLY_MAX_NS: u64 = 20_000_000;

impl<C> Waiting<C> {
    /// When it is to be refused if it waits then.
    pub(super) fn overdue_ns(&self) -> u64 {
        let terms = &self.terms;
        let early_ns = (terms.deadline_ns.saturating_sub(self.since_ns) / EARLY_PART).min(EARLY_MAX_NS);
        terms.deadline_ns.saturating_sub(early_ns.max(terms.work_ns))
    }
}

impl<C> CallQueue<C> {
    /// Time until a waiting call may be overdue.
    pub(in crate::serving::workers) fn until_overdue_ns(&self, now_ns: u64) -> u64 {
        self.overdue_ns.saturating_sub(now_ns)
    }

    /// Takes out all calls that are to be refused now.
    pub(in crate::serving::workers) fn take_overdue(&mut self, now_ns: u64) -> Vec<C> {
        if now_ns < self.overdue_ns {
            return Vec::new();
        }
        self.overdue_ns = u64::MAX;
        let mut taken = Vec::new();
        for (key, owner, part) in self.places() {
            let class = self.classes.get_mut(&key).expect("it has calls");
            let (overdue, next_ns) = class.take_overdue(owner, part, now_ns);
            self.overdue_ns = self.overdue_ns.min(next_ns);
            for Waiting { call, terms, .. } in overdue {
                self.removed(key, &terms);
                taken.push(call);
            }
        }
        self.counters.overdue += taken.len() as u64;
        taken
    }

    /// Where calls wait.
    fn places(&self) -> Vec<(ClassKey, Owner, u64)> {
        let mut places = Vec::new();
        for (key, class) in &self.classes {
            for (owner, of_owner) in class.owners.iter() {
                places.extend(of_owner.parts.iter().map(|(part, _)| (*key, *owner, *part)));
            }
        }
        places
    }
}

impl<C> Class<C> {
    /// Takes out a binding's calls that are overdue. Returns also when the next of the others is, `u64::MAX` without others.
    fn take_overdue(&mut self, owner: Owner, part: u64, now_ns: u64) -> (VecDeque<Waiting<C>>, u64) {
        let of_owner = self.owners.entry(owner);
        let waiting = of_owner.parts.entry(part);
        let (overdue, others): (VecDeque<_>, VecDeque<_>) =
            mem::take(waiting).into_iter().partition(|waiting| waiting.overdue_ns() <= now_ns);
        let next_ns = others.iter().map(Waiting::overdue_ns).min().unwrap_or(u64::MAX);
        if others.is_empty() {
            of_owner.parts.remove(&part);
        } else {
            *waiting = others;
        }
        let work_ns: u64 = overdue.iter().map(|waiting| waiting.terms.work_ns).sum();
        of_owner.work_ns -= work_ns;
        if of_owner.parts.is_empty() {
            self.owners.remove(&owner);
        }
        self.work_ns -= work_ns;
        (overdue, next_ns)
    }
}
