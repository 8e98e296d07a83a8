//! Answers that come later: a procedure returns a [`Deferred`], and any thread gives the answer by its [`Reply`].

use crate::context::{self, ServedCall};
use crate::error::{Failure, FailureCode, RefusalCode};
use crate::later::beginning::Beginning;
use crate::later::reply::Reply;
pub use crate::later::reply_error::ReplyError;
use crate::later::room::OpenRoom;
use crate::later::unserved::Unserved;
use crate::metadata::served;
use crate::pipes::contract::{Ends, Pipes};
#[cfg(all(test, loom))]
pub(super) use loom::sync::Arc as Shared;
#[cfg(all(test, loom))]
use loom::sync::{Mutex, MutexGuard};
#[cfg(all(test, loom))]
use loom::thread::{self, Thread};
use std::fmt;
use std::mem;
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::Arc as Shared;
use std::sync::{Arc, PoisonError};
#[cfg(not(all(test, loom)))]
use std::sync::{Mutex, MutexGuard};
#[cfg(not(all(test, loom)))]
use std::thread::{self, Thread};
use stoop_marshal::{Form, Writer};
use stoop_net::{clock, fork};

/// The result of a procedure that is given later, by its [`Reply`].
///
/// A procedure that returns `Deferred<R>` is called like one that returns `R`, and is the same for its callers: the interface of one is that
/// of the other. No thread of the server waits for the answer.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Mutex;
/// use stoop::{Deferred, Reply};
///
/// #[stoop::interface]
/// pub trait Mailbox {
///     /// Waits for a letter.
///     fn next(&self) -> Deferred<String>;
///     fn put(&self, letter: &str);
/// }
///
/// #[derive(Default)]
/// struct Desk(Mutex<VecDeque<Reply<String>>>);
///
/// impl Mailbox for Desk {
///     fn next(&self) -> Deferred<String> {
///         let (reply, deferred) = stoop::deferred();
///         self.0.lock().unwrap().push_back(reply);
///         deferred
///     }
///     fn put(&self, letter: &str) {
///         let waiting = self.0.lock().unwrap().pop_front();
///         if let Some(reply) = waiting {
///             // An error says that its caller does not wait any more.
///             let _ = reply.send(letter.to_owned());
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = stoop::Server::new().export(MailboxServer::new(Desk::default())).listen("udp://127.0.0.1:0")?.start()?;
/// let mailbox = MailboxClient::bind(&server.uris()[0])?;
/// let mut letter = mailbox.begin().next();
/// while !letter.is_ready() {
///     mailbox.put("Dear reader")?;
/// }
/// assert_eq!(letter.wait()?, "Dear reader");
/// # Ok(())
/// # }
/// ```
///
/// Dropped by the procedure in place of being returned, it has no effect: what counts is the value that the procedure returns.
///
/// Of a call by Sun RPC, or by a thread of this process through a `local:` address, a thread waits for the answer: the worker that ran the
/// procedure, or the caller.
#[must_use = "return it: the call has no answer without it"]
pub struct Deferred<R>(Shared<Answer<R>>);

/// An answer that comes later, for a procedure to return, and the means to give it.
///
/// ```
/// /// A procedure that knows some answers at once.
/// fn look_up(known: Option<u64>, ask: impl FnOnce(stoop::Reply<u64>)) -> stoop::Deferred<u64> {
///     let (reply, deferred) = stoop::deferred();
///     match known {
///         Some(answer) => _ = reply.send(answer),
///         None => ask(reply),
///     }
///     deferred
/// }
/// # let _ = look_up(Some(7), |_| ());
/// ```
#[inline]
pub fn deferred<R: Send + 'static>() -> (Reply<R>, Deferred<R>) {
    let answer = Shared::new(Answer(Mutex::new(State::Missing(None))));
    let (call, generation, metadata) = (context::served_call(), fork::generation(), served::kept());
    (Reply { answer: Some(Shared::clone(&answer)), call, generation, metadata }, Deferred(answer))
}

