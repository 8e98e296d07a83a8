//! The interceptors of a server, around the procedures of its interfaces.
//!
//! A server that has some exports each interface through an [`Intercepted`]. The others export them as they are, so that nothing is added to
//! their calls.

mod undecided;

use crate::buffers::Memory;
use crate::context::{Caller, ServedCall, ServedContext, served_call, served_context, serving_caller};
use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode};
use crate::intercept::chain::{Interceptors, Stopped, StoppedBy, UNDECIDED};
use crate::intercept::{Before, CallInfo, InterceptedCall};
use crate::interface::{Exported, Interface};
use crate::later::deferred::Later;
use crate::later::room::{OpenRoom, keep_arguments};
use crate::later::unserved::Unserved;
use crate::metadata::served;
use crate::serving::dispatch::OUT_UNCOUNTED;
use crate::serving::intercepted::undecided::{Kept, Undecided};
use crate::serving::outcome::{Outcome, error_of_panic, refused};
use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use stoop_marshal::{Reader, Writer};
use stoop_net::clock;

/// The exports, whose calls go through the interceptors.
pub(crate) fn intercept(
    exports: Vec<Arc<dyn Exported>>,
    interceptors: Interceptors,
) -> Vec<Arc<dyn Exported>> {
    if interceptors.is_empty() {
        return exports;
    }
    let interceptors = Arc::new(interceptors);
    let intercepted = |inner| -> Arc<dyn Exported> {
        Arc::new(Intercepted { inner, interceptors: Arc::clone(&interceptors), room: OnceLock::new() })
    };
    exports.into_iter().map(intercepted).collect()
}

/// An interface whose calls go through interceptors.
struct Intercepted {
    inner: Arc<dyn Exported>,
    interceptors: Arc<Interceptors>,
    /// Bounds the calls that are decided later.
    room: OnceLock<Arc<OpenRoom>>,
}

/// A call that interceptors have let go on.
pub(super) struct Admitted {
    pub(super) call: InterceptedCall,
    pub(super) served: ServedCall,
    pub(super) interceptors: Arc<Interceptors>,
}

thread_local! {
    /// The call of this thread that needs [more room](Unserved::ResultTooLarge) for its OUT arguments: it is dispatched once more, or
    /// [refused](not_dispatched_again), before the thread does anything else.
    static NEEDS_ROOM: RefCell<Option<Admitted>> = const { RefCell::new(None) };
}

