//! The interceptors of a binding, and how its calls go through them.

use crate::error::{CallError, Failure, FailureCode, Ran, Refusal, SendError};
use crate::intercept::chain::{Interceptors, Panicked, Stopped, StoppedBy, UNDECIDED};
use crate::intercept::{Before, CallInfo, InterceptedCall};
use crate::interface::Interface;
use crate::metadata::Metadata;
use crate::metadata::outgoing::Carried;
use std::mem;
use std::thread;
use std::time::Duration;

/// The interceptors of a binding.
pub(crate) struct ClientChain {
    interceptors: Interceptors,
    interface: &'static Interface,
    uri: String,
}

/// A blocking call, as the interceptors around it make it.
pub(crate) trait Attempt {
    /// Makes it, carrying that. The metadata of its answer is put into `answer`.
    ///
    /// # Errors
    /// There is no result.
    fn make(&mut self, carried: Option<&Carried>, answer: &mut Metadata) -> Result<(), CallError>;

    /// Whether its arguments are as they were, so that it can be made again.
    fn is_repeatable(&self) -> bool;
}

impl ClientChain {
    /// `None`: there are no interceptors.
    pub(crate) fn new(interceptors: &Interceptors, interface: &'static Interface, uri: &str) -> Option<Self> {
        let chain = || Self { interceptors: interceptors.clone(), interface, uri: uri.into() };
        (!interceptors.is_empty()).then(chain)
    }

    /// Makes a blocking call.
    ///
    /// # Errors
    /// There is no result.
    pub(crate) fn around(
        &self,
        procedure: u16,
        deadline_ns: u64,
        carried: Option<&Carried>,
        attempt: &mut dyn Attempt,
    ) -> Result<(), CallError> {
        let mut call = self.call(procedure, deadline_ns);
        call.call.carried = carried.cloned();
        let mut from = 0;
        loop {
            let (passed, mut ended) = match self.before(&mut call, from) {
                Ok(()) => {
                    let InterceptedCall { carried, answer, .. } = &mut call.call;
                    // An earlier attempt may have brought some.
                    *answer = Metadata::new();
                    (self.interceptors.len(), attempt.make(carried.as_ref(), answer))
                }
                Err((by, why)) => (by, Err(CallError::not_sent(why))),
            };
            match self.after(passed, &mut call, &mut ended, Some(attempt)) {
                None => return ended,
                Some((by, pause)) => {
                    thread::sleep(pause);
                    from = by + 1;
                }
            }
        }
    }

    /// A call that is being begun goes through the interceptors.
    ///
    /// # Errors
    /// They do not let it go on.
    pub(crate) fn begin(
        &self,
        procedure: u16,
        deadline_ns: u64,
        carried: Option<Carried>,
    ) -> Result<InterceptedCall, CallError> {
        let mut call = self.call(procedure, deadline_ns);
        call.call.carried = carried;
        let Err((by, why)) = self.before(&mut call, 0) else { return Ok(call.call) };
        let mut ended = Err(CallError::not_sent(why));
        self.after(by, &mut call, &mut ended, None);
        ended.map(|()| call.call)
    }

    /// A call that was begun has ended with an error. Returns it.
    pub(crate) fn fail(&self, call: InterceptedCall, error: CallError) -> CallError {
        self.end(call, Err(error)).expect_err("an error stays one")
    }

    /// A call that was begun has ended. Returns its outcome.
    pub(crate) fn end(
        &self,
        call: InterceptedCall,
        mut ended: Result<(), CallError>,
    ) -> Result<(), CallError> {
        self.after(self.interceptors.len(), &mut call.at(Some(&self.uri)), &mut ended, None);
        ended
    }

    /// A call that was begun has no handle any more.
    pub(crate) fn let_go(&self, call: InterceptedCall) {
        let mut call = call.at(Some(&self.uri));
        for place in (0..self.interceptors.len()).rev() {
            // A panic has been reported by the panic hook; the call has no outcome that it could change.
            drop(self.interceptors.after(place, &mut call, None));
        }
    }

    #[inline]
    fn call(&self, procedure: u16, deadline_ns: u64) -> CallInfo<'_> {
        let is_timed = self.interceptors.is_timed();
        let procedure = self.interface.base(procedure);
        InterceptedCall::new((self.interface, procedure), None, deadline_ns, is_timed).at(Some(&self.uri))
    }

    /// Runs `before` of all from that place on.
    ///
    /// # Errors
    /// The one at that place does not let the call go on, for this reason.
    #[inline]
    fn before(&self, call: &mut CallInfo<'_>, mut from: usize) -> Result<(), (usize, SendError)> {
        loop {
            let Err(Stopped { by, why }) = self.interceptors.before(call, from) else { return Ok(()) };
            self.decide(by, why, call.call.deadline_ns).map_err(|why| (by, why))?;
            from = by + 1;
        }
    }

    /// Waits for the decision of the interceptor at that place, if it has made none.
    ///
    /// # Errors
    /// It does not let the call go on.
    #[cold]
    fn decide(&self, by: usize, mut why: StoppedBy, deadline_ns: u64) -> Result<(), SendError> {
        let refusal = loop {
            why = match why {
                StoppedBy::Refusal(refusal) => break refusal,
                StoppedBy::Panic(message) => break Refusal::denied(format!("it panicked: {message}")),
                StoppedBy::Later(decision) => match decision.wait(deadline_ns) {
                    Ok(Before::Go) => return Ok(()),
                    Ok(Before::Refuse(refusal)) => break refusal,
                    Ok(Before::Later(decision)) => StoppedBy::Later(decision),
                    Err(late) if late.code == FailureCode::FinishedTooLate => {
                        return Err(SendError::DeadlinePassed);
                    }
                    Err(_) => break Refusal::denied(UNDECIDED),
                },
            };
        };
        Err(SendError::Intercepted { interceptor: self.interceptors.name(by), refusal: Box::new(refusal) })
    }

    /// Runs `after` of so many, the last first. Returns the place of the one that has the call made again, and the pause before that;
    /// never if there is no `attempt` to repeat.
    #[inline]
    fn after(
        &self,
        passed: usize,
        call: &mut CallInfo<'_>,
        ended: &mut Result<(), CallError>,
        attempt: Option<&mut dyn Attempt>,
    ) -> Option<(usize, Duration)> {
        for place in (0..passed).rev() {
            match self.interceptors.after(place, call, Some(ended.as_ref().copied())) {
                Ok(after) => {
                    if let (Some(pause), Some(attempt)) = (after.pause(), &attempt)
                        && may_run_again(ended, call.is_idempotent())
                        && pause < call.time_left()
                        && attempt.is_repeatable()
                    {
                        return Some((place, pause));
                    }
                }
                Err(panicked) => *ended = panicked.spoils(mem::replace(ended, Ok(()))),
            }
        }
        None
    }
}

/// Whether making the call again cannot run a procedure twice that may not.
fn may_run_again(ended: &Result<(), CallError>, idempotent: bool) -> bool {
    match ended {
        Ok(()) | Err(CallError::Peer(..)) => false,
        Err(error) => match error.ran() {
            Ran::No => true,
            Ran::Perhaps => idempotent,
            Ran::Yes => false,
        },
    }
}

impl Panicked {
    /// The outcome of a call that had ended like this when the interceptor panicked.
    #[cold]
    fn spoils(self, ended: Result<(), CallError>) -> Result<(), CallError> {
        let Self { name, message } = self;
        let detail = format!("the client's interceptor `{name}`: {message}");
        ended.and(Err(CallError::failed(Failure { code: FailureCode::Panicked, detail })))
    }
}
