//! The calls that wait for a worker: which of them runs next, and which are refused because too many wait or their time is over.
//!
//! **Order.** Calls of a higher [priority](Priority) first. Among equals owners take turns (hosts of a network, users of this machine), and
//! among the calls of an owner its bindings. A call is passed over while its owner or binding has its [share](super::shares) of the
//! workers, while as many calls of its procedure run as may, or while calls that [compute](super::computing) keep all processors busy and
//! it computes, too.
//!
//! **Time.** Nothing is predicted of a call that comes: it waits if there is a place. A worker takes the oldest call of which less than
//! half of the time is over and enough is left for its procedure. The others are [doubtful](Waiting::is_doubtful): they are taken when no
//! other call could run, the newest first, because it has the most time left (adaptive LIFO: Maurer, *Fail at Scale*, ACM Queue 13(8), 2015).
//! So under overload calls that run have time enough, a worker that is free refuses no call, and a mean time that is wrong only
//! changes the order. A call that [still waits shortly before its deadline](Waiting::overdue_ns) is refused then, so that its caller learns that it
//! has not run, and one that was cancelled leaves within a millisecond.
//!
//! **Length.** The queue has a greatest length, too. When it is full, a call of an owner with less than its fair share takes the place of the
//! newest call of the owner with the most (longest queue drop: Suter et al., *Design Considerations for Supporting TCP with Per-flow
//! Queueing*, INFOCOM 1998), and so among the bindings of an owner. A call of a higher priority takes the place of one of the lowest.

mod leaving;
mod places;

use crate::serving::counters::QueueCounters;
use crate::serving::terms::{CallTerms, Priority};
use crate::serving::workers::computing::{Computing, Kind};
pub(super) use crate::serving::workers::queue::places::{Place, Places};
use crate::serving::workers::rotation::Rotation;
use crate::serving::workers::worker_shares::WorkerShares;
use std::collections::{BTreeMap, VecDeque};
use stoop_exchange::shares::Owner;
use stoop_wire::RetryAfter;

/// The calls that wait, each as its place among them, and the shares of the calls that run. One for all kinds of calls: compiled once.
pub(super) struct CallQueue {
    classes: BTreeMap<ClassKey, Class>,
    shares: WorkerShares,
    /// Running calls of each procedure that has a limit.
    limited: BTreeMap<u32, u32>,
    computing: Computing,
    /// Calls that keep a worker busy, of procedures that are known to wait.
    running_waits: usize,
    /// How long the calls that began of late have waited on average.
    waited_ns: u64,
    len: usize,
    len_max: usize,
    /// Calls of each owner that wait, in all classes.
    waiting: BTreeMap<Owner, usize>,
    turn: u64,
    /// No waiting call is [overdue](Waiting::overdue_ns) before.
    overdue_ns: u64,
    pub(super) counters: QueueCounters,
}

/// Calls that are passed over together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClassKey {
    priority: Priority,
    /// They may have too little time left.
    is_doubtful: bool,
    /// The procedure, if it has a limit or computes.
    procedure: Option<u32>,
}

struct Class {
    owners: Rotation<Owner, OfOwner>,
    /// Most calls that run at once, if that is limited.
    at_once: Option<u32>,
    /// When it had its last turn.
    turn: u64,
}

/// The calls of one owner, by binding.
type OfOwner = Rotation<u64, VecDeque<Waiting>>;

struct Waiting {
    call: Place,
    terms: CallTerms,
    /// When it came.
    since_ns: u64,
}

impl Waiting {
    /// Whether it may be too late for it: half of its time is over, or less is left than its procedure takes twice.
    fn is_doubtful(&self, now_ns: u64) -> bool {
        let CallTerms { deadline_ns, work_ns, .. } = self.terms;
        let left_ns = deadline_ns.saturating_sub(now_ns);
        left_ns < now_ns.saturating_sub(self.since_ns) || left_ns < work_ns.saturating_mul(2)
    }
}

/// A call that has a worker, to be [ended](CallQueue::end).
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    /// The owner and its binding.
    owner: Option<(Owner, u64)>,
    limited: Option<u32>,
    /// The procedure, and its kind when the call began.
    procedure: Option<(u32, Kind)>,
}

impl Charge {
    /// Whether it is counted among the calls that keep a worker busy and no processor.
    fn waits(&self) -> bool {
        self.owner.is_some() && matches!(self.procedure, Some((_, Kind::Waits)))
    }
}

