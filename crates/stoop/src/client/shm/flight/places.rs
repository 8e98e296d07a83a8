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

/// Some places of one row: those that are reserved for calls to come, or those of calls that are held back.
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
const RESERVED: usize = 16;
/// Of so few places in a row that are free, none is reserved in advance.
const SCARCE: usize = 8;

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
            let is_free = |number: &usize| places[*number].look().stage() == Stage::Free;
            // Of more, no more would be reserved.
            let free = (0..ROW).filter(is_free).take(RESERVED + SCARCE);
            let (free, count) = free.fold((0, 0), |(free, count), number| (free | 1 << number, count + 1));
            let wanted = if count > SCARCE { count - SCARCE } else { count.min(1) };
            let reservation = Reservation { row: row as u32, places: free }.first(wanted);
            if reservation.places != 0 {
                reservation.numbers().for_each(|number| self.get(number).reserve());
                *reserving = row;
                return Some(reservation);
            }
        }
        None
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
    pub(super) fn numbers(mut self) -> impl Iterator<Item = u32> {
        std::iter::from_fn(move || {
            let next = self.next()?;
            self = self.rest();
            Some(next)
        })
    }

    /// Those of which that is so.
    pub(super) fn filter(self, is_so: impl Fn(u32) -> bool) -> Self {
        let others = self.numbers().filter(|number| !is_so(*number));
        let places = others.fold(self.places, |places, number| places & !Self::of(number).places);
        Self { places, ..self }
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
    pub(super) fn give_back(self, places: &Places) {
        self.numbers().for_each(|number| places.get(number).free());
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
        let mut all: Vec<u32> = reservations.iter().copied().flat_map(Reservation::numbers).collect();
        all.sort_unstable();
        assert_eq!(all, (0..(ROW * ROWS) as u32).collect::<Vec<_>>());
        reservations.pop().unwrap().give_back(&places);
        assert!(places.reserve().is_some());
    }
}
