//! XDR, the form of values in Sun RPC (RFC 4506), and what emitted code needs to read and write it.
//!
//! - [`Encode`] and [`Decode`] are the traits of types that have an XDR form; [`Xdr`] gives the length of the form.
//! - [`Writer`] writes into memory of the caller; [`Reader`] reads a message, borrowing from it where the type does.
//! - [`to_vec`], [`append`], [`from_slice`] and [`encoded_len`] do both for one value.
//!
//! The crate knows nothing of calls: any protocol that carries XDR can use it.
//!
//! # Types
//!
//! | XDR | in a value | as a part of another type |
//! |---|---|---|
//! | `int`, `unsigned int`, `hyper`, `unsigned hyper`, `float`, `double`, `bool` | `i32` `u32` `i64` `u64` `f32` `f64` `bool` | `value` |
//! | `char`, `short`, unsigned or not (rpcgen) | `i8` `i16` `u8` `u16`, 4 bytes each | `value` |
//! | `quadruple` | [`Quadruple`] | `value` |
//! | `void` | `()` | |
//! | enum | an `enum` | [`Writer::i32`]; [`Reader::i32`], [`Reader::unknown_value`] |
//! | `opaque x[N]` | [`OpaqueArray<N>`](OpaqueArray), or `[u8; N]` | `opaque_fixed` |
//! | `opaque x<MAX>` | [`Opaque`], or `Vec<u8>`, `&[u8]` | `opaque`, with the bound |
//! | `string x<MAX>` | `String`, `&str`, or bytes as above | `string`, [`Reader::text`], with the bound |
//! | `T x[N]` | `[T; N]`, or `Vec<T>` if long | `value`, or `array` |
//! | `T x<MAX>` | `Vec<T>` | `sequence`, with the bound |
//! | `T *x` | `Option<T>`; `Option<Box<T>>` in a type that contains itself | `value` or `optional` |
//! | `node *x` where `struct node { …; node *next; }` | [`Chain<Node>`](Chain), or `Vec<Node>`; `Node` has no `next` | `chain` |
//! | struct | a `struct` | [`Layout::record`]; each field |
//! | union | an `enum` | discriminant; [`Reader::unknown_arm`], [`Writer::fail_arm`] |
//!
//! A bound is [`UNBOUNDED`] where none is declared. `Vec<u8>` and `[u8; N]` are no values themselves: they could be
//! opaque data or arrays of C's `char`, and the compiler asks for the choice.
//!
//! # What the peer may send
//!
//! Bounds are enforced in both directions. The value of `bool`, the flag of optional data and enumerations must be
//! declared ones. The padding after opaque data and strings is written as zeros, as RFC 4506 §3 asks, and may be any bytes
//! when read, as with all known peers: libtirpc itself leaves bytes of earlier messages there, after credentials. Memory
//! and stack that a message can take are bounded: see [`limits`].
//!
//! # Emitted code
//!
//! ```
//! use stoop_xdr::{Chain, Decode, DecodeError, Encode, Layout, Reader, Writer, Xdr};
//!
//! /// `struct stamp { unsigned seconds; unsigned nanos; }`
//! #[derive(Clone, Debug, PartialEq)]
//! struct Stamp { seconds: u32, nanos: u32 }
//!
//! impl Xdr for Stamp {
//!     const LAYOUT: Layout = Layout::record(&[<u32 as Xdr>::LAYOUT, <u32 as Xdr>::LAYOUT]);
//! }
//! impl Encode for Stamp {
//!     #[inline]
//!     fn encode(&self, writer: &mut Writer<'_>) {
//!         writer.value(&self.seconds);
//!         writer.value(&self.nanos);
//!     }
//! }
//! impl<'a> Decode<'a> for Stamp {
//!     #[inline]
//!     fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
//!         Ok(Self { seconds: reader.value()?, nanos: reader.value()? })
//!     }
//! }
//!
//! /// `enum kind { FILE = 1, LINK = 5 }` and
//! /// `union entry switch (kind kind) { case FILE: stamp changed; case LINK: string target<1024>; }`
//! #[derive(Clone, Debug, PartialEq)]
//! enum Entry { File(Stamp), Link(String) }
//!
//! impl Xdr for Entry {
//!     const LAYOUT: Layout = Layout::variable(4);
//! }
//! impl Encode for Entry {
//!     fn encode(&self, writer: &mut Writer<'_>) {
//!         match self {
//!             Self::File(changed) => {
//!                 writer.i32(1);
//!                 writer.value(changed);
//!             }
//!             Self::Link(target) => {
//!                 writer.i32(5);
//!                 writer.string(target, 1024);
//!             }
//!         }
//!     }
//! }
//! impl<'a> Decode<'a> for Entry {
//!     fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
//!         match reader.i32()? {
//!             1 => Ok(Self::File(reader.value()?)),
//!             5 => Ok(Self::Link(reader.text(1024)?.into())),
//!             found => Err(reader.unknown_arm("entry", found)),
//!         }
//!     }
//! }
//!
//! // `struct node { entry entry; node *next; }; typedef node *list;`
//! let list: Chain<Entry> = [Entry::File(Stamp { seconds: 7, nanos: 0 }), Entry::Link("x".into())].into_iter().collect();
//! let bytes = stoop_xdr::to_vec(&list).unwrap();
//! assert_eq!(bytes, b"\0\0\0\x01\0\0\0\x01\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\x01x\0\0\0\0\0\0\0");
//! assert_eq!(stoop_xdr::from_slice::<Chain<Entry>>(&bytes), Ok(list));
//! ```
//!
//! [`Writer::value`] and [`Reader::value`] check the room of a type of fixed layout once; with `#[inline]` on its
//! `encode` and `decode`, each field is then one load and one store.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
mod codec;
mod error;
mod layout;
pub mod limits;
#[cfg(feature = "native")]
mod native;
mod optional;
mod reader;
mod scalar;
mod sequence;
mod writer;

pub use bytes::{Opaque, OpaqueArray};
pub use codec::{Decode, DecodeOwned, Encode, Xdr, append, encoded_len, from_slice, to_vec};
pub use error::{DecodeError, EncodeError, Fault};
pub use layout::Layout;
pub use reader::Reader;
pub use scalar::Quadruple;
pub use sequence::Chain;
pub use writer::Writer;

/// The bound of strings, opaque data and sequences that declare none: the largest length that 4 bytes can say
/// (RFC 4506 §4.10, §4.11, §4.13).
pub const UNBOUNDED: usize = u32::MAX as usize;
