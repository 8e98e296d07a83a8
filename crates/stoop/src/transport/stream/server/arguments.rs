//! Counts the memory for the arguments of calls that arrive over a connection.

use crate::serving::message_memory::{Content, MemoryShare};
use std::sync::Arc;
use stoop_exchange::stream::Account;

/// The account of calls that are arriving: the part that their connection has of the memory for long messages.
#[derive(Debug)]
pub(super) struct Arriving(pub(super) Arc<MemoryShare>);

impl Account for Arriving {
    fn take(&mut self, bytes: usize) -> bool {
        self.0.take(Content::Arguments, bytes)
    }

    fn give_back(&mut self, bytes: usize) {
        self.0.give_back(Content::Arguments, bytes);
    }

    fn keep_spare(&mut self, bytes: usize) -> bool {
        self.0.keep(bytes)
    }

    fn uncount_spare(&mut self, bytes: usize) {
        self.0.uncount_kept(bytes);
    }
}
