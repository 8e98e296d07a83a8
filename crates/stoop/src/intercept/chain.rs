//! The interceptors of a binding or of a server, in their order, and how a call goes through them.

use crate::error::{CallError, Refusal};
use crate::intercept::{After, Before, CallInfo, Ended, Intercept};
use crate::later::deferred::Deferred;
use crate::panics::end_of_panic;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Interceptors in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct Interceptors {
    all: Vec<Arc<dyn Intercept>>,
    is_timed: bool,
}

/// An interceptor has kept a call from going on.
pub(crate) struct Stopped {
    /// Its place; the ones before it have let the call go on.
    pub(crate) by: usize,
    pub(crate) why: StoppedBy,
}

pub(crate) enum StoppedBy {
    Refusal(Refusal),
    /// With its message.
    Panic(String),
    /// It decides later.
    Later(Deferred<Before>),
}

/// Text of the refusal of a call when the means to decide about it later was dropped.
pub(crate) const UNDECIDED: &str = "its interceptor was to decide later, and has dropped the reply";

/// An `after` has panicked: the interceptor's name, and the message.
pub(crate) struct Panicked {
    pub(crate) name: String,
    pub(crate) message: String,
}

impl Interceptors {
    pub(crate) fn add(&mut self, interceptor: Arc<dyn Intercept>) {
        self.is_timed |= interceptor.is_timed();
        self.all.push(interceptor);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one of them asks for the time that calls take.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    pub(crate) fn name(&self, place: usize) -> String {
        let name = || self.all[place].name().to_owned();
        catch_unwind(AssertUnwindSafe(name)).unwrap_or_else(|_| "an interceptor".into())
    }

    /// Runs `before` of all from that place on.
    ///
    /// # Errors
    /// One of them has not let the call go on.
    #[inline]
    pub(crate) fn before(&self, call: &mut CallInfo<'_>, from: usize) -> Result<(), Stopped> {
        for (by, interceptor) in self.all.iter().enumerate().skip(from) {
            call.call.place = by;
            let why = match catch_unwind(AssertUnwindSafe(|| interceptor.before(call))) {
                Ok(Before::Go) => continue,
                Ok(Before::Refuse(refusal)) => StoppedBy::Refusal(refusal),
                Ok(Before::Later(decision)) => StoppedBy::Later(decision),
                Err(panic) => StoppedBy::Panic(end_of_panic(panic)),
            };
            return Err(Stopped { by, why });
        }
        Ok(())
    }

    /// Runs `after` of the one at that place.
    ///
    /// # Errors
    /// It has panicked.
    #[inline]
    pub(crate) fn after(
        &self,
        place: usize,
        call: &mut CallInfo<'_>,
        outcome: Option<Result<(), &CallError>>,
    ) -> Result<After, Panicked> {
        call.call.place = place;
        let ended = Ended::new(outcome, call);
        let interceptor = &self.all[place];
        let after = catch_unwind(AssertUnwindSafe(|| interceptor.after(call, &ended)));
        after.map_err(|panic| Panicked { name: self.name(place), message: end_of_panic(panic) })
    }
}

impl After {
    /// The pause, if the call is to be made once more.
    pub(crate) fn pause(self) -> Option<Duration> {
        match self {
            Self::Return => None,
            Self::Again(pause) => Some(pause),
        }
    }
}

impl fmt::Debug for Interceptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len()).map(|place| self.name(place))).finish()
    }
}
