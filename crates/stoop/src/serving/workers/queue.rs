//! The calls that wait for a worker: which of them runs next, and which are refused because they could not be done in time.
//!
//! **Order.** Calls of a higher [priority](Priority) first. Among equals owners take turns (hosts of a network, users of this machine), and
//! among the calls of an owner its bindings. Calls of one binding run in the order in which they came. A call is passed over while its
//! owner has its share of the workers, while as many calls of its procedure run as may, or while calls that [compute](super::computing) keep
//! all processors busy and it computes, too.
//!
//! **Admission.** A call is refused when it comes, if twice the time that it would wait, and the time that its procedure takes, are more
//! than what is left until its deadline: so the queue is bounded by the time that it stands for, as CoDel bounds a router's (RFC 8289 §3), and
//! not by its length alone. Twice, because both times are estimates; a call that runs in vain costs more than one that is refused.
//! An estimate that was too low shows later: a call that leaves the queue is refused if the time left is shorter than its procedure takes,
//! and one that [still waits shortly before its deadline](overdue) is refused then, so that its caller learns that it has not run.
//!
//! **Length.** The queue has a greatest length, too. When it is full, a call of an owner with less than its fair share takes the place of the
//! newest call of the owner with the most (longest queue drop: Suter et al., *Design Considerations for Supporting TCP with Per-flow
//! Queueing*, INFOCOM 1998), and so among the bindings of an owner. A call of a higher priority takes the place of one of the lowest.

mod overdue;
mod quiet;

use crate::serving::counters::QueueCounters;
use crate::serving::terms::{CallTerms, Priority};
use crate::serving::workers::computing::{Computing, Kind};
use crate::serving::workers::power::Power;
use crate::serving::workers::rotation::Rotation;
use crate::serving::workers::shares::WorkerShares;
use std::collections::{BTreeMap, VecDeque};
use stoop_exchange::shares::Owner;

/// The calls that wait, and the shares of the calls that run.
pub(super) struct CallQueue<C> {
    classes: BTreeMap<ClassKey, Class<C>>,
    shares: WorkerShares,
    /// Running calls of each procedure that has a limit.
    limited: BTreeMap<u32, u32>,
    computing: Computing,
    /// Calls that keep a worker busy, of procedures that are known to wait.
    running_waits: usize,
    power: Power,
    len: usize,
    len_max: usize,
    /// Calls of each owner that wait, in all classes.
    waiting: BTreeMap<Owner, usize>,
    turn: u64,
    /// No waiting call is [overdue](overdue) before.
    overdue_ns: u64,
    pub(super) counters: QueueCounters,
}

/// Calls that are passed over together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClassKey {
    priority: Priority,
    /// The procedure, if it has a limit or computes.
    procedure: Option<u32>,
}

struct Class<C> {
    owners: Rotation<Owner, OfOwner<C>>,
    /// Run time of the calls that wait.
    work_ns: u64,
    /// Most calls that run at once, if that is limited.
    at_once: Option<u32>,
    /// When it had its last turn.
    turn: u64,
}

/// The calls of one owner, by binding.
struct OfOwner<C> {
    parts: Rotation<u64, VecDeque<Waiting<C>>>,
    work_ns: u64,
}

impl<C> Default for OfOwner<C> {
    fn default() -> Self {
        Self { parts: Rotation::default(), work_ns: 0 }
    }
}

struct Waiting<C> {
    call: C,
    terms: CallTerms,
    /// When it came, and the run time of the calls that were ahead of it then.
    since_ns: u64,
    ahead_ns: u64,
}

/// A call that has a worker, to be [ended](CallQueue::end).
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    owner: Option<Owner>,
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

/// A call that leaves the queue.
pub(super) enum Next<C> {
    Run(C, Charge),
    /// It cannot be done in time. Its caller may come again after so many nanoseconds.
    Refuse(C, u64),
}

/// The outcome for a call that came while it could not run.
pub(super) enum Admitted<C> {
    Waits,
    /// It waits, and this one is refused for it. Its caller may come again after so many nanoseconds.
    InPlaceOf(C, u64),
    /// It is refused, because the queue is full. Its caller may come again after so many nanoseconds.
    Full(C, u64),
    /// It is refused, because it would be late. Its caller may come again after so many nanoseconds.
    Late(C, u64),
    /// It is refused, because its procedure alone takes longer than is left until its deadline. When its caller comes again is all the
    /// same.
    Hopeless(C),
}

impl<C> Admitted<C> {
    /// Whether the call is refused, so that the queue is as before.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Full(..) | Self::Late(..) | Self::Hopeless(_))
    }
}

