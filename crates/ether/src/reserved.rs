//! Names that one socket of a network namespace has at a time: abstract names of Unix sockets (unix(7)).
//!
//! Such a name is free again when its process has ended, however it ended. `/proc/net/unix` shows all of them to every user of the machine.

use crate::error::OpenError;
use crate::frame::EtherType;
use crate::interface::Interface;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A name, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    _socket: OwnedFd,
}

/// Bytes of the longest name.
pub(crate) const NAME_MAX: usize = 107;

/// The beginning of all names that are about endpoints at this interface whose packets have that EtherType.
pub(crate) fn place(interface: &Interface, ether_type: EtherType) -> String {
    format!("stoop-ether/{}/{ether_type}/", interface.index)
}

impl Reserved {
    /// `None` if another socket has the name.
    pub(crate) fn new(name: &str) -> Result<Option<Self>, OpenError> {
        let bound = SocketAddrUnix::new_abstract_name(name.as_bytes()).and_then(|name| {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
            rustix::net::bind(&socket, &name)?;
            Ok(socket)
        });
        match bound {
            Ok(socket) => Ok(Some(Self { _socket: socket })),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(error) => {
                Err(OpenError::System { operation: "reserving a port or a name", error: error.into() })
            }
        }
    }
}

/// The names in this thread's network namespace that begin so, without that beginning.
pub(crate) fn names_behind(beginning: &str) -> Vec<String> {
    // A machine without /proc shows none.
    let all = std::fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    let all = String::from_utf8_lossy(&all);
    // An abstract name is the last word of its line, behind an @.
    let names = all.lines().filter_map(|line| line.rsplit_once(" @")).map(|(_, name)| name);
    names.filter_map(|name| name.strip_prefix(beginning)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_shown_and_taken_until_it_is_dropped() {
        let beginning = format!("stoop-test-reserved/{}/", std::process::id());
        let name = format!("{beginning}a/b?c#d");
        let reserved = Reserved::new(&name).unwrap().unwrap();
        assert!(Reserved::new(&name).unwrap().is_none());
        assert_eq!(names_behind(&beginning), ["a/b?c#d"]);
        drop(reserved);
        assert!(names_behind(&beginning).is_empty());
        assert!(Reserved::new(&name).unwrap().is_some());
        assert!(Reserved::new(&"n".repeat(NAME_MAX)).unwrap().is_some());
        assert!(Reserved::new(&"n".repeat(NAME_MAX + 1)).is_err());
    }
}
