//! Why a server half of an interface has no result of a call at once: it did not run the procedure, which the caller learns as a
//! [refusal](crate::error::Refusal), or the result comes later.

use crate::error::{Failure, Refusal};
use crate::later::deferred::Later;
use stoop_marshal::DecodeError;

/// Why a server half has no result of a call at once.
#[derive(Debug)]
pub enum Unserved {
    /// The interface has no procedure of that number.
    UnknownProcedure,
    /// The arguments do not decode as values of their types.
    BadArguments(DecodeError),
    /// The OUT arguments need more room than a result may have.
    ResultTooLarge,
    /// So many calls wait for their answers, or keep so many bytes of arguments, that this one may not join them.
    TooManyOpen,
    /// So many procedures with pipes run that this one has no thread.
    TooManyPipes,
    /// An [interceptor](crate::intercept) refuses the call.
    Refused(Refusal),
    /// The procedure ran, and there is no result: said by an [export by bytes](crate::dynamic).
    Failed(Failure),
    /// The procedure ran, and its result [comes later](crate::Deferred).
    Later(Later),
}

impl From<DecodeError> for Unserved {
    fn from(why: DecodeError) -> Self {
        Self::BadArguments(why)
    }
}
