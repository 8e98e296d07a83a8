//! The server's state of one lane, and the server's half of the protocol as a table.

use super::agenda::{Agenda, LaneKey};
use super::assignment::Assignment;
use super::large::Large;
use super::parked::Parked;
use super::pipe_state::Pipes;
use super::retained::{Copied, Freed, OFTEN, Retention};
use super::unasked::Acknowledged;
use crate::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{CallNumber, Header, Kind, RefusalCode};

/// A lane of a binding. Its last call number lives as long as the binding.
#[derive(Debug)]
pub(super) struct LaneState<P> {
    /// The newest call that was begun.
    pub(super) number: CallNumber,
    /// How the answer of the call that runs will be retained, or that of the last call is.
    pub(super) retention: Retention,
    pub(super) acknowledged: Acknowledged,
    phase: Phase<P>,
    /// A newer call, which starts after the running one has returned.
    pub(super) parked: Option<Box<Parked<P>>>,
    /// State of messages of many packets.
    pub(super) large: Option<Box<Large<P>>>,
}

#[derive(Debug)]
enum Phase<P> {
    /// No call yet.
    Fresh,
    /// The newest call has been given out and runs.
    Running,
    /// It runs, and its caller has cancelled it.
    RunningCancelled,
    /// It has been answered. The answer is retained, unchanged since it was first sent.
    Ended(Assignment<P>),
    /// The same, with a copy of the answer.
    Copied(Box<Copied<P>>),
    /// It has been answered, and its caller has the whole answer. The packet is kept for the lane's next answer.
    Delivered(Assignment<P>),
    /// It has been answered, and the answer is no longer retained. The peer to which that went, if it was retained.
    Gone(Option<Box<P>>),
    /// It was refused. It did not run, and never will.
    Refused(RefusalCode),
}

/// The number of a lane's newest call and its outcome: enough to answer repeated packets, if no call is under way and no answer is
/// retained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    number: CallNumber,
    outcome: RestOutcome,
}

#[derive(Clone, Copy, Debug)]
enum RestOutcome {
    NoCall,
    Gone,
    Refused(RefusalCode),
}

/// Relation of a packet's call number to the newest call of its lane.
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

/// How to answer a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Run the call.
    Start,
    /// Hold the call until the running one has returned.
    Park,
    /// Say that the call is here and not answered yet.
    Acknowledge,
    /// Send the retained answer again.
    Resend,
    /// Say that the call ran and that its result is gone.
    SayGone,
    /// Say again that the call did not run.
    SayRefused(RefusalCode),
    /// Send nothing.
    Drop,
    /// The call runs: tell its procedure that it is cancelled, and say that it runs.
    TellProcedure,
    /// Release the answer, and say that it is gone.
    Release,
    /// The call has not been seen: remember permanently that it does not run, and say so.
    Forbid,
    /// The same, for a call after the running one.
    ForbidNext,
    /// Give the data to the call's pipe.
    TakeData,
}

/// The reason for which a call was refused, if this is the answer to it.
fn refusal_in(answer: &[u8]) -> Option<RefusalCode> {
    let (header, _) = Header::parse(answer).ok()?;
    (header.kind == Kind::Refusal).then(|| RefusalCode::from_code(header.time))
}

impl<P> Phase<P> {
    /// The phase after a call whose answer is not retained: it keeps whether the call ran.
    fn without(answer: &[u8], peer: P) -> Self {
        refusal_in(answer).map_or_else(|| Self::Gone(Some(Box::new(peer))), Self::Refused)
    }

    #[inline]
    fn on_call(&self, age: Age) -> Answer {
        match (self, age) {
            (_, Age::Older) => Answer::Drop,
            (Self::Running | Self::RunningCancelled, Age::Newer) => Answer::Park,
            (_, Age::Newer) => Answer::Start,
            (_, Age::Same) => self.again(),
        }
    }

    fn on_probe(&self, age: Age) -> Answer {
        match age {
            Age::Same => self.again(),
            // A caller probes only calls that this server has acknowledged, so a newer one is an error.
            Age::Newer | Age::Older => Answer::Drop,
        }
    }

