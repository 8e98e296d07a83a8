//! The programs of a server, found by their numbers.

use crate::program::{IncomingCall, NoResult, Program, VersionId};
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use stoop_onc::message::{Accepted, VersionRange};

/// All versions of all programs. A call is found in the same time, whatever their number.
#[derive(Clone, Default)]
pub(crate) struct Programs {
    versions: HashMap<VersionId, Arc<dyn Program>>,
    ranges: HashMap<u32, VersionRange>,
}

impl Programs {
    /// Adds a version. `false`: it is there already.
    pub(crate) fn add(&mut self, program: Arc<dyn Program>) -> bool {
        let id = program.version();
        let range =
            self.ranges.entry(id.program).or_insert(VersionRange { low: id.version, high: id.version });
        (range.low, range.high) = (range.low.min(id.version), range.high.max(id.version));
        self.versions.insert(id, program).is_none()
    }

    /// The versions, in no particular order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = VersionId> + '_ {
        self.versions.keys().copied()
    }

    /// A version, or the protocol's word that it is not there.
    #[inline]
    pub(crate) fn find(&self, id: VersionId) -> Result<&dyn Program, Accepted> {
        match self.versions.get(&id) {
            Some(program) => Ok(&**program),
            None => Err(self
                .ranges
                .get(&id.program)
                .map_or(Accepted::ProgramUnavailable, |range| Accepted::ProgramMismatch(*range))),
        }
    }
}

/// Runs a procedure of a version. Procedure 0 is there, even if the program does not say so (RFC 5531 §12.1).
#[inline]
pub(crate) fn dispatch(program: &dyn Program, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
    match catch_unwind(AssertUnwindSafe(|| program.dispatch(call))).unwrap_or_else(|panic| Err(ended(panic)))
    {
        Err(NoResult::ProcedureUnavailable) if call.procedure() == 0 => call.reply(&()),
        outcome => outcome,
    }
}

/// Why there is no result of a procedure that has unwound: what it has said ([`deny`](crate::program::deny)), or it has panicked.
#[cold]
fn ended(panic: Box<dyn Any + Send>) -> NoResult {
    match panic.downcast() {
        Ok(why) => *why,
        // The panic's message is on standard error.
        Err(panic) => {
            // The value that the procedure threw may panic once more when it is dropped. That must not end the worker.
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                std::mem::forget(another);
            }
            NoResult::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty(VersionId);

    impl Program for Empty {
        fn version(&self) -> VersionId {
            self.0
        }

        fn dispatch(&self, _: &mut IncomingCall<'_>) -> Result<(), NoResult> {
            Err(NoResult::ProcedureUnavailable)
        }
    }

    #[test]
    fn each_of_ten_thousand_versions_is_found_and_others_are_told_the_range() {
        let mut programs = Programs::default();
        for program in 0..1000 {
            for version in 3..13 {
                assert!(programs.add(Arc::new(Empty(VersionId { program, version }))));
            }
        }
        for program in 0..1000 {
            for version in 3..13 {
                let id = VersionId { program, version };
                assert_eq!(programs.find(id).map(|found| found.version()), Ok(id));
            }
        }
        let range = VersionRange { low: 3, high: 12 };
        let missing = |program, version| programs.find(VersionId { program, version }).map(drop).unwrap_err();
        assert_eq!(missing(7, 2), Accepted::ProgramMismatch(range));
        assert_eq!(missing(1000, 3), Accepted::ProgramUnavailable);
        assert!(!programs.add(Arc::new(Empty(VersionId { program: 7, version: 3 }))));
    }
}
