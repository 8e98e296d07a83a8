//! Options of shared memory.

use crate::options::{Sealed, Setting, TransportOptions};
use crate::users::Users;

/// Options of `shm:` addresses.
///
/// ```
/// use stoop::{Server, ShmOptions};
///
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let uri = format!("shm:shm-options-{}", std::process::id());
/// let options = ShmOptions::new().in_place(16 << 20).allow_user(1000);
/// let server = Server::new().export(GreeterServer::new(English)).with(options).listen(&uri)?.start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ShmOptions {
    pub(crate) users: Users,
    in_place: Option<usize>,
}

impl Sealed for ShmOptions {
    fn settings(&self) -> Vec<Setting> {
        let all = Setting { name: "ShmOptions", at_servers: &["shm"], at_clients: &["shm"] };
        let in_place = Setting { name: "ShmOptions::in_place", at_clients: &[], ..all };
        [all].into_iter().chain(self.in_place.map(|_| in_place)).collect()
    }
}
impl TransportOptions for ShmOptions {}

impl ShmOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows processes of this user at the other end, as [`UnixOptions::allow_user`](crate::UnixOptions::allow_user) does.
    ///
    /// Each user that a server allows may have bindings for a quarter of the descriptors of the server's process (`ulimit -n`; a
    /// binding takes two), so that none can keep the others out.
    pub fn allow_user(mut self, user: u32) -> Self {
        self.users.add(user);
        self
    }

    /// Allows processes of all users, as [`UnixOptions::allow_everybody`](crate::UnixOptions::allow_everybody) does.
    ///
    /// ```
    /// let options = stoop::ShmOptions::new().allow_everybody();
    /// ```
    pub fn allow_everybody(mut self) -> Self {
        self.users = Users::Everybody;
        self
    }

    /// For a server: bytes that it shares with each caller for the caller's buffers ([`InPlace`](crate::InPlace)), if some procedure of
    /// the interface takes one. 64 MiB unless set; 0 for none: then buffers are copied.
    ///
    /// It is address space at both ends. Callers take memory as they write there, up to all of it, and give it back
    /// when they drop their buffers.
    ///
    /// ```
    /// use stoop::{Server, ShmOptions};
    ///
    /// // Room for eight frames of 24 MiB in flight from each caller.
    /// let server = Server::new().with(ShmOptions::new().in_place(8 * (24 << 20)));
    /// ```
    pub fn in_place(mut self, bytes: usize) -> Self {
        self.in_place = Some(bytes);
        self
    }

    /// Bytes that a server shares with each caller for buffers.
    pub(crate) fn in_place_bytes(&self) -> usize {
        self.in_place.unwrap_or(64 << 20)
    }
}
