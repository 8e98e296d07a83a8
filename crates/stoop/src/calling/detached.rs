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

/// An ordered one-way call: the thread that has made it, and its procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderedCall(NonZeroU64);

impl OrderedCall {
    /// A call of the calling thread.
    pub(crate) fn of_this_thread(procedure: u16) -> Self {
        Self::new(CallingThread::current(), procedure)
    }

    fn new(CallingThread(number): CallingThread, procedure: u16) -> Self {
        // No process ever has so many threads that a bit is lost.
        Self(number.saturating_mul(NonZeroU64::new(1 << 16).expect("it is not 0")) | u64::from(procedure))
    }

    fn thread(self) -> u64 {
        self.0.get() >> 16
    }

    /// The number of its procedure in the interface.
    pub(crate) fn procedure(self) -> u16 {
        self.0.get() as u16
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
    /// Whether it includes a detached call, which is this ordered one-way call, if it is one.
    pub(crate) fn includes(self, ordered: Option<OrderedCall>) -> bool {
        match self {
            Self::All => true,
            Self::Of(CallingThread(thread)) => ordered.is_some_and(|call| call.thread() == thread.get()),
        }
    }
}

/// The selected detached calls that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaimed {
    /// This one has a handle now. It may be this ordered one-way call.
    Call(u32, Option<OrderedCall>),
    /// Other threads have reclaimed all of them, and wait for them.
    ByOthers,
    /// There is none.
    None,
}

/// Failures of detached calls: no handle can report them.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: usize,
    first: Option<Box<(CallError, Option<OrderedCall>)>>,
    /// Ordered one-way calls that may still be running: the latest of each procedure and thread.
    unknown: BTreeSet<OrderedCall>,
}

/// Such calls that are remembered at most, those of the latest threads: most others have ended without another call.
const UNKNOWN_MAX: usize = 16 * 1024;

impl Failures {
    /// Notes that a call has ended with this error. It was this ordered one-way call, if it was one.
    #[cold]
    pub(crate) fn note(&mut self, error: CallError, ordered: Option<OrderedCall>) {
        if let CallError::Unknown { .. } = error {
            self.unknown.extend(ordered);
            if self.unknown.len() > UNKNOWN_MAX {
                self.unknown.pop_first();
            }
        }
        self.count += 1;
        self.first.get_or_insert_with(|| Box::new((error, ordered)));
    }

    /// An ordered one-way call of that thread that may still be running. `forgets`: it is said once of all of them.
    pub(crate) fn unknown(&mut self, thread: CallingThread, forgets: bool) -> Option<OrderedCall> {
        let first = self.first_unknown(thread)?;
        while forgets && let Some(call) = self.first_unknown(thread) {
            self.unknown.remove(&call);
        }
        Some(first)
    }

    /// That of the procedure with the lowest number. Many threads may have some: this searches, and does not look at all.
    fn first_unknown(&self, thread: CallingThread) -> Option<OrderedCall> {
        let of_thread = OrderedCall::new(thread, 0)..=OrderedCall::new(thread, u16::MAX);
        self.unknown.range(of_thread).next().copied()
    }

    /// Reports the failures since the last report, and the calls that are outstanding.
    pub(crate) fn report(&mut self, outstanding: usize) -> Result<(), CloseError> {
        let failed = std::mem::take(&mut self.count);
        let (cause, ordered) = self.first.take().map(|first| *first).unzip();
        let procedure = ordered.flatten().map(OrderedCall::procedure);
        match outstanding + failed {
            0 => Ok(()),
            _ => Err(CloseError { outstanding, failed, cause, procedure }),
        }
    }
}
