//! The table of a server's bindings: one index and one comparison find a binding.
//!
//! The server draws the numbers of its bindings such that the low bits of each number are the index of its own entry. A
//! look-up therefore needs no hash and no search. Doubling the table keeps that true: numbers that differ in their low
//! k bits differ in their low k + 1.

use super::assignment::Terms;
use super::hosts::OtherHosts;
use super::lane::LaneState;
use super::lanes::Lanes;
use super::peer::Peer;
use super::shares::{Holding, Share, Shares};
use crate::Instant;
use crate::bulk::Path;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use stoop_wire::{BindingId, Header, LaneId};

/// State of one binding.
#[derive(Debug)]
pub(super) struct Binding<P> {
    /// The address that bound, or the last that has since proved that the caller moved there.
    pub(super) host: [u8; 16],
    /// Addresses that the caller had before, and one that it has yet to prove.
    pub(super) others: OtherHosts,
    pub(super) interface: u16,
    /// Whether caller and server can run at the same time.
    pub(super) together: bool,
    pub(super) heard: Instant,
    /// Bytes of the longest result that the caller accepts.
    pub(super) result_max: u32,
    /// Bytes of a result that the caller accepts before its first receipt.
    pub(super) window: u32,
    /// Length of the longest part of a call from this caller: results may have parts as long.
    pub(super) longest: u32,
    /// The path to the caller, from the first result of many packets on.
    pub(super) path: Option<Box<Path>>,
    /// Lanes with results of many packets that wait for space on the path, longest wait first.
    // The box makes all other bindings smaller.
    #[expect(clippy::box_collection, reason = "one word while there are none")]
    pub(super) waiting: Option<Box<VecDeque<LaneId>>>,
    pub(super) share: Share,
    pub(super) lanes: Lanes<P>,
}

impl<P> Binding<P> {
    /// Whether a packet of `peer` comes from an address of the caller.
    #[inline]
    pub(super) fn is_from(&self, peer: &P) -> bool
    where
        P: Peer,
    {
        peer.is_at(&self.host) || self.others.were_at(peer)
    }

    /// The caller has proved that it receives at `host`, too.
    pub(super) fn move_to(&mut self, host: [u8; 16]) {
        let before = core::mem::replace(&mut self.host, host);
        self.others.prove(before, host);
    }

    /// The facts about the binding that each call needs.
    #[inline]
    pub(super) fn terms(&self) -> Terms {
        Terms { interface: self.interface, together: self.together, result_max: self.result_max }
    }

    pub(super) fn is_running(&self) -> bool {
        self.lanes.iter().any(LaneState::is_running)
    }

    /// Whether a call, a cancel or a question has ever arrived on it.
    pub(super) fn was_used(&self) -> bool {
        self.lanes.is_any()
    }

    /// Whether its lanes hold what its share says.
    pub(super) fn is_counted_right(&self) -> bool {
        let sum = |of_lane: fn(&LaneState<P>) -> usize| self.lanes.iter().map(of_lane).sum::<usize>();
        let share = &self.share;
        share.packets == sum(LaneState::packets)
            && share.incomplete == sum(LaneState::incomplete)
            && share.retained == sum(LaneState::large_retained)
            && share.pipes == sum(LaneState::pipe_bytes)
    }
}

/// All bindings. The number of entries is a power of two, and at most half of them are taken.
#[derive(Debug)]
pub(super) struct Table<P> {
    places: Vec<Option<Place<P>>>,
    len: usize,
    /// Where the next [`search`](Self::search) begins.
    hand: usize,
}

type Place<P> = (BindingId, Box<Binding<P>>);

impl<P> Default for Table<P> {
    fn default() -> Self {
        Self { places: Vec::new(), len: 0, hand: 0 }
    }
}

const FEWEST_PLACES: usize = 16;

