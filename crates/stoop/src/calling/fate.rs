//! The attempts of one call so far, and the error that its caller gets of them.

use crate::error::{BindError, CallError, SendError, UnknownCause};
use std::io;
use std::time::Duration;
use stoop_calls::life::{self, Life, Next, Said, Told, Why};
use stoop_exchange::outcome::{Unbound, Verdict};
use stoop_wire::Refused;

/// How an attempt to make a call ended without a result.
pub(crate) enum Ended {
    /// With the error that the caller gets.
    With(CallError),
    /// By its deadline. The server may have the call.
    Late,
    /// By the loss of its session.
    Lost {
        /// The server may have run the call; if not, it has not taken the call, and never will.
        may_have_run: bool,
    },
    /// The server does not know its session any more. Only the next bind shows whether the server may have run the call.
    Unbound(Unbound),
}

/// An attempt that was lost with its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) cause: UnknownCause,
    pub(crate) transmissions: u32,
}

impl From<UnknownCause> for Loss {
    /// The loss of a call that was sent once.
    fn from(cause: UnknownCause) -> Self {
        Self { cause, transmissions: 1 }
    }
}

/// The attempts of one call so far. That of a call that goes well is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    life: Life,
    /// Why the last of the attempts was lost that may have run it.
    cause: Option<UnknownCause>,
}

impl Fate {
    /// As [`Life::seal`].
    pub(crate) fn seal(&mut self) {
        self.life.seal();
    }

    /// As [`Life::after`]. `loss`: how the attempt was lost, if it was.
    pub(crate) fn after(
        &mut self,
        ended: &Ended,
        loss: impl FnOnce() -> Loss,
        idempotent: bool,
        wait: impl FnOnce(Refused, u32) -> Option<Duration>,
    ) -> Next {
        match *ended {
            Ended::With(ref error) => self.after_error(error, idempotent, wait),
            Ended::Lost { may_have_run } => self.after_loss(may_have_run.then(loss), idempotent),
            Ended::Late => self.life.after(life::Ended::Late, 0, idempotent, wait),
            Ended::Unbound(refusal) => self.after_unbound(refusal),
        }
    }

    /// As [`Life::after`], of an attempt that ended with this error.
    pub(crate) fn after_error(
        &mut self,
        error: &CallError,
        idempotent: bool,
        wait: impl FnOnce(Refused, u32) -> Option<Duration>,
    ) -> Next {
        let ended = match error {
            CallError::Refused(refusal, ..) => life::Ended::Refused(refusal.refused()),
            _ => life::Ended::Final,
        };
        self.life.after(ended, 0, idempotent, wait)
    }

    /// As [`Life::after`], of an attempt that was lost with its session. `loss`: how, if it may have run the call.
    pub(crate) fn after_loss(&mut self, loss: Option<Loss>, idempotent: bool) -> Next {
        let ended = life::Ended::Lost { may_have_run: loss.is_some() };
        let transmissions = loss.map_or(0, |loss| self.note(loss));
        self.life.after(ended, transmissions, idempotent, |_, _| None)
    }

    /// As [`Life::after`], of an attempt on a session that the server does not know any more.
    pub(crate) fn after_unbound(&mut self, refusal: Unbound) -> Next {
        self.life.after(life::Ended::Unbound(refusal), 0, false, |_, _| None)
    }

    /// As [`Life::may_come_again`], after this error.
    pub(crate) fn may_come_again(&self, error: &CallError, idempotent: bool) -> bool {
        matches!(error, CallError::Refused(why, ..) if self.life.may_come_again(why.code, idempotent))
    }

    /// As [`Life::judged`].
    pub(crate) fn judged(&mut self, verdict: Verdict, loss: impl FnOnce() -> Loss, idempotent: bool) -> Next {
        let transmissions = if verdict == Verdict::NotRun { 0 } else { self.note(loss()) };
        self.life.judged(verdict, transmissions, idempotent)
    }

    /// As [`Life::not_bound`].
    pub(crate) fn not_bound(&mut self, why: Why, loss: impl FnOnce() -> Loss) -> Told {
        let transmissions = if matches!(why, Why::Judge(_)) { self.note(loss()) } else { 0 };
        self.life.not_bound(why, transmissions)
    }

    fn note(&mut self, Loss { cause, transmissions }: Loss) -> u32 {
        self.cause = Some(cause);
        transmissions
    }

    /// The error that the caller gets. `latest`: of the call's latest attempt. `waited`: since the call was first sent.
    pub(crate) fn error(
        &self,
        told: Told,
        latest: Option<CallError>,
        waited: impl FnOnce() -> Duration,
    ) -> CallError {
        let latest = latest.filter(|_| told != Told::NoSessionLeft).unwrap_or_else(no_session_left);
        let said = match &latest {
            CallError::NotSent(..) => Said::NotSent,
            CallError::Refused(..) => Said::Refused,
            &CallError::Unknown { transmissions, .. } => Said::Unknown(transmissions),
            _ => Said::Other,
        };
        let Some(transmissions) = self.life.transmissions_of_unknown(told, said) else { return latest };
        let cause = self.cause.unwrap_or(match told {
            Told::Late => UnknownCause::DeadlinePassed,
            _ => UnknownCause::ConnectionLost,
        });
        CallError::Unknown { transmissions, waited: waited(), cause, callee: None }
    }
}

/// Another session could not be had.
pub(crate) fn not_bound(why: BindError) -> CallError {
    CallError::not_sent(SendError::Bind(Box::new(why)))
}

/// A call that has not run has been lost with as many sessions as one call may use.
fn no_session_left() -> CallError {
    CallError::not_sent(SendError::Io(io::ErrorKind::ConnectionReset.into()))
}
