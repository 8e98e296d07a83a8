//! Values of types that are known at run time only.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A value of some [`Type`](crate::Type).
///
/// Floats are their bits, so that values can be compared and sorted; each is equal to itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// `()`, and a struct without fields.
    Unit,
    /// A `bool`.
    Bool(bool),
    /// A number of a type that has none below zero.
    Unsigned(u128),
    /// A number of a type that has.
    Signed(i128),
    /// The bits of an `f32`.
    F32(u32),
    /// The bits of an `f64`.
    F64(u64),
    /// A character.
    Char(char),
    /// A text.
    Text(String),
    /// A sequence or array of `u8`.
    Bytes(Vec<u8>),
    /// A `Duration`.
    Duration(Duration),
    /// A `SystemTime`: seconds since 1970, and nanoseconds after that second.
    Time(i64, u32),
    /// An address.
    Ip(IpAddr),
    /// An address with a port.
    Socket(Box<SocketAddr>),
    /// The elements of another sequence, array or set; the parts of a tuple; the fields of a struct.
    Sequence(Vec<Value>),
    /// A variant by its number, and its fields.
    Variant(u32, Vec<Value>),
    /// An `Option`.
    Option(Option<Box<Value>>),
    /// A `Result`.
    Result(Result<Box<Value>, Box<Value>>),
    /// Keys and values.
    Map(Vec<(Value, Value)>),
    /// A pointer to a value that is shared, and that the message has already: its number, from 1 on, in the order in which such values are
    /// complete.
    Shared(u32),
}

// Charged for each element of a sequence.
const _: () = assert!(size_of::<Value>() == 32);
