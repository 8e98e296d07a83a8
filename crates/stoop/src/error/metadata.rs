//! Errors of metadata.

use std::fmt;
use stoop_wire::metadata::{BLOCK_MAX, BlockError, NAME_MAX, PAIRS_MAX};

/// Why metadata cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataError {
    /// A name is empty, longer than 64 bytes, or has other characters than lower-case letters, digits, `.`, `-` and `_`.
    Name,
    /// A `traceparent` or `tracestate` is malformed.
    TraceContext,
    /// The pairs take more than so many bytes: the most that the server takes.
    TooLong {
        /// That bound.
        most: usize,
    },
    /// There are more than 64 pairs.
    TooManyPairs,
    /// Over Sun RPC: its messages have no place for pairs.
    Inexpressible,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(
                f,
                "a name is not 1 to {NAME_MAX} bytes of lower-case letters, digits, `.`, `-` and `_`; give the pair another"
            ),
            Self::TraceContext => f.write_str(
                "its `traceparent` or `tracestate` has not the form that W3C Trace Context gives; leave it out, or make a `TraceParent`",
            ),
            Self::TooLong { most } => {
                write!(f, "its pairs take more than the {most} bytes that can travel; send fewer or shorter ones, or pass them as arguments")
            }
            Self::TooManyPairs => write!(f, "it has more than {PAIRS_MAX} pairs; send fewer"),
            Self::Inexpressible => f.write_str(
                "Sun RPC has no place for pairs; send none there: who the caller is, a credential says (`ClientOptions::authentication`)",
            ),
        }
    }
}

impl std::error::Error for MetadataError {}

impl From<BlockError> for MetadataError {
    fn from(why: BlockError) -> Self {
        match why {
            BlockError::Name => Self::Name,
            BlockError::Value => Self::TraceContext,
            BlockError::TooManyPairs => Self::TooManyPairs,
            _ => Self::TooLong { most: BLOCK_MAX },
        }
    }
}
