//! The pools of a server: what its callers, by name or host, and their bindings hold of each resource.

use super::limits::Limits;
use crate::shares::{Owner, OwnerId, Owners, Pool};

/// An owner's part of each pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) bindings: usize,
    /// Recent bind requests that are remembered.
    pub(super) requests: usize,
    /// Retained answers and waiting calls, and calls that run whose answers will be retained.
    pub(super) packets: usize,
    /// Lanes beyond the first few of each binding.
    pub(super) lanes: usize,
    /// Bytes of calls of many packets that are arriving, waiting or running.
    pub(super) incomplete: usize,
    /// Bytes of retained results of many packets.
    pub(super) retained: usize,
    /// Bytes that pipes hold, or that callers may send.
    pub(super) pipes: usize,
}

/// The owner of a binding, and what the binding holds of the pools; see [`Holding`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) owner: OwnerId,
    pub(super) packets: usize,
    pub(super) lanes: usize,
    /// Bytes of calls that are arriving or waiting. Those of calls that run belong to the owner alone.
    pub(super) incomplete: usize,
    pub(super) retained: usize,
    pub(super) pipes: usize,
}

impl Share {
    pub(super) fn of(owner: OwnerId) -> Self {
        Self { owner, packets: 0, lanes: 0, incomplete: 0, retained: 0, pipes: 0 }
    }
}

/// Most bind requests that are remembered while their cookies are valid. Without a bound, a flood of binds could fill our
/// memory.
const MOST_REQUESTS: usize = 65_536;

/// Of which pools an owner holds much: more than one part in [`LITTLE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Much {
    pub(super) packets: bool,
    pub(super) lanes: bool,
    pub(super) incomplete: bool,
    pub(super) retained: bool,
}

/// An owner that holds at most one part in so many of a pool keeps it even if it is silent.
const LITTLE: usize = 64;

fn is_much(pool: &Pool, held: usize) -> bool {
    held > pool.total() / LITTLE
}

