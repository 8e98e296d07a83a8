//! The bytes of the packet exchange: the header that begins every packet and the messages that make a binding.
//!
//! This crate does no I/O and keeps no state. Parsed values are valid; later code does not check them again.
//! `docs/protocol.md` says what each packet answers and what answers it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bind;
mod bundle;
mod call_list;
mod cursor;
mod error;
mod extensions;
mod format;
mod header;
mod identity;
mod kind;
mod left;
pub mod metadata;
mod parts;
mod pipe;
mod reason;
mod receipt;
mod refused;
mod residence;
mod versions;

pub use bundle::Bundle;
pub use call_list::CallList;
pub use error::HeaderError;
pub use format::{
    CHECKSUM_LEN, HEADER_LEN, MAGIC, MAX_DATAGRAM, PACKET_DATA, PACKET_DATA_CHECKED, PACKET_DATA_SEALED,
    SEAL_LEN, STREAM_FRAGMENT, VERSION,
};
pub use header::{Challenge, Header, Template, flags};
pub use identity::{BindingId, CallNumber, LaneId};
pub use kind::Kind;
pub use left::{left_of_nanos, nanos_of_left};
pub use parts::PartsIn;
pub use pipe::{Data, PipeEnd, PipeReceipt, ReceiptBehind};
pub use reason::{FailureCode, RefusalCode, UnbindReason};
pub use receipt::Receipt;
pub use refused::{Refused, RetryAfter};
pub use residence::{is_mostly_queued, time_of_result};
pub use versions::Versions;
