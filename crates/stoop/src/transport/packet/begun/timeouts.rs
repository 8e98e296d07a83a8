//! Timeouts of begun calls, and reports that the server's port is closed.

use crate::error::{CallError, SendError};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Slot, Stage};
use crate::transport::packet::link::{CallerEndpoint, PacketLink};
use crate::transport::packet::steps::give_up;
use std::sync::Arc;
use stoop_calls::life;
use stoop_exchange::caller::Lost;
use stoop_exchange::{Flow, Instant};

/// A receiver that sleeps wakes at least this often: a call that is begun meanwhile may have an earlier timeout. Short enough that at
/// 250 ticks a second one limit in the socket suits all sleeps.
const LONGEST_NAP_NS: u64 = 7_000_000;

/// The next look at the timeouts, for the receiving thread.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    /// The time of the next look at all timeouts.
    look: Instant,
    /// No call has an earlier deadline.
    deadline: Instant,
}

impl Next {
    /// When to [`look`](Calls::look).
    #[inline]
    pub(crate) fn due(self) -> Instant {
        self.look.min(self.deadline)
    }

    /// How long to sleep, until `until` at most: about so many nanoseconds, and at most so many.
    #[inline]
    pub(crate) fn nap_ns(self, clock: Instant, until: Instant) -> (u64, u64) {
        let about = self.look.min(until).nanos_since(clock).min(LONGEST_NAP_NS);
        (about, self.deadline.min(until).nanos_since(clock))
    }
}

impl<L: PacketLink> Calls<L> {
    /// Notes the next timeout of a call: of one that enters the calls that are asked about together, its deadline.
    #[inline]
    pub(crate) fn arm(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        let next = match slot.compact.is_outstanding() {
            true => slot.compact.next_timeout(&self.path),
            false if slot.pipes.is_some() => return self.arm_with_pipes(call),
            false if self.waits.enter(call, &slot.lane) => slot.lane.deadline(),
            false => slot.lane.next_timeout(),
        };
        self.timeouts[call as usize] = next.as_nanos();
        self.look_by(next);
    }

    /// The same, of a call with pipes: their timers count, and the deadline of its present step.
    #[cold]
    fn arm_with_pipes(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        let is_quiet = slot.lane.next_pipe_timeout() == Instant::NEVER;
        let of_lane = match is_quiet && self.waits.enter(call, &slot.lane) {
            true => slot.lane.deadline(),
            false => slot.lane.next_timeout(),
        };
        let next = of_lane.min(slot.deadline);
        self.timeouts[call as usize] = next.as_nanos();
        self.look_by(next);
    }

    /// Has the next look at the timeouts come no later than that.
    #[inline]
    pub(crate) fn look_by(&mut self, time: Instant) {
        self.next_look = self.next_look.min(time);
    }

    /// The next look at the timeouts.
    #[inline]
    pub(crate) fn next(&self) -> Next {
        Next { look: self.next_look.min(self.waits.next_timeout()), deadline: self.next_deadline }
    }

    /// Finds the earliest deadline after `clock`.
    #[cold]
    fn note_deadlines(&mut self, clock: Instant) {
        let is_open = |slot: &&Slot| !matches!(slot.stage, Stage::Free | Stage::HeldBack(_) | Stage::Ended);
        let open = self.slots.iter().filter(is_open).map(Slot::last_deadline);
        let later = open.filter(|deadline| *deadline > clock);
        self.next_deadline = later.min().unwrap_or(Instant::NEVER);
    }

    /// The earliest timeout of these calls.
    pub(crate) fn earliest(&self, wanted: &[u32]) -> Instant {
        let timeouts = wanted.iter().map(|call| self.timeouts[*call as usize]);
        timeouts.min().map_or(Instant::NEVER, Instant::from_nanos)
    }

