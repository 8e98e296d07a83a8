//! The queue as the threads of a pool use it: under a lock, with what they ask for at each call beside it.

use crate::locked::locked;
use crate::serving::terms::CallTerms;
use crate::serving::workers::queue::{Admitted, CallQueue, Charge, Place, Places};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A [`CallQueue`] of several threads, and its calls.
pub(super) struct SharedQueue<C> {
    queue: Mutex<Queued<C>>,
    told: Told,
}

/// The order of the calls that wait, and the calls.
pub(super) struct Queued<C> {
    pub(super) order: CallQueue,
    calls: Places<C>,
}

/// What threads ask for without the lock.
struct Told {
    runnable: AtomicBool,
    saturated: AtomicBool,
    crowded: AtomicBool,
    short: AtomicBool,
    empty: AtomicBool,
    processors: usize,
}

/// Calls for each processor with which the queue is not short.
const SHORT: usize = 16;

impl Told {
    fn publish(&self, queue: &CallQueue) {
        self.crowded.store(queue.is_crowded(), Ordering::Relaxed);
        self.empty.store(queue.len() == 0, Ordering::SeqCst);
        self.short.store(queue.len() < SHORT * self.processors, Ordering::Relaxed);
        // Before the thread that has queued a call looks for idle workers; pairs with `WorkerPool::await_command`.
        let is_runnable = queue.has_runnable();
        self.runnable.store(is_runnable, Ordering::SeqCst);
        let is_saturated = is_runnable || queue.len() > 0 && queue.busy() >= self.processors;
        self.saturated.store(is_saturated, Ordering::SeqCst);
    }
}

impl<C> Queued<C> {
    pub(super) fn new(order: CallQueue) -> Self {
        Self { order, calls: Places::default() }
    }

    /// Takes the call that `next` of the order gives, with its charge.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<(C, Charge)> {
        self.order.next(now_ns).map(|(place, charge)| (self.calls.take(place), charge))
    }

    /// Takes out the calls of these places.
    pub(super) fn take(&mut self, places: Vec<Place>) -> Vec<C> {
        places.into_iter().map(|place| self.calls.take(place)).collect()
    }

    /// Gives a worker to a call that has not waited, or [admits](Self::admit) it.
    pub(super) fn begin_or_admit(
        &mut self,
        now_ns: u64,
        call: C,
        terms: CallTerms,
        keep: impl FnOnce(&mut C),
    ) -> Result<(C, Charge), Admitted<C>> {
        match self.order.begin(&terms) {
            Some(charge) => Ok((call, charge)),
            None => Err(self.admit(now_ns, call, terms, keep)),
        }
    }

    /// Lets a call wait, for which `keep` prepares it, or refuses it, or another in its place.
    pub(super) fn admit(
        &mut self,
        now_ns: u64,
        mut call: C,
        terms: CallTerms,
        keep: impl FnOnce(&mut C),
    ) -> Admitted<C> {
        let admitted = self.order.admit(now_ns, self.calls.next(), terms);
        if let Admitted::Full(_, retry_after) = admitted {
            return Admitted::Full(call, retry_after);
        }
        keep(&mut call);
        self.calls.put(call);
        match admitted {
            Admitted::InPlaceOf(other, retry_after) => {
                Admitted::InPlaceOf(self.calls.take(other), retry_after)
            }
            _ => Admitted::Waits,
        }
    }
}

impl<C> SharedQueue<C> {
    pub(super) fn new(workers: usize, len_max: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let order = CallQueue::new(processors, workers, len_max);
        let told = Told {
            runnable: AtomicBool::new(false),
            saturated: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            short: AtomicBool::new(true),
            empty: AtomicBool::new(true),
            processors,
        };
        Self { queue: Mutex::new(Queued::new(order)), told }
    }

    /// Changes the order.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut CallQueue) -> R) -> R {
        let mut queue = locked(&self.queue);
        let result = change(&mut queue.order);
        self.told.publish(&queue.order);
        result
    }

    /// Takes out the calls of the places that `take` gives.
    pub(super) fn take(&self, take: impl FnOnce(&mut CallQueue) -> Vec<Place>) -> Vec<C> {
        let mut queue = locked(&self.queue);
        let places = take(&mut queue.order);
        self.told.publish(&queue.order);
        queue.take(places)
    }

    /// Takes the next call that may run.
    pub(super) fn next(&self, now_ns: u64) -> Option<(C, Charge)> {
        let mut queue = locked(&self.queue);
        let next = queue.next(now_ns);
        self.told.publish(&queue.order);
        next
    }

    /// As [`Queued::begin_or_admit`]. A call that is refused leaves the queue as it was, so that a refusal costs little.
    pub(super) fn begin_or_admit(
        &self,
        now_ns: u64,
        call: C,
        terms: CallTerms,
        keep: impl FnOnce(&mut C),
    ) -> Result<(C, Charge), Admitted<C>> {
        let mut queue = locked(&self.queue);
        let outcome = queue.begin_or_admit(now_ns, call, terms, keep);
        if !outcome.as_ref().is_err_and(Admitted::is_refused) {
            self.told.publish(&queue.order);
        }
        outcome
    }

    /// As [`Queued::admit`].
    pub(super) fn admit(
        &self,
        now_ns: u64,
        call: C,
        terms: CallTerms,
        keep: impl FnOnce(&mut C),
    ) -> Admitted<C> {
        let mut queue = locked(&self.queue);
        let admitted = queue.admit(now_ns, call, terms, keep);
        if !admitted.is_refused() {
            self.told.publish(&queue.order);
        }
        admitted
    }

    /// Whether a call waits that a worker could run now.
    #[inline]
    pub(super) fn has_runnable(&self) -> bool {
        self.told.runnable.load(Ordering::SeqCst)
    }

    /// Whether calls wait, and one could run or the workers keep all processors busy, as far as is known: then the background thread
    /// receives, and workers between two calls. While calls wait only because those of their owner that run sleep, a worker receives
    /// each packet at once, as ever.
    #[inline]
    pub(super) fn is_saturated(&self) -> bool {
        self.told.saturated.load(Ordering::SeqCst)
    }

    /// Whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.told.empty.load(Ordering::SeqCst)
    }

    /// Whether so few calls wait that the workers may soon have none.
    pub(super) fn is_short(&self) -> bool {
        self.told.short.load(Ordering::Relaxed)
    }

    /// Whether each call is to be looked at before it begins.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.told.crowded.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::cancelled::CallId;
    use crate::serving::terms::Priority;
    use stoop_exchange::shares::Owner;

    fn terms(procedure: u32) -> CallTerms {
        let (owner, priority) = (Owner::user(1), Priority::Normal);
        CallTerms {
            owner,
            part: 0,
            call: CallId::NONE,
            deadline_ns: u64::MAX,
            work_ns: 1,
            priority,
            procedure: Some(procedure),
            limit: None,
        }
    }

    /// Whether a queue of one processor is saturated when a call waits, because others of this procedure have the owner's share.
    fn is_saturated(slept: bool) -> bool {
        let mut queue = SharedQueue::new(4, 100);
        queue.told.processors = 1;
        let begin = || queue.begin_or_admit(0, 1, terms(7), |_| ());
        let Ok((_, first)) = begin() else { panic!("workers are free") };
        queue.with(|queue| queue.end(first, Some(slept)));
        while begin().is_ok() {}
        assert!(!queue.is_empty() && !queue.has_runnable());
        queue.is_saturated()
    }

    #[test]
    fn calls_that_wait_for_procedures_that_sleep_do_not_saturate() {
        assert!(is_saturated(false));
        assert!(!is_saturated(true));
    }
}
