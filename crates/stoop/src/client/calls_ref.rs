//! How a handle knows what carries its call.

use crate::calling::begun::Carrier;
use crate::calling::completion_table::Board;
use crate::calling::short_result::Short;
use std::sync::Arc;

/// Who has to be asked about a call in flight.
pub(crate) enum Holder {
    /// What carries it, and is kept by this.
    Carrier(Arc<dyn Carrier>),
    /// What carries it is known by its board, and kept because of the call.
    Board(&'static Board),
}

// A handle has one, and is moved to and fro.
const _: () = assert!(size_of::<Holder>() == 16);

impl Holder {
    /// Of a call that this carrier has begun, whose board this is.
    #[inline]
    pub(crate) fn of(carrier: &Arc<dyn Carrier>, board: Option<&'static Board>) -> Self {
        match board {
            Some(board) => Self::Board(board),
            None => Self::Carrier(Arc::clone(carrier)),
        }
    }

    /// Does something with the carrier.
    #[inline]
    pub(crate) fn with<T>(&self, ask: impl FnOnce(&Arc<dyn Carrier>) -> T) -> T {
        match self {
            Self::Carrier(carrier) => ask(carrier),
            Self::Board(board) => ask(&board.carrier()),
        }
    }

    /// Whether it is the same carrier.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Carrier(one), Self::Carrier(other)) => Arc::ptr_eq(one, other),
            (Self::Board(one), Self::Board(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }

    /// Whether the call has ended, as [`Carrier::is_ready`].
    #[inline]
    pub(crate) fn is_ready(&self, call: u32) -> bool {
        match self {
            Self::Carrier(carrier) => carrier.is_ready(call),
            Self::Board(board) => board.has_ended(call) || board.carrier().is_ready(call),
        }
    }

    /// As [`Carrier::take_short`].
    #[inline]
    pub(crate) fn take_short(&self, call: u32) -> Option<Short> {
        match self {
            Self::Carrier(carrier) => carrier.take_short(call),
            Self::Board(board) => board.take(call),
        }
    }
}
