//! Calls that were answered later, of which interceptors are told how they end.

use crate::error::{CallError, Failure, FailureCode, Refusal};
use crate::later::deferred::{Given, Later, Open, ReplyError};
use crate::locked::locked;
use crate::serving::outcome::{error_of_panic, refused};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

/// Is told how a call has ended that was answered later, before the answer leaves. If it panics when there is a result, the call has panicked.
type Watch = Box<dyn FnOnce(Result<(), CallError>) + Send>;

impl Later {
    /// The same answer, and `watch` is told of it.
    #[cold]
    pub(crate) fn watched(self, watch: Watch) -> Self {
        self.redirected(|call| Arc::new(WatchedCall { call, watch: Mutex::new(Some(watch)) }))
    }
}

/// An open call of which something is told how it ends.
struct WatchedCall {
    call: Arc<dyn Open>,
    watch: Mutex<Option<Watch>>,
}

impl WatchedCall {
    fn tell(&self, ended: Result<(), CallError>) {
        // Apart: the lock is not held while it runs.
        let watch = locked(&self.watch).take();
        if let Some(watch) = watch {
            watch(ended);
        }
    }

    fn tell_failure(&self, code: FailureCode) {
        self.tell(Err(CallError::failed(Failure { code, detail: String::new() })));
    }
}

impl Open for WatchedCall {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        let put = match given {
            Given::Result(put) => put,
            Given::Failure(code) => {
                self.tell_failure(code);
                return self.call.answer(given);
            }
            Given::Refusal(code, detail) => {
                self.tell(Err(CallError::refused(Refusal::new(code, detail))));
                return self.call.answer(given);
            }
        };
        let reached = self.call.answer(Given::Result(&|result| {
            match catch_unwind(AssertUnwindSafe(|| put(result))) {
                Ok(Ok(())) if result.has_failed() => self.tell_failure(FailureCode::ResultTooLarge),
                Ok(Ok(())) => self.tell(Ok(())),
                Ok(Err(why)) => {
                    let (code, detail) = refused(&why);
                    self.tell(Err(CallError::refused(Refusal::new(code, detail))));
                    return Err(why);
                }
                Err(panic) => {
                    self.tell(Err(error_of_panic(&*panic)));
                    resume_unwind(panic);
                }
            }
            Ok(())
        }));
        // Unless it was told: the answer came too late, or nothing waits for it.
        self.tell_failure(match reached {
            Err(ReplyError::DeadlinePassed) => FailureCode::FinishedTooLate,
            _ => FailureCode::ResultGone,
        });
        reached
    }

    fn is_over(&self) -> bool {
        self.call.is_over()
    }
}
