//! Calls within a process: how one ends whose procedure the thread that makes it runs.

use crate::context::{is_too_late, noting_asked};
use crate::error::{CallError, Failure, Refusal};
use crate::later::deferred::{AtDeadline, Given, Open, ReplyError};
use crate::locked::locked;
use crate::serving::dispatch::{CallLimits, Exports};
use crate::serving::one_call;
use crate::serving::outcome::{NoRoom, Outcome};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use stoop_net::clock;
use stoop_wire::HEADER_LEN;

/// Has `run` run a procedure, which leaves its result in `packet`, and waits for an answer that comes later.
pub(crate) fn run(
    exports: &Arc<Exports>,
    packet: &mut Vec<u8>,
    limits: CallLimits,
    run: impl FnOnce(&mut Vec<u8>) -> Result<Outcome, NoRoom>,
) -> Outcome {
    let (ran, asked) = noting_asked(|| run(packet));
    match ran.unwrap_or_else(|why| why.refused(limits.result_max)) {
        Outcome::Later(mut later) => {
            // Until the caller has the answer.
            let _held = later.take_held();
            let waiting = Arc::new(WaitingCaller::new(exports, limits, later.at_deadline()));
            later.goes_to(Arc::clone(&waiting) as Arc<dyn Open>);
            let ran;
            (ran, *packet) = waiting.wait();
            ran
        }
        Outcome::Result(_) if is_too_late(limits.deadline_ns, asked) => Outcome::finished_too_late(),
        ran => ran,
    }
}

/// Bytes of the result of a call that has run so.
pub(crate) fn result_len(ran: Outcome) -> Result<usize, CallError> {
    match ran {
        Outcome::Result(len) => Ok(len),
        Outcome::Refused(why) => Err(CallError::refused(Refusal::new(why.0, why.1))),
        Outcome::Failed(why) => Err(CallError::failed(Failure { code: why.0, detail: why.1 })),
        Outcome::Later(_) => unreachable!("it has no answer yet"),
    }
}

/// A caller that waits for an answer that comes later.
struct WaitingCaller {
    exports: Arc<Exports>,
    limits: CallLimits,
    at_deadline: AtDeadline,
    state: Mutex<State>,
    given: Condvar,
}

enum State {
    Open,
    /// The outcome, with its packet.
    Given(Outcome, Vec<u8>),
    /// The caller waits no longer.
    Over,
}

impl WaitingCaller {
    fn new(exports: &Arc<Exports>, limits: CallLimits, at_deadline: AtDeadline) -> Self {
        let (state, given) = (Mutex::new(State::Open), Condvar::new());
        Self { exports: Arc::clone(exports), limits, at_deadline, state, given }
    }

    /// The outcome at the deadline.
    fn late(&self) -> Outcome {
        let now_ns = self.limits.deadline_ns;
        one_call::conclude(&self.exports, &self.limits, self.at_deadline.given(), &mut Vec::new(), now_ns).0
    }

    /// Waits for the answer, until the deadline.
    fn wait(&self) -> (Outcome, Vec<u8>) {
        let mut state = locked(&self.state);
        loop {
            let left_ns = self.limits.deadline_ns.saturating_sub(clock::now_ns());
            match mem::replace(&mut *state, State::Over) {
                State::Given(outcome, packet) => return (outcome, packet),
                _ if left_ns == 0 => return (self.late(), vec![0; HEADER_LEN]),
                before => *state = before,
            }
            let waited = self.given.wait_timeout(state, Duration::from_nanos(left_ns));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Open for WaitingCaller {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        if self.is_over() {
            return Err(ReplyError::DeadlinePassed);
        }
        let mut packet = vec![0; HEADER_LEN];
        let now_ns = clock::now_ns();
        let (ran, reached) = one_call::conclude(&self.exports, &self.limits, given, &mut packet, now_ns);
        let mut state = locked(&self.state);
        if let State::Open = *state {
            *state = State::Given(ran, packet);
            self.given.notify_all();
        }
        reached
    }

    fn is_over(&self) -> bool {
        !matches!(*locked(&self.state), State::Open)
    }
}
