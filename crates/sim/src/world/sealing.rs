//! The state of a sealed world: the ends of its bindings, and the attacker's memory.

use crate::events::{Life, Place};
use crate::{Address, Side};
use std::collections::{BTreeMap, BTreeSet};
use stoop_exchange::Instant;
use stoop_seal::toy::Toy;
use stoop_seal::{Numbers, Seal};

/// The ends of sealed bindings, and the attacker's memory.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    pub(crate) callers: BTreeMap<u64, CallerEnd>,
    pub(crate) servers: BTreeMap<(Life, u64), End>,
    /// The numbers that each end has used.
    pub(crate) used: BTreeSet<(Side, u64, u64)>,
    pub(crate) seen: Vec<Seen>,
    /// Short packets that wait for others of their end.
    pub(crate) waiting: BTreeMap<(Side, u64), Vec<Waiting>>,
    /// Calls that came to the server with others.
    pub(crate) bundled: BTreeSet<Bundled>,
}

/// A packet that waits for others, to be sealed with them.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) since: Instant,
    pub(crate) packet: Vec<u8>,
}

/// The binding, the lane and the number of a call.
pub(crate) type Bundled = (u64, u16, u32);

/// One end of a binding, and the numbers that it has reserved.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) seal: Seal<Toy>,
    pub(crate) numbers: Numbers,
    /// Those of the phases before, if it makes the mistake to keep them.
    pub(crate) kept: Vec<Seal<Toy>>,
}

/// The caller's end of a binding.
#[derive(Debug)]
pub(crate) struct CallerEnd {
    pub(crate) end: End,
    pub(crate) hints: u32,
    pub(crate) begun: Instant,
}

/// A packet that the attacker has seen: where it came from, between which ends.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) from: Side,
    pub(crate) caller: Address,
    pub(crate) server: Place,
    pub(crate) packet: Vec<u8>,
}