impl<P> Table<P> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, id: BindingId) -> usize {
        id.0 as usize & self.places.len().wrapping_sub(1)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: BindingId) -> Option<&mut Binding<P>> {
        let place = self.place(id);
        match self.places.get_mut(place) {
            Some(Some((theirs, binding))) if *theirs == id => Some(binding),
            _ => None,
        }
    }

    pub(super) fn has(&self, id: BindingId) -> bool {
        matches!(self.places.get(self.place(id)), Some(Some((theirs, _))) if *theirs == id)
    }

    /// The lane that a packet is for.
    ///
    /// # Panics
    /// If its binding or the lane does not exist: the caller has looked them up.
    pub(super) fn lane_mut(&mut self, header: &Header) -> &mut LaneState<P> {
        let binding = self.get_mut(header.binding).expect("the caller has looked it up");
        binding.lanes.get_mut(header.lane).expect("the caller has looked it up")
    }

    /// Inserts a binding under a number from `draw`, whose low bits must be random each time.
    pub(super) fn insert(&mut self, binding: Binding<P>, mut draw: impl FnMut() -> BindingId) -> BindingId {
        if 2 * (self.len + 1) > self.places.len() {
            self.grow();
        }
        loop {
            // At least every second number is the index of a free entry.
            let id = draw();
            let place = self.place(id);
            if id.like(BindingId::NONE) != BindingId::NONE && self.places[place].is_none() {
                self.places[place] = Some((id, Box::new(binding)));
                self.len += 1;
                return id;
            }
        }
    }

    fn grow(&mut self) {
        let doubled = (2 * self.places.len()).max(FEWEST_PLACES);
        let old = core::mem::take(&mut self.places);
        self.places.resize_with(doubled, || None);
        for (id, binding) in old.into_iter().flatten() {
            let place = self.place(id);
            self.places[place] = Some((id, binding));
        }
    }

    pub(super) fn remove(&mut self, id: BindingId) -> Option<Box<Binding<P>>> {
        self.get_mut(id)?;
        let place = self.place(id);
        self.len -= 1;
        self.places[place].take().map(|(_, binding)| binding)
    }

    /// Removes the bindings for which `keep` is false, and counts them.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Binding<P>) -> bool) -> usize {
        let before = self.len;
        for place in &mut self.places {
            if place.as_mut().is_some_and(|(_, binding)| !keep(binding)) {
                *place = None;
                self.len -= 1;
            }
        }
        before - self.len
    }

    /// All bindings, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BindingId, &Binding<P>)> {
        self.places.iter().flatten().map(|(id, binding)| (*id, &**binding))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Binding<P>> {
        self.places.iter_mut().flatten().map(|(_, binding)| &mut **binding)
    }

    /// A pool whose books disagree with what the bindings hold, for assertions.
    pub(super) fn miscounted(&self, shares: &Shares) -> Option<&'static str> {
        if self.iter().any(|(_, binding)| !binding.is_counted_right()) {
            return Some("a binding");
        }
        let owners =
            |of: fn(&Holding) -> usize| shares.owners.iter().map(|(_, owner)| of(owner)).sum::<usize>();
        let parts = |of: fn(&Share) -> usize| self.iter().map(|(_, it)| of(&it.share)).sum::<usize>();
        let [(bindings, _), (requests, _), packets, lanes, (incomplete, _), retained, pipes] = [
            (owners(|it| it.bindings), 0),
            (owners(|it| it.requests), 0),
            (owners(|it| it.packets), parts(|it| it.packets)),
            (owners(|it| it.lanes), parts(|it| it.lanes)),
            (owners(|it| it.incomplete), 0),
            (owners(|it| it.retained), parts(|it| it.retained)),
            (owners(|it| it.pipes), parts(|it| it.pipes)),
        ];
        let right = [
            ("bindings", shares.bindings.held() == bindings),
            ("requests", shares.requests.held() == requests),
            ("packets", packets == (shares.packets.held(), shares.packets.held())),
            ("lanes", lanes == (shares.lanes.held(), shares.lanes.held())),
            ("incomplete", shares.incomplete.held() == incomplete),
            ("retained", retained == (shares.retained.held(), shares.retained.held())),
            ("pipes", pipes == (shares.pipes.held(), shares.pipes.held())),
        ];
        right.iter().find(|(_, right)| !right).map(|(pool, _)| *pool)
    }

    /// Looks at the next `most` entries, beginning behind the last one that it has looked at, for a binding.
    pub(super) fn search(&mut self, most: usize, is_it: impl Fn(&Binding<P>) -> bool) -> Option<BindingId> {
        for _ in 0..most.min(self.places.len()) {
            self.hand = (self.hand + 1) & (self.places.len() - 1);
            if let Some((id, binding)) = &self.places[self.hand]
                && is_it(binding)
            {
                return Some(*id);
            }
        }
        None
    }

    /// Whether an answer of many packets is being sent on any binding, or a pipe to a caller.
    pub(super) fn is_sending(&self) -> bool {
        let is_sending = |large: &super::large::Large<P>| {
            large.sending.is_some() || large.pipes.as_ref().is_some_and(|pipes| pipes.is_sending())
        };
        self.places.iter().flatten().any(|(_, binding)| {
            binding.path.is_some()
                && binding.lanes.iter().any(|lane| lane.large.as_deref().is_some_and(is_sending))
        })
    }

    pub(super) fn bytes_held(&self) -> usize {
        let of_binding = |(_, binding): &Place<P>| {
            size_of::<Binding<P>>() + binding.others.bytes_held() + binding.lanes.bytes_held()
        };
        self.places.capacity() * size_of::<Option<Place<P>>>()
            + self.places.iter().flatten().map(of_binding).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::{Owner, Owners};

    fn binding() -> Binding<()> {
        let owner = Owners::<()>::default().enter(Owner::user(1));
        Binding {
            host: [0; 16],
            others: OtherHosts::default(),
            interface: 0,
            together: true,
            heard: Instant::default(),
            result_max: 0,
            window: 0,
            longest: 0,
            path: None,
            waiting: None,
            share: Share::of(owner),
            lanes: Lanes::default(),
        }
    }

    #[test]
    fn every_binding_is_found_while_the_table_grows_and_shrinks() {
        let mut table = Table::default();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            BindingId(state)
        };
        let ids: Vec<BindingId> = (0..5000).map(|_| table.insert(binding(), &mut draw)).collect();
        assert!(ids.iter().all(|id| table.get_mut(*id).is_some()));
        ids.iter().step_by(2).for_each(|id| assert!(table.remove(*id).is_some()));
        assert_eq!(table.len(), 2500);
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(table.get_mut(*id).is_some(), i % 2 == 1);
        }
        assert!(table.get_mut(BindingId(ids[1].0 ^ 1 << 60)).is_none(), "all 64 bits count");
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        assert!(Table::<()>::default().get_mut(BindingId(7)).is_none());
    }
}
