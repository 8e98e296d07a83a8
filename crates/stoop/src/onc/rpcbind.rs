//! rpcbind, the register of the programs of a host (RFC 1833).

use crate::error::{BindError, CallError, SendError};
use crate::onc::address::Transport;
use crate::onc::client::Client;
use crate::onc::options::{ClientOptions, Retransmission};
use crate::program::VersionId;
use std::time::Duration;
use stoop_onc::rpcbind::{Rpcb, SOCKET, Version, procedure};
use stoop_xdr::Chain;

/// A program's place, as a rpcbind knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The program and its version.
    pub version: VersionId,
    /// The transport: `udp`, `tcp`, `udp6`, `tcp6`, `local`.
    pub netid: String,
    /// Where it listens: a [universal address](stoop_onc::rpcbind::universal), or the path of a Unix socket.
    pub address: String,
    /// The user who registered it, as far as rpcbind knows.
    pub owner: String,
}

/// A client of a rpcbind.
///
/// ```
/// use stoop::onc::rpcbind::Rpcbind;
/// use stoop::onc::{Transport, VersionId};
///
/// # fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let rpcbind = Rpcbind::of("server", Transport::Tcp)?; // or Rpcbind::local()
/// for registration in rpcbind.dump()? {
///     println!("{:?} over {} at {}", registration.version, registration.netid, registration.address);
/// }
/// let nfs = VersionId { program: 100_003, version: 4 };
/// println!("{:?}", rpcbind.find(nfs)?);
/// Rpcbind::ping("server", Transport::Tcp, nfs)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rpcbind {
    client: Client,
}

/// The number of the program (RFC 1833 §2.1).
const PROGRAM: u32 = stoop_onc::rpcbind::PROGRAM;

impl Rpcbind {
    /// The rpcbind of a host, asked over that transport (not over Unix sockets).
    ///
    /// # Errors
    /// The host is unknown, or over TCP its rpcbind cannot be reached.
    pub fn of(host: &str, transport: Transport) -> Result<Self, BindError> {
        let port = stoop_onc::rpcbind::PORT;
        let host =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.into() };
        Self::bind(&format!("{}://{host}:{port}/{PROGRAM}:4", transport.scheme()))
    }

    /// The rpcbind of this host: over its Unix socket, where it knows who registers, or else over UDP.
    ///
    /// # Errors
    /// None is running, as far as its Unix socket tells.
    pub fn local() -> Result<Self, BindError> {
        Self::bind(&format!("onc+unix:{SOCKET}/{PROGRAM}:4"))
            .or_else(|_| Self::of("127.0.0.1", Transport::Udp))
    }

    fn bind(uri: &str) -> Result<Self, BindError> {
        let again = Retransmission::Every(Duration::from_secs(1));
        let options = ClientOptions::new().retransmission(again).timeout(Duration::from_secs(10));
        Client::bind_with(uri, &options).map(|client| Self { client })
    }

    /// All registrations.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn dump(&self) -> Result<Vec<Registration>, CallError> {
        self.client.call_with(procedure::DUMP, &(), |results| {
            let Chain(entries) = results.value::<Chain<Rpcb<'_>>>()?;
            Ok(entries.iter().map(owned).collect())
        })
    }

    /// Where just this version of a program listens, for callers over the transport of this client; `None` if it is not registered.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn find(&self, version: VersionId) -> Result<Option<String>, CallError> {
        let question = rpcb(version, "", "");
        let address: String = self.client.call(procedure::GETVERSADDR, &question)?;
        Ok(Some(address).filter(|address| !address.is_empty()))
    }

    /// Registers a version of a program for a transport. `false`: another address is registered; [`unset`](Self::unset) comes first.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn set(&self, version: VersionId, netid: &str, address: &str) -> Result<bool, CallError> {
        self.client.call(procedure::SET, &rpcb(version, netid, address))
    }

    /// Ends the registration of a version for a transport, or for all if `netid` is empty. `false`: it is another user's.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn unset(&self, version: VersionId, netid: &str) -> Result<bool, CallError> {
        self.client.call(procedure::UNSET, &rpcb(version, netid, ""))
    }

    /// Whether a version that is registered answers: calls its null procedure by way of this rpcbind's answer.
    ///
    /// # Errors
    /// As [`Client::null`].
    pub fn ping(host: &str, transport: Transport, version: VersionId) -> Result<(), CallError> {
        let client = Client::bind(&format!("{}://{host}/{version}", transport.scheme()));
        client.map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why))))?.null()
    }
}

fn rpcb<'a>(version: VersionId, netid: &'a str, address: &'a str) -> Rpcb<'a> {
    debug_assert_eq!(Version::Four as u32, 4);
    Rpcb { program: version.program, version: version.version, netid, address, owner: "" }
}

fn owned(entry: &Rpcb<'_>) -> Registration {
    Registration {
        version: VersionId { program: entry.program, version: entry.version },
        netid: entry.netid.into(),
        address: entry.address.into(),
        owner: entry.owner.into(),
    }
}
