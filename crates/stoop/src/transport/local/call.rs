//! An outstanding call to a server of this process.

use crate::error::{CallError, Refusal, RefusalCode, UnknownCause};
use crate::transport::local::pipes::LocalPipes;
use stoop_exchange::Instant;

/// A call that has not ended.
pub(super) struct LocalCall {
    /// No other call of the process ever has the same.
    pub(super) id: u64,
    pub(super) procedure: u16,
    pub(super) begun: Instant,
    /// `None` once the call runs.
    pub(super) arguments: Option<Vec<u8>>,
    pub(super) pipes: Option<LocalPipes>,
}

impl LocalCall {
    /// When it is due again, if a step of it has ended in time.
    pub(super) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let runs = self.pipes.as_ref().filter(|_| self.arguments.is_none());
        runs.map(|pipes| pipes.due_ns(now_ns)).filter(|due_ns| *due_ns > now_ns)
    }

    /// The error of the call at its deadline.
    pub(super) fn too_late(&self, now_ns: u64) -> CallError {
        if self.arguments.is_some() {
            return refused(RefusalCode::DeadlinePassed, String::new());
        }
        let waited = Instant::from_nanos(now_ns).since(self.begun);
        CallError::Unknown { transmissions: 1, waited, cause: UnknownCause::DeadlinePassed, callee: None }
    }
}

pub(super) fn refused(code: RefusalCode, detail: String) -> CallError {
    CallError::refused(Refusal::new(code, detail))
}
