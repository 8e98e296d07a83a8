//! Names of servers on an Ethernet, and servers at the caller's own interface.
//!
//! A network card does not loop frames back, so neither a question nor a packet reaches a server at the very interface from which it is
//! sent. Such a server [posts](stoop_ether::posts) where else it listens.

use crate::offers::{self, Offer};
use crate::transport::ether::address::EtherAddress;
use crate::transport::ether::opening::advised;
use std::io;
use std::time::Duration;
use stoop_ether::Interface;
use stoop_ether::address::Mac;
use stoop_ether::names::{self, Announcement, Name};
use stoop_ether::posts::Post;
use stoop_exchange::Instant;
use stoop_net::clock;

/// How long a name is asked for: seven questions, of which one may be lost with its answer.
const LIMIT: Duration = Duration::from_secs(1);

/// The address of the server, for whose name an Ethernet is asked. That takes at most half of the time until `deadline`: binding needs
/// the rest.
///
/// # Errors
///
/// No server answers, or two do; or the interface cannot be used.
pub(super) fn resolve(address: EtherAddress, deadline: Instant) -> io::Result<EtherAddress> {
    let Some(name) = &address.name else { return Ok(address) };
    let interface = Interface::by_name(&address.interface)?;
    if Announcement::is_here(&interface, address.ether_type, name) {
        return Ok(address.here(interface.mac));
    }
    let limit = LIMIT.min(deadline.since(Instant::from_nanos(clock::now_ns())) / 2);
    if limit.is_zero() {
        return Err(no_time(&address.interface, name));
    }
    let found = names::find(&interface, address.ether_type, name, limit).map_err(advised(address.backend))?;
    match found[..] {
        [server] => Ok(address.at(server)),
        [] => Err(no_answer(&address.interface, name, limit)),
        [first, second, ..] => {
            let why = format!(
                "two servers on the Ethernet of {} have the name {name}: {first} and {second}; bind to one of them by \
                 ether://INTERFACE/MAC:PORT, or give them different names",
                address.interface
            );
            Err(io::Error::other(why))
        }
    }
}

fn no_time(interface: &str, name: &Name) -> io::Error {
    let why = format!(
        "the time to bind was over before the Ethernet of {interface} could be asked for the name {name}; give it more \
         (BindOptions::bind_timeout)"
    );
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn no_answer(interface: &str, name: &Name, limit: Duration) -> io::Error {
    let why = format!(
        "no server on the Ethernet of {interface} has answered to the name {name} within {limit:.1?}; it is to listen at \
         ether://INTERFACE/{name}"
    );
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// The error for a server at the caller's own interface, to which no frame leads.
pub(super) fn at_own_interface(server: &EtherAddress, own: Mac) -> io::Error {
    let others = offers_here(server);
    let instead = match others.is_empty() {
        true => {
            "let the server listen at shm:NAME, too, and bind by that NAME or again by this address".into()
        }
        false => format!("the server there also listens at {others}"),
    };
    let why = format!(
        "{own} is the address of {} itself, and an Ethernet does not loop frames back; {instead}",
        server.interface
    );
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Where else the server listens, if it is at the interface of the caller itself; in the form of [`offers`].
pub(super) fn offers_here(server: &EtherAddress) -> String {
    let interface = Interface::by_name(&server.interface).ok();
    let Some(interface) = interface.filter(|interface| server.mac == Some(interface.mac)) else {
        return String::new();
    };
    let is_its = |post: &Post| match &server.name {
        Some(name) => post.name.as_ref() == Some(name),
        None => server.port == Some(post.port),
    };
    let posts = Post::at(&interface, server.ether_type).into_iter().filter(is_its);
    posts.map(|post| post.address).collect::<Vec<_>>().join(" ")
}

/// The posts of a server at that interface, which others can read as long as they are held. The addresses of the Ethernet are left out.
pub(super) fn post(
    interface: &Interface,
    server: &EtherAddress,
    offers: &str,
) -> Vec<stoop_ether::posts::Posted> {
    let post = |offer: Offer| {
        let (port, name) = (server.port.unwrap_or_default(), server.name.clone());
        let shown = Post { port, name, address: offer.to_string() }.show(interface, server.ether_type);
        // Without a post its callers are told to bind otherwise.
        shown.ok().flatten()
    };
    offers::parse(offers).filter(|offer| !offer.uri.starts_with("ether:")).filter_map(post).collect()
}
