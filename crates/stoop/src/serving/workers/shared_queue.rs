//! The queue as the threads of a pool use it: under a lock, with what they ask for at each call beside it.

use crate::locked::locked;
use crate::serving::terms::CallTerms;
use crate::serving::workers::queue::{Admitted, CallQueue, Charge};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A [`CallQueue`] of several threads.
pub(super) struct SharedQueue<C> {
    queue: Mutex<CallQueue<C>>,
    runnable: AtomicBool,
    saturated: AtomicBool,
    crowded: AtomicBool,
    short: AtomicBool,
    empty: AtomicBool,
    processors: usize,
}

/// Calls for each processor with which the queue is not short.
const SHORT: usize = 16;

impl<C> SharedQueue<C> {
    pub(super) fn new(workers: usize, len_max: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            queue: Mutex::new(CallQueue::new(processors, workers, len_max)),
            runnable: AtomicBool::new(false),
            saturated: AtomicBool::new(false),
            processors,
            crowded: AtomicBool::new(false),
            short: AtomicBool::new(true),
            empty: AtomicBool::new(true),
        }
    }

    /// Changes the queue.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut CallQueue<C>) -> R) -> R {
        let mut queue = locked(&self.queue);
        let result = change(&mut queue);
        self.publish(&queue);
        result
    }

    /// As [`CallQueue::begin_or_admit`]. A call that is refused leaves the queue as it was, so that a refusal costs little.
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
            self.publish(&queue);
        }
        outcome
    }

    /// As [`CallQueue::admit`].
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
            self.publish(&queue);
        }
        admitted
    }

    /// Stores what threads ask for without the lock.
    fn publish(&self, queue: &CallQueue<C>) {
        self.crowded.store(queue.is_crowded(), Ordering::Relaxed);
        self.empty.store(queue.len() == 0, Ordering::SeqCst);
        self.short.store(queue.len() < SHORT * self.processors, Ordering::Relaxed);
        // Before the thread that has queued a call looks for idle workers; pairs with `WorkerPool::await_command`.
        let is_runnable = queue.has_runnable();
        self.runnable.store(is_runnable, Ordering::SeqCst);
        let is_saturated = is_runnable || queue.len() > 0 && queue.busy() >= self.processors;
        self.saturated.store(is_saturated, Ordering::SeqCst);
    }

    /// Whether a call waits that a worker could run now.
    #[inline]
    pub(super) fn has_runnable(&self) -> bool {
        self.runnable.load(Ordering::SeqCst)
    }

    /// Whether calls wait, and one could run or the workers keep all processors busy, as far as is known: then the background thread
    /// receives, and workers between two calls. While calls wait only because those of their owner that run sleep, a worker receives
    /// each packet at once, as ever.
    #[inline]
    pub(super) fn is_saturated(&self) -> bool {
        self.saturated.load(Ordering::SeqCst)
    }

    /// Whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.empty.load(Ordering::SeqCst)
    }

    /// Whether so few calls wait that the workers may soon have none.
    pub(super) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Whether each call is to be looked at before it begins.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
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
        let queue = SharedQueue { processors: 1, ..SharedQueue::new(4, 100) };
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
