//! The peers: their programs, and with which transport of Stoop each is compared.

use crate::cells::{Cell, Placement};
use std::path::PathBuf;

/// The mechanism that carries a peer's messages. Stoop is compared over the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Memory,
    Unix,
    Tcp,
    SealedTcp,
    Udp,
    SealedUdp,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) carrier: Carrier,
    /// The program's name after `peer-`, and that of its folder.
    pub(crate) program: &'static str,
    /// The argument of `serve`; the words behind its first one are arguments of `call`, too.
    pub(crate) argument: &'static str,
    /// The longest argument or result.
    longest: usize,
    /// The most callers at a time.
    callers_max: usize,
    /// Whether its waiting needs a processor of its own for each end.
    spins: bool,
}

impl Carrier {
    pub(crate) const ALL: [Carrier; 6] =
        [Carrier::Memory, Carrier::Unix, Carrier::Tcp, Carrier::SealedTcp, Carrier::Udp, Carrier::SealedUdp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Carrier::Memory => "shared memory",
            Carrier::Unix => "Unix sockets",
            Carrier::Tcp => "TCP",
            Carrier::SealedTcp => "TCP, encrypted",
            Carrier::Udp => "UDP",
            Carrier::SealedUdp => "UDP, encrypted",
        }
    }
}

impl Peer {
    pub(crate) fn is_stoop(&self) -> bool {
        self.program == "stoop"
    }

    /// The peer and its carrier in words.
    pub(crate) fn title(&self) -> String {
        format!("{} over {}", self.name, self.carrier.name())
    }

    /// The name of the library; several of its rows differ only in how its processes wait.
    pub(crate) fn library(&self) -> String {
        self.name.split(',').next().unwrap_or_default().to_owned()
    }

    /// Whether the peer can be measured in this cell.
    pub(crate) fn can(&self, cell: &Cell, placement: Placement) -> bool {
        let fits = cell.bytes <= self.longest && cell.callers <= self.callers_max;
        let has_streams = ["stoop", "tonic"].contains(&self.program);
        fits && (has_streams || cell.procedure != "stream") && !(self.spins && placement == Placement::One)
    }
}

/// All peers: the program's name, the argument of `serve`, the carrier, the longest message.
fn all() -> Vec<Peer> {
    const ANY: usize = 1 << 20;
    let row = |program: &'static str, argument: &'static str, carrier, longest| Peer {
        name: match program {
            "stoop" if argument.ends_with(" block") => "Stoop, block".into(),
            "stoop" => "Stoop".into(),
            "grpc" => "gRPC C++".into(),
            "capnp" => "capnp-rpc".into(),
            "volo" => "volo-thrift".into(),
            "iceoryx2" => format!("iceoryx2, {argument}"),
            "sockets" => "by hand".into(),
            other => other.into(),
        },
        carrier,
        program,
        argument,
        longest,
        // With several callers some calls of slotbus 0.2 never return.
        callers_max: if program == "slotbus" { 1 } else { usize::MAX },
        spins: argument == "spin",
    };
    let mut all = vec![
        row("stoop", "shm:peer-stoop", Carrier::Memory, ANY),
        row("iceoryx2", "spin", Carrier::Memory, ANY),
        row("iceoryx2", "yield", Carrier::Memory, ANY),
        row("iceoryx2", "event", Carrier::Memory, ANY),
        row("slotbus", "", Carrier::Memory, ANY),
        row("stoop", "unix:@peer-stoop", Carrier::Unix, ANY),
    ];
    let both = ["tonic", "grpc", "tarpc", "volo", "capnp", "sockets"];
    all.extend(both.map(|program| row(program, "unix", Carrier::Unix, ANY)));
    all.push(row("stoop", "tcp://127.0.0.1:0", Carrier::Tcp, ANY));
    all.push(row("stoop", "tcp://127.0.0.1:0 block", Carrier::Tcp, ANY));
    all.extend(both.map(|program| row(program, "tcp", Carrier::Tcp, ANY)));
    all.push(row("libtirpc", "tcp", Carrier::Tcp, ANY));
    all.push(row("stoop", "tcp://127.0.0.1:0 sealed", Carrier::SealedTcp, ANY));
    all.push(row("tonic", "tcp sealed", Carrier::SealedTcp, ANY));
    all.push(row("stoop", "udp://127.0.0.1:0 sealed", Carrier::SealedUdp, ANY));
    all.push(row("stoop", "udp://127.0.0.1:0", Carrier::Udp, ANY));
    all.push(row("stoop", "udp://127.0.0.1:0 block", Carrier::Udp, ANY));
    all.push(row("libtirpc", "udp", Carrier::Udp, 60_000));
    all.push(row("sockets", "udp", Carrier::Udp, 65_000));
    all
}

/// Where the programs are: beside this one.
pub(crate) fn path(program: &str) -> PathBuf {
    let own = std::env::current_exe().expect("Linux tells a program's path");
    own.with_file_name(format!("peer-{program}"))
}

/// The peers named in `only` (all, if it is empty) whose programs were built. Stoop is always among them.
pub(crate) fn present(only: &[String]) -> Result<Vec<Peer>, String> {
    let named =
        |peer: &Peer| only.is_empty() || peer.is_stoop() || only.iter().any(|name| name == peer.program);
    if let Some(unknown) = only.iter().find(|name| !all().iter().any(|peer| peer.program == name.as_str())) {
        return Err(format!("no peer is called {unknown}"));
    }
    let (present, missing): (Vec<Peer>, Vec<Peer>) =
        all().into_iter().filter(named).partition(|peer| path(peer.program).exists());
    for peer in missing {
        eprintln!("{} is left out: {} was not built", peer.title(), path(peer.program).display());
    }
    Ok(present)
}
