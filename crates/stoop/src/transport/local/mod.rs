//! Servers of this process, by name: a call is a call through the trait.

mod background;
pub(crate) mod begun;
pub(crate) mod binding;
mod call;
pub(crate) mod caller;
mod jobs;
pub(crate) mod lane;
pub(crate) mod pipes;
pub(crate) mod server;

use crate::calling::handshake::NotBound;
use crate::offers::Offer;
use crate::serving::running::{Listener, RunningEndpoint, Setup};
use crate::transport::contract::{ListenAddress, Target, Transport};
use crate::transport::local::binding::{LocalBegun, LocalBinding, Source};
use crate::transport::local::server::LocalServer;
pub(crate) use crate::transport::local::server::is_taken;
use crate::uri::Scheme;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;

/// `local:`
pub(crate) struct LocalTransport;

/// A name that was free when the server was told to listen at it.
struct LocalListener {
    uri: String,
    name: String,
}

fn parse(rest: &str) -> Result<&str, &'static str> {
    match rest {
        "" => Err("the name is missing: write local:NAME"),
        rest if rest.starts_with("//") => Err("two slashes too many: write local:NAME"),
        rest => Ok(rest),
    }
}

impl Transport for LocalTransport {
    const SCHEMES: &'static [Scheme] =
        &[Scheme { name: "local", forms: &["local:NAME"], has_names: false, parse }];
    const CARRIES_PIPES: bool = true;

    type Binding = LocalBinding;
    type Begun = LocalBegun;

    fn bind(target: &Target<'_>, _: Instant) -> Result<LocalBinding, NotBound> {
        Ok(LocalBinding::find(&Arc::new(Source::of(target)))?)
    }

    fn begun_calls(binding: &Arc<LocalBinding>) -> io::Result<LocalBegun> {
        Ok(LocalBegun::new(binding))
    }

    fn listen(
        &ListenAddress { uri, address: name, .. }: &ListenAddress<'_>,
    ) -> io::Result<Box<dyn Listener>> {
        match is_taken(name) {
            true => Err(io::ErrorKind::AddrInUse.into()),
            false => Ok(Box::new(LocalListener { uri: uri.into(), name: name.into() })),
        }
    }
}

impl Listener for LocalListener {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn offer(&self) -> Option<Offer> {
        None
    }

    fn start(self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
        Ok(Box::new(LocalServer::start(self.name, setup)?))
    }
}
