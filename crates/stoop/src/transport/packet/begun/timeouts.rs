//! What is to be done for calls because time has passed, or because the port was found closed.

use crate::error::{CallError, SendError};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::receiver::Wakeups;
use crate::transport::packet::begun::slot::{Slot, Stage};
use crate::transport::packet::caller::{PacketBinding, forgotten, given_up, nobody_listens};
use crate::transport::packet::checksum;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::caller::{Due, Lost};
use stoop_net::udp::{CallerSocket, Sending};

/// The timeouts are looked through no more often: there may be thousands.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A sleeping receiver looks up at least this often: a call begun meanwhile may have a timeout before all others. Short
/// enough that at 250 ticks a second one limit in the socket suits all naps.
const LONGEST_NAP_NS: u64 = 7_000_000;

/// When something is to be done for a call, as far as the receiving thread has to know.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    /// When the timeouts are looked through next.
    look: Instant,
    /// No deadline is earlier.
    deadline: Instant,
}

impl Next {
    /// When to [`look`](Calls::look).
    #[inline]
    pub(crate) fn due(self) -> Instant {
        self.look.min(self.deadline)
    }

    /// No deadline is earlier.
    pub(crate) fn deadline(self) -> Instant {
        self.deadline
    }

    /// How many nanoseconds to sleep, at most until `until`: about so many, and at most so many.
    #[inline]
    pub(crate) fn nap_ns(self, clock: Instant, until: Instant) -> (u64, u64) {
        let about = self.look.min(until).nanos_since(clock).min(LONGEST_NAP_NS);
        (about, self.deadline.min(until).nanos_since(clock))
    }
}

impl Calls {
    /// Takes note of when something is to be done for a call.
    #[inline]
    pub(crate) fn arm(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        let next = match slot.brief.is_outstanding() {
            true => slot.brief.next_timeout(&self.path),
            false => slot.lane.next_timeout(),
        };
        self.timeouts[call as usize] = next.as_nanos();
        self.next_look = self.next_look.min(next);
    }

    /// The timeouts are looked through by that time.
    pub(crate) fn look_by(&mut self, time: Instant) {
        self.next_look = self.next_look.min(time);
    }

    /// When something is to be done next.
    #[inline]
    pub(crate) fn next(&self) -> Next {
        Next { look: self.next_look, deadline: self.next_deadline }
    }

    /// Finds the earliest deadline after `clock`: those before it have just been seen to.
    #[cold]
    fn note_deadlines(&mut self, clock: Instant) {
        let is_open = |slot: &&Slot| !matches!(slot.stage, Stage::Free | Stage::Ended);
        let open = self.slots.iter().filter(is_open).map(Slot::last_deadline);
        // A slot that is reserved for a list knows nothing of its call yet.
        let listed = self.batches.iter().map(|held| held.deadline);
        let later = open.chain(listed).filter(|deadline| *deadline > clock);
        self.next_deadline = later.min().unwrap_or(Instant::NEVER);
    }

    /// When something is to be done for one of these calls.
    pub(crate) fn earliest(&self, wanted: &[u32]) -> Instant {
        let timeouts = wanted.iter().map(|call| self.timeouts[*call as usize]);
        timeouts.min().map_or(Instant::NEVER, Instant::from_nanos)
    }

    /// Does what is due for all calls. A batch that is held back too long is left to whoever holds it.
    pub(crate) fn look(
        &mut self,
        clock: Instant,
        binding: &PacketBinding,
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) {
        let mut refused = false;
        self.enroll_all();
        self.large.retry();
        let mut next = u64::MAX;
        for call in 0..self.timeouts.len() {
            if self.timeouts[call] <= clock.as_nanos() {
                refused |= self.on_timeout(call as u32, clock, binding, socket, news);
            }
            next = next.min(self.timeouts[call]);
        }
        self.next_look = Instant::from_nanos(next).max(clock + LOOK_EVERY);
        if clock >= self.next_deadline {
            self.note_deadlines(clock);
        }
        if refused {
            self.on_unreachable(clock, binding, socket, news);
        }
    }