    /// Handles the timeouts that are due.
    pub(crate) fn look(&mut self, clock: Instant) {
        self.large.retry();
        let mut next = u64::MAX;
        for call in 0..self.timeouts.len() {
            // A burst that was lost must not come again as a burst: the others are due again at the next look.
            let is_due = self.timeouts[call] <= clock.as_nanos();
            if is_due && (self.flow.repeats(clock) > 0 || clock >= self.slots[call].last_deadline()) {
                self.flow.on_repeated();
                self.on_timeout(call as u32, clock);
            }
            next = next.min(self.timeouts[call]);
        }
        self.next_look = Instant::from_nanos(next).max(clock + Flow::LOOK_EVERY);
        if clock >= self.waits.next_timeout() {
            let packets = self.flow.repeats(clock);
            self.ask(clock, packets);
        }
        if clock >= self.next_deadline {
            self.note_deadlines(clock);
        }
    }

    #[cold]
    fn on_timeout(&mut self, call: u32, clock: Instant) {
        let (link, window) = (Arc::clone(&self.link), self.large.window(&self.link.endpoint));
        self.expand(call);
        let slot = &mut self.slots[call as usize];
        self.waits.leave(&mut slot.lane);
        match slot.stage {
            Stage::Free | Stage::HeldBack(_) | Stage::Apart | Stage::Ended => {
                self.timeouts[call as usize] = u64::MAX
            }
            Stage::Unbound => {
                self.fail_unbound(call, clock);
            }
            Stage::Postponed => self.come_again(call, clock),
            Stage::Waiting => {
                self.fail(call, CallError::not_sent(SendError::DeadlinePassed), clock);
            }
            Stage::Sent if slot.pipes.is_some() && clock >= slot.deadline => {
                match self.begins_next_step(call, clock) {
                    true => self.arm(call),
                    false => self.give_up(call, Lost::DeadlinePassed, clock),
                }
            }
            Stage::Sent | Stage::Draining => match slot.steps(&link.endpoint, window).on_timeout(clock) {
                Some(lost) => self.give_up(call, lost, clock),
                None => self.wait_on(call, clock),
            },
        }
    }

    /// Asks the server about the calls that it has acknowledged, in at most so many packets. Ends those of which it was silent for too long.
    #[cold]
    fn ask(&mut self, clock: Instant, packets: u32) {
        let (mut asked, mut segment, mut count, mut silent) = (Vec::new(), 0, 0, Vec::new());
        let put = |packet: &[u8]| {
            segment = segment.max(packet.len());
            asked.extend_from_slice(packet);
            count += 1;
        };
        self.waits.ask(clock, packets, put, &mut silent);
        self.past.packet.probes += count;
        if count > 0 {
            self.send_together(&asked, segment);
        }
        for call in silent {
            self.on_timeout(call, clock);
        }
    }

    /// Sends packets of which only the last may be shorter than `segment`. Those that the system does not send are treated like lost ones.
    fn send_together(&self, packets: &[u8], segment: usize) {
        let endpoint = &self.link.endpoint;
        endpoint.follow_route();
        if self.session.bound.binding.has_trailer() {
            let (packets, segment) = self.session.protection.together(packets, segment);
            return endpoint.send_many(&packets, segment, |_, _| {});
        }
        endpoint.send_many(packets, segment, |_, _| {});
    }

    /// Handles the answer to probes for many calls. The lanes of the calls that the server does not have ask about each of them at the
    /// next look.
    #[cold]
    pub(crate) fn take_acknowledgements(&mut self, clock: Instant, packet: &[u8]) {
        let mut others = Vec::new();
        if !self.waits.handle_packet(clock, packet, &mut others) {
            self.past.ignored += 1;
        }
        for call in others {
            let slot = &mut self.slots[call as usize];
            self.waits.leave_to_ask(clock, &mut slot.lane);
            let next = slot.lane.next_timeout();
            self.timeouts[call as usize] = next.as_nanos();
            self.look_by(next);
        }
    }

