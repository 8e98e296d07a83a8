//! The calls in the queue of bindings from which nothing is heard.

use crate::serving::workers::queue::{CallQueue, ClassKey, Waiting};
use stoop_exchange::shares::Owner;

/// An owner with at most one in so many places of the queue keeps them even if nothing is heard from it.
const LITTLE: usize = 64;

/// An owner and one of its bindings.
pub(in crate::serving::workers) type OwnersBinding = (Owner, u64);

impl<C> CallQueue<C> {
    /// The bindings with waiting calls of each owner that has more than one in [`LITTLE`] places.
    pub(in crate::serving::workers) fn bindings_of_large_owners(&self) -> Vec<OwnersBinding> {
        let is_large = |owner: &Owner| self.waiting.get(owner).is_some_and(|it| *it > self.len_max / LITTLE);
        let mut bindings = Vec::new();
        for class in self.classes.values() {
            for (owner, of_owner) in class.owners.iter().filter(|(owner, _)| is_large(owner)) {
                bindings.extend(of_owner.parts.iter().map(|(part, _)| (*owner, *part)));
            }
        }
        // A binding may have calls of several classes.
        bindings.sort_unstable();
        bindings.dedup();
        bindings
    }

    /// Takes out all calls of a binding.
    pub(in crate::serving::workers) fn take_all_of(&mut self, (owner, part): OwnersBinding) -> Vec<C> {
        let mut taken = Vec::new();
        let keys: Vec<ClassKey> = self.classes.keys().copied().collect();
        for key in keys {
            while let Some(class) = self.classes.get_mut(&key).filter(|class| class.has(owner, part)) {
                let Waiting { call, terms, .. } = class.take_last(owner, part);
                self.removed(key, &terms);
                taken.push(call);
            }
        }
        self.counters.abandoned += taken.len() as u64;
        taken
    }
}
