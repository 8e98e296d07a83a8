//! A packet link in memory, for tests: `memory:NAME` leads to a server of this process.
//!
//! It is loss-free unless the address says otherwise: `memory:NAME?lose=5&repeat=5&reorder=5&seed=7` drops, repeats and
//! reorders so many packets of a hundred in each queue, by pseudo-random numbers that begin with the seed.
//!
//! The link shows what a link has to do, and that nothing above it knows sockets or IP addresses. It is behind the hidden
//! cargo feature `test-transports`.

mod caller;
mod faults;
mod queue;
mod server;

use crate::transport::memory::caller::MemoryCaller;
use crate::transport::memory::faults::Faults;
use crate::transport::memory::server::MemoryServer;
use crate::transport::packet::link::{PacketLink, Share};
use crate::transport::packet::shared_endpoint::SharedEndpoints;
use crate::uri::Scheme;
use std::fmt;
use std::io;
use stoop_exchange::Instant;

/// Packets in queues of this process.
pub(crate) struct MemoryLink;

/// A server's name, and what happens to packets on the way.
#[derive(Clone)]
pub(crate) struct MemoryAddress {
    /// The text behind the scheme. Servers are found by all of it.
    text: String,
    faults: Faults,
}

impl fmt::Display for MemoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PacketLink for MemoryLink {
    const SCHEMES: &'static [Scheme] =
        &[Scheme { name: "memory", forms: &[], has_names: false, parse: |rest| Ok(rest) }];
    const NAME: &'static str = "memory";
    type Address = MemoryAddress;
    type Caller = MemoryCaller;
    type Server = MemoryServer;

    fn shared_endpoints() -> &'static SharedEndpoints<MemoryCaller> {
        static SHARED: SharedEndpoints<MemoryCaller> = SharedEndpoints::new();
        &SHARED
    }

    fn resolve(text: &str, _: Instant) -> io::Result<Vec<MemoryAddress>> {
        let (_, faults) = text.split_once('?').unwrap_or((text, ""));
        let faults = Faults::parse(faults).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(vec![MemoryAddress { text: text.into(), faults }])
    }

    fn connect(server: &MemoryAddress, share: Share) -> io::Result<MemoryCaller> {
        Ok(MemoryCaller::new(server, share))
    }

    fn listen(address: &MemoryAddress) -> io::Result<MemoryServer> {
        MemoryServer::listen(address)
    }

    fn uri(server: &MemoryServer) -> io::Result<String> {
        Ok(format!("memory:{}", server.address()))
    }
}
