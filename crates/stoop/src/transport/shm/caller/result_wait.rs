//! How a thread waits for what a server does in shared memory: spinning while the server can run at the same time, asleep
//! otherwise.

use crate::transport::shm::caller::Deadline;
use crate::transport::shm::caller::session::Session;
use std::sync::atomic::Ordering;
use stoop_net::waiting::{
    ActiveWaiters, MachineCosts, Placement, Wait, WaitCounts, WaiterSlot, Waiting, Yielding,
};
use stoop_net::{clock, host};

/// A way of waiting, which learns how long waits are.
pub(crate) struct ResultWait {
    wait: Wait,
    yielding: Yielding,
    together: bool,
    waiters: WaiterSlot<'static>,
}

/// Why a wait ended in vain.
#[derive(Clone, Copy)]
pub(crate) enum WaitFailure {
    Late,
    Lost,
}

/// Looks before a look at the clock.
const LOOKS: u32 = 32;

impl ResultWait {
    pub(crate) fn new(waiting: Waiting, placement: Placement) -> Self {
        Self {
            wait: Wait::new(waiting, MachineCosts::of_this_machine(), placement),
            yielding: Yielding::default(),
            together: placement.together,
            waiters: ActiveWaiters::of_this_process().member(),
        }
    }

    /// Another session has begun.
    pub(crate) fn set_placement(&mut self, placement: Placement) {
        self.wait.set_placement(placement);
        self.together = placement.together;
    }

    /// When the last wait began.
    pub(crate) fn began_ns(&self) -> u64 {
        self.wait.began_ns()
    }

    pub(crate) fn counts(&self) -> WaitCounts {
        self.wait.counts()
    }

    /// Waits until something is so, spinning or asleep.
    #[inline]
    pub(crate) fn wait_until(
        &mut self,
        session: &Session,
        deadline: Deadline,
        is_so: impl Fn(&Session) -> bool,
        sleep: impl Fn(&Session, u64),
    ) -> Result<(), WaitFailure> {
        // It must not be kept waiting by a thread that spins on the server's processor.
        let together = session.placement.together
            && session.server_cpu.load(Ordering::Relaxed) != host::current_cpu() as u16;
        if together != self.together {
            self.together = together;
            self.wait.set_placement(Placement { together, ..session.placement });
        }
        let _present = self.waiters.wait();
        let mut clock_ns = clock::now_ns();
        let deadline_ns = deadline.at(clock_ns);
        let spins = self.wait.begin(clock_ns, self.waiters.waiting()) > 0;
        if spins {
            loop {
                for _ in 0..LOOKS {
                    if is_so(session) {
                        self.wait.arrived(clock_ns);
                        return Ok(());
                    }
                }
                clock_ns = clock::now_ns();
                if session.is_lost() {
                    return last_look(session, is_so, WaitFailure::Lost);
                }
                if clock_ns >= deadline_ns {
                    return last_look(session, is_so, WaitFailure::Late);
                }
                if !self.wait.keeps_spinning(clock_ns, self.waiters.waiting()) {
                    break;
                }
            }
        }
        let may_yield = !spins && self.wait.may_yield(self.waiters.waiting());
        let mut yields = may_yield && self.yielding.begin(clock_ns);
        while yields {
            // Perhaps before it has yielded: a server that is woken may run before who has woken it goes on.
            if is_so(session) {
                self.yielding.arrived(clock_ns);
                self.wait.arrived(clock_ns);
                return Ok(());
            }
            self.yielding.yield_now();
            clock_ns = clock::now_ns();
            if session.is_lost() {
                return last_look(session, is_so, WaitFailure::Lost);
            }
            if clock_ns >= deadline_ns {
                return last_look(session, is_so, WaitFailure::Late);
            }
            yields = is_so(session) || self.yielding.goes_on(clock_ns);
        }
        self.wait.sleeps(clock_ns);
        while !is_so(session) {
            if session.is_lost() {
                return last_look(session, is_so, WaitFailure::Lost);
            }
            if clock_ns >= deadline_ns {
                return last_look(session, is_so, WaitFailure::Late);
            }
            sleep(session, deadline_ns - clock_ns);
            clock_ns = clock::now_ns();
        }
        self.wait.arrived(clock_ns);
        Ok(())
    }
}

/// It may have come at the last moment.
#[cold]
fn last_look(
    session: &Session,
    is_so: impl Fn(&Session) -> bool,
    vain: WaitFailure,
) -> Result<(), WaitFailure> {
    if is_so(session) { Ok(()) } else { Err(vain) }
}
