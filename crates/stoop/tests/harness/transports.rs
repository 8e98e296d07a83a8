//! The transports that tests run over: those of the library's list.

use super::{ethernet, loopback};
use std::sync::atomic::{AtomicU32, Ordering};

/// Every transport, by the scheme of its addresses.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    stoop::scheme_names()
}

/// Those that need no network of their own.
pub(crate) fn without_network() -> impl Iterator<Item = &'static str> {
    all().filter(|scheme| *scheme != "ether")
}

/// An address on that transport at which no other server listens; `name`: of a server that is reached by its name alone.
pub(crate) fn address(transport: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("stoop-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    match transport {
        "name" => name,
        // Its callers share one endpoint.
        "udp_shared" => stoop::free_address("udp", &loopback::address(), &name),
        // The memory link with faults.
        "lossy" => format!("memory:{name}?lose=2&repeat=3&reorder=3&seed=1"),
        #[cfg(feature = "seal")]
        sealed if let Some(scheme) = sealed.strip_suffix("_sealed") => {
            super::sealed::with_key(&address(scheme))
        }
        "ether" => ethernet::address(""),
        "ether_xdp" => ethernet::address("?backend=xdp"),
        "ether_xdp_generic" => ethernet::address("?backend=xdp-generic"),
        scheme => stoop::free_address(scheme, &loopback::address(), &name),
    }
}

/// Whether this machine has that transport. If not, says that a test is skipped.
pub(crate) fn is_there(transport: &str) -> bool {
    !transport.starts_with("ether") || ethernet::enter_unchanged()
}

/// A server that listens where its callers expect it.
pub(crate) trait ListenThere: Sized {
    /// As [`Server::listen`](stoop::Server::listen).
    fn listen_there(self, uri: &str) -> Result<Self, stoop::ListenError>;
}

impl ListenThere for stoop::Server {
    fn listen_there(self, uri: &str) -> Result<Self, stoop::ListenError> {
        let is_sealed = uri.contains('@');
        #[cfg(feature = "seal")]
        let (server, uri) = super::sealed::secured(self, uri);
        #[cfg(not(feature = "seal"))]
        let (server, uri) = (self, uri.to_owned());
        match uri.starts_with("ether:") {
            true => {
                let server = if is_sealed { server } else { server.security(stoop::Security::none()) };
                ethernet::at_servers(|| server.listen(&uri))
            }
            false => server.listen(&uri),
        }
    }
}
