//! The tables of a binding to a server of this process: another one after a restart of the server.

use crate::calling::begun::OutstandingCalls;
use crate::calling::unavailable::unavailable;
use crate::transport::local::caller::Source;
use crate::transport::local::{LocalCalls, LocalServer};
use std::sync::{Arc, Mutex, PoisonError};

/// Gives the calls to the server that has the name now.
pub(crate) struct LocalRebinding {
    source: Source,
    present: Mutex<Arc<LocalCalls>>,
}

impl LocalRebinding {
    pub(crate) fn new(source: &Source, server: &Arc<LocalServer>) -> Self {
        let calls = server.calls(source.interface());
        Self { source: source.clone(), present: Mutex::new(Arc::new(calls)) }
    }

    /// The calls that has carried the last calls.
    pub(crate) fn latest(&self) -> Arc<dyn OutstandingCalls> {
        Arc::<LocalCalls>::clone(&self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The calls for calls that are begun now.
    pub(crate) fn present(&self) -> Arc<dyn OutstandingCalls> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if !present.is_open() {
            match self.source.find_next() {
                Ok(server) => *present = Arc::new(server.listening().calls(self.source.interface())),
                Err(why) => return unavailable(why),
            }
        }
        Arc::<LocalCalls>::clone(&present)
    }
}
