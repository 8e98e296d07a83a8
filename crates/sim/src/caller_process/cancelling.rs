//! Cancels calls, and keeps a lane busy until the server has answered the cancel.

use crate::Sim;
use crate::events::ThreadId;
use crate::ledger::CallId;
use crate::world::Stage;

impl Sim {
    /// The program no longer waits for a call, if it still did.
    pub(crate) fn cancel_call(&mut self, at: ThreadId, id: CallId) {
        let (now, judged_at) = (self.caller_now(at.caller), self.caller_is_judged_at(at.caller));
        self.ledger.is_unwanted(id);
        let Some(call) = self.call_named(at, id).filter(|call| !call.cancelled) else {
            self.report.cancelled_late += 1;
            return;
        };
        call.cancelled = true;
        let (id, is_made) = (call.id, matches!(call.stage, Stage::Calling { .. }));
        self.ledger.cancelled(id, judged_at);
        if !is_made {
            self.report.cancelled_unsent += 1;
            return self.has_no_session(at);
        }
        let own = self.thread(at).own.as_mut().expect("a call is made on a lane");
        let Some(packet) = own.lane().cancel(now) else {
            return self.ledger.complain(format!("{id:?} goes on, and its lane has no call"));
        };
        self.thread(at).settle();
        self.report.cancelled += 1;
        self.send_from(at, &packet);
        self.plan_lane_timer(at);
        self.pump_others(at);
    }
}
