//! What a worker keeps from one call to the next.

use super::binding::Binding;
use crate::bind::Waiting;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_net::clock;
use stoop_net::poller::Events;
use stoop_net::waiting::{Company, Crowd, MachineCosts, Member, Present, Wait};

/// A worker's buffers and way of waiting.
pub(in crate::server) struct Desk {
    /// Where the arguments of the next call go.
    pub(super) arguments: Vec<u8>,
    pub(super) result: Vec<u8>,
    /// The binding whose results the result packet has held so far.
    pub(super) result_of: u64,
    pub(super) events: Option<Events>,
    pub(super) wait: Wait,
    /// Of a worker: the housekeeper never waits.
    crowd: Option<Member<'static>>,
    together: bool,
    /// When this worker last looked at the clock, and when it last asked the poller.
    pub(super) clock_ns: u64,
    pub(super) asked_ns: u64,
    /// The processor on which it runs, as of its last call.
    pub(super) cpu: u16,
    /// When a chunk of a long message was last moved.
    pub(super) moved_ns: u64,
    /// The binding of the last call, if that was brief: the next is most likely of the same, and need not count itself in.
    kept: Option<Arc<Binding>>,
    /// The last call took so little time that nobody has taken the receive role from this worker meanwhile.
    pub(super) was_brief: bool,
    /// Calls begun by this worker, who alone writes it.
    calls: Arc<AtomicU64>,
}

impl Desk {
    pub(super) fn new(waiting: Waiting, waiting_max: u32, calls: Arc<AtomicU64>) -> Self {
        let company = Company { together: true, waiting_max };
        Self {
            arguments: Vec::new(),
            result: Vec::new(),
            result_of: 0,
            events: None,
            wait: Wait::new(waiting, MachineCosts::of_this_machine(), company),
            crowd: None,
            together: true,
            clock_ns: clock::now_ns(),
            asked_ns: 0,
            cpu: 0,
            moved_ns: 0,
            kept: None,
            was_brief: false,
            calls,
        }
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

    /// The binding of a call that has been answered.
    #[inline]
    pub(super) fn keep(&mut self, binding: Arc<Binding>) {
        self.kept = Some(binding);
    }

    /// Who sleeps keeps nothing that others may want to see gone.
    pub(super) fn let_go(&mut self) {
        self.kept = None;
    }

    /// A wait for the next call begins. Returns the presence of one that spins, nothing of one that sleeps.
    #[inline]
    pub(super) fn begin_waiting<'a>(&mut self, crowd: &'a Crowd) -> Option<Present<'a>> {
        let present = self.crowd.get_or_insert_with(|| Crowd::of_this_process().member()).wait();
        if self.wait.begin(self.clock_ns, crowd.waiting()) > 0 {
            return Some(present);
        }
        self.wait.sleeps(self.clock_ns);
        None
    }

    /// The latest caller is the likeliest to call next: whether it can run while this worker does.
    #[inline]
    pub(super) fn keep_company(&mut self, together: bool, waiting_max: u32) {
        if self.together != together {
            self.together = together;
            self.wait.set_company(Company { together, waiting_max });
        }
    }
}
