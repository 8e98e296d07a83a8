//! Names that one endpoint of a network namespace has at a time. Only a process that may open packet sockets can have one.
//!
//! A name is a fan-out group of packet sockets (packet(7), PACKET_FANOUT) that has room for one socket. The kernel numbers these groups
//! for each network namespace, and refuses the next socket with ENOSPC. A group ends with its socket, so a name is free again when its
//! process has ended, however it ended. Every user could take an abstract name of a Unix socket instead, and keep a server from its port.
//!
//! The number of the group, its kind and the protocol of its socket are a hash of the name. A group that agrees in the number alone is another
//! program's or that of another name, and gives EINVAL. So each name has [`PLACES`] groups, and its endpoint holds those that it gets. The protocols are none of an Ethernet: no frame is compared with them.

use crate::error::{OpenError, failed};
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::packet_socket::{Group, join_first};
use crate::privilege::Capability;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::thread;
use std::time::{Duration, Instant};

/// A name, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    _sockets: Vec<OwnedFd>,
}

/// Groups of a name. With 100 groups of others in the namespace, two in a million names find all of theirs in use, and
/// are refused.
const PLACES: usize = 2;

/// The beginning of all names that are about endpoints at this interface whose packets have that EtherType.
pub(crate) fn place(interface: &Interface, ether_type: EtherType) -> String {
    format!("stoop-ether/{}/{ether_type}/", interface.index)
}

/// How long [`Reserved::once_given_back`] tries: longer than a child takes to execute its program on a busy machine.
const GIVING_BACK: Duration = Duration::from_millis(500);

impl Reserved {
    /// The same as [`new`](Self::new), but waits for a name that is being given back. A child that another thread starts has copies of all
    /// descriptors until it executes its program (fork(2)), and a name with them.
    pub(crate) fn once_given_back(name: &str) -> Result<Option<Self>, OpenError> {
        let until = Instant::now() + GIVING_BACK;
        loop {
            let reserved = Self::new(name)?;
            if reserved.is_some() || Instant::now() >= until {
                return Ok(reserved);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// `None` if another socket has the name.
    pub(crate) fn new(name: &str) -> Result<Option<Self>, OpenError> {
        let failed = failed("reserving a port or a name (from Linux 5.11 on)", Capability::OF_PACKET_RING);
        let mut sockets = Vec::new();
        for group in groups(name) {
            match join_first(group, Some(1)) {
                Ok(socket) => sockets.push(socket),
                Err(Errno::NOSPC) => return Ok(None),
                Err(Errno::INVAL) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if sockets.is_empty() { Err(failed(Errno::INVAL)) } else { Ok(Some(Self { _sockets: sockets })) }
    }

    /// Whether a socket of this thread's network namespace has the name.
    pub(crate) fn is_taken(name: &str) -> bool {
        // A machine without /proc shows none. To join takes the kernel some milliseconds, because that socket has to be closed.
        let shown = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap_or_default();
        let is_shown = |group: &Group| {
            let protocol = format!("{:04x}", group.protocol);
            // sk, RefCnt, Type, Proto, …
            shown.lines().any(|line| line.split_whitespace().nth(3) == Some(&protocol))
        };
        // Whoever wants the name meanwhile finds a group with other room, which is not that of the name.
        groups(name)
            .into_iter()
            .filter(is_shown)
            .any(|group| join_first(group, None).err() == Some(Errno::NOSPC))
    }
}

fn groups(name: &str) -> [Group; PLACES] {
    std::array::from_fn(|place| {
        // FNV-1a, and a step that spreads it over the upper bits.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ place as u64, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [a, b, c, d, e, ..] = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        Group {
            number: u16::from_be_bytes([a, b]),
            // Types of frames begin at 0x0600. The kernel looks for the sockets of a frame by the last digit of its type: not that of
            // our own types, of IP or of ARP.
            protocol: 0x0107 + 16 * u16::from(c % 80) + u16::from(d % 6),
            kind: e % 3,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc;

    #[test]
    fn name_is_taken_until_it_is_dropped() {
        let name = format!("stoop-test-reserved/{}", std::process::id());
        let reserved = match Reserved::new(&name) {
            Err(why @ OpenError::NotPermitted { .. }) => return println!("SKIPPED: {why}"),
            reserved => reserved.unwrap().unwrap(),
        };
        assert!(Reserved::new(&name).unwrap().is_none());
        assert!(Reserved::is_taken(&name) && Reserved::is_taken(&name));
        let other = format!("{name}0");
        assert!(!Reserved::is_taken(&other));
        assert!(Reserved::new(&other).unwrap().is_some());
        drop(reserved);
        assert!(!Reserved::is_taken(&name));
        assert!(Reserved::new(&name).unwrap().is_some());
    }

    #[test]
    fn name_that_a_child_still_holds_is_waited_for() {
        let name = format!("stoop-test-given-back/{}", std::process::id());
        let reserved = match Reserved::new(&name) {
            Err(why @ OpenError::NotPermitted { .. }) => return println!("SKIPPED: {why}"),
            reserved => reserved.unwrap().unwrap(),
        };
        // What a child has between fork and exec.
        let copies: Vec<_> = reserved._sockets.iter().map(|socket| socket.try_clone().unwrap()).collect();
        drop(reserved);
        assert!(Reserved::new(&name).unwrap().is_none());
        let (begin, has_begun) = mpsc::channel();
        let waiting = thread::spawn(move || {
            begin.send(()).unwrap();
            Reserved::once_given_back(&name).unwrap().is_some()
        });
        has_begun.recv().unwrap();
        drop(copies);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn group_of_another_program_with_the_same_number_takes_no_name() {
        let name = format!("stoop-test-foreign/{}", std::process::id());
        let foreign = |group: Group| join_first(Group { protocol: 0x0106, ..group }, Some(1));
        let mut others = groups(&name).into_iter().map(foreign);
        let _first = match others.next().unwrap() {
            Err(Errno::PERM) => return println!("SKIPPED: no packet socket is permitted"),
            socket => socket.unwrap(),
        };
        let reserved = Reserved::new(&name).unwrap().unwrap();
        assert!(Reserved::new(&name).unwrap().is_none() && Reserved::is_taken(&name));
        drop(reserved);
        let _all: Vec<_> = others.map(Result::unwrap).collect();
        assert!(matches!(Reserved::new(&name), Err(OpenError::Unsupported { .. })));
        assert!(!Reserved::is_taken(&name));
    }

    #[test]
    fn groups_of_names_differ_and_receive_no_type_of_frames() {
        let all: Vec<_> = (0..200).flat_map(|port| groups(&format!("stoop-ether/2/0x88b5/{port}"))).collect();
        assert!(all.iter().all(|group| (0x0107..0x0600).contains(&group.protocol)));
        assert!(all.iter().all(|group| (7..=12).contains(&(group.protocol % 16))));
        let distinct: HashSet<_> =
            all.iter().map(|group| (group.number, group.protocol, group.kind)).collect();
        assert_eq!(distinct.len(), all.len());
    }
}
