//! The calls in flight of a calls: what is known of each, and whom its end concerns.
//!
//! Whoever keeps them under a lock tells about an end ([`Wakeup::give`]) when it has let go of the lock: a waker may do
//! anything.

use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::error::CallError;
use std::task::Waker;
use std::thread::Thread;

/// Calls by their numbers, which are used again.
pub(crate) struct CallTable<T> {
    all: Vec<Slot<T>>,
    free: Vec<u32>,
    open: usize,
    /// Of the open ones, those for which a waker waits.
    polled: usize,
    /// Of the open ones, those whose handles are gone.
    detached: usize,
    /// No open call has an earlier deadline.
    earliest_ns: u64,
    /// Of calls without handles.
    pub(crate) failures: Failures,
}

struct Slot<T> {
    state: State<T>,
    deadline_ns: u64,
    owner: Owner,
    thread: Option<Thread>,
    waker: Option<Waker>,
}

/// Whose a call is.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    Handle,
    /// It goes on without a handle. It may be an ordered one-way call of that thread.
    Detached(Option<CallingThread>),
}

enum State<T> {
    Free,
    /// It has not ended: what its calls knows of it.
    Open(T),
    Ended(Outcome),
}

/// How a call ended.
pub(crate) type Outcome = Result<Payload, CallError>;

/// The bytes of a result, in the packet that brought them.
#[derive(Debug)]
pub(crate) struct Payload {
    packet: Vec<u8>,
    start: usize,
    len: usize,
}

impl Payload {
    /// `len` bytes of `packet` from `start` on.
    pub(crate) fn new(packet: Vec<u8>, start: usize, len: usize) -> Self {
        Self { packet, start, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.packet[self.start..self.start + self.len]
    }
}

/// Whoever waits for a call that has ended.
#[derive(Debug, Default)]
#[must_use = "whoever waits is to be told"]
pub(crate) struct Wakeup {
    thread: Option<Thread>,
    pub(crate) waker: Option<Waker>,
}

impl Wakeup {
    /// Itself, if a thread or a task waits for the call.
    pub(crate) fn if_awaited(self) -> Option<Self> {
        (self.thread.is_some() || self.waker.is_some()).then_some(self)
    }

    /// Tells them. No lock is held.
    pub(crate) fn give(self) {
        if let Some(thread) = self.thread {
            thread.unpark();
        }
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }

    /// Wakes the thread; the waker is for later.
    pub(crate) fn unpark(self) -> Option<Waker> {
        if let Some(thread) = self.thread {
            thread.unpark();
        }
        self.waker
    }
}

impl<T> Default for CallTable<T> {
    fn default() -> Self {
        let (open, polled, detached, earliest_ns) = (0, 0, 0, u64::MAX);
        let failures = Failures::default();
        Self { all: Vec::new(), free: Vec::new(), open, polled, detached, earliest_ns, failures }
    }
}

impl<T> CallTable<T> {
    /// A call begins.
    pub(crate) fn open(&mut self, deadline_ns: u64, known: T) -> u32 {
        self.open += 1;
        self.earliest_ns = self.earliest_ns.min(deadline_ns);
        let (state, owner) = (State::Open(known), Owner::Handle);
        let slot = Slot { state, deadline_ns, owner, thread: None, waker: None };
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = slot;
            return number;
        }
        let number =
            u32::try_from(self.all.len()).expect("four thousand million calls do not fit into memory");
        self.all.push(slot);
        number
    }

    /// How many have not ended.
    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// How many of these have handles.
    pub(crate) fn attended(&self) -> usize {
        self.open - self.detached
    }

