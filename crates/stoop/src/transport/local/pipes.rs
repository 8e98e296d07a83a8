//! The pipes of a begun call to a server of this process: queues that both programs use.
//!
//! Items are marshaled, like the arguments of the call: the sender goes on, and may change the values that it has passed.

use crate::calling::begun::PipeTerms;
use crate::context::bounded_deadline;
use crate::error::CallError;
use crate::pipes::contract::{Close, Ends, FIRST_WINDOW, Pipes, next_look_ns};
use crate::pipes::ends::{Carrier, QueueEnds, Side};
use crate::pipes::error::PipeError;
use crate::pipes::queue::PipeQueue;
use crate::pipes::waiters::Wakeup;
use crate::pipes::window::Window;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use stoop_net::clock;

/// The queues of a call's pipes.
#[derive(Clone)]
pub(crate) struct LocalPipes(Arc<Both>);

struct Both {
    to_procedure: Option<Arc<PipeQueue>>,
    from_procedure: Option<Arc<PipeQueue>>,
    /// When the call has to have ended: as a whole, and since the caller's ends were closed, also if it has not begun to run before.
    deadline_ns: AtomicU64,
    /// How long each step of the call may take.
    step_ns: u64,
    /// The caller's ends that its program has not closed or stopped.
    open: AtomicU8,
}

/// The table that has the call.
pub(crate) trait OfCall: Send + Sync {
    /// The caller has closed its ends: the call is to end by its deadline of now.
    fn expect_result(&self, call: u32, pipes: &LocalPipes);
}

/// The ends of the caller.
struct Callers {
    pipes: LocalPipes,
    calls: Weak<dyn OfCall>,
    call: u32,
    /// Bytes of the longest item.
    item_max: usize,
}

/// The ends of the procedure.
struct Procedures {
    pipes: LocalPipes,
    item_max: usize,
}

impl Carrier for Procedures {
    fn queue(&self, side: Side) -> Option<&Arc<PipeQueue>> {
        match side {
            Side::Sending => self.pipes.0.from_procedure.as_ref(),
            Side::Receiving => self.pipes.0.to_procedure.as_ref(),
        }
    }

    fn appended(&self, _: usize, _: &Weak<QueueEnds<Self>>) {}

    fn granted(&self) {}

    fn ended(&self, _: Side) {}

    fn flush(&self) {}

    fn item_max(&self) -> usize {
        self.item_max
    }
}

impl Carrier for Callers {
    fn queue(&self, side: Side) -> Option<&Arc<PipeQueue>> {
        match side {
            Side::Sending => self.pipes.0.to_procedure.as_ref(),
            Side::Receiving => self.pipes.0.from_procedure.as_ref(),
        }
    }

    fn appended(&self, _: usize, _: &Weak<QueueEnds<Self>>) {}

    fn granted(&self) {}

    fn ended(&self, _: Side) {
        if self.pipes.0.open.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some(calls) = self.calls.upgrade()
        {
            let deadline_ns = clock::now_ns().saturating_add(self.pipes.0.step_ns);
            self.pipes.0.deadline_ns.fetch_min(deadline_ns, Ordering::SeqCst);
            calls.expect_result(self.call, &self.pipes);
        }
    }

    fn flush(&self) {}

    fn callers_step_ns(&self) -> Option<u64> {
        Some(self.pipes.0.step_ns)
    }

    fn item_max(&self) -> usize {
        self.item_max
    }
}

impl LocalPipes {
    pub(crate) fn new(terms: &PipeTerms, step_ns: u64) -> Self {
        let Pipes { to_procedure, from_procedure } = terms.pipes;
        let queue = |limit, window| Arc::new(PipeQueue::new(limit, window));
        Self(Arc::new(Both {
            to_procedure: to_procedure.then(|| queue(FIRST_WINDOW, Window::Usual)),
            from_procedure: from_procedure.then(|| queue(0, terms.window)),
            deadline_ns: AtomicU64::new(bounded_deadline(clock::now_ns(), terms.total_ns)),
            step_ns,
            open: AtomicU8::new(u8::from(to_procedure) + u8::from(from_procedure)),
        }))
    }

    /// Whether both are those of one call.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether these are the pipes that a procedure has.
    pub(crate) fn are(&self, pipes: Pipes) -> bool {
        let Both { to_procedure, from_procedure, .. } = &*self.0;
        pipes == (Pipes { to_procedure: to_procedure.is_some(), from_procedure: from_procedure.is_some() })
    }

    /// When the call has to have ended, once it runs.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.0.deadline_ns.load(Ordering::SeqCst)
    }

    /// When it has to have ended, or its deadline is looked at again.
    pub(crate) fn due_ns(&self, now_ns: u64) -> u64 {
        self.deadline_ns().min(next_look_ns(now_ns, self.0.step_ns))
    }

    /// The ends of the caller, of the call that has this number in the table.
    pub(crate) fn callers_ends(&self, (calls, call): (&Weak<dyn OfCall>, u32), item_max: usize) -> Ends {
        let (pipes, calls) = (self.clone(), Weak::clone(calls));
        QueueEnds::of(Callers { pipes, calls, call, item_max })
    }

    /// The ends of the procedure.
    pub(crate) fn servers_ends(&self, item_max: usize) -> Ends {
        QueueEnds::of(Procedures { pipes: self.clone(), item_max })
    }

    /// The call has ended, with a result or with this error.
    pub(crate) fn end(&self, outcome: Result<(), &CallError>) {
        let how = match outcome {
            Ok(()) => Close::Whole,
            Err(CallError::Failed(..)) => Close::Aborted,
            Err(error) => return self.fail(&PipeError::Lost(Box::new(error.clone()))),
        };
        let Both { to_procedure, from_procedure, .. } = &*self.0;
        if let Some(queue) = from_procedure {
            queue.close(how).into_iter().flatten().for_each(Wakeup::give);
        }
        if let Some(queue) = to_procedure {
            queue.fail(&PipeError::Ended).into_iter().for_each(Wakeup::give);
        }
    }

    /// The pipes end at both sides, for this reason.
    pub(crate) fn fail(&self, why: &PipeError) {
        let Both { to_procedure, from_procedure, .. } = &*self.0;
        for queue in [to_procedure, from_procedure].into_iter().flatten() {
            queue.fail(why).into_iter().for_each(Wakeup::give);
        }
    }
}
