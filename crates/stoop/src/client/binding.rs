//! What a client can tell of its binding.

use super::Transport;
use super::counters::CallCounters;
use super::flight::Carriers;
use std::fmt;
use std::sync::OnceLock;

/// A client's binding to a server.
pub struct Binding {
    pub(super) uri: String,
    pub(super) transport: Transport,
    /// Who carries begun calls, from the first on.
    pub(super) carriers: OnceLock<Carriers>,
}

impl Binding {
    /// The address that was bound to.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// In words: which transport, why, and how it waits.
    pub fn describe(&self) -> String {
        format!("{}: {}", self.uri, self.transport.describe())
    }

    /// What this binding's calls have seen so far, those that have ended; it does not wait for the others. A `local:`
    /// binding counts nothing: it would cost more than the call.
    pub fn counters(&self) -> CallCounters {
        let mut counters = self.transport.counters();
        if let Some(carriers) = self.carriers.get() {
            counters.add(carriers.counters());
        }
        counters
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Binding").field(&self.describe()).finish()
    }
}
