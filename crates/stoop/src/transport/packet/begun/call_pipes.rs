//! What a begun call over packets keeps of its pipes: for their ends at the program, and in its slot.

use crate::calling::begun::PipeTerms;
use crate::context::bounded_deadline;
use crate::pipes::contract::Pipes;
use crate::pipes::helper::Gathering;
use crate::pipes::queue::PipeQueue;
use crate::pipes::window::Window;
use crate::transport::packet::pipes::{FIRST_LIMIT, Outlet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32};
use stoop_exchange::Instant;
use stoop_net::clock;

/// The queues of a call's pipes at its caller, and the terms of its steps.
pub(crate) struct CallerPipes {
    pub(super) out: Option<Arc<PipeQueue>>,
    pub(super) into: Option<Arc<PipeQueue>>,
    /// How long each step of the call may take.
    pub(super) step_ns: u64,
    /// When the whole call has to have ended.
    pub(super) whole: Instant,
    /// The ends that the program has not closed or stopped.
    pub(super) open: AtomicU8,
    /// The slot in the table of calls whose lane carries the pipes. Changes under the table's lock.
    pub(super) slot: AtomicU32,
    pub(super) gathering: Gathering,
}

impl CallerPipes {
    pub(super) fn new(terms: &PipeTerms, step_ns: u64) -> Arc<Self> {
        let Pipes { to_procedure, from_procedure } = terms.pipes;
        let out = to_procedure.then(|| Arc::new(PipeQueue::new(FIRST_LIMIT, Window::Usual)));
        let window = terms.window.size().of_packets();
        let into = from_procedure.then(|| Arc::new(PipeQueue::sized(window.bytes(), window)));
        Arc::new(Self {
            out,
            into,
            step_ns,
            whole: Instant::from_nanos(bounded_deadline(clock::now_ns(), terms.total_ns)),
            open: AtomicU8::new(u8::from(to_procedure) + u8::from(from_procedure)),
            slot: AtomicU32::new(u32::MAX),
            gathering: Gathering::default(),
        })
    }
}

/// The pipes of the call in a slot.
pub(crate) struct SlotPipes {
    pub(super) shared: Arc<CallerPipes>,
    pub(super) outlet: Outlet,
    /// The program has closed or stopped its ends: the call has to end by the slot's deadline.
    pub(super) is_ending: bool,
    /// The call has failed: behind what was sent before, the pipe from the procedure is aborted.
    pub(super) has_failed: bool,
}

impl SlotPipes {
    /// Whether there is a pipe from the procedure: the answer begins with its length.
    pub(super) fn has_into(&self) -> bool {
        self.shared.into.is_some()
    }

    pub(super) fn is_of(&self, shared: &Arc<CallerPipes>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }
}
