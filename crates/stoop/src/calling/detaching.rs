//! Detached calls in a table of outstanding calls: the operations that all tables share.

use crate::calling::begun::OutstandingCalls;
use crate::calling::detached::{CallingThread, OrderedCall, Reclaimed, Selection};
use crate::error::{CallError, CloseError};
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// Between two looks at a call that cannot leave, or for which another thread waits.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The operations of every table on detached calls.
pub(crate) trait Detaching: OutstandingCalls {
    /// Waits until a submitted call has left, at the latest until its deadline, and detaches it. It may be this ordered one-way
    /// call.
    ///
    /// # Errors
    /// It never left.
    fn let_go(&self, call: u32, ordered: Option<OrderedCall>) -> Result<(), CallError> {
        loop {
            let mut ended = None;
            if self.take(call, &mut |outcome| ended = outcome.err()) {
                return match ended {
                    Some(never_left @ CallError::NotSent(..)) => Err(never_left),
                    Some(error) => {
                        self.note_failure(error, ordered);
                        Ok(())
                    }
                    None => Ok(()),
                };
            }
            if self.has_left(call) {
                self.detach(call, ordered);
                return Ok(());
            }
            self.wait_any(&[call], Instant::from_nanos(clock::now_ns()) + LOOK_EVERY);
        }
    }

    /// Waits until the selected calls have ended, at most until that time. Returns whether they have.
    fn settle(&self, selection: Selection, until: Instant) -> bool {
        loop {
            let (call, ordered) = match self.reclaim(selection) {
                Reclaimed::Call(call, ordered) => (call, ordered),
                Reclaimed::None => return true,
                Reclaimed::ByOthers => {
                    let left = until.since(Instant::from_nanos(clock::now_ns()));
                    if left.is_zero() {
                        return false;
                    }
                    thread::sleep(left.min(LOOK_EVERY));
                    continue;
                }
            };
            match selection {
                Selection::Of(_) => self.wait_for_reclaimed(call, until),
                // `wait_for_reclaimed` may run a `local:` procedure in this thread, which could take longer than `until`.
                Selection::All => drop(self.wait_any(&[call], until)),
            }
            let mut error = None;
            if !self.take(call, &mut |outcome| error = outcome.err()) {
                self.detach(call, ordered);
                if Instant::from_nanos(clock::now_ns()) >= until {
                    return false;
                }
            }
            if let Some(error) = error {
                self.note_failure(error, ordered);
            }
        }
    }

    /// Waits until the ordered one-way calls of that thread have ended, at most until that time, before its next call. That one may be
    /// sent though one of them may still be running, if it is `idempotent`: the call behind it is told.
    fn await_order(&self, thread: CallingThread, idempotent: bool, until: Instant) -> Awaited {
        if !self.settle(Selection::Of(thread), until) {
            return Awaited::TooLate;
        }
        let mut unknown = None;
        self.with_failures(&mut |failures| unknown = failures.unknown(thread, !idempotent));
        match unknown {
            None => Awaited::All,
            Some(_) if idempotent => Awaited::UnknownYet,
            Some(call) => Awaited::Unknown(call.procedure()),
        }
    }

    /// Waits until all detached calls have ended, at most until that time, and reports those that gave no result.
    fn flush(&self, until: Instant) -> Result<(), CloseError> {
        let outstanding = if self.settle(Selection::All, until) { 0 } else { self.detached() };
        let mut report = Ok(());
        self.with_failures(&mut |failures| report = failures.report(outstanding));
        report
    }

    fn note_failure(&self, error: CallError, ordered: Option<OrderedCall>) {
        let mut error = Some(error);
        self.with_failures(&mut |failures| {
            if let Some(error) = error.take() {
                failures.note(error, ordered);
            }
        });
    }
}

impl<C: OutstandingCalls + ?Sized> Detaching for C {}

/// State of a thread's ordered one-way calls after a wait.
pub(crate) enum Awaited {
    /// All have returned, or will never run.
    All,
    /// One of them may still be running, of that procedure.
    Unknown(u16),
    /// The same, and the next call is to be told once more.
    UnknownYet,
    /// Some had not returned in time.
    TooLate,
}
