//! What the other end has of an interface, of which it knows another revision.

use crate::metadata::without_metadata;
use std::sync::Arc;
use stoop_exchange::binder::Found;
use stoop_wire::bind::NO_PROCEDURE;

/// What the other end has of this one's procedures, in their order.
#[derive(Clone)]
pub(crate) struct Agreed(Arc<[Found]>);

impl From<Vec<Found>> for Agreed {
    fn from(found: Vec<Found>) -> Self {
        Self(found.into())
    }
}

impl Agreed {
    /// The other end's number of a form that this end's number names, which may have the bit of metadata.
    pub(crate) fn number(&self, made: u16) -> Option<u16> {
        let form = without_metadata(made);
        let found = self.0.iter().find(|found| found.form == form)?;
        Some(found.number | (made ^ form))
    }

    /// This end's number of a form that the other end's number names, which may have the bit of metadata. One that no procedure has, if
    /// none is meant.
    pub(crate) fn own(&self, theirs: u16) -> u16 {
        let number = without_metadata(theirs);
        let found = self.0.iter().find(|found| found.number == number);
        found.map_or(without_metadata(NO_PROCEDURE), |found| found.form) | (theirs ^ number)
    }

    /// The number of the form in which a procedure is called.
    pub(crate) fn form(&self, procedure: u16) -> Option<u16> {
        let found = self.0.get(usize::from(procedure))?;
        (*found != Found::NOTHING).then_some(found.form)
    }
}
