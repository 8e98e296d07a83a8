//! Where a server listens.

use crate::error::ListenError;
use crate::security::Security;
use crate::server::Server;
use crate::transport::contract::ListenAddress;
use crate::transports;
use crate::uri::Uri;
use std::io;
use stoop_net::inherited;

impl Server {
    /// Listens at an address: `udp://HOST:PORT`, `tcp://HOST:PORT`, `unix:PATH`, `unix:@NAME` (abstract), `shm:NAME` or
    /// `shm:/PATH` (memory shared with each caller; the path is that of a socket at which callers bind), or `local:NAME` (this
    /// process). The address is taken at once, and served from [`start`](Self::start) on. Port 0
    /// takes any free one; [`RunningServer::uris`](crate::RunningServer::uris) tells which.
    ///
    /// A name alone, without a transport, stands for `shm:NAME` and `local:NAME` together: callers on this machine bind to the
    /// name, and get the best that they can use of all the places at which the server listens.
    ///
    /// On a wildcard address (`0.0.0.0`) a server answers from the address that was called, which costs each call about
    /// 0.3 µs; listening at one address is faster.
    ///
    /// **Sockets that outlive the process.** If the process that started this one has made a socket for the address and passed it by
    /// `LISTEN_FDS` (socket activation, as systemd does it for a `.socket` unit: `sd_listen_fds(3)`), that is used. Callers that bind while
    /// no server runs then wait for the next one. `fd:NAME` stands for the `tcp:`, `udp:` and `unix:` addresses of all sockets passed under that name
    /// (`FileDescriptorName=`).
    ///
    /// **Ethernet** (cargo feature `ether`): `ether://INTERFACE/NAME`, or `ether://INTERFACE/:PORT`.
    ///
    /// **Sun RPC** (cargo feature `onc`): `onc+udp://HOST[:PORT]`, `onc+tcp://HOST[:PORT]` and `onc+unix:PATH`. There the server is called
    /// as the programs that its interfaces are (`#[interface(program = …, version = …)]`), and those that `Server::program` adds. With keys or
    /// certificates ([`security`](Self::security)), calls at `onc+tcp:` come under TLS only (RFC 9289), and `onc+udp:` is an error.
    ///
    /// **Other machines.** Where they reach the address (all but loopback addresses, and everything on an Ethernet), [`security`](Self::security)
    /// comes first: with keys, or `Security::none()` to say that calls may be read and forged on the way. Sun RPC is exempt.
    ///
    /// # Errors
    /// The text is no address, or it cannot be listened at; or other machines reach it, and the server does not say how its calls are
    /// protected.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let name = format!("greeter-{}", std::process::id());
    /// let server = stoop::Server::new()
    ///     .export(GreeterServer::new(English))
    ///     .listen("udp://127.0.0.1:0")? // other machines would need another address than the loopback's
    ///     .listen(&name)? // callers of this machine
    ///     .start()?;
    /// let client = GreeterClient::bind(&name)?;
    /// assert_eq!(client.greet("world")?, "Hello, world!");
    /// println!("{:?}", server.uris()); // with the port that was chosen
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(mut self, uri: &str) -> Result<Self, ListenError> {
        if let Some(name) = uri.strip_prefix("fd:") {
            return self.listen_inherited(uri, name);
        }
        #[cfg(feature = "onc")]
        if crate::onc::Transport::of(uri).is_some() {
            return self.listen_by_sun_rpc(uri);
        }
        match transports::parse(uri).map_err(ListenError::Uri)? {
            Uri::Address(scheme, address) => {
                let listener = transports::listen(&ListenAddress { scheme, uri, address, own: &self.own })
                    .map_err(|cause| ListenError::Io { uri: uri.into(), cause })?;
                if listener.is_reached_by_others() && !self.own.of::<Security>().is_said() {
                    return Err(ListenError::Unprotected(uri.into()));
                }
                self.listeners.push(listener);
                self.own.apply_to(uri);
                Ok(self)
            }
            Uri::Name(name) => {
                let named = transports::schemes().filter(|scheme| scheme.has_names);
                let uris = named.map(|scheme| format!("{}:{name}", scheme.name));
                uris.chain([format!("local:{name}")]).try_fold(self, |server, uri| server.listen(&uri))
            }
        }
    }

    /// Listens at the sockets that were passed under that name.
    fn listen_inherited(self, uri: &str, name: &str) -> Result<Self, ListenError> {
        let addresses = inherited::named(name);
        if addresses.is_empty() {
            let why = "no socket of that name was passed to this process (LISTEN_FDS and LISTEN_FDNAMES; \
                       FileDescriptorName= in a .socket unit of systemd)";
            let cause = io::Error::new(io::ErrorKind::NotFound, why);
            return Err(ListenError::Io { uri: uri.into(), cause });
        }
        addresses.iter().try_fold(self, |server, uri| server.listen(uri))
    }
}
