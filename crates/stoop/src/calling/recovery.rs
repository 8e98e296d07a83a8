//! Makes a blocking call again whose session was lost, or that was refused, over all transports. [`stoop_calls`] decides whether.

use crate::calling::fate::{Ended, Fate, Loss, not_bound};
use crate::error::{BindError, CallError, Refusal, RefusalCode, SendError};
use std::io;
use std::thread;
use std::time::Duration;
use stoop_calls::life::{Next, Told, Why};
use stoop_exchange::Instant;
use stoop_exchange::outcome::Verdict;
use stoop_net::clock;
use stoop_wire::Refused;

/// A call that can be made again.
pub(crate) trait Attempts {
    /// Binds until `deadline` to another session for the reason `why`. Decides whether the last attempt may have run the call, if that is
    /// [asked](Why::Judge).
    fn bind(&mut self, why: Why, deadline: Instant) -> Result<Verdict, BindError>;

    /// Goes over to the present session. `false`: that has no lane for the call.
    fn adopt(&mut self) -> bool;

    /// Makes the call once more.
    fn attempt(&mut self, now_ns: u64, deadline_ns: u64) -> Result<(), Ended>;

    /// How the last attempt was lost.
    fn loss(&self) -> Loss;

    /// Whether parts of a result may have overwritten some of its arguments.
    fn is_overwritten(&self) -> bool;

    /// As [`RetryBudget::wait`](stoop_exchange::retry::RetryBudget::wait), of the binding's budget.
    fn wait_after(&self, refused: Refused, attempts: u32, left: Duration) -> Option<Duration>;
}

/// The facts about a call that are known from its beginning.
pub(crate) struct CallTerms {
    pub(crate) begun_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) idempotent: bool,
}

/// Goes on with a call whose attempt ended without a result: binds again and makes the call once more if that is right, and otherwise
/// returns its error.
#[cold]
pub(crate) fn recover(
    call: &mut dyn Attempts,
    mut ended: Ended,
    &CallTerms { begun_ns, deadline_ns, idempotent }: &CallTerms,
) -> Result<(), CallError> {
    let mut fate = Fate::default();
    let waited = || Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns));
    loop {
        if call.is_overwritten() {
            fate.seal();
        }
        let wait = |refused, refusals| {
            let left = Duration::from_nanos(deadline_ns.saturating_sub(clock::now_ns()));
            call.wait_after(refused, refusals, left)
        };
        let mut failed = None;
        let next = match fate.after(&ended, || call.loss(), idempotent, wait) {
            Next::Bind(why) => match (call.bind(why, Instant::from_nanos(deadline_ns)), why) {
                (Ok(verdict), Why::Judge(_)) => fate.judged(verdict, || call.loss(), idempotent),
                (Ok(_), Why::Leave | Why::Lost) => Next::Send,
                (Err(error), _) => {
                    failed = Some(not_bound(error));
                    Next::End(fate.not_bound(why, || call.loss()))
                }
            },
            next => next,
        };
        let latest = match (next, ended) {
            (Next::End(Told::NotBound), _) => failed,
            (_, Ended::With(error)) => Some(error),
            _ => None,
        };
        match next {
            Next::End(told) => return Err(fate.error(told, latest, waited)),
            Next::Later(wait) => thread::sleep(wait),
            Next::Send | Next::Bind(_) if !call.adopt() => {
                return Err(fate.error(Told::Latest, Some(no_lane()), waited));
            }
            Next::Send | Next::Bind(_) if clock::has_come(deadline_ns) => {
                let late = CallError::not_sent(SendError::DeadlinePassed);
                return Err(fate.error(Told::Latest, Some(late), waited));
            }
            Next::Send | Next::Bind(_) => {}
        }
        match call.attempt(clock::now_ns(), deadline_ns) {
            Ok(()) => return Ok(()),
            Err(again) => ended = again,
        }
    }
}

