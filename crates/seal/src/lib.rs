//! The protection of sealed packets: what is encrypted and authenticated, by which numbers, and when keys change.
//!
//! ```text
//! header 32 (clear, authenticated) │ data, encrypted │ number 8 │ tag 16
//! ```
//!
//! The two ends of a sealed binding have a [`Seal`] each, made of the same two secrets: one for packets of the caller, one for those of the
//! server. A packet gets a number that no other packet of its direction has; the nonce is made of it. Threads reserve [`Numbers`] in runs.
//! The header is associated data.
//!
//! Keys have *phases*, which a bit in the header tells. Both directions are in the same phase. An end goes on to the next phase when it
//! has used up the numbers or the time of the present one, or when a packet of the next phase opens. It goes on only after it has opened a
//! packet of its present phase, so that the two are never more than one phase apart. A packet of the phase before opens for one second
//! more; later it is as if lost. So a packet opens in two phases at most, in which no lane makes 2³¹ calls, and a copy of an old call
//! never counts as a new one.
//!
//! A byte stream is sealed in [records](RecordSealer), whose numbers are their places in it.
//!
//! This crate does no I/O, has no clock and no dependency, and knows no cipher but the [toy] of simulators: the driver brings
//! a [`Suite`]. Nothing here answers a packet that does not open.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod keyed;
mod records;
mod seal;
mod suite;
pub mod toy;

pub use records::{RECORD_DATA_MAX, RECORD_HEADER_LEN, RECORD_OVERHEAD, RecordOpener, RecordSealer};
pub use seal::{KEY_PHASE, Numbers, Opened, PHASE_NUMBERS, PHASE_NUMBERS_MAX, Seal, Side};
pub use suite::{Cipher, NONCE_LEN, Secret, Suite, TAG_LEN};

/// Bytes of the clear header of a packet.
pub const HEADER_LEN: usize = 32;

/// Bytes behind the data of a packet: its number and its tag.
pub const TRAILER_LEN: usize = NUMBER_LEN + TAG_LEN;

/// Bytes of a packet's number.
pub const NUMBER_LEN: usize = 8;
