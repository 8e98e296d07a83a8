//! What programs want to call, as a scenario has it.

use crate::Scenario;
use crate::random::Random;
use crate::task::Manner;
use core::time::Duration;

/// A call that a program wants to make.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) work: Duration,
    pub(crate) manner: Manner,
    /// To the deadline.
    pub(crate) limit: Duration,
    pub(crate) idempotent: bool,
    /// Bytes of the arguments, or as many as are needed.
    pub(crate) arguments: usize,
    /// Bytes of the result, or as many as are needed.
    pub(crate) result: usize,
}

impl Scenario {
    /// A thread's next call, and after what time it is cancelled, if it is.
    pub(crate) fn wish(&self, random: &mut Random) -> (Wish, Option<Duration>) {
        let work = if random.chance(self.instant) { Duration::ZERO } else { random.between(self.work) };
        let manner = if random.chance(self.panics) {
            Manner::Panics
        } else if random.chance(self.bad_arguments) {
            Manner::BadArguments
        } else {
            Manner::Returns
        };
        let limit = random.between(self.deadline);
        let idempotent = random.chance(self.idempotent);
        let arguments = if random.chance(self.long) { 1440 } else { random.size(self.arguments) };
        let result = random.size(self.results);
        let cancelled = random.chance(self.cancels).then(|| match self.cancel_after {
            Some(span) => random.between(span),
            // Most of them early, where there is more to go wrong.
            None => random.between((Duration::ZERO, limit)) / random.pick(&[1, 10, 100, 1000]),
        });
        (Wish { work, manner, limit, idempotent, arguments, result }, cancelled)
    }
}