/// The server has said that it shuts down: it would refuse the call, which is not sent.
#[cold]
pub(crate) fn refused_in_advance() -> Ended {
    Ended::With(CallError::refused(Refusal::new(RefusalCode::ShuttingDown, "")))
}

/// The other end lacks the procedure, or knows another form of it: it would refuse the call, which is not sent.
#[cold]
pub(crate) fn lacks_form() -> CallError {
    let why = "the other end is of a revision of the interface that lacks it, or knows another form of it";
    CallError::refused(Refusal::new(RefusalCode::UnknownProcedure, why))
}

/// No lane is left for another call.
fn no_lane() -> CallError {
    let why = "the server owes answers on all lanes of the binding";
    CallError::not_sent(SendError::Io(io::Error::other(why)))
}

#[cfg(test)]
mod tests {
    use crate::calling::recovery::*;
    use crate::error::{Ran, UnknownCause};
    use stoop_exchange::outcome::{ATTEMPTS_MAX, Unbound};

    /// A call whose attempts end like this, the last first.
    struct Scripted {
        endings: Vec<Result<(), Ended>>,
        attempts: u32,
        is_overwritten: bool,
        finds_nobody: bool,
        verdict: Verdict,
        /// Whether the budget lets it come again after its first two refusals.
        may_come_again: bool,
    }

    impl Default for Scripted {
        fn default() -> Self {
            let (attempts, verdict) = (0, Verdict::NotRun);
            let (is_overwritten, finds_nobody, may_come_again) = (false, false, false);
            Self { endings: Vec::new(), attempts, is_overwritten, finds_nobody, verdict, may_come_again }
        }
    }

    impl Attempts for Scripted {
        fn bind(&mut self, _: Why, _: Instant) -> Result<Verdict, BindError> {
            let cause = io::ErrorKind::ConnectionRefused.into();
            let nobody = BindError::Unreachable { server: "shm:@nobody".into(), cause };
            if self.finds_nobody { Err(nobody) } else { Ok(self.verdict) }
        }

        fn adopt(&mut self) -> bool {
            true
        }

        fn attempt(&mut self, _: u64, _: u64) -> Result<(), Ended> {
            self.attempts += 1;
            self.endings.pop().unwrap()
        }

        fn loss(&self) -> Loss {
            UnknownCause::ServerSilent.into()
        }

        fn is_overwritten(&self) -> bool {
            self.is_overwritten
        }

        fn wait_after(&self, _: Refused, attempts: u32, _: Duration) -> Option<Duration> {
            (self.may_come_again && attempts < 3).then_some(Duration::ZERO)
        }
    }

    const LOST: Ended = Ended::Lost { may_have_run: true };
    const LEFT: Ended = Ended::Lost { may_have_run: false };

    fn refused() -> Ended {
        Ended::With(CallError::refused(Refusal::new(RefusalCode::Overloaded, "")))
    }

