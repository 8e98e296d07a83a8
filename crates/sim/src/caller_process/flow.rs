//! Flow control of a caller's calls of one packet, as the runtime has it for begun calls: which may leave, and when those that were
//! lost are sent again.

use crate::events::{Event, ThreadId};
use crate::world::{Call, CallerProcess, Stage, Thread};
use crate::{Sabotage, Sim};
use stoop_exchange::Instant;
use stoop_wire::Header;

/// Bytes that the kernel charges a receive buffer for a packet, as the runtime counts.
const PACKET_IN_BUFFER: usize = 2304;

impl Sim {
    /// A binding has been granted, with a credit.
    pub(super) fn credit_is_granted(&mut self, caller: usize) {
        let own = (self.scenario.caller_buffer / PACKET_IN_BUFFER) as u32;
        self.callers[caller].begin_credit(self.scenario.credits, own);
    }

    /// Whether the thread's call may not leave yet.
    pub(super) fn must_be_held(&self, at: ThreadId) -> bool {
        let now = self.caller_now(at.caller);
        let CallerProcess { flow, held, threads, .. } = &self.callers[at.caller];
        let Some(flow) = flow.as_ref().filter(|_| self.sabotage != Sabotage::IgnoresCredit) else {
            return false;
        };
        let call = threads[at.thread].call.as_ref();
        call.is_some_and(Call::is_short) && (!held.is_empty() || flow.room(now) == 0)
    }

    /// Has the thread's call wait until it may leave.
    pub(super) fn hold(&mut self, at: ThreadId) {
        let call = self.call_of(at).expect("it has a call");
        call.stage = Stage::Held;
        let id = call.id;
        self.callers[at.caller].held.push_back((at.thread, id));
        self.report.held += 1;
        self.waits_until_deadline(at);
    }

    /// The thread's call leaves, in that packet, which may have to ask for credit.
    pub(super) fn takes_off(&mut self, at: ThreadId, packet: &mut [u8]) {
        let now = self.caller_now(at.caller);
        self.check_leaving(at);
        let CallerProcess { flow, held, threads, begun, .. } = &mut self.callers[at.caller];
        *begun += 1;
        let (Some(flow), Some(call)) = (flow, &mut threads[at.thread].call) else { return };
        call.under_way = true;
        flow.on_sent(1);
        if flow.asks(now, !held.is_empty()) && self.sabotage != Sabotage::HidesThatOthersWait {
            Header::set_credit(packet, None);
            self.report.asked_for_credit += 1;
        }
    }

    /// Something is heard about the thread's call, which is not under way any more.
    pub(super) fn lands(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        let CallerProcess { flow: Some(flow), threads, .. } = &mut self.callers[at.caller] else { return };
        if let Some(Call { stage: Stage::Calling { first_sent }, under_way, .. }) =
            &mut threads[at.thread].call
            && std::mem::take(under_way)
            && self.sabotage != Sabotage::LosesCredit
        {
            flow.on_heard(now, 1, *first_sent);
        }
    }

    /// A result may grant more credit.
    pub(super) fn takes_grant(&mut self, at: ThreadId, result: &[u8]) {
        let Some(credit) = Header::credit(result).filter(|_| self.callers[at.caller].flow.is_some()) else {
            return;
        };
        let now = self.caller_now(at.caller);
        let until = self.reserved_until(result).unwrap_or_default();
        let Some(&Stage::Calling { first_sent }) = self.call_of(at).map(|call| &call.stage) else { return };
        let asked = if self.sabotage == Sabotage::TrustsLateGrants { now } else { first_sent };
        self.callers[at.caller].take_grant(now, credit, (asked, until));
        self.report.granted_late += u64::from(self.now >= until);
        self.report.granted += 1;
    }

    /// Whether the thread's call, whose timer is due, may be sent again now: a burst that was lost must not come again as a burst. If
    /// not, it is looked at again later.
    pub(super) fn may_repeat(&mut self, at: ThreadId, now: Instant) -> bool {
        let CallerProcess { flow, threads, .. } = &mut self.callers[at.caller];
        let thread = &mut threads[at.thread];
        let (Some(flow), Some(call)) = (flow, thread.call.as_ref().filter(|call| call.under_way)) else {
            return true;
        };
        if flow.repeats(now) > 0 {
            flow.on_repeated();
            return true;
        }
        let later = flow.repeats_again().min(call.deadline);
        self.report.repeated_later += 1;
        thread.timer_at = Some(later);
        self.plan_for(at, later, Event::LaneTimer);
        false
    }

    /// The thread's call is sent again. Twice in vain: once alone may be a long procedure.
    pub(super) fn notes_loss(&mut self, at: ThreadId, now: Instant) {
        let CallerProcess { flow: Some(flow), threads, .. } = &mut self.callers[at.caller] else { return };
        let Thread { own: Some(own), call: Some(call), .. } = &mut threads[at.thread] else { return };
        if let Stage::Calling { first_sent } = call.stage
            && call.under_way
            && own.lane().last_transmissions() > 2
        {
            self.report.congested += u64::from(flow.on_lost(now, first_sent));
        }
    }

    /// Sends calls that had to wait, of all callers, as many as may leave now.
    pub(crate) fn held_calls_leave(&mut self) {
        for caller in 0..self.callers.len() {
            while self.next_held_leaves(caller) {}
        }
    }

    fn next_held_leaves(&mut self, caller: usize) -> bool {
        let now = self.caller_now(caller);
        let process = &mut self.callers[caller];
        let Some(thread) = process.first_held() else { return false };
        if !process.up || process.flow.as_ref().is_none_or(|flow| flow.room(now) == 0) {
            return false;
        }
        if process.binding.is_none() || process.is_closing() {
            self.leaves_closing_server(caller);
            self.bind(caller);
            return false;
        }
        process.held.pop_front();
        self.send_now(ThreadId { caller, thread });
        true
    }
}
