//! What becomes of a call whose connection or shared memory was lost: the one place that decides whether it is made again.

use crate::error::{BindError, CallError, SendError, UnknownCause};
use std::io;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// How an attempt to make a call ended without a result.
pub(super) enum Ended {
    /// As the caller is to be told.
    With(CallError),
    /// Its deadline has passed, and the server may have it.
    Late,
    /// With its session.
    Lost {
        /// The server may have run it; otherwise it has not taken it, and never will.
        may_have_run: bool,
    },
}

/// A call that can be made again.
pub(super) trait Attempts {
    /// Binds again until `deadline`. `false`: the new session has no lane for the call.
    fn rebind(&mut self, deadline: Instant) -> Result<bool, BindError>;

    /// Makes the call once more.
    fn attempt(&mut self, now_ns: u64, deadline_ns: u64) -> Result<(), Ended>;

    /// Why the present session was lost.
    fn cause_of_loss(&self) -> UnknownCause;

    /// Whether some of its arguments may be gone: parts of a result are where they were.
    fn is_overwritten(&self) -> bool;
}

/// What is known of a call from its beginning.
pub(super) struct Terms {
    pub(super) begun_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) idempotent: bool,
}

/// Sessions that one call tries.
pub(super) const ATTEMPTS: u32 = 3;

/// An attempt did not end with a result: binds again and makes the call once more where that is right, and explains where it is not.
///
/// A call that may have run is made again only if it is idempotent; and from then on no error may say that it has not run.
#[cold]
pub(super) fn recover(
    call: &mut dyn Attempts,
    mut ended: Ended,
    &Terms { begun_ns, deadline_ns, idempotent }: &Terms,
) -> Result<(), CallError> {
    let mut transmissions = 0;
    let mut cause = UnknownCause::ConnectionLost;
    let unknown = |transmissions, cause| {
        let waited = Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns));
        CallError::Unknown { transmissions, waited, cause }
    };
    for attempt in 1.. {
        match ended {
            // Not this time; but it may have run with a session that was lost.
            Ended::With(CallError::NotSent(_) | CallError::Refused(_)) if transmissions > 0 => {
                return Err(unknown(transmissions, cause));
            }
            Ended::With(error) => return Err(error),
            Ended::Late if transmissions == 0 => return Err(unknown(1, UnknownCause::DeadlinePassed)),
            Ended::Late => return Err(unknown(transmissions, cause)),
            Ended::Lost { may_have_run: false } => {}
            Ended::Lost { may_have_run: true } => {
                transmissions += 1;
                cause = call.cause_of_loss();
            }
        }
        if transmissions > 0 && (!idempotent || attempt == ATTEMPTS || call.is_overwritten()) {
            return Err(unknown(transmissions, cause));
        }
        if attempt == ATTEMPTS {
            return Err(CallError::NotSent(SendError::Io(io::ErrorKind::ConnectionReset.into())));
        }
        let bound = call.rebind(Instant::from_nanos(deadline_ns));
        if transmissions > 0 && !matches!(bound, Ok(true)) {
            return Err(unknown(transmissions, cause));
        }
        match bound {
            Ok(true) => {}
            Ok(false) => return Err(no_lane()),
            Err(why) => return Err(CallError::NotSent(SendError::Bind(Box::new(why)))),
        }
        let now_ns = clock::now_ns();
        if now_ns >= deadline_ns {
            return Err(match transmissions {
                0 => CallError::NotSent(SendError::DeadlinePassed),
                _ => unknown(transmissions, cause),
            });
        }
        match call.attempt(now_ns, deadline_ns) {
            Ok(()) => return Ok(()),
            Err(again) => ended = again,
        }
    }
    unreachable!("attempts are bounded")
}

