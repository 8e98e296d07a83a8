//! Why a value could not be put into, or taken out of, a payload.

use core::fmt;

/// Why arguments or results could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The values take more bytes than a message may have.
    TooLarge {
        /// Bytes of payload that would be needed, as far as that was found out.
        needed_at_least: usize,
        /// Bytes of payload there may be.
        limit: usize,
    },
    /// The process has no memory left for the message.
    NoMemory {
        /// Bytes of payload that would be needed, as far as that was found out.
        needed_at_least: usize,
    },
    /// Values inside values inside values: a longer chain than the receiver could follow on its stack.
    TooDeep,
    /// A sequence has more elements than its 32-bit count can say.
    TooMany {
        /// Elements of the sequence.
        count: usize,
    },
    /// The peer knows the interface as at an older revision, and an item that it does not know has another value than its default, or is
    /// a variant.
    Inexpressible {
        /// The item: `Entry.owner`, `Kind::Link`, or the name of a parameter.
        item: &'static str,
        /// The revision with which it came.
        since: u32,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::TooLarge { needed_at_least, limit } => write!(
                f,
                "the values need at least {needed_at_least} bytes, but a message of this binding has at most {limit}, the \
                 smaller of `BindOptions::max_message` and `Server::max_message`; raise that one, or send less at a time"
            ),
            EncodeError::NoMemory { needed_at_least } => write!(
                f,
                "the values need at least {needed_at_least} bytes, and the process has no memory left for them; send less at a \
                 time, or allow the process more memory (ulimit -v)"
            ),
            EncodeError::TooDeep => f.write_str(
                "the values are nested more deeply than a receiver could follow; send long chains as a Vec",
            ),
            EncodeError::TooMany { count } => {
                write!(
                    f,
                    "a sequence of {count} elements is longer than {}, the most that a count can say",
                    u32::MAX
                )
            }
            EncodeError::Inexpressible { item, since } => write!(
                f,
                "`{item}`, which came with revision {since}, cannot be told to a peer of an older revision; update the peer first, or \
                 leave the item at its default; for a variant, give its enum one under `#[stoop(otherwise)]`"
            ),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Why a payload is not what its type says. Nothing that it held has been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The payload ends inside a value.
    Truncated,
    /// More bytes than the values take.
    TrailingBytes {
        /// Bytes left over.
        count: usize,
    },
    /// A count of elements that the bytes left could not hold.
    CountTooLarge {
        /// Elements announced.
        count: u32,
    },
    /// Decoding would take more memory than a message of this size may; see [`limits`](crate::limits).
    OverBudget,
    /// The process that decodes has no memory left for the values. Their bytes may be right.
    NoMemory,
    /// Values nested too deeply; see [`limits`](crate::limits).
    TooDeep,
    /// Neither 0 nor 1 where a `bool`, an `Option` or a `Result` says which it is.
    BadFlag {
        /// The byte found.
        found: u8,
    },
    /// Not a Unicode scalar value where a `char` should be.
    BadChar {
        /// The number found.
        found: u32,
    },
    /// Text that is not UTF-8.
    BadText,
    /// An enumeration has no such variant.
    BadVariant {
        /// The enumeration.
        name: &'static str,
        /// The number of the variant found.
        found: u32,
    },
    /// A number or time outside of the range of its type on this machine.
    OutOfRange {
        /// The type.
        name: &'static str,
    },
    /// The same key twice in a map, or the same element twice in a set.
    Duplicate,
    /// A reference to a shared value that was not in this message, or has another type.
    BadReference {
        /// The reference found.
        found: u32,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the message ends inside a value"),
            DecodeError::TrailingBytes { count } => write!(f, "{count} bytes follow the last value"),
            DecodeError::CountTooLarge { count } => {
                write!(f, "a sequence announces {count} elements, more than the message can hold")
            }
            DecodeError::OverBudget => {
                f.write_str("the values would take far more memory than the message is long")
            }
            DecodeError::NoMemory => f.write_str("there is no memory left for the values"),
            DecodeError::TooDeep => f.write_str("the values are nested too deeply"),
            DecodeError::BadFlag { found } => write!(f, "a flag is {found}, neither 0 nor 1"),
            DecodeError::BadChar { found } => write!(f, "{found:#x} is not a character"),
            DecodeError::BadText => f.write_str("a text is not UTF-8"),
            DecodeError::BadVariant { name, found } => write!(f, "`{name}` has no variant {found}"),
            DecodeError::OutOfRange { name } => write!(f, "a value is out of the range of `{name}`"),
            DecodeError::Duplicate => f.write_str("a map or set holds the same key twice"),
            DecodeError::BadReference { found } => write!(f, "there is no shared value {found} of this type"),
        }
    }
}

impl core::error::Error for DecodeError {}
