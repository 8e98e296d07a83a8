//! Other addresses of servers, for callers at the same interface of the same machine, which no frame reaches.
//!
//! A post is an abstract name of a Unix socket (unix(7)), which `/proc/net/unix` shows to every user of the machine. So it needs no thread
//! that answers, and ends with its process. Every process on the machine can read posts and write them, so a reader must find out by other means whether the
//! address can be trusted.

use crate::error::OpenError;
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::names::Name;
use crate::reserved::place;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Another address of the server that has a port at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// The server's port.
    pub port: u16,
    /// The server's name, if it has one.
    pub name: Option<Name>,
    /// The address.
    pub address: String,
}

/// A post that others can read until this is dropped.
#[derive(Debug)]
pub struct Posted {
    _socket: OwnedFd,
}

/// Bytes of the longest abstract name.
const NAME_MAX: usize = 107;

impl Post {
    /// Shows the post to callers at this interface. `None` if another process shows the same post, or it is too long, or no single word of printable characters.
    ///
    /// # Errors
    ///
    /// [`OpenError::System`]: no descriptor is left.
    pub fn show(&self, interface: &Interface, ether_type: EtherType) -> Result<Option<Posted>, OpenError> {
        let name = self.name.as_ref().map_or("", Name::as_str);
        let text = format!("{}at/{}/{name}/{}", place(interface, ether_type), self.port, self.address);
        if text.len() > NAME_MAX || !self.address.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(None);
        }
        match bind(&text) {
            Ok(socket) => Ok(Some(Posted { _socket: socket })),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(error) => Err(OpenError::System { operation: "a post", error: error.into() }),
        }
    }

    /// The posts at this interface, which is in this thread's network namespace.
    pub fn at(interface: &Interface, ether_type: EtherType) -> Vec<Self> {
        let texts = names_behind(&format!("{}at/", place(interface, ether_type)));
        texts.iter().filter_map(|text| Self::parse(text)).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (port, rest) = text.split_once('/')?;
        let (name, address) = rest.split_once('/')?;
        let name = match name {
            "" => None,
            name => Some(name.parse().ok()?),
        };
        Some(Self { port: port.parse().ok()?, name, address: address.into() })
    }
}

/// A socket with that abstract name.
fn bind(name: &str) -> Result<OwnedFd, Errno> {
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &name)?;
    Ok(socket)
}

/// The abstract names in this thread's network namespace that begin so, without that beginning.
fn names_behind(beginning: &str) -> Vec<String> {
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
    use crate::address::Mac;
    use crate::interface::State;

    #[test]
    fn posts_are_read_as_they_are_written_until_they_end() {
        // No interface has this number; the tests of other processes have other names.
        let index = u32::MAX - std::process::id();
        let (mac, state) = (Mac::default(), State::Up);
        let interface = Interface { name: "x".into(), index, mac, mtu: 1500, state, xdp: None, namespace: 0 };
        let ether_type = EtherType::default();
        let post = |port, name: Option<&str>, address: &str| Post {
            port,
            name: name.map(|name| name.parse().unwrap()),
            address: address.into(),
        };
        let posts = [post(1, None, "shm:/run/a#5"), post(2, Some("greeter"), "udp://127.0.0.1:7400")];
        let shown: Vec<_> = posts.iter().map(|post| post.show(&interface, ether_type).unwrap()).collect();
        assert!(shown.iter().all(Option::is_some));
        let mut seen = Post::at(&interface, ether_type);
        seen.sort_by_key(|post| post.port);
        assert_eq!(seen, posts);
        assert!(Post::at(&interface, EtherType::LOCAL_EXPERIMENTAL_2).is_empty());
        for unfit in ["shm:/a b", &format!("shm:{}", "n".repeat(99))] {
            assert!(post(3, None, unfit).show(&interface, ether_type).unwrap().is_none(), "{unfit}");
        }
        drop(shown);
        assert!(Post::at(&interface, ether_type).is_empty());
        for bad in ["", "1", "1/x", "x//shm:a", "1/7/shm:a", "70000//shm:a"] {
            assert_eq!(Post::parse(bad), None, "{bad}");
        }
    }
}
