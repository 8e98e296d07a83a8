//! Calls about which an interceptor decides later: open calls, for which no worker waits.

use crate::context::{ServedContext, served_context};
use crate::error::Refusal;
use crate::intercept::Before;
use crate::intercept::chain::{Stopped, StoppedBy, UNDECIDED};
use crate::interface::Exported;
use crate::later::beginning::Beginning;
use crate::later::deferred::{Deferred, Given, Later, Open, Unanswered};
use crate::later::room::{KeptArguments, OpenRoom};
use crate::later::unserved::Unserved;
use crate::pipes::contract::{Ends, Pipes};
use crate::serving::intercepted::{Admitted, run_admitted};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use stoop_marshal::{Reader, Writer};
use stoop_wire::{HEADER_LEN, RefusalCode};

/// What runs the procedure.
pub(super) enum Kept {
    /// `limit`: bytes of the longest result.
    Arguments { exported: Arc<dyn Exported>, procedure: u16, arguments: KeptArguments, limit: usize },
    /// The stub of a procedure with pipes has the arguments, and waits for the call.
    Piped(Later),
}

/// A call that waits for a decision.
pub(super) struct Undecided {
    kept: Kept,
    admitted: Admitted,
    context: ServedContext,
    /// Of a procedure with pipes it is the stub that begins it.
    beginning: Beginning,
}

impl Undecided {
    /// The call that this thread serves.
    pub(super) fn new(kept: Kept, admitted: Admitted) -> Self {
        Self { kept, admitted, context: served_context(), beginning: Beginning::default() }
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
        let is_over = open.is_over() || self.admitted.served.is_cancelled();
        if is_over || matches!(self.kept, Kept::Arguments { .. }) && !self.beginning.begin() {
            let late = StoppedBy::Refusal(Refusal::new(RefusalCode::DeadlinePassed, ""));
            let all = self.admitted.interceptors.len();
            return self.refuse(all, late, &*open);
        }
        let Self { kept, admitted, context, .. } = self;
        let (exported, procedure, arguments, limit) = match kept {
            Kept::Arguments { exported, procedure, arguments, limit } => {
                (exported, procedure, arguments, limit)
            }
            Kept::Piped(later) => return admitted.watch(later, context).goes_to(open),
        };
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

    fn beginning(&self) -> Option<Beginning> {
        match &self.call.kept {
            Kept::Piped(later) => later.answer.beginning(),
            Kept::Arguments { .. } => Some(self.call.beginning.clone()),
        }
    }

    fn pipes(&self) -> Pipes {
        match &self.call.kept {
            Kept::Piped(later) => later.pipes(),
            Kept::Arguments { .. } => Pipes::default(),
        }
    }

    fn belong_to(&mut self, room: &Arc<OpenRoom>) {
        if let Kept::Piped(later) = &mut self.call.kept {
            later.belong_to(room);
        }
    }

    fn give_ends(&mut self, ends: Ends) {
        if let Kept::Piped(later) = &mut self.call.kept {
            later.give_ends(ends);
        }
    }
}