/// The outcome for a call that came while it could not run.
pub(super) enum Admitted<C> {
    Waits,
    /// It waits, and this one is refused for it.
    InPlaceOf(C, RetryAfter),
    /// It is refused, because the queue is full.
    Full(C, RetryAfter),
}

impl<C> Admitted<C> {
    /// Whether the call is refused, so that the queue is as before.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Full(..))
    }
}

impl CallQueue {
    pub(super) fn new(processors: usize, workers: usize, len_max: usize) -> Self {
        Self {
            classes: BTreeMap::new(),
            shares: WorkerShares::new(workers),
            limited: BTreeMap::new(),
            computing: Computing::new(processors),
            running_waits: 0,
            waited_ns: 0,
            len: 0,
            len_max,
            waiting: BTreeMap::new(),
            turn: 0,
            overdue_ns: u64::MAX,
            counters: QueueCounters::default(),
        }
    }

    /// Calls that keep a worker busy, and perhaps a processor: their procedures are not known to wait.
    pub(super) fn busy(&self) -> usize {
        self.shares.running() - self.running_waits
    }

    /// Calls that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether some owner has its share of the workers, so that each call is to be looked at before it begins.
    pub(super) fn is_crowded(&self) -> bool {
        self.shares.is_crowded()
    }

    /// Gives a worker to a call that has not waited. `None`: its owner or procedure has as many as it may, and it has to wait.
    pub(super) fn begin(&mut self, terms: &CallTerms) -> Option<Charge> {
        let limit = terms.procedure.zip(terms.limit);
        let may_run = self.is_below_limit(limit) && self.shares.allows(terms.owner, terms.part);
        may_run.then(|| self.charge(terms))
    }

    /// Counts a call of this binding of the owner that has a worker already.
    pub(super) fn charge_owner(&mut self, owner: Owner, part: u64) -> Charge {
        let is_counted = self.shares.begin(owner, part);
        Charge { owner: is_counted.then_some((owner, part)), limited: None, procedure: None }
    }

    fn charge(&mut self, terms: &CallTerms) -> Charge {
        let limited = terms.procedure.filter(|_| terms.limit.is_some());
        if let Some(procedure) = limited {
            *self.limited.entry(procedure).or_default() += 1;
        }
        let procedure = terms.procedure.map(|procedure| (procedure, self.computing.begin(procedure)));
        let charge = Charge { limited, procedure, ..self.charge_owner(terms.owner, terms.part) };
        self.running_waits += usize::from(charge.waits());
        charge
    }

    fn is_below_limit(&self, limit: Option<(u32, u32)>) -> bool {
        limit.is_none_or(|(procedure, most)| self.limited.get(&procedure).copied().unwrap_or(0) < most)
    }

    /// A call has ended, and its worker is free, which has `slept` meanwhile; `None` if that is not known.
    pub(super) fn end(&mut self, charge: Charge, slept: Option<bool>) {
        if let Some((procedure, kind)) = charge.procedure {
            self.computing.end(procedure, kind, slept);
        }
        self.running_waits -= usize::from(charge.waits());
        if let Some((owner, part)) = charge.owner {
            self.shares.end(owner, part);
        }
        if let Some(running) = charge.limited.and_then(|procedure| self.limited.get_mut(&procedure)) {
            *running -= 1;
        }
    }

    /// Lets a call wait, or refuses it, or another in its place.
    pub(super) fn admit(&mut self, now_ns: u64, call: Place, terms: CallTerms) -> Admitted<Place> {
        let displaced = match self.len < self.len_max {
            true => None,
            false => match self.displace(&terms) {
                Some(displaced) => Some(displaced),
                None => {
                    self.counters.full += 1;
                    return Admitted::Full(call, self.retry_after());
                }
            },
        };
        self.counters.waited += 1;
        self.push(Waiting { call, terms, since_ns: now_ns });
        match displaced {
            None => Admitted::Waits,
            Some(other) => {
                self.counters.full += 1;
                Admitted::InPlaceOf(other, self.retry_after())
            }
        }
    }

    /// When a refused call has a chance: half of those that wait have gone by then.
    fn retry_after(&self) -> RetryAfter {
        match self.waited_ns {
            0 => RetryAfter::OVERLOADED,
            waited_ns => RetryAfter::from_nanos(waited_ns / 2),
        }
    }

