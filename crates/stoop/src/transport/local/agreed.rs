//! What a server of this process has of the interface of a client with another trait: another revision.

use crate::metadata::without_metadata;
use std::sync::Arc;
use stoop_exchange::binder::Found;

/// What a server of another trait has of the client's procedures, in their order.
#[derive(Clone)]
pub(crate) struct Agreed(Arc<[Found]>);

impl From<Vec<Found>> for Agreed {
    fn from(found: Vec<Found>) -> Self {
        Self(found.into())
    }
}

impl Agreed {
    /// The server's number of a form that the client's number names, which may have the bit of metadata.
    pub(crate) fn number(&self, made: u16) -> Option<u16> {
        let form = without_metadata(made);
        let found = self.0.iter().find(|found| found.form == form)?;
        Some(found.number | (made ^ form))
    }

    /// The number of the form in which a procedure is called.
    pub(crate) fn form(&self, procedure: u16) -> Option<u16> {
        let found = self.0.get(usize::from(procedure))?;
        (*found != Found::NOTHING).then_some(found.form)
    }
}