    fn on_cancel(&self, age: Age) -> Answer {
        match (self, age) {
            (_, Age::Older) => Answer::Drop,
            (Self::Running | Self::RunningCancelled, Age::Newer) => Answer::ForbidNext,
            (_, Age::Newer) => Answer::Forbid,
            (Self::Running | Self::RunningCancelled, Age::Same) => Answer::TellProcedure,
            (Self::Ended(_) | Self::Copied(_), Age::Same) => Answer::Release,
            (_, Age::Same) => self.again(),
        }
    }

    fn on_data(&self, age: Age) -> Answer {
        match (self, age) {
            // Data never begins a call.
            (_, Age::Newer | Age::Older) | (Self::RunningCancelled, Age::Same) => Answer::Drop,
            (Self::Running, Age::Same) => Answer::TakeData,
            (_, Age::Same) => self.again(),
        }
    }

    fn again(&self) -> Answer {
        match self {
            Self::Fresh => Answer::Drop,
            Self::Running | Self::RunningCancelled => Answer::Acknowledge,
            Self::Ended(_) | Self::Copied(_) => Answer::Resend,
            Self::Gone(_) | Self::Delivered(_) => Answer::SayGone,
            Self::Refused(code) => Answer::SayRefused(*code),
        }
    }
}

impl<P> Default for LaneState<P> {
    fn default() -> Self {
        Self {
            number: CallNumber::ZERO,
            retention: Retention::Nothing,
            acknowledged: Acknowledged::default(),
            phase: Phase::Fresh,
            parked: None,
            large: None,
        }
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

    pub(super) fn on_cancel(&self, age: Age) -> Answer {
        self.phase.on_cancel(age)
    }

    pub(super) fn on_data(&self, age: Age) -> Answer {
        self.phase.on_data(age)
    }

    /// Whether this call runs, or waits for the one before it: a probe for it would be acknowledged.
    pub(super) fn has_unanswered(&self, number: CallNumber) -> bool {
        match &self.parked {
            Some(parked) if parked.number == number => parked.refused.is_none(),
            // Data waits for the caller's address: a probe of its own tells it.
            _ if self.pipes().is_some_and(Pipes::is_paused) => false,
            _ => self.on_probe(Age::of(number, self.number)) == Answer::Acknowledge,
        }
    }

    /// Whether the lane keeps a packet for its next answer, and has no messages of many packets.
    #[inline]
    pub(super) fn has_packet(&self) -> bool {
        matches!(self.phase, Phase::Ended(_) | Phase::Delivered(_)) && self.large.is_none()
    }

    /// Begins call `number`, now the lane's newest. It acknowledges the answer before it, whose packet is returned for
    /// its own answer. `None`: the lane has no packet, and the call begins [without](Self::begin_without_packet).
    #[inline]
    pub(super) fn begin(&mut self, number: CallNumber) -> Option<Assignment<P>> {
        self.number = number;
        let (Phase::Ended(_) | Phase::Delivered(_)) = &self.phase else { return None };
        match core::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Ended(retained) | Phase::Delivered(retained) => Some(retained),
            _ => None,
        }
    }

    /// The newest call begins, at `now`, in a packet that is not the lane's. `take` takes a unit of the pool of packets
    /// for its answer.
    #[cold]
    pub(super) fn begin_without_packet(&mut self, now: Instant, take: impl FnOnce() -> bool) {
        let before = core::mem::replace(&mut self.phase, Phase::Running);
        self.retention = match (before, self.retention) {
            (Phase::Copied(copied), _) if now.since(copied.arrived) < OFTEN => Retention::Packet,
            (_, Retention::Nothing) if !take() => Retention::Nothing,
            _ => Retention::Copy,
        };
    }

    /// Records that call `number`, now the lane's newest, will never run.
    pub(super) fn forbid(&mut self, number: CallNumber, code: RefusalCode) -> Option<Freed<P>> {
        self.number = number;
        self.leave(Phase::Refused(code))
    }

    /// Goes over to another phase, in which nothing is retained.
    fn leave(&mut self, next: Phase<P>) -> Option<Freed<P>> {
        self.retention = Retention::Nothing;
        match core::mem::replace(&mut self.phase, next) {
            Phase::Ended(retained) | Phase::Delivered(retained) => Some(Freed::Packet(retained)),
            Phase::Copied(_) => Some(Freed::Copy),
            Phase::Fresh | Phase::Running | Phase::RunningCancelled | Phase::Gone(_) | Phase::Refused(_) => {
                None
            }
        }
    }

