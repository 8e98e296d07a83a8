//! A table of outstanding calls: the state, deadline, owner, waiting thread and waker of each.
//!
//! The table lies behind a lock of its user. An end of a call returns a [`Wakeup`], which is given when the lock has been released:
//! a waker is code of the user.

use crate::calling::completion_table::CompletionTable;
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::short_result::Short;
use crate::error::CallError;
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;

/// Outstanding calls by number. Numbers are used again.
pub(crate) struct CallTable<T> {
    all: Vec<Slot<T>>,
    free: Vec<u32>,
    open: usize,
    /// The number of open calls that have a waker.
    polled: usize,
    /// The number of open calls that are detached, and of open calls that were detached and are reclaimed.
    detached: usize,
    reclaimed: usize,
    /// No open call has an earlier deadline.
    earliest_ns: u64,
    /// Where handles find the ends of calls, and short results, without the lock.
    completions: Option<Arc<CompletionTable>>,
    /// The failures of detached calls.
    pub(crate) failures: Failures,
}

struct Slot<T> {
    state: State<T>,
    deadline_ns: u64,
    owner: Owner,
    thread: Option<Thread>,
    waker: Option<Waker>,
}

/// The owner of a call.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    Handle,
    /// None: the call is detached. It may be this ordered one-way call.
    Detached(Option<OrderedCall>),
    /// A thread that waits for detached calls.
    Reclaimer(Option<OrderedCall>),
}

enum State<T> {
    Free,
    /// It has not ended; what the transport knows of it.
    Open(T),
    Ended(Outcome),
}

/// How a call ended.
pub(crate) type Outcome = Result<Payload, CallError>;

/// The bytes of a result.
#[derive(Debug)]
pub(crate) enum Payload {
    Short(Short),
    /// In the packet that brought them.
    Packet {
        packet: Vec<u8>,
        start: usize,
        len: usize,
    },
}

impl Payload {
    /// `len` bytes of `packet` from `start` on.
    pub(crate) fn new(packet: Vec<u8>, start: usize, len: usize) -> Self {
        Self::Packet { packet, start, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(short) => short.bytes(),
            Self::Packet { packet, start, len } => &packet[*start..start + len],
        }
    }
}

/// The thread and the waker that wait for a call that has ended.
#[derive(Debug, Default)]
#[must_use = "a thread or a task waits for it"]
pub(crate) struct Wakeup {
    thread: Option<Thread>,
    pub(crate) waker: Option<Waker>,
}

impl Wakeup {
    /// `Some` if a thread or a task waits for the call.
    pub(crate) fn if_awaited(self) -> Option<Self> {
        (self.thread.is_some() || self.waker.is_some()).then_some(self)
    }

    /// Wakes both. To be called without a lock.
    pub(crate) fn give(self) {
        if let Some(thread) = self.thread {
            thread.unpark();
        }
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }

    /// Wakes the thread, and returns the waker for later.
    pub(crate) fn unpark(self) -> Option<Waker> {
        if let Some(thread) = self.thread {
            thread.unpark();
        }
        self.waker
    }
}

impl<T> Default for CallTable<T> {
    fn default() -> Self {
        let (open, polled, detached, reclaimed, earliest_ns) = (0, 0, 0, 0, u64::MAX);
        let (completions, failures) = (None, Failures::default());
        let (all, free) = (Vec::new(), Vec::new());
        Self { all, free, open, polled, detached, reclaimed, earliest_ns, completions, failures }
    }
}

impl<T> CallTable<T> {
    /// A table whose handles look at `completions` first. They may take short results there; then they do not ask this table.
    pub(crate) fn with_completions(completions: Arc<CompletionTable>) -> Self {
        Self { completions: Some(completions), ..Self::default() }
    }

    /// The completion of a call, if it has one: a table of completions ends before this one.
    #[inline]
    fn completions(&self, call: u32) -> Option<&CompletionTable> {
        self.completions.as_deref().filter(|_| CompletionTable::covers(call))
    }

    /// Adds a call that begins, and returns its number.
    pub(crate) fn open(&mut self, deadline_ns: u64, known: T) -> u32 {
        self.open += 1;
        self.earliest_ns = self.earliest_ns.min(deadline_ns);
        let (state, owner) = (State::Open(known), Owner::Handle);
        if let Some(number) = self.take_free() {
            let slot = &mut self.all[number as usize];
            debug_assert!(slot.thread.is_none() && slot.waker.is_none(), "nothing waits for a free slot");
            // It is free: there is nothing to drop, which the compiler sees to by a call each time.
            mem::forget(mem::replace(&mut slot.state, state));
            (slot.deadline_ns, slot.owner) = (deadline_ns, owner);
            self.publish_open(number);
            return number;
        }
        let slot = Slot { state, deadline_ns, owner, thread: None, waker: None };
        let number =
            u32::try_from(self.all.len()).expect("four thousand million calls do not fit into memory");
        if self.all.is_empty() {
            // Many tables never have two.
            self.all.reserve_exact(1);
        }
        self.all.push(slot);
        if let Some(completions) = self.completions(number) {
            completions.make(number);
        }
        self.publish_open(number);
        number
    }

