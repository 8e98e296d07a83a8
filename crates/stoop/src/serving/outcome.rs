//! How a call has ended at its server, and the texts for its caller.

use crate::error::{CallError, Failure, Refusal};
use crate::later::deferred::Later;
use crate::later::unserved::Unserved;
use crate::panics::{end_of_panic, panic_message};
use std::any::Any;
use stoop_marshal::{DecodeError, EncodeError, Writer};
use stoop_wire::{FailureCode, RefusalCode};

/// The end of a call, or of its procedure.
pub(crate) enum Outcome {
    /// The result, of so many bytes, is in the packet.
    Result(usize),
    /// The procedure did not run, for this reason.
    Refused(Box<(RefusalCode, String)>),
    /// It ran, and there is no result, for this reason.
    Failed(Box<(FailureCode, String)>),
    /// It ran, and its answer comes later.
    Later(Box<Later>),
}

/// The procedure did not run: its OUT arguments need so many bytes of room in the result, which it may not have.
pub(crate) struct NoRoom(pub(crate) usize);

// It fits into registers on its way to the code that answers.
const _: () = assert!(size_of::<Result<Outcome, NoRoom>>() == 16);

#[cold]
pub(super) fn panicked(panic: Box<dyn Any + Send>, tells_message: bool) -> Outcome {
    if let Some((code, detail)) = crate::program::refusal(&*panic) {
        return Outcome::refused(code, detail);
    }
    let message = end_of_panic(panic);
    Outcome::failed(FailureCode::Panicked, if tells_message { message } else { String::new() })
}

impl Outcome {
    #[cold]
    pub(crate) fn refused(code: RefusalCode, detail: String) -> Self {
        Self::Refused(Box::new((code, detail)))
    }

    #[cold]
    pub(crate) fn failed(code: FailureCode, detail: String) -> Self {
        Self::Failed(Box::new((code, detail)))
    }
}

impl NoRoom {
    /// The refusal of a call that wants more room than the `most` bytes that it can ever have.
    #[cold]
    pub(crate) fn refused(self, most: usize) -> Outcome {
        let Self(needed) = self;
        let why = format!(
            "its OUT arguments take {needed} bytes of the {most} that a result may have; ask for less at a time"
        );
        Outcome::refused(RefusalCode::ResultTooLarge, why)
    }
}

/// The error of a call in whose procedure this panic was.
#[cold]
pub(crate) fn error_of_panic(panic: &(dyn Any + Send)) -> CallError {
    if let Some((code, detail)) = crate::program::refusal(panic) {
        return CallError::refused(Refusal::new(code, detail));
    }
    CallError::failed(Failure { code: FailureCode::Panicked, detail: panic_message(panic).into() })
}

/// The end of a call that [dispatch](super::dispatch) has not served, or not yet.
#[cold]
pub(super) fn not_served(why: Unserved, result: Writer<'_>) -> Result<Outcome, NoRoom> {
    Ok(match why {
        Unserved::ResultTooLarge => match result.finish() {
            Err(EncodeError::TooLarge { needed_at_least, .. }) => return Err(NoRoom(needed_at_least)),
            Err(EncodeError::NoMemory { needed_at_least }) => {
                let why = format!("{NO_MEMORY} the {needed_at_least} bytes of its OUT arguments");
                Outcome::refused(RefusalCode::Overloaded, why)
            }
            _ => return Err(NoRoom(usize::MAX)),
        },
        Unserved::Later(later) => Outcome::Later(Box::new(later)),
        Unserved::Failed(why) => Outcome::failed(why.code, why.detail),
        why => {
            let (code, detail) = refused(&why);
            Outcome::refused(code, detail)
        }
    })
}

/// Why a call was refused, and the text for its caller.
#[cold]
pub(crate) fn refused(why: &Unserved) -> (RefusalCode, String) {
    match why {
        Unserved::UnknownProcedure => (RefusalCode::UnknownProcedure, String::new()),
        Unserved::BadArguments(DecodeError::NoMemory) => {
            (RefusalCode::Overloaded, format!("{NO_MEMORY} its arguments"))
        }
        Unserved::BadArguments(why) => (RefusalCode::BadArguments, why.to_string()),
        Unserved::ResultTooLarge => (RefusalCode::ResultTooLarge, String::new()),
        Unserved::TooManyOpen => (RefusalCode::Overloaded, TOO_MANY_OPEN.into()),
        Unserved::TooManyPipes => (RefusalCode::Overloaded, TOO_MANY_PIPES.into()),
        Unserved::Refused(why) => (why.code, why.detail.clone()),
        Unserved::Later(_) | Unserved::Failed(_) => unreachable!("a call whose procedure ran is not refused"),
    }
}

/// Detail of a refusal for want of room among the open calls.
const TOO_MANY_OPEN: &str = "so many calls of your host or user wait for their answers, or keep so many bytes of arguments, that no other may \
    join them; call again when some have been answered, or raise Limits::open_calls or Limits::argument_bytes";

/// Detail of a refusal for want of a thread for a procedure with pipes.
const TOO_MANY_PIPES: &str = "so many procedures with pipes run for your host or user that no other may begin; call again when some have \
    ended, or raise Limits::pipe_threads";

/// Begin of the detail of a refusal or failure for want of memory.
const NO_MEMORY: &str = "the server's process has no memory left for";

#[cold]
pub(super) fn too_large(why: EncodeError) -> Outcome {
    let detail = match why {
        EncodeError::NoMemory { needed_at_least } => {
            format!("{NO_MEMORY} it, which has at least {needed_at_least} bytes")
        }
        why @ EncodeError::Inexpressible { .. } => {
            return Outcome::failed(FailureCode::Inexpressible, why.to_string());
        }
        why => why.to_string(),
    };
    Outcome::failed(FailureCode::ResultTooLarge, detail)
}
