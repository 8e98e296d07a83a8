//! What a procedure can learn about the call that it serves: how much time is left, whose call it is, and whether
//! anybody still waits for it.

pub(crate) mod cancelled;

use crate::context::cancelled::CallId;
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;
use stoop_net::clock;

/// The call that the running procedure serves.
#[derive(Clone, Copy, Debug)]
pub struct CurrentCall {
    deadline_ns: u64,
    caller: Caller,
    call: CallId,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// A thread of this process.
    Local,
    /// A network address. It has shown that it receives there; it has not shown who it is.
    Network(SocketAddr),
    /// A process of this machine, as the kernel knows it (`SO_PEERCRED`).
    Process(Credentials),
}

/// What the kernel says of a process at the other end of a Unix socket, at the time when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Effective user, as the server's user namespace knows it: all that it does not know look alike there (65534).
    pub uid: u32,
    /// Effective group, likewise.
    pub gid: u32,
    /// Process; it may have ended since, and its number have been given to another. 0 if it is in a process namespace that the
    /// server's does not see.
    pub pid: i32,
}

thread_local! {
    /// Apart from each other, for each call of the thread asks for the deadline.
    static DEADLINE_NS: Cell<u64> = const { Cell::new(NONE) };
    static CALLER: Cell<Caller> = const { Cell::new(Caller::Local) };
    /// The last call that this thread served of those that can be cancelled. It stays when the call has ended: it is
    /// looked at in calls only.
    static CALL: Cell<CallId> = const { Cell::new(CallId::NONE) };
    /// A procedure of this thread has asked for its call, or has made a call that inherits its deadline, since this was last
    /// [taken](take_asked): it may have returned early because nobody waits.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// The deadline outside a procedure.
const NONE: u64 = u64::MAX;

/// The call that this thread serves at the moment; `None` outside a procedure.
///
/// Threads that a procedure starts are not in the call: hand them what they need of it.
///
/// ```
/// use stoop::current_call;
///
/// #[stoop::interface]
/// pub trait Primes { fn largest_below(&self, limit: u64) -> u64; }
///
/// struct Trial;
/// impl Primes for Trial {
///     fn largest_below(&self, limit: u64) -> u64 {
///         let call = current_call().expect("a procedure runs in a call");
///         let is_prime = |n: u64| n >= 2 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0);
///         // Nobody waits for the result of a call that is cancelled: it does not matter what is returned then.
///         (0..limit).rev().find(|&n| call.is_cancelled() || is_prime(n)).unwrap_or(0)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = stoop::Server::new().export(PrimesServer::new(Trial)).listen("udp://127.0.0.1:0")?.start()?;
/// assert_eq!(PrimesClient::bind(&server.uris()[0])?.largest_below(1000)?, 997);
/// assert!(current_call().is_none());
/// # Ok(())
/// # }
/// ```
///
/// A procedure that returns at or after the deadline gives its caller no result, whatever it returns: the call fails with
/// [`FailureCode::FinishedTooLate`](crate::FailureCode::FinishedTooLate), which says that it ran.
pub fn current_call() -> Option<CurrentCall> {
    let deadline_ns = DEADLINE_NS.get();
    ASKED.set(true);
    (deadline_ns != NONE).then(|| CurrentCall { deadline_ns, caller: CALLER.get(), call: CALL.get() })
}

impl CurrentCall {
    /// Time until the caller stops waiting; zero when it has. Calls made by the procedure inherit this bound. While a second or
    /// more is left, it may be up to eight ticks of the kernel more than this tells.
    pub fn time_left(&self) -> Duration {
        let left_ns = self.deadline_ns.saturating_sub(clock::now_ns());
        // Such a deadline may be later than the caller's own (`begin_cheaply`).
        let lag_ns = if left_ns >= COARSE_ENOUGH_NS { clock::coarse_lag_ns() } else { 0 };
        Duration::from_nanos(left_ns - lag_ns)
    }

    /// Whether nobody waits for the result any more: the caller has dropped its handle of the call
    /// ([`Pending`](crate::Pending)), or its deadline has passed.
    ///
    /// A call that has begun is never ended from outside. A procedure that takes long can look here now and then, and
    /// return early: whatever it returns then, an error as well as a value, nobody sees it. If the deadline has passed, the server
    /// sends the failure [`FinishedTooLate`](crate::FailureCode::FinishedTooLate) in place of the result; a caller that has
    /// dropped its handle receives nothing. It costs a look at the clock, and may be asked by any thread that was handed this. Over shared memory, a caller that has died waits no more; otherwise its death is not noticed
    /// before the deadline.
    ///
    /// In a `local:` call that a procedure makes and waits for, it also tells that nobody waits for that procedure.
    ///
    /// ```
    /// # fn next_part() -> Option<u64> { None }
    /// fn sum() -> u64 {
    ///     let call = stoop::current_call();
    ///     let mut sum = 0;
    ///     while let Some(part) = next_part() {
    ///         if call.is_some_and(|call| call.is_cancelled()) {
    ///             break;
    ///         }
    ///         sum += part;
    ///     }
    ///     sum
    /// }
    /// # assert_eq!(sum(), 0);
    /// ```
    pub fn is_cancelled(&self) -> bool {
        cancelled::is_cancelled(self.call) || self.time_left().is_zero()
    }

    /// Who calls.
    pub fn caller(&self) -> Caller {
        self.caller
    }
}

/// Runs `procedure` as the serving of a call, and restores afterwards what the thread served before.
#[inline(always)]
pub(crate) fn serving<R>(deadline_ns: u64, caller: Caller, procedure: impl FnOnce() -> R) -> R {
    struct Restore(u64);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            DEADLINE_NS.set(self.0);
        }
    }
    // A deadline in 584 years is one that can be told from none.
    let before = DEADLINE_NS.replace(deadline_ns.min(NONE - 1));
    let _restore = Restore(before);
    if before == NONE {
        // Outside a call nobody asks for the caller.
        CALLER.set(caller);
        return procedure();
    }
    in_between_callers(caller, procedure)
}

