//! The attempts of a call on a held lane: between interceptors, and once more after a loss.

use super::{Arguments, HeldLane};
use crate::calling::deadline::CallTimes;
use crate::calling::fate::{Ended, Loss};
use crate::calling::recovery::Attempts;
use crate::error::{BindError, CallError, SendError};
use crate::intercept::client::Attempt;
use crate::metadata::Metadata;
use crate::metadata::outgoing::Carried;
use crate::transport::remote::{Remote, RemoteLane};
use std::mem;
use std::time::Duration;
use stoop_calls::life::Why;
use stoop_exchange::Instant;
use stoop_exchange::outcome::Verdict;
use stoop_net::clock;
use stoop_wire::Refused;

/// A call between interceptors.
pub(super) struct InterceptedCall<'h, 'b, 'r, 'p, 'a, R: Remote> {
    pub(super) held: &'h mut HeldLane<'b, R>,
    pub(super) procedure: u16,
    pub(super) arguments: Arguments<'r, 'p, 'a>,
    pub(super) times: CallTimes,
    pub(super) is_again: bool,
}

impl<R: Remote> Attempt for InterceptedCall<'_, '_, '_, '_, '_, R> {
    fn make(&mut self, carried: Option<&Carried>, answer: &mut Metadata) -> Result<(), CallError> {
        let deadline_ns = self.times.deadline.latest_ns;
        // Interceptors may have taken their time.
        if clock::coarse_now_ns() >= deadline_ns {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        if mem::replace(&mut self.is_again, true) {
            self.times = CallTimes::exact(clock::now_ns(), deadline_ns);
        }
        let arguments = self.arguments.reborrow();
        self.held.call_with_metadata(self.procedure, self.times, arguments, carried, answer)
    }

    fn is_repeatable(&self) -> bool {
        !self.arguments.are_overwritten::<R>(self.held.made())
    }
}

/// A call that is made once more.
pub(super) struct Repeated<'h, 'b, 'r, 'p, 'a, R: Remote> {
    pub(super) held: &'h mut HeldLane<'b, R>,
    pub(super) procedure: u16,
    pub(super) arguments: Arguments<'r, 'p, 'a>,
    /// When it was sent on the present session.
    pub(super) sent_ns: u64,
}

impl<R: Remote> Attempts for Repeated<'_, '_, '_, '_, '_, R> {
    fn bind(&mut self, why: Why, deadline: Instant) -> Result<Verdict, BindError> {
        let (lane, binding) = (self.held.made(), self.held.binding);
        match why {
            Why::Leave => binding.leave(lane.session(), deadline)?,
            Why::Lost => drop(binding.rebind(lane.session(), None, deadline)?),
            Why::Judge(refusal) => {
                let session = binding.rebind(lane.session(), Some(refusal), deadline)?;
                let idempotent = binding.is_idempotent(self.procedure);
                return Ok(lane.judge(self.sent_ns, refusal, &session, idempotent));
            }
        }
        Ok(Verdict::NotRun)
    }

    fn adopt(&mut self) -> bool {
        self.held.adopt_present()
    }

    fn attempt(&mut self, now_ns: u64, deadline_ns: u64) -> Result<(), Ended> {
        self.sent_ns = now_ns;
        self.held.attempt_apart(CallTimes::exact(now_ns, deadline_ns), self.procedure, &mut self.arguments)
    }

    fn loss(&self) -> Loss {
        self.held.made().loss()
    }

    fn is_overwritten(&self) -> bool {
        self.arguments.are_overwritten::<R>(self.held.made())
    }

    fn wait_after(&self, refused: Refused, attempts: u32, left: Duration) -> Option<Duration> {
        self.held.binding.wait_after(refused, attempts, left)
    }
}
