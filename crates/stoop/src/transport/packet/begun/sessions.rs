//! Lanes of slots, and calls whose session the server does not know any more.

use crate::error::{CallError, SendError};
use crate::transport::packet::begun::calls::{Calls, NO_CALL};
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::link::{CallerEndpoint, PacketLink};
use crate::transport::packet::now;
use crate::transport::packet::session::Session;
use std::sync::Arc;
use stoop_calls::life::{Next, Why};
use stoop_exchange::Instant;
use stoop_exchange::outcome::Unbound;

impl<L: PacketLink> Calls<L> {
    /// Adds a slot with a lane of its own.
    #[cold]
    pub(crate) fn add_slot(&mut self) -> Result<u32, CallError> {
        let too_many = CallError::not_sent(SendError::TooManyCalls { in_flight: self.outstanding });
        self.note_session();
        let (session, call) = (Arc::clone(&self.session), self.slots.len() as u32);
        let Some(lane) = session.another_lane() else { return Err(too_many) };
        if !self.completions.make(call) {
            return Err(too_many);
        }
        if self.slots.is_empty() {
            self.path = lane.path();
        }
        self.slots.push(Slot::new(lane, session));
        self.timeouts.push(u64::MAX);
        self.map_lane(call);
        Ok(call)
    }

    /// Moves a slot without a call to a lane of the present session.
    #[cold]
    pub(crate) fn renew(&mut self, call: u32) {
        self.note_session();
        self.move_to(call, Arc::clone(&self.session));
    }

    pub(super) fn move_to(&mut self, call: u32, session: Arc<Session>) {
        let slot = &mut self.slots[call as usize];
        self.past.add_lane(slot.lane.counters());
        slot.change_lane(session.lane());
        slot.session = session;
        self.map_lane(call);
    }

    /// If the binding has another session: has the calls that were sent on an earlier one wait for it. The server does not answer them
    /// any more, and slots of the new session use the same lane numbers. A server that shuts down does answer them: then this first
    /// waits until they have ended.
    pub(crate) fn note_session(&mut self) {
        if self.generation == self.link.binding.generation() {
            return;
        }
        if self.session.is_closing() && self.has_sent() {
            self.leaves = true;
            return;
        }
        let located = self.link.binding.located();
        self.generation = located.session.generation;
        self.longest_call = located.session.longest_call;
        self.flow.begin_again(located.session.bound.credit, located.session.round_trip);
        let before = std::mem::replace(&mut self.session, Arc::clone(&located.session));
        (self.leaves, self.unknown) = (false, None);
        if before.server != located.session.server {
            self.link.endpoint.redirect(&located.address);
            located.session.prepare(&self.link.endpoint);
        }
        for call in 0..self.slots.len() as u32 {
            let slot = &self.slots[call as usize];
            if slot.session.generation == self.generation {
                continue;
            }
            match slot.stage {
                Stage::Sent => self.await_rebind(call),
                Stage::Draining => {
                    let why = slot.lost_with_session();
                    self.end_draining(call, Some(why));
                }
                _ => {}
            }
        }
    }

    /// If the binding has another session: ends the calls with pipes that were sent on an earlier one, unless its server shuts down and so
    /// still answers them. Otherwise a quiet pipe learns of its loss by a probe, seconds later.
    #[cold]
    pub(crate) fn end_lost_pipes(&mut self) {
        let generation = self.link.binding.generation();
        for call in 0..self.slots.len() as u32 {
            let Slot { session, pipes, stage, .. } = &self.slots[call as usize];
            let is_lost = session.generation != generation && !session.is_closing();
            if is_lost && pipes.is_some() && matches!(stage, Stage::Sent) {
                self.await_rebind(call);
            }
        }
    }

    /// Has a call that was sent wait for another session.
    #[cold]
    pub(crate) fn await_rebind(&mut self, call: u32) {
        self.expand(call);
        let slot = &mut self.slots[call as usize];
        self.waits.leave(&mut slot.lane);
        if slot.pipes.is_some() {
            // Such a call is never made again by itself.
            let why = slot.lost_with_session();
            if slot.session.generation == self.generation {
                self.unknown = slot.refusal.take();
            }
            slot.lane.abandon(now());
            return self.fail(call, why, now());
        }
        slot.lane.abandon(Instant::default());
        if let Why::Judge(refusal) = slot.why_unbound() {
            slot.fate.after_unbound(refusal);
        }
        self.land(call, None);
        self.stop_transfers(call);
        self.wait_unbound(call);
    }