/// Has another caller while `procedure` runs, in the midst of a call that this thread serves.
#[cold]
#[inline(never)]
fn in_between_callers<R>(caller: Caller, procedure: impl FnOnce() -> R) -> R {
    struct Restore(Caller);
    impl Drop for Restore {
        fn drop(&mut self) {
            CALLER.set(self.0);
        }
    }
    let _restore = Restore(CALLER.replace(caller));
    procedure()
}

/// As [`serving`], a call that can be cancelled. One that the procedure makes in this thread goes with it.
#[inline(always)]
pub(crate) fn serving_call<R>(
    call: CallId,
    deadline_ns: u64,
    caller: Caller,
    procedure: impl FnOnce() -> R,
) -> R {
    CALL.set(call);
    serving(deadline_ns, caller, procedure)
}

/// Serves another call in the midst of the one that this thread serves, which is restored afterwards.
pub(crate) fn in_between<R>(serve: impl FnOnce() -> R) -> R {
    let own = CALL.get();
    let served = serve();
    CALL.set(own);
    served
}

/// The earlier of the deadline of the call being served, if any, and `timeout_ns` from `now_ns` on.
#[inline]
pub(crate) fn bounded_deadline(now_ns: u64, timeout_ns: u64) -> u64 {
    let inherited_ns = DEADLINE_NS.get();
    if inherited_ns != NONE {
        ASKED.set(true);
    }
    now_ns.saturating_add(timeout_ns).min(inherited_ns)
}

/// Whether a procedure of this thread has learnt of its call's deadline, by asking or by a call that inherited it, since this was
/// last called. If it has not, it knows of no reason to return early.
#[inline]
pub(crate) fn take_asked() -> bool {
    ASKED.get() && ASKED.replace(false)
}

/// Whether a local call that has just returned, which was to end by `deadline_ns`, gives no result: its deadline has passed, or the
/// caller of the call that this thread serves has cancelled that. `asked`: its procedure has learnt of its deadline.
#[inline]
pub(crate) fn is_too_late(deadline_ns: u64, asked: bool) -> bool {
    let is_near = clock::coarse_now_ns() + clock::coarse_lag_ns() >= deadline_ns;
    (is_near | asked) && is_over(deadline_ns)
}

#[cold]
fn is_over(deadline_ns: u64) -> bool {
    let serves_another = DEADLINE_NS.get() != NONE;
    clock::now_ns() >= deadline_ns || serves_another && cancelled::is_cancelled(CALL.get())
}

/// Runs a local call, and tells whether its procedure has learnt of its deadline. What the thread's own procedure has learnt before is
/// kept.
#[inline]
pub(crate) fn noting_asked<R>(call: impl FnOnce() -> R) -> (R, bool) {
    let before = ASKED.replace(false);
    let returned = call();
    let asked = ASKED.get();
    ASKED.set(before | asked);
    (returned, asked)
}

/// From this timeout on the coarse clock tells when a call begins: reading the precise one costs 15 ns more.
const COARSE_ENOUGH_NS: u64 = 1_000_000_000;

/// When a call begins, by the cheapest clock that will do, and its deadline: never earlier than by the precise clock, but up to
/// four ticks of the kernel later where its timeout is a second or more. Such a deadline can be [refined]. `None`: the deadline
/// that it inherits has passed.
#[inline(always)]
pub(crate) fn begin_cheaply(timeout_ns: u64) -> Option<(u64, u64)> {
    if timeout_ns < COARSE_ENOUGH_NS {
        return begin_precisely(timeout_ns);
    }
    let begun_ns = clock::coarse_now_ns();
    let deadline_ns = (begun_ns + clock::coarse_lag_ns()).saturating_add(timeout_ns);
    let inherited_ns = DEADLINE_NS.get();
    if inherited_ns < deadline_ns {
        begin_with_inherited(inherited_ns)
    } else {
        Some((begun_ns, deadline_ns))
    }
}

#[inline(never)]
fn begin_precisely(timeout_ns: u64) -> Option<(u64, u64)> {
    let begun_ns = clock::now_ns();
    let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
    (begun_ns < deadline_ns).then_some((begun_ns, deadline_ns))
}