/// What an answer is until it has been given to the caller.
pub(super) struct Answer<R>(Mutex<State<R>>);

pub(super) enum State<R> {
    /// It has not been given, and its call may still run; or a thread waits for it.
    Missing(Option<Thread>),
    Given(R),
    Abandoned,
    /// It has not been given, and its call waits.
    Open(Arc<dyn Open>, Put<R>),
    /// It has not been given, and this takes it.
    Awaited(Box<dyn FnOnce(Option<R>) + Send>),
    /// The call has its answer.
    Over,
}

/// Writes a result of this type.
pub(crate) type Put<R> = fn(R, &mut Writer<'_>) -> Result<(), Unserved>;

/// A call that has run and waits for its answer.
pub(crate) trait Open: Send + Sync {
    /// Answers it, unless something else has ended it.
    ///
    /// # Errors
    /// The answer does not reach its caller.
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError>;

    /// Whether it has ended.
    fn is_over(&self) -> bool;
}

/// The answer of an open call.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// A result, which this writes, unless the procedure turns out not to have run.
    Result(&'a dyn Fn(&mut Writer<'_>) -> Result<(), Unserved>),
    /// There is none.
    Failure(FailureCode),
    /// There is none: the procedure did not run.
    Refusal(RefusalCode, &'a str),
}

impl<R> Answer<R> {
    pub(super) fn state(&self) -> MutexGuard<'_, State<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether only one of the two halves is there. Of the `Reply`: the procedure has panicked or has returned another value, or its caller
    /// had gone when it returned.
    pub(super) fn is_alone(half: &Shared<Self>) -> bool {
        Shared::strong_count(half) == 1
    }
}

/// Why an answer is of no use to a caller, of a call that nothing else has ended.
pub(super) fn why_over(call: ServedCall) -> ReplyError {
    match call.time_left().is_zero() {
        true => ReplyError::DeadlinePassed,
        false if call.is_cancelled() => ReplyError::Cancelled,
        false => ReplyError::CallerGone,
    }
}

/// Answers a call with this value.
pub(super) fn give<R>(call: &dyn Open, value: R, put: Put<R>) -> Result<(), ReplyError> {
    // Taken by the first that writes it; there is no second.
    let value = std::cell::Cell::new(Some(value));
    call.answer(Given::Result(&|result| value.take().map_or(Ok(()), |value| put(value, result))))
}

impl<R> fmt::Debug for Deferred<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_given = matches!(*self.0.state(), State::Given(_));
        f.debug_struct("Deferred").field("is_given", &is_given).finish()
    }
}

