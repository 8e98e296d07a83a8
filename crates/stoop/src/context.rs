//! What a procedure can learn about the call that it serves: how much time is left, and whose call it is.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;
use stoop_net::clock;

/// The call that the running procedure serves.
#[derive(Clone, Copy, Debug)]
pub struct CurrentCall {
    deadline_ns: u64,
    caller: Caller,
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
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Process; it may have ended since, and its number have been given to another.
    pub pid: i32,
}

thread_local! {
    /// Apart from each other, for each call of the thread asks for the deadline.
    static DEADLINE_NS: Cell<u64> = const { Cell::new(NONE) };
    static CALLER: Cell<Caller> = const { Cell::new(Caller::Local) };
}

/// The deadline outside a procedure.
const NONE: u64 = u64::MAX;

/// The call that this thread serves at the moment; `None` outside a procedure.
///
/// Threads that a procedure starts are not in the call: hand them what they need of it.
pub fn current_call() -> Option<CurrentCall> {
    let deadline_ns = DEADLINE_NS.get();
    (deadline_ns != NONE).then(|| CurrentCall { deadline_ns, caller: CALLER.get() })
}

impl CurrentCall {
    /// Time until the caller stops waiting; zero when it has. Calls made by the procedure inherit this bound.
    pub fn time_left(&self) -> Duration {
        Duration::from_nanos(self.deadline_ns.saturating_sub(clock::now_ns()))
    }

    /// Who calls.
    pub fn caller(&self) -> Caller {
        self.caller
    }
}

/// Runs `procedure` as the serving of a call, and restores afterwards what the thread served before.
#[inline]
pub(crate) fn serving<R>(deadline_ns: u64, caller: Caller, procedure: impl FnOnce() -> R) -> R {
    struct Restore(u64, Caller);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            DEADLINE_NS.set(self.0);
            CALLER.set(self.1);
        }
    }
    // A deadline in 584 years is one that can be told from none.
    let _restore = Restore(DEADLINE_NS.replace(deadline_ns.min(NONE - 1)), CALLER.replace(caller));
    procedure()
}

/// The earlier of the deadline of the call being served, if any, and `timeout_ns` from `now_ns` on.
#[inline]
pub(crate) fn bounded_deadline(now_ns: u64, timeout_ns: u64) -> u64 {
    now_ns.saturating_add(timeout_ns).min(DEADLINE_NS.get())
}

/// A length of time in nanoseconds, at most 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_was_served_before_is_restored_after_a_panic() {
        let panicked = std::panic::catch_unwind(|| serving(1, Caller::Local, || panic!("expected")));
        assert!(panicked.is_err() && current_call().is_none());
    }
}
