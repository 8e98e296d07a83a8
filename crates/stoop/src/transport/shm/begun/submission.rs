//! How begun calls are published: they are held back in their slots, and published together.
//!
//! Each locked operation of a processor waits until the lines that it wrote before have left the processor of the server, which
//! looks at them. So one operation draws the tickets of all calls of a batch. Then each call is published by a plain store.

use crate::calling::background::Driven;
use crate::calling::begun::CallBatch;
use crate::context::TimeBounds;
use crate::locked::locked;
use crate::transport::shm::begun::calls::{Location, SessionCalls};
use crate::transport::shm::begun::lane_slot::{Begun, LaneSlot, Stage};
use crate::transport::shm::begun::lane_slots::Reservation;
use crate::transport::shm::caller::lanes::Lane;
use std::sync::atomic::{Ordering, fence};
use stoop_net::{clock, host};
use stoop_shm::Requests;

/// Calls that are published together, at most. (With eight, the server has something to do earlier, and a call takes longer.)
const TOGETHER_MAX: usize = 16;

impl SessionCalls {
    /// Reserves slots for the calls of a batch. `None`: none is free.
    #[inline(never)]
    fn reserve(&self) -> Option<Reservation> {
        let reservation = self.slots.reserve(TOGETHER_MAX)?;
        // The thread announces that it is idle before it looks for reservations.
        fence(Ordering::SeqCst);
        if self.managed.background.is_idle() {
            self.managed.wake_background();
        }
        Some(reservation)
    }

    /// Begins a call, if there is a slot with a lane for it. It is held back, to be published with the next calls of the batch.
    #[inline]
    pub(super) fn hold(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Option<u32> {
        if batch.reserved == 0 {
            self.publish(Reservation::held_in(batch));
            (batch.held, batch.held_count) = (0, 0);
            let fresh = self.reserve()?;
            (batch.batch, batch.reserved) = (fresh.row, fresh.slots);
        }
        let reserved = Reservation::left_in(batch);
        let number = reserved.next()?;
        let slot = self.slots.get(number);
        let lane = match slot.lane() {
            Some(lane) => lane,
            None => self.furnish(slot)?,
        };
        batch.reserved = reserved.rest().slots;
        self.session.requests.expect(&self.session.segment, batch.held_count);
        batch.held |= reserved.slots & !batch.reserved;
        batch.held_count += 1;
        let lane = lane.next();
        let arguments = &batch.packet[batch.start..batch.start + len];
        Requests::lay(&self.session.segment, lane.number, arguments);
        let bounds = TimeBounds::current(batch.timeout_ns);
        slot.hold(&Begun { lane, bounds, procedure }, arguments);
        Some(number)
    }

    /// Publishes those of the calls that are still held back.
    pub(super) fn publish(&self, calls: Reservation) {
        if calls.next().is_none() {
            return;
        }
        let publishing = locked(&self.publishing);
        let held = self.slots.at(Stage::Held, calls);
        let first = self.session.requests.draw(held.count());
        let (cpu, now_ns) = (host::current_cpu() as u16, clock::now_ns());
        for ((_, slot), ticket) in self.slots.of(held).zip(first..) {
            slot.post(&self.session, ticket, cpu, now_ns);
        }
        drop(publishing);
        self.session.ring_after_post();
        if self.session.is_lost() {
            // The background thread may have looked for such calls already.
            self.managed.wake_background();
        }
    }

    /// Publishes a call that is held back: a thread asks whether it has ended.
    #[inline]
    pub(super) fn publish_held(&self, call: u32) {
        if let Location::Slot(_, seen) = self.find(call)
            && seen.stage() == Stage::Held
        {
            self.publish(Reservation::of(call));
        }
    }

    /// Gives a slot a lane.
    #[cold]
    fn furnish(&self, slot: &LaneSlot) -> Option<Lane> {
        let lane = self.session.take_lane();
        slot.set_lane(lane);
        lane
    }
}
