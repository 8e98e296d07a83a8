//! Why a value could not be encoded or decoded.

use core::fmt;

/// Why a value has no XDR form, or its form does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The values take more bytes than there is room for.
    NoRoom {
        /// Bytes that all values together need.
        needed: usize,
        /// Bytes of room.
        room: usize,
    },
    /// A string, opaque data or a sequence is longer than its declaration allows (RFC 4506 §4.10, §4.11, §4.13).
    TooLong {
        /// Offset in the message at which it would have begun.
        position: usize,
        /// Its length, in bytes or elements.
        len: usize,
        /// The largest length allowed.
        max: usize,
    },
    /// An array of fixed length has another number of elements, or fixed opaque data another number of bytes
    /// (RFC 4506 §4.9, §4.12).
    WrongLength {
        /// Offset in the message at which it would have begun.
        position: usize,
        /// Its length, in bytes or elements.
        len: usize,
        /// The length declared.
        expected: usize,
    },
    /// A discriminant does not select the arm of the union that it is given with (RFC 4506 §4.15).
    WrongArm {
        /// Offset in the message at which the union would have begun.
        position: usize,
        /// The union.
        name: &'static str,
        /// The discriminant.
        discriminant: i64,
    },
    /// Values inside values: more levels than the stack allows. See [`limits`](crate::limits).
    TooDeep {
        /// Offset in the message at which the deepest value would have begun.
        position: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { needed, room } => {
                write!(f, "the values need {needed} bytes, and there is room for {room}")
            }
            Self::TooLong { position, len, max } => {
                write!(f, "the value at byte {position} has length {len}, and at most {max} is declared")
            }
            Self::WrongLength { position, len, expected } => {
                write!(f, "the value at byte {position} has length {len}, and exactly {expected} is declared")
            }
            Self::WrongArm { position, name, discriminant } => {
                write!(
                    f,
                    "the value at byte {position}: {discriminant} does not select this arm of union {name}"
                )
            }
            Self::TooDeep { position } => write!(f, "the values at byte {position} are nested too deeply"),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Why bytes are not the XDR form of the type that was expected, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset in the message of the value that is wrong.
    pub position: usize,
    /// The fault.
    pub fault: Fault,
}

/// The fault in bytes that should be a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The message ends inside a value.
    Truncated {
        /// Bytes that the value takes, as far as that is known.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A string, opaque data or a sequence is longer than its declaration allows (RFC 4506 §4.10, §4.11, §4.13).
    TooLong {
        /// The length announced, in bytes or elements.
        len: u32,
        /// The largest length allowed.
        max: usize,
    },
    /// Neither 0 nor 1 where a `bool` or the flag of optional data should be (RFC 4506 §4.4, §4.19).
    NotBool {
        /// The number found.
        found: u32,
    },
    /// A number that the enumeration does not name (RFC 4506 §4.3).
    UnknownValue {
        /// The enumeration.
        name: &'static str,
        /// The number found.
        found: i64,
    },
    /// A discriminant without an arm, in a union without a default (RFC 4506 §4.15).
    UnknownArm {
        /// The union.
        name: &'static str,
        /// The discriminant found.
        found: i64,
    },
    /// A number outside of the range of a type narrower than its 4 bytes.
    OutOfRange {
        /// The Rust type.
        name: &'static str,
        /// The number found.
        found: i64,
    },
    /// A string that is not UTF-8, where text was asked for.
    NotUtf8,
    /// The values would take more memory than a message of this size may. See [`limits`](crate::limits).
    OverBudget,
    /// Values inside values: more levels than the stack allows. See [`limits`](crate::limits).
    TooDeep,
    /// Bytes after the last value.
    Trailing {
        /// How many.
        count: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, left } => {
                write!(f, "expected a value of at least {needed} bytes, and {left} are left")
            }
            Self::TooLong { len, max } => write!(f, "expected a length of at most {max}, found {len}"),
            Self::NotBool { found } => write!(f, "expected 0 or 1, found {found:#x}"),
            Self::UnknownValue { name, found } => write!(f, "expected a value of enum {name}, found {found}"),
            Self::UnknownArm { name, found } => {
                write!(f, "expected a discriminant of union {name}, found {found}")
            }
            Self::OutOfRange { name, found } => {
                write!(f, "expected a number in the range of {name}, found {found}")
            }
            Self::NotUtf8 => f.write_str("expected UTF-8 text"),
            Self::OverBudget => f.write_str("the values would take far more memory than the message is long"),
            Self::TooDeep => f.write_str("the values are nested too deeply"),
            Self::Trailing { count } => write!(f, "expected the end, and {count} bytes are left"),
        }
    }
}

impl core::error::Error for DecodeError {}
