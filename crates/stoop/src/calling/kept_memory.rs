//! Gives the memory back that lanes keep after long calls, when they have made no call for a while.
//!
//! A thread of the process looks every two seconds, as long as some lane keeps such memory.

use crate::locked::locked;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;
use stoop_net::fork::PerProcess;
use stoop_net::threads;

/// A place that keeps memory for the next long call.
pub(crate) trait KeepsMemory: Send + Sync {
    /// Gives the memory back, unless there has been a call since this was last asked. Returns whether some is still kept.
    fn release_memory(&self) -> bool;
}

#[derive(Default)]
struct Keepers {
    all: Vec<Weak<dyn KeepsMemory>>,
    /// The thread runs.
    is_watched: bool,
    /// A lane has begun to keep memory since its last look.
    is_noted: bool,
}

/// Time between two looks: as long as a server is quiet before it gives memory back.
const LOOK_EVERY: Duration = Duration::from_secs(2);

static KEEPERS: PerProcess<Mutex<Keepers>> = PerProcess::new();

fn keepers() -> &'static Mutex<Keepers> {
    let made: Result<_, std::convert::Infallible> = KEEPERS.get_or_try_make(|| Ok(Mutex::default()));
    match made {
        Ok(keepers) => keepers,
        Err(never) => match never {},
    }
}

/// A place that may keep memory later.
pub(crate) fn add(keeper: Weak<dyn KeepsMemory>) {
    let mut keepers = locked(keepers());
    keepers.all.retain(|keeper| keeper.strong_count() > 0);
    keepers.all.push(keeper);
}

/// A lane keeps memory for its next long call from now on.
#[cold]
pub(crate) fn note() {
    let keepers = keepers();
    let mut state = locked(keepers);
    state.is_noted = true;
    if !state.is_watched {
        let watching = threads::start("stoop-release", move || watch(keepers));
        // Without a thread the lane keeps the memory until its next call.
        state.is_watched = watching.is_ok();
    }
}

fn watch(keepers: &Mutex<Keepers>) {
    loop {
        thread::sleep(LOOK_EVERY);
        let all: Vec<Arc<_>> = locked(keepers).all.iter().filter_map(Weak::upgrade).collect();
        let mut keeps = false;
        all.iter().for_each(|keeper| keeps |= keeper.release_memory());
        drop(all);
        let mut state = locked(keepers);
        if !keeps && !std::mem::take(&mut state.is_noted) {
            state.is_watched = false;
            return;
        }
    }
}
