//! The messages of Sun RPC, without I/O: the driver passes in bytes and the time, and takes out bytes and deadlines.
//!
//! | module | has | by |
//! |---|---|---|
//! | [`message`] | calls and replies, their headers and all states of a reply | RFC 5531 §9 |
//! | [`auth`] | credentials and verifiers: any flavor as opaque data, AUTH_NONE and AUTH_SYS | RFC 5531 §8.2, §10, A |
//! | [`record`] | messages on a byte stream | RFC 5531 §11 |
//! | [`calls`] | a caller's outstanding calls: replies by xid, retransmission, deadlines | RFC 5531 §5, §9 |
//! | [`reply_cache`] | a server's replies, which answer retransmitted calls | RFC 5531 §5 |
//! | [`rpcbind`] | the port mapper and rpcbind: where a program listens | RFC 1833 |
//!
//! Arguments and results are XDR: the crate `stoop-xdr`. Nothing here trusts a peer: servers neither.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod auth;
pub mod calls;
pub mod message;
pub mod record;
pub mod reply_cache;
mod retransmit;
pub mod rpcbind;
mod structure;
mod xid;

pub use retransmit::Retransmission;
pub use stoop_exchange::Instant;
pub use xid::{Xid, Xids};
