//! What a client's binding is once it is made.

use crate::transports::{AnyBegunCalls, AnyBinding};
use std::mem;
use std::sync::OnceLock;
use stoop_net::fork;

/// Describes the way that calls take, in words.
pub(crate) type Describe = Box<dyn Fn() -> String + Send + Sync>;

/// A binding of one process.
pub(crate) struct Bound {
    /// The process, see [`fork::generation`].
    pub(crate) generation: u32,
    pub(crate) transport: AnyBinding,
    /// The tables of begun calls, from the first such call on.
    pub(crate) tables: OnceLock<AnyBegunCalls>,
}

impl Bound {
    pub(crate) fn new(transport: AnyBinding) -> Self {
        Self { generation: fork::generation(), transport, tables: OnceLock::new() }
    }
}

impl Drop for Bound {
    /// Leaves alone what belongs to another process: to end it would end it there.
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            mem::forget(self.transport.clone());
            mem::forget(self.tables.take());
        }
    }
}
