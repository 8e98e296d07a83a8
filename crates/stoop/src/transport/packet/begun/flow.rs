//! Which begun calls of one packet may leave: flow control, and the calls that wait for it.

use crate::calling::submission_queue::SubmissionQueue;
use crate::error::{CallError, SendError};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Owner, Stage};
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::now;
use stoop_exchange::Instant;
use stoop_wire::{HEADER_LEN, Header};

impl<L: PacketLink> Calls<L> {
    /// How many calls may leave now. While older calls wait, new ones wait behind them.
    pub(crate) fn room(&self, clock: Instant) -> usize {
        if self.waiting.is_empty() { self.room_for_waiting(clock) } else { 0 }
    }

    /// How many of the calls that wait may leave now.
    fn room_for_waiting(&self, clock: Instant) -> usize {
        if self.leaves { 0 } else { self.flow.room(clock) as usize }
    }

    /// Has a call wait until it may leave.
    #[cold]
    pub(crate) fn hold(&mut self, call: u32, procedure: u16, times: (Instant, Instant), arguments: &[u8]) {
        self.slots[call as usize].hold(procedure, times, arguments);
        self.timeouts[call as usize] = times.1.as_nanos();
        self.waiting.push_back(call);
    }

    /// Notes that the calls of `queue` leave now, the first of which asks for credit if that is needed.
    pub(crate) fn take_off(&mut self, queue: &mut SubmissionQueue, clock: Instant) {
        self.flow.on_sent(queue.calls().len() as u32);
        if self.flow.asks(clock, !self.waiting.is_empty())
            && let Some((_, packet)) = queue.packets_mut().next()
        {
            Header::set_credit(packet, None);
        }
    }

    /// An expanded call is not under way any more. `heard`: when something was heard about it.
    pub(crate) fn land(&mut self, call: u32, heard: Option<Instant>) {
        let slot = &mut self.slots[call as usize];
        if !std::mem::take(&mut slot.is_under_way) {
            return;
        }
        match heard {
            Some(clock) => self.flow.on_heard(clock, 1, slot.sent),
            None => self.flow.on_forgotten(1),
        }
    }

    /// Whether calls that had to wait may leave now.
    pub(crate) fn may_go_on(&self) -> bool {
        !self.waiting.is_empty() && self.room_for_waiting(now()) > 0
    }

    /// Starts calls that had to wait, as many as may leave together now, and puts their packets into `queue`, which is empty.
    pub(crate) fn start_waiting(&mut self, queue: &mut SubmissionQueue, clock: Instant) {
        self.note_session();
        let room = self.room_for_waiting(clock);
        while queue.calls().len() < room
            && let Some(&call) = self.waiting.front()
        {
            if self.slots[call as usize].stage == Stage::Waiting && !self.start_one(call, queue, clock) {
                break;
            }
            self.waiting.pop_front();
        }
        self.take_off(queue, clock);
    }

    /// `false`: the packet cannot leave with those that are in the queue.
    fn start_one(&mut self, call: u32, queue: &mut SubmissionQueue, clock: Instant) -> bool {
        if self.slots[call as usize].session.generation != self.generation {
            self.renew(call);
        }
        let slot = &mut self.slots[call as usize];
        if slot.owner == Owner::Cancelled {
            self.end(call, None);
            return true;
        }
        if clock >= slot.deadline {
            self.fail(call, CallError::not_sent(SendError::DeadlinePassed), clock);
            return true;
        }
        let (procedure, deadline, begun) = (slot.procedure, slot.deadline, slot.begun);
        if !queue.put_held(call, procedure, &slot.call[HEADER_LEN..]) {
            return false;
        }
        let number = slot.session.bound.number(procedure);
        let (_, packet) = queue.packets_mut().last().expect("it was put there");
        slot.compact.start(clock, deadline, number, packet);
        slot.stage = Stage::Sent;
        if slot.owner != Owner::Handle || slot.waker.is_some() || slot.thread.is_some() {
            slot.expand(self.path);
            slot.begun = begun;
        }
        self.arm(call);
        true
    }
}
