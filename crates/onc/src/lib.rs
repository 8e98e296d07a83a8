//! The messages of Sun RPC, without I/O: the driver passes in bytes and the time, and takes out bytes and deadlines.
//!
//! | module | has | by |
//! |---|---|---|
//! | [`message`] | calls and replies, their headers and all states of a reply | RFC 5531 §9 |
//! | [`auth`] | credentials and verifiers: any flavor as opaque data, AUTH_NONE and AUTH_SYS | RFC 5531 §8.2, §10, A |
//! | [`record`] | messages on a byte stream | RFC 5531 §11 |
//! | [`tls`] | the question whether a server goes on under TLS, and its answer | RFC 9289 §4.1 |
//! | [`calls`] | a caller's outstanding calls: replies by xid, retransmission, deadlines | RFC 5531 §5, §9 |
//! | [`outcome`] | whether a call without a result ran | |
//! | [`reply_cache`] | a server's replies, which answer retransmitted calls | RFC 5531 §5 |
//! | [`rpcbind`] | the port mapper and rpcbind: where a program listens | RFC 1833 |
//!
//! Arguments and results are XDR: the crate `stoop-xdr`. Nothing here trusts a peer, and no server either.
//!
//! # A call, from its caller to the server and back
//!
//! ```
//! use std::time::Duration;
//! use stoop_onc::auth::{Auth, Identity};
//! use stoop_onc::calls::Calls;
//! use stoop_onc::message::{self, Accepted, Call, ProcedureId, Reply, ReplyBody};
//! use stoop_onc::{Instant, Retransmission, Xids};
//!
//! const SQUARE: ProcedureId = ProcedureId { program: 0x2000_0099, version: 2, procedure: 1 };
//!
//! // The caller registers the call, and keeps its message to send it again.
//! let mut calls: Calls<Vec<u8>> = Calls::new(Retransmission::Measured, Xids::new([7; 16]));
//! let now = Instant::from_nanos(0);
//! let (_, message) = calls.begin(now, now + Duration::from_secs(25), |xid| {
//!     let call = Call { xid, procedure: SQUARE, credential: Auth::NONE, verifier: Auth::NONE };
//!     let mut message = Vec::new();
//!     message::append(&call, &9_u32, &mut message).expect("a number has a form");
//!     message
//! });
//!
//! // The server takes the message apart, and answers.
//! let (call, mut arguments) = Call::parse(message).expect("it is a call");
//! assert_eq!((call.procedure, Identity::of(call.credential)), (SQUARE, Ok(Identity::None)));
//! let mut reply = Vec::new();
//! match arguments.value::<u32>() {
//!     Ok(number) => message::append(&Reply::success(call.xid), &u64::from(number).pow(2), &mut reply),
//!     Err(_) => message::append(&Reply::accepted(call.xid, Accepted::GarbageArguments), &(), &mut reply),
//! }
//! .expect("a reply has a form");
//!
//! // The caller matches the reply to its call.
//! let (reply, mut results) = Reply::parse(&reply).expect("it is a reply");
//! assert!(calls.complete(now, reply.xid).is_some());
//! assert!(matches!(reply.body, ReplyBody::Accepted { status: Accepted::Success, .. }));
//! assert_eq!(results.value(), Ok(81_u64));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod auth;
pub mod calls;
pub mod message;
pub mod outcome;
pub mod record;
pub mod reply_cache;
mod retransmit;
pub mod rpcbind;
mod structure;
pub mod tls;
mod xid;

pub use retransmit::Retransmission;
pub use stoop_exchange::{Instant, RoundTrip};
pub use xid::{Xid, Xids};
