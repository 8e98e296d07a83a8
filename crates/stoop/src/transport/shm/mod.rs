//! Shared memory.

pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod server;

use stoop_net::stream::StreamAddress;

/// The socket at which callers of a `shm:` address bind: a path if there is a slash in it, otherwise an abstract name that no
/// `unix:` address has.
pub(crate) fn address(name: &str) -> StreamAddress {
    match name.strip_prefix('@').unwrap_or(name) {
        path if path.contains('/') => StreamAddress::UnixPath(path.into()),
        name => StreamAddress::UnixAbstract(format!("stoop-shm/{name}").into_bytes()),
    }
}
