//! Addresses of byte streams.

use crate::uri::{Scheme, host_and_port, without_key};
use std::io;
use stoop_net::stream::StreamAddress;
use stoop_net::udp::resolve;

pub(crate) const TCP: Scheme =
    Scheme { name: "tcp", forms: &["tcp://HOST:PORT"], has_names: false, parse: host_and_port };
pub(crate) const UNIX: Scheme =
    Scheme { name: "unix", forms: &["unix:/PATH", "unix:@NAME"], has_names: false, parse: path_or_name };

fn path_or_name(rest: &str) -> Result<&str, &'static str> {
    match rest {
        "" | "@" => Err("the path is missing: write unix:PATH or unix:@NAME"),
        rest if rest.starts_with("//") => Err("two slashes too many: write unix:/PATH or unix:@NAME"),
        rest => Ok(rest),
    }
}

/// The addresses of sockets for which an address stands.
pub(crate) fn addresses(scheme: &Scheme, address: &str) -> io::Result<Vec<StreamAddress>> {
    Ok(match scheme.name {
        "tcp" => resolve(without_key(address)?)?.into_iter().map(StreamAddress::Tcp).collect(),
        _ => vec![StreamAddress::unix(address)],
    })
}
