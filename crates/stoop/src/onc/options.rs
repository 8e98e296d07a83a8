//! Options of a client.

use crate::onc::authentication::{Authentication, Credential};
use crate::options::{Sealed, Setting, TransportOptions, Waiting};
use crate::security::Security;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub use stoop_onc::Retransmission;

/// Options of a [`Client`](crate::onc::Client). Each has a default that suits most programs.
///
/// A typed client, which `#[stoop::interface(program = N, version = N)]` makes, takes them by
/// [`BindOptions::with`](crate::BindOptions::with). What `BindOptions` has itself counts there: time-outs, waiting, `lazy`,
/// `wait_for_server` and `wait_for_restart`; and the smaller `max_message`.
///
/// ```
/// use std::time::Duration;
/// use stoop::Waiting;
/// use stoop::onc::{Client, ClientOptions, Credential, Retransmission};
///
/// let options = ClientOptions::new()
///     .timeout(Duration::from_secs(5))
///     .bind_timeout(Duration::from_secs(2))
///     .wait_for_server(Duration::from_secs(60))
///     .wait_for_restart(Duration::from_secs(10))
///     .lazy()
///     .retransmission(Retransmission::Measured)
///     .authentication(Credential::own())
///     .waiting(Waiting::Block)
///     .max_message(1 << 20);
/// let client = Client::bind_with("onc+tcp://127.0.0.1:2049/100003:4", &options)?;
/// assert_eq!(client.version().program, 100_003);
/// assert_eq!((client.server(), client.unmatched_replies()), (None, 0)); // the first call binds
/// # Ok::<(), stoop::BindError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientOptions {
    pub(crate) timeout: Duration,
    pub(crate) bind_timeout: Duration,
    pub(crate) wait_for_server: Option<Duration>,
    pub(crate) wait_for_restart: Option<Duration>,
    pub(crate) lazy: bool,
    pub(crate) retransmission: Retransmission,
    pub(crate) authentication: Arc<dyn Authentication>,
    pub(crate) reserved_port: bool,
    pub(crate) waiting: Waiting,
    pub(crate) message_max: usize,
    pub(crate) security: Security,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(25),
            bind_timeout: Duration::from_secs(5),
            wait_for_server: None,
            wait_for_restart: None,
            lazy: false,
            retransmission: Retransmission::LIBTIRPC,
            authentication: Arc::new(Credential::none()),
            reserved_port: false,
            waiting: Waiting::Adaptive,
            message_max: 64 << 20,
            security: Security::default(),
        }
    }
}

impl Sealed for ClientOptions {
    fn settings(&self) -> Vec<Setting> {
        let at_clients = &["onc+udp", "onc+tcp", "onc+unix"];
        vec![Setting { name: "ClientOptions", at_servers: &[], at_clients }]
    }
}
impl TransportOptions for ClientOptions {}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("timeout", &self.timeout)
            .field("retransmission", &self.retransmission)
            .field("reserved_port", &self.reserved_port)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long each call may take, whatever else arrives meanwhile. 25 s unless set, as with libtirpc. Sun RPC does not tell the
    /// server.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long binding may take: asking rpcbind, and connecting. 5 s unless set. With [`wait_for_server`](Self::wait_for_server), how long
    /// each attempt may take.
    pub fn bind_timeout(mut self, timeout: Duration) -> Self {
        self.bind_timeout = timeout;
        self
    }

    /// Binding waits for a server that is not there yet, at most that long: rpcbind does not answer or does not know the program, or no
    /// server accepts the connection. Off unless set. When a server is lost later, the next call waits so for another, within its deadline.
    pub fn wait_for_server(mut self, timeout: Duration) -> Self {
        self.wait_for_server = Some(timeout);
        self
    }

    /// When a server is lost after binding, the next call waits for another, at most that long and within its deadline. Binding itself
    /// does not wait. Off unless set; with [`wait_for_server`](Self::wait_for_server) this one counts after binding.
    pub fn wait_for_restart(mut self, timeout: Duration) -> Self {
        self.wait_for_restart = Some(timeout);
        self
    }

    /// Binding returns at once, and the first call binds, within its deadline. If that fails, the call has not run
    /// ([`SendError::Bind`](crate::error::SendError::Bind)), and the next one tries again.
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// When a call over UDP is sent again. After 15 s unless set, as libtirpc does. [`Retransmission::Measured`] is much faster on a
    /// network that loses packets; but a server that keeps no replies (most programs made with rpcgen keep none) runs a call again
    /// that it gets again.
    pub fn retransmission(mut self, retransmission: Retransmission) -> Self {
        self.retransmission = retransmission;
        self
    }

    /// The caller's credential. [`Credential::none`] unless set.
    pub fn authentication(mut self, authentication: impl Authentication + 'static) -> Self {
        self.authentication = Arc::new(authentication);
        self
    }

    /// Calls from a port below 1024, for servers that ask for it (NFS exports often do). Needs root, or CAP_NET_BIND_SERVICE.
    pub fn reserved_port(mut self) -> Self {
        self.reserved_port = true;
        self
    }

    /// Puts connections over TCP under TLS (RFC 9289), with these certificates or keys: `onc+tcp:` addresses only. A server without TLS is not
    /// called. rpcbind is asked in the clear. [`BindOptions::security`](crate::BindOptions::security) says the same for a typed client.
    ///
    /// An address with a key, `onc+tcp://KEY@HOST/PROGRAM:VERSION`, needs no such option.
    ///
    #[cfg_attr(feature = "seal", doc = "```")]
    #[cfg_attr(not(feature = "seal"), doc = "```ignore")]
    /// use stoop::onc::{Client, ClientOptions};
    /// use stoop::{Security, Server, current_call};
    ///
    /// #[stoop::interface(program = 0x2000_0086, version = 1)]
    /// trait Door { fn open(&self) -> String; }
    ///
    /// struct Porter;
    /// impl Door for Porter {
    ///     fn open(&self) -> String {
    ///         let peer = current_call().and_then(|call| call.peer()).expect("a caller under TLS");
    ///         format!("welcome, {peer}")
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("stoop-door-{}", std::process::id()));
    /// // `stoop keygen` makes keys, too.
    /// let key = Security::generate_key(folder.join("alice"))?;
    /// Security::generate_key(folder.join("door"))?;
    /// std::fs::write(folder.join("callers"), format!("alice {key}\n"))?;
    ///
    /// let server = Server::new()
    ///     .security(Security::key_file(folder.join("door"))?.callers(folder.join("callers"))?)
    ///     .export(DoorServer::new(Porter))
    ///     .listen("onc+tcp://127.0.0.1")?
    ///     .start()?;
    ///
    /// let options = ClientOptions::new().security(Security::key_file(folder.join("alice"))?);
    /// let client = Client::bind_with(&format!("{}/0x20000086:1", server.uris()[0]), &options)?;
    /// assert_eq!(client.call::<_, String>(1, &())?, "welcome, alice");
    /// assert!(client.describe().contains("sealed by TLS"));
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// How threads wait for results. [`Waiting::Adaptive`] unless set.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Bytes of the longest call and of the longest reply over TCP and Unix sockets, 64 MiB unless set: a longer call is not sent, and a
    /// longer reply ends the connection. Memory is taken for bytes that have arrived only. Over UDP a datagram bounds both messages.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.message_max = bytes;
        self
    }
}
