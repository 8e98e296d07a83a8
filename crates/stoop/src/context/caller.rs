//! Callers, as procedures see them.

use std::net::SocketAddr;

/// The caller of a procedure.
///
/// ```
/// use stoop::{Caller, current_call};
///
/// /// In a procedure: the user, as the kernel says.
/// fn user() -> Option<u32> {
///     match current_call()?.caller() {
///         Caller::Process(process) => Some(process.uid),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// A thread of this process.
    Local,
    /// A network address. The caller has proved that it receives packets there; its identity is not proved.
    Network(SocketAddr),
    /// A station of a network that has no IP addresses. The caller has proved that it receives packets there; its identity is not proved.
    Station(Station),
    /// A process of this machine, identified by the kernel (`SO_PEERCRED`).
    Process(Credentials),
}

/// The address of a station: bytes whose meaning depends on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Station {
    pub(crate) host: [u8; 16],
    pub(crate) port: u16,
}

impl Station {
    /// The address without the port. Networks with shorter addresses fill it up with zeros.
    pub fn host(&self) -> [u8; 16] {
        self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Identity of the process at the other end of a Unix socket, as the kernel recorded it when the process connected.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use stoop::{Caller, Server, current_call};
///
/// #[stoop::interface]
/// trait Who { fn am_i(&self) -> Option<(u32, i32)>; }
///
/// struct Kernel;
/// impl Who for Kernel {
///     fn am_i(&self) -> Option<(u32, i32)> {
///         match current_call()?.caller() {
///             Caller::Process(process) => Some((process.uid, process.pid)),
///             _ => None,
///         }
///     }
/// }
///
/// let uri = format!("unix:@who-{}", std::process::id());
/// let server = Server::new().export(WhoServer::new(Kernel)).listen(&uri)?.start()?;
/// let (_, pid) = WhoClient::bind(&uri)?.am_i()?.ok_or("a Unix socket tells")?;
/// assert_eq!(pid, std::process::id() as i32);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Effective user in the server's user namespace. Users that are not mapped there all appear as 65534.
    pub uid: u32,
    /// Effective group, likewise.
    pub gid: u32,
    /// Process number. The process may have ended since, and another may have its number. 0 if the server's process namespace does
    /// not contain the process.
    pub pid: i32,
}
