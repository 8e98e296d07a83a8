//! The call that a thread serves: its deadline, its caller, and whether it is cancelled; and the deadlines of the calls that the
//! thread makes meanwhile.

mod caller;
pub(crate) mod cancelled;
mod deadlines;
#[cfg_attr(not(feature = "onc"), path = "context/no_identity.rs")]
pub(crate) mod identity;
pub(crate) mod keeper;
mod over;
mod owner;
pub(crate) mod peer;

pub use crate::context::caller::{Caller, Credentials, Station};
use crate::context::cancelled::CallId;
use crate::context::deadlines::COARSE_ENOUGH_NS;
pub(crate) use crate::context::deadlines::{TimeBounds, begin_cheaply, begun_latest_ns, earliest_deadline};
pub use crate::context::over::Cancelled;
pub(crate) use crate::context::owner::{owner_of, owner_on, serving_owner};
pub use crate::context::peer::Peer;
use crate::metadata::Metadata;
use crate::metadata::served::{self, CallMetadata};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use stoop_net::clock;

/// The call that the running procedure serves, as [`current_call`] gives it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use stoop::{Server, current_call};
///
/// #[stoop::interface]
/// trait Search { fn find(&self, word: &str) -> u32; }
///
/// struct Index;
/// impl Search for Index {
///     fn find(&self, _: &str) -> u32 {
///         let call = current_call().expect("a procedure runs in a call");
///         // Another thread has to be told whose work it does.
///         let half = std::thread::spawn(move || if call.is_cancelled() { 0 } else { 3 });
///         4 + half.join().unwrap_or_default()
///     }
/// }
///
/// let server = Server::new().export(SearchServer::new(Index)).listen("udp://127.0.0.1:0")?.start()?;
/// assert_eq!(SearchClient::bind(&server.uris()[0])?.find("word")?, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CurrentCall {
    deadline_ns: u64,
    caller: Caller,
    call: CallId,
    #[cfg_attr(not(feature = "onc"), expect(dead_code))]
    claim: Option<identity::Claim>,
}

thread_local! {
    /// A cell of its own, because every call that the thread makes reads the deadline.
    static DEADLINE_NS: Cell<u64> = const { Cell::new(NONE) };
    static CALLER: Cell<Caller> = const { Cell::new(Caller::Local) };
    /// The last cancellable call that this thread served. It stays after the call has ended, because it is read only inside calls.
    static CALL: Cell<CallId> = const { Cell::new(CallId::NONE) };
    /// Whether a procedure of this thread has read its deadline, by [`current_call`] or by a call that inherits it, since the last
    /// [`take_asked`]: such a procedure may have returned early because its caller no longer waits.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Value of `DEADLINE_NS` outside a procedure.
const NONE: u64 = u64::MAX;

/// The call that this thread serves at the moment; `None` outside a procedure.
///
/// Threads that a procedure starts do not serve the call: pass them the [`CurrentCall`].
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
///         // The result of a cancelled call goes nowhere, so any value will do.
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
/// If a procedure returns at or after the deadline, its value is discarded and the call fails with
/// [`FailureCode::FinishedTooLate`](crate::FailureCode::FinishedTooLate), which says that the procedure ran.
pub fn current_call() -> Option<CurrentCall> {
    let deadline_ns = DEADLINE_NS.get();
    ASKED.set(true);
    (deadline_ns != NONE).then(|| CurrentCall {
        deadline_ns,
        caller: CALLER.get(),
        call: CALL.get(),
        claim: identity::claimed(),
    })
}

/// What is known of a call while its answer is outstanding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ServedCall {
    deadline_ns: u64,
    call: CallId,
}

impl ServedCall {
    /// Whether its caller waits no longer.
    pub(crate) fn is_cancelled(self) -> bool {
        cancelled::is_cancelled(self.call) || self.time_left().is_zero()
    }

    /// When its caller stops waiting.
    #[inline]
    pub(crate) fn deadline_ns(self) -> u64 {
        self.deadline_ns
    }

    /// The name of the call.
    pub(crate) fn id(self) -> CallId {
        self.call
    }

    /// Time until its caller stops waiting.
    pub(crate) fn time_left(self) -> Duration {
        Duration::from_nanos(self.deadline_ns.saturating_sub(clock::now_ns()))
    }
}

/// The call that this thread serves; outside of a procedure one that nothing ends.
#[inline]
pub(crate) fn served_call() -> ServedCall {
    let deadline_ns = DEADLINE_NS.get();
    let call = if deadline_ns == NONE { CallId::NONE } else { CALL.get() };
    ServedCall { deadline_ns, call }
}

