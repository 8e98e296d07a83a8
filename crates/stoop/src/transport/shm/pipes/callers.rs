//! The pipes of a begun call, at its caller.

use crate::error::{CallError, UnbindReason, UnknownCause};
use crate::pipes::contract::{Ends, FIRST_WINDOW, Pipes};
use crate::pipes::error::PipeError;
use crate::pipes::window::Window;
use crate::transport::shm::caller::lanes::OwedPipes;
use crate::transport::shm::caller::session::Session;
use crate::transport::shm::pipes::reading::ReadingEnd;
use crate::transport::shm::pipes::side::{Side, lost};
use crate::transport::shm::pipes::writing::{Terms, WritingEnd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use stoop_net::waiting::{Waiter, Waiting};
use stoop_shm::pipe::{Reading, Writing};
use stoop_shm::{Segment, Way};

/// The pipes of a call.
pub(crate) struct CallersPipes {
    pipes: Pipes,
    writing: Option<Arc<WritingEnd<CallersSide>>>,
    /// The program has it.
    reading: Weak<ReadingEnd<CallersSide>>,
    /// As long as this is used, no other call uses the lane.
    side: Weak<CallersSide>,
}

/// The caller's side of a call.
pub(crate) struct CallersSide {
    session: Arc<Session>,
    waiting: Waiting,
    calls: Weak<dyn OfCall>,
    call: (u32, u64),
    /// The ends that the program has not closed or stopped.
    open: AtomicU8,
    step_ns: u64,
}

/// The table that has the call.
pub(crate) trait OfCall: Send + Sync {
    /// The program has dropped an end, for which its call may have been kept.
    fn left(&self);

    /// The caller has closed its ends: the call is to end within that time.
    fn expect_result(&self, call: (u32, u64), step_ns: u64);
}

/// What the pipes of a call depend on.
pub(crate) struct PipeSetup {
    pub(crate) pipes: Pipes,
    pub(crate) window: Window,
    pub(crate) waiting: Waiting,
    pub(crate) step_ns: u64,
    pub(crate) item_max: usize,
}

impl Side for CallersSide {
    #[inline]
    fn segment(&self) -> &Segment {
        &self.session.segment
    }

    fn notify(&self) {
        self.session.ring_after_post();
    }

    fn end_binding(&self) {
        self.session.lose(UnbindReason::Disorder);
    }

    fn waiter(&self) -> Waiter {
        Waiter::new(self.waiting, self.session.placement)
    }

    /// The background thread listens as long as there are calls with pipes.
    fn attend(&self, _begins: bool) {}

    fn ended(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some(calls) = self.calls.upgrade()
        {
            calls.expect_result(self.call, self.step_ns);
        }
    }

    fn left(&self) {
        if let Some(calls) = self.calls.upgrade() {
            calls.left();
        }
    }
}

impl CallersPipes {
    /// The pipes of a call that is about to be published on that lane, and the ends for its program.
    pub(crate) fn new(
        (session, lane): (&Arc<Session>, u16),
        (calls, call): (Weak<dyn OfCall>, (u32, u64)),
        setup: &PipeSetup,
    ) -> (Self, Ends) {
        let &PipeSetup { pipes, window, waiting, step_ns, item_max } = setup;
        let open = AtomicU8::new(u8::from(pipes.to_procedure) + u8::from(pipes.from_procedure));
        let session = Arc::clone(session);
        let side = Arc::new(CallersSide { session, waiting, calls, call, open, step_ns });
        let terms = Terms { callers_step_ns: Some(step_ns), item_max, limit: FIRST_WINDOW };
        let writing =
            pipes.to_procedure.then(|| WritingEnd::new(&side, Writing::new(Way::Call, lane), terms));
        let reading = pipes.from_procedure.then(|| {
            let window = (window.size().bytes(), window);
            ReadingEnd::new(&side, Reading::new(Way::Result, lane), window, (item_max, pipes.to_procedure))
        });
        let ends = Ends {
            sending: writing.as_ref().map(|end| Arc::clone(end) as _),
            receiving: reading.as_ref().map(|end| Arc::clone(end) as _),
        };
        let reading = reading.as_ref().map(Arc::downgrade).unwrap_or_default();
        (Self { pipes, writing, reading, side: Arc::downgrade(&side) }, ends)
    }

    /// Goes on with the ends that need attention. Tasks that are to be woken go to `wakers`.
    pub(crate) fn advance(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.writing.as_ref().and_then(|end| end.advance()));
        wakers.extend(self.reading.upgrade().and_then(|end| end.advance()));
    }

    /// Whether [`advance`](Self::advance) would do something.
    pub(crate) fn can_advance(&self) -> bool {
        self.writing.as_ref().is_some_and(|end| end.can_advance())
            || self.reading.upgrade().is_some_and(|end| end.can_advance())
    }

    /// Whether the ends may need attention after the answer of the call: the program still receives.
    pub(crate) fn is_in_use(&self) -> bool {
        self.reading.upgrade().is_some_and(|end| !end.is_finished())
    }

    /// Of a call that has been answered: if the session is lost, what the program still receives ends where it is.
    pub(crate) fn fail_if_lost(&self, wakers: &mut Vec<Waker>) {
        if self.side.upgrade().is_some_and(|side| side.session.is_lost()) {
            self.fail(&lost(UnknownCause::ConnectionLost), wakers);
        }
    }

    /// What keeps the lane of the call from having the next one.
    pub(crate) fn owed(&self) -> OwedPipes {
        let side: Weak<CallersSide> = Weak::clone(&self.side);
        OwedPipes { in_use: side, from_procedure: self.pipes.from_procedure }
    }

    /// The call has ended, with a result or with this error.
    pub(crate) fn end(&self, error: Option<&CallError>, wakers: &mut Vec<Waker>) {
        match error {
            None => wakers.extend(self.writing.as_ref().and_then(|end| end.fail(&PipeError::Ended))),
            Some(CallError::Failed(..)) => {
                wakers.extend(self.writing.as_ref().and_then(|end| end.fail(&PipeError::Ended)));
                wakers.extend(self.reading.upgrade().and_then(|end| end.fail(&PipeError::Aborted)));
            }
            Some(error) => self.fail(&PipeError::Lost(Box::new(error.clone())), wakers),
        }
    }

    /// Both pipes end at this side, for this reason.
    pub(crate) fn fail(&self, why: &PipeError, wakers: &mut Vec<Waker>) {
        wakers.extend(self.writing.as_ref().and_then(|end| end.fail(why)));
        wakers.extend(self.reading.upgrade().and_then(|end| end.fail(why)));
    }
}