    /// Whether a waker waits for one of them.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled > 0
    }

    /// What is known of a call that has not ended.
    pub(crate) fn get_mut(&mut self, call: u32) -> Option<&mut T> {
        match self.all.get_mut(call as usize).map(|slot| &mut slot.state) {
            Some(State::Open(known)) => Some(known),
            _ => None,
        }
    }

    /// When its caller stops waiting.
    pub(crate) fn deadline_ns(&self, call: u32) -> u64 {
        self.all[call as usize].deadline_ns
    }

    pub(crate) fn has_ended(&self, call: u32) -> bool {
        matches!(self.all[call as usize].state, State::Ended(_))
    }

    /// The place of one that has ended.
    pub(crate) fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        calls.iter().position(|&call| self.has_ended(call))
    }

    /// An open call ends. Its outcome waits for its handle, if it has one.
    pub(crate) fn end(&mut self, call: u32, outcome: Outcome) -> Wakeup {
        let notice = self.close(call);
        let slot = &mut self.all[call as usize];
        match (slot.owner, outcome) {
            (Owner::Handle, outcome) => slot.state = State::Ended(outcome),
            (Owner::Detached(calling_thread), outcome) => {
                self.release(call);
                if let Err(error) = outcome {
                    self.failures.note(error, calling_thread);
                }
            }
        }
        notice
    }

    /// A call is open no longer. Returns who waits for it.
    fn close(&mut self, call: u32) -> Wakeup {
        let slot = &mut self.all[call as usize];
        debug_assert!(matches!(slot.state, State::Open(_)), "a call ends once");
        self.open -= 1;
        self.polled -= usize::from(slot.waker.is_some());
        self.detached -= usize::from(slot.owner != Owner::Handle);
        Wakeup { thread: slot.thread.take(), waker: slot.waker.take() }
    }

    fn release(&mut self, call: u32) {
        self.all[call as usize].state = State::Free;
        self.free.push(call);
    }

    /// The outcome of a call that has ended, for its handle.
    ///
    /// # Panics
    /// When it has not.
    pub(crate) fn take(&mut self, call: u32) -> Outcome {
        let state = std::mem::replace(&mut self.all[call as usize].state, State::Free);
        self.free.push(call);
        match state {
            State::Ended(outcome) => outcome,
            State::Open(_) | State::Free => panic!("the outcome of a call is taken when it has ended"),
        }
    }

    /// Nobody is interested in a call any more. Returns what is known of it if it has not ended, and a waker, which is
    /// not woken.
    pub(crate) fn give_up(&mut self, call: u32) -> (Option<T>, Option<Waker>) {
        let waker = match self.has_ended(call) {
            true => None,
            false => self.close(call).waker,
        };
        let state = std::mem::replace(&mut self.all[call as usize].state, State::Free);
        self.free.push(call);
        match state {
            State::Open(known) => (Some(known), waker),
            State::Ended(_) | State::Free => (None, waker),
        }
    }

    /// It goes on without its handle; it may be an ordered one-way call of that thread. Returns a waker, which is not woken.
    pub(crate) fn detach(&mut self, call: u32, calling_thread: Option<CallingThread>) -> Option<Waker> {
        if self.has_ended(call) {
            if let Err(error) = self.take(call) {
                self.failures.note(error, calling_thread);
            }
            return None;
        }
        let slot = &mut self.all[call as usize];
        slot.owner = Owner::Detached(calling_thread);
        self.detached += 1;
        self.polled -= usize::from(slot.waker.is_some());
        slot.waker.take()
    }

    /// Gives one of these calls, if one has not ended, to a handle again, and tells whose ordered one-way call it was.
    pub(crate) fn reclaim(&mut self, which: Selection) -> Option<(u32, Option<CallingThread>)> {
        let mut slots = self.all.iter_mut().enumerate();
        let (call, slot, calling_thread) =
            slots.find_map(|(call, slot)| match (&slot.state, slot.owner) {
                (State::Open(_), Owner::Detached(calling_thread)) if which.includes(calling_thread) => {
                    Some((call, slot, calling_thread))
                }
                _ => None,
            })?;
        slot.owner = Owner::Handle;
        self.detached -= 1;
        Some((call as u32, calling_thread))
    }

    /// How many calls without handles have not ended.
    pub(crate) fn detached(&self) -> usize {
        self.detached
    }

    /// A thread waits for these calls; `None`: it waits no longer.
    pub(crate) fn attend(&mut self, calls: &[u32], thread: Option<&Thread>) {
        for &call in calls {
            self.all[call as usize].thread = thread.cloned();
        }
    }

    /// A waker waits for a call that has not ended. Returns the one that did before.
    pub(crate) fn register(&mut self, call: u32, waker: Waker) -> Option<Waker> {
        let before = self.all[call as usize].waker.replace(waker);
        self.polled += usize::from(before.is_none());
        before
    }

    /// Whether the waker that waits for a call does the same as this one.
    pub(crate) fn is_registered(&self, call: u32, waker: &Waker) -> bool {
        self.all[call as usize].waker.as_ref().is_some_and(|registered| registered.will_wake(waker))
    }

    /// No call's deadline is before this.
    pub(crate) fn earliest_ns(&self) -> u64 {
        self.earliest_ns
    }

    /// A call that had [expired](Self::expired) could not be ended then, and is to be looked at again.
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

    /// The numbers of the calls that have not ended and of which that is true.
    pub(crate) fn open_where(&self, mut is_it: impl FnMut(&T) -> bool) -> Vec<u32> {
        let slots = self.all.iter().enumerate();
        let open = slots.filter(|(_, slot)| matches!(&slot.state, State::Open(known) if is_it(known)));
        open.map(|(number, _)| number as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::call_table::*;
    use crate::error::SendError;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn result() -> Outcome {
        Ok(Payload::new(vec![1, 2, 3, 4], 1, 2))
    }

    #[test]
    fn a_number_is_its_handles_until_it_is_given_back() {
        let mut slots = CallTable::default();
        let (first, second) = (slots.open(10, 'a'), slots.open(20, 'b'));
        slots.end(first, result()).give();
        assert_ne!(slots.open(30, 'c'), first);
        assert_eq!((slots.ended_among(&[second, first]), slots.open_count()), (Some(1), 2));
        assert_eq!(slots.take(first).unwrap().bytes(), [2, 3]);
        assert_eq!(slots.open(30, 'd'), first);
        assert_eq!(slots.give_up(second).0, Some('b'));
        assert_eq!((slots.open(30, 'e'), slots.open_count()), (second, 3));
    }

    #[test]
    fn a_detached_call_gives_its_number_back_when_it_ends() {
        let mut slots = CallTable::default();
        let call = slots.open(10, ());
        assert_eq!(slots.attended(), 1);
        assert!(slots.detach(call, None).is_none());
        assert_eq!((slots.attended(), slots.open_count()), (0, 1));
        assert_ne!(slots.open(10, ()), call);
        slots.end(call, Err(CallError::NotSent(SendError::Closed))).give();
        assert_eq!(slots.open(10, ()), call);
        assert_eq!((slots.attended(), slots.open_count()), (2, 2));
    }

    #[test]
    fn a_waker_is_told_once() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut slots = CallTable::default();
        let call = slots.open(10, ());
        assert!(slots.register(call, waker.clone()).is_none());
        assert!(slots.is_registered(call, &waker) && slots.is_polled());
        assert!(slots.register(call, waker).is_some());
        slots.end(call, result()).give();
        assert!(!slots.is_polled() && woken.0.load(Ordering::Relaxed) == 1);
    }

    #[test]
    fn deadlines_are_looked_at_when_the_earliest_has_passed() {
        let mut slots = CallTable::default();
        let (late, early) = (slots.open(20, ()), slots.open(10, ()));
        assert_eq!((slots.earliest_ns(), slots.expired(9)), (10, vec![]));
        assert_eq!((slots.expired(15), slots.earliest_ns()), (vec![early], 20));
        slots.end(early, result()).give();
        assert_eq!(slots.expired(25), [late]);
    }
}
