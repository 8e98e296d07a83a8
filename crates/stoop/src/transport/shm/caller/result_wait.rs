//! How a thread waits for a server that writes to shared memory: spinning while the server can run at the same time, asleep
//! otherwise.

use crate::calling::deadline::Deadline;
use crate::transport::shm::caller::session::Session;
use std::sync::atomic::Ordering;
use stoop_net::waiting::{Placement, WaitCounts, Waiter, Waiting};
use stoop_net::{clock, host};

/// A waiter for a server that writes to shared memory.
pub(crate) struct ResultWait(Waiter);

/// Why a wait ended without success.
#[derive(Clone, Copy)]
pub(crate) enum WaitFailure {
    /// The deadline has passed.
    Late,
    /// The session is lost.
    Lost,
}

/// Looks of a spinning thread between two readings of the clock.
const LOOKS: u32 = 32;

impl ResultWait {
    pub(crate) fn new(waiting: Waiting, placement: Placement) -> Self {
        Self(Waiter::new(waiting, placement))
    }

    /// Another session has begun.
    pub(crate) fn set_placement(&mut self, placement: Placement) {
        self.0.set_placement(placement);
    }

    pub(crate) fn counts(&self) -> WaitCounts {
        self.0.counts()
    }

    /// Waits until `is_so`, at most until the deadline. `sleep` sleeps for so many nanoseconds at most,
    /// or until it may be so.
    #[inline]
    pub(crate) fn wait_until(
        &mut self,
        session: &Session,
        deadline: Deadline,
        is_so: impl Fn(&Session) -> bool,
        sleep: impl Fn(&Session, u64),
    ) -> Result<(), WaitFailure> {
        self.follow_server(session);
        let mut now_ns = clock::now_ns();
        let deadline_ns = deadline.at(now_ns);
        let mut wait = self.0.begin_in_memory(now_ns);
        loop {
            for _ in 0..if wait.spins() { LOOKS } else { 1 } {
                if is_so(session) {
                    self.0.arrived(&wait, now_ns);
                    return Ok(());
                }
            }
            if session.is_lost() {
                return last_look(session, is_so, WaitFailure::Lost);
            }
            if now_ns >= deadline_ns {
                return last_look(session, is_so, WaitFailure::Late);
            }
            if wait.sleeps() {
                sleep(session, deadline_ns - now_ns);
            }
            now_ns = self.0.pause(&mut wait, now_ns);
        }
    }

    /// The server may run on the calling thread's processor since its last answer. Then it must not
    /// wait for a thread that spins.
    #[inline]
    fn follow_server(&mut self, session: &Session) {
        let together = session.placement.together
            && session.server_cpu.load(Ordering::Relaxed) != host::current_cpu() as u16;
        self.0.set_together(together);
    }
}

/// It may have come at the last moment.
#[cold]
fn last_look(
    session: &Session,
    is_so: impl Fn(&Session) -> bool,
    failure: WaitFailure,
) -> Result<(), WaitFailure> {
    if is_so(session) { Ok(()) } else { Err(failure) }
}
