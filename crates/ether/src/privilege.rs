//! Capabilities that a backend needs, and how to grant only these.

use rustix::thread::{CapabilitySet, capabilities};
use std::fmt;

/// A capability of Linux (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Sockets that send and receive whole frames (packet(7)), and sockets of AF_XDP.
    NetRaw,
    /// An XDP program at an interface.
    NetAdmin,
    /// bpf(2).
    Bpf,
}

impl Capability {
    /// What a packet ring needs.
    pub const OF_PACKET_RING: &[Self] = &[Self::NetRaw];
    /// What AF_XDP needs. All of them count in the first user namespace only.
    pub const OF_XDP: &[Self] = &[Self::NetRaw, Self::NetAdmin, Self::Bpf];

    fn flag(self) -> CapabilitySet {
        match self {
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::Bpf => CapabilitySet::BPF,
        }
    }

    /// The capabilities among `needed` that this thread lacks.
    pub fn missing(needed: &[Self]) -> Vec<Self> {
        // The call fails only for a bad pointer or process number.
        let Ok(sets) = capabilities(None) else { return Vec::new() };
        needed.iter().copied().filter(|capability| !sets.effective.contains(capability.flag())).collect()
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NetRaw => "CAP_NET_RAW",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// Says what is missing, and how to grant it.
pub(crate) fn explain(
    f: &mut fmt::Formatter<'_>,
    needed: &[Capability],
    missing: &[Capability],
) -> fmt::Result {
    if missing.is_empty() {
        let all = joined(needed, ", ", |capability| capability.to_string());
        return write!(
            f,
            "the process has {all}, but the kernel refuses: the process is in a user namespace of its own, or a security module or \
             a seccomp filter forbids it"
        );
    }
    let names = joined(missing, ", ", |capability| capability.to_string());
    // All of them: `setcap` takes those away that it is not told.
    let file = joined(needed, ",", |capability| capability.to_string().to_lowercase());
    let unit = joined(needed, " ", |capability| capability.to_string());
    let only = if missing == needed { "that" } else { "what it needs" };
    write!(
        f,
        "the process lacks {names}; grant only {only} by `setcap {file}+ep PROGRAM`, or by \
         `AmbientCapabilities={unit}` in its systemd unit"
    )
}

fn joined(capabilities: &[Capability], by: &str, text: impl Fn(&Capability) -> String) -> String {
    capabilities.iter().map(text).collect::<Vec<_>>().join(by)
}
