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
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// The interface that a client looks for, and the address.
pub(crate) struct Source {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: Arc<str>,
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
            let bound = match at(source, &source.uri, options, deadline) {
                Err(not_bound) => return instead(source, not_bound, options, deadline),
                Ok(bound) => bound,
            };
            Ok(if options.upgrade { upgraded(source, bound, options, deadline) } else { bound })
        }
    }
}

/// Whether each option of a transport can act at the address, or at one to which it may lead.
pub(crate) fn check_options(uri: &str, options: &BindOptions) -> Result<(), BindError> {
    let schemes: Vec<_> = match transports::parse(uri).map_err(BindError::Uri)? {
        Uri::Name(_) => transports::schemes().map(|scheme| scheme.name).collect(),
        // `upgraded` and `instead` bind by a transport within the machine.
        Uri::Address(scheme, _) if options.upgrade || scheme.name == "ether" => {
            let within_machine = transports::schemes().filter(|other| other.has_names);
            within_machine.map(|other| other.name).chain([scheme.name]).collect()
        }
        Uri::Address(scheme, _) => vec![scheme.name],
    };
    options.own.check_at_client(uri, &schemes)
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

/// Binds by shared memory to a server of this machine which the transport that the address names does not reach, if it has said that it
/// listens there: an Ethernet does not loop frames back.
fn instead(
    source: &Source,
    NotBound { error, offers }: NotBound,
    options: &BindOptions,
    deadline: Instant,
) -> Result<AnyBinding, BindError> {
    let is_within_machine =
        |uri: &str| transports::schemes().any(|scheme| scheme.has_names && scheme.begins(uri));
    if !matches!(error, BindError::Unreachable { .. }) || is_within_machine(&source.uri) {
        return Err(error);
    }
    let because = options.because(format!(
        "because the server at {} is at this machine's own interface, and frames are not looped back",
        source.uri
    ));
    for offer in offers::parse(&offers).filter(|offer| is_within_machine(&offer.uri)) {
        if let Ok(bound) = at(source, &offer.uri, &because, deadline)
            && bound.incarnation() == offer.incarnation
        {
            return Ok(bound);
        }
    }
    Err(error)
}

/// Binds by what is nearer than the address and offered by that server: shared memory on this machine, or the Ethernet that both are on.
/// Each such offer has the number of the server's start there. If the Ethernet cannot be used, the binding says why.
fn upgraded(source: &Source, bound: AnyBinding, options: &BindOptions, deadline: Instant) -> AnyBinding {
    let offers = bound.offers();
    let offers: Vec<Offer> = offers::parse(&offers).filter(|offer| offer.incarnation != 0).collect();
    let soon = Instant::from_nanos(clock::now_ns()) + UPGRADE_TIME;
    let mut why = None;
    for scheme in transports::schemes() {
        for offer in offers.iter().filter(|offer| scheme.begins(&offer.uri)) {
            let Some(nearer) = transports::nearer(&offer.uri, &source.uri) else { continue };
            let place = if scheme.has_names { "on this machine" } else { "on this Ethernet" };
            let because =
                options.because(format!("because the server at {} is {place} and offers it", source.uri));
            match at(source, &nearer, &because, deadline.min(soon)) {
                // Another server may have the name here, in another network namespace than the server's.
                Ok(upgraded) if upgraded.incarnation() == offer.incarnation => return upgraded,
                Ok(_) => {}
                Err(not_bound) if !scheme.has_names => why = Some(not_bound.error),
                Err(_) => {}
            }
        }
    }
    let Some(why) = why else { return bound };
    let because =
        options.because(format!("because the Ethernet that the server offers could not be used: {why}"));
    at(source, &source.uri, &because, deadline).unwrap_or(bound)
}

/// A server that has answered at one address answers at another one sooner than this.
const UPGRADE_TIME: Duration = Duration::from_millis(500);
