//! Why a server half of an interface did not run a procedure; the caller learns it as a [refusal](crate::error::Refusal).

use stoop_marshal::DecodeError;

/// Why a server half did not run a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The interface has no procedure of that number.
    UnknownProcedure,
    /// The arguments do not decode as values of their types.
    BadArguments(DecodeError),
    /// The OUT arguments need more room than a result may have.
    ResultTooLarge,
}

impl From<DecodeError> for Unserved {
    fn from(why: DecodeError) -> Self {
        Self::BadArguments(why)
    }
}
