//! A call to a server of this process, through the trait.

use crate::calling::counters::CallCounters;
use crate::calling::lanes::{Counted, Lanes};
use crate::context::{self, Caller, begin_cheaply, is_too_late, noting_asked, serving};
use crate::error::{BindError, CallError, Failure, FailureCode, SendError};
use crate::later::deferred::Deferred;
use crate::serving::outcome::error_of_panic;
use crate::transport::local::binding::{LocalBinding, Source};
use crate::transport::local::server::LocalServer;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoop_net::clock;

/// A server of this process with its object, for calls through the trait.
pub(crate) struct Here<L: ?Sized> {
    server: Arc<L>,
    listening: Arc<LocalServer>,
    source: Arc<Source>,
}

/// Calls through the trait are not counted: counting would cost more than the call.
impl<L: ?Sized> Counted for Here<L> {
    fn counters(&self) -> CallCounters {
        CallCounters::default()
    }
}

impl<L: ?Sized + 'static> Here<L> {
    /// The server to which a client of the trait `L` is bound.
    pub(crate) fn of(binding: &LocalBinding) -> Self {
        let server = binding.object.downcast_ref::<Arc<L>>().expect("the type was checked when it was found");
        let (listening, source) = (Arc::clone(&binding.server), Arc::clone(&binding.source));
        Self { server: Arc::clone(server), listening, source }
    }

    /// Calls the server that has the name now: this one has been shut down. Each thread keeps the server that it has found in a
    /// slot of its own, so that threads share no lock.
    // Takes what it needs one by one: put together in memory, that would cost the other calls four instructions.
    #[cold]
    fn call_next<R>(
        &self,
        next: &Next<L>,
        timeout_ns: u64,
        procedure: impl FnOnce(&L) -> R,
    ) -> Result<R, CallError> {
        let find = || match Source::find_next(&self.source) {
            Ok(binding) if binding.is_marshaled => Err(CallError::not_sent(self.intercepted())),
            Ok(binding) => Ok(Self::of(&binding)),
            Err(why) => Err(CallError::not_sent(why)),
        };
        let Some(mut slot) = next.get_or_init(Box::default).try_hold() else {
            return find()?.call(timeout_ns, procedure);
        };
        let here = match slot.take() {
            Some(here) if here.listening.is_open() => here,
            lost => {
                drop(lost);
                find()?
            }
        };
        slot.insert(here).call(timeout_ns, procedure)
    }
}

impl<L: ?Sized> Here<L> {
    /// A call through the trait would pass the interceptors by.
    fn intercepted(&self) -> SendError {
        let why = "it has interceptors, and the server that had the name before had none; bind again";
        SendError::Bind(Box::new(BindError::Refused { server: self.source.uri().into(), why }))
    }

    /// The error of a call of that procedure, with its name and that of its server.
    #[cold]
    #[inline(never)]
    fn name(&self, error: CallError, procedure: u16) -> CallError {
        error.knowing(self.source.callee(procedure))
    }

    #[inline]
    fn call<R>(&self, timeout_ns: u64, procedure: impl FnOnce(&L) -> R) -> Result<R, CallError> {
        let Some((_, deadline)) = begin_cheaply(timeout_ns) else {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        };
        let run = AssertUnwindSafe(|| serving(deadline, Caller::Local, || procedure(&self.server)));
        let (ran, asked) = noting_asked(|| catch_unwind(run));
        let returned = ran.map_err(|panic| error_of_panic(&*panic))?;
        if is_too_late(deadline, asked) {
            return Err(CallError::failed(finished_too_late()));
        }
        Ok(returned)
    }
}

#[cold]
fn finished_too_late() -> Failure {
    Failure { code: FailureCode::FinishedTooLate, detail: String::new() }
}

/// The servers that had a name later, as each thread last found them: there from the first time on that a thread looks for one.
pub(crate) type Next<L> = OnceLock<Box<Lanes<Here<L>>>>;

/// A call to a server of this process.
pub struct Local<'a, L: ?Sized> {
    /// The servers that had its name later, as each thread last found them.
    next: &'a Next<L>,
    here: &'a Here<L>,
    timeout_ns: u64,
}

impl<L: ?Sized> fmt::Debug for Local<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("timeout", &Duration::from_nanos(self.timeout_ns))
            .finish_non_exhaustive()
    }
}

impl<'a, L: ?Sized + 'static> Local<'a, L> {
    #[inline]
    pub(crate) fn new(next: &'a Next<L>, here: &'a Here<L>, timeout_ns: u64) -> Self {
        Self { next, here, timeout_ns }
    }

    /// Calls `procedure` with the server, whose answer may come later: the thread waits for it.
    ///
    /// # Errors
    /// As [`call`](Self::call); or nothing is left that could give the answer.
    pub fn call_deferred<R: Send + 'static>(
        self,
        number: u16,
        procedure: impl FnOnce(&L) -> Deferred<R>,
    ) -> Result<R, CallError> {
        let timeout_ns = self.timeout_ns;
        let deadline_ns = context::bounded_deadline(clock::now_ns(), timeout_ns);
        let here = self.here;
        let answer = self.call(number, procedure)?.wait(deadline_ns);
        answer.map_err(|why| here.name(CallError::failed(why), number))
    }

    /// Calls `procedure`, which has that number, with the server.
    ///
    /// # Errors
    /// The server has been shut down and no other has its name, an inherited deadline has passed, the procedure panicked, or it
    /// returned at or after the deadline.
    #[inline]
    pub fn call<R>(self, number: u16, procedure: impl FnOnce(&L) -> R) -> Result<R, CallError> {
        let here = self.here;
        let ended = match self.here.listening.is_open() {
            true => self.here.call(self.timeout_ns, procedure),
            false => self.here.call_next(self.next, self.timeout_ns, procedure),
        };
        ended.map_err(|error| here.name(error, number))
    }
}
