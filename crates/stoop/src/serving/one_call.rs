//! One call at the server, from its arrival to its outcome: written once for all transports.

use crate::context::cancelled::{self, CallId};
use crate::error::{FailureCode, RefusalCode};
use crate::later::deferred::{Given, ReplyError};
use crate::serving::dispatch::{CallLimits, Exports};
use crate::serving::intercepted::not_dispatched_again;
use crate::serving::outcome::{NoRoom, Outcome};
use stoop_wire::HEADER_LEN;

/// A call as the transport that received it knows it, and the memory for its result.
pub(crate) trait ReceivedCall {
    /// Its limits.
    fn limits(&self) -> CallLimits;

    /// Whether its caller can receive no answer any more.
    fn is_closed(&self) -> bool {
        false
    }

    /// Whether its caller has cancelled it.
    #[inline(always)]
    fn is_cancelled(&self, call: CallId) -> bool {
        cancelled::is_cancelled(call)
    }

    /// Runs its procedure.
    fn run(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom>;

    /// Takes memory for OUT arguments of so many bytes, which are more than a call may have uncounted. A caller asks for them with a few
    /// bytes, so the memory is bounded.
    ///
    /// # Errors
    /// There is none for this caller, for this reason.
    fn reserve(&mut self, bytes: usize) -> Result<(), &'static str>;

    /// Gives back what was [reserved](Self::reserve).
    fn release(&mut self, bytes: usize);
}

/// Bytes of explanation that a refusal or failure carries at most.
const DETAIL_MAX: usize = 512;

/// The part of an explanation that a refusal or failure carries.
pub(crate) fn detail_bytes(detail: &str) -> &[u8] {
    &detail.as_bytes()[..detail.floor_char_boundary(DETAIL_MAX)]
}

/// Prepares a worker's memory for results, `packet`, for a result of the binding `token`: it has held those of another, `held_of`, or has
/// been given away. A procedure sees its OUT arguments where they lie in the packet, and must see nothing of another binding there: only
/// the length is cut; making the packet longer again fills it with zeros. `unused` gives memory that has held nothing of another binding.
#[cold]
#[inline(never)]
pub(crate) fn wipe(packet: &mut Vec<u8>, held_of: &mut u64, token: u64, unused: impl FnOnce() -> Vec<u8>) {
    if *held_of != token {
        packet.truncate(HEADER_LEN);
        *held_of = token;
    }
    if packet.is_empty() {
        *packet = unused();
    }
    // The place of the header is there also before a result of no bytes.
    packet.resize(packet.len().max(HEADER_LEN), 0);
}

/// Serves a call that begins at `begun_ns`: runs its procedure unless its deadline has passed or its caller has cancelled it. `None`: its
/// caller has gone, and it did not run.
// Inlined, so that limits and outcome stay in registers, as those of `Exports::run`.
#[inline(always)]
pub(crate) fn serve(call: &mut impl ReceivedCall, begun_ns: u64) -> Option<Outcome> {
    let limits = call.limits();
    if limits.deadline_ns <= begun_ns {
        return Some(Outcome::refused(RefusalCode::DeadlinePassed, String::new()));
    }
    if call.is_closed() {
        return None;
    }
    if call.is_cancelled(limits.call) {
        return Some(Outcome::refused(RefusalCode::Cancelled, String::new()));
    }
    Some(call.run(limits).unwrap_or_else(|why| serve_with_room(call, limits, why)))
}

/// Makes the outcome of an [open](crate::later::open_calls) call from the answer that has come at `now_ns`; a result is written into
/// `packet`. With it what the giver of the answer learns.
#[cold]
pub(crate) fn conclude(
    exports: &Exports,
    limits: &CallLimits,
    given: Given<'_>,
    packet: &mut Vec<u8>,
    now_ns: u64,
) -> (Outcome, Result<(), ReplyError>) {
    if limits.deadline_ns <= now_ns && !matches!(given, Given::Refusal(..)) {
        return (Outcome::finished_too_late(), Err(ReplyError::DeadlinePassed));
    }
    if cancelled::is_cancelled(limits.call) {
        return (Outcome::failed(FailureCode::Abandoned, String::new()), Err(ReplyError::Cancelled));
    }
    let outcome = match given {
        Given::Result(put) => exports.write(packet, limits, put),
        Given::Failure(code) => Outcome::failed(code, String::new()),
        Given::Refusal(code, detail) => Outcome::refused(code, detail.into()),
    };
    (outcome, Ok(()))
}

/// Runs a call once more, because its OUT arguments need room that has to be counted.
#[cold]
#[inline(never)]
fn serve_with_room(call: &mut impl ReceivedCall, limits: CallLimits, NoRoom(needed): NoRoom) -> Outcome {
    let most = limits.result_max;
    if needed > most {
        return not_dispatched_again(NoRoom(needed).refused(most));
    }
    if let Err(why) = call.reserve(needed) {
        return not_dispatched_again(Outcome::refused(RefusalCode::Overloaded, why.into()));
    }
    let ran = call.run(CallLimits { out_limit: needed, ..limits });
    // Before the caller has the result, and may ask for the next. From now on these bytes count as part of the result.
    call.release(needed);
    ran.unwrap_or_else(|why| why.refused(most))
}

impl Outcome {
    /// Whether the procedure ran, so that its duration is of interest.
    #[inline]
    pub(crate) fn ran(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Failed(_) | Self::Later(_))
    }

    /// Says so of a result, where the compiler would call a function to find that out.
    #[inline(always)]
    pub(crate) fn has_nothing_to_drop(self) {
        std::mem::forget(self);
    }

    /// The same of a procedure that has returned by `now_ns`. A result is none at or after the deadline of its call: the procedure may have
    /// seen that no caller waits, and have returned something else.
    #[inline(always)]
    pub(crate) fn unless_late(self, deadline_ns: u64, now_ns: u64) -> Self {
        match self {
            Self::Result(_) if now_ns >= deadline_ns => Self::finished_too_late(),
            outcome => outcome,
        }
    }

    #[cold]
    pub(crate) fn finished_too_late() -> Self {
        Self::failed(FailureCode::FinishedTooLate, String::new())
    }
}

#[cfg(test)]
mod tests;