/// No lane is left for another call.
pub(super) fn no_lane() -> CallError {
    let why = "the server owes answers on all lanes of the binding";
    CallError::NotSent(SendError::Io(io::Error::other(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Ran, Refusal, RefusalCode};

    /// A call whose attempts end like this, the last first.
    #[derive(Default)]
    struct Scripted {
        endings: Vec<Result<(), Ended>>,
        attempts: u32,
        is_overwritten: bool,
        finds_nobody: bool,
    }

    impl Attempts for Scripted {
        fn rebind(&mut self, _: Instant) -> Result<bool, BindError> {
            let cause = io::ErrorKind::ConnectionRefused.into();
            let nobody = BindError::Unreachable { server: "shm:@nobody".into(), cause };
            if self.finds_nobody { Err(nobody) } else { Ok(true) }
        }

        fn attempt(&mut self, _: u64, _: u64) -> Result<(), Ended> {
            self.attempts += 1;
            self.endings.pop().unwrap()
        }

        fn cause_of_loss(&self) -> UnknownCause {
            UnknownCause::ServerSilent
        }

        fn is_overwritten(&self) -> bool {
            self.is_overwritten
        }
    }

    const LOST: Ended = Ended::Lost { may_have_run: true };
    const LEFT: Ended = Ended::Lost { may_have_run: false };

    fn refused() -> Ended {
        Ended::With(CallError::Refused(Refusal { code: RefusalCode::Overloaded, detail: String::new() }))
    }

    fn terms(idempotent: bool) -> Terms {
        let begun_ns = clock::now_ns();
        Terms { begun_ns, deadline_ns: begun_ns + 3_600_000_000_000, idempotent }
    }

    #[test]
    fn a_call_that_may_have_run_is_made_again_only_if_it_is_idempotent() {
        let mut call = Scripted { endings: vec![Ok(())], ..Scripted::default() };
        let error = recover(&mut call, LOST, &terms(false)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::Perhaps, 0));
        recover(&mut call, LOST, &terms(true)).unwrap();
        assert_eq!(call.attempts, 1);
    }

    #[test]
    fn a_call_that_was_left_lying_is_made_again() {
        let mut call = Scripted { endings: vec![Ok(())], ..Scripted::default() };
        recover(&mut call, LEFT, &terms(false)).unwrap();
        assert_eq!(call.attempts, 1);
    }

    #[test]
    fn nothing_that_comes_later_says_of_a_call_that_may_have_run_that_it_has_not() {
        let not_sent = || Ended::With(CallError::NotSent(SendError::DeadlinePassed));
        for later in [refused as fn() -> Ended, not_sent, || LEFT, || Ended::Late, || LOST] {
            let endings = vec![Err(later()), Err(later())];
            let mut call = Scripted { endings, ..Scripted::default() };
            let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
            assert_eq!(error.ran(), Ran::Perhaps, "{error}");
        }
        let mut call = Scripted { finds_nobody: true, ..Scripted::default() };
        let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ServerSilent, .. }), "{error}");
        let passed = Terms { deadline_ns: 1, ..terms(true) };
        let error = recover(&mut Scripted::default(), LOST, &passed).unwrap_err();
        assert_eq!(error.ran(), Ran::Perhaps, "{error}");
    }

    #[test]
    fn a_call_that_has_not_run_says_so() {
        let mut call = Scripted { endings: vec![Err(LEFT), Err(LEFT)], ..Scripted::default() };
        let error = recover(&mut call, LEFT, &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::No, ATTEMPTS - 1));
        let mut call = Scripted { finds_nobody: true, ..Scripted::default() };
        let error = recover(&mut call, LEFT, &terms(true)).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::Bind(_))), "{error}");
        let error = recover(&mut Scripted::default(), refused(), &terms(true)).unwrap_err();
        assert!(matches!(error, CallError::Refused(_)), "{error}");
        let passed = Terms { deadline_ns: 1, ..terms(true) };
        let error = recover(&mut Scripted::default(), LEFT, &passed).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed)), "{error}");
    }

    #[test]
    fn a_call_whose_arguments_may_be_gone_is_not_made_again() {
        let mut call = Scripted { is_overwritten: true, endings: vec![Ok(())], ..Scripted::default() };
        let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::Perhaps, 0));
    }
}