    fn push(&mut self, waiting: Waiting) {
        let terms = waiting.terms;
        self.overdue_ns = self.overdue_ns.min(waiting.overdue_ns());
        self.len += 1;
        *self.waiting.entry(terms.owner).or_default() += 1;
        self.insert(waiting, false);
    }

    fn insert(&mut self, waiting: Waiting, is_doubtful: bool) {
        let terms = waiting.terms;
        let is_apart = |procedure: &u32| terms.limit.is_some() || self.computing.computes(*procedure);
        let procedure = terms.procedure.filter(is_apart);
        let key = ClassKey { is_doubtful, priority: terms.priority, procedure };
        let class = self.classes.entry(key).or_insert_with(|| Class {
            owners: Rotation::default(),
            at_once: terms.limit,
            turn: 0,
        });
        class.owners.entry(terms.owner).entry(terms.part).push_back(waiting);
    }

    /// To be called now and then while calls wait.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.computing.look(now_ns);
    }

    /// Whether a call could have a worker now.
    pub(super) fn has_runnable(&self) -> bool {
        self.next_class().is_some()
    }

    fn next_class(&self) -> Option<(ClassKey, Owner)> {
        if self.len == 0 {
            return None;
        }
        let mut best: Option<(ClassKey, u64, Owner)> = None;
        for (key, class) in &self.classes {
            let limit = key.procedure.zip(class.at_once);
            let has_room =
                !key.procedure.is_some_and(|it| self.computing.computes(it)) || self.computing.has_room();
            let rank = |key: &ClassKey, turn| (key.priority, key.is_doubtful, turn);
            let is_better = best.is_none_or(|(other, turn, _)| rank(key, class.turn) < rank(&other, turn));
            if is_better
                && has_room
                && self.is_below_limit(limit)
                && let Some(owner) =
                    class.owners.next(|owner| class.next_part(*owner, &self.shares).is_some())
            {
                best = Some((*key, class.turn, owner));
            }
        }
        best.map(|(key, _, owner)| (key, owner))
    }

    /// Takes the next call that may run.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<(Place, Charge)> {
        loop {
            let (key, owner) = self.next_class()?;
            self.turn += 1;
            let class = self.classes.get_mut(&key).expect("it was found");
            class.turn = self.turn;
            let mut doubtful = Vec::new();
            let next = match key.is_doubtful {
                false => class.take_oldest(
                    owner,
                    &self.shares,
                    |waiting| waiting.is_doubtful(now_ns),
                    &mut doubtful,
                ),
                true => Some(class.take_newest(owner, &self.shares)),
            };
            if class.owners.is_empty() {
                self.classes.remove(&key);
            }
            doubtful.into_iter().for_each(|waiting| self.insert(waiting, true));
            if let Some(Waiting { call, terms, since_ns }) = next {
                self.count_out(&terms);
                self.waited_ns = self.waited_ns / 8 * 7 + now_ns.saturating_sub(since_ns) / 8;
                return Some((call, self.charge(&terms)));
            }
        }
    }

    fn removed(&mut self, key: ClassKey, terms: &CallTerms) {
        if self.classes.get(&key).is_some_and(|class| class.owners.is_empty()) {
            self.classes.remove(&key);
        }
        self.count_out(terms);
    }

    fn count_out(&mut self, terms: &CallTerms) {
        self.len -= 1;
        let waiting = self.waiting.get_mut(&terms.owner).expect("its call was counted");
        *waiting -= 1;
        if *waiting == 0 {
            self.waiting.remove(&terms.owner);
        }
    }

    /// Takes out a call that has less right to its place than one with these terms.
    fn displace(&mut self, terms: &CallTerms) -> Option<Place> {
        let lowest = self.classes.keys().next_back()?.priority;
        if lowest > terms.priority {
            let of_lowest = || self.classes.iter().filter(|(key, _)| key.priority == lowest);
            let by_owner = of_lowest().flat_map(|(_, class)| class.owners.iter());
            let owner = most(by_owner.map(|(owner, parts)| (*owner, len_of(parts))))?.0;
            let part = most(of_lowest().flat_map(|(_, class)| class.parts(&owner)))?.0;
            return self.take_lowest(owner, part);
        }
        let own = self.waiting.get(&terms.owner).copied().unwrap_or(0);
        let (longest, waiting) = self.waiting.iter().max_by_key(|(_, waiting)| **waiting)?;
        // A place less for one and more for the other, or nothing is gained.
        let owner = if *waiting > own + 1 { *longest } else { terms.owner };
        let parts = || self.classes.values().flat_map(|class| class.parts(&owner));
        let (part, waiting) = most(parts())?;
        if owner == terms.owner {
            let own: usize =
                parts().filter(|(part, _)| *part == terms.part).map(|(_, waiting)| waiting).sum();
            if waiting <= own + 1 || self.lowest_of(owner, part)?.priority < terms.priority {
                return None;
            }
        }
        self.take_lowest(owner, part)
    }

    /// The class of the calls of a binding that have the least right to their places.
    fn lowest_of(&self, owner: Owner, part: u64) -> Option<ClassKey> {
        let holds = |class: &Class| class.parts(&owner).any(|(other, _)| other == part);
        self.classes.iter().rev().find(|(_, class)| holds(class)).map(|(key, _)| *key)
    }

    /// Takes out the newest call of the [lowest class](Self::lowest_of) of a binding.
    fn take_lowest(&mut self, owner: Owner, part: u64) -> Option<Place> {
        let key = self.lowest_of(owner, part)?;
        let Waiting { call, terms, .. } = self.classes.get_mut(&key)?.take_last(owner, part);
        self.removed(key, &terms);
        Some(call)
    }
}

