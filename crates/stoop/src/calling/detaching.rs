//! Detached calls in a table of outstanding calls: the operations that all tables share.

use crate::calling::begun::OutstandingCalls;
use crate::calling::detached::{CallingThread, Reclaimed, Selection};
use crate::error::{CallError, CloseError};
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// Between two looks at a call that cannot leave, or for which another thread waits.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The operations of every table on detached calls.
pub(crate) trait Detaching: OutstandingCalls {
    /// Waits until a submitted call has left, at the latest until its deadline, and detaches it. It may be an ordered one-way call of
    /// that thread.
    ///
    /// # Errors
    /// It never left.
    fn let_go(&self, call: u32, calling_thread: Option<CallingThread>) -> Result<(), CallError> {
        loop {
            let mut ended = None;
            if self.take(call, &mut |outcome| ended = outcome.err()) {
                return match ended {
                    Some(never_left @ CallError::NotSent(_)) => Err(never_left),
                    Some(error) => {
                        self.note_failure(error, calling_thread);
                        Ok(())
                    }
                    None => Ok(()),
                };
            }
            if self.has_left(call) {
                self.detach(call, calling_thread);
                return Ok(());
            }
            self.wait_any(&[call], Instant::from_nanos(clock::now_ns()) + LOOK_EVERY);
        }
    }

    /// Waits until the selected calls have ended, at most until that time. Returns whether they have.
    fn settle(&self, selection: Selection, until: Instant) -> bool {
        loop {
            let (call, calling_thread) = match self.reclaim(selection) {
                Reclaimed::Call(call, calling_thread) => (call, calling_thread),
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
                self.detach(call, calling_thread);
                if Instant::from_nanos(clock::now_ns()) >= until {
                    return false;
                }
            }
            if let Some(error) = error {
                self.note_failure(error, calling_thread);
            }
        }
    }

    /// Waits until the ordered one-way calls of that thread have ended, at most until that time.
    fn await_order(&self, calling_thread: CallingThread, until: Instant) -> Awaited {
        let has_settled = self.settle(Selection::Of(calling_thread), until);
        let mut unknown = false;
        self.with_failures(&mut |failures| unknown = has_settled && failures.take_unknown(calling_thread));
        match (has_settled, unknown) {
            (false, _) => Awaited::TooLate,
            (true, true) => Awaited::Unknown,
            (true, false) => Awaited::All,
        }
    }

    /// Waits until all detached calls have ended, at most until that time, and reports those that gave no result.
    fn flush(&self, until: Instant) -> Result<(), CloseError> {
        let outstanding = if self.settle(Selection::All, until) { 0 } else { self.detached() };
        let mut report = Ok(());
        self.with_failures(&mut |failures| report = failures.report(outstanding));
        report
    }

    fn note_failure(&self, error: CallError, calling_thread: Option<CallingThread>) {
        let mut error = Some(error);
        self.with_failures(&mut |failures| {
            if let Some(error) = error.take() {
                failures.note(error, calling_thread);
            }
        });
    }
}

impl<C: OutstandingCalls + ?Sized> Detaching for C {}

/// State of a thread's ordered one-way calls after a wait.
pub(crate) enum Awaited {
    /// All have returned, or will never run.
    All,
    /// One of them may still be running.
    Unknown,
    /// Some had not returned in time.
    TooLate,
}