    /// Has a call that is not on its way wait for another session.
    pub(super) fn wait_unbound(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Unbound;
        self.unbound += 1;
        if slot.owner == Owner::Cancelled {
            return self.end(call, None);
        }
        let deadline = slot.deadline;
        self.timeouts[call as usize] = deadline.as_nanos();
        self.look_by(deadline);
    }

    /// From now on packets for the lane of a slot go to this slot.
    pub(crate) fn map_lane(&mut self, call: u32) {
        let slot = &self.slots[call as usize];
        self.link.endpoint.serve_lane(slot.session.bound.binding, slot.lane.id());
        let lane = usize::from(slot.lane.id().0);
        if lane >= self.by_lane.len() {
            self.by_lane.resize(lane + 1, NO_CALL);
        }
        self.by_lane[lane] = call;
    }

    /// The session of a call that waits for another, how the server refused a call on it, if it did, and the last deadline of these
    /// calls.
    pub(crate) fn lost(&self) -> Option<(Arc<Session>, Option<Unbound>, Instant)> {
        let unbound = || self.slots.iter().filter(|slot| slot.stage == Stage::Unbound);
        let deadline = unbound().map(|slot| slot.deadline).max()?;
        let slot = unbound().find(|slot| slot.refusal.is_some()).or(unbound().next())?;
        Some((Arc::clone(&slot.session), slot.refusal, deadline))
    }

    /// Sends the calls of the session `lost` again on `session`, or ends them. `None`: binding again has failed, between the two times
    /// of the attempt, its begin and the last deadline of the calls that waited for it. Calls that were begun later, or have a later
    /// deadline, have an attempt of their own.
    pub(crate) fn rebound(
        &mut self,
        lost: &Arc<Session>,
        (attempted, deadline): (Instant, Instant),
        session: Option<&Arc<Session>>,
    ) {
        let clock = now();
        if let Some(session) = session {
            self.note_session();
            if self.generation != session.generation {
                // Its turn comes when the server before has finished the calls that it has.
                return;
            }
        }
        for call in 0..self.slots.len() as u32 {
            let slot = &self.slots[call as usize];
            if slot.stage != Stage::Unbound || slot.session.generation != lost.generation {
                continue;
            }
            let is_in_time = clock >= deadline && clock < slot.deadline;
            if session.is_none() && (is_in_time || slot.begun > attempted) {
                continue;
            }
            let idempotent = self.link.binding.is_idempotent(slot.procedure);
            let Some(session) = session else {
                self.fail_unbound(call, clock);
                continue;
            };
            let slot = &mut self.slots[call as usize];
            let next = match slot.why_unbound() {
                Why::Judge(_) => {
                    let verdict = lost.verdict(&slot.lane, (slot.sent, slot.refusal), session, idempotent);
                    let loss = slot.loss();
                    slot.fate.judged(verdict, || loss, idempotent)
                }
                Why::Leave | Why::Lost => Next::Send,
            };
            match next {
                Next::End(told) => {
                    let error = slot.fate.error(told, None, || clock.since(slot.begun));
                    self.fail_with(call, error);
                }
                Next::Send | Next::Bind(_) | Next::Later(_) => self.send_again(call, session, clock),
            }
        }
    }

    /// Ends a call for which there is no other session.
    #[cold]
    pub(super) fn fail_unbound(&mut self, call: u32, clock: Instant) {
        let slot = &mut self.slots[call as usize];
        let (why, loss) = (slot.why_unbound(), slot.loss());
        let told = slot.fate.not_bound(why, || loss);
        let refused = slot.refused.take().map(|refused| *refused);
        let error = slot.fate.error(told, refused, || clock.since(slot.begun));
        self.fail_with(call, error);
    }

    pub(crate) fn send_again(&mut self, call: u32, session: &Arc<Session>, clock: Instant) {
        self.move_to(call, Arc::clone(session));
        let slot = &mut self.slots[call as usize];
        (slot.refusal, slot.refused) = (None, None);
        self.unbound -= 1;
        self.start_over(call, clock);
    }

    /// Sends a call once more, on the lane of its slot.
    pub(super) fn start_over(&mut self, call: u32, clock: Instant) {
        let slot = &mut self.slots[call as usize];
        slot.stage = Stage::Sent;
        slot.start_again(clock);
        let session = &slot.session;
        if slot.is_large {
            self.large.sends(call);
        } else {
            // A packet that the system does not send is treated like a lost one.
            let _ = session.protection.send(&self.link.endpoint, &slot.call);
        }
        self.arm(call);
    }
}
