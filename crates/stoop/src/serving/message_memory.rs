//! Memory for long messages at an address whose bindings have a connection each: how much each binding holds of it.
//!
//! It is shared among the owners of the bindings, and the part of each owner among its bindings ([`shares`](crate::serving::shares)).
//! Short messages are not counted: how many of them there can be is bounded by the lanes of a binding, and by what a binding may leave
//! unread.

use crate::context::Caller;
use crate::context::owner_of;
use crate::limits::Limits;
use crate::locked::locked;
use crate::serving::counters::MemoryCounters;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
#[cfg(feature = "seal")]
use stoop_exchange::shares::Owner;
use stoop_exchange::shares::{OwnerId, Owners, Pool};

/// The use of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Arguments of calls that are arriving, waiting or running.
    Arguments,
    /// Results that their callers have not taken.
    Results,
}

/// The memory for long messages of an address.
pub(crate) struct MessageMemory {
    shares: Mutex<Shares>,
    /// Bytes of buffers that bindings keep for their next messages.
    kept: AtomicUsize,
    arguments_refused: AtomicU64,
    results_dropped: AtomicU64,
}

struct Shares {
    owners: Owners<Held>,
    arguments: Pool,
    results: Pool,
}

/// Bytes that an owner or a binding holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    arguments: usize,
    results: usize,
}

/// Bytes for arguments, and as many for results, unless set.
const DEFAULT: usize = 512 << 20;
/// Messages of the greatest length for which there is room at least: one binding alone may hold nine sixteenths.
const LONGEST_MESSAGES: usize = 2;
/// The same, unless the bytes are set: then a binding alone may have four long messages each way under way.
const LONGEST_MESSAGES_DEFAULT: usize = 8;
/// Bytes of the buffers that all bindings keep for their next messages.
const KEPT_MAX: usize = 32 << 20;

/// Most bytes of arguments, or of results: what is set for them, or the default.
fn most_bytes(set: Option<usize>, default: usize, limits: &Limits, message_max: usize) -> usize {
    let longest = |messages| message_max.saturating_mul(messages);
    let unset = || limits.unset_bytes(default.max(longest(LONGEST_MESSAGES_DEFAULT)));
    set.unwrap_or_else(unset).max(longest(LONGEST_MESSAGES))
}

/// Most bytes of the arguments of calls.
pub(crate) fn most_argument_bytes(limits: &Limits, message_max: usize) -> usize {
    most_bytes(limits.argument_bytes, DEFAULT, limits, message_max)
}

impl MessageMemory {
    pub(crate) fn new(limits: &Limits, message_max: usize) -> Arc<Self> {
        Self::with_default(DEFAULT, limits, message_max)
    }

    /// As [`new`](Self::new), with so many bytes for arguments, and as many for results, unless they are set.
    pub(crate) fn with_default(default: usize, limits: &Limits, message_max: usize) -> Arc<Self> {
        let pool = |set| Pool::new(most_bytes(set, default, limits, message_max));
        let (arguments, results) = (pool(limits.argument_bytes), pool(limits.result_bytes));
        let shares = Shares { owners: Owners::default(), arguments, results };
        Arc::new(Self {
            shares: Mutex::new(shares),
            kept: AtomicUsize::new(0),
            arguments_refused: AtomicU64::new(0),
            results_dropped: AtomicU64::new(0),
        })
    }

    /// The part of one more binding of this caller's.
    pub(crate) fn share_of(self: &Arc<Self>, caller: &Caller) -> Arc<MemoryShare> {
        let owner = locked(&self.shares).owners.enter(owner_of(caller));
        Arc::new(MemoryShare {
            memory: Arc::clone(self),
            part: Mutex::new(Part { owner, held: Held::default() }),
            kept: AtomicUsize::new(0),
        })
    }

    pub(crate) fn counters(&self) -> MemoryCounters {
        let shares = locked(&self.shares);
        MemoryCounters {
            argument_bytes: shares.arguments.held() as u64,
            result_bytes: shares.results.held() as u64,
            arguments_refused: self.arguments_refused.load(Ordering::Relaxed),
            results_dropped: self.results_dropped.load(Ordering::Relaxed),
        }
    }
}

/// A binding's part of the memory for long messages. It gives all of it back when it is dropped.
pub(crate) struct MemoryShare {
    memory: Arc<MessageMemory>,
    /// Locked under the lock of the shares only.
    part: Mutex<Part>,
    /// Bytes of buffers that the binding keeps for its next messages.
    kept: AtomicUsize,
}

/// A binding's owner, and what the binding holds.
#[derive(Debug)]
struct Part {
    owner: OwnerId,
    held: Held,
}

impl Shares {
    /// The pool of that content, and what the owner and its binding hold of it.
    fn of<'a>(
        &'a mut self,
        Part { owner, held: part }: &'a mut Part,
        content: Content,
    ) -> (&'a mut Pool, &'a mut usize, &'a mut usize) {
        let held = self.owners.counts_mut(*owner);
        match content {
            Content::Arguments => (&mut self.arguments, &mut held.arguments, &mut part.arguments),
            Content::Results => (&mut self.results, &mut held.results, &mut part.results),
        }
    }
}

