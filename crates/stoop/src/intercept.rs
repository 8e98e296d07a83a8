//! Interceptors: code of the user that runs before and after each call of a binding or of a server.

mod call_info;
pub(crate) mod chain;
pub(crate) mod client;

use crate::error::{CallError, Ran, Refusal};
pub use crate::intercept::call_info::CallInfo;
pub(crate) use crate::intercept::call_info::InterceptedCall;
use crate::later::deferred::Deferred;
use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use stoop_net::clock;

/// Runs before and after calls: of a client ([`BindOptions::interceptor`](crate::BindOptions::interceptor)), or of a server
/// ([`Server::interceptor`](crate::Server::interceptor)).
///
/// Several interceptors form layers. [`before`](Self::before) runs in the order in which they were added, and [`after`](Self::after) in
/// the reverse order. If one refuses a call, the later ones do not see it, and `after` of the earlier ones sees the refusal.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use stoop::error::Refusal;
/// use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
/// use stoop::{Ran, RefusalCode, Server};
///
/// #[stoop::interface]
/// pub trait Notes {
///     fn read(&self) -> String;
///     fn write(&self, text: &str);
/// }
///
/// struct Page;
/// impl Notes for Page {
///     fn read(&self) -> String { "milk, bread".to_owned() }
///     fn write(&self, _: &str) {}
/// }
///
/// /// Lets nobody write, and counts the calls that ran.
/// #[derive(Default)]
/// struct ReadOnly { ran: AtomicU64 }
///
/// impl Intercept for ReadOnly {
///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
///         match call.procedure() {
///             "write" => Before::Refuse(Refusal::denied("the notes are read-only")),
///             _ => Before::Go,
///         }
///     }
///     fn after(&self, _: &CallInfo<'_>, ended: &Ended<'_>) -> After {
///         self.ran.fetch_add(u64::from(ended.ran() == Ran::Yes), Ordering::Relaxed);
///         After::Return
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guard = Arc::new(ReadOnly::default());
/// let server = Server::new().export(NotesServer::new(Page)).interceptor(Arc::clone(&guard));
/// let server = server.listen("udp://127.0.0.1:0")?.start()?;
///
/// let notes = NotesClient::bind(&server.uris()[0])?;
/// assert_eq!(notes.read()?, "milk, bread");
/// assert_eq!(notes.begin().write("jam").wait().unwrap_err().ran(), Ran::No);
/// server.shut_down();
/// assert_eq!(guard.ran.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
///
/// # At which calls
///
/// All of the binding or of the server, over every transport: blocking, begun and one-way ones. Calls to a server of the same
/// process, if either end has interceptors, have their arguments marshaled like those to another process. **Calls by Sun RPC
/// are not intercepted**, nor are those of a server's [health](crate::health), [account](crate::account) and
/// [reflection](crate::reflection).
///
/// A client's interceptors see no call that could not be begun: its client is not bound, its time was over already, or its arguments
/// are too long.
///
/// # In which thread
///
/// At a client `before` runs in the thread that makes the call, and `after` in the one that gets its outcome: of a begun call, when the
/// program takes the outcome by the call's handle. The client cannot know the outcome of a call that has no handle: `after` sees that a
/// one-way call has left, and that a handle was dropped or detached, by [`Ended::is_known`].
///
/// At a server both run in the thread that runs the procedure, and [`current_call`](crate::current_call) is the call; `after` of a call
/// [whose answer comes later](crate::Deferred) in the thread that gives the answer. The worker waits meanwhile: be quick.
///
/// # Panics
///
/// A panic in an interceptor is an error of that call alone. In `before` the procedure does not run: a server refuses the call as
/// [`Denied`](crate::RefusalCode::Denied), a client does not send it. In `after` of a call with a result, the call
/// [has failed](crate::FailureCode::Panicked); another error of the call stays.
pub trait Intercept: Send + Sync + 'static {
    /// Its name in errors: the name of its type, unless this is implemented.
    fn name(&self) -> &str {
        type_name::<Self>()
    }

    /// Runs before the call leaves its client, or before its procedure runs at the server.
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        let _ = call;
        Before::Go
    }

    /// Runs when the call has ended, if `before` let it go on.
    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        let _ = (call, ended);
        After::Return
    }

    /// Whether `after` asks for the [time](Ended::took) that calls took: to know it, the clock is read before each call. Asked once, when
    /// the client binds or the server starts.
    ///
    /// ```
    /// use stoop::intercept::{Before, CallInfo, Intercept};
    ///
    /// /// Counts, and asks for no times: the clock is not read for it.
    /// struct Count(std::sync::atomic::AtomicU64);
    ///
    /// impl Intercept for Count {
    ///     fn before(&self, _: &mut CallInfo<'_>) -> Before {
    ///         self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    ///         Before::Go
    ///     }
    ///     fn is_timed(&self) -> bool {
    ///         false
    ///     }
    /// }
    /// let server = stoop::Server::new().interceptor(Count(0.into()));
    /// ```
    fn is_timed(&self) -> bool {
        true
    }
}

impl<T: Intercept + ?Sized> Intercept for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        (**self).before(call)
    }

    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        (**self).after(call, ended)
    }

    fn is_timed(&self) -> bool {
        (**self).is_timed()
    }
}

