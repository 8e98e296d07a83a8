//! The state that a worker keeps from one call to the next.

use crate::options::Waiting;
use crate::transport::shm::server::binding::Binding;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_net::clock;
use stoop_net::poller::Events;
use stoop_net::waiting::{OngoingWait, Placement, Waiter};

/// Calls of short procedures that are answered in a row without a look at the clock.
const UNCLOCKED_MAX: u32 = 7;
/// A worker that has taken a chunk of a long message expects the next within this time.
const NEXT_CHUNK_NS: u64 = 100_000;

/// A worker's buffers and way of waiting.
pub(crate) struct WorkerState {
    /// Where the arguments of the next call go.
    pub(super) arguments: Vec<u8>,
    pub(super) result: Vec<u8>,
    /// The binding whose results the result buffer has held so far.
    pub(super) result_of: u64,
    pub(super) events: Option<Events>,
    pub(super) waiter: Waiter,
    /// When this worker last looked at the clock, and when it last asked the poller.
    pub(super) clock_ns: u64,
    pub(super) asked_ns: u64,
    /// Calls that were answered since the last look at the clock.
    unclocked: u32,
    /// The processor on which it runs, as of its last call.
    pub(super) cpu: u16,
    /// Of the call that runs: what its result tells of its time here, in nanoseconds; 0: nothing.
    pub(super) told_ns: u32,
    /// When a chunk of a long message was last moved.
    pub(super) moved_ns: u64,
    /// The binding of the last call, if that was short: the next call is most likely from there, and need not count a reference.
    last: Option<Arc<Binding>>,
    /// Calls taken in a row from one binding, and how many they may be before others have their turn.
    pub(super) in_a_row: u32,
    pub(super) in_a_row_max: u32,
    /// Looks at the last binding before the others have their turn.
    pub(super) looks_at_last: u32,
    /// The worker is counted among the active calls for its last call, though that is answered: to count one call out and the next in
    /// takes longer than many procedures.
    pub(super) is_counted: bool,
    /// The last call took so little time that no other thread has taken the receive role meanwhile.
    pub(super) was_short: bool,
    /// The next call of the binding was there when the last was answered.
    pub(super) has_more: bool,
    /// Calls begun by this worker. No other thread writes it.
    calls: Arc<AtomicU64>,
}

impl WorkerState {
    pub(super) fn new(waiting: Waiting, waiting_max: u32, calls: Arc<AtomicU64>) -> Self {
        let placement = Placement { together: true, waiting_max };
        Self {
            arguments: Vec::new(),
            result: Vec::new(),
            result_of: 0,
            events: None,
            waiter: Waiter::new(waiting, placement),
            clock_ns: clock::now_ns(),
            asked_ns: 0,
            unclocked: 0,
            cpu: 0,
            told_ns: 0,
            moved_ns: 0,
            last: None,
            in_a_row: 0,
            in_a_row_max: 0,
            looks_at_last: 0,
            is_counted: false,
            has_more: false,
            was_short: false,
            calls,
        }
    }

    /// Looks at the clock.
    #[inline]
    pub(super) fn read_clock(&mut self) {
        self.clock_ns = clock::now_ns();
        self.unclocked = 0;
    }

    /// Whether the clock need not be read after a call of a short procedure when the next call is there: reading it takes longer than
    /// many procedures.
    #[inline]
    pub(super) fn skips_clock(&mut self) -> bool {
        let skips = self.unclocked < UNCLOCKED_MAX;
        self.unclocked += u32::from(skips);
        skips
    }

    /// Reads the clock after a call that began at `begun_ns`. Returns how long the call took, or the mean of the calls since the last
    /// look.
    #[inline]
    pub(super) fn time_since(&mut self, begun_ns: u64) -> u64 {
        let calls = u64::from(self.unclocked + 1);
        self.read_clock();
        self.clock_ns.saturating_sub(begun_ns) / calls
    }

    /// Counts a call that begins.
    #[inline]
    pub(super) fn count_call(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A call that was counted has been refused.
    #[cold]
    pub(super) fn uncount_call(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// A reference to a binding, for a call of it.
    #[inline]
    pub(super) fn hold(&mut self, binding: &Arc<Binding>) -> Arc<Binding> {
        match self.last.take() {
            Some(last) if Arc::ptr_eq(&last, binding) => last,
            _ => Arc::clone(binding),
        }
    }

    /// Takes the binding of the last call, if that was short.
    #[inline]
    pub(super) fn take_last(&mut self) -> Option<Arc<Binding>> {
        self.last.take()
    }

    /// Remembers the binding of a call that was answered.
    #[inline]
    pub(super) fn set_last(&mut self, binding: Arc<Binding>) {
        self.last = Some(binding);
    }

    /// Lets go of the last binding: a sleeping worker keeps no binding alive.
    pub(super) fn forget_last(&mut self) {
        self.last = None;
    }

    /// A look for calls found none: lets others run if that is how the worker waits, looks at the clock,
    /// and decides whether to sleep. There is no time to sleep in the midst of a message.
    #[inline]
    pub(super) fn pause(&mut self, wait: &mut OngoingWait) {
        if self.clock_ns.saturating_sub(self.moved_ns) < NEXT_CHUNK_NS {
            wait.let_others_run();
            return self.read_clock();
        }
        self.clock_ns = self.waiter.pause(wait, self.clock_ns);
        self.unclocked = 0;
    }
}
