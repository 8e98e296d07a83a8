//! Sun RPC (ONC RPC, RFC 5531): callers of the programs that exist, and servers for their clients. Cargo feature `onc`.
//!
//! | layer | for |
//! |---|---|
//! | [`rusers`], [`rstat`], [`rpcinfo`] | services that many hosts have |
//! | [`broadcast`] | a call of a procedure on all hosts of a network |
//! | [`call`] | one call of a procedure on a host |
//! | [`register`] | a server of one program, registered with rpcbind |
//! | [`Client`] | full control: transport, time-outs, credentials, reserved ports |
//! | [`Server`] | any number of programs, over UDP, TCP and Unix sockets, beside Stoop's own protocol |
//! | [`rpcbind`] | which programs a host has |
//! | [`stub`] | what emitted code is written against |
//!
//! Arguments and results are XDR ([`xdr`]): write their types by hand, or have `stoop gen x` make them of a `.x` file.

pub(crate) mod address;
pub(crate) mod authentication;
pub(crate) mod broadcast;
pub(crate) mod caller;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod locate;
pub(crate) mod options;
pub(crate) mod placement;
pub(crate) mod program_client;
pub mod rpcbind;
pub(crate) mod server;
pub(crate) mod services;
pub mod stub;

pub use crate::onc::address::Transport;
pub use crate::onc::authentication::{Auth, AuthStatus, AuthSys, Authentication, Credential, Flavor, Groups};
pub use crate::onc::broadcast::{BroadcastAddress, BroadcastReply, broadcast};
pub use crate::onc::client::{Client, call};
pub use crate::onc::options::{ClientOptions, Retransmission};
pub use crate::onc::server::options::{ConnectionLimits, ReplyCacheLimits};
pub use crate::onc::services::{HostStatistics, rpcinfo, rstat, rusers};
pub use crate::program::{VersionId, deny, unavailable};
/// The same as [`stoop::Server`](crate::Server).
#[doc(no_inline)]
pub use crate::server::Server;
pub use crate::server::sun::register;
pub use stoop_onc::auth::Identity;
pub use stoop_onc::message::VersionRange;
/// The form of arguments and results.
pub use stoop_xdr as xdr;
