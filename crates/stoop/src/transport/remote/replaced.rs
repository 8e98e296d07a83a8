//! A session that was lost, for the one that replaces it.

use crate::calling::sessions::Generation;
use stoop_exchange::outcome::Unbound;

/// A session that was lost.
pub(crate) struct Replaced<'a, S> {
    pub(crate) session: &'a S,
    /// How the server has refused a call on it, if it has.
    pub(crate) refusal: Option<Unbound>,
}

impl<S> Clone for Replaced<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Replaced<'_, S> {}

/// The generation of the session that comes next.
pub(crate) fn next_generation<S: Generation>(replaced: Option<&Replaced<'_, S>>) -> u64 {
    replaced.map_or(0, |replaced| replaced.session.generation() + 1)
}
