//! Detached calls, which have no handle: one-way calls, and calls whose handles were [detached](crate::Pending::detach).

use crate::error::{CallError, CloseError};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The identity of a thread that makes ordered one-way calls. No other thread of the process ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallingThread(NonZeroU64);

impl CallingThread {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        thread_local! {
            static NUMBER: Cell<Option<CallingThread>> = const { Cell::new(None) };
        }
        static LAST: AtomicU64 = AtomicU64::new(0);
        NUMBER.get().unwrap_or_else(|| {
            let number = NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed));
            NUMBER.set(Some(Self(number)));
            Self(number)
        })
    }
}

/// Selects detached calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selection {
    /// All detached calls of the binding.
    All,
    /// The ordered one-way calls of that thread.
    Of(CallingThread),
}

impl Selection {
    /// Whether it includes a detached call, which is the ordered one-way call of that thread, if it is one.
    pub(crate) fn includes(self, calling_thread: Option<CallingThread>) -> bool {
        match self {
            Self::All => true,
            Self::Of(thread) => calling_thread == Some(thread),
        }
    }
}

/// The selected detached calls that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaimed {
    /// This one has a handle now. It may be an ordered one-way call of that thread.
    Call(u32, Option<CallingThread>),
    /// Other threads have reclaimed all of them, and wait for them.
    ByOthers,
    /// There is none.
    None,
}

/// Failures of detached calls: no handle can report them.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: usize,
    first: Option<Box<CallError>>,
    /// Threads with an ordered one-way call that may still be running.
    unknown: BTreeSet<CallingThread>,
}

/// Threads that are remembered at most, the latest: most others have ended without another call.
const UNKNOWN_MAX: usize = 16 * 1024;

impl Failures {
    /// Notes that a call has ended with this error. It was the ordered one-way call of that thread, if it was one.
    #[cold]
    pub(crate) fn note(&mut self, error: CallError, calling_thread: Option<CallingThread>) {
        if let CallError::Unknown { .. } = error {
            self.unknown.extend(calling_thread);
            if self.unknown.len() > UNKNOWN_MAX {
                self.unknown.pop_first();
            }
        }
        self.count += 1;
        self.first.get_or_insert_with(|| Box::new(error));
    }

    /// Whether an ordered one-way call of that thread may still be running. Says so once.
    pub(crate) fn take_unknown(&mut self, calling_thread: CallingThread) -> bool {
        self.unknown.remove(&calling_thread)
    }

    /// Reports the failures since the last report, and the calls that are outstanding.
    pub(crate) fn report(&mut self, outstanding: usize) -> Result<(), CloseError> {
        let failed = std::mem::take(&mut self.count);
        let cause = self.first.take().map(|error| *error);
        match outstanding + failed {
            0 => Ok(()),
            _ => Err(CloseError { outstanding, failed, cause }),
        }
    }
}