impl<C> CallQueue<C> {
    pub(super) fn new(processors: usize, workers: usize, len_max: usize) -> Self {
        Self {
            classes: BTreeMap::new(),
            shares: WorkerShares::new(workers),
            limited: BTreeMap::new(),
            computing: Computing::new(processors),
            running_waits: 0,
            power: Power::default(),
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
        let may_run = self.is_below_limit(limit) && self.shares.allows(terms.owner);
        may_run.then(|| self.charge(terms))
    }

    /// Gives a worker to a call that has not waited, or [admits](Self::admit) it.
    pub(super) fn begin_or_admit(
        &mut self,
        now_ns: u64,
        call: C,
        terms: CallTerms,
        keep: impl FnOnce(&mut C),
    ) -> Result<(C, Charge), Admitted<C>> {
        match self.begin(&terms) {
            Some(charge) => Ok((call, charge)),
            None => Err(self.admit(now_ns, call, terms, keep)),
        }
    }

    /// Counts a call of this owner that has a worker already.
    pub(super) fn charge_owner(&mut self, owner: Owner) -> Charge {
        Charge { owner: self.shares.begin(owner).then_some(owner), limited: None, procedure: None }
    }

    fn charge(&mut self, terms: &CallTerms) -> Charge {
        let limited = terms.procedure.filter(|_| terms.limit.is_some());
        if let Some(procedure) = limited {
            *self.limited.entry(procedure).or_default() += 1;
        }
        let procedure = terms.procedure.map(|procedure| (procedure, self.computing.begin(procedure)));
        let charge = Charge { limited, procedure, ..self.charge_owner(terms.owner) };
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
        if let Some(owner) = charge.owner {
            self.shares.end(owner);
        }
        if let Some(running) = charge.limited.and_then(|procedure| self.limited.get_mut(&procedure)) {
            *running -= 1;
        }
    }

    /// Lets a call wait, or refuses it, or another in its place. `keep` prepares a call that waits.
    pub(super) fn admit(
        &mut self,
        now_ns: u64,
        mut call: C,
        terms: CallTerms,
        keep: impl FnOnce(&mut C),
    ) -> Admitted<C> {
        let left_ns = terms.deadline_ns.saturating_sub(now_ns);
        let waits_at_all = self.len > 0 || self.shares.running() > 0;
        if waits_at_all && terms.work_ns > left_ns {
            self.counters.hopeless += 1;
            return Admitted::Hopeless(call);
        }
        let ahead_ns = self.ahead_ns(&terms);
        let wait_ns = self.power.time_for_ns(ahead_ns, self.shares.running());
        if waits_at_all && wait_ns.saturating_mul(2).saturating_add(terms.work_ns) > left_ns {
            self.counters.hopeless += 1;
            return Admitted::Late(call, again_after_ns(wait_ns));
        }
        let displaced = match self.len < self.len_max {
            true => None,
            false => match self.displace(&terms) {
                Some(displaced) => Some(displaced),
                None => {
                    self.counters.full += 1;
                    return Admitted::Full(call, again_after_ns(wait_ns));
                }
            },
        };
        keep(&mut call);
        self.push(Waiting { call, terms, since_ns: now_ns, ahead_ns });
        match displaced {
            None => Admitted::Waits,
            Some(other) => {
                self.counters.full += 1;
                Admitted::InPlaceOf(other, again_after_ns(wait_ns))
            }
        }
    }

    /// Run time of the calls for which a call with these terms would wait.
    fn ahead_ns(&self, terms: &CallTerms) -> u64 {
        let (mut all_ns, mut own_ns) = (0_u64, 0_u64);
        for (key, class) in self.classes.iter().filter(|(key, _)| key.priority <= terms.priority) {
            all_ns += class.work_ns;
            if key.priority < terms.priority {
                // They go first, whoever made them.
                own_ns += class.work_ns;
            } else {
                let of_owner = class.owners.get(&terms.owner).map_or(0, |of_owner| of_owner.work_ns);
                own_ns += of_owner.saturating_mul(class.owners.len() as u64);
            }
        }
        all_ns.min(own_ns)
    }

    fn push(&mut self, waiting: Waiting<C>) {
        let terms = waiting.terms;
        self.overdue_ns = self.overdue_ns.min(waiting.overdue_ns());
        let is_apart = |procedure: &u32| terms.limit.is_some() || self.computing.computes(*procedure);
        let key = ClassKey { priority: terms.priority, procedure: terms.procedure.filter(is_apart) };
        let class = self.classes.entry(key).or_insert_with(|| Class {
            owners: Rotation::default(),
            work_ns: 0,
            at_once: terms.limit,
            turn: 0,
        });
        class.work_ns += terms.work_ns;
        let of_owner = class.owners.entry(terms.owner);
        of_owner.work_ns += terms.work_ns;
        of_owner.parts.entry(terms.part).push_back(waiting);
        self.len += 1;
        *self.waiting.entry(terms.owner).or_default() += 1;
        self.counters.waited += 1;
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
        let mut best: Option<(Priority, u64, ClassKey, Owner)> = None;
        for (key, class) in &self.classes {
            let limit = key.procedure.zip(class.at_once);
            let has_room =
                !key.procedure.is_some_and(|it| self.computing.computes(it)) || self.computing.has_room();
            let is_better =
                best.is_none_or(|(priority, turn, ..)| (key.priority, class.turn) < (priority, turn));
            if is_better
                && has_room
                && self.is_below_limit(limit)
                && let Some(owner) = class.owners.next(|owner| self.shares.allows(*owner))
            {
                best = Some((key.priority, class.turn, *key, owner));
            }
        }
        best.map(|(_, _, key, owner)| (key, owner))
    }

    /// Takes the next call that may run.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Next<C>> {
        let (key, owner) = self.next_class()?;
        self.turn += 1;
        let class = self.classes.get_mut(&key).expect("it was found");
        class.turn = self.turn;
        let Waiting { call, terms, since_ns, ahead_ns } = class.take_first(owner);
        self.removed(key, &terms);
        self.power.note(ahead_ns, now_ns.saturating_sub(since_ns));
        if now_ns.saturating_add(terms.work_ns) >= terms.deadline_ns {
            self.counters.overdue += 1;
            let wait_ns = self.power.time_for_ns(self.ahead_ns(&terms), self.shares.running());
            return Some(Next::Refuse(call, again_after_ns(wait_ns)));
        }
        Some(Next::Run(call, self.charge(&terms)))
    }

