//! Open calls: their procedures have returned, and their answers [come later](crate::Deferred).
//!
//! An open call holds no thread. It counts for its owner ([`OpenRoom`]), and ends once: by its answer, which the thread that gives it sends
//! itself, or by the [keeper](crate::keeper) at its deadline, or when its caller has cancelled it or has gone. Who takes the call out of its [`OpenCall`] ends it; all others learn that it is
//! over.

mod room;

use crate::deferred::{Given, Later, Open, ReplyError};
use crate::error::FailureCode;
use crate::keeper::{self, Kept, Key};
use crate::locked::locked;
pub(crate) use crate::serving::open_calls::room::OPEN_CALLS_MAX;
pub use crate::serving::open_calls::room::{OpenRoom, check_room};
use crate::serving::terms::CallTerms;
use crate::serving::workers::{Endpoint, WorkerPool};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use stoop_exchange::shares::OwnerId;
use stoop_net::clock;

/// What an endpoint needs for its open calls.
pub(crate) struct OpenCalls<E: Endpoint> {
    room: Arc<OpenRoom>,
    pool: OnceLock<Weak<WorkerPool<E>>>,
}

/// A call that waits for its answer.
struct OpenCall<E: Endpoint> {
    pool: Weak<WorkerPool<E>>,
    room: Arc<OpenRoom>,
    place: Option<OwnerId>,
    deadline_ns: u64,
    waiting: Mutex<Option<(E::Call, Key)>>,
}

impl<E: Endpoint> OpenCalls<E> {
    pub(crate) fn new(room: &Arc<OpenRoom>) -> Self {
        Self { room: Arc::clone(room), pool: OnceLock::new() }
    }

    /// The endpoint belongs to this pool.
    pub(crate) fn belong_to(&self, pool: &Arc<WorkerPool<E>>) {
        // An endpoint has one pool.
        let _ = self.pool.set(Arc::downgrade(pool));
    }

    /// Lets a call wait for its answer.
    #[cold]
    pub(crate) fn open(&self, call: E::Call, terms: CallTerms, later: Later) {
        let open = Arc::new(OpenCall {
            pool: self.pool.get().cloned().unwrap_or_default(),
            room: Arc::clone(&self.room),
            place: self.room.enter(terms.owner),
            deadline_ns: terms.deadline_ns,
            waiting: Mutex::new(None),
        });
        let kept: Weak<OpenCall<E>> = Arc::downgrade(&open);
        let mut waiting = locked(&open.waiting);
        let key = keeper::keep(terms.call, terms.deadline_ns, kept);
        *waiting = Some((call, key));
        drop(waiting);
        if let Some(pool) = open.pool.upgrade() {
            pool.endpoint.background().note_open_call();
        }
        later.goes_to(open);
    }
}

impl<E: Endpoint> Open for OpenCall<E> {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        let Some((call, key)) = locked(&self.waiting).take() else {
            let is_late = clock::now_ns() >= self.deadline_ns;
            return Err(if is_late { ReplyError::DeadlinePassed } else { ReplyError::Cancelled });
        };
        keeper::forget(key);
        let reached = match self.pool.upgrade() {
            Some(pool) => pool.answer_open(call, given),
            None => Err(ReplyError::ServerEnded),
        };
        self.room.leave(self.place);
        reached
    }

    fn is_over(&self) -> bool {
        locked(&self.waiting).is_none()
    }
}

impl<E: Endpoint> Kept for OpenCall<E> {
    fn expire(&self) {
        // The endpoint tells a call that is too late from one that is cancelled. It is nothing to the keeper if an answer came just now.
        let _ = self.answer(Given::Failure(FailureCode::FinishedTooLate));
    }
}

impl<E: Endpoint> WorkerPool<E> {
    /// Answers an open call, by a thread that need not be a worker.
    fn answer_open(&self, call: E::Call, given: Given<'_>) -> Result<(), ReplyError> {
        let (next, reached) = self.endpoint.answer_open(call, given);
        if let Some(next) = next {
            let terms = self.endpoint.terms(&next);
            self.admit(&mut self.endpoint.worker(), next, terms);
            self.wake_for_queue();
        }
        reached
    }
}