impl MemoryShare {
    /// Takes so many bytes. `false`: the binding, or its owner, has its share.
    pub(crate) fn take(&self, content: Content, bytes: usize) -> bool {
        let mut shares = locked(&self.memory.shares);
        let mut part = locked(&self.part);
        let (pool, held, part) = shares.of(&mut part, content);
        let taken = pool.take_for(held, part, bytes);
        if !taken {
            let count = match content {
                Content::Arguments => &self.memory.arguments_refused,
                Content::Results => &self.memory.results_dropped,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// The binding is of this owner from now on.
    #[cfg(feature = "seal")]
    pub(crate) fn move_to(&self, owner: Owner) {
        let Shares { owners, .. } = &mut *locked(&self.memory.shares);
        let mut part = locked(&self.part);
        let Part { owner: from, held: Held { arguments, results } } = *part;
        let to = owners.enter(owner);
        let before = owners.counts_mut(from);
        (before.arguments, before.results) = (before.arguments - arguments, before.results - results);
        let after = owners.counts_mut(to);
        (after.arguments, after.results) = (after.arguments + arguments, after.results + results);
        owners.leave(from);
        part.owner = to;
    }

    /// Gives so many bytes back.
    pub(crate) fn give_back(&self, content: Content, bytes: usize) {
        let mut shares = locked(&self.memory.shares);
        let mut part = locked(&self.part);
        let (pool, held, part) = shares.of(&mut part, content);
        pool.give_back_for(held, part, bytes);
    }

    /// Counts a buffer of so many bytes that the binding keeps for its next message. `false`: bindings keep enough already.
    pub(crate) fn keep(&self, bytes: usize) -> bool {
        let more = |kept: usize| kept.checked_add(bytes).filter(|&kept| kept <= KEPT_MAX);
        let keeps = self.memory.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if keeps {
            self.kept.fetch_add(bytes, Ordering::Relaxed);
        }
        keeps
    }

    /// The binding uses such a buffer, or has freed it.
    pub(crate) fn uncount_kept(&self, bytes: usize) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.kept.fetch_sub(*self.kept.get_mut(), Ordering::Relaxed);
        let mut shares = locked(&self.memory.shares);
        let mut part = locked(&self.part);
        for content in [Content::Arguments, Content::Results] {
            let (pool, held, part) = shares.of(&mut part, content);
            let bytes = *part;
            pool.give_back_for(held, part, bytes);
        }
        shares.owners.leave(part.owner);
    }
}

impl fmt::Debug for MemoryShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryShare").field("part", &self.part).finish_non_exhaustive()
    }
}

/// Detail of the refusal of a call for whose arguments there is no memory.
pub(crate) const NO_MEMORY_FOR_ARGUMENTS: &str = "your host or user, or this binding, has its share of the server's memory for long \
    arguments, or its process has no memory left; call again when earlier calls have ended, or raise Limits::argument_bytes";

/// Detail of the failure of a call for whose result there is no memory.
pub(crate) const NO_MEMORY_FOR_RESULT: &str = "your host or user, or this binding, has its share of the server's memory for results \
    that are not read; read earlier results first, or raise Limits::result_bytes";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Credentials;

    fn user(uid: u32) -> Caller {
        Caller::Process(Credentials { uid, gid: 0, pid: 0 })
    }

    /// How many units of `unit` bytes a share may take.
    fn fill(share: &MemoryShare, unit: usize) -> usize {
        (0..).take_while(|_| share.take(Content::Arguments, unit)).count()
    }

    #[test]
    fn bindings_of_one_user_leave_memory_for_another() {
        let memory = MessageMemory::new(&Limits::new().argument_bytes(1024), 0);
        let greedy: Vec<_> = (0..20).map(|_| memory.share_of(&user(1))).collect();
        let taken: usize = greedy.iter().map(|share| fill(share, 16)).sum();
        assert!(taken * 16 <= 768, "{taken} units of 16 bytes");
        let other = memory.share_of(&user(2));
        assert!(fill(&other, 16) * 16 >= 128);
        let counters = memory.counters();
        assert!(counters.argument_bytes > 768 && counters.arguments_refused > 0, "{counters:?}");
        drop((greedy, other));
        assert_eq!(memory.counters().argument_bytes, 0);
        assert!(locked(&memory.shares).owners.is_empty());
    }

    #[test]
    fn one_binding_may_have_four_of_the_longest_messages_each_way() {
        let longest = 128 << 20;
        let memory = MessageMemory::new(&Limits::new(), longest);
        let share = memory.share_of(&user(1));
        assert!((0..4).all(|_| share.take(Content::Arguments, longest)));
        assert!((0..4).all(|_| share.take(Content::Results, longest)));
        share.give_back(Content::Results, 4 * longest);
        assert_eq!(memory.counters().result_bytes, 0);
    }

    #[test]
    fn a_dropped_share_keeps_no_buffer() {
        let memory = MessageMemory::new(&Limits::new(), 0);
        let share = memory.share_of(&user(1));
        assert!(share.keep(KEPT_MAX) && !share.keep(1));
        share.uncount_kept(1);
        assert!(share.keep(1));
        drop(share);
        assert!(memory.share_of(&user(1)).keep(KEPT_MAX));
    }
}