    fn removed(&mut self, key: ClassKey, terms: &CallTerms) {
        if self.classes.get(&key).is_some_and(|class| class.owners.is_empty()) {
            self.classes.remove(&key);
        }
        self.len -= 1;
        let waiting = self.waiting.get_mut(&terms.owner).expect("its call was counted");
        *waiting -= 1;
        if *waiting == 0 {
            self.waiting.remove(&terms.owner);
        }
    }

    /// Takes out a call that has less right to its place than one with these terms.
    fn displace(&mut self, terms: &CallTerms) -> Option<C> {
        let own = self.waiting.get(&terms.owner).copied().unwrap_or(0);
        let lowest = *self.classes.last_key_value()?.0;
        let is_lower = lowest.priority > terms.priority;
        let longest = match is_lower {
            true => self.classes[&lowest].owners.longest(OfOwner::len)?,
            false => {
                let (longest, most) = self.waiting.iter().max_by_key(|(_, waiting)| **waiting)?;
                // A place less for one and more for the other, or nothing is gained.
                let is_other = *most > own + 1;
                if is_other { *longest } else { terms.owner }
            }
        };
        let is_own = longest == terms.owner && !is_lower;
        let with_owner = self.classes.iter().rev().find(|(_, class)| class.owners.get(&longest).is_some());
        let (key, class) = with_owner?;
        let key = *key;
        let parts = &class.owners.get(&longest)?.parts;
        let part = parts.longest(VecDeque::len)?;
        if is_own {
            let of_own_part = parts.get(&terms.part).map_or(0, VecDeque::len);
            if key.priority < terms.priority || parts.get(&part).map_or(0, VecDeque::len) <= of_own_part + 1 {
                return None;
            }
        }
        let class = self.classes.get_mut(&key)?;
        let Waiting { call, terms, .. } = class.take_last(longest, part);
        self.removed(key, &terms);
        Some(call)
    }
}

impl<C> OfOwner<C> {
    fn len(&self) -> usize {
        self.parts.values().map(VecDeque::len).sum()
    }
}

impl<C> Class<C> {
    /// Whether a call of this binding of the owner waits.
    fn has(&self, owner: Owner, part: u64) -> bool {
        self.owners.get(&owner).is_some_and(|of_owner| of_owner.parts.get(&part).is_some())
    }

    /// The owner's first call, of the binding whose turn it is.
    fn take_first(&mut self, owner: Owner) -> Waiting<C> {
        let parts = &mut self.owners.take_turn(&owner).expect(HAS_CALLS).parts;
        let part = parts.next(|_| true).expect(HAS_CALLS);
        let first = parts.take_turn(&part).expect(HAS_CALLS).pop_front().expect(HAS_CALLS);
        self.removed(part, &first.terms);
        first
    }

    /// The newest call of a binding.
    fn take_last(&mut self, owner: Owner, part: u64) -> Waiting<C> {
        let last = self.owners.entry(owner).parts.entry(part).pop_back().expect(HAS_CALLS);
        self.removed(part, &last.terms);
        last
    }

    fn removed(&mut self, part: u64, terms: &CallTerms) {
        self.work_ns -= terms.work_ns;
        let of_owner = self.owners.entry(terms.owner);
        of_owner.work_ns -= terms.work_ns;
        if of_owner.parts.get(&part).is_some_and(VecDeque::is_empty) {
            of_owner.parts.remove(&part);
        }
        if of_owner.parts.is_empty() {
            self.owners.remove(&terms.owner);
        }
    }
}

/// When a refused call has a chance: half of what waits has gone by then.
fn again_after_ns(wait_ns: u64) -> u64 {
    wait_ns / 2
}

/// Owners and bindings without calls are removed.
const HAS_CALLS: &str = "what is in a rotation has calls";

#[cfg(test)]
mod tests;
