//! The bytes of the packet exchange: the header that begins every packet and the messages that make a binding.
//!
//! Nothing here does I/O or keeps state. What has been parsed is valid; nothing later checks it again.
//! `docs/protocol.md` tells what each packet answers and what answers it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bind;
mod cursor;
mod extensions;
mod header;
mod reason;
mod receipt;

pub use header::{
    BindingId, CallNumber, Challenge, HEADER_LEN, Header, HeaderError, Kind, LaneId, MAGIC, MAX_DATAGRAM,
    PACKET_DATA, STREAM_FRAGMENT, Template, VERSION,
};
pub use reason::{FailureCode, RefusalCode, UnbindReason};
pub use receipt::Receipt;
