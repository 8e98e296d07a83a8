//! Calls without a handle: one-way calls, and calls whose handles were [detached](crate::Pending::detach).

use super::lanes::thread_number;
use crate::error::{CallError, CloseError};
use std::collections::BTreeSet;

/// A thread that makes ordered one-way calls. A later thread may have the number of one that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Teller(u32);

impl Teller {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        Self(thread_number() as u32)
    }
}

/// Which calls without a handle are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// All of the binding.
    All,
    /// The ordered one-way calls of that thread.
    Of(Teller),
}

impl Which {
    /// Whether a call without a handle is meant, which is that thread's ordered one-way call, if any's.
    pub(crate) fn includes(self, teller: Option<Teller>) -> bool {
        match self {
            Self::All => true,
            Self::Of(thread) => teller == Some(thread),
        }
    }
}

/// Calls of a binding that ended without a result, and without a handle to report it to.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: usize,
    first: Option<Box<CallError>>,
    /// Threads with an ordered one-way call that may still be running.
    unknown: BTreeSet<Teller>,
}

impl Failures {
    /// A call has ended with this error; it was that thread's ordered one-way call, if any's.
    #[cold]
    pub(crate) fn note(&mut self, error: CallError, teller: Option<Teller>) {
        if let CallError::Unknown { .. } = error {
            self.unknown.extend(teller);
        }
        self.count += 1;
        self.first.get_or_insert_with(|| Box::new(error));
    }

    /// Whether an ordered one-way call of that thread may still be running. Told once.
    pub(crate) fn take_unknown(&mut self, teller: Teller) -> bool {
        self.unknown.remove(&teller)
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
