//! Security of calls on networks: which keys an end has, and which it trusts.
//!
//! A sealed binding encrypts and authenticates every packet, and each end knows the key of the other. `docs/security.md` says what that
//! protects, and what an observer still sees.

#[cfg(feature = "seal")]
pub(crate) mod base64;
#[cfg(feature = "seal")]
pub(crate) mod certificates;
#[cfg(feature = "seal")]
pub(crate) mod cipher;
#[cfg(feature = "seal")]
pub(crate) mod handshake;
#[cfg(feature = "seal")]
pub(crate) mod key_log;
#[cfg(feature = "seal")]
pub(crate) mod keys;
#[cfg(feature = "seal")]
pub(crate) mod peers;
#[cfg(feature = "seal")]
mod provider;
#[cfg(feature = "seal")]
mod raw_keys;
#[cfg(all(feature = "seal", feature = "onc"))]
pub(crate) mod session;
#[cfg(feature = "seal")]
pub(crate) mod tls;

#[cfg(feature = "seal")]
use crate::error::SecurityError;
use crate::options::{BindOptions, Sealed, Setting, TransportOptions};
#[cfg(feature = "seal")]
use crate::security::certificates::Certificates;
#[cfg(feature = "seal")]
use crate::security::key_log::KeyLog;
#[cfg(feature = "seal")]
pub use crate::security::keys::PublicKey;
#[cfg(feature = "seal")]
use crate::security::keys::{OwnKey, default_path};
#[cfg(feature = "seal")]
use crate::security::peers::Peers;
use std::io;
#[cfg(feature = "seal")]
use std::path::{Path, PathBuf};
#[cfg(feature = "seal")]
use std::sync::Arc;

/// Schemes of addresses at which bindings can be sealed.
#[cfg(feature = "seal")]
const SEALABLE: &[&str] = &[
    "udp",
    "tcp",
    #[cfg(feature = "onc")]
    "onc+tcp",
    #[cfg(feature = "ether")]
    "ether",
    #[cfg(feature = "test-transports")]
    "memory",
];

/// The security of the addresses of a server, or of a client's binding: [`Server::security`](crate::Server::security),
/// [`BindOptions::security`](crate::BindOptions::security).
///
/// With a key (cargo feature `seal`), bindings are *sealed*: all packets are encrypted and authenticated, and each end proves that it has
/// its private key. Keys do not expire. `stoop keygen` makes one.
///
#[cfg_attr(feature = "seal", doc = "```no_run")]
#[cfg_attr(not(feature = "seal"), doc = "```ignore")]
/// use stoop::{Security, Server};
///
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new()
///     .security(Security::own_key()?.callers("/etc/stoop/peers")?)
///     .export(GreeterServer::new(English))
///     .listen("udp://0.0.0.0:7400")?
///     .start()?;
/// // With the server's key before the host: udp://KEY@0.0.0.0:7400
/// println!("{}", server.uris()[0]);
/// # Ok(())
/// # }
/// ```
///
/// A client that binds to `udp://KEY@HOST:PORT` calls the server with that key or none. It authenticates itself by its own key, if it has
/// one.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Security {
    kind: Kind,
}

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Unsaid,
    None,
    #[cfg(feature = "seal")]
    Keys(Arc<Keys>),
}

/// The key of an end, and the keys that it trusts.
#[cfg(feature = "seal")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// `None`: this end is anonymous.
    pub(crate) own: Option<OwnKey>,
    /// Callers that a server serves. Its own key is always one.
    pub(crate) callers: Option<Arc<Peers>>,
    /// Servers to which a client binds when its address names no key.
    pub(crate) servers: Option<Arc<Peers>>,
    /// A server serves callers without a key, and those with keys that it does not know.
    pub(crate) anonymous: bool,
    /// In place of keys.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// The name in a server's certificate, if the address does not have it.
    pub(crate) server_name: Option<Arc<str>>,
    /// Where the secrets of bindings are logged.
    pub(crate) log: Option<Arc<KeyLog>>,
}

impl Sealed for Security {
    fn settings(&self) -> Vec<Setting> {
        match self.kind {
            Kind::Unsaid | Kind::None => Vec::new(),
            #[cfg(feature = "seal")]
            Kind::Keys(_) => vec![Setting { name: "Security", at_servers: SEALABLE, at_clients: SEALABLE }],
        }
    }
}
impl TransportOptions for Security {}