/// The call that a thread serves, for another thread that goes on with it.
#[derive(Clone, Debug)]
pub(crate) struct ServedContext {
    call: ServedCall,
    caller: Caller,
    metadata: Option<Arc<CallMetadata>>,
}

/// That of this thread.
pub(crate) fn served_context() -> ServedContext {
    ServedContext { call: served_call(), caller: CALLER.get(), metadata: served::kept() }
}

impl ServedContext {
    /// Runs `procedure` as a part of the serving of the call.
    pub(crate) fn serving<R>(&self, procedure: impl FnOnce() -> R) -> R {
        let ServedCall { deadline_ns, call } = self.call;
        let procedure = || served::serving(self.metadata.clone(), procedure);
        in_between(|| serving_call(call, deadline_ns, self.caller, procedure))
    }
}

/// The caller of the call that this thread serves.
#[inline]
pub(crate) fn serving_caller() -> Caller {
    CALLER.get()
}

impl CurrentCall {
    /// Time until the caller stops waiting; zero afterwards. Calls that the procedure makes inherit this bound. While a second or
    /// more is left, the value can be up to eight kernel ticks too small.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// /// In a procedure: the exact answer if there is time for it, else an estimate.
    /// fn count(exact: impl Fn() -> u64, estimate: impl Fn() -> u64) -> u64 {
    ///     let left = stoop::current_call().map_or(Duration::MAX, |call| call.time_left());
    ///     if left > Duration::from_millis(500) { exact() } else { estimate() }
    /// }
    /// # assert_eq!(count(|| 7, || 8), 7);
    /// ```
    pub fn time_left(&self) -> Duration {
        let left_ns = self.deadline_ns.saturating_sub(clock::now_ns());
        // A deadline that far away may have been computed from the coarse clock (`begin_cheaply`), and so be later than the caller's.
        let lag_ns = if left_ns >= COARSE_ENOUGH_NS { clock::coarse_lag_ns() } else { 0 };
        Duration::from_nanos(left_ns - lag_ns)
    }

    /// Whether the caller no longer waits for the result: it dropped the call's handle ([`Pending`](crate::Pending)), or the
    /// deadline has passed.
    ///
    /// The server never interrupts a running procedure. A long procedure can ask now and then and return early: the value or error
    /// that it then returns is discarded. After the deadline the server sends the failure
    /// [`FinishedTooLate`](crate::FailureCode::FinishedTooLate) in place of the result; a caller that dropped its handle receives
    /// nothing. Each question reads the clock; any thread that has this value may ask. Over shared memory the death of the caller's
    /// process counts as cancellation; over other transports it is not noticed before the deadline.
    ///
    /// Inside a `local:` call that a procedure makes, it also tells whether the outer call is cancelled.
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

    /// Waits until the caller no longer waits: what [`is_cancelled`](Self::is_cancelled) asks for, or until the caller's binding has ended
    /// (over TCP and Unix sockets: its connection is closed), which that does not notice. To be awaited by an `async fn`, or
    /// [waited for](Cancelled::wait_timeout) by a thread; it outlives the procedure, and then is ready at the deadline at the latest.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::current_call;
    ///
    /// #[stoop::interface]
    /// trait Backup {
    ///     /// Copies block after block, one in a while.
    ///     fn run(&self, blocks: u32) -> u32;
    ///     async fn verify(&self) -> Option<bool>;
    /// }
    ///
    /// # async fn read_all() -> bool { true }
    /// struct Disk;
    /// impl Backup for Disk {
    ///     fn run(&self, blocks: u32) -> u32 {
    ///         let cancelled = current_call().expect("a procedure runs in a call").cancelled();
    ///         (0..blocks).take_while(|_| !cancelled.wait_timeout(Duration::from_micros(1))).count() as u32
    ///     }
    ///     async fn verify(&self) -> Option<bool> {
    ///         let cancelled = current_call()?.cancelled();
    ///         // Dropped where it awaits when the caller goes.
    ///         cancelled.or(read_all()).await
    ///     }
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(BackupServer::new(Disk)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let client = BackupClient::bind(&server.uris()[0])?;
    /// # assert_eq!((client.run(3)?, client.verify()?), (3, Some(true)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::of(ServedCall { deadline_ns: self.deadline_ns, call: self.call })
    }

