//! The slots of a session's begun calls, and which of them are free or reserved.

use crate::calling::begun::CallBatch;
use crate::heap_array::heap_array;
use crate::locked::locked;
use crate::transport::shm::begun::lane_slot::{LaneSlot, Stage};
use std::sync::{Mutex, OnceLock};

/// Slots, made row by row as they are needed.
#[derive(Default)]
pub(super) struct LaneSlots {
    rows: [OnceLock<Box<Row>>; ROWS],
    /// Slots of one row that were free when a thread last looked, and have not been reserved since. A thread that reserves slots
    /// holds this lock; a free slot changes in no other way.
    free: Mutex<Reservation>,
}

type Row = [LaneSlot; ROW];

/// Some slots of one row: those that are reserved for calls to come, or those of calls that are held back.
#[derive(Clone, Copy, Default)]
pub(super) struct Reservation {
    pub(super) row: u32,
    /// A bit for each.
    pub(super) slots: u64,
}

/// Slots in a row: as many as a reservation has bits.
const ROW: usize = 64;
/// Rows. Their lanes leave some to threads that call, and to the background.
const ROWS: usize = 10;
/// When a row has no more than so many free slots, they are reserved one by one.
const SCARCE: usize = 8;

impl LaneSlots {
    /// All slots that have been made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LaneSlot> {
        self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter())
    }

    #[inline]
    fn row(&self, row: usize) -> &Row {
        self.rows[row].get_or_init(|| heap_array(|_| LaneSlot::default()))
    }

    /// The slot of that number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &LaneSlot {
        &self.row(number as usize / ROW)[number as usize % ROW]
    }

    /// Those slots, in their order, each with its bit.
    #[inline]
    pub(super) fn of(&self, slots: Reservation) -> impl Iterator<Item = (u64, &LaneSlot)> {
        // The row of an empty reservation does not exist.
        let row = if slots.slots == 0 { &[][..] } else { self.row(slots.row as usize) };
        let mut left = slots.slots;
        std::iter::from_fn(move || {
            // Without a bit there is no slot of that number.
            let slot = row.get(left.trailing_zeros() as usize)?;
            let bit = left & left.wrapping_neg();
            left ^= bit;
            Some((bit, slot))
        })
    }

    /// Those of these slots that are at that stage.
    #[inline]
    pub(super) fn at(&self, stage: Stage, slots: Reservation) -> Reservation {
        let is_so = self.of(slots).filter(|(_, slot)| slot.look().stage() == stage);
        Reservation { slots: is_so.fold(0, |so, (bit, _)| so | bit), ..slots }
    }

    /// Reserves so many slots in one row, or fewer; `None` if none is free.
    pub(super) fn reserve(&self, wanted: usize) -> Option<Reservation> {
        let mut free = locked(&self.free);
        if free.count() < wanted + SCARCE {
            *free = self.look_for_free(free.row)?;
        }
        let reservation = free.first(wanted.min(free.count().saturating_sub(SCARCE)).max(1));
        free.slots &= !reservation.slots;
        self.of(reservation).for_each(|(_, slot)| slot.reserve());
        Some(reservation)
    }

    /// Those that are free in the first row, from `first` on, that has more than a few; if none has, in any.
    fn look_for_free(&self, first: u32) -> Option<Reservation> {
        let in_row = |row| Reservation { row: (first + row) % ROWS as u32, slots: u64::MAX };
        let mut free = (0..ROWS as u32).map(|row| self.at(Stage::Free, in_row(row)));
        let mut few = free.clone();
        free.find(|free| free.count() > SCARCE).or_else(|| few.find(|few| few.slots != 0))
    }
}

impl Reservation {
    /// The slots that are reserved for the next calls of a batch.
    #[inline]
    pub(super) fn left_in(batch: &CallBatch) -> Self {
        Self { row: batch.batch, slots: batch.reserved }
    }

    /// The slots of the calls of a batch that were held back, and may have been published since.
    #[inline]
    pub(super) fn held_in(batch: &CallBatch) -> Self {
        Self { row: batch.batch, slots: batch.held }
    }

    /// One slot.
    pub(super) fn of(number: u32) -> Self {
        Self { row: number / ROW as u32, slots: 1 << (number % ROW as u32) }
    }

    /// The number of the next slot.
    #[inline]
    pub(super) fn next(self) -> Option<u32> {
        (self.slots != 0).then(|| self.row * ROW as u32 + self.slots.trailing_zeros())
    }

    /// Without the next.
    #[inline]
    pub(super) fn rest(self) -> Self {
        Self { slots: self.slots & self.slots.wrapping_sub(1), ..self }
    }

    /// The numbers of all, in their order.
    #[cfg(test)]
    fn numbers(mut self) -> impl Iterator<Item = u32> {
        std::iter::from_fn(move || {
            let next = self.next()?;
            self = self.rest();
            Some(next)
        })
    }

    /// How many.
    pub(super) fn count(self) -> usize {
        self.slots.count_ones() as usize
    }

    /// So many of them.
    fn first(self, wanted: usize) -> Self {
        let others = (0..wanted).fold(self, |others, _| others.rest());
        Self { slots: self.slots & !others.slots, ..self }
    }

    /// Gives all back.
    pub(super) fn give_back(self, slots: &LaneSlots) {
        slots.of(self).for_each(|(_, slot)| slot.free());
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::shm::begun::lane_slots::*;

    #[test]
    fn every_place_is_reserved_once_and_can_be_had_again() {
        let slots = LaneSlots::default();
        let mut reservations = Vec::new();
        while let Some(reservation) = slots.reserve(16) {
            reservations.push(reservation);
        }
        let mut all: Vec<u32> = reservations.iter().copied().flat_map(Reservation::numbers).collect();
        all.sort_unstable();
        assert_eq!(all, (0..(ROW * ROWS) as u32).collect::<Vec<_>>());
        reservations.pop().unwrap().give_back(&slots);
        assert!(slots.reserve(16).is_some());
        Reservation { row: u32::MAX, slots: 0 }.give_back(&slots);
    }
}