impl Security {
    /// Whether the program has said something about security.
    pub(crate) fn is_said(&self) -> bool {
        !matches!(self.kind, Kind::Unsaid)
    }

    /// The address of a server with this security: with its key, if bindings are to be sealed by keys.
    ///
    /// # Errors
    /// It has neither a key nor a certificate of its own.
    pub(crate) fn address_of(&self, uri: String) -> io::Result<String> {
        #[cfg(feature = "seal")]
        if let Some(keys) = self.keys() {
            let why = "a server needs a key of its own; give it Security::own_key(), Security::key_file(…) or Security::certificates(…)";
            let is_certified = keys.certificates.as_ref().is_some_and(|certificates| certificates.has_own());
            return match &keys.own {
                Some(own) => Ok(uri.replacen("://", &format!("://{}@", own.public), 1)),
                None if is_certified => Ok(uri),
                None => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
            };
        }
        Ok(uri)
    }

    /// No security: any machine on the way can read and forge calls. A server that listens where other machines reach it says so, or has
    /// a key.
    pub fn none() -> Self {
        Self { kind: Kind::None }
    }
}

#[cfg(feature = "seal")]
impl Security {
    /// This user's key, which `stoop keygen` has made: in the file that the environment variable `STOOP_KEY` names, else `stoop/key` in the
    /// user's directory for configuration.
    ///
    /// # Errors
    /// There is none, or other users can read it.
    pub fn own_key() -> Result<Self, SecurityError> {
        Self::key_file(default_path()?)
    }

    /// The key in that file.
    ///
    /// # Errors
    /// As [`own_key`](Self::own_key).
    pub fn key_file(path: impl AsRef<Path>) -> Result<Self, SecurityError> {
        Ok(Self::with_key(OwnKey::read(path.as_ref())?))
    }

    /// The key that all holders of a shared secret have: a file with 32 random bytes in base64 (`stoop keygen --secret`). Each of them
    /// can be server and caller of all others, and one that loses the secret loses it for all.
    ///
    /// # Errors
    /// There is no such file, it has no secret, or other users can read it.
    pub fn secret_file(path: impl AsRef<Path>) -> Result<Self, SecurityError> {
        Ok(Self::with_key(OwnKey::of_group(path.as_ref())?))
    }

    /// No key: an anonymous caller. For servers that [serve such](Self::anonymous).
    pub fn without_key() -> Self {
        Self::of(Keys::default())
    }

    /// Certificates of an organisation, in PEM files: the chain with the own certificate first, its private key, and the roots that have
    /// issued the certificates of the others. The files are read again when they have changed; a certificate that expires ends no binding.
    ///
    /// A server serves callers with a certificate of the roots. The caller's name ([`CurrentCall::peer`](crate::CurrentCall::peer)) is
    /// the first URI among the certificate's subject alternative names (`spiffe://example.org/shop`), else the first DNS name. A client
    /// takes a server whose certificate is for the host in the address, or for [`server_name`](Self::server_name).
    ///
    /// # Errors
    /// A file is missing or is none of these, other users can read the key, or the key is not that of the certificate.
    pub fn certificates(
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        roots: impl Into<PathBuf>,
    ) -> Result<Self, SecurityError> {
        let read = Certificates::read(Some((chain.into(), key.into())), roots.into())?;
        Ok(Self::with_certificates(read))
    }

    /// For a client without a certificate: the roots of servers' certificates. For servers that serve [anonymous](Self::anonymous)
    /// callers.
    ///
    /// # Errors
    /// As [`certificates`](Self::certificates).
    pub fn roots(roots: impl Into<PathBuf>) -> Result<Self, SecurityError> {
        Ok(Self::with_certificates(Certificates::read(None, roots.into())?))
    }

    /// For a client with [certificates](Self::certificates): the DNS name or IP address that the server's certificate is for, if the
    /// address has another.
    pub fn server_name(self, name: &str) -> Self {
        self.changed(|keys| keys.server_name = Some(name.into()))
    }

    /// For a server: serves the callers in this file, besides those with the server's own key. Each line is a name and a public key, with
    /// `#` before comments. The server reads the file again when it has changed. A caller whose line is gone loses its bindings within
    /// seconds.
    ///
    /// # Errors
    /// There is no such file, or a line of it is none of these.
    pub fn callers(self, path: impl AsRef<Path>) -> Result<Self, SecurityError> {
        self.check_that_it_has_keys()?;
        let peers = Arc::new(Peers::read(path.as_ref())?);
        Ok(self.changed(|keys| keys.callers = Some(peers)))
    }

