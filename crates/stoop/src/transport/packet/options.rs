//! Options of the packet exchange.

use crate::options::{Sealed, Setting, TransportOptions};
use std::time::Duration;
use stoop_exchange::{caller, server::Limits};

/// Schemes of addresses at which packets are exchanged.
const PACKETS: &[&str] = &[
    "udp",
    #[cfg(feature = "ether")]
    "ether",
    #[cfg(feature = "test-transports")]
    "memory",
];

/// Options of the packet exchange: of `udp:` and `ether:` addresses.
///
/// ```
/// use std::time::Duration;
/// use stoop::{BindOptions, PacketOptions, Server};
///
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The server forgets clients that are silent for a minute.
/// let forgetful = PacketOptions::new().silence_limit(Duration::from_secs(60));
/// let server = Server::new().export(GreeterServer::new(English)).with(forgetful).listen("udp://127.0.0.1:0")?.start()?;
/// // This client's packets carry checksums.
/// let options = BindOptions::new().with(PacketOptions::new().checksum());
/// assert_eq!(GreeterClient::bind_with(&server.uris()[0], &options)?.greet("world")?, "Hello, world!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PacketOptions {
    silence_limit: Option<Duration>,
    pub(crate) checksum: bool,
    pub(crate) shares_endpoints: bool,
}

impl Sealed for PacketOptions {
    fn settings(&self) -> Vec<Setting> {
        let all = Setting { name: "PacketOptions", at_servers: PACKETS, at_clients: PACKETS };
        let of_clients = |name, is_set: bool| is_set.then_some(Setting { name, at_servers: &[], ..all });
        let checksum = of_clients("PacketOptions::checksum", self.checksum);
        let share_endpoints = of_clients("PacketOptions::share_endpoints", self.shares_endpoints);
        [all].into_iter().chain(checksum).chain(share_endpoints).collect()
    }
}
impl TransportOptions for PacketOptions {}

impl PacketOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time for which the other end may be silent.
    ///
    /// For a client: after a server has acknowledged a long call, how long it may be silent before the call is given up, whatever its
    /// deadline. 2 s unless set; the client has sent several questions without an answer by then, also when this process could not for
    /// longer than that, because it was stopped.
    ///
    /// For a server: a binding that is silent for so long is released. 10 minutes unless set. A caller that comes back later binds
    /// again by itself.
    ///
    /// Other transports need no such limit: the kernel tells when the other end is gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::{BindOptions, PacketOptions};
    ///
    /// // Of a client: a server at the end of a bad radio link may be silent for longer.
    /// let options = BindOptions::new().with(PacketOptions::new().silence_limit(Duration::from_secs(15)));
    /// ```
    pub fn silence_limit(mut self, limit: Duration) -> Self {
        self.silence_limit = Some(limit);
        self
    }

    /// For a client: has every packet of the binding carry a checksum of its own (CRC-32C), in both directions. Packets whose
    /// checksum is wrong are dropped and counted, and sent again like packets that are lost. A server that cannot do so refuses to be
    /// bound ([`BindError`](crate::BindError)). Servers need no option for it.
    ///
    /// The checksum of UDP has 16 bits, misses one in 65,536 of the damages that change many bits, and is made anew by devices that
    /// rewrite packets, like a network address translation; so it does not see what a broken memory there does to them. This one
    /// costs about 70 ns for a packet of 1440 bytes at each end, and 8 of the 1440 bytes of data that a packet has.
    ///
    /// Other transports have none: byte streams rely on TCP's checksum, and nothing lies between the two ends of shared
    /// memory, a Unix socket or a `local:` call.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    ///
    /// use stoop::{BindOptions, PacketOptions};
    ///
    /// let client = AdderClient::bind_with(&uri, &BindOptions::new().with(PacketOptions::new().checksum()))?;
    /// client.add(1, 2)?;
    /// assert_eq!(server.counters().packet.corrupt, 0); // damaged packets of such clients are counted there
    /// # Ok(())
    /// # }
    /// ```
    pub fn checksum(mut self) -> Self {
        self.checksum = true;
        self
    }

    /// For a client: has all bindings of this process that say so share one endpoint (one socket) for each server address, where each
    /// thread would have its own otherwise. For processes with thousands of threads or bindings: the threads receive for each other,
    /// which costs more than a socket of their own.
    /// A binding with this option stays at the address at which it has found the server, even if the server's name comes to
    /// stand for another.
    ///
    /// ```
    /// let options = stoop::BindOptions::new().with(stoop::PacketOptions::new().share_endpoints());
    /// ```
    pub fn share_endpoints(mut self) -> Self {
        self.shares_endpoints = true;
        self
    }

    /// The limit for a client.
    pub(crate) fn client_silence_limit(&self) -> Duration {
        self.silence_limit.unwrap_or(caller::SILENCE_LIMIT)
    }

    /// The limit for a server.
    pub(crate) fn server_silence_limit(&self) -> Duration {
        self.silence_limit.unwrap_or_else(|| Limits::default().silence)
    }
}