impl Intercepted {
    #[inline]
    fn run(
        &self,
        procedure: u16,
        arguments: Option<&[u8]>,
        result: &mut Writer<'_>,
        run: impl FnOnce(&mut Writer<'_>) -> Result<(), Unserved>,
    ) -> Result<(), Unserved> {
        let (interface, caller) = (self.inner.interface(), serving_caller());
        let base = interface.base(procedure);
        if usize::from(base) >= interface.procedures.len() {
            return run(result);
        }
        let served = served_call();
        let deadline_ns = served.deadline_ns();
        let has_room = caller == Caller::Local || result.out_limit() > OUT_UNCOUNTED;
        let admitted = if has_room { NEEDS_ROOM.take() } else { None };
        let call = match admitted.filter(|admitted| admitted.served == served) {
            Some(Admitted { mut call, .. }) => {
                // The pairs that the interceptors have added so far.
                served::set_answer(mem::take(&mut call.answer));
                call.at(None)
            }
            None => {
                let is_timed = self.interceptors.is_timed();
                let call = (interface, base);
                let mut call = InterceptedCall::new(call, Some(caller), deadline_ns, is_timed).at(None);
                if let Err(Stopped { by, why }) = self.interceptors.before(&mut call, 0) {
                    let admitted =
                        Admitted { call: call.call, served, interceptors: Arc::clone(&self.interceptors) };
                    call = self.decide(admitted, (by, why), procedure, arguments, result)?.call.at(None);
                }
                call
            }
        };
        run_admitted(&self.interceptors, (call, served), has_room, result, run)
    }

    /// An interceptor has not let a call go on at once. If it has decided nothing, and the call has these arguments, the call becomes an open
    /// one; otherwise the thread waits.
    ///
    /// # Errors
    /// The call is refused or open.
    #[cold]
    fn decide(
        &self,
        mut admitted: Admitted,
        (mut by, mut why): (usize, StoppedBy),
        procedure: u16,
        arguments: Option<&[u8]>,
        result: &mut Writer<'_>,
    ) -> Result<Admitted, Unserved> {
        loop {
            let decision = match why {
                StoppedBy::Later(decision) => decision,
                why => return Err(Unserved::Refused(admitted.refuse(by, why))),
            };
            let decided = match arguments {
                Some(arguments) => {
                    let kept = match self.keep(procedure, arguments, result) {
                        Ok(kept) => kept,
                        Err(why) => {
                            let (code, detail) = refused(&why);
                            admitted.refuse(by, StoppedBy::Refusal(Refusal::new(code, detail)));
                            return Err(why);
                        }
                    };
                    let call = Undecided::new(kept, admitted);
                    return Err(Unserved::Later(call.until(by, decision)));
                }
                None => decision.wait(admitted.call.deadline_ns),
            };
            why = match decided {
                Ok(Before::Go) => match admitted.go_on(by + 1) {
                    Ok(admitted) => return Ok(admitted),
                    Err(stopped) => {
                        let (same, stopped) = *stopped;
                        (admitted, by) = (same, stopped.by);
                        stopped.why
                    }
                },
                Ok(Before::Refuse(refusal)) => StoppedBy::Refusal(refusal),
                Ok(Before::Later(decision)) => StoppedBy::Later(decision),
                Err(late) if late.code == FailureCode::FinishedTooLate => {
                    StoppedBy::Refusal(Refusal::new(RefusalCode::DeadlinePassed, ""))
                }
                Err(_) => StoppedBy::Refusal(Refusal::denied(UNDECIDED)),
            };
        }
    }

    /// What a call needs that waits for a decision.
    ///
    /// # Errors
    /// The call is refused.
    fn keep(&self, procedure: u16, arguments: &[u8], result: &mut Writer<'_>) -> Result<Kept, Unserved> {
        let interface = self.inner.interface();
        if interface.procedures[usize::from(interface.base(procedure))].has_pipes() {
            // Its stub keeps the arguments. The procedure begins when the answer goes to the call, which has its pipes by then.
            return match self.inner.dispatch(procedure, Reader::new(arguments), result) {
                Err(Unserved::Later(later)) => Ok(Kept::Piped(later)),
                Err(why) => Err(why),
                Ok(()) => unreachable!("a call with pipes is open from its beginning"),
            };
        }
        let arguments = keep_arguments(&self.room, arguments)?;
        // A message has 32 bits for its length.
        let limit = result.limit().min(u32::MAX as usize);
        Ok(Kept::Arguments { exported: Arc::clone(&self.inner), procedure, arguments, limit })
    }
}

/// Runs a call that interceptors have let go on, and what they do afterwards. `has_room`: more would not be given for its OUT arguments.
#[inline]
pub(super) fn run_admitted(
    interceptors: &Arc<Interceptors>,
    (mut call, served): (CallInfo<'_>, ServedCall),
    has_room: bool,
    result: &mut Writer<'_>,
    run: impl FnOnce(&mut Writer<'_>) -> Result<(), Unserved>,
) -> Result<(), Unserved> {
    let why = match catch_unwind(AssertUnwindSafe(|| run(result))) {
        Ok(Ok(())) => {
            interceptors.end(&mut call, ended(result, served.deadline_ns()));
            return Ok(());
        }
        Ok(Err(why)) => why,
        Err(panic) => {
            // The panic of the procedure outranks one of an interceptor.
            interceptors.end_of(interceptors.len(), &mut call, Err(error_of_panic(&*panic)));
            resume_unwind(panic);
        }
    };
    let admitted = Admitted { call: call.call, served, interceptors: Arc::clone(interceptors) };
    Err(admitted.without_result(why, has_room))
}

impl Admitted {
    /// Runs `before` of the interceptors from that place on.
    ///
    /// # Errors
    /// One does not let the call go on.
    pub(super) fn go_on(self, from: usize) -> Result<Self, Box<(Self, Stopped)>> {
        let Self { call, served, interceptors } = self;
        let mut info = call.at(None);
        let stopped = interceptors.before(&mut info, from);
        let same = Self { call: info.call, served, interceptors };
        match stopped {
            Ok(()) => Ok(same),
            Err(stopped) => Err(Box::new((same, stopped))),
        }
    }

    /// The interceptor at that place refuses the call. Returns what its caller learns.
    pub(super) fn refuse(self, by: usize, why: StoppedBy) -> Refusal {
        let Self { call, interceptors, .. } = self;
        let refusal = match why {
            StoppedBy::Refusal(refusal) => as_interceptors_may(refusal),
            _ => Refusal::denied(format!("the server's interceptor `{}` panicked", interceptors.name(by))),
        };
        interceptors.end_of(by, &mut call.at(None), Err(CallError::refused(refusal.clone())));
        refusal
    }

    /// The call has no result at once, for this reason, which is returned.
    #[cold]
    fn without_result(mut self, why: Unserved, has_room: bool) -> Unserved {
        match why {
            Unserved::ResultTooLarge if !has_room => {
                self.call.answer = served::answer();
                NEEDS_ROOM.set(Some(self));
                Unserved::ResultTooLarge
            }
            Unserved::Later(later) => Unserved::Later(self.watch(later, served_context())),
            Unserved::Failed(failure) => {
                self.end(Err(CallError::failed(failure.clone())));
                Unserved::Failed(failure)
            }
            why => {
                let (code, detail) = refused(&why);
                self.end(Err(CallError::refused(Refusal::new(code, detail))));
                why
            }
        }
    }

    /// The same answer, and the interceptors are told of it. The thread that gives it may serve another call.
    pub(super) fn watch(self, later: Later, context: ServedContext) -> Later {
        later.watched(Box::new(move |ended| context.serving(|| self.end(ended))))
    }

    /// The call has ended.
    ///
    /// # Panics
    /// An interceptor does, and there was a result.
    fn end(self, ended: Result<(), CallError>) {
        let (Self { call, interceptors, .. }, has_result) = (self, ended.is_ok());
        match interceptors.end_of(interceptors.len(), &mut call.at(None), ended) {
            Some(message) if has_result => resume_unwind(Box::new(message)),
            _ => {}
        }
    }
}

/// The refusal of a call that was to be dispatched once more with more room.
#[cold]
pub(crate) fn not_dispatched_again(refused: Outcome) -> Outcome {
    if let (Some(admitted), Outcome::Refused(why)) = (NEEDS_ROOM.take(), &refused) {
        admitted.end(Err(CallError::refused(Refusal::new(why.0, why.1.clone()))));
    }
    refused
}

/// The reasons for which interceptors refuse: others have a meaning in the protocol.
fn as_interceptors_may(refusal: Refusal) -> Refusal {
    match refusal.code {
        RefusalCode::Denied | RefusalCode::Overloaded | RefusalCode::DeadlinePassed => refusal,
        _ => Refusal { code: RefusalCode::Denied, ..refusal },
    }
}

/// How a call has ended whose procedure has just returned and has written its result.
#[inline]
fn ended(result: &Writer<'_>, deadline_ns: u64) -> Result<(), CallError> {
    let is_near = clock::coarse_now_ns() + clock::coarse_lag_ns() >= deadline_ns;
    if is_near && clock::now_ns() >= deadline_ns {
        return Err(failed(FailureCode::FinishedTooLate));
    }
    if result.is_inexpressible() {
        return Err(failed(FailureCode::Inexpressible));
    }
    if result.has_failed() {
        return Err(failed(FailureCode::ResultTooLarge));
    }
    Ok(())
}

#[cold]
fn failed(code: FailureCode) -> CallError {
    CallError::failed(Failure { code, detail: String::new() })
}

impl Interceptors {
    /// Runs `after` of all, the last first, of a call that has ended at the server.
    ///
    /// # Panics
    /// One of them does: the call has failed.
    #[inline]
    fn end(&self, call: &mut CallInfo<'_>, ended: Result<(), CallError>) {
        if let Some(message) = self.end_of(self.len(), call, ended) {
            resume_unwind(Box::new(message));
        }
    }

    /// Runs `after` of so many, the last first. Returns the message of a panic.
    #[inline]
    fn end_of(
        &self,
        passed: usize,
        call: &mut CallInfo<'_>,
        mut ended: Result<(), CallError>,
    ) -> Option<String> {
        let mut message = None;
        for place in (0..passed).rev() {
            if let Err(panicked) = self.after(place, call, Some(ended.as_ref().copied())) {
                let why = format!("the server's interceptor `{}`: {}", panicked.name, panicked.message);
                let failure = Failure { code: FailureCode::Panicked, detail: why.clone() };
                ended = ended.and(Err(CallError::failed(failure)));
                message.get_or_insert(why);
            }
        }
        message
    }
}

impl Exported for Intercepted {
    fn inner(&self) -> Option<&dyn Exported> {
        Some(&*self.inner)
    }

    fn interface(&self) -> &'static Interface {
        self.inner.interface()
    }

    fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved> {
        // As in `account::served`.
        let arguments = call.into_payload();
        let dispatch =
            |result: &mut Writer<'_>| self.inner.dispatch(procedure, Reader::new(arguments), result);
        self.run(procedure, Some(arguments), result, dispatch)
    }

    fn dispatch_with_memory(
        &self,
        procedure: u16,
        call: Reader<'_>,
        memory: Memory<'_>,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        self.run(procedure, None, result, |result| {
            self.inner.dispatch_with_memory(procedure, call, memory, result)
        })
    }

    fn dispatch_in_place(
        &self,
        procedure: u16,
        leading: &[u8],
        len: usize,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        self.run(procedure, None, result, |result| {
            self.inner.dispatch_in_place(procedure, leading, len, result)
        })
    }

    fn lend_room(&self, room: &Arc<OpenRoom>) {
        // It is the same whenever it is lent.
        let _ = self.room.set(Arc::clone(room));
        self.inner.lend_room(room);
    }

    fn is_marshaled(&self) -> bool {
        true
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        self.inner.local()
    }
}
