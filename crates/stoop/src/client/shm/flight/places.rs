//! The places of a session's begun calls, and who may use which.

use super::locked;
use super::place::{Place, Stage};
use std::sync::{Mutex, OnceLock};

/// Places, made row by row as they are needed.
#[derive(Default)]
pub(super) struct Places {
    rows: [OnceLock<Box<Row>>; ROWS],
    /// Held by whoever reserves some: the row in which there were free ones last.
    reserving: Mutex<usize>,
}

type Row = [Place; ROW];

/// Places of one row that are reserved for calls to come.
#[derive(Clone, Copy)]
pub(super) struct Reservation {
    pub(super) row: u32,
    /// A bit for each.
    pub(super) places: u64,
}

/// Places in a row: as many as a reservation has bits.
const ROW: usize = 64;
/// Rows. Their lanes leave some to threads that call, and to the keeper.
const ROWS: usize = 10;
/// Places reserved at once.
const RESERVED: u32 = 16;
/// Of so few places in a row that are free, none is reserved in advance.
const SCARCE: u32 = 8;

impl Places {
    /// All that there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter())
    }

    #[inline]
    fn row(&self, row: usize) -> &Row {
        self.rows[row].get_or_init(|| Box::new(std::array::from_fn(|_| Place::default())))
    }

    /// The place of that number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Place {
        &self.row(number as usize / ROW)[number as usize % ROW]
    }

    /// Reserves places in one row; `None` if none is free.
    pub(super) fn reserve(&self) -> Option<Reservation> {
        let mut reserving = locked(&self.reserving);
        let first = *reserving;
        for row in (0..ROWS).map(|row| (first + row) % ROWS) {
            let places = self.row(row);
            let free = places.iter().filter(|place| place.look().stage() == Stage::Free).count() as u32;
            let wanted = if free > SCARCE { RESERVED.min(free - SCARCE) } else { free.min(1) };
            let mut reserved = 0_u64;
            for (number, place) in places.iter().enumerate() {
                if reserved.count_ones() < wanted && place.reserve() {
                    reserved |= 1 << number;
                }
            }
            if reserved != 0 {
                *reserving = row;
                return Some(Reservation { row: row as u32, places: reserved });
            }
        }
        None
    }
}

impl Reservation {
    /// None.
    pub(super) const NONE: Self = Self { row: 0, places: 0 };

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

    /// Gives all back.
    pub(super) fn give_back(mut self, places: &Places) {
        while let Some(number) = self.next() {
            places.get(number).free();
            self = self.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_reserved_once_and_can_be_had_again() {
        let places = Places::default();
        let mut reservations = Vec::new();
        while let Some(reservation) = places.reserve() {
            reservations.push(reservation);
        }
        let numbers = |mut reservation: Reservation| {
            let mut numbers = Vec::new();
            while let Some(number) = reservation.next() {
                numbers.push(number);
                reservation = reservation.rest();
            }
            numbers
        };
        let mut all: Vec<u32> = reservations.iter().copied().flat_map(numbers).collect();
        all.sort_unstable();
        assert_eq!(all, (0..(ROW * ROWS) as u32).collect::<Vec<_>>());
        reservations.pop().unwrap().give_back(&places);
        assert!(places.reserve().is_some());
    }
}
