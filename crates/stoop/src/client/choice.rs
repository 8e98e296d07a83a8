//! Which transport a binding has: as its address says, or the best that caller and server both can use.

use crate::calling::handshake::NotBound;
use crate::error::BindError;
use crate::interface::Interface;
use crate::offers;
use crate::offers::Offer;
use crate::options::BindOptions;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::shm::caller::ShmBinding;
use crate::transport::stream::caller::StreamBinding;
use crate::transports::Transport;
use crate::uri::Uri;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;

/// Binds to the server of another process.
pub(crate) fn remote(
    interface: &'static Interface,
    uri: &str,
    to: Uri,
    options: &BindOptions,
    deadline: Instant,
) -> Result<Transport, BindError> {
    match to {
        Uri::Name(name) => by_name(interface, &name, options, deadline),
        to if options.upgrade => {
            let bound = as_addressed(interface, uri, to, options, deadline)?;
            Ok(upgraded(interface, uri, &bound, options, deadline).unwrap_or(bound))
        }
        to => as_addressed(interface, uri, to, options, deadline),
    }
}

/// By the transport that the address names.
fn as_addressed(
    interface: &'static Interface,
    uri: &str,
    to: Uri,
    options: &BindOptions,
    deadline: Instant,
) -> Result<Transport, BindError> {
    Ok(match to {
        Uri::Udp(host) => {
            Transport::Datagram(Arc::new(PacketBinding::bind(interface, uri, &host, options, deadline)?))
        }
        Uri::Shm(name) => {
            let bound = ShmBinding::bind(interface, uri, &name, options, deadline);
            Transport::Shm(Arc::new(bound.map_err(|not_bound| not_bound.error)?))
        }
        to => Transport::Stream(Arc::new(StreamBinding::bind(interface, uri, to, options, deadline)?)),
    })
}

/// To the server of that name on this machine: over shared memory, or else by what it offers besides, the best first.
fn by_name(
    interface: &'static Interface,
    name: &str,
    options: &BindOptions,
    deadline: Instant,
) -> Result<Transport, BindError> {
    let uri = format!("shm:{name}");
    let because = options.because("because it is the best that a server of that name on this machine offers");
    let NotBound { error, offers } = match ShmBinding::bind(interface, &uri, name, &because, deadline) {
        Ok(bound) => return Ok(Transport::Shm(Arc::new(bound))),
        Err(not_bound) => not_bound,
    };
    let because = options.because(format!("because shared memory could not be used ({error})"));
    let offers: Vec<Offer> = offers::parse(&offers).collect();
    for scheme in ["udp:", "tcp:", "unix:"] {
        for offer in offers.iter().filter(|offer| offer.uri.starts_with(scheme)) {
            let bound = Uri::parse(&offer.uri).map_err(BindError::Uri);
            if let Ok(bound) =
                bound.and_then(|to| as_addressed(interface, &offer.uri, to, &because, deadline))
            {
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

/// Over shared memory, if that server is on this machine and offers it.
fn upgraded(
    interface: &'static Interface,
    uri: &str,
    bound: &Transport,
    options: &BindOptions,
    deadline: Instant,
) -> Option<Transport> {
    let offers = match bound {
        Transport::Datagram(binding) => binding.offers(),
        Transport::Stream(binding) => binding.offers(),
        Transport::Local(_) | Transport::Shm(_) => return None,
    };
    let because = options.because(format!("because the server at {uri} is on this machine and offers it"));
    offers::parse(&offers).find_map(|offer| {
        let Ok(Uri::Shm(name)) = Uri::parse(&offer.uri) else { return None };
        let upgraded = ShmBinding::bind(interface, &offer.uri, &name, &because, deadline).ok()?;
        // Somebody else may have the name here, in another network namespace than the server's.
        (upgraded.incarnation() == offer.incarnation).then(|| Transport::Shm(Arc::new(upgraded)))
    })
}
