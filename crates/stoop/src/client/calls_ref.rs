//! How a handle knows what carries its call.

use crate::calling::begun::OutstandingCalls;
use crate::calling::completion_table::CompletionTable;
use crate::calling::short_result::Short;
use std::sync::Arc;

/// Who has to be asked about a call in flight.
pub(crate) enum CallsRef {
    /// What carries it, and is kept by this.
    OutstandingCalls(Arc<dyn OutstandingCalls>),
    /// What carries it is known by its completions, and kept because of the call.
    CompletionTable(&'static CompletionTable),
}

// A handle has one, and is moved to and fro.
const _: () = assert!(size_of::<CallsRef>() == 16);

impl CallsRef {
    /// Of a call that this calls has begun, whose completions this is.
    #[inline]
    pub(crate) fn of(
        calls: &Arc<dyn OutstandingCalls>,
        completions: Option<&'static CompletionTable>,
    ) -> Self {
        match completions {
            Some(completions) => Self::CompletionTable(completions),
            None => Self::OutstandingCalls(Arc::clone(calls)),
        }
    }

    /// Does something with the calls.
    #[inline]
    pub(crate) fn with<T>(&self, ask: impl FnOnce(&Arc<dyn OutstandingCalls>) -> T) -> T {
        match self {
            Self::OutstandingCalls(calls) => ask(calls),
            Self::CompletionTable(completions) => ask(&completions.calls()),
        }
    }

    /// Whether it is the same calls.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OutstandingCalls(one), Self::OutstandingCalls(other)) => Arc::ptr_eq(one, other),
            (Self::CompletionTable(one), Self::CompletionTable(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }

    /// Whether the call has ended, as [`OutstandingCalls::is_ready`].
    #[inline]
    pub(crate) fn is_ready(&self, call: u32) -> bool {
        match self {
            Self::OutstandingCalls(calls) => calls.is_ready(call),
            Self::CompletionTable(completions) => {
                completions.has_ended(call) || completions.calls().is_ready(call)
            }
        }
    }

    /// As [`OutstandingCalls::take_short`].
    #[inline]
    pub(crate) fn take_short(&self, call: u32) -> Option<Short> {
        match self {
            Self::OutstandingCalls(calls) => calls.take_short(call),
            Self::CompletionTable(completions) => completions.take(call),
        }
    }
}
