//! Connections under TLS where the cargo feature `seal` is off: there are none.

use crate::error::BindError;
use crate::onc::address::Address;
use crate::onc::caller::not_connected::NotConnected;
use crate::onc::channel::Channel;
use crate::security::Security;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use stoop_net::stream::Stream;

/// The connections of a client that are under TLS: none without the cargo feature `seal`.
pub(crate) enum Sealing {}

impl fmt::Display for Sealing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Sealing {
    /// None.
    ///
    /// # Errors
    /// The address has the key of a server.
    pub(crate) fn of(address: &Address, _: &Security) -> Result<Option<Arc<Self>>, BindError> {
        match address.key {
            None => Ok(None),
            Some(_) => Err(BindError::Security {
                server: address.to_string(),
                why: "has a key, which means TLS, and this program was built without the cargo feature `seal` of stoop".into(),
            }),
        }
    }

    /// Never called.
    pub(super) fn seal(&self, _: Stream, _: Duration) -> Result<Channel, NotConnected> {
        match *self {}
    }
}
