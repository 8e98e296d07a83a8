//! Addresses of servers that share memory.

use crate::uri::Scheme;
use stoop_net::stream::StreamAddress;

pub(crate) const SHM: Scheme =
    Scheme { name: "shm", forms: &["shm:NAME", "shm:/PATH"], has_names: true, parse: name };

fn name(rest: &str) -> Result<&str, &'static str> {
    match rest {
        "" | "@" => Err("the name is missing: write shm:NAME, or shm:/PATH for a socket with a file"),
        rest if rest.starts_with("//") => Err("two slashes too many: write shm:NAME or shm:/PATH"),
        rest => Ok(rest),
    }
}

/// The socket at which callers of a `shm:` address bind: a path if there is a slash in it, otherwise an abstract name that no
/// `unix:` address has.
pub(crate) fn socket_address(name: &str) -> StreamAddress {
    match name.strip_prefix('@').unwrap_or(name) {
        path if path.contains('/') => StreamAddress::UnixPath(path.into()),
        name => StreamAddress::UnixAbstract(format!("stoop-shm/{name}").into_bytes()),
    }
}