    /// Goes on with a call. Parts of it that were lost are sent next.
    fn wait_on(&mut self, call: u32, clock: Instant) {
        let slot = &self.slots[call as usize];
        // Twice in vain: once alone may be a long procedure.
        if slot.is_under_way && slot.lane.last_transmissions() > 2 {
            self.flow.on_lost(clock, slot.sent);
        }
        let slot = &self.slots[call as usize];
        if slot.pipes.is_some() && slot.lane.owes_receipt(false) {
            self.send_receipt(call, clock);
        }
        let slot = &self.slots[call as usize];
        if slot.is_large || slot.pipes.is_some() {
            self.large.sends(call);
        }
        self.arm(call);
    }

    /// Ends a call that is lost, or has it wait for the next server, and moves its slot to another lane.
    fn give_up(&mut self, call: u32, lost: Lost, clock: Instant) {
        let link = Arc::clone(&self.link);
        let slot = &mut self.slots[call as usize];
        let (has_pipes, is_draining) = (slot.pipes.is_some(), slot.stage == Stage::Draining);
        if has_pipes && !is_draining {
            // Its procedure may wait for items. If this is lost, the server learns it by its caller's silence.
            let _ = slot.session.protection.send(&link.endpoint, &slot.lane.cancel_packet());
        }
        let mut steps = slot.steps(&link.endpoint, 0);
        let error = give_up(&mut steps, clock, lost);
        if steps.is_large || has_pipes {
            steps.settle();
        }
        if is_draining {
            self.end_draining(call, Some(error));
            return self.renew_lane(call);
        }
        self.renew_lane(call);
        match error {
            CallError::NotSent(SendError::Bind(_), ..)
                if link.binding.options.waits_for_server() && !has_pipes =>
            {
                self.wait_for_restart(call, error, clock);
            }
            error => self.fail(call, error, clock),
        }
    }

    /// Moves a slot whose call was given up to another lane.
    fn renew_lane(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        self.past.add_lane(slot.lane.counters());
        slot.session.replace_lane(&mut slot.lane);
        slot.compact = slot.lane.compact_call();
        self.map_lane(call);
    }

    /// Has a call that has met a closed port each time, and so has not run, wait for the next server. `error`: its error if none comes.
    fn wait_for_restart(&mut self, call: u32, error: CallError, clock: Instant) {
        let slot = &mut self.slots[call as usize];
        let idempotent = self.link.binding.is_idempotent(slot.procedure);
        if let life::Next::End(_) = slot.fate.after_loss(None, idempotent) {
            return self.fail(call, error, clock);
        }
        slot.refused = Some(Box::new(error));
        self.land(call, None);
        self.stop_transfers(call);
        self.wait_unbound(call);
    }

    /// Notes the packets, of any call, that a closed port has sent back, and returns the calls that they are of; `None` if the system
    /// has kept no packet.
    #[cold]
    pub(crate) fn take_sent_back(&mut self) -> Option<Vec<u32>> {
        let (link, mut calls) = (Arc::clone(&self.link), None);
        link.binding.present().take_sent_back(&link.endpoint, |packet| {
            let calls = calls.get_or_insert_with(Vec::new);
            if let Some(call) = self.call_of(packet)
                && self.slots[call as usize].stage == Stage::Sent
            {
                self.expand(call).lane.handle_sent_back(packet);
                calls.push(call);
            }
        });
        calls
    }

    /// Handles the system's report that the server's port is closed: for the calls whose packets came back with it, or for all, if it
    /// does not say of which packet it is. Reports of other calls' packets would end a call whose own are still on their way back.
    #[cold]
    pub(crate) fn on_unreachable(&mut self, clock: Instant) {
        let mut calls = self.take_sent_back().unwrap_or_else(|| (0..self.slots.len() as u32).collect());
        calls.sort_unstable();
        calls.dedup();
        let link = Arc::clone(&self.link);
        for call in calls {
            if self.slots[call as usize].stage == Stage::Sent {
                self.expand(call);
                let slot = &mut self.slots[call as usize];
                self.waits.leave(&mut slot.lane);
                match slot.steps(&link.endpoint, 0).on_unreachable(clock) {
                    Some(lost) => self.give_up(call, lost, clock),
                    None => self.arm(call),
                }
            }
        }
    }
}