    fn terms(idempotent: bool) -> CallTerms {
        let begun_ns = clock::now_ns();
        CallTerms { begun_ns, deadline_ns: begun_ns + 3_600_000_000_000, idempotent }
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
        let not_sent = || Ended::With(CallError::not_sent(SendError::DeadlinePassed));
        for later in [refused as fn() -> Ended, not_sent, || LEFT, || Ended::Late, || LOST] {
            let endings = vec![Err(later()), Err(later())];
            let mut call = Scripted { endings, ..Scripted::default() };
            let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
            assert_eq!(error.ran(), Ran::Perhaps, "{error}");
        }
        let mut call = Scripted { finds_nobody: true, ..Scripted::default() };
        let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ServerSilent, .. }), "{error}");
        let passed = CallTerms { deadline_ns: 1, ..terms(true) };
        let error = recover(&mut Scripted::default(), LOST, &passed).unwrap_err();
        assert_eq!(error.ran(), Ran::Perhaps, "{error}");
    }

    #[test]
    fn a_refused_call_is_made_again_as_the_verdict_says() {
        let unbound = || Ended::Unbound(Unbound::ANOTHER_VERSION);
        for verdict in [Verdict::NotRun, Verdict::RunAgain, Verdict::Unknown] {
            let mut call = Scripted { verdict, endings: vec![Ok(())], ..Scripted::default() };
            let ended = recover(&mut call, unbound(), &terms(verdict == Verdict::RunAgain));
            assert_eq!(
                (ended.is_ok(), call.attempts == 1),
                (verdict != Verdict::Unknown, verdict != Verdict::Unknown)
            );
            let endings = vec![Err(refused())];
            let mut call = Scripted { verdict, endings, ..Scripted::default() };
            let error = recover(&mut call, unbound(), &terms(verdict == Verdict::RunAgain)).unwrap_err();
            assert_eq!(
                error.ran(),
                if verdict == Verdict::NotRun { Ran::No } else { Ran::Perhaps },
                "{error}"
            );
        }
        let mut call = Scripted { finds_nobody: true, ..Scripted::default() };
        let error = recover(&mut call, unbound(), &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::Perhaps, 0), "nobody has judged it");
    }

    #[test]
    fn a_call_that_has_not_run_says_so() {
        let mut call = Scripted { endings: vec![Err(LEFT), Err(LEFT)], ..Scripted::default() };
        let error = recover(&mut call, LEFT, &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::No, ATTEMPTS_MAX - 1));
        let mut call = Scripted { finds_nobody: true, ..Scripted::default() };
        let error = recover(&mut call, LEFT, &terms(true)).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
        let error = recover(&mut Scripted::default(), refused(), &terms(true)).unwrap_err();
        assert!(matches!(error, CallError::Refused(..)), "{error}");
        let passed = CallTerms { deadline_ns: 1, ..terms(true) };
        let error = recover(&mut Scripted::default(), LEFT, &passed).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
    }

    #[test]
    fn a_call_that_was_refused_for_overload_comes_again_within_the_budget() {
        let endings = || vec![Ok(()), Err(refused())];
        for idempotent in [true, false] {
            let mut call = Scripted { endings: endings(), may_come_again: true, ..Scripted::default() };
            recover(&mut call, refused(), &terms(idempotent)).unwrap();
            assert_eq!(call.attempts, 2);
            let mut call = Scripted { endings: endings(), ..Scripted::default() };
            let error = recover(&mut call, refused(), &terms(idempotent)).unwrap_err();
            assert_eq!((error.ran(), call.attempts), (Ran::No, 0));
        }
        let endings = vec![Err(refused()), Err(refused()), Err(refused())];
        let mut call = Scripted { endings, may_come_again: true, ..Scripted::default() };
        let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::Perhaps, 3), "it may have run before");
    }

    #[test]
    fn a_call_that_was_refused_for_shutdown_goes_to_the_next_server_and_the_one_after_it() {
        let closing = || Ended::With(CallError::refused(Refusal::new(RefusalCode::ShuttingDown, "")));
        for idempotent in [true, false] {
            let endings = vec![Ok(()), Err(closing())];
            let mut call = Scripted { endings, ..Scripted::default() };
            recover(&mut call, closing(), &terms(idempotent)).unwrap();
            assert_eq!(call.attempts, 2);
            let mut call = Scripted { finds_nobody: true, ..Scripted::default() };
            let error = recover(&mut call, closing(), &terms(idempotent)).unwrap_err();
            assert!(matches!(&error, CallError::Refused(..)) && call.attempts == 0, "{error}");
        }
        let endings = vec![Err(closing()), Err(closing())];
        let mut call = Scripted { endings, ..Scripted::default() };
        let error = recover(&mut call, closing(), &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::No, ATTEMPTS_MAX - 1), "not for ever");
    }

    #[test]
    fn a_call_whose_arguments_may_be_gone_is_not_made_again() {
        let mut call = Scripted { is_overwritten: true, endings: vec![Ok(())], ..Scripted::default() };
        let error = recover(&mut call, LOST, &terms(true)).unwrap_err();
        assert_eq!((error.ran(), call.attempts), (Ran::Perhaps, 0));
    }
}
