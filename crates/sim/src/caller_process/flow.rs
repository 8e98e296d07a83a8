//! Flow control of a caller's calls of one packet, as the runtime has it for begun calls: which may leave, and when those that were
//! lost are sent again.

use crate::events::{Event, ThreadId};
use crate::world::{Call, CallerProcess, Stage, Thread};
use crate::{Sabotage, Sim};
use core::time::Duration;
use stoop_exchange::{Flow, Instant, RoundTrip};
use stoop_wire::Header;

/// Bytes that the kernel charges a receive buffer for a packet, as the runtime counts.
const PACKET_IN_BUFFER: usize = 2304;

/// The runtime looks at its timeouts no more often.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Sim {
    /// A binding has been granted, with a credit.
    pub(super) fn credit_is_granted(&mut self, caller: usize) {
        let own = (self.scenario.caller_buffer / PACKET_IN_BUFFER) as u32;
        let CallerProcess { binding: Some(granted), flow, path, largest_credit, reserved_until, .. } =
            &mut self.callers[caller]
        else {
            return;
        };
        *largest_credit = granted.bound.credit.max(*largest_credit);
        *reserved_until = Instant::default();
        match flow {
            Some(flow) => flow.begin_again(granted.bound.credit, *path),
            None if self.scenario.credits => *flow = Some(Flow::new(granted.bound.credit, own, *path)),
            None => {}
        }
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
        let CallerProcess { held, threads, life, .. } = &mut self.callers[at.caller];
        let call = threads[at.thread].call.as_mut().expect("it has a call");
        call.stage = Stage::Held;
        held.push_back((at.thread, call.id));
        self.report.held += 1;
        let (deadline, life) = (call.deadline, *life);
        self.plan_on(self.machine_of(at.caller), deadline, Event::WaitEnds(at, life));
    }

    /// The thread's call leaves, in that packet, which may have to ask for credit.
    pub(super) fn takes_off(&mut self, at: ThreadId, packet: &mut [u8]) {
        let now = self.caller_now(at.caller);
        // A machine that stands still does not see the time pass for which a credit is good.
        let sees_time = self.scenario.stops.is_none();
        let CallerProcess { flow, held, threads, begun, binding, reserved_until, .. } =
            &mut self.callers[at.caller];
        *begun += 1;
        let (Some(flow), Some(call)) = (flow, &mut threads[at.thread].call) else { return };
        let initial = binding.as_ref().map_or(u32::MAX, |granted| granted.bound.credit);
        if flow.room(now) == 0 {
            self.ledger.complain(format!("{:?} leaves beyond its caller's credit", call.id));
        } else if sees_time && flow.under_way() >= initial && self.now >= *reserved_until {
            self.ledger
                .complain(format!("{:?} leaves on a credit that the server may give to others", call.id));
        }
        call.under_way = true;
        flow.on_sent(1);
        if flow.asks(now, !held.is_empty()) {
            Header::set_credit(packet, None);
            self.report.asked_for_credit += 1;
        }
    }

    /// Something is heard about the thread's call, which is not under way any more.
    pub(super) fn lands(&mut self, at: ThreadId) {
        let CallerProcess { flow: Some(flow), threads, .. } = &mut self.callers[at.caller] else { return };
        let Some(call) = &mut threads[at.thread].call else { return };
        if let Stage::Calling { first_sent } = call.stage
            && std::mem::take(&mut call.under_way)
            && self.sabotage != Sabotage::LosesCredit
        {
            flow.on_heard(1, first_sent);
        }
    }

    /// What the calls of one packet know together about the round trip: what a result has just shown, or that the path is slower than
    /// the wait.
    pub(super) fn learns_path(&mut self, caller: usize, of_call: RoundTrip, has_result: bool) {
        let CallerProcess { flow: Some(_), path, .. } = &mut self.callers[caller] else { return };
        if has_result || of_call.timeout() > path.timeout() {
            *path = of_call;
        }
    }

    /// A result may grant more credit.
    pub(super) fn takes_grant(&mut self, at: ThreadId, result: &[u8]) {
        let now = self.caller_now(at.caller);
        let until = self.reserved_until(result).unwrap_or_default();
        let CallerProcess { flow, largest_credit, threads, reserved_until, .. } =
            &mut self.callers[at.caller];
        let Some(Stage::Calling { first_sent }) = threads[at.thread].call.as_ref().map(|call| &call.stage)
        else {
            return;
        };
        if let (Some(credit), Some(flow)) = (Header::credit(result), flow) {
            let asked = if self.sabotage == Sabotage::TrustsLateGrants { now } else { *first_sent };
            flow.on_grant(now, credit, asked);
            *reserved_until = until.max(*reserved_until);
            self.report.granted_late += u64::from(self.now >= until);
            *largest_credit = (*largest_credit).max(credit.into());
            self.report.granted += 1;
        }
    }

    /// Whether the thread's call, whose timer is due, may be sent again now: a burst that was lost must not come again as a burst. If
    /// not, it is looked at again later.
    pub(super) fn may_repeat(&mut self, at: ThreadId, now: Instant) -> bool {
        let CallerProcess { flow, threads, repeated, life, .. } = &mut self.callers[at.caller];
        let thread = &mut threads[at.thread];
        let (Some(flow), Some(call)) = (flow, thread.call.as_ref().filter(|call| call.under_way)) else {
            return true;
        };
        if now.since(repeated.0) >= LOOK_EVERY {
            *repeated = (now, 0);
        }
        repeated.1 += 1;
        if repeated.1 <= flow.repeated_most() {
            return true;
        }
        let (later, life) = ((repeated.0 + LOOK_EVERY).min(call.deadline), *life);
        self.report.repeated_later += 1;
        thread.timer_at = Some(later);
        self.plan_on(self.machine_of(at.caller), later, Event::LaneTimer(at, life));
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
            flow.on_lost(now, first_sent);
            self.report.congested += 1;
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
        let CallerProcess { up, flow: Some(flow), held, threads, binding, .. } = &mut self.callers[caller]
        else {
            return false;
        };
        let waits = |(thread, id): &(usize, _)| {
            let call = threads[*thread].call.as_ref();
            call.is_some_and(|call| call.id == *id && matches!(call.stage, Stage::Held))
        };
        while held.front().is_some_and(|first| !waits(first)) {
            held.pop_front();
        }
        let Some(&(thread, _)) = held.front() else { return false };
        if !*up || flow.room(now) == 0 {
            return false;
        }
        if binding.as_ref().is_none_or(|granted| granted.closed.get().is_some()) {
            self.leaves_closing_server(caller);
            self.bind(caller);
            return false;
        }
        held.pop_front();
        self.send_now(ThreadId { caller, thread });
        true
    }
}