impl<R: Send + 'static> Deferred<R> {
    /// Writes the result if it has been given by now.
    ///
    /// # Errors
    /// It comes later; then `put` writes it.
    #[inline]
    pub fn put(
        self,
        result: &mut Writer<'_>,
        put: fn(R, &mut Writer<'_>) -> Result<(), Unserved>,
    ) -> Result<(), Unserved> {
        // A reply that was sent is gone: no other thread can use the answer.
        match Shared::try_unwrap(self.0) {
            Ok(Answer(state)) => match state.into_inner().unwrap_or_else(PoisonError::into_inner) {
                State::Given(value) => put(value, result),
                before => Self(Shared::new(Answer(Mutex::new(before)))).put_later(put),
            },
            Err(shared) => Self(shared).put_if_given(result, put),
        }
    }

    /// [`put`](Self::put), while the reply is still used.
    #[cold]
    fn put_if_given(self, result: &mut Writer<'_>, put: Put<R>) -> Result<(), Unserved> {
        let mut state = self.0.state();
        match mem::replace(&mut *state, State::Over) {
            State::Given(value) => {
                drop(state);
                put(value, result)
            }
            before => {
                *state = before;
                drop(state);
                self.put_later(put)
            }
        }
    }

    #[cold]
    fn put_later(self, put: Put<R>) -> Result<(), Unserved> {
        Err(Unserved::Later(Later::new(Box::new((self, put)))))
    }

    /// For stubs: the same answer, with the form in which its caller is told it.
    pub fn in_form(self, form: Form) -> Deferred<(R, Form)> {
        let (reply, deferred) = deferred();
        self.then(move |answer| {
            // Without an answer the reply is dropped, too.
            if let Some(answer) = answer {
                let _ = reply.send((answer, form));
            }
        });
        deferred
    }

    /// Passes the answer to `then`, in the thread that gives it, or at once if it is there; `None`: it is not given.
    pub(crate) fn then(self, then: impl FnOnce(Option<R>) + Send + 'static) {
        let mut state = self.0.state();
        let answer = match mem::replace(&mut *state, State::Over) {
            State::Missing(_) => {
                *state = State::Awaited(Box::new(then));
                return;
            }
            State::Given(value) => Some(value),
            _ => None,
        };
        drop(state);
        then(answer);
    }

    /// Waits for the answer in the thread that has run the procedure, until `deadline_ns`.
    pub(crate) fn wait(self, deadline_ns: u64) -> Result<R, Failure> {
        let failed = |code| Err(Failure { code, detail: String::new() });
        loop {
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            let mut state = self.0.state();
            match mem::replace(&mut *state, State::Over) {
                State::Given(value) => return Ok(value),
                State::Abandoned => return failed(FailureCode::Abandoned),
                _ if left_ns == 0 => return failed(FailureCode::FinishedTooLate),
                _ => *state = State::Missing(Some(thread::current())),
            }
            drop(state);
            park(left_ns);
        }
    }
}

/// Sleeps until the thread is unparked, or for so long.
fn park(left_ns: u64) {
    #[cfg(not(all(test, loom)))]
    thread::park_timeout(std::time::Duration::from_nanos(left_ns));
    // Its threads have no time.
    #[cfg(all(test, loom))]
    {
        let _ = left_ns;
        thread::park();
    }
}

/// An answer of any type that comes later.
pub struct Later {
    pub(crate) answer: Box<dyn Unanswered>,
    pub(crate) held: Option<Held>,
    /// What gives the answer counts for the caller.
    pub(crate) is_counted: bool,
}

/// Something that is dropped when a call is over.
pub(crate) type Held = Box<dyn Send>;

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").finish_non_exhaustive()
    }
}

/// What becomes of an open call at its deadline.
pub(crate) struct AtDeadline(Option<Beginning>);

impl AtDeadline {
    /// The answer of the call, which ends now.
    pub(crate) fn given(&self) -> Given<'static> {
        match &self.0 {
            Some(beginning) if beginning.end() => Given::Refusal(RefusalCode::DeadlinePassed, ""),
            _ => Given::Failure(FailureCode::FinishedTooLate),
        }
    }
}

impl Later {
    pub(crate) fn new(answer: Box<dyn Unanswered>) -> Self {
        Self { answer, held: None, is_counted: false }
    }

    /// The same; what gives the answer counts for the caller, so that the call need not.
    pub(crate) fn counted(self) -> Self {
        Self { is_counted: true, ..self }
    }

    /// Has this dropped when the call is over, however it ends; before what it holds already.
    pub(crate) fn holding(self, held: Held) -> Self {
        let held = match self.held {
            Some(before) => Box::new((held, before)) as Held,
            None => held,
        };
        Self { held: Some(held), ..self }
    }

