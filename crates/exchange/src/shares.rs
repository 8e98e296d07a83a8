//! Shares of a bounded resource: how much of it one owner may hold while others want some too.
//!
//! An *owner* is a caller with a proven name, a host of a network or a user of this machine. A [`Pool`] counts one resource, for example bindings or
//! bytes of memory. It grants `n` more units to an owner if afterwards the owner holds at most three times as many units
//! as are free. Choudhury and Hahne call this a dynamic threshold (*Dynamic Queue Length Thresholds for Shared-Memory
//! Packet Switches*, IEEE/ACM Transactions on Networking 6(2), 1998). From this rule follows:
//!
//! - An owner that is alone holds at most three quarters of the total.
//! - `k` owners that all take as much as they can hold 3/(3k + 1) of the total each, and 1/(3k + 1) stays free for an
//!   owner that comes later.
//! - An owner whose neighbours give units back may take more at once.
//!
//! A *part* is a binding or connection of an owner. [`Pool::take_for`] applies the same rule again: a part holds at most
//! three times as many units as its owner may still take.
//!
//! The rule never takes back a unit that is held. An owner that comes late can find little room if many owners came
//! before it. The user of a pool may then release units of an owner that holds more than its
//! [fair share](Pool::fair_share), if releasing them is safe.
//!
//! Each decision takes constant time and no memory. [`Owners`] finds the counts of an owner by its name when a binding is
//! made; later the binding finds them by an index.

mod owners;

pub use owners::{Owner, OwnerId, Owners};

/// Units that an owner may hold for each unit that is free.
const HELD_PER_FREE: usize = 3;

/// The units of one bounded resource, and how many are held. The users of the pool store what each owner holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    total: usize,
    held: usize,
}

impl Pool {
    /// A pool of `total` units, none of which is held.
    pub const fn new(total: usize) -> Self {
        Self { total, held: 0 }
    }

    /// Units of the pool, held or free.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Units that all owners hold together.
    #[inline]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Units that no owner holds.
    #[inline]
    pub fn free(&self) -> usize {
        self.total - self.held
    }

    /// Whether an owner that holds `held` units may take `n` more.
    ///
    /// An owner that holds nothing may always take one unit while one is free. Without that, a pool of one worker would
    /// be useless.
    #[inline]
    pub fn allows(&self, held: usize, n: usize) -> bool {
        let Some(left) = self.free().checked_sub(n) else { return false };
        held.saturating_add(n) <= left.saturating_mul(HELD_PER_FREE) || is_first_unit(held, n)
    }

    /// Most units that an owner that holds `held` units may take now.
    pub fn room(&self, held: usize) -> usize {
        let free = self.free();
        let room = (free.saturating_mul(HELD_PER_FREE)).saturating_sub(held) / (HELD_PER_FREE + 1);
        room.max(usize::from(held == 0 && free > 0))
    }

    /// Takes `n` units for an owner that holds `held`, if it [may](Self::allows) have them.
    #[inline]
    pub fn take(&mut self, held: &mut usize, n: usize) -> bool {
        let allowed = self.allows(*held, n);
        if allowed {
            (self.held, *held) = (self.held + n, *held + n);
        }
        allowed
    }

    /// Takes `n` units that were given back for this very owner, whatever it holds.
    ///
    /// # Panics
    /// If so many are not free: a mistake of the pool's user.
    pub fn take_freed(&mut self, held: &mut usize, n: usize) {
        assert!(n <= self.free(), "{n} units are taken, and {} are free", self.free());
        (self.held, *held) = (self.held + n, *held + n);
    }

    /// Whether a part that holds `part` units, of an owner that holds `held`, may take `n` more.
    pub fn allows_part(&self, held: usize, part: usize, n: usize) -> bool {
        let Some(left) = self.room(held).checked_sub(n) else { return false };
        part.saturating_add(n) <= left.saturating_mul(HELD_PER_FREE) || is_first_unit(part, n)
    }

    /// Takes `n` units for a part that holds `part`, of an owner that holds `held`, if both may have them.
    #[inline]
    pub fn take_for(&mut self, held: &mut usize, part: &mut usize, n: usize) -> bool {
        let taken = self.allows_part(*held, *part, n) && self.take(held, n);
        *part += if taken { n } else { 0 };
        taken
    }

    /// Takes back `n` units of an owner that holds `held`.
    ///
    /// # Panics
    /// If the owner does not hold so many: a mistake of the pool's user.
    #[inline]
    pub fn give_back(&mut self, held: &mut usize, n: usize) {
        assert!(n <= *held && n <= self.held, "{n} units are given back, and {held} are held");
        (self.held, *held) = (self.held - n, *held - n);
    }

    /// Takes back `n` units of a part that holds `part`, of an owner that holds `held`.
    ///
    /// # Panics
    /// As [`give_back`](Self::give_back).
    #[inline]
    pub fn give_back_for(&mut self, held: &mut usize, part: &mut usize, n: usize) {
        assert!(n <= *part, "{n} units are given back, and the part holds {part}");
        *part -= n;
        self.give_back(held, n);
    }

    /// Units for each of so many owners, if all have the same. At least 1.
    pub fn fair_share(&self, owners: usize) -> usize {
        (self.total / owners.max(1)).max(1)
    }
}

fn is_first_unit(held: usize, n: usize) -> bool {
    held == 0 && n == 1
}

#[cfg(test)]
mod tests;
