//! The means to give an answer that comes later.

use crate::context::ServedCall;
use crate::error::FailureCode;
use crate::later::deferred::{Answer, Given, Shared, State, give, why_over};
use crate::later::reply_error::ReplyError;
use crate::metadata::Metadata;
use crate::metadata::served::CallMetadata;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use stoop_net::fork;

/// Gives the answer of a call whose procedure has returned the [`Deferred`](crate::Deferred) of the pair. Any thread may, once.
///
/// Dropped without [`send`](Self::send), it fails the call as [`FailureCode::Abandoned`]: the procedure ran, and there is no result.
///
/// Kept beyond the end of its call, it takes a few hundred bytes, and counts no more. In a process that was forked from the server's it
/// answers nothing.
///
/// ```
/// use std::sync::mpsc;
/// use stoop::{Deferred, Reply};
///
/// #[stoop::interface]
/// trait Sums { fn sum(&self, numbers: &[u32]) -> Deferred<u32>; }
///
/// /// Hands its calls to one thread, which has what is needed for the answer.
/// struct Desk(mpsc::Sender<(Vec<u32>, Reply<u32>)>);
///
/// impl Sums for Desk {
///     fn sum(&self, numbers: &[u32]) -> Deferred<u32> {
///         let (reply, deferred) = stoop::deferred();
///         // If that thread has ended, the reply is dropped, and the call fails as abandoned.
///         let _ = self.0.send((numbers.to_vec(), reply));
///         deferred
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (desk, calls) = mpsc::channel::<(Vec<u32>, Reply<u32>)>();
/// std::thread::spawn(move || {
///     for (numbers, reply) in calls {
///         let _ = reply.send(numbers.iter().sum());
///     }
/// });
/// let server = stoop::Server::new().export(SumsServer::new(Desk(desk))).listen("udp://127.0.0.1:0")?.start()?;
/// assert_eq!(SumsClient::bind(&server.uris()[0])?.sum(&[1, 2, 3])?, 6);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped, it fails its call"]
pub struct Reply<R> {
    /// `None`: it has been sent.
    pub(super) answer: Option<Shared<Answer<R>>>,
    pub(super) call: ServedCall,
    /// The process that serves the call, see [`fork::generation`].
    pub(super) generation: u32,
    /// The metadata of the call, and that of its answer, if it has some.
    pub(super) metadata: Option<Arc<CallMetadata>>,
}

impl<R> Reply<R> {
    /// Answers the call. While the procedure has not returned, the answer waits for it.
    ///
    /// # Errors
    /// The answer reaches nobody. No error does not prove that the caller has it: it may stop waiting, or end, before it arrives.
    ///
    /// ```
    /// use stoop::{Reply, ReplyError};
    ///
    /// /// Gives a letter to its reader, or has it back.
    /// fn deliver(letter: String, reply: Reply<String>) -> Option<String> {
    ///     match reply.send(letter.clone()) {
    ///         Ok(()) => None,
    ///         Err(ReplyError::Cancelled | ReplyError::CallerGone | ReplyError::DeadlinePassed) => Some(letter), // for the next
    ///         Err(why) => panic!("{why}"),
    ///     }
    /// }
    /// ```
    #[inline]
    pub fn send(mut self, value: R) -> Result<(), ReplyError> {
        if self.is_a_parents() {
            return Err(ReplyError::ServerEnded);
        }
        let answer = self.answer.take().expect("it is sent once");
        let mut state = answer.state();
        match mem::replace(&mut *state, State::Over) {
            State::Open(call, put) => {
                drop(state);
                give(&*call, value, put)
            }
            State::Awaited(then) => {
                drop(state);
                then(Some(value));
                Ok(())
            }
            State::Missing(waiter) if !Answer::is_alone(&answer) => {
                *state = State::Given(value);
                if let Some(thread) = waiter {
                    thread.unpark();
                }
                // What the procedure returns then ends the call, and reaches nobody.
                if self.call.is_cancelled() { Err(ReplyError::Cancelled) } else { Ok(()) }
            }
            _ => Err(why_over(self.call)),
        }
    }

    /// Sends this metadata beside the answer, as [`CurrentCall::set_answer_metadata`](crate::CurrentCall::set_answer_metadata) does in the
    /// thread that serves the call.
    ///
    /// ```
    /// use stoop::{Metadata, Reply};
    ///
    /// /// Answers from a copy, and says how old it is.
    /// fn answer(reply: Reply<Vec<u8>>, copy: &[u8], age: std::time::Duration) {
    ///     reply.set_answer_metadata(Metadata::new().set("age", age.as_secs().to_string()));
    ///     let _ = reply.send(copy.to_vec());
    /// }
    /// ```
    pub fn set_answer_metadata(&self, metadata: Metadata) {
        if let Some(call) = &self.metadata {
            call.set_answer(metadata);
        }
    }

    /// Whether the answer would reach nobody: the caller has cancelled the call or has gone, or the deadline has passed.
    ///
    /// Once the procedure has returned, the end of a connection (over TCP, Unix sockets and shared memory) tells it at once that the caller
    /// has gone; over UDP and Ethernet only a caller that gives its binding up tells it before the deadline.
    ///
    /// ```
    /// use stoop::Reply;
    ///
    /// /// Works for the call while its caller waits.
    /// fn work(reply: Reply<u64>) {
    ///     for part in 0..1000 {
    ///         if reply.is_cancelled() || reply.time_left().is_zero() {
    ///             return;
    ///         }
    ///         let _ = part;
    ///     }
    ///     if let Err(why) = reply.send(1000) {
    ///         println!("too late: {why}");
    ///     }
    /// }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        if self.is_a_parents() {
            return true;
        }
        let is_over = self.answer.as_ref().is_some_and(|answer| match &*answer.state() {
            State::Open(call, _) => call.is_over(),
            State::Missing(_) => Answer::is_alone(answer),
            State::Given(_) | State::Awaited(_) | State::Abandoned | State::Over => false,
        });
        is_over || self.call.is_cancelled()
    }

    /// Whether this process was forked from the one that serves the call.
    fn is_a_parents(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Time until the caller stops waiting; zero afterwards.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::Reply;
    ///
    /// /// Orders replies so that those whose callers wait the shortest are answered first.
    /// fn sort(waiting: &mut Vec<Reply<String>>) {
    ///     waiting.retain(|reply| !reply.is_cancelled());
    ///     waiting.sort_by_key(Reply::time_left);
    /// }
    /// # sort(&mut Vec::new());
    /// ```
    pub fn time_left(&self) -> Duration {
        self.call.time_left()
    }
}

impl<R> Drop for Reply<R> {
    #[inline]
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.abandon(answer);
        }
    }
}

impl<R> Reply<R> {
    /// It is dropped, and has not been sent.
    #[cold]
    fn abandon(&self, answer: Shared<Answer<R>>) {
        if self.is_a_parents() {
            // The call is the parent's, with its sockets and its memory.
            return mem::forget(answer);
        }
        let mut state = answer.state();
        match mem::replace(&mut *state, State::Abandoned) {
            State::Missing(Some(thread)) => thread.unpark(),
            State::Missing(None) => {}
            State::Open(call, _) => {
                drop(state);
                // Its caller may have gone as well.
                let _ = call.answer(Given::Failure(FailureCode::Abandoned));
            }
            State::Awaited(then) => {
                drop(state);
                then(None);
            }
            // Its call is over.
            before @ (State::Given(_) | State::Over | State::Abandoned) => *state = before,
        }
    }
}

impl<R> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("time_left", &self.time_left()).finish_non_exhaustive()
    }
}
