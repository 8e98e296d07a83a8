//! The places of a session's begun calls, and who may use which.

use crate::locked::locked;
use crate::transport::shm::begun::lane_slot::{LaneSlot, Stage};
use std::sync::{Mutex, OnceLock};

/// LaneSlots, made row by row as they are needed.
#[derive(Default)]
pub(super) struct LaneSlots {
    rows: [OnceLock<Box<Row>>; ROWS],
    /// Those of one row that were free when they were last looked at, and have not been reserved since. Held by whoever reserves
    /// some: nobody else makes of a free one anything else.
    free: Mutex<Reservation>,
}

type Row = [LaneSlot; ROW];

/// Some places of one row: those that are reserved for calls to come, or those of calls that are held back.
#[derive(Clone, Copy, Default)]
pub(super) struct Reservation {
    pub(super) row: u32,
    /// A bit for each.
    pub(super) places: u64,
}

/// LaneSlots in a row: as many as a reservation has bits.
const ROW: usize = 64;
/// Rows. Their lanes leave some to threads that call, and to the background.
const ROWS: usize = 10;
/// Of so few places in a row that are free, none is reserved in advance.
const SCARCE: usize = 8;

impl LaneSlots {
    /// All that there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LaneSlot> {
        self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter())
    }

    #[inline]
    fn row(&self, row: usize) -> &Row {
        self.rows[row].get_or_init(|| Box::new(std::array::from_fn(|_| LaneSlot::default())))
    }

    /// The place of that number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &LaneSlot {
        &self.row(number as usize / ROW)[number as usize % ROW]
    }

    /// Those places, in their order, each with its bit.
    #[inline]
    pub(super) fn of(&self, places: Reservation) -> impl Iterator<Item = (u64, &LaneSlot)> {
        // Those that are none are of no row.
        let row = (places.places != 0).then(|| self.row(places.row as usize));
        let mut left = places.places;
        std::iter::from_fn(move || {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            row.filter(|_| bit != 0).map(|row| (bit, &row[bit.trailing_zeros() as usize % ROW]))
        })
    }

    /// Those of these places of whose calls that is so.
    #[inline]
    pub(super) fn at(&self, stage: Stage, places: Reservation) -> Reservation {
        let is_so = self.of(places).filter(|(_, place)| place.look().stage() == stage);
        Reservation { places: is_so.fold(0, |so, (bit, _)| so | bit), ..places }
    }

    /// Reserves so many places in one row, or fewer; `None` if none is free.
    pub(super) fn reserve(&self, wanted: usize) -> Option<Reservation> {
        let mut free = locked(&self.free);
        if free.count() < wanted + SCARCE {
            *free = self.look_for_free(free.row as usize)?;
        }
        let wanted = wanted.min(free.count().saturating_sub(SCARCE)).max(1);
        let reservation = free.first(wanted);
        free.places &= !reservation.places;
        self.of(reservation).for_each(|(_, place)| place.reserve());
        Some(reservation)
    }

    /// Those that are free in the first row, from `first` on, that has more than a few; if none has, in any.
    fn look_for_free(&self, first: usize) -> Option<Reservation> {
        let mut few = None;
        for row in (0..ROWS).map(|row| (first + row) % ROWS) {
            let places = self.row(row).iter().rev();
            let places =
                places.fold(0, |free, place| free << 1 | u64::from(place.look().stage() == Stage::Free));
            let free = Reservation { row: row as u32, places };
            if free.count() > SCARCE {
                return Some(free);
            }
            if free.places != 0 {
                few = few.or(Some(free));
            }
        }
        few
    }
}

impl Reservation {
    /// One place.
    pub(super) fn of(number: u32) -> Self {
        Self { row: number / ROW as u32, places: 1 << (number % ROW as u32) }
    }

    /// The number of the next place.
    #[inline]
    pub(super) fn next(self) -> Option<u32> {
        (self.places != 0).then(|| self.row * ROW as u32 + self.places.trailing_zeros())
    }

    /// Without the next.
    #[inline]
    pub(super) fn rest(self) -> Self {
        Self { places: self.places & self.places.wrapping_sub(1), ..self }
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
        self.places.count_ones() as usize
    }

    /// So many of them.
    fn first(self, wanted: usize) -> Self {
        let others = (0..wanted).fold(self, |others, _| others.rest());
        Self { places: self.places & !others.places, ..self }
    }

    /// Gives all back.
    pub(super) fn give_back(self, places: &LaneSlots) {
        places.of(self).for_each(|(_, place)| place.free());
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::shm::begun::lane_slots::*;

    #[test]
    fn every_place_is_reserved_once_and_can_be_had_again() {
        let places = LaneSlots::default();
        let mut reservations = Vec::new();
        while let Some(reservation) = places.reserve(16) {
            reservations.push(reservation);
        }
        let mut all: Vec<u32> = reservations.iter().copied().flat_map(Reservation::numbers).collect();
        all.sort_unstable();
        assert_eq!(all, (0..(ROW * ROWS) as u32).collect::<Vec<_>>());
        reservations.pop().unwrap().give_back(&places);
        assert!(places.reserve(16).is_some());
        Reservation { row: u32::MAX, places: 0 }.give_back(&places);
    }
}
