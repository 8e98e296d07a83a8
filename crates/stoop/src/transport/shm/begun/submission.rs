//! How begun calls leave: they are held back in their places, and published together.
//!
//! Each locked operation of a processor waits until the lines that it has written before have left the processor of the server,
//! which looks at them. So the calls of a batch draw their tickets by one, and are then published one after the other.

use crate::calling::background::Driven;
use crate::calling::begun::CallBatch;
use crate::locked::locked;
use crate::transport::shm::begun::calls::{SessionCalls, Whereabouts};
use crate::transport::shm::begun::lane_slot::{Begun, LaneSlot, Stage};
use crate::transport::shm::begun::lane_slots::Reservation;
use crate::transport::shm::caller::lanes::Lane;
use std::sync::atomic::{Ordering, fence};
use stoop_net::host;
use stoop_shm::Requests;

/// What is left of the places that were reserved for a departure.
#[inline]
pub(super) fn reserved_for(departure: &CallBatch) -> Reservation {
    Reservation { row: departure.batch, places: departure.reserved }
}

/// The places of calls that a departure holds back, unless somebody could not wait.
#[inline]
pub(super) fn held_by(departure: &CallBatch) -> Reservation {
    Reservation { row: departure.batch, places: departure.held }
}

/// Calls that are published together, at most. (With eight, the server has something to do earlier, and a call takes longer.)
const TOGETHER_MAX: usize = 16;

impl SessionCalls {
    /// Reserves places for the calls of a departure. `None`: none is free.
    #[inline(never)]
    fn reserve(&self) -> Option<Reservation> {
        let reservation = self.places.reserve(TOGETHER_MAX)?;
        // Between the reservation and the look: the thread announces that it is idle before it looks for reservations.
        fence(Ordering::SeqCst);
        if self.flights.background.is_idle() {
            self.flights.wake_background();
        }
        Some(reservation)
    }

    /// Begins a call, if there is a place with a lane for it. It is held back, for others to go with it.
    #[inline]
    pub(super) fn hold(&self, departure: &mut CallBatch, procedure: u16, len: usize) -> Option<u32> {
        if departure.reserved == 0 {
            self.post(held_by(departure));
            departure.held = 0;
            let fresh = self.reserve()?;
            (departure.batch, departure.reserved) = (fresh.row, fresh.places);
        }
        let reserved = reserved_for(departure);
        let number = reserved.next()?;
        let place = self.places.get(number);
        let mut lane = match place.lane() {
            Some(lane) => lane,
            None => self.furnish(place)?,
        };
        departure.reserved = reserved.rest().places;
        self.session.requests.expect(&self.session.segment, departure.held.count_ones());
        departure.held |= reserved.places & !departure.reserved;
        lane = lane.next();
        let arguments = &departure.packet[departure.start..departure.start + len];
        Requests::lay(&self.session.segment, lane.number, arguments);
        let (begun_ns, deadline_ns) = (departure.begun.as_nanos(), departure.deadline.as_nanos());
        place.hold(&Begun { lane, begun_ns, deadline_ns, procedure }, arguments);
        Some(number)
    }

    /// Publishes those of the calls that are still held back.
    pub(super) fn post(&self, calls: Reservation) {
        if calls.next().is_none() {
            return;
        }
        let posting = locked(&self.posting);
        let held = self.places.at(Stage::Held, calls);
        let first = self.session.requests.draw(held.count());
        let cpu = host::current_cpu() as u16;
        for ((_, place), ticket) in self.places.of(held).zip(first..) {
            place.post(&self.session, ticket, cpu);
        }
        drop(posting);
        self.session.ring_after_post();
        if self.session.is_lost() {
            // The background may have looked for such calls already.
            self.flights.wake_background();
        }
    }

    /// Somebody wants to know of a call: it is not held back any more.
    #[inline]
    pub(super) fn let_leave(&self, call: u32) {
        if let Whereabouts::LaneSlot(_, seen) = self.find(call)
            && seen.stage() == Stage::Held
        {
            self.post(Reservation::of(call));
        }
    }

    #[cold]
    fn furnish(&self, place: &LaneSlot) -> Option<Lane> {
        let lane = self.session.take_lane();
        place.set_lane(lane);
        lane
    }
}
