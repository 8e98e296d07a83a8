//! Calls about which an interceptor decides later: open calls, for which no worker waits.

use crate::context::{ServedContext, served_context};
use crate::error::Refusal;
use crate::intercept::Before;
use crate::intercept::chain::{Stopped, StoppedBy, UNDECIDED};
use crate::interface::Exported;
use crate::later::deferred::{Deferred, Given, Later, Open, Unanswered};
use crate::later::room::KeptArguments;
use crate::later::unserved::Unserved;
use crate::serving::intercepted::{Admitted, run_admitted};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_marshal::{Reader, Writer};
use stoop_wire::{HEADER_LEN, RefusalCode};

/// A call that waits for a decision.
pub(super) struct Undecided {
    exported: Arc<dyn Exported>,
    procedure: u16,
    arguments: KeptArguments,
    /// Bytes of the longest result.
    limit: usize,
    admitted: Admitted,
    context: ServedContext,
    has_begun: Arc<AtomicBool>,
}

impl Undecided {
    /// The call that this thread serves.
    pub(super) fn new(
        exported: &Arc<dyn Exported>,
        procedure: u16,
        arguments: KeptArguments,
        limit: usize,
        admitted: Admitted,
    ) -> Self {
        let (exported, context) = (Arc::clone(exported), served_context());
        // A message has 32 bits for its length.
        let limit = limit.min(u32::MAX as usize);
        Self { exported, procedure, arguments, limit, admitted, context, has_begun: Arc::default() }
    }

    /// The answer, once the interceptor at that place has decided.
    pub(super) fn until(self, by: usize, decision: Deferred<Before>) -> Later {
        Later::new(Box::new(Waiting { call: self, by, decision }))
    }

    fn decide(self, by: usize, decision: Option<Before>, open: Arc<dyn Open>) {
        match decision {
            Some(Before::Go) => self.go_on(by, open),
            Some(Before::Later(next)) => next.then(move |decision| self.decide(by, decision, open)),
            Some(Before::Refuse(refusal)) => self.refuse(by, StoppedBy::Refusal(refusal), &*open),
            None => self.refuse(by, StoppedBy::Refusal(Refusal::denied(UNDECIDED)), &*open),
        }
    }

    fn refuse(self, by: usize, why: StoppedBy, open: &dyn Open) {
        let Self { admitted, context, .. } = self;
        let refusal = context.serving(|| admitted.refuse(by, why));
        // Its caller may have gone.
        let _ = open.answer(Given::Refusal(refusal.code, &refusal.detail));
    }

    /// The interceptor at that place has let the call go on.
    fn go_on(self, by: usize, open: Arc<dyn Open>) {
        let Self { admitted, context, .. } = self;
        match context.serving(|| admitted.go_on(by + 1)) {
            Ok(admitted) => Self { admitted, context, ..self }.run(open),
            Err(stopped) => {
                let (admitted, Stopped { by, why }) = *stopped;
                let same = Self { admitted, context, ..self };
                match why {
                    StoppedBy::Later(next) => next.then(move |decision| same.decide(by, decision, open)),
                    why => same.refuse(by, why, &*open),
                }
            }
        }
    }

    /// Runs the procedure, in the thread that has decided.
    fn run(self, open: Arc<dyn Open>) {
        if open.is_over() || self.admitted.served.is_cancelled() {
            let late = StoppedBy::Refusal(Refusal::new(RefusalCode::DeadlinePassed, ""));
            let all = self.admitted.interceptors.len();
            return self.refuse(all, late, &*open);
        }
        self.has_begun.store(true, Ordering::SeqCst);
        let Self { exported, procedure, arguments, limit, admitted, context, .. } = self;
        let Admitted { call, served, interceptors } = admitted;
        let mut packet = vec![0; HEADER_LEN];
        let mut result = Writer::new(&mut packet, HEADER_LEN, limit);
        let dispatch =
            |result: &mut Writer<'_>| exported.dispatch(procedure, Reader::new(&arguments), result);
        let run = || run_admitted(&interceptors, (call.at(None), served), true, &mut result, dispatch);
        let ran = match context.serving(|| catch_unwind(AssertUnwindSafe(run))) {
            Ok(Err(Unserved::Later(later))) => return later.goes_to(open),
            ran => ran.map(|served| served.map(|()| result.finish())),
        };
        let ran = Cell::new(Some(ran));
        // The error would say that the caller has gone. The interceptor, which could be told, has returned its decision.
        let _ = open.answer(Given::Result(&|result| {
            match ran.take() {
                Some(Ok(Ok(Ok(len)))) => {
                    if let Some(bytes) = result.chunk(1, len) {
                        bytes.copy_from_slice(&packet[HEADER_LEN..HEADER_LEN + len]);
                    }
                }
                Some(Ok(Ok(Err(why)))) => result.fail(why),
                Some(Ok(Err(why))) => return Err(why),
                Some(Err(panic)) => resume_unwind(panic),
                None => {}
            }
            Ok(())
        }));
    }
}

/// A call, and the decision for which it waits.
struct Waiting {
    call: Undecided,
    by: usize,
    decision: Deferred<Before>,
}

impl Unanswered for Waiting {
    fn goes_to(self: Box<Self>, open: Arc<dyn Open>) {
        let Self { call, by, decision } = *self;
        decision.then(move |decision| call.decide(by, decision, open));
    }

    fn has_begun(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.call.has_begun))
    }
}
