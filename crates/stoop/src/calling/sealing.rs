//! How a caller makes a sealed binding: a handshake of TLS in the arguments and results of calls on a plain, provisional binding.
//!
//! Nothing of the provisional binding counts but its number: the request for the real binding and its answer are messages of TLS.

use crate::calling::refused_bind::not_bound;
use crate::calling::trust::{Trust, not_secure};
use crate::error::BindError;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::security::handshake::{FINISH, HELLO};
use crate::security::keys::PublicKey;
use crate::security::tls::{BindingKeys, CallerHandshake, Purpose};
use crate::uri::split_key;
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_net::clock;

/// Bytes of a message of the handshake at most.
pub(crate) const HANDSHAKE_MAX: usize = 32 << 10;

/// Calls of [`HELLO`] at most: the server may ask for another group.
const HELLOS: u32 = 2;

/// A provisional binding.
pub(crate) trait Carrier {
    /// Makes a call with these bytes as arguments, and returns those of its result; `None`: the server has no time for it now, and has
    /// not taken it.
    fn try_call(&mut self, procedure: u16, bytes: &[u8]) -> Result<Option<Vec<u8>>, BindError>;

    /// When the caller stops waiting for its binding.
    fn deadline(&self) -> Instant;

    /// The server's address.
    fn uri(&self) -> &str;

    /// [`try_call`](Self::try_call) until the server has time.
    fn call(&mut self, procedure: u16, bytes: &[u8]) -> Result<Vec<u8>, BindError> {
        loop {
            if let Some(result) = self.try_call(procedure, bytes)? {
                return Ok(result);
            }
            if now() + WAIT >= self.deadline() {
                return Err(BindError::Refused { server: self.uri().into(), why: TOO_MANY_BIND });
            }
            thread::sleep(WAIT);
        }
    }
}

/// Between two calls of a handshake for which the server had no time: it makes some dozen handshakes meanwhile.
pub(crate) const WAIT: Duration = Duration::from_millis(5);

/// Why a caller is not bound that has waited in vain.
const TOO_MANY_BIND: &str =
    "too many callers bind there at this time; bind again, or allow more time (BindOptions::bind_timeout)";

/// A caller whose binding is to be sealed.
pub(crate) struct Asking(Trust);

/// A sealed binding that a server has granted.
pub(crate) struct Granted {
    pub(crate) bound: Bound,
    pub(crate) keys: BindingKeys,
    /// The server's key.
    pub(crate) server: Option<PublicKey>,
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

/// The host in an address.
fn host_of(address: &str) -> &str {
    let address = address.split('?').next().unwrap_or_default();
    match address.rsplit_once(':') {
        Some((host, _)) => host.trim_matches(['[', ']']),
        // A name on an Ethernet.
        None => address.rsplit('/').next().unwrap_or_default(),
    }
}

impl Asking {
    /// A caller of that address with these options; `None`: neither says that the binding is to be sealed.
    ///
    /// # Errors
    /// The key in the address is none.
    pub(crate) fn new(uri: &str, options: &BindOptions) -> Result<Option<Self>, BindError> {
        let address = uri.split_once(':').map_or("", |(_, address)| address.trim_start_matches('/'));
        let (key, rest) = split_key(address);
        Ok(Trust::new(uri, (key, host_of(rest)), options.own.of())?.map(Self))
    }

    /// Makes the handshake, and has the server grant the binding for which `binder` asks.
    pub(crate) fn converse(
        &self,
        interface: &'static Interface,
        carrier: &mut impl Carrier,
        binder: &mut Binder,
    ) -> Result<Granted, BindError> {
        let Self(trust) = self;
        let mut handshake = trust.begin(Purpose::BINDING)?;
        let mut hellos = 0;
        while handshake.is_going_on() {
            if hellos == HELLOS {
                return Err(not_secure(&trust.uri, "does not end the handshake"));
            }
            hellos += 1;
            let answer = carrier.call(HELLO, &handshake.output())?;
            handshake.input(&answer).map_err(|failed| trust.failed(failed))?;
        }
        let bound = loop {
            match self.ask(carrier, &mut handshake, binder)? {
                BindStep::Continue => {}
                BindStep::Bound(bound) => break bound,
                step => return Err(not_bound(step, interface, &trust.uri)),
            }
        };
        let keys = Some(bound.binding).filter(|id| id.is_sealed()).and_then(|id| handshake.keys(id));
        let keys = keys.ok_or_else(|| not_secure(&trust.uri, "has granted a binding that is not sealed"))?;
        Ok(Granted { bound, keys, server: handshake.server() })
    }

    /// Sends the binder's next packet, and has it take the answer.
    fn ask(
        &self,
        carrier: &mut impl Carrier,
        handshake: &mut CallerHandshake,
        binder: &mut Binder,
    ) -> Result<BindStep, BindError> {
        let Self(trust) = self;
        let Some(question) = binder.transmit(now()) else {
            return Err(not_secure(&trust.uri, "gives an answer that is none to a bind request"));
        };
        handshake.write(&question);
        let answer = carrier.call(FINISH, &handshake.output())?;
        handshake.input(&answer).map_err(|failed| trust.failed(failed))?;
        Ok(binder.handle_packet(now(), &handshake.read()))
    }
}
