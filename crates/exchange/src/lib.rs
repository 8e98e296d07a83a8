//! The packet exchange protocol, without I/O: packets and the time go in, packets and deadlines come out.
//!
//! After Birrell & Nelson, as Firefly §3.1 and Peregrine §4 use it: a result acknowledges its call, the next call of a
//! lane acknowledges the last result, and nothing else is sent while all goes well. `docs/protocol.md` is the
//! protocol in prose; [`caller`] and [`server`] are its two halves; [`binder`] makes the binding that both work on.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod binder;
pub mod bulk;
pub mod caller;
mod interfaces;
mod memory;
pub mod outcome;
mod retransmit;
pub mod server;
pub mod stream;
mod time;

pub use interfaces::{Interface, Interfaces, Procedure, fingerprint};
pub use memory::zeroed;
pub use retransmit::RoundTrip;
pub use time::Instant;
