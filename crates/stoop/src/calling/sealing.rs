//! How a caller makes a sealed binding: a handshake of TLS in the arguments and results of calls on a plain, provisional binding.
//!
//! Nothing of the provisional binding counts but its number: the request for the real binding and its answer are messages of TLS.

use crate::calling::refused_bind::not_bound;
use crate::error::BindError;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::security::handshake::{FINISH, HELLO};
use crate::security::keys::PublicKey;
use crate::security::tls::{BindingKeys, CallerHandshake, Failed};
use crate::security::{Keys, Security};
use crate::uri::split_key;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_net::clock;

/// Bytes of a message of the handshake at most.
pub(crate) const HANDSHAKE_MAX: usize = 32 << 10;

/// Calls of [`HELLO`] at most: the server may ask for another group.
const HELLOS: u32 = 2;

/// A provisional binding: makes a call with these bytes as arguments, and returns those of its result.
pub(crate) trait Carrier {
    fn call(&mut self, procedure: u16, bytes: &[u8]) -> Result<Vec<u8>, BindError>;
}

/// A caller whose binding is to be sealed.
pub(crate) struct Asking<'a> {
    uri: &'a str,
    keys: Arc<Keys>,
    /// The servers that it takes.
    servers: Vec<PublicKey>,
}

/// A sealed binding that a server has granted.
pub(crate) struct Granted {
    pub(crate) bound: Bound,
    pub(crate) keys: BindingKeys,
    /// The server's key.
    pub(crate) server: Option<PublicKey>,
}

pub(crate) fn not_secure(server: &str, why: impl Into<String>) -> BindError {
    BindError::Security { server: server.into(), why: why.into() }
}

/// The error of a caller that could not make the provisional binding.
pub(crate) fn cannot_seal(uri: &str, why: BindError) -> BindError {
    match why {
        BindError::NoSuchInterface { .. } => not_secure(
            uri,
            "cannot seal: it was built without the cargo feature `seal`, or has no Server::security. Nothing was sent to it",
        ),
        why => why,
    }
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

impl<'a> Asking<'a> {
    /// A caller of that address with these options; `None`: neither says that the binding is to be sealed.
    ///
    /// # Errors
    /// The key in the address is none.
    pub(crate) fn new(uri: &'a str, options: &BindOptions) -> Result<Option<Self>, BindError> {
        let said: Security = options.own.of();
        let address = uri.split_once(':').map_or("", |(_, address)| address.trim_start_matches('/'));
        let named = split_key(address).0.map(str::parse::<PublicKey>);
        let security = match (said.keys(), &named) {
            (Some(_), _) => said,
            (None, Some(_)) => Security::of_address(),
            (None, None) => return Ok(None),
        };
        let keys = Arc::clone(security.keys().expect("it is with keys"));
        if named.is_some() && keys.certificates.is_some() {
            let why = "names a server's key, and this client has certificates; leave KEY@ out of the address, or Security::certificates";
            return Err(not_secure(uri, why));
        }
        let servers = match named {
            Some(Err(why)) => return Err(not_secure(uri, format!("names no key of a server: {why}"))),
            Some(Ok(key)) => vec![key],
            None => keys.known_servers(),
        };
        Ok(Some(Self { uri, keys, servers }))
    }

    /// The name that the server's certificate is to have.
    fn host(&self) -> &str {
        let address = self.uri.split_once(':').map_or("", |(_, address)| address.trim_start_matches('/'));
        let address = address.split('?').next().unwrap_or_default();
        let of_address = match address.rsplit_once(':') {
            Some((host, _)) => host.trim_matches(['[', ']']),
            // A name on an Ethernet.
            None => address.rsplit('/').next().unwrap_or_default(),
        };
        self.keys.server_name.as_deref().unwrap_or(of_address)
    }

    /// Makes the handshake, and has the server grant the binding for which `binder` asks.
    pub(crate) fn converse(
        &self,
        interface: &'static Interface,
        carrier: &mut impl Carrier,
        binder: &mut Binder,
    ) -> Result<Granted, BindError> {
        let mut handshake = CallerHandshake::begin(&self.keys, self.servers.clone(), self.host())
            .map_err(|failed| self.failed(failed))?;
        let mut hellos = 0;
        while handshake.is_going_on() {
            if hellos == HELLOS {
                return Err(not_secure(self.uri, "does not end the handshake"));
            }
            hellos += 1;
            let answer = carrier.call(HELLO, &handshake.output())?;
            handshake.input(&answer).map_err(|failed| self.failed(failed))?;
        }
        let bound = loop {
            match self.ask(carrier, &mut handshake, binder)? {
                BindStep::Continue => {}
                BindStep::Bound(bound) => break bound,
                step => return Err(not_bound(step, interface, self.uri)),
            }
        };
        let keys = Some(bound.binding).filter(|id| id.is_sealed()).and_then(|id| handshake.keys(id));
        let keys = keys.ok_or_else(|| not_secure(self.uri, "has granted a binding that is not sealed"))?;
        Ok(Granted { bound, keys, server: handshake.server() })
    }

    /// Sends the binder's next packet, and has it take the answer.
    fn ask(
        &self,
        carrier: &mut impl Carrier,
        handshake: &mut CallerHandshake,
        binder: &mut Binder,
    ) -> Result<BindStep, BindError> {
        let Some(question) = binder.transmit(now()) else {
            return Err(not_secure(self.uri, "gives an answer that is none to a bind request"));
        };
        handshake.write(&question);
        let answer = carrier.call(FINISH, &handshake.output())?;
        handshake.input(&answer).map_err(|failed| self.failed(failed))?;
        Ok(binder.handle_packet(now(), &handshake.read()))
    }

    fn failed(&self, failed: Failed) -> BindError {
        let why = match failed {
            Failed::OtherServer(shown) => format!(
                "is not the server that this client takes: its key is {shown}. If its key was renewed, take the new address from its \
                 administrator"
            ),
            Failed::UnknownCaller => match &self.keys.own {
                Some(own) => format!(
                    "does not know this caller. Its administrator adds the line \"NAME {}\" to the file of callers; no restart is needed",
                    own.public
                ),
                None => {
                    "serves callers with keys only, and this one has none: `stoop keygen` makes one".into()
                }
            },
            Failed::OtherKind => "has keys where this caller has certificates, or certificates where this caller has keys; give both ends the \
                 same: KEY@ in the address, or Security::certificates or Security::roots"
                .into(),
            Failed::Certificate(why) => why,
            Failed::Protocol(why) => format!("does not agree on a handshake: {why}"),
        };
        not_secure(self.uri, why)
    }
}
