//! Begun calls that are made apart from the others: at the next server, while the one that shuts down still runs some.
//!
//! The begun calls of a binding share an endpoint. It leads to the server that shuts down until the calls which that server runs have ended.
//! Calls that it has refused, and calls that have not left yet, do not wait for that: threads make them like blocking calls, each on a
//! lane of its thread, which leads to the next server.

use crate::calling::fate::not_bound;
use crate::error::{BindError, CallError, SendError};
use crate::transport::contract::{Binding, Lane};
use crate::transport::packet::begun::PacketCalls;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::begun::wakeups::Wakeups;
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::now;
use crate::transport::packet::session::Session;
use std::sync::Arc;
use std::thread;
use stoop_calls::life::Told;
use stoop_exchange::Instant;
use stoop_net::threads;
use stoop_wire::HEADER_LEN;

/// Most calls that are made apart at a time.
const AT_A_TIME: usize = 16;

/// A call that is made apart.
struct Apart {
    call: u32,
    procedure: u16,
    arguments: Vec<u8>,
    deadline: Instant,
}

/// Whether the call has not run, and waits for the next server.
fn waits(slot: &Slot) -> bool {
    match slot.stage {
        Stage::Waiting => true,
        Stage::Unbound => slot.refused.is_some(),
        _ => false,
    }
}

impl<L: PacketLink> Calls<L> {
    /// Whether calls wait for the next server while the one that shuts down runs others.
    pub(crate) fn is_split(&self) -> bool {
        self.leaves && self.has_sent() && self.slots.iter().any(waits)
    }

    /// If calls are to be made apart: the session that is to be left, and the last deadline of these calls.
    fn split(&self) -> Option<(Arc<Session>, Instant)> {
        let deadlines = self.slots.iter().filter(|slot| waits(slot)).map(|slot| slot.deadline);
        self.is_split().then(|| (Arc::clone(&self.session), deadlines.max().unwrap_or_default()))
    }

    /// The next call to make apart; `None` if there is none, or if all calls can leave for the next server together.
    fn next_apart(&mut self) -> Option<Apart> {
        while self.is_split() {
            let call = self.slots.iter().position(waits)? as u32;
            let slot = &mut self.slots[call as usize];
            if slot.owner == Owner::Cancelled {
                self.end(call, None);
                continue;
            }
            if slot.stage == Stage::Unbound {
                self.unbound -= 1;
            }
            (slot.stage, slot.refused) = (Stage::Apart, None);
            self.timeouts[call as usize] = u64::MAX;
            let Slot { procedure, deadline, .. } = *slot;
            return Some(Apart { call, procedure, arguments: slot.call[HEADER_LEN..].to_vec(), deadline });
        }
        None
    }

    /// There is no other server: ends the calls that wait for one and were begun before the attempt to bind. A call that was begun later
    /// has an attempt of its own.
    fn end_split(&mut self, attempted: Instant, why: &BindError) {
        let clock = now();
        for call in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[call as usize];
            if waits(slot) && slot.begun <= attempted {
                let refused = slot.refused.take().map(|refused| *refused);
                self.fail(call, refused.unwrap_or_else(|| not_bound(why.clone())), clock);
            }
        }
    }

    /// A call that was made apart has ended.
    fn end_apart(&mut self, call: u32, outcome: Result<Vec<u8>, CallError>) {
        match outcome {
            Ok(result) => self.end_with(call, &result),
            // The lane has noted the failure.
            Err(error) => {
                let slot = &self.slots[call as usize];
                let error = slot.fate.error(Told::Latest, Some(error), || now().since(slot.begun));
                self.end(call, Some(error));
            }
        }
    }
}

impl<L: PacketLink> PacketCalls<L> {
    /// If the server shuts down and still runs calls: makes those that wait for the next server there. Returns whether it has done so.
    #[cold]
    pub(crate) fn make_apart(&self) -> bool {
        let split = self.calls().split();
        let Some((session, deadline)) = split else { return false };
        let attempted = now();
        if let Err(why) = self.link.binding.leave(&session, deadline) {
            let mut calls = self.calls();
            calls.end_split(attempted, &why);
            self.unlock(calls, &mut Wakeups::default());
            return true;
        }
        let waiting = self.calls().slots.iter().filter(|slot| waits(slot)).count();
        thread::scope(|scope| {
            for _ in 1..waiting.min(AT_A_TIME) {
                // Without a thread the others take longer.
                let _ = threads::start_in(scope, "stoop-apart", || self.make_each());
            }
            self.make_each();
        });
        true
    }

    fn make_each(&self) {
        loop {
            let next = self.calls().next_apart();
            let Some(apart) = next else { return };
            let outcome = self.make(&apart);
            let mut calls = self.calls();
            calls.end_apart(apart.call, outcome);
            self.unlock(calls, &mut Wakeups::default());
        }
    }

    /// Makes a call on a lane of this thread.
    fn make(&self, apart: &Apart) -> Result<Vec<u8>, CallError> {
        let left_ns = apart.deadline.nanos_since(now());
        let mut lane = self.link.binding.hold(left_ns)?;
        let mut arguments = lane.arguments();
        if let Some(room) = arguments.chunk(1, apart.arguments.len()) {
            room.copy_from_slice(&apart.arguments);
        }
        let len = arguments.finish().map_err(|why| CallError::not_sent(SendError::Arguments(why)))?;
        lane.make_begun(apart.procedure, len)?;
        Ok(lane.result().to_vec())
    }
}
