//! Calls that the server has refused, as the runtime sends them again: later if it is overloaded, to the next server if it shuts down.

use crate::events::{Event, ThreadId};
use crate::ledger::CallId;
use crate::world::{CallerProcess, Stage};
use crate::{Sabotage, Sim};
use core::time::Duration;
use stoop_calls::life::{Ended, Next, Said};
use stoop_exchange::retry::{Retry, RetryBudget};
use stoop_wire::Refused;

impl Sim {
    /// The server has refused the thread's call.
    pub(super) fn on_refusal(&mut self, at: ThreadId, refused: Refused) {
        let now = self.caller_now(at.caller);
        let (random, CallerProcess { threads, budget, begun, .. }) =
            (&mut self.random, &mut self.callers[at.caller]);
        let call = threads[at.thread].call.as_mut().expect("it was refused");
        call.refused = Some(refused);
        if call.cancelled {
            return self.has_no_session(at);
        }
        let (left, follows) = (call.deadline.since(now), self.scenario.follows);
        let wait = |refused, refusals| {
            let budget = budget.get_or_insert_with(|| RetryBudget::new(Retry::new(), random.bits()));
            budget.wait(*begun, refused, refusals, left).filter(|_| follows)
        };
        match call.life.after(Ended::Refused(refused), 0, call.idempotent, wait) {
            Next::Later(wait) => self.postpone(at, wait),
            Next::Bind(_) if !follows => self.has_no_session(at),
            Next::Bind(_) | Next::Send => self.sends_elsewhere(at),
            Next::End(told) => self.fail(at, told, Said::Refused),
        }
    }

    fn postpone(&mut self, at: ThreadId, wait: Duration) {
        let again = self.caller_now(at.caller) + wait;
        self.thread(at).settle();
        let call = self.call_of(at).expect("it was refused");
        call.stage = Stage::Postponed;
        let id = call.id;
        self.ledger.waits(id, again);
        self.report.postponed += 1;
        self.plan_for(at, again, |at, life| Event::ComesAgain(at, life, id));
    }

    /// The time has come for a call that was refused for overload.
    pub(crate) fn comes_again(&mut self, at: ThreadId, id: CallId) {
        let now = self.caller_now(at.caller);
        let call = self.call_named(at, id).filter(|call| matches!(call.stage, Stage::Postponed));
        match call.map(|call| now < call.deadline) {
            Some(true) => self.goes_on(at),
            Some(false) => self.has_no_session(at),
            None => {}
        }
    }

    /// The thread's call, which is not on its way, is sent, or waits for a binding.
    pub(super) fn goes_on(&mut self, at: ThreadId) {
        self.leaves_closing_server(at.caller);
        let CallerProcess { binding, threads, .. } = &mut self.callers[at.caller];
        if binding.is_some() {
            return self.send_call(at);
        }
        threads[at.thread].call.as_mut().expect("it has a call").stage = Stage::Waiting { sent: None };
        self.wait_for_binding(at);
    }

    /// The server shuts down and has refused the thread's call, which goes to the next server.
    fn sends_elsewhere(&mut self, at: ThreadId) {
        self.thread(at).settle();
        self.report.left_server += 1;
        if self.sabotage == Sabotage::TakesRunningCallsAlong {
            self.running_calls_leave(at.caller);
        }
        self.goes_on(at);
    }

    /// If the caller has heard that its server shuts down, it has no binding any more, and binds to the next server. Its calls that
    /// run there go on.
    pub(super) fn leaves_closing_server(&mut self, caller: usize) {
        let process = &mut self.callers[caller];
        if self.scenario.follows && process.is_closing() {
            process.binding = None;
            process.place = (process.place + 1) % self.scenario.places;
        }
    }
}
