//! Errors of opening an endpoint.

use crate::privilege::{Capability, explain};
use rustix::io::Errno;
use std::{fmt, io};

/// Why an endpoint could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// This network namespace has no interface of this name.
    NoInterface(String),
    /// The interface is no Ethernet: the loopback interface, a tunnel.
    NotEthernet(String),
    /// Nothing can be sent: the interface is down, or has no carrier.
    Down(String),
    /// The kernel refuses for want of privilege.
    NotPermitted {
        /// What the backend needs.
        needed: &'static [Capability],
        /// What the process lacks of that. Empty if the process has all of it in vain, as in a user namespace
        /// of its own.
        missing: Vec<Capability>,
    },
    /// The process may not lock as much memory as AF_XDP needs at least.
    LockedMemory,
    /// Another endpoint has this port.
    PortTaken(u16),
    /// Another endpoint at this interface has this [name](crate::names::Name).
    NameTaken(String),
    /// All ports for callers are taken, or all endpoints of this process's group.
    NoneFree,
    /// Another endpoint, of this process or another, has an XDP program at this interface. Use a packet ring.
    XdpTaken(String),
    /// The kernel, or this interface, cannot do it.
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
    /// The kernel fails: no memory or no descriptor is left.
    System {
        /// The operation.
        operation: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
}

impl OpenError {
    /// The error of a backend that needs these capabilities for a step that needs some of them.
    pub(crate) fn of_backend(self, needed: &'static [Capability]) -> Self {
        match self {
            Self::NotPermitted { .. } => Self::NotPermitted { needed, missing: Capability::missing(needed) },
            error => error,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface(name) => write!(f, "there is no network interface `{name}`"),
            Self::NotEthernet(name) => write!(f, "the network interface `{name}` is no Ethernet"),
            Self::Down(name) => write!(f, "the network interface `{name}` is down or has no carrier"),
            Self::NotPermitted { needed, missing } => explain(f, needed, missing),
            Self::LockedMemory => f.write_str(
                "the user may lock too little memory for AF_XDP (RLIMIT_MEMLOCK); raise that to 16 MiB by `ulimit -l 16384` or by \
                 `LimitMEMLOCK=16M` in its systemd unit, or grant CAP_IPC_LOCK, or use a packet ring",
            ),
            Self::PortTaken(port) => write!(f, "another endpoint has port {port}"),
            Self::NameTaken(name) => write!(f, "another endpoint has the name {name}"),
            Self::NoneFree => f.write_str(
                "no endpoint is free at the interface: this process has as many as it may have, or others have all ports; drop bindings \
                 that are no longer used",
            ),
            Self::XdpTaken(name) => {
                write!(f, "the network interface `{name}` has an XDP program already; use a packet ring")
            }
            Self::Unsupported { operation, error } => write!(f, "{operation} is not possible here: {error}"),
            Self::System { operation, error } => write!(f, "{operation}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unsupported { error, .. } | Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match error {
            OpenError::NoInterface(_) => io::ErrorKind::NotFound,
            OpenError::NotEthernet(_) => io::ErrorKind::InvalidInput,
            OpenError::Down(_) => io::ErrorKind::NetworkDown,
            OpenError::NotPermitted { .. } | OpenError::LockedMemory => io::ErrorKind::PermissionDenied,
            OpenError::PortTaken(_)
            | OpenError::NameTaken(_)
            | OpenError::XdpTaken(_)
            | OpenError::NoneFree => io::ErrorKind::AddrInUse,
            OpenError::Unsupported { .. } => io::ErrorKind::Unsupported,
            OpenError::System { error, .. } => return error,
        };
        Self::new(kind, error)
    }
}

/// The error for a failed system call of a backend that needs these capabilities.
pub(crate) fn failed(
    operation: &'static str,
    needed: &'static [Capability],
) -> impl FnOnce(Errno) -> OpenError {
    move |error| match error {
        Errno::PERM | Errno::ACCESS => {
            OpenError::NotPermitted { needed, missing: Capability::missing(needed) }
        }
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::AFNOSUPPORT | Errno::NOPROTOOPT => {
            OpenError::Unsupported { operation, error: error.into() }
        }
        _ => OpenError::System { operation, error: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named_with_the_way_to_grant_them() {
        let error = OpenError::NotPermitted {
            needed: Capability::OF_XDP,
            missing: vec![Capability::NetAdmin, Capability::Bpf],
        };
        let said = error.to_string();
        assert!(said.contains("lacks CAP_NET_ADMIN, CAP_BPF;"), "{said}");
        // `setcap` replaces the capabilities that a program has: the command names all that it needs.
        assert!(said.contains("`setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM`"), "{said}");
        assert!(said.contains("`AmbientCapabilities=CAP_NET_RAW CAP_NET_ADMIN CAP_BPF`"), "{said}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::PermissionDenied);
    }
}
