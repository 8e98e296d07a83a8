//! An address of a server at which a packet link listens.

use crate::offers::Offer;
use crate::security::Security;
use crate::serving::running::{Listener, RunningEndpoint, Setup, start_within};
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::successor::Successor;
use std::io;
use std::sync::Arc;
use stoop_exchange::server::{Limits, incarnation_of};
use stoop_net::host;
use stoop_wire::{HEADER_LEN, PACKET_DATA};

/// A link that listens at an address and is not served yet.
pub(crate) struct PacketListener<S> {
    uri: String,
    link: S,
    own: PacketOptions,
    security: Security,
    /// Drawn for each start of a server.
    secret: [u64; 2],
}

impl<S: ServerEndpoint> PacketListener<S> {
    pub(crate) fn new(uri: String, link: S, own: PacketOptions) -> Self {
        let secret = [(); 2].map(|()| u64::from_le_bytes(host::random_bytes()));
        Self { uri, link, own, security: Security::default(), secret }
    }

    /// The same, with this security.
    ///
    /// # Errors
    /// It has no key of its own.
    pub(crate) fn secured(self, security: Security) -> io::Result<Self> {
        let uri = security.address_of(self.uri)?;
        Ok(Self { uri, security, ..self })
    }
}

impl<S: ServerEndpoint> Listener for PacketListener<S> {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn is_reached_by_others(&self) -> bool {
        self.link.is_reached_by_others()
    }

    fn offer(&self) -> Option<Offer> {
        let incarnation = if self.link.is_preferred() { incarnation_of(self.secret) } else { 0 };
        Some(Offer { incarnation, ..Offer::to(&self.uri) })
    }

    fn start(mut self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        self.link.note_offers(setup.exports.offers());
        // Packets have 32 bits for the length of a message; `Server::max_message` promises one packet at least.
        let max_message = (setup.max_message as u32).max(PACKET_DATA as u32);
        // One binding may hold nine sixteenths: a message of that length at least.
        let most = (max_message as usize + 2 * HEADER_LEN).saturating_mul(2);
        let (set, default) = (&setup.limits, Limits::default());
        let limits = Limits {
            silence: self.own.server_silence_limit(),
            bindings: set.bindings.unwrap_or(default.bindings),
            all_lanes: set.lanes.unwrap_or(default.all_lanes),
            packets: set.retained_results.unwrap_or(default.packets),
            incomplete: set.argument_bytes.unwrap_or(set.unset_bytes(default.incomplete)).max(most),
            retained: set.result_bytes.unwrap_or(set.unset_bytes(default.retained)).max(most),
            pipes: set.pipe_bytes.unwrap_or(set.unset_bytes(default.pipes)),
            max_message,
            ..default
        };
        let Self { uri, link, secret, security, .. } = *self;
        let (exports, waiting, bounds) = (Arc::clone(&setup.exports), setup.waiting, setup.bounds);
        // Only now does the server begin to receive, as it tells its callers.
        let serve = move |link| {
            let endpoint = PacketEndpoint::new(link, exports, limits, waiting, (secret, &security));
            start_within(endpoint, bounds)
        };
        match link.claim() {
            true => serve(link),
            false => Ok(Box::new(Successor::start(uri, link, serve)?)),
        }
    }
}
