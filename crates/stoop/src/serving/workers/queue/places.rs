//! The places of the calls that wait: the calls themselves, apart from their order.

/// The place of a call, until it is taken.
pub(in crate::serving::workers) type Place = u32;

/// Calls, each in a place of its own.
pub(in crate::serving::workers) struct Places<C> {
    calls: Vec<Option<C>>,
    vacant: Vec<Place>,
}

/// Places that are kept while no call waits.
const KEPT: usize = 16;

impl<C> Default for Places<C> {
    fn default() -> Self {
        Self { calls: Vec::new(), vacant: Vec::new() }
    }
}

impl<C> Places<C> {
    /// The place that the next call is [put](Self::put) into.
    pub(in crate::serving::workers) fn next(&self) -> Place {
        self.vacant.last().copied().unwrap_or(self.calls.len() as Place)
    }

    /// Puts a call into the [next](Self::next) place.
    pub(in crate::serving::workers) fn put(&mut self, call: C) {
        match self.vacant.pop() {
            Some(place) => self.calls[place as usize] = Some(call),
            None => self.calls.push(Some(call)),
        }
    }

    /// Takes the call of a place.
    pub(in crate::serving::workers) fn take(&mut self, place: Place) -> C {
        let call = self.calls[place as usize].take().expect("a call waits in its place");
        self.vacant.push(place);
        if self.vacant.len() == self.calls.len() && self.calls.len() > KEPT {
            *self = Self::default();
        }
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_taken_from_the_place_that_it_was_promised_and_memory_goes_with_the_last() {
        let put = |places: &mut Places<u32>, call| {
            let place = places.next();
            places.put(call);
            place
        };
        let mut places = Places::default();
        let all: Vec<Place> = (0..100).map(|call| put(&mut places, call)).collect();
        assert_eq!(places.take(all[7]), 7);
        let again = put(&mut places, 107);
        assert_eq!((again, places.take(again)), (all[7], 107));
        for place in all.into_iter().filter(|place| *place != 7) {
            assert_eq!(places.take(place), place);
        }
        assert_eq!((places.calls.capacity(), places.next()), (0, 0));
    }
}
