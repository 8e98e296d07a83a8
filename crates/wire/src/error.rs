//! The reasons why bytes are not a packet.

use crate::{HEADER_LEN, MAGIC, VERSION};
use core::fmt;

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    Truncated {
        /// Bytes received.
        got: usize,
    },
    /// The first byte is not [`MAGIC`]: another protocol.
    Magic(u8),
    /// A version that this side does not speak.
    Version(u8),
    /// A kind that this version does not have.
    Kind(u8),
    /// Flags that this version does not have and that a receiver may not ignore.
    Flags(u8),
    /// The packet is shorter than its header announces.
    PayloadShort {
        /// Bytes announced.
        announced: usize,
        /// Bytes received.
        got: usize,
    },
    /// The fragment begins or ends beyond the end of its message.
    OffsetBeyondMessage,
    /// A call or result longer than a packet that comes in one packet, or a shorter one in parts.
    NotInParts,
    /// Fields of a packet of a pipe that contradict each other.
    Pipe,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { got } => {
                write!(f, "{got} bytes are too few for a packet header of {HEADER_LEN}")
            }
            Self::Magic(byte) => {
                write!(f, "first byte {byte:#04x} instead of {MAGIC:#04x}: not a Stoop packet")
            }
            Self::Version(version) => write!(f, "protocol version {version}; this side speaks {VERSION}"),
            Self::Kind(kind) => write!(f, "unknown packet kind {kind}"),
            Self::Flags(flags) => write!(f, "unknown packet flags {flags:#04x}"),
            Self::PayloadShort { announced, got } => {
                write!(f, "the header announces {announced} bytes of payload, {got} arrived")
            }
            Self::OffsetBeyondMessage => f.write_str("the fragment does not lie within its message"),
            Self::NotInParts => f.write_str("only a message that is longer than a packet travels in parts"),
            Self::Pipe => f.write_str("the fields of a pipe's packet contradict each other"),
        }
    }
}

impl core::error::Error for HeaderError {}
