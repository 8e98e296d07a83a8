//! Where programs listen: the port mapper, rpcbind version 2, and rpcbind versions 3 and 4 (RFC 1833).
//!
//! Real rpcbinds differ from what one would expect:
//!
//! - `GETADDR` ignores the netid of its argument: it answers for the transport that the call came on. If the version is
//!   not registered it answers with another one's address, as `GETPORT` does; [`procedure::GETVERSADDR`] is exact.
//! - `SET` of a registered program with another address answers `false`: `UNSET` comes first.
//! - `CALLIT` and `BCAST` answer only if the call succeeds. Over UDP, they and `INDIRECT` answer from another port than the
//!   one asked: a connected socket never sees that.
//! - Messages are at most 9000 bytes long, in one fragment.

mod address;
mod portmap;
mod rpcb;
mod statistics;

pub use address::{parse_universal, universal};
pub use portmap::{CallIt, CallItResult, IPPROTO_TCP, IPPROTO_UDP, Mapping};
pub use rpcb::{Entry, NetworkBuffer, RemoteCall, RemoteResult, Rpcb};
pub use statistics::{AddressCount, RemoteCallCount, Statistics};

use crate::message::ProcedureId;

/// The program number of the port mapper and rpcbind (RFC 1833 §2.1, §3.1).
pub const PROGRAM: u32 = 100_000;

/// Its port, for UDP and TCP (RFC 1833 §2, §3).
pub const PORT: u16 = 111;

/// Its Unix socket on Linux. It knows the user of its peer, who then owns what is registered.
pub const SOCKET: &str = "/run/rpcbind.sock";

/// Bytes of the longest message that rpcbind takes.
pub const MESSAGE_MAX: usize = 9000;

/// A version of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The port mapper: IPv4 only (RFC 1833 §3).
    PortMapper = 2,
    /// rpcbind version 3 (RFC 1833 §2.2.1).
    Three = 3,
    /// rpcbind version 4 (RFC 1833 §2.2.2).
    Four = 4,
}

impl Version {
    /// A procedure of this version.
    pub const fn procedure(self, procedure: u32) -> ProcedureId {
        ProcedureId { program: PROGRAM, version: self as u32, procedure }
    }
}

/// Numbers of procedures (RFC 1833 §2.1, §3.1).
pub mod procedure {
    /// Does nothing. `()` to `()`, all versions.
    pub const NULL: u32 = 0;
    /// Registers. [`Mapping`](super::Mapping) (version 2) or [`Rpcb`](super::Rpcb) to `bool`.
    pub const SET: u32 = 1;
    /// Ends a registration. [`Mapping`](super::Mapping) (version 2, whose protocol and port are ignored) or
    /// [`Rpcb`](super::Rpcb), whose netid may be empty for all, to `bool`.
    pub const UNSET: u32 = 2;
    /// Version 2: [`Mapping`](super::Mapping), whose port is ignored, to the port as `u32`, or 0.
    pub const GETPORT: u32 = 3;
    /// Versions 3 and 4: [`Rpcb`](super::Rpcb) to a universal address, or an empty string.
    pub const GETADDR: u32 = 3;
    /// All registrations. `()` to a [`Chain`](stoop_xdr::Chain) of [`Mapping`](super::Mapping) (version 2) or
    /// [`Rpcb`](super::Rpcb).
    pub const DUMP: u32 = 4;
    /// Calls a procedure on rpcbind's machine. [`CallIt`](super::CallIt) to [`CallItResult`](super::CallItResult)
    /// (version 2), or [`RemoteCall`](super::RemoteCall) to [`RemoteResult`](super::RemoteResult); version 4 calls it BCAST.
    pub const CALLIT: u32 = 5;
    /// Versions 3 and 4: `()` to the seconds since 1970 as `u32`.
    pub const GETTIME: u32 = 6;
    /// Versions 3 and 4: a universal address to a [`NetworkBuffer`](super::NetworkBuffer).
    pub const UADDR2TADDR: u32 = 7;
    /// Versions 3 and 4: a [`NetworkBuffer`](super::NetworkBuffer) to a universal address.
    pub const TADDR2UADDR: u32 = 8;
    /// Version 4: as [`GETADDR`], and empty if just this version is not registered.
    pub const GETVERSADDR: u32 = 9;
    /// Version 4: as [`CALLIT`], and errors are replies, too: SYSTEM_ERR for any error of the program.
    pub const INDIRECT: u32 = 10;
    /// Version 4: [`Rpcb`](super::Rpcb) to a [`Chain`](stoop_xdr::Chain) of [`Entry`](super::Entry).
    pub const GETADDRLIST: u32 = 11;
    /// Version 4: `()` to three [`Statistics`](super::Statistics), of versions 2, 3 and 4.
    pub const GETSTAT: u32 = 12;
}
