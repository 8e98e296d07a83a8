//! Begun calls over shared memory.
//!
//! A call that is begun takes a [slot](lane_slot) with a lane. The calls that are begun together are published together, and the
//! server is woken once for all of them. The answer stays where the server has written it until the handle takes it: as long as all
//! goes well there is no lock for a single call, and no other thread.
//!
//! All other calls are [managed](managed_calls) by the background thread: calls for which there is no lane, long arguments and
//! results, calls with wakers, calls without handles, and calls of lost servers.

pub(crate) mod background;
pub(crate) mod calls;
pub(crate) mod lane_slot;
pub(crate) mod lane_slots;
pub(crate) mod managed;
pub(crate) mod managed_calls;
pub(crate) mod piped;
pub(crate) mod refused;
pub(crate) mod submission;
pub(crate) mod waiting;

use crate::calling::background as background_thread;
use crate::calling::begun::BegunCalls;
use crate::calling::counters::CallCounters;
use crate::error::SendError;
use crate::locked::locked;
use crate::transport::shm::begun::calls::SessionCalls;
use crate::transport::shm::begun::managed_calls::ManagedCalls;
use crate::transport::shm::caller::ShmBinding;
use std::io;
use std::sync::{Arc, Mutex};

/// The begun calls of a binding: a table for each session, and the calls that the background thread manages.
pub(crate) struct ShmCalls {
    managed: Arc<ManagedCalls>,
    present: Mutex<Arc<SessionCalls>>,
}

impl ShmCalls {
    /// # Errors
    /// The system gives no thread for the background.
    pub(crate) fn new(binding: &Arc<ShmBinding>) -> io::Result<Self> {
        let managed = Arc::new(ManagedCalls::new(binding));
        background_thread::start(&managed)?;
        let present = Mutex::new(managed.table_of(binding.present()));
        Ok(Self { managed, present })
    }
}

impl BegunCalls for ShmCalls {
    type Table = SessionCalls;

    #[inline]
    fn present(&self) -> Result<Arc<SessionCalls>, SendError> {
        Ok(self.latest())
    }

    #[inline]
    fn latest(&self) -> Arc<SessionCalls> {
        let mut present = locked(&self.present);
        if !present.session.takes_calls() {
            self.managed.replace(&mut present);
        }
        Arc::clone(&present)
    }

    fn counters(&self) -> CallCounters {
        CallCounters { calls: self.managed.begun(), fast: self.managed.fast(), ..CallCounters::default() }
    }
}

impl Drop for ShmCalls {
    /// Detached calls go on: the background thread drives them.
    fn drop(&mut self) {
        self.managed.state().closing = true;
        background_thread::hand_over(&self.managed);
    }
}
