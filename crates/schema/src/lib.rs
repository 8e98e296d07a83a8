//! Signatures of procedures as trees, and values that are known at run time only.
//!
//! A signature (`place(at: Point{x: f64, y: f64}, name: [u8]) -> bool`) fixes every byte of a call and of its result. Every program has
//! those of its interfaces, and every server tells its own. From one:
//!
//! - [`Signature::parse`] makes a tree;
//! - [`Value`]s are read from the native form and written in it, with the same bytes as the types of the emitted stubs, and within the
//!   [limits](stoop_marshal::limits) of these;
//! - [`json`] shows them, and takes them from people;
//! - [`rust`] prints an interface that compiles.
//!
//! Of a server of Sun RPC the interface file says the same: [`sun`], with the feature `x`.
//!
//! ```
//! use stoop_schema::{Argument, Signature, Value};
//! let signature = Signature::parse("divide(by: i32) -> Result<i32, String>").unwrap();
//! let mut packet = Vec::new();
//! let mut writer = stoop_marshal::Writer::new(&mut packet, 0, 1440);
//! signature.put_call(&[Argument::Value(Value::Signed(7))], &mut writer).unwrap();
//! assert_eq!((writer.finish(), &packet[..4]), (Ok(4), &[7, 0, 0, 0][..]));
//! ```
//!
//! Texts and bytes may come from a hostile peer: trees, values and their printed forms are bounded ([`limits`]), and nothing that is
//! printed moves a terminal's cursor.

#![forbid(unsafe_code)]

mod decode;
mod described;
mod encode;
pub mod json;
mod layout;
pub mod limits;
mod message;
mod parse;
pub mod rust;
mod spelling;
#[cfg(feature = "x")]
pub mod sun;
mod tree;
mod value;

pub use encode::Misfit;
pub use message::{Argument, Outcome};
pub use parse::SyntaxError;
pub use tree::{Body, Field, Fields, Mode, Named, Number, Parameter, Shape, Signature, Style, Type, Variant};
pub use value::Value;
