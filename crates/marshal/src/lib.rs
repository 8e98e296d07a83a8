//! The native form: how Rust values lie in a call packet.
//!
//! Little-endian, naturally aligned relative to the start of the payload, written in order, so that on the machines of
//! today a value of a fixed size is marshaled by plain loads and stores. `docs/native-form.md` has every byte.
//!
//! - [`Data`] is what can travel: scalars, strings, collections, and types that derive it.
//! - [`Writer`] fills the payload of a packet, and refuses what does not fit.
//! - [`Reader`] takes a payload apart, trusting nothing in it: see the bounds in [`limits`].
//!
//! Programs do not use this crate directly: `stoop` exports what they need.

#![forbid(unsafe_code)]

mod choice;
mod data;
mod description;
mod error;
mod fixed;
mod fixed_forms;
mod form;
mod gather;
mod in_place;
mod keyed;
mod layout;
mod layouts;
pub mod limits;
mod memory;
mod net;
mod pointer;
mod reader;
mod records;
mod scalar;
mod sequence;
mod shared;
mod sharing;
mod time;
mod tuple;
mod view;
mod writer;

pub use data::{Data, Scalar, is_fixed_at};
pub use description::{Description, Documented};
pub use error::{DecodeError, EncodeError};
pub use fixed::{FixedReader, FixedWriter};
pub use form::{Form, is_default, number_of};
pub use gather::{BORROWED_MIN, Borrowed, GatherList};
pub use in_place::{bytes_before_slice, check_filled};
pub use layout::{Fields, Layout, Leading};
pub use layouts::{LaterItem, Layouts, LeftOut, Revision};
pub use memory::zeros;
pub use reader::Reader;
pub use records::RecordAt;
pub use shared::Shared;
pub use view::{Extent, OutView, View, Views, bytes_of};
pub use writer::{Progress, Writer};
