//! Sockets that the process which started this one has made for it: socket activation, as systemd does it (`sd_listen_fds(3)`).
//!
//! `LISTEN_PID` names this process, `LISTEN_FDS` the number of sockets, which are descriptors 3 and up, and `LISTEN_FDNAMES` their
//! names with `:` between. They are taken from the environment when a socket is first looked for. A socket outlives this process with
//! the one that made it: what arrives while no server runs waits in it for the next.

#![allow(unsafe_code)]

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{SocketAddrUnix, SocketType, getsockname, sockopt};
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::sync::{LazyLock, Mutex, PoisonError};

/// First descriptor: behind standard input, output and error.
const FIRST: i32 = 3;
/// More sockets are not looked at.
const MOST: i32 = 1024;

/// An inherited socket that is not taken yet.
struct Inherited {
    socket: OwnedFd,
    name: String,
    kind: SocketType,
    address: Bound,
}

static SOCKETS: LazyLock<Mutex<Vec<Inherited>>> = LazyLock::new(|| Mutex::new(inherit()));

fn inherit() -> Vec<Inherited> {
    let number = |name| env::var(name).ok().and_then(|value: String| value.parse::<i32>().ok());
    if number("LISTEN_PID") != Some(std::process::id() as i32) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    (FIRST..FIRST + count)
        .zip(names)
        .filter_map(|(descriptor, name)| Inherited::new(descriptor, name))
        .collect()
}

impl Inherited {
    fn new(descriptor: i32, name: String) -> Option<Self> {
        let is_socket = fs::metadata(format!("/proc/self/fd/{descriptor}")).ok()?.file_type().is_socket();
        if !is_socket {
            return None;
        }
        // SAFETY: the descriptor is open, for it has just been looked up. By the protocol it was made for this process, whose id is
        // in LISTEN_PID, and belongs to the first that takes it; this runs once. A program that takes these sockets itself
        // removes the variables first, as sd_listen_fds(3) has it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
        let (kind, address) = (sockopt::socket_type(&socket).ok()?, Bound::of(&socket)?);
        Some(Self { socket, name, kind, address })
    }
}

/// The address to which a socket is bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Internet(SocketAddr),
    Unix(SocketAddrUnix),
}

impl Bound {
    fn of(socket: &OwnedFd) -> Option<Self> {
        let address = getsockname(socket).ok()?;
        match SocketAddr::try_from(address.clone()) {
            Ok(address) => Some(Self::Internet(address)),
            Err(_) => SocketAddrUnix::try_from(address).ok().map(Self::Unix),
        }
    }
}

/// Takes the inherited socket of that kind at that address, if there is one.
pub(crate) fn take(kind: SocketType, address: &Bound) -> Option<OwnedFd> {
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let place =
        sockets.iter().position(|inherited| inherited.kind == kind && inherited.address == *address)?;
    Some(sockets.swap_remove(place).socket)
}

/// Has this process receive at an inherited socket, alone of those that ask. Returns whether it does: `false` while another has it
/// open that has asked before. A socket for which the system knows no locks is every process's that asks.
pub(crate) fn claim(socket: impl rustix::fd::AsFd) -> bool {
    // A lock of the process (fcntl(2), "Traditional record locks"), which ends with it, or when it closes the socket. Others lock the
    // open file description, which all these processes share.
    let claimed = fcntl_lock(socket, FlockOperation::NonBlockingLockExclusive);
    !matches!(claimed, Err(Errno::AGAIN | Errno::ACCESS))
}

/// The addresses, as in a URI, of the inherited sockets of that name that are not taken yet.
pub fn named(name: &str) -> Vec<String> {
    let sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let named = sockets.iter().filter(|inherited| inherited.name == name);
    named.filter_map(|inherited| uri(inherited.kind, &inherited.address)).collect()
}

fn uri(kind: SocketType, address: &Bound) -> Option<String> {
    let address = match address {
        Bound::Internet(address) => {
            let scheme = if kind == SocketType::DGRAM { "udp" } else { "tcp" };
            return Some(format!("{scheme}://{address}"));
        }
        Bound::Unix(address) => address,
    };
    match address.abstract_name() {
        Some(name) => Some(format!("unix:@{}", String::from_utf8_lossy(name))),
        None => Some(format!("unix:{}", address.path()?.to_string_lossy())),
    }
}
