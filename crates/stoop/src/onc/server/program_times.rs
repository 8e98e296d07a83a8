//! How long the procedures of programs take at one address.

use crate::context::cancelled::CallId;
use crate::serving::procedure_time::ProcedureTime;
use crate::serving::terms::{CallTerms, Priority};
use stoop_exchange::shares::Owner;

/// Times of procedures. A program does not say how many it has.
pub(crate) struct ProgramTimes(Vec<ProcedureTime>);

const TIMES: usize = 1024;

impl ProgramTimes {
    pub(crate) fn new() -> Self {
        Self((0..TIMES).map(|_| ProcedureTime::default()).collect())
    }

    /// The time that the procedure takes which a message calls. The procedures of a version have one each. Procedures of two versions may
    /// share one; then the quick one is now and then expected to take as long as the slow one.
    #[inline]
    pub(crate) fn of(&self, message: &[u8]) -> &ProcedureTime {
        // Program, version and procedure are the fourth word and those behind it (RFC 5531 §9).
        let bytes = |at: usize| message.get(at..).and_then(|rest| rest.first_chunk());
        let word = |at| bytes(at).map_or(0, |word| u32::from_be_bytes(*word));
        let version = (word(12) ^ word(16).rotate_left(16)).wrapping_mul(0x9e37_79b1) >> 16;
        &self.0[version.wrapping_add(word(20)) as usize % TIMES]
    }

    /// The terms of the call in a message. It has no deadline, and no name by which it could be cancelled.
    pub(super) fn terms(&self, owner: Owner, part: u64, message: &[u8]) -> CallTerms {
        CallTerms {
            owner,
            part,
            call: CallId::NONE,
            deadline_ns: u64::MAX,
            work_ns: self.of(message).work_ns(),
            priority: Priority::Normal,
            procedure: None,
            limit: None,
        }
    }
}
