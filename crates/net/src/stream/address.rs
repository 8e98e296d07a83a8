//! Addresses of byte streams: a TCP address or the name of a Unix socket.

use crate::inherited::Bound;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The address of a byte stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StreamAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket with a file, whose permissions say which users may connect.
    UnixPath(PathBuf),
    /// A Unix socket in the abstract namespace: no file, gone with its server, and open to every process
    /// of the network namespace.
    UnixAbstract(Vec<u8>),
}

impl StreamAddress {
    /// The Unix socket named by the text behind `unix:` in a URI: `@name` is abstract, any other text is a path.
    pub fn unix(name: &str) -> Self {
        match name.strip_prefix('@') {
            Some(name) => Self::UnixAbstract(name.into()),
            None => Self::UnixPath(name.into()),
        }
    }

    /// As the kernel tells it of a socket.
    pub(super) fn as_bound(&self) -> Result<Bound, Errno> {
        match self {
            Self::Tcp(address) => Ok(Bound::Internet(*address)),
            Self::UnixPath(_) | Self::UnixAbstract(_) => self.unix_addr().map(Bound::Unix),
        }
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    pub(super) fn family(&self) -> AddressFamily {
        match self {
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            _ => AddressFamily::UNIX,
        }
    }

    /// The Unix name in the kernel's form. NAMETOOLONG above 107 bytes; INVAL if it is empty or contains a zero byte.
    pub(super) fn unix_addr(&self) -> Result<SocketAddrUnix, Errno> {
        match self {
            // An empty name would bind to one that the kernel chooses.
            Self::UnixPath(path) if path.as_os_str().is_empty() => Err(Errno::INVAL),
            Self::UnixPath(path) => SocketAddrUnix::new(path.as_os_str().as_bytes()),
            Self::UnixAbstract(name) if name.is_empty() => Err(Errno::INVAL),
            Self::UnixAbstract(name) => SocketAddrUnix::new_abstract_name(name),
            Self::Tcp(_) => Err(Errno::AFNOSUPPORT),
        }
    }
}

/// As in a URI.
impl fmt::Display for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::UnixPath(path) => write!(f, "unix:{}", path.display()),
            Self::UnixAbstract(name) => write!(f, "unix:@{}", name.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_they_are_written() {
        for name in ["/run/x.sock", "relative.sock", "@abstract"] {
            assert_eq!(StreamAddress::unix(name).to_string(), format!("unix:{name}"));
        }
        assert_eq!(StreamAddress::Tcp("[::1]:5".parse().unwrap()).to_string(), "tcp://[::1]:5");
    }

    #[test]
    fn impossible_unix_names_are_errors() {
        for name in ["", "@", "nul\0inside", &"x".repeat(109), &format!("@{}", "x".repeat(108))] {
            assert!(StreamAddress::unix(name).unix_addr().is_err(), "{name:?}");
        }
    }
}
