//! The choice of a transport: as the address says, or the best that client and server both can use.

use crate::calling::handshake::NotBound;
use crate::error::BindError;
use crate::interface::Interface;
use crate::offers::{self, Offer};
use crate::options::BindOptions;
use crate::transport::contract::{IsOurs, Target};
use crate::transport::local;
use crate::transports::{self, AnyBinding};
use crate::uri::Uri;
use std::io;
use stoop_exchange::Instant;

/// What a client looks for, and where.
pub(crate) struct Source {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: String,
    pub(crate) is_ours: IsOurs,
}

/// Binds by the transport that the address names; to a name alone, by the best that both ends can use. A server of this
/// process is one of these only in the process where it was started (`is_first_process`).
pub(crate) fn bind(
    source: &Source,
    options: &BindOptions,
    is_first_process: bool,
    deadline: Instant,
) -> Result<AnyBinding, BindError> {
    match transports::parse(&source.uri).map_err(BindError::Uri)? {
        Uri::Name(name) if is_first_process && local::is_taken(name) => {
            at(source, &format!("local:{name}"), options, deadline).map_err(|not_bound| not_bound.error)
        }
        Uri::Name(name) => by_name(source, name, options, deadline),
        Uri::Address(..) => {
            let bound = at(source, &source.uri, options, deadline).map_err(|not_bound| not_bound.error)?;
            let upgraded = options.upgrade.then(|| upgraded(source, &bound, options, deadline)).flatten();
            Ok(upgraded.unwrap_or(bound))
        }
    }
}

/// Binds by the transport that the address names.
fn at(source: &Source, uri: &str, options: &BindOptions, deadline: Instant) -> Result<AnyBinding, NotBound> {
    let Source { interface, is_ours, .. } = *source;
    match transports::parse(uri).map_err(BindError::Uri)? {
        Uri::Address(scheme, address) => {
            transports::bind(&Target { interface, uri, scheme, address, is_ours, options }, deadline)
        }
        Uri::Name(_) => unreachable!("an address of a server has a scheme"),
    }
}

/// Binds to the server of that name on this machine: by a transport that has names, or else by what the server offers besides,
/// the best first.
fn by_name(
    source: &Source,
    name: &str,
    options: &BindOptions,
    deadline: Instant,
) -> Result<AnyBinding, BindError> {
    let because = options.because("because it is the best that a server of that name on this machine offers");
    let mut refused = None;
    for scheme in transports::schemes().filter(|scheme| scheme.has_names) {
        match at(source, &format!("{}:{name}", scheme.name), &because, deadline) {
            Ok(bound) => return Ok(bound),
            Err(why) => refused = Some(why),
        }
    }
    let NotBound { error, offers } = refused.expect("a transport has names");
    let because = options.because(format!("because shared memory could not be used ({error})"));
    let offers: Vec<Offer> = offers::parse(&offers).collect();
    for scheme in transports::schemes().filter(|scheme| !scheme.has_names) {
        for offer in offers.iter().filter(|offer| scheme.begins(&offer.uri)) {
            if let Ok(bound) = at(source, &offer.uri, &because, deadline) {
                return Ok(bound);
            }
        }
    }
    Err(match error {
        BindError::Unreachable { cause, .. } if cause.kind() == io::ErrorKind::ConnectionRefused => {
            let why = "no server of that name listens on this machine, in this network namespace (container); a server elsewhere \
                       needs an address with its transport, such as udp://HOST:PORT, or shm:/PATH in another namespace";
            BindError::Unreachable { server: name.into(), cause: io::Error::new(cause.kind(), why) }
        }
        error => error,
    })
}

/// Binds over shared memory, if that server is on this machine and offers it: its offer has the number of its start.
fn upgraded(
    source: &Source,
    bound: &AnyBinding,
    options: &BindOptions,
    deadline: Instant,
) -> Option<AnyBinding> {
    let because =
        options.because(format!("because the server at {} is on this machine and offers it", source.uri));
    let offers = bound.offers();
    offers::parse(&offers).filter(|offer| offer.incarnation != 0).find_map(|offer| {
        let upgraded = at(source, &offer.uri, &because, deadline).ok()?;
        // Another server may have the name here, in another network namespace than the server's.
        (upgraded.incarnation() == offer.incarnation).then_some(upgraded)
    })
}
