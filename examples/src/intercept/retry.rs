//! Calls that are made again when that is safe.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};

/// Has a client's calls of idempotent procedures made again when they gave no result, after a pause that doubles each time.
///
/// The client sends lost packets again by itself, and calls that an overloaded server has refused. This is for refusals that the program
/// understands better, and for servers that are away for a while.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    more: u32,
    pause: Duration,
}

impl Retry {
    /// At most so many times more, the first after that pause.
    pub fn new(more: u32, pause: Duration) -> Self {
        Self { more, pause }
    }
}

impl Intercept for Retry {
    fn name(&self) -> &str {
        "retry"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        call.keep(AtomicU32::new(0));
        Before::Go
    }

    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        let Some(made) = call.kept::<AtomicU32>() else { return After::Return };
        if ended.outcome().is_ok() || !call.is_idempotent() {
            return After::Return;
        }
        match made.fetch_add(1, Ordering::Relaxed) {
            times if times < self.more => After::Again(self.pause * 2_u32.saturating_pow(times)),
            _ => After::Return,
        }
    }
}
