//! Begun calls that the server has refused, and that are sent again: later if it is overloaded, to the next server if it shuts down.

use crate::error::{CallError, RefusalCode};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Owner, Stage};
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::session::Session;
use std::sync::Arc;
use std::time::Duration;
use stoop_calls::life::Next;
use stoop_exchange::Instant;

/// Time until the next attempt of a call that is to come again and finds no room.
const NO_ROOM: Duration = Duration::from_millis(1);

impl<L: PacketLink> Calls<L> {
    /// Ends a call with this error of its latest attempt, unless that is a refusal after which the call is sent again.
    #[cold]
    pub(super) fn fail_or_come_again(&mut self, call: u32, error: CallError, clock: Instant) {
        if matches!(&error, CallError::Refused(why, ..) if why.code == RefusalCode::ShuttingDown) {
            // Calls that run there go on, also if this one does not go elsewhere.
            self.session.note_closing();
        }
        if self.slots[call as usize].owner == Owner::Cancelled {
            return self.end(call, Some(error));
        }
        if self.slots[call as usize].pipes.is_some() {
            return self.fail(call, error, clock);
        }
        let (link, begun) = (Arc::clone(&self.link), self.counters().calls);
        let slot = &mut self.slots[call as usize];
        let (deadline, idempotent) = (slot.deadline, link.binding.is_idempotent(slot.procedure));
        let wait = |refused, refusals| link.binding.wait_after_begun(begun, refused, refusals, deadline);
        match slot.fate.after_error(&error, idempotent, wait) {
            Next::End(_) => self.fail(call, error, clock),
            Next::Later(wait) => self.postpone(call, error, clock + wait),
            Next::Bind(_) | Next::Send => self.leave_with(call, error),
        }
    }

    /// Has a refused call wait until that time.
    fn postpone(&mut self, call: u32, error: CallError, until: Instant) {
        self.stop_transfers(call);
        let slot = &mut self.slots[call as usize];
        (slot.stage, slot.refused) = (Stage::Postponed, Some(Box::new(error)));
        self.timeouts[call as usize] = until.as_nanos();
        self.look_by(until);
    }

    /// The time has come for a call that was postponed.
    pub(super) fn come_again(&mut self, call: u32, clock: Instant) {
        self.note_session();
        let slot = &mut self.slots[call as usize];
        if clock >= slot.deadline {
            let refused = slot.refused.take().expect("it was refused");
            return self.fail(call, *refused, clock);
        }
        if self.leaves {
            return self.wait_unbound(call);
        }
        if !slot.is_large && self.flow.room(clock) == 0 {
            self.timeouts[call as usize] = (clock + NO_ROOM).as_nanos();
            return;
        }
        slot.refused = None;
        if !slot.is_large {
            slot.is_under_way = true;
            self.flow.on_sent(1);
        }
        if slot.session.generation != self.generation {
            self.move_to(call, Arc::clone(&self.session));
        }
        self.start_over(call, clock);
    }

    /// A call was refused because the server shuts down: it waits for the next.
    fn leave_with(&mut self, call: u32, error: CallError) {
        self.session.note_closing();
        self.leaves = true;
        self.slots[call as usize].refused = Some(Box::new(error));
        self.await_rebind(call);
    }

    /// Whether calls have been sent and not ended.
    pub(crate) fn has_sent(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.stage, Stage::Sent | Stage::Draining))
    }

    /// Whether calls wait for the next server, and the one that shuts down has finished all that it has.
    pub(crate) fn can_leave(&self) -> bool {
        self.leaves && (self.unbound > 0 || !self.waiting.is_empty()) && !self.has_sent()
    }

    /// The session that is to be left, and the last deadline of the calls that wait for the next server.
    pub(crate) fn left(&self) -> Option<(Arc<Session>, Instant)> {
        let waits = |stage| matches!(stage, Stage::Unbound | Stage::Waiting);
        let deadlines = self.slots.iter().filter(|slot| waits(slot.stage)).map(|slot| slot.deadline);
        self.can_leave().then(|| (Arc::clone(&self.session), deadlines.max().unwrap_or_default()))
    }

    /// There is no other server: ends the calls that the one that shuts down has refused. Others leave for it, and are refused.
    pub(crate) fn stay(&mut self, clock: Instant) {
        self.leaves = false;
        for call in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[call as usize];
            if slot.stage == Stage::Unbound
                && let Some(refused) = slot.refused.take()
            {
                self.fail(call, *refused, clock);
            }
        }
    }
}