    /// For a client: binds to the servers in this file, which is written as that of [`callers`](Self::callers), when the address names no
    /// key.
    ///
    /// # Errors
    /// As [`callers`](Self::callers).
    pub fn servers(self, path: impl AsRef<Path>) -> Result<Self, SecurityError> {
        self.check_that_it_has_keys()?;
        let peers = Arc::new(Peers::read(path.as_ref())?);
        Ok(self.changed(|keys| keys.servers = Some(peers)))
    }

    /// For a server: serves every caller, also those that it does not know. Their packets are encrypted, and they know the server.
    pub fn anonymous(self) -> Self {
        self.changed(|keys| keys.anonymous = true)
    }

    /// Writes the secrets of each binding to this file, to which lines are added, for programs that decrypt captured packets:
    /// `STOOP_SECRETS`, the binding's number, and the secrets of the caller's and of the server's packets. Of connections of Sun RPC it writes
    /// the secrets of their TLS sessions, in the lines that other programs know (`SSLKEYLOGFILE`). A reader of the file can read the calls.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn key_log(self, path: impl AsRef<Path>) -> Result<Self, SecurityError> {
        let log = Arc::new(KeyLog::open(path.as_ref())?);
        Ok(self.changed(|keys| keys.log = Some(log)))
    }

    /// Makes a key and writes it to a new file, which only this user can read.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn generate_key(path: impl AsRef<Path>) -> Result<PublicKey, SecurityError> {
        Ok(OwnKey::generate(path.as_ref())?)
    }

    /// Makes a secret for [`secret_file`](Self::secret_file) and writes it to a new file, which only this user can read.
    ///
    /// # Errors
    /// As [`generate_key`](Self::generate_key).
    pub fn generate_secret(path: impl AsRef<Path>) -> Result<(), SecurityError> {
        Ok(OwnKey::generate_secret(path.as_ref())?)
    }

    /// The file of [`own_key`](Self::own_key).
    ///
    /// # Errors
    /// This user has no directory.
    pub fn own_key_path() -> Result<PathBuf, SecurityError> {
        Ok(default_path()?)
    }

    /// The public key, for the addresses of a server and the files of its peers. `None`: there is no key.
    pub fn public_key(&self) -> Option<PublicKey> {
        self.keys().and_then(|keys| keys.own.as_ref()).map(|own| own.public)
    }

    fn with_key(own: OwnKey) -> Self {
        Self::of(Keys { own: Some(own), ..Keys::default() })
    }

    fn with_certificates(certificates: Certificates) -> Self {
        Self::of(Keys { certificates: Some(Arc::new(certificates)), ..Keys::default() })
    }

    fn of(keys: Keys) -> Self {
        Self { kind: Kind::Keys(Arc::new(keys)) }
    }

    /// Files of peers have keys, and are of no use beside certificates.
    fn check_that_it_has_keys(&self) -> io::Result<()> {
        match self.keys().is_some_and(|keys| keys.certificates.is_some()) {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the roots of certificates say which peers are known; leave the file of keys out, or Security::certificates",
            )),
            false => Ok(()),
        }
    }

    fn changed(mut self, change: impl FnOnce(&mut Keys)) -> Self {
        if let Kind::Keys(keys) = &mut self.kind {
            change(Arc::make_mut(keys));
        }
        self
    }

    /// The keys, if bindings are to be sealed.
    pub(crate) fn keys(&self) -> Option<&Arc<Keys>> {
        match &self.kind {
            Kind::Keys(keys) => Some(keys),
            Kind::Unsaid | Kind::None => None,
        }
    }

    /// The security of a client whose address names the server's key and that has said nothing else: this user's key, if there is one.
    pub(crate) fn of_address() -> Self {
        Self::own_key().unwrap_or_else(|_| Self::without_key())
    }
}

impl BindOptions {
    /// Seals the binding with these keys, or says that it is not sealed. An address with a key, `udp://KEY@HOST:PORT`, needs no such option:
    /// the binding is sealed, with this user's own key if there is one.
    pub fn security(self, security: Security) -> Self {
        self.with(security)
    }
}
