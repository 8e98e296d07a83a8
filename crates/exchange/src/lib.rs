//! The packet exchange protocol, without I/O: the driver passes in packets and the time, and takes out packets and
//! deadlines.
//!
//! The protocol follows Birrell & Nelson, as Firefly §3.1 and Peregrine §4 use it: a result acknowledges its call, the
//! next call of a lane acknowledges the last result, and nothing else is sent while no packet is lost.
//! `docs/protocol.md` describes it in prose. [`caller`] and [`server`] are its two halves; [`binder`] makes the binding
//! that both use; [`outcome`] decides whether a call may be sent again, and [`retry`] when one that
//! was refused for overload; [`bulk`] carries messages of many packets,
//! [`pipe`] pipes of calls, [`stream`] messages on a byte stream. [`shares`] divides what a server has among its callers.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod binder;
pub mod bulk;
pub mod caller;
mod flow;
mod interfaces;
mod memory;
pub mod outcome;
pub mod pipe;
mod retransmit;
pub mod retry;
mod room;
pub mod server;
pub mod shares;
pub mod stream;
mod time;

pub use flow::Flow;
pub use interfaces::{FORMS, FORMS_MAX, Found, Interface, Interfaces, OlderForm, Procedure, fingerprint};
pub use memory::{has_margin, lengthen, reserve, zeroed};
pub use retransmit::RoundTrip;
pub use time::Instant;
