//! What a queue has only if there was no room for an item, or when its pipe has ended: most are quiet.

use crate::pipes::error::PipeError;
use crate::pipes::waiters::{Waiters, Wakeup};
use std::collections::VecDeque;

/// It is there from the first use on.
#[derive(Default)]
pub(super) struct Rare(Option<Box<There>>);

#[derive(Default)]
pub(super) struct There {
    /// Items that wait for room, each the newest of its key.
    pub(super) kept: VecDeque<Kept>,
    pub(super) room: Waiters,
    /// Why nothing more can be appended, and why nothing more can be taken.
    pub(super) over: Option<PipeError>,
    pub(super) failed: Option<PipeError>,
}

pub(super) struct Kept {
    pub(super) key: u64,
    pub(super) item: Vec<u8>,
    pub(super) skipped: u32,
}

impl Rare {
    #[cold]
    pub(super) fn get(&mut self) -> &mut There {
        self.0.get_or_insert_default()
    }

    pub(super) fn over(&self) -> Option<&PipeError> {
        self.0.as_ref()?.over.as_ref()
    }

    pub(super) fn failed(&self) -> Option<&PipeError> {
        self.0.as_ref()?.failed.as_ref()
    }

    /// Whether items wait for room.
    pub(super) fn keeps(&self) -> bool {
        self.0.as_ref().is_some_and(|there| !there.kept.is_empty())
    }

    pub(super) fn next_kept(&mut self) -> Option<Kept> {
        self.0.as_mut()?.kept.pop_front()
    }

    pub(super) fn forget_kept(&mut self) {
        if let Some(there) = &mut self.0 {
            there.kept = VecDeque::new();
        }
    }

    pub(super) fn wake_for_room(&mut self) -> Wakeup {
        self.0.as_mut().map_or_else(Wakeup::default, |there| there.room.wake())
    }

    /// Whether a task waits for room.
    pub(super) fn is_polled(&self) -> bool {
        self.0.as_ref().is_some_and(|there| there.room.is_polled())
    }
}