/// What becomes of a call.
///
/// ```
/// use std::sync::mpsc::Sender;
/// use stoop::Reply;
/// use stoop::error::Refusal;
/// use stoop::intercept::{Before, CallInfo, Intercept};
///
/// /// Asks another thread, which looks the token up, while no thread waits.
/// struct Tokens(std::sync::Mutex<Sender<(Vec<u8>, Reply<Before>)>>);
///
/// impl Intercept for Tokens {
///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
///         let metadata = call.metadata();
///         let Some(token) = metadata.get("token") else {
///             return Before::Refuse(Refusal::denied("the call carries no token"));
///         };
///         let (reply, decision) = stoop::deferred();
///         // If that thread has gone, the reply is dropped, and the call refused.
///         let _ = self.0.lock().unwrap().send((token.to_vec(), reply));
///         Before::Later(decision)
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Before {
    /// It goes on.
    Go,
    /// It does not run, and its caller learns why. A client's own refusal is
    /// [`CallError::NotSent`] of [`SendError::Intercepted`](crate::error::SendError::Intercepted).
    Refuse(Refusal),
    /// It is decided later, by the [`Reply`](crate::Reply) of the pair ([`deferred`](crate::deferred())); at the latest by the call's deadline. If the reply
    /// is dropped, the call is refused. At a server no thread waits, but for a call whose argument is used in place; the thread that lets the
    /// call go on runs its procedure. A client's thread waits.
    Later(Deferred<Before>),
}

/// What becomes of the outcome of a call.
///
/// ```
/// use std::time::Duration;
/// use stoop::CallError;
/// use stoop::error::UnknownCause;
/// use stoop::intercept::{After, CallInfo, Ended, Intercept};
///
/// /// Makes calls again whose server was started anew, where that is safe.
/// struct Again;
///
/// impl Intercept for Again {
///     fn after(&self, _: &CallInfo<'_>, ended: &Ended<'_>) -> After {
///         match ended.outcome() {
///             Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }) => {
///                 After::Again(Duration::from_millis(50))
///             }
///             _ => After::Return,
///         }
///     }
/// }
/// let options = stoop::BindOptions::new().interceptor(Again);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum After {
    /// It goes to the caller.
    Return,
    /// The call is made once more, after a pause. Only at a client, of a blocking call, and only if that is safe: the procedure [did not
    /// run](Ran::No), or it is `#[idempotent]` and [may have run](Ran::Perhaps); if the time of the call is not over by then; and if the arguments
    /// are as they were. Otherwise it is the same as `Return`.
    ///
    /// The call goes through the later interceptors again, and through none of the earlier: to them it is one call.
    Again(Duration),
}

/// How a call has ended, as interceptors see it.
///
/// ```
/// use std::time::Duration;
/// use stoop::intercept::{After, CallInfo, Ended, Intercept};
///
/// /// A line for each call that is slow or fails.
/// struct Trouble;
///
/// impl Intercept for Trouble {
///     fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
///         match ended.outcome() {
///             Ok(()) if ended.took() < Duration::from_millis(100) => {}
///             Ok(()) => eprintln!("{}.{} took {:?}", call.interface(), call.procedure(), ended.took()),
///             Err(error) => eprintln!("{}.{}: {error}", call.interface(), call.procedure()),
///         }
///         After::Return
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Ended<'a> {
    outcome: Option<Result<(), &'a CallError>>,
    begun_ns: u64,
}

impl<'a> Ended<'a> {
    #[inline]
    pub(crate) fn new(outcome: Option<Result<(), &'a CallError>>, call: &CallInfo<'_>) -> Self {
        Self { outcome, begun_ns: call.call.begun_ns }
    }

    /// `Ok` if there is a result (which may be an error of the procedure's own type), or if nothing more is [known](Self::is_known); or the
    /// error that the caller gets. At a server it is the error of Stoop's own protocol, with the texts that a caller within the process gets.
    pub fn outcome(&self) -> Result<(), &'a CallError> {
        self.outcome.unwrap_or(Ok(()))
    }

    /// Whether the outcome is known. Not at the client of a call that goes on without a handle, or that was cancelled with its handle: it
    /// has left.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use stoop::intercept::{After, CallInfo, Ended, Intercept};
    ///
    /// /// At a client: an alarm must not count one-way calls as successes, of which nothing is known.
    /// #[derive(Default)]
    /// struct Rates { good: AtomicU64, bad: AtomicU64 }
    ///
    /// impl Intercept for Rates {
    ///     fn after(&self, _: &CallInfo<'_>, ended: &Ended<'_>) -> After {
    ///         if ended.is_known() {
    ///             let count = if ended.outcome().is_ok() { &self.good } else { &self.bad };
    ///             count.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///         After::Return
    ///     }
    /// }
    /// ```
    pub fn is_known(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether the procedure ran.
    pub fn ran(&self) -> Ran {
        match self.outcome {
            Some(Ok(())) => Ran::Yes,
            Some(Err(error)) => error.ran(),
            None => Ran::Perhaps,
        }
    }

    /// Time since the call began: at the client since `before` of the first interceptor, at the server likewise. Zero unless an interceptor
    /// of the chain [is timed](Intercept::is_timed).
    pub fn took(&self) -> Duration {
        match self.begun_ns {
            0 => Duration::ZERO,
            begun_ns => Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns)),
        }
    }
}

impl fmt::Debug for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
