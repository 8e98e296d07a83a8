//! Options of byte streams over Unix sockets.

use crate::options::{Sealed, Setting, TransportOptions};
use crate::users::Users;

/// Options of `unix:` addresses.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use stoop::{Server, UnixOptions};
///
/// let server = Server::new().with(UnixOptions::new().allow_user(1000)).listen("unix:/run/greeter")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UnixOptions {
    pub(crate) users: Users,
}

impl Sealed for UnixOptions {
    fn settings(&self) -> Vec<Setting> {
        vec![Setting { name: "UnixOptions", at_servers: &["unix"], at_clients: &["unix"] }]
    }
}
impl TransportOptions for UnixOptions {}

impl UnixOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows processes of this user at the other end, besides those of the own user and root. May be said again for others.
    ///
    /// For a server: it serves callers of this user, too. The permissions of a socket's file also restrict which users can
    /// connect.
    ///
    /// For a client: it binds to a server of this user, too. Every process of the machine can take an abstract name (`unix:@NAME`,
    /// `shm:NAME`) before the right server does, and would get the arguments of all calls; so allow only users whom you trust with them.
    ///
    /// The user is the effective user of the other process, as the kernel tells it. In a user namespace (a container
    /// without root) all users that are not mapped there look like 65534: to allow that one is to allow all of them.
    ///
    /// ```
    /// use stoop::{BindOptions, UnixOptions};
    ///
    /// // Of a client: the server runs as user 990, which is neither the own user nor root.
    /// let options = BindOptions::new().with(UnixOptions::new().allow_user(990));
    /// ```
    pub fn allow_user(mut self, user: u32) -> Self {
        self.users.add(user);
        self
    }

    /// Allows processes of all users. A procedure can ask who calls ([`CurrentCall::caller`](crate::CurrentCall::caller)).
    ///
    /// For a server: every process that can reach the socket may call. For an abstract name that is every process of the network namespace,
    /// for a path every process that the permissions of the file let in.
    ///
    /// ```
    /// let options = stoop::UnixOptions::new().allow_everybody();
    /// ```
    pub fn allow_everybody(mut self) -> Self {
        self.users = Users::Everybody;
        self
    }
}
