//! The table of a binding for calls that are begun before the binding is made.

use crate::client::binding::Binding;
use crate::client::early::{Binds, EarlyCalls};
use crate::error::SendError;
use crate::locked::locked;
use crate::transports::AnyCalls;
use std::sync::{Arc, Mutex};

impl Binding {
    /// The table of the calls that this process has begun before it was bound, if it is in use.
    pub(super) fn early_calls(&self) -> Option<Arc<EarlyCalls>> {
        locked(self.early.get()?).upgrade()
    }

    /// The table for calls that are begun before there is a binding, which `client` makes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn early_table(&self, client: impl FnOnce() -> Arc<dyn Binds>) -> Result<AnyCalls, SendError> {
        let early = self.early.get_or_try_make(|| Ok(Mutex::default()))?;
        let mut early = locked(early);
        let table = match early.upgrade() {
            Some(table) => table,
            None => {
                let table = Arc::new(EarlyCalls::new(client()).map_err(SendError::Io)?);
                *early = Arc::downgrade(&table);
                table
            }
        };
        Ok(AnyCalls::Boxed(Arc::new(table)))
    }
}