    /// The caller.
    ///
    /// ```
    /// use stoop::{Caller, current_call};
    ///
    /// /// In a procedure: whether the caller is at this machine.
    /// fn is_near() -> bool {
    ///     match current_call().map(|call| call.caller()) {
    ///         Some(Caller::Network(address)) => address.ip().is_loopback(),
    ///         Some(Caller::Station(_)) => false,
    ///         _ => true,
    ///     }
    /// }
    /// # assert!(is_near());
    /// ```
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// The caller as it has proved to be: on a sealed binding the name that the server's file of callers gives its key, or the key itself;
    /// on this machine `uid:1000`, by the kernel's word. `None`: nothing proves it.
    ///
    /// ```
    /// /// In a procedure: whether root calls, as the kernel says of callers at `unix:` and `shm:` addresses.
    /// fn is_root() -> bool {
    ///     let peer = stoop::current_call().and_then(|call| call.peer());
    ///     peer.is_some_and(|peer| peer.name() == "uid:0")
    /// }
    /// # assert!(!is_root());
    /// ```
    pub fn peer(&self) -> Option<Peer> {
        Peer::of(&self.caller, self.call)
    }

    /// The metadata that came with the call; none in a thread that does not serve it.
    ///
    /// ```
    /// /// In a procedure: the tenant for which the call is made, as its caller says.
    /// fn tenant() -> Option<String> {
    ///     let metadata = stoop::current_call()?.metadata();
    ///     Some(String::from_utf8_lossy(metadata.get("tenant")?).into_owned())
    /// }
    /// # assert!(tenant().is_none());
    /// ```
    pub fn metadata(&self) -> Metadata {
        if self.is_served_here() { served::current() } else { Metadata::new() }
    }

    /// Sends this metadata beside the result, in place of what was set before, if the call came with metadata, or its caller asks for that of
    /// the answer. Of no effect in a thread that does not serve the call. Answers without a result have none.
    ///
    /// If it cannot travel, the call fails with [`FailureCode::Inexpressible`](crate::FailureCode::Inexpressible).
    pub fn set_answer_metadata(&self, metadata: Metadata) {
        if self.is_served_here() {
            served::set_answer(metadata);
        }
    }

    fn is_served_here(&self) -> bool {
        served_call() == ServedCall { deadline_ns: self.deadline_ns, call: self.call }
            && CALLER.get() == self.caller
    }
}

/// Runs `procedure` as the serving of a call. Afterwards the thread serves the call that it served before.
#[inline(always)]
pub(crate) fn serving<R>(deadline_ns: u64, caller: Caller, procedure: impl FnOnce() -> R) -> R {
    struct Restore(u64);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            DEADLINE_NS.set(self.0);
        }
    }
    // A deadline 584 years away must stay distinguishable from `NONE`.
    let before = DEADLINE_NS.replace(deadline_ns.min(NONE - 1));
    let _restore = Restore(before);
    if before == NONE {
        // The caller need not be restored: it is read only inside calls.
        CALLER.set(caller);
        return procedure();
    }
    in_between_callers(caller, procedure)
}

/// Runs `procedure` for another caller, inside a call that this thread serves.
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
    served::serving_nested(|| identity::without_claim(procedure))
}

/// [`serving`] for a call that can be cancelled. A `local:` call inside it is cancelled with it.
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

/// Runs `serve`, which serves another call, and restores the cancellable call of this thread afterwards.
pub(crate) fn in_between<R>(serve: impl FnOnce() -> R) -> R {
    let own = CALL.get();
    let served = served::serving(None, serve);
    CALL.set(own);
    served
}

/// Deadline of a call that begins at `now_ns`: `timeout_ns` later, or that of the call being served if that is earlier.
#[inline]
pub(crate) fn bounded_deadline(now_ns: u64, timeout_ns: u64) -> u64 {
    let inherited_ns = DEADLINE_NS.get();
    if inherited_ns != NONE {
        ASKED.set(true);
    }
    now_ns.saturating_add(timeout_ns).min(inherited_ns)
}

/// Whether a procedure of this thread has read its deadline since the last call of this function. If not, it had no reason to
/// return early.
#[inline]
pub(crate) fn take_asked() -> bool {
    ASKED.get() && ASKED.replace(false)
}

/// Whether the result of a `local:` call that has just returned must be discarded: its deadline has passed, or the call that this
/// thread serves is cancelled. `asked`: its procedure has read its deadline.
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

/// Runs a `local:` call and tells whether its procedure has read its deadline. The thread's own record of that is kept.
#[inline]
pub(crate) fn noting_asked<R>(call: impl FnOnce() -> R) -> (R, bool) {
    let before = ASKED.replace(false);
    let returned = call();
    let asked = ASKED.get();
    ASKED.set(before | asked);
    (returned, asked)
}

/// `time` in nanoseconds, at most 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