    /// Records that the running call is cancelled.
    pub(super) fn cancel(&mut self) {
        self.phase = Phase::RunningCancelled;
    }

    pub(super) fn is_cancelled(&self) -> bool {
        matches!(self.phase, Phase::RunningCancelled)
    }

    /// Records that the caller has the whole answer, or does not want it. Returns an answer that is no longer needed
    /// here.
    pub(super) fn deliver(&mut self) -> Option<Freed<P>>
    where
        P: Copy,
    {
        let keeps_packet =
            matches!(&self.phase, Phase::Ended(answered) if refusal_in(answered.answer()).is_none());
        if !keeps_packet {
            return if self.retained().is_some() { self.let_answer_go() } else { None };
        }
        if let Phase::Ended(answered) = core::mem::replace(&mut self.phase, Phase::Gone(None)) {
            self.phase = Phase::Delivered(answered);
        }
        None
    }

    /// Records the answer to the newest call, and retains it.
    #[inline]
    pub(super) fn end(&mut self, answered: Assignment<P>) {
        debug_assert!(self.is_running(), "a call ends once");
        // A call that runs retains nothing: nothing is dropped, which the compiler would call a function for.
        core::mem::forget(core::mem::replace(&mut self.phase, Phase::Ended(answered)));
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::RunningCancelled)
    }

    /// The retained answer as it was sent.
    pub(super) fn retained(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Ended(answered) => Some(answered.answer()),
            Phase::Copied(copied) => Some(&copied.answer),
            _ => None,
        }
    }

    /// The retained answer, and the peer to which it goes.
    pub(super) fn retained_for(&self) -> Option<(P, &[u8])>
    where
        P: Copy,
    {
        match &self.phase {
            Phase::Ended(answered) => Some((answered.peer, answered.answer())),
            Phase::Copied(copied) => Some((copied.peer, &copied.answer)),
            _ => None,
        }
    }

    /// Where the caller was when the lane's last call was answered; `None` while one runs, or if that is not known.
    pub(super) fn idle_peer(&self) -> Option<&P> {
        match &self.phase {
            Phase::Ended(answered) | Phase::Delivered(answered) => Some(&answered.peer),
            Phase::Copied(copied) => Some(&copied.peer),
            Phase::Gone(peer) => peer.as_deref(),
            Phase::Fresh | Phase::Running | Phase::RunningCancelled | Phase::Refused(_) => None,
        }
    }

    /// The pipes of the newest call.
    pub(super) fn pipes(&self) -> Option<&Pipes<P>> {
        self.large.as_ref()?.pipes.as_deref()
    }

    /// Sends the rest of the retained answer, and of the call's pipe, to `peer`, from which the caller was heard last.
    pub(super) fn redirect(&mut self, peer: P)
    where
        P: Copy,
    {
        if let Some(pipes) = self.large.as_mut().and_then(|large| large.pipes.as_mut()) {
            pipes.peer = peer;
        }
        match &mut self.phase {
            Phase::Ended(answered) => answered.0.peer = peer,
            Phase::Copied(copied) => copied.peer = peer,
            _ => {}
        }
    }

    /// Deadline of the newest call, if it has been answered.
    pub(super) fn retained_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Ended(answered) => Some(answered.deadline),
            Phase::Copied(copied) => Some(copied.deadline),
            _ => None,
        }
    }

    /// Records that the newest call was answered, with a copy of the answer, or without if there is no space for it.
    #[cold]
    pub(super) fn end_without_packet(&mut self, answered: Assignment<P>) -> Assignment<P>
    where
        P: Copy,
    {
        self.phase = match self.retention {
            Retention::Nothing => Phase::without(answered.answer(), answered.peer),
            Retention::Copy | Retention::Packet => Phase::Copied(Box::new(Copied::of(&answered))),
        };
        answered
    }

    /// Retains a copy of the answer, and returns its packet, if the lane has not been used for some time before `now`.
    pub(super) fn spare_packet(&mut self, now: Instant) -> Option<Assignment<P>>
    where
        P: Copy,
    {
        let Phase::Ended(answered) = &self.phase else { return None };
        if now.since(answered.arrived) < OFTEN || self.large.is_some() || answered.large_bytes() > 0 {
            return None;
        }
        let copied = Phase::Copied(Box::new(Copied::of(answered)));
        self.retention = Retention::Copy;
        match core::mem::replace(&mut self.phase, copied) {
            Phase::Ended(answered) => Some(answered),
            _ => None,
        }
    }

    /// Releases the retained answer after the deadline of its call.
    pub(super) fn release(&mut self, now: Instant) -> Option<Freed<P>>
    where
        P: Copy,
    {
        let deadline = match &self.phase {
            Phase::Ended(answered) | Phase::Delivered(answered) => answered.deadline,
            Phase::Copied(copied) => copied.deadline,
            _ => return None,
        };
        if now <= deadline { None } else { self.let_answer_go() }
    }

    /// Releases the retained answer, or the packet that is kept for the next one.
    pub(super) fn let_answer_go(&mut self) -> Option<Freed<P>>
    where
        P: Copy,
    {
        let without = match &self.phase {
            Phase::Ended(answered) | Phase::Delivered(answered) => {
                Phase::without(answered.answer(), answered.peer)
            }
            Phase::Copied(copied) => Phase::without(&copied.answer, copied.peer),
            _ => return None,
        };
        self.leave(without)
    }

    /// Frees the state of messages of many packets if there is no such message now. A timer of it is cleared.
    pub(super) fn drop_idle_large(&mut self, agenda: &mut Agenda, lane: LaneKey) {
        if self.large_retained() == 0
            && let Some(idle) = self.large.take_if(|large| large.is_idle())
        {
            agenda.clear_timer(idle.timer, lane);
        }
    }

    /// The same, if it has no timer.
    pub(super) fn drop_unused_large(&mut self) {
        if self.large_retained() == 0 {
            self.large.take_if(|large| large.is_idle() && large.timer == Instant::NEVER);
        }
    }

    /// The number and outcome of the newest call; `None` if a call is under way or an answer is retained.
    pub(super) fn rest(&self) -> Option<Rest> {
        let outcome = match &self.phase {
            Phase::Fresh => RestOutcome::NoCall,
            Phase::Gone(_) => RestOutcome::Gone,
            Phase::Refused(code) => RestOutcome::Refused(*code),
            Phase::Running | Phase::RunningCancelled => return None,
            Phase::Ended(_) | Phase::Copied(_) | Phase::Delivered(_) => return None,
        };
        let is_idle = self.packets() == 0 && self.large.is_none();
        is_idle.then_some(Rest { number: self.number, outcome })
    }

    /// A lane of which only this was remembered.
    pub(super) fn resting(rest: Rest) -> Self {
        let phase = match rest.outcome {
            RestOutcome::NoCall => Phase::Fresh,
            RestOutcome::Gone => Phase::Gone(None),
            RestOutcome::Refused(code) => Phase::Refused(code),
        };
        Self { number: rest.number, phase, ..Self::default() }
    }

    /// Retained answers, packets kept for the next answer, calls that run whose answers will be retained, and waiting
    /// calls.
    pub(super) fn packets(&self) -> usize {
        usize::from(self.retention != Retention::Nothing) + usize::from(self.parked.is_some())
    }

    /// Bytes of the retained or kept packet beyond an ordinary one.
    pub(super) fn large_retained(&self) -> usize {
        match &self.phase {
            Phase::Ended(answered) | Phase::Delivered(answered) => answered.large_bytes(),
            _ => 0,
        }
    }

    /// Bytes of calls of many packets that are arriving or waiting.
    pub(super) fn incomplete(&self) -> usize {
        let waits = self.parked.as_ref().and_then(|parked| parked.message.as_ref()).map_or(0, Vec::len);
        let arriving = self.large.as_ref().and_then(|large| large.incomplete.as_ref());
        waits + arriving.map_or(0, |call| call.message.len())
    }

    pub(super) fn bytes_held(&self) -> usize {
        let retained = match &self.phase {
            Phase::Ended(answered) | Phase::Delivered(answered) => answered.bytes_held(),
            Phase::Copied(copied) => copied.bytes_held(),
            Phase::Gone(Some(_)) => size_of::<P>(),
            _ => 0,
        };
        let parked = self.parked.as_ref().map_or(0, |parked| parked.packet.len());
        let large = self.large.as_ref().map_or(0, |large| large.bytes_held());
        let pipes = self.pipes().map_or(0, Pipes::own_bytes) + self.pipe_bytes();
        size_of::<Self>() + retained + parked + large + self.incomplete() + pipes
    }
}

#[cfg(test)]
mod tests;
