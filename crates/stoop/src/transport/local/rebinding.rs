//! The carriers of a binding to a server of this process: another one after a restart of the server.

use crate::calling::begun::Carrier;
use crate::calling::unavailable::grounded;
use crate::transport::local::caller::Source;
use crate::transport::local::{Door, LocalCarrier};
use std::sync::{Arc, Mutex, PoisonError};

/// Gives the carrier to the server that has the name now.
pub(crate) struct LocalFlights {
    source: Source,
    present: Mutex<Arc<LocalCarrier>>,
}

impl LocalFlights {
    pub(crate) fn new(source: &Source, door: &Arc<Door>) -> Self {
        let carrier = door.carrier(source.interface());
        Self { source: source.clone(), present: Mutex::new(Arc::new(carrier)) }
    }

    /// The carrier that has carried the last calls.
    pub(crate) fn latest(&self) -> Arc<dyn Carrier> {
        Arc::<LocalCarrier>::clone(&self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The carrier for calls that are begun now.
    pub(crate) fn present(&self) -> Arc<dyn Carrier> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if !present.is_open() {
            match self.source.find_next() {
                Ok(server) => *present = Arc::new(server.door().carrier(self.source.interface())),
                Err(why) => return grounded(why),
            }
        }
        Arc::<LocalCarrier>::clone(&present)
    }
}