    /// Takes what it [holds](Self::holding). The call keeps that until it is over.
    pub(crate) fn take_held(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// What becomes of the call at its deadline.
    pub(crate) fn at_deadline(&self) -> AtDeadline {
        AtDeadline(self.answer.beginning())
    }

    /// The pipes that the call is to have. A transport that carries pipes [gives](Self::give_ends) it their ends.
    pub(crate) fn pipes(&self) -> Pipes {
        self.answer.pipes()
    }

    /// The room of the call's server, for its pipes.
    pub(crate) fn belong_to(&mut self, room: &Arc<OpenRoom>) {
        self.answer.belong_to(room);
    }

    /// Gives the call the ends of its pipes. Without them it is refused.
    pub(crate) fn give_ends(&mut self, ends: Ends) {
        self.answer.give_ends(ends);
    }

    /// The same; if the call has pipes, the program gets what `change` makes of their ends.
    pub(crate) fn with_ends(self, change: impl Fn(Ends) -> Ends + Send + 'static) -> Self {
        match self.pipes().count() {
            0 => self,
            _ => Self {
                answer: Box::new(Changed { answer: self.answer, call: |call| call, ends: change }),
                ..self
            },
        }
    }

    /// The same; the answer goes to what `change` makes of the call.
    pub(crate) fn redirected(
        self,
        change: impl FnOnce(Arc<dyn Open>) -> Arc<dyn Open> + Send + 'static,
    ) -> Self {
        Self { answer: Box::new(Changed { answer: self.answer, call: change, ends: |ends| ends }), ..self }
    }

    /// Has the answer go to this call.
    pub(crate) fn goes_to(self, call: Arc<dyn Open>) {
        self.answer.goes_to(call);
    }
}

/// An answer whose call, and the ends of whose pipes, are changed before it has them.
struct Changed<C, E> {
    answer: Box<dyn Unanswered>,
    call: C,
    ends: E,
}

impl<C, E> Unanswered for Changed<C, E>
where
    C: FnOnce(Arc<dyn Open>) -> Arc<dyn Open> + Send,
    E: Fn(Ends) -> Ends + Send,
{
    fn goes_to(self: Box<Self>, call: Arc<dyn Open>) {
        let Self { answer, call: change, .. } = *self;
        answer.goes_to(change(call));
    }

    fn beginning(&self) -> Option<Beginning> {
        self.answer.beginning()
    }

    fn pipes(&self) -> Pipes {
        self.answer.pipes()
    }

    fn belong_to(&mut self, room: &Arc<OpenRoom>) {
        self.answer.belong_to(room);
    }

    fn give_ends(&mut self, ends: Ends) {
        self.answer.give_ends((self.ends)(ends));
    }
}

/// An answer, and the call to which it is to go.
pub(crate) trait Unanswered: Send {
    /// Has the answer go to this call.
    fn goes_to(self: Box<Self>, call: Arc<dyn Open>);

    /// The beginning of the procedure, if that may be still to come.
    fn beginning(&self) -> Option<Beginning> {
        None
    }

    /// As [`Later::pipes`].
    fn pipes(&self) -> Pipes {
        Pipes::default()
    }

    /// As [`Later::belong_to`].
    fn belong_to(&mut self, room: &Arc<OpenRoom>) {
        let _ = room;
    }

    /// As [`Later::give_ends`].
    fn give_ends(&mut self, ends: Ends) {
        let _ = ends;
    }
}

impl<R: Send + 'static> Unanswered for (Deferred<R>, Put<R>) {
    fn goes_to(self: Box<Self>, call: Arc<dyn Open>) {
        let (Deferred(answer), put) = *self;
        let mut state = answer.state();
        // The giver of the answer has gone on: there is no one to be told that the caller has gone meanwhile.
        let _ = match mem::replace(&mut *state, State::Over) {
            State::Missing(_) => {
                *state = State::Open(call, put);
                Ok(())
            }
            State::Given(value) => {
                drop(state);
                give(&*call, value, put)
            }
            State::Abandoned | State::Open(..) | State::Awaited(_) | State::Over => {
                drop(state);
                call.answer(Given::Failure(FailureCode::Abandoned))
            }
        };
    }
}

#[cfg(all(test, loom))]
mod model;