/// The key with the largest sum of the numbers beside it.
fn most<K: Ord>(counts: impl Iterator<Item = (K, usize)>) -> Option<(K, usize)> {
    let mut sums = BTreeMap::new();
    counts.for_each(|(key, count)| *sums.entry(key).or_default() += count);
    sums.into_iter().max_by_key(|(_, sum)| *sum)
}

/// Calls of an owner.
fn len_of(of_owner: &OfOwner) -> usize {
    of_owner.values().map(VecDeque::len).sum()
}

impl Class {
    /// The bindings of an owner, and how many calls of each wait.
    fn parts(&self, owner: &Owner) -> impl Iterator<Item = (u64, usize)> {
        self.owners.get(owner).into_iter().flat_map(Rotation::iter).map(|(part, calls)| (*part, calls.len()))
    }

    /// The binding of the owner whose turn it is among those that may have a worker.
    fn next_part(&self, owner: Owner, shares: &WorkerShares) -> Option<u64> {
        self.owners.get(&owner)?.next(|part| shares.allows(owner, *part))
    }

    /// The oldest call of the owner's [binding whose turn it is](Self::next_part). Calls that are passed over are put into `passed`.
    fn take_oldest(
        &mut self,
        owner: Owner,
        shares: &WorkerShares,
        is_passed_over: impl Fn(&Waiting) -> bool,
        passed: &mut Vec<Waiting>,
    ) -> Option<Waiting> {
        let parts = self.owners.take_turn(&owner).expect(HAS_CALLS);
        let mut oldest = None;
        while oldest.is_none()
            && let Some(part) = parts.next(|part| shares.allows(owner, *part))
        {
            let calls = parts.take_turn(&part).expect(HAS_CALLS);
            while oldest.is_none()
                && let Some(first) = calls.pop_front()
            {
                match is_passed_over(&first) {
                    true => passed.push(first),
                    false => oldest = Some(first),
                }
            }
            if calls.is_empty() {
                parts.remove(&part);
            }
        }
        if parts.is_empty() {
            self.owners.remove(&owner);
        }
        oldest
    }

    /// The newest call of the owner's [binding whose turn it is](Self::next_part).
    fn take_newest(&mut self, owner: Owner, shares: &WorkerShares) -> Waiting {
        let part = self.next_part(owner, shares).expect(HAS_CALLS);
        self.owners.take_turn(&owner).expect(HAS_CALLS).take_turn(&part);
        self.take_last(owner, part)
    }

    /// The newest call of a binding.
    fn take_last(&mut self, owner: Owner, part: u64) -> Waiting {
        let parts = self.owners.entry(owner);
        let calls = parts.entry(part);
        let last = calls.pop_back().expect(HAS_CALLS);
        if calls.is_empty() {
            parts.remove(&part);
        }
        if parts.is_empty() {
            self.owners.remove(&owner);
        }
        last
    }
}

/// Owners and bindings without calls are removed.
const HAS_CALLS: &str = "what is in a rotation has calls";

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