    /// Tells whether the port was found closed.
    #[cold]
    fn on_timeout(
        &mut self,
        call: u32,
        clock: Instant,
        binding: &PacketBinding,
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) -> bool {
        self.expand(call);
        let slot = &mut self.slots[call as usize];
        let mut sending = None;
        match slot.stage {
            Stage::Free | Stage::Reserved(_) | Stage::Ended => {
                self.timeouts[call as usize] = u64::MAX;
                return false;
            }
            Stage::Unbound => {
                let error = forgotten(&slot.lane, clock.since(slot.begun));
                self.end(call, Some(error), news);
                return false;
            }
            Stage::HeldBack(batch) if clock >= slot.deadline => {
                let packet = slot.lane.cancel(clock).expect("a call held back is outstanding");
                slot.lane.abandon(clock);
                self.batches[batch as usize].batch.replace(call, slot.lane.number(), &packet);
                self.fail(call, CallError::NotSent(SendError::DeadlinePassed), clock, news);
                return false;
            }
            Stage::HeldBack(_) => {
                // It is not lost: it has not left. It leaves before anybody waits for it.
                self.timeouts[call as usize] = slot.deadline.as_nanos();
                return false;
            }
            Stage::Sent => {}
        }
        // A packet that is not sent is like one that is lost: the next timeout sees to it.
        match slot.lane.handle_timeout(clock, &mut slot.call) {
            Due::Nothing => {}
            Due::Resume => self.resume(call, clock, socket),
            Due::Receipt => self.send_receipt(call, clock, socket),
            Due::Retransmit => self.send_later(call),
            Due::Probe(packet) | Due::Cancel(packet) => sending = checksum::send(socket, &packet).ok(),
            Due::Abandon(lost) => {
                self.give_up(call, lost, clock, binding, news);
                return false;
            }
        }
        self.timeouts[call as usize] = self.slots[call as usize].lane.next_timeout().as_nanos();
        sending == Some(Sending::Refused)
    }

    /// Ends a call without knowing whether it ran. The server may still be running it, and would let the next one on its
    /// lane wait: that goes on with another lane.
    fn give_up(
        &mut self,
        call: u32,
        lost: Lost,
        clock: Instant,
        binding: &PacketBinding,
        news: &mut Wakeups,
    ) {
        let slot = &mut self.slots[call as usize];
        let error = if slot.session.shows_nobody_listened(&slot.lane, lost) {
            slot.lane.abandon(clock);
            nobody_listens(&binding.uri)
        } else {
            given_up(&mut slot.lane, clock, lost)
        };
        if slot.is_large {
            slot.settle();
        }
        self.past.add_lane(slot.lane.counters());
        slot.lane.reset_counters();
        slot.session.give_another(&mut slot.lane, &binding.options);
        slot.brief = slot.lane.compact_call();
        self.map_lane(call);
        self.fail(call, error, clock, news);
    }

    /// Takes note of what has come back from a closed port, for whichever call.
    #[cold]
    pub(crate) fn take_sent_back(&mut self, binding: &PacketBinding, socket: &CallerSocket) {
        binding.present().take_sent_back(socket, |packet| {
            if let Some(call) = self.call_of(packet)
                && self.slots[call as usize].stage == Stage::Sent
            {
                self.expand(call).lane.handle_sent_back(packet);
            }
        });
    }

    /// The port was found closed by something that was sent earlier, for whichever call.
    #[cold]
    pub(crate) fn on_unreachable(
        &mut self,
        clock: Instant,
        binding: &PacketBinding,
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) {
        self.take_sent_back(binding, socket);
        for call in 0..self.slots.len() as u32 {
            if self.slots[call as usize].stage != Stage::Sent {
                continue;
            }
            match self.expand(call).lane.handle_unreachable(clock) {
                Due::Abandon(lost) => self.give_up(call, lost, clock, binding, news),
                _ => self.arm(call),
            }
        }
    }
}
