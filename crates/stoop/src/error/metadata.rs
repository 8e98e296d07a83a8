//! Errors of metadata.

use std::fmt;
use stoop_wire::metadata::{BLOCK_MAX, BlockError, NAME_MAX, PAIRS_MAX};

/// Why metadata cannot be sent.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
/// # let client = AdderClient::bind(&uri)?;
///
/// use stoop::{CallError, Metadata, MetadataError};
/// use stoop::error::SendError;
///
/// let carrying = client.with_metadata(Metadata::new().set("Tenant", "blue")); // no capitals
/// let error = carrying.add(1, 2).unwrap_err();
/// assert!(matches!(error, CallError::NotSent(SendError::Metadata(MetadataError::Name), ..)));
/// # Ok(())
/// # }
/// ```
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
