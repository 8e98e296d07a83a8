//! The lanes of calls, and the sessions that they are of: what the server has granted, and grants anew when it has
//! forgotten.

use crate::error::{CallError, SendError};
use crate::transport::packet::begun::calls::{Calls, NO_CALL};
use crate::transport::packet::begun::receiver::Wakeups;
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::caller::{PacketBinding, Session, forgotten};
use crate::transport::packet::checksum;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::outcome::{Unbound, Verdict};
use stoop_net::udp::CallerSocket;

impl Calls {
    /// A place for one more call, on a lane of its own.
    #[cold]
    pub(crate) fn add_slot(&mut self, binding: &PacketBinding) -> Result<u32, CallError> {
        let session = binding.present();
        let lane = session
            .another_lane(&binding.options)
            .ok_or(CallError::NotSent(SendError::TooManyCalls { in_flight: self.outstanding }))?;
        let call = self.slots.len() as u32;
        if !self.completions.make(call) {
            return Err(CallError::NotSent(SendError::TooManyCalls { in_flight: self.outstanding }));
        }
        if self.slots.is_empty() {
            self.path = lane.path();
        }
        self.slots.push(Slot::new(lane, session));
        self.timeouts.push(u64::MAX);
        self.map_lane(call);
        self.note_session(binding);
        Ok(call)
    }

    /// Puts a lane of the present session into a slot that has no call.
    #[cold]
    pub(crate) fn renew(&mut self, call: u32, binding: &PacketBinding) {
        let slot = &mut self.slots[call as usize];
        self.past.add_lane(slot.lane.counters());
        slot.session = binding.present();
        slot.change_lane(slot.session.lane(&binding.options));
        self.map_lane(call);
        self.note_session(binding);
    }

    /// If the binding has another session: what was sent on an earlier one will not be answered any more, for its server
    /// does not know that, and its lanes' numbers are those of others now.
    pub(crate) fn note_session(&mut self, binding: &PacketBinding) {
        if self.generation == binding.generation() {
            return;
        }
        self.generation = binding.generation();
        self.longest_call = binding.present().longest_call;
        for call in 0..self.slots.len() as u32 {
            let slot = &self.slots[call as usize];
            if slot.stage == Stage::Sent && slot.session.generation != self.generation {
                self.await_rebind(call);
            }
        }
    }

    /// A call that is out has to wait for another binding.
    #[cold]
    pub(crate) fn await_rebind(&mut self, call: u32) {
        let slot = self.expand(call);
        slot.lane.abandon(Instant::default());
        if slot.is_large {
            slot.settle();
        }
        if slot.is_receiving {
            self.stop_receiving(call);
        }
        let slot = &mut self.slots[call as usize];
        if slot.stage == Stage::Sent {
            self.out -= 1;
        }
        slot.stage = Stage::Unbound;
        self.unbound += 1;
        if slot.owner == Owner::Cancelled {
            return self.end(call, None, &mut Wakeups::default());
        }
        self.timeouts[call as usize] = slot.deadline.as_nanos();
        self.next_look = self.next_look.min(slot.deadline);
    }

    /// What arrives for the lane of a slot is for this slot from now on.
    pub(crate) fn map_lane(&mut self, call: u32) {
        let lane = usize::from(self.slots[call as usize].lane.id().0);
        if lane >= self.by_lane.len() {
            self.by_lane.resize(lane + 1, NO_CALL);
        }
        self.by_lane[lane] = call;
    }

    /// The session of a call that waits for another one, how it was refused, and when the last of these calls has to end.
    pub(crate) fn lost(&self) -> Option<(Arc<Session>, Unbound, Instant)> {
        let unbound = || self.slots.iter().filter(|slot| slot.stage == Stage::Unbound);
        let deadline = unbound().map(|slot| slot.deadline).max()?;
        let slot = unbound().find(|slot| slot.refusal.is_some()).or(unbound().next())?;
        // If none was refused itself, there is another session already.
        Some((Arc::clone(&slot.session), slot.refusal.unwrap_or(Unbound::ANOTHER_VERSION), deadline))
    }

    /// The server has been bound to again, or could not be: the calls that were refused on `lost` are sent again, or end. If
    /// it could not be because `deadline` has passed, those that have come since go on until their own.
    pub(crate) fn rebound(
        &mut self,
        binding: &PacketBinding,
        (lost, deadline): (&Arc<Session>, Instant),
        session: Option<&Arc<Session>>,
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) {
        let clock = crate::transport::packet::begun::now();
        if session.is_some() {
            self.note_session(binding);
        }
        for call in 0..self.slots.len() as u32 {
            let slot = &self.slots[call as usize];
            if slot.stage != Stage::Unbound || slot.session.generation != lost.generation {
                continue;
            }
            if session.is_none() && clock >= deadline && clock < slot.deadline {
                continue;
            }
            let again = session.and_then(|session| {
                let how = (slot.sent, slot.refusal);
                let verdict = binding.verdict(slot.procedure, &slot.lane, how, lost, session);
                (verdict != Verdict::Unknown).then(|| (Arc::clone(session), verdict == Verdict::NotRun))
            });
            match again {
                Some((session, not_run)) => self.send_again(call, binding, session, not_run, clock, socket),
                None => {
                    let error = forgotten(&slot.lane, clock.since(slot.begun));
                    self.end(call, Some(error), news);
                }
            }
        }
    }

    pub(crate) fn send_again(
        &mut self,
        call: u32,
        binding: &PacketBinding,
        session: Arc<Session>,
        not_run: bool,
        clock: Instant,
        socket: &CallerSocket,
    ) {
        let slot = &mut self.slots[call as usize];
        self.past.add_lane(slot.lane.counters());
        slot.change_lane(session.lane(&binding.options));
        slot.session = session;
        slot.may_have_run |= !not_run;
        (slot.sent, slot.refusal) = (clock, None);
        slot.stage = Stage::Sent;
        self.out += 1;
        self.unbound -= 1;
        let number = slot.session.bound.procedures[usize::from(slot.procedure)];
        if slot.is_large {
            slot.start_large(clock, number);
            self.large.sends(call);
        } else {
            slot.lane.start(clock, slot.deadline, number, &mut slot.call);
            slot.lane.update_compact(&mut slot.brief);
            // A packet that is not sent is like one that is lost: the next timeout sees to it.
            let _ = checksum::send(socket, &slot.call);
        }
        self.map_lane(call);
        self.arm(call);
    }
}
