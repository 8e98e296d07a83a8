//! Cancels calls, and keeps a lane busy until the server has answered the cancel.

use crate::Sim;
use crate::events::ThreadId;
use crate::ledger::CallId;
use crate::world::{Stage, Thread};

impl Sim {
    /// The program no longer waits for a call, if it still did.
    pub(crate) fn cancel_call(&mut self, at: ThreadId, id: CallId) {
        let (now, judged_at) = (self.caller_now(at.caller), self.caller_is_judged_at(at.caller));
        self.ledger.is_unwanted(id);
        let Some(id) = self.call_named(at, id).filter(|call| !call.cancelled).map(|call| call.id) else {
            self.report.cancelled_late += 1;
            return;
        };
        let Thread { own, call: Some(call), .. } = &mut self.callers[at.caller].threads[at.thread] else {
            return;
        };
        match &call.stage {
            Stage::Waiting { .. } | Stage::Held | Stage::Postponed => {
                self.report.cancelled_unsent += 1;
                call.cancelled = true;
                self.ledger.cancelled(id, judged_at);
                self.has_no_session(at);
            }
            Stage::Calling { .. } => {
                let own = own.as_mut().expect("a call is made on a lane");
                let Some(packet) = own.lane().cancel(now) else {
                    return self.ledger.complain(format!("{id:?} goes on, and its lane has no call"));
                };
                own.lane.settle(&mut own.path.borrow_mut());
                call.cancelled = true;
                self.ledger.cancelled(id, judged_at);
                self.report.cancelled += 1;
                self.send_from(at, &packet);
                self.plan_lane_timer(at);
                self.pump_others(at);
            }
        }
    }
}