/// The pools of a server and their owners.
#[derive(Debug)]
pub(super) struct Shares {
    pub(super) owners: Owners<Holding>,
    pub(super) bindings: Pool,
    pub(super) requests: Pool,
    pub(super) packets: Pool,
    pub(super) lanes: Pool,
    pub(super) incomplete: Pool,
    pub(super) retained: Pool,
    pub(super) pipes: Pool,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            owners: Owners::default(),
            bindings: Pool::new(limits.bindings),
            requests: Pool::new(MOST_REQUESTS),
            packets: Pool::new(limits.packets),
            lanes: Pool::new(limits.all_lanes),
            incomplete: Pool::new(limits.incomplete),
            retained: Pool::new(limits.retained),
            pipes: Pool::new(limits.pipes),
        }
    }

    /// Counts a binding of an owner; `None` if it may not have one more.
    pub(super) fn bind(&mut self, owner: Owner) -> Option<Share> {
        let owner = self.owners.enter(owner);
        if self.bindings.take(&mut self.owners.counts_mut(owner).bindings, 1) {
            return Some(Share::of(owner));
        }
        self.owners.leave(owner);
        None
    }

    /// Counts a binding of an owner in place of one that was just released for it.
    pub(super) fn bind_in_place(&mut self, owner: Owner) -> Share {
        let owner = self.owners.enter(owner);
        self.bindings.take_freed(&mut self.owners.counts_mut(owner).bindings, 1);
        Share::of(owner)
    }

    /// Bindings for each owner, if all and this one have the same.
    pub(super) fn fair_bindings(&self, owner: Owner) -> usize {
        let others = usize::from(self.owners.find(owner).is_none());
        self.bindings.fair_share(self.owners.len() + others)
    }

    /// Takes a place in the memory of recent bind requests; `None` if the owner may not have one more.
    pub(super) fn take_request(&mut self, owner: OwnerId) -> bool {
        let taken = self.requests.take(&mut self.owners.counts_mut(owner).requests, 1);
        if taken {
            self.owners.enter_again(owner);
        }
        taken
    }

    /// Gives such a place back.
    pub(super) fn give_request_back(&mut self, owner: OwnerId) {
        self.requests.give_back(&mut self.owners.counts_mut(owner).requests, 1);
        self.owners.leave(owner);
    }

    /// Bindings of an owner.
    pub(super) fn bindings_of(&self, owner: Owner) -> usize {
        self.owners.find(owner).map_or(0, |owner| self.owners.counts(owner).bindings)
    }

    /// Of which pools this owner holds much.
    pub(super) fn much_of(&self, owner: OwnerId) -> Much {
        let held = self.owners.counts(owner);
        Much {
            packets: is_much(&self.packets, held.packets),
            lanes: is_much(&self.lanes, held.lanes),
            incomplete: is_much(&self.incomplete, held.incomplete),
            retained: is_much(&self.retained, held.retained),
        }
    }

    /// Whether an owner can hold much of some of these pools; of the lanes without so many that rest.
    #[inline]
    pub(super) fn any_much(&self, resting: usize) -> bool {
        let awake = self.lanes.held().saturating_sub(resting);
        awake > self.lanes.total() / LITTLE
            || [&self.packets, &self.incomplete, &self.retained].iter().any(|pool| is_much(pool, pool.held()))
    }

    /// Takes back everything that a binding holds.
    pub(super) fn unbind(&mut self, share: &Share) {
        let owner = self.owners.counts_mut(share.owner);
        self.bindings.give_back(&mut owner.bindings, 1);
        self.packets.give_back(&mut owner.packets, share.packets);
        self.lanes.give_back(&mut owner.lanes, share.lanes);
        self.incomplete.give_back(&mut owner.incomplete, share.incomplete);
        self.retained.give_back(&mut owner.retained, share.retained);
        self.pipes.give_back(&mut owner.pipes, share.pipes);
        self.owners.leave(share.owner);
    }

    /// Takes a unit for an answer that will be retained, or for a call that waits.
    #[cold]
    pub(super) fn take_packet(&mut self, share: &mut Share) -> bool {
        let owner = self.owners.counts_mut(share.owner);
        self.packets.take_for(&mut owner.packets, &mut share.packets, 1)
    }

    /// Gives such a unit back.
    #[cold]
    pub(super) fn give_packet_back(&mut self, share: &mut Share) {
        let owner = self.owners.counts_mut(share.owner);
        self.packets.give_back_for(&mut owner.packets, &mut share.packets, 1);
    }

    /// Gives back such a unit of a retained answer, with the bytes of it beyond an ordinary packet.
    pub(super) fn give_answer_back(&mut self, share: &mut Share, large_bytes: usize) {
        self.give_packet_back(share);
        self.give_retained_back(share, large_bytes);
    }

    /// Takes so many lanes.
    #[cold]
    pub(super) fn take_lanes(&mut self, share: &mut Share, lanes: usize) -> bool {
        let owner = self.owners.counts_mut(share.owner);
        self.lanes.take_for(&mut owner.lanes, &mut share.lanes, lanes)
    }

    /// Takes bytes for a call of many packets that is arriving.
    pub(super) fn take_incomplete(&mut self, share: &mut Share, bytes: usize) -> bool {
        let owner = self.owners.counts_mut(share.owner);
        self.incomplete.take_for(&mut owner.incomplete, &mut share.incomplete, bytes)
    }

    /// Gives back bytes of a call of many packets that will not run.
    pub(super) fn give_incomplete_back(&mut self, share: &mut Share, bytes: usize) {
        let owner = self.owners.counts_mut(share.owner);
        self.incomplete.give_back_for(&mut owner.incomplete, &mut share.incomplete, bytes);
    }

    /// A call of many packets begins to run: its owner holds its bytes until [`end_running`](Self::end_running), even if
    /// its binding is released meanwhile.
    pub(super) fn begin_running(&mut self, share: &mut Share, bytes: usize) -> OwnerId {
        share.incomplete -= bytes;
        self.owners.enter_again(share.owner);
        share.owner
    }

    /// A call of many packets has been answered.
    pub(super) fn end_running(&mut self, owner: OwnerId, bytes: usize) {
        self.incomplete.give_back(&mut self.owners.counts_mut(owner).incomplete, bytes);
        self.owners.leave(owner);
    }

    /// Takes bytes for a pipe.
    pub(super) fn take_pipe(&mut self, share: &mut Share, bytes: usize) -> bool {
        let owner = self.owners.counts_mut(share.owner);
        bytes == 0 || self.pipes.take_for(&mut owner.pipes, &mut share.pipes, bytes)
    }

    /// Whether the owner would hold at most a quarter of all bytes of pipes with so many more.
    pub(super) fn has_little_of_pipes(&self, share: &Share, more: usize) -> bool {
        self.owners.counts(share.owner).pipes + more <= self.pipes.total() / 4
    }

    /// Gives such bytes back.
    pub(super) fn give_pipe_back(&mut self, share: &mut Share, bytes: usize) {
        if bytes > 0 {
            let owner = self.owners.counts_mut(share.owner);
            self.pipes.give_back_for(&mut owner.pipes, &mut share.pipes, bytes);
        }
    }

    /// Takes bytes for a result of many packets that is retained.
    pub(super) fn take_retained(&mut self, share: &mut Share, bytes: usize) -> bool {
        let owner = self.owners.counts_mut(share.owner);
        bytes == 0 || self.retained.take_for(&mut owner.retained, &mut share.retained, bytes)
    }

    /// Gives such bytes back.
    pub(super) fn give_retained_back(&mut self, share: &mut Share, bytes: usize) {
        if bytes > 0 {
            let owner = self.owners.counts_mut(share.owner);
            self.retained.give_back_for(&mut owner.retained, &mut share.retained, bytes);
        }
    }
}
