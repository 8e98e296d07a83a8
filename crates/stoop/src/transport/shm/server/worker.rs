//! What a worker keeps from one call to the next.

use crate::options::Waiting;
use crate::transport::shm::server::binding::Binding;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_net::clock;
use stoop_net::poller::Events;
use stoop_net::waiting::{OngoingWait, Placement, Waiter};

/// Calls of brief procedures that are answered in a row without a look at the clock.
const UNCLOCKED_MAX: u32 = 7;
/// A worker that has taken a chunk of a long message expects the next within this time.
const NEXT_CHUNK_NS: u64 = 100_000;

/// A worker's buffers and way of waiting.
pub(crate) struct WorkerState {
    /// Where the arguments of the next call go.
    pub(super) arguments: Vec<u8>,
    pub(super) result: Vec<u8>,
    /// The binding whose results the result packet has held so far.
    pub(super) result_of: u64,
    pub(super) events: Option<Events>,
    pub(super) waiter: Waiter,
    /// When this worker last looked at the clock, and when it last asked the poller.
    pub(super) clock_ns: u64,
    pub(super) asked_ns: u64,
    /// Calls that have been answered since, without another look.
    unclocked: u32,
    /// The processor on which it runs, as of its last call.
    pub(super) cpu: u16,
    /// When a chunk of a long message was last moved.
    pub(super) moved_ns: u64,
    /// The binding of the last call, if that was brief: the next is most likely of the same, and need not count itself in.
    kept: Option<Arc<Binding>>,
    /// Calls taken in a row from one binding before others have their turn.
    pub(super) in_a_row: u32,
    /// How often to look at the kept binding before the others have their turn.
    pub(super) looks_at_kept: u32,
    /// A call that has been answered has its place among the active ones still, for the next: to count one out and another in takes
    /// longer than many a procedure.
    pub(super) has_place: bool,
    /// The last call took so little time that nobody has taken the receive role from this worker meanwhile.
    pub(super) was_brief: bool,
    /// When the last call of its binding had been answered, the next was there.
    pub(super) has_more: bool,
    /// Calls begun by this worker, who alone writes it.
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
            moved_ns: 0,
            kept: None,
            in_a_row: 0,
            looks_at_kept: 0,
            has_place: false,
            has_more: false,
            was_brief: false,
            calls,
        }
    }

    /// Looks at the clock.
    #[inline]
    pub(super) fn read_clock(&mut self) {
        self.clock_ns = clock::now_ns();
        self.unclocked = 0;
    }

    /// A call has been answered, of a procedure that is known to be brief, and the next is there: whether that may go without a look
    /// at the clock, which takes longer than many a procedure.
    #[inline]
    pub(super) fn skips_clock(&mut self) -> bool {
        let skips = self.unclocked < UNCLOCKED_MAX;
        self.unclocked += u32::from(skips);
        skips
    }

    /// A call has been answered that began at `begun_ns`: looks at the clock. Returns how long it took, or calls like it on an
    /// average since the last look.
    #[inline]
    pub(super) fn time_since(&mut self, begun_ns: u64) -> u64 {
        let calls = u64::from(self.unclocked + 1);
        self.read_clock();
        self.clock_ns.saturating_sub(begun_ns) / calls
    }

    /// One call more has been begun.
    #[inline]
    pub(super) fn count_call(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A binding for a call of it.
    #[inline]
    pub(super) fn hold(&mut self, binding: &Arc<Binding>) -> Arc<Binding> {
        match self.kept.take() {
            Some(kept) if Arc::ptr_eq(&kept, binding) => kept,
            _ => Arc::clone(binding),
        }
    }

    /// The binding of the last call, if that was brief.
    #[inline]
    pub(super) fn take_kept(&mut self) -> Option<Arc<Binding>> {
        self.kept.take()
    }

    /// The binding of a call that has been answered.
    #[inline]
    pub(super) fn keep(&mut self, binding: Arc<Binding>) {
        self.kept = Some(binding);
    }

    /// Who sleeps keeps nothing that others may want to see gone.
    pub(super) fn let_go(&mut self) {
        self.kept = None;
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