    #[inline]
    fn publish_open(&self, call: u32) {
        if let Some(completions) = self.completions(call) {
            completions.open(call);
        }
    }

    #[inline]
    fn take_free(&mut self) -> Option<u32> {
        if self.free.is_empty()
            && let Some(completions) = &self.completions
        {
            completions.reclaim(&mut self.free);
            for &number in &self.free {
                self.all[number as usize].state = State::Free;
            }
        }
        self.free.pop()
    }

    /// The number of calls that have not ended.
    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// The number of these that have handles.
    pub(crate) fn attended(&self) -> usize {
        self.open - self.detached
    }

    /// Whether one of them has a waker.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled > 0
    }

    /// The state of a call that has not ended.
    pub(crate) fn get_mut(&mut self, call: u32) -> Option<&mut T> {
        match self.all.get_mut(call as usize).map(|slot| &mut slot.state) {
            Some(State::Open(known)) => Some(known),
            _ => None,
        }
    }

    /// The deadline of a call.
    pub(crate) fn deadline_ns(&self, call: u32) -> u64 {
        self.all[call as usize].deadline_ns
    }

    /// Gives an open call the deadline that `deadline_ns` tells of it, if it does.
    #[inline]
    pub(crate) fn set_deadline(&mut self, call: u32, deadline_ns: impl FnOnce(&mut T) -> Option<u64>) {
        let Some(slot) = self.all.get_mut(call as usize) else { return };
        if let State::Open(known) = &mut slot.state
            && let Some(deadline_ns) = deadline_ns(known)
        {
            slot.deadline_ns = deadline_ns;
            self.earliest_ns = self.earliest_ns.min(deadline_ns);
        }
    }

    pub(crate) fn has_ended(&self, call: u32) -> bool {
        matches!(self.all[call as usize].state, State::Ended(_))
    }

    /// The index in `calls` of one that has ended.
    pub(crate) fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        calls.iter().position(|&call| self.has_ended(call))
    }

    /// Ends an open call, and keeps its outcome for its handle, if it has one.
    pub(crate) fn end(&mut self, call: u32, outcome: Outcome) -> Wakeup {
        let wakeup = self.close(call);
        let slot = &mut self.all[call as usize];
        match (slot.owner, outcome) {
            (Owner::Handle | Owner::Reclaimer(_), outcome) => {
                slot.state = State::Ended(outcome);
                self.publish_end(call);
            }
            (Owner::Detached(ordered), outcome) => {
                self.release(call);
                if let Err(error) = outcome {
                    self.failures.note(error, ordered);
                }
            }
        }
        wakeup
    }

    /// Shows the handle of a call that the call has ended.
    #[inline]
    fn publish_end(&self, call: u32) {
        let Some(completions) = self.completions(call) else { return };
        match &self.all[call as usize].state {
            State::Ended(Ok(Payload::Short(short))) if completions.end_short(call, short.bytes()) => {}
            _ => completions.end(call),
        }
    }

    /// Counts a call as open no longer. Returns what waits for it.
    fn close(&mut self, call: u32) -> Wakeup {
        let slot = &mut self.all[call as usize];
        debug_assert!(matches!(slot.state, State::Open(_)), "a call ends once");
        self.open -= 1;
        self.polled -= usize::from(slot.waker.is_some());
        match slot.owner {
            Owner::Handle => {}
            Owner::Detached(_) => self.detached -= 1,
            Owner::Reclaimer(_) => self.reclaimed -= 1,
        }
        Wakeup { thread: slot.thread.take(), waker: slot.waker.take() }
    }

    fn release(&mut self, call: u32) {
        self.all[call as usize].state = State::Free;
        self.free.push(call);
    }

    /// Takes the outcome of a call that has ended, and its number, from its handle.
    ///
    /// # Panics
    /// The call has not ended.
    pub(crate) fn take(&mut self, call: u32) -> Outcome {
        let state = mem::replace(&mut self.all[call as usize].state, State::Free);
        self.free.push(call);
        match state {
            State::Ended(outcome) => outcome,
            State::Open(_) | State::Free => panic!("the outcome of a call is taken when it has ended"),
        }
    }

    /// As [`take`](Self::take), of a call that has ended with a short result.
    pub(crate) fn take_short(&mut self, call: u32) -> Option<Short> {
        let State::Ended(Ok(Payload::Short(short))) = self.all[call as usize].state else { return None };
        self.release(call);
        Some(short)
    }

    /// Removes a call, finished or not, with its number. Returns what is known of it if it has not ended, and its waker,
    /// not woken.
    pub(crate) fn abandon(&mut self, call: u32) -> (Option<T>, Option<Waker>) {
        let waker = match self.has_ended(call) {
            true => None,
            false => self.close(call).waker,
        };
        let state = mem::replace(&mut self.all[call as usize].state, State::Free);
        self.free.push(call);
        match state {
            State::Open(known) => (Some(known), waker),
            State::Ended(_) | State::Free => (None, waker),
        }
    }

    /// Detaches a call, which may be this ordered one-way call. Returns its waker, not woken.
    pub(crate) fn detach(&mut self, call: u32, ordered: Option<OrderedCall>) -> Option<Waker> {
        if self.has_ended(call) {
            if let Err(error) = self.take(call) {
                self.failures.note(error, ordered);
            }
            return None;
        }
        let slot = &mut self.all[call as usize];
        self.reclaimed -= usize::from(matches!(slot.owner, Owner::Reclaimer(_)));
        slot.owner = Owner::Detached(ordered);
        self.detached += 1;
        self.polled -= usize::from(slot.waker.is_some());
        slot.waker.take()
    }

    /// Gives one of the selected calls that has not ended to a handle again.
    pub(crate) fn reclaim(&mut self, selection: Selection) -> Reclaimed {
        let mut found = Reclaimed::None;
        for (call, slot) in self.all.iter_mut().enumerate() {
            match (&slot.state, slot.owner) {
                (State::Open(_), Owner::Detached(ordered)) if selection.includes(ordered) => {
                    slot.owner = Owner::Reclaimer(ordered);
                    self.detached -= 1;
                    self.reclaimed += 1;
                    return Reclaimed::Call(call as u32, ordered);
                }
                // If it has ended, the other thread has not noted yet how.
                (State::Open(_) | State::Ended(_), Owner::Reclaimer(ordered))
                    if selection.includes(ordered) =>
                {
                    found = Reclaimed::ByOthers;
                }
                _ => {}
            }
        }
        found
    }

    /// The number of detached and reclaimed calls that have not ended.
    pub(crate) fn detached(&self) -> usize {
        self.detached + self.reclaimed
    }

    /// Of a call that has not ended: whether it is detached, and the ordered one-way call that it may be then.
    pub(crate) fn detached_as(&self, call: u32) -> Option<Option<OrderedCall>> {
        match self.all[call as usize].owner {
            Owner::Detached(ordered) => Some(ordered),
            Owner::Handle | Owner::Reclaimer(_) => None,
        }
    }

    /// The thread and the waker that wait for a call that has not ended, to look at it again.
    pub(crate) fn take_wakeup(&mut self, call: u32) -> Wakeup {
        let slot = &mut self.all[call as usize];
        self.polled -= usize::from(slot.waker.is_some());
        Wakeup { thread: slot.thread.take(), waker: slot.waker.take() }
    }

    /// Sets the thread that waits for these calls; `None`: it waits no longer.
    pub(crate) fn attend(&mut self, calls: &[u32], thread: Option<&Thread>) {
        for &call in calls {
            self.all[call as usize].thread = thread.cloned();
        }
    }

    /// Sets the waker of a call that has not ended. Returns the one before.
    pub(crate) fn register(&mut self, call: u32, waker: Waker) -> Option<Waker> {
        let before = self.all[call as usize].waker.replace(waker);
        self.polled += usize::from(before.is_none());
        before
    }

    /// Whether the waker of a call wakes the same task as this one.
    pub(crate) fn is_registered(&self, call: u32, waker: &Waker) -> bool {
        self.all[call as usize].waker.as_ref().is_some_and(|registered| registered.will_wake(waker))
    }

    /// A time before which no open call has its deadline.
    pub(crate) fn earliest_ns(&self) -> u64 {
        self.earliest_ns
    }

    /// Has a call that was [expired](Self::expired), and could not be ended then, looked at again.
    pub(crate) fn remind(&mut self, deadline_ns: u64) {
        self.earliest_ns = self.earliest_ns.min(deadline_ns);
    }

    /// The calls whose deadlines have passed.
    pub(crate) fn expired(&mut self, now_ns: u64) -> Vec<u32> {
        if now_ns < self.earliest_ns {
            return Vec::new();
        }
        self.earliest_ns = u64::MAX;
        let mut expired = Vec::new();
        for (number, slot) in self.all.iter().enumerate() {
            if !matches!(slot.state, State::Open(_)) {
                continue;
            }
            if slot.deadline_ns <= now_ns {
                expired.push(number as u32);
            } else {
                self.earliest_ns = self.earliest_ns.min(slot.deadline_ns);
            }
        }
        expired
    }

    /// The calls that have not ended and for which the condition is true.
    pub(crate) fn open_where(&self, mut is_it: impl FnMut(&T) -> bool) -> Vec<u32> {
        let slots = self.all.iter().enumerate();
        let open = slots.filter(|(_, slot)| matches!(&slot.state, State::Open(known) if is_it(known)));
        open.map(|(number, _)| number as u32).collect()
    }
}

#[cfg(test)]
mod tests;
