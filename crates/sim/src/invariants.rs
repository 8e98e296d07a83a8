//! Invariants of callers: after each event the simulator checks that they hold, whatever the driver has done.

use crate::events::ThreadId;
use crate::world::{Call, CallerProcess, OwnLane, Stage, Thread};
use crate::{CallId, Sim};
use stoop_exchange::Instant;
use stoop_exchange::bulk::Run;
use stoop_wire::{HEADER_LEN, Header, Kind};

/// Looks at a lane's timer at one moment, after which it has to advance.
const LOOKS_AT_ONE_MOMENT: u32 = 4;

impl Sim {
    /// Checks all callers.
    pub(crate) fn check_callers(&mut self) {
        for caller in 0..self.callers.len() {
            self.check_credit(caller);
            self.threads_of(caller).for_each(|at| self.check_session(at));
        }
    }

    /// The calls that count against the credit are those that are under way, and no call waits for ever.
    fn check_credit(&mut self, caller: usize) {
        let now = self.caller_now(caller);
        let CallerProcess { flow: Some(flow), threads, held, largest_credit, .. } = &self.callers[caller]
        else {
            return;
        };
        let under_way =
            threads.iter().filter(|thread| thread.call.as_ref().is_some_and(|call| call.under_way)).count();
        if flow.under_way() as usize != under_way {
            let counted = flow.under_way();
            self.ledger.complain(format!(
                "credit is lost: {under_way} calls are under way, and {counted} are counted"
            ));
        } else if under_way > *largest_credit as usize {
            self.ledger
                .complain(format!("{under_way} calls are under way, beyond a credit of {largest_credit}"));
        } else if under_way == 0 && !held.is_empty() && flow.room(now) == 0 {
            self.ledger.complain(format!("{} calls may not leave, and none is under way", held.len()));
        }
    }

    /// A call waits for a session only while its caller binds; and of a caller whose calls share an endpoint, a call is on its way only
    /// on the present session, or at a server that shuts down.
    fn check_session(&mut self, ThreadId { caller, thread }: ThreadId) {
        let CallerProcess { binder, flow, generation, threads, .. } = &self.callers[caller];
        let Thread { own, call: Some(call), .. } = &threads[thread] else { return };
        let is_lost = |own: &OwnLane| own.generation != *generation && own.granted.closed.get().is_none();
        let id = call.id;
        match call.stage {
            Stage::Waiting { .. } if binder.is_none() => {
                self.ledger.complain(format!("{id:?} waits for a session, and its caller does not bind"));
            }
            Stage::Calling { .. } if flow.is_some() && own.as_ref().is_some_and(is_lost) => {
                self.ledger.complain(format!("{id:?} is left on a session that is lost"));
            }
            _ => {}
        }
    }

    /// A call for which no session can be had has had an attempt to bind of its own, unless it is late.
    pub(crate) fn check_attempt(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        let CallerProcess { attempted, threads, .. } = &self.callers[at.caller];
        let Some(call) = &threads[at.thread].call else { return };
        let is_in_time = |call: &&Call| call.waits_for_session() && !call.cancelled && now < call.deadline;
        if Some(call).filter(is_in_time).is_some_and(|call| call.begun > *attempted) {
            let id = call.id;
            self.ledger.complain(format!("{id:?} ends with an attempt to bind that began before it"));
        }
    }

    /// The thread's call that a packet has answered, if it has, has ended.
    pub(crate) fn check_answered(&mut self, at: ThreadId, answered: Option<CallId>) {
        if let Some(id) = answered
            && self.call_of(at).is_some_and(|call| call.id == id)
        {
            self.ledger.complain(format!("the result of {id:?} arrives, and the call goes on"));
        }
    }

    /// More than one thing may be due at one moment; but not again and again. Returns whether the thread's timer advances.
    pub(crate) fn check_timer(&mut self, at: ThreadId, now: Instant) -> bool {
        let (when, times) = self.thread(at).looked;
        let looked = if when == now { (when, times + 1) } else { (now, 0) };
        self.thread(at).looked = looked;
        let advances = looked.1 <= LOOKS_AT_ONE_MOMENT;
        if !advances {
            self.ledger.complain("a lane's timer does not advance".into());
        }
        advances
    }

    /// A run of packets of the thread's call lies in its message, and within what the server has asked for; or it is one packet from the
    /// beginning, which asks whether there is room now.
    pub(crate) fn check_run(&mut self, at: ThreadId, run: &Run) -> bool {
        let Some(call) = self.call_of(at) else { return false };
        let (limit, message_len) = (call.limit, call.packet.len() - HEADER_LEN);
        let (end, is_question) =
            ((run.offset + run.len) as usize, run.offset == 0 && run.len <= run.fragment);
        let is_right = run.len > 0 && run.fragment > 0 && end <= message_len && (end <= limit || is_question);
        if !is_right {
            self.ledger.complain(format!("{run:?} of {message_len} bytes, limit {limit}"));
        }
        is_right
    }

    /// No server announces a longer result than its caller takes, unless bits of it have changed.
    pub(crate) fn check_result_len(&mut self, len: usize) -> bool {
        let most = self.scenario.longest_result;
        if len > most && !self.ledger.damage {
            self.ledger.complain(format!("a result of {len} bytes where {most} are the most"));
        }
        len <= most
    }

    /// The thread's call, which leaves now, is within its caller's credit, and the server still reserves that.
    pub(crate) fn check_leaving(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        // A machine that stands still does not see the time pass for which a credit is good.
        let sees_time = self.scenario.stops.is_none();
        let CallerProcess { flow: Some(flow), threads, binding, reserved_until, .. } =
            &self.callers[at.caller]
        else {
            return;
        };
        let Some(Call { id, .. }) = threads[at.thread].call else { return };
        let initial = binding.as_ref().map_or(u32::MAX, |granted| granted.bound.credit);
        if flow.room(now) == 0 {
            self.ledger.complain(format!("{id:?} leaves beyond its caller's credit"));
        } else if sees_time && flow.under_way() >= initial && self.now >= *reserved_until {
            self.ledger.complain(format!("{id:?} leaves on a credit that the server may give to others"));
        }
    }

    /// The thread's call that ends with this packet: its whole result, on the lane on which it is on its way.
    pub(crate) fn answered_by(&self, at: ThreadId, packet: &[u8]) -> Option<CallId> {
        let Thread { own: Some(own), call: Some(call), .. } = &self.callers[at.caller].threads[at.thread]
        else {
            return None;
        };
        let header = Header::parse_whole(Kind::Result, packet)?;
        let here = (own.granted.bound.binding, own.lane.id(), own.number());
        let is_of_it = (header.binding, header.lane, header.number) == here;
        (is_of_it && matches!(call.stage, Stage::Calling { .. })).then_some(call.id)
    }
}