/// The deadline is known exactly; it is given as if the call began when the coarse clock could have shown the present time.
#[cold]
fn begin_with_inherited(deadline_ns: u64) -> Option<(u64, u64)> {
    ASKED.set(true);
    let now_ns = clock::now_ns();
    (now_ns < deadline_ns).then(|| (now_ns.saturating_sub(clock::coarse_lag_ns()), deadline_ns))
}

/// The deadline of a call that [began cheaply](begin_cheaply), as it is known by the precise clock at `now_ns`: the sooner that
/// is read, the more exactly, but never too early.
pub(crate) fn refined(begun_ns: u64, deadline_ns: u64, now_ns: u64) -> u64 {
    match time_left_at_begin(begun_ns, deadline_ns) {
        Some(left_ns) => deadline_ns.min(now_ns.saturating_add(left_ns)),
        None => deadline_ns,
    }
}

/// How long before its deadline a call began at the latest that [began cheaply](begin_cheaply); `None`: the deadline is exact.
#[inline]
pub(crate) fn time_left_at_begin(begun_ns: u64, deadline_ns: u64) -> Option<u64> {
    let left_ns = deadline_ns.saturating_sub(begun_ns).saturating_sub(clock::coarse_lag_ns());
    (left_ns >= COARSE_ENOUGH_NS).then_some(left_ns)
}

/// A length of time in nanoseconds, at most 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::context::*;
    use stoop_wire::{BindingId, CallNumber, LaneId};

    #[test]
    fn a_nested_call_inherits_the_earlier_deadline() {
        let later = bounded_deadline(100, 50);
        assert_eq!(later, 150);
        serving(120, Caller::Local, || {
            assert_eq!(bounded_deadline(100, 50), 120);
            serving(110, Caller::Local, || assert_eq!(bounded_deadline(100, 50), 110));
            assert_eq!(bounded_deadline(100, 5), 105);
        });
        assert!(current_call().is_none());
    }

    #[test]
    fn a_deadline_by_the_coarse_clock_is_not_early_and_can_be_refined() {
        for timeout_ns in [5_000_000, COARSE_ENOUGH_NS, 60 * COARSE_ENOUGH_NS] {
            let before_ns = clock::now_ns();
            let (begun_ns, deadline_ns) = begin_cheaply(timeout_ns).unwrap();
            let after_ns = clock::now_ns();
            assert!(deadline_ns >= before_ns + timeout_ns);
            let refined_ns = refined(begun_ns, deadline_ns, after_ns);
            assert!(refined_ns >= before_ns + timeout_ns && refined_ns <= after_ns + timeout_ns);
        }
    }

    #[test]
    fn a_call_that_inherits_its_deadline_tells_the_procedure_of_it_whatever_its_own_timeout() {
        for timeout_ns in [COARSE_ENOUGH_NS / 2, COARSE_ENOUGH_NS, 60 * COARSE_ENOUGH_NS] {
            serving(clock::now_ns() + COARSE_ENOUGH_NS / 4, Caller::Local, || {
                take_asked();
                assert!(begin_cheaply(timeout_ns).is_some() && take_asked(), "{timeout_ns} ns");
            });
        }
    }

    #[test]
    fn an_inherited_deadline_stays_as_it_is() {
        let now_ns = clock::now_ns();
        for left_ns in [COARSE_ENOUGH_NS / 2, COARSE_ENOUGH_NS, 5 * COARSE_ENOUGH_NS] {
            serving(now_ns + left_ns, Caller::Local, || {
                let (begun_ns, deadline_ns) = begin_cheaply(60 * COARSE_ENOUGH_NS).unwrap();
                assert_eq!(deadline_ns, now_ns + left_ns);
                assert_eq!(refined(begun_ns, deadline_ns, clock::now_ns()), deadline_ns);
            });
        }
        serving(now_ns, Caller::Local, || {
            assert!(begin_cheaply(60 * COARSE_ENOUGH_NS).is_none() && begin_cheaply(1).is_none());
        });
    }

    #[test]
    fn a_call_is_cancelled_by_its_caller_or_by_its_deadline() {
        let call = CallId::new(BindingId(8), LaneId(0), CallNumber(1));
        let is_cancelled = || current_call().unwrap().is_cancelled();
        serving_call(call, NONE - 1, Caller::Local, || {
            assert!(!is_cancelled());
            serving(1, Caller::Local, || assert!(is_cancelled()));
            cancelled::cancel(call);
            assert!(is_cancelled());
            serving(NONE - 1, Caller::Local, || assert!(is_cancelled()));
        });
        cancelled::ended(call);
        serving_call(CallId::NONE, NONE - 1, Caller::Local, || assert!(!is_cancelled()));
    }

    #[test]
    fn what_was_served_before_is_restored_after_a_panic() {
        let panicked = std::panic::catch_unwind(|| serving(1, Caller::Local, || panic!("expected")));
        assert!(panicked.is_err() && current_call().is_none());
    }
}
