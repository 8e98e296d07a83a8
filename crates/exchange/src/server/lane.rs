//! What a server knows of one lane, and the server's half of the protocol as a table.

use super::assignment::Assignment;
use crate::Instant;
use alloc::boxed::Box;
use stoop_wire::{CallNumber, Header, Kind, RefusalCode};

/// One lane of a binding. Its last call number lives as long as the binding.
#[derive(Debug)]
pub(super) struct LaneState<P> {
    /// The newest call that was begun.
    pub(super) number: CallNumber,
    phase: Phase<P>,
    /// A newer call, which starts when the one that runs has returned.
    pub(super) parked: Option<Box<Parked<P>>>,
}

#[derive(Debug)]
enum Phase<P> {
    /// No call yet.
    Fresh,
    /// The newest call has been given out.
    Running,
    /// It has been answered, and the answer is kept, unchanged since it was first sent.
    Ended(Assignment<P>),
    /// It has been answered, and its caller has stopped waiting for the answer.
    Gone,
    /// The same, but what it was answered was that it did not run; and that stays true.
    Refused(RefusalCode),
}

/// A call that came before the one before it had returned.
#[derive(Debug)]
pub(super) struct Parked<P> {
    pub(super) number: CallNumber,
    pub(super) peer: P,
    pub(super) arrived: Instant,
    pub(super) packet: Box<[u8]>,
}

/// How a packet's call number stands to the newest call of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Newer,
    Same,
    Older,
}

impl Age {
    #[inline]
    pub(super) fn of(number: CallNumber, newest: CallNumber) -> Self {
        if number == newest {
            Self::Same
        } else if number.is_after(newest) {
            Self::Newer
        } else {
            Self::Older
        }
    }
}

/// How a packet is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Run the call.
    Start,
    /// Keep the call until the one that runs has returned.
    Park,
    /// Say that the call is here and not answered yet.
    Acknowledge,
    /// Send the retained answer again.
    Resend,
    /// Say that the call ran and that its result is gone.
    SayGone,
    /// Say once more that the call did not run.
    SayRefused(RefusalCode),
    /// Say nothing.
    Drop,
}

impl<P> Phase<P> {
    /// What remains when an answer is not kept: whether the call ran.
    fn without(answered: &Assignment<P>) -> Self {
        match Header::parse(answered.answer()) {
            Ok((header, _)) if header.kind == Kind::Refusal => {
                Self::Refused(RefusalCode::from_code(header.time))
            }
            _ => Self::Gone,
        }
    }

    #[inline]
    fn on_call(&self, age: Age) -> Answer {
        match (self, age) {
            (_, Age::Older) => Answer::Drop,
            (Self::Running, Age::Newer) => Answer::Park,
            (_, Age::Newer) => Answer::Start,
            (_, Age::Same) => self.again(),
        }
    }

    fn on_probe(&self, age: Age) -> Answer {
        match age {
            Age::Same => self.again(),
            // What a caller probes it has been told that we have: a newer one is a stray.
            Age::Newer | Age::Older => Answer::Drop,
        }
    }

    fn again(&self) -> Answer {
        match self {
            Self::Fresh => Answer::Drop,
            Self::Running => Answer::Acknowledge,
            Self::Ended(_) => Answer::Resend,
            Self::Gone => Answer::SayGone,
            Self::Refused(code) => Answer::SayRefused(*code),
        }
    }
}

impl<P> Default for LaneState<P> {
    fn default() -> Self {
        Self { number: CallNumber::ZERO, phase: Phase::Fresh, parked: None }
    }
}

impl<P> LaneState<P> {
    #[inline]
    pub(super) fn on_call(&self, age: Age) -> Answer {
        self.phase.on_call(age)
    }

    pub(super) fn on_probe(&self, age: Age) -> Answer {
        self.phase.on_probe(age)
    }

    /// The newest call is given out; the answer to the one before is no longer needed.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<Assignment<P>> {
        match core::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Ended(retained) => Some(retained),
            Phase::Fresh | Phase::Running | Phase::Gone | Phase::Refused(_) => None,
        }
    }

    /// The newest call has been answered.
    #[inline]
    pub(super) fn end(&mut self, answered: Assignment<P>) {
        self.phase = Phase::Ended(answered);
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// The retained answer as it was sent.
    pub(super) fn retained(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Ended(answered) => Some(answered.answer()),
            _ => None,
        }
    }

    /// The newest call has been answered, and there is no room to keep the answer. What is known of it stays.
    #[cold]
    pub(super) fn end_unretained(&mut self, answered: Assignment<P>) -> Assignment<P> {
        self.phase = Phase::without(&answered);
        answered
    }

    /// Lets go of an answer for which nobody waits any more.
    pub(super) fn release(&mut self, now: Instant) -> Option<Assignment<P>> {
        let Phase::Ended(answered) = &self.phase else { return None };
        if now <= answered.deadline {
            return None;
        }
        let without = Phase::without(answered);
        match core::mem::replace(&mut self.phase, without) {
            Phase::Ended(answered) => Some(answered),
            _ => None,
        }
    }

    /// Answers retained and calls that wait.
    pub(super) fn packets(&self) -> usize {
        usize::from(matches!(self.phase, Phase::Ended(_))) + usize::from(self.parked.is_some())
    }

    pub(super) fn bytes_held(&self) -> usize {
        let retained = if let Phase::Ended(answered) = &self.phase { answered.bytes_held() } else { 0 };
        size_of::<Self>() + retained + self.parked.as_ref().map_or(0, |parked| parked.packet.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// A change of protocol is a line in the review.
    #[test]
    fn the_table_is_the_one_under_version_control() {
        let ended = Phase::Ended(Assignment::blank(()));
        let phases = [
            ("Fresh", Phase::Fresh),
            ("Running", Phase::Running),
            ("Ended", ended),
            ("Gone", Phase::Gone),
            ("Refused", Phase::Refused(RefusalCode::Overloaded)),
        ];
        let mut table = String::new();
        for (name, phase) in phases {
            for age in [Age::Newer, Age::Same, Age::Older] {
                table += &format!("{name} × {age:?} call → {:?}\n", phase.on_call(age));
                table += &format!("{name} × {age:?} probe → {:?}\n", phase.on_probe(age));
            }
        }
        assert_eq!(table, include_str!("lane.table"), "the table is now:\n{table}");
    }

    #[test]
    fn an_idle_lane_is_small() {
        assert!(size_of::<LaneState<[u8; 64]>>() <= 64, "{}", size_of::<LaneState<[u8; 64]>>());
    }
}
