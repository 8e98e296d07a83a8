//! Open calls: their procedures have returned, and their answers [come later](crate::Deferred).
//!
//! An open call holds no thread. It counts for its owner ([`OpenRoom`]), and ends once: by its answer, which the thread that gives it sends
//! itself, or by the [keeper](crate::context::keeper) at its deadline, or when its caller has cancelled it or has gone. The first thread that
//! [takes](Waiting::take) the call ends it; the others learn why it is over.

use crate::context::cancelled::CallId;
use crate::context::keeper::{self, Kept, Key};
use crate::later::deferred::{AtDeadline, Given, Held, Later, Open, ReplyError};
use crate::later::lent::Lent;
use crate::later::room::OpenRoom;
use crate::later::waiting::Waiting;
use std::sync::{Arc, OnceLock, Weak};
use stoop_exchange::shares::{Owner, OwnerId};
use stoop_net::clock;

/// Sends the answers of open calls.
pub(crate) trait Answers: Send + Sync + 'static {
    /// A call of which the answer is outstanding.
    type Call: Send + 'static;

    /// Why an answer reaches no caller when this is gone.
    const GONE: ReplyError;

    /// Whether the caller can receive an answer.
    fn has_caller(&self, call: &Self::Call) -> bool;

    /// Answers a call, by a thread that need not be a worker.
    ///
    /// # Errors
    /// The answer does not reach its caller.
    fn answer_open(&self, call: Self::Call, given: Given<'_>) -> Result<(), ReplyError>;

    /// A call is about to wait.
    fn note_open(&self) {}
}

/// What an endpoint needs for its open calls.
pub(crate) struct OpenCalls<A: Answers> {
    room: Arc<OpenRoom>,
    answers: OnceLock<Lent<A>>,
}

/// A call that is about to wait for its answer.
pub(crate) struct ToOpen<A: Answers> {
    pub(crate) answers: Lent<A>,
    pub(crate) room: Arc<OpenRoom>,
    pub(crate) owner: Owner,
    pub(crate) id: CallId,
    pub(crate) deadline_ns: u64,
}

/// A call that waits for its answer.
struct OpenCall<A: Answers> {
    answers: Lent<A>,
    room: Arc<OpenRoom>,
    place: Option<OwnerId>,
    /// How many it has.
    pipes: usize,
    deadline_ns: u64,
    at_deadline: AtDeadline,
    waiting: Waiting<Outstanding<A::Call>>,
}

/// A call, its name at the keeper, and what is dropped when it is over.
struct Outstanding<C> {
    call: C,
    key: Key,
    held: Option<Held>,
}

impl<A: Answers> OpenCalls<A> {
    pub(crate) fn new(room: &Arc<OpenRoom>) -> Self {
        Self { room: Arc::clone(room), answers: OnceLock::new() }
    }

    /// This sends the answers.
    pub(crate) fn belong_to(&self, answers: Lent<A>) {
        // An endpoint has one pool.
        let _ = self.answers.set(answers);
    }

    /// The pool that sends the answers.
    pub(crate) fn answers(&self) -> Lent<A> {
        self.answers.get().cloned().unwrap_or_default()
    }

    /// Lets a call of that owner, with that name and deadline, wait for its answer. It may have ended when this returns.
    #[cold]
    pub(crate) fn open(&self, call: A::Call, (owner, id, deadline_ns): (Owner, CallId, u64), later: Later) {
        let (answers, room) = (self.answers(), Arc::clone(&self.room));
        answers.with(|answers| answers.into_iter().for_each(|answers| answers.note_open()));
        ToOpen { answers, room, owner, id, deadline_ns }.open(call, later);
    }
}

impl<A: Answers> ToOpen<A> {
    /// Lets a call wait for its answer. It may have ended when this returns.
    #[cold]
    pub(crate) fn open(self, call: A::Call, mut later: Later) {
        let (held, at_deadline) = (later.take_held(), later.at_deadline());
        let Self { answers, room, owner, id, deadline_ns } = self;
        let place = if later.is_counted { None } else { room.enter(owner) };
        let waiting = Waiting::new();
        let pipes = later.pipes().count();
        room.count_pipes(pipes, true);
        later.belong_to(&room);
        let open = Arc::new(OpenCall { answers, room, place, pipes, deadline_ns, at_deadline, waiting });
        let kept: Weak<OpenCall<A>> = Arc::downgrade(&open);
        let opening = open.waiting.open();
        let key = keeper::keep(id, deadline_ns, kept);
        opening.wait(Outstanding { call, key, held });
        later.goes_to(open);
    }
}

impl<A: Answers> OpenCall<A> {
    /// Ends it. An answer that comes later learns the reason that `why` gives.
    fn end(
        &self,
        given: Given<'_>,
        why: impl FnOnce(Option<&A>, &A::Call) -> ReplyError,
    ) -> Result<(), ReplyError> {
        self.answers.with(|answers| {
            let answers = answers.map(|answers| &**answers);
            let Outstanding { call, key, held } = self.waiting.take(|it| why(answers, &it.call))?;
            keeper::forget(key);
            // Before its caller has the answer and may make the next call.
            self.room.leave(self.place);
            self.room.count_pipes(self.pipes, false);
            let reached = answers.map_or(Err(A::GONE), |answers| answers.answer_open(call, given));
            drop(held);
            reached
        })
    }
}

impl<A: Answers> Open for OpenCall<A> {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        // There is only one answer, so that none comes behind it.
        self.end(given, |_, _| ReplyError::CallerGone)
    }

    fn is_over(&self) -> bool {
        self.waiting.is_over()
    }
}

impl<A: Answers> Kept for OpenCall<A> {
    fn expire(&self) {
        let is_late = clock::now_ns() >= self.deadline_ns;
        // It is nothing to the keeper if an answer came just now.
        let _ = self.end(self.at_deadline.given(), |answers, call| match answers {
            None => A::GONE,
            Some(_) if is_late => ReplyError::DeadlinePassed,
            Some(answers) if answers.has_caller(call) => ReplyError::Cancelled,
            Some(_) => ReplyError::CallerGone,
        });
    }
}
